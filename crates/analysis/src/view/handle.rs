//! The half of it that people ask: checks a change, and keeps what is applied.
//!
//! ```text
//!  NewCalibration, NewCut ─ checked here, made ready here ─► wanted ─ try_lock, between two batches ─► Shown
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::applied::{Applied, ChangeKind, NewCalibration, NewCut};
use super::error::ViewError;
use crate::channels::{COEFFICIENTS, ChannelMap, polynomial};
use crate::cut::{self, Expression, Polygon, Scope, polygon};

/// Changes that stand at once, at most.
const MOST_APPLIED: usize = 64;
/// Changes of one run, at most: each is kept in its record.
const MOST_MADE: usize = 1024;
const LONGEST_NAME: usize = 100;
const LONGEST_EXPRESSION: usize = 2000;
const NS_PER_SECOND: f64 = 1e9;

/// What is shown of a run, to be changed and looked at from any thread. Cheap to clone; every clone is of the same run.
#[derive(Clone, Debug)]
pub struct View(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// As the configuration says.
    configured: Arc<ChannelMap>,
    cut_names: Vec<String>,
    polygons: Vec<Polygon>,
    polygon_names: Vec<String>,
    /// There are spectra in keV, and spectra of what cuts keep.
    shows: Shows,
    /// How often it was changed: the data path looks at this number only.
    changed: AtomicU32,
    wanted: Mutex<Wanted>,
}

/// Which spectra there are to show a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shows {
    /// Those of calibrated energies.
    pub kev: bool,
    /// Those of what cuts keep.
    pub kept: bool,
}

/// What shall be shown, as it was asked for last.
#[derive(Debug)]
pub(super) struct Wanted {
    pub map: Arc<ChannelMap>,
    standing: Vec<Standing>,
    /// Reverted and replaced ones, oldest first.
    former: Vec<Applied>,
    made: u32,
    is_over: bool,
}

#[derive(Debug)]
struct Standing {
    applied: Applied,
    does: Does,
}

#[derive(Debug)]
enum Does {
    /// The channel in this row has another calibration in the map.
    Calibrate(usize),
    Cut(Box<Expression>),
}

impl View {
    /// Of a run with these channels, cuts and polygons.
    ///
    /// # Errors
    /// When a polygon is invalid.
    pub(crate) fn new(
        map: &Arc<ChannelMap>,
        cuts: &[cut::Settings],
        polygons: &[polygon::Settings],
        shows: Shows,
    ) -> Result<View, cut::CutError> {
        let wanted =
            Wanted { map: map.clone(), standing: Vec::new(), former: Vec::new(), made: 0, is_over: false };
        Ok(View(Arc::new(Shared {
            configured: map.clone(),
            cut_names: cuts.iter().map(|cut| cut.name.clone()).collect(),
            polygons: polygons.iter().map(Polygon::new).collect::<Result<_, _>>()?,
            polygon_names: polygons.iter().map(|polygon| polygon.name.clone()).collect(),
            shows,
            changed: AtomicU32::new(0),
            wanted: Mutex::new(wanted),
        })))
    }

    /// Shows the energies of a channel by another calibration, from the next batch on. One that was applied to it before is replaced.
    ///
    /// # Errors
    /// When no source sends the channel, the calibration does not rise, there is no spectrum to show it, or the run is over.
    pub fn calibrate(&self, new: &NewCalibration) -> Result<Applied, ViewError> {
        let row = self.0.configured.row(new.channel).ok_or(ViewError::Channel(new.channel))?;
        let energy_kev = polynomial(new.channel, &new.energy_kev)?;
        check_rise(new, &energy_kev)?;
        if !self.0.shows.kev {
            return Err(ViewError::NoSpectra("calibrated energies"));
        }
        let mut wanted = self.wanted();
        let replaced = wanted.standing.iter().position(|standing| standing.calibrates(row));
        let number = wanted.next_number(replaced.is_some())?;
        if let Some(replaced) = replaced {
            wanted.end(replaced);
        }
        let name = self.0.configured.channels()[row].name.clone();
        let applied = Applied::new(number, ChangeKind::Calibration, name, new.lines());
        let applied = Applied { channel: Some(new.channel), ..applied };
        wanted.map = Arc::new(wanted.map.calibrated(row, Some(energy_kev)));
        wanted.standing.push(Standing { applied: applied.clone(), does: Does::Calibrate(row) });
        self.say_so();
        Ok(applied)
    }

    /// Shows only hits that a further cut keeps, from the next batch on.
    ///
    /// # Errors
    /// When the cut or its region is invalid, its name is in use, as many are applied as can be, there are no spectra to show it, or the
    /// run is over.
    pub fn cut(&self, new: &NewCut) -> Result<Applied, ViewError> {
        if !self.0.shows.kept {
            return Err(ViewError::NoSpectra("what cuts keep"));
        }
        let expression = self.expression(new)?;
        let mut wanted = self.wanted();
        let is_applied = |standing: &Standing| {
            standing.applied.kind == ChangeKind::Cut && standing.applied.name == new.name
        };
        if self.0.cut_names.contains(&new.name) || wanted.standing.iter().any(is_applied) {
            return Err(ViewError::Taken { what: "cut", name: new.name.clone() });
        }
        let number = wanted.next_number(false)?;
        let applied = Applied::new(number, ChangeKind::Cut, new.name.clone(), new.lines());
        wanted.standing.push(Standing { applied: applied.clone(), does: Does::Cut(Box::new(expression)) });
        self.say_so();
        Ok(applied)
    }

    fn expression(&self, new: &NewCut) -> Result<Expression, ViewError> {
        if new.name.trim().is_empty() {
            return Err(cut::CutError::Nameless.into());
        }
        check_length("name", &new.name, LONGEST_NAME)?;
        check_length("cut", &new.keep, LONGEST_EXPRESSION)?;
        let mut polygons = self.0.polygons.clone();
        if let Some(polygon) = &new.polygon {
            check_length("name", &polygon.name, LONGEST_NAME)?;
            if self.0.polygon_names.contains(&polygon.name) {
                return Err(ViewError::Taken { what: "polygon", name: polygon.name.clone() });
            }
            polygons.push(Polygon::new(polygon)?);
        }
        let of = |error| cut::CutError::Of { name: new.name.clone(), error: Box::new(error) };
        Ok(Expression::parse(&new.keep, Scope::Hit, &polygons).map_err(of)?)
    }

    /// Takes a change back, from the next batch on: a calibration of the configuration is shown again.
    ///
    /// # Errors
    /// When none of this number stands, or the run is over.
    pub fn revert(&self, number: u32) -> Result<Applied, ViewError> {
        let mut wanted = self.wanted();
        if wanted.is_over {
            return Err(ViewError::Over);
        }
        let place = wanted.standing.iter().position(|standing| standing.applied.number == number);
        let place = place.ok_or(ViewError::Unknown(number))?;
        if let Does::Calibrate(row) = wanted.standing[place].does {
            let configured = self.0.configured.channels()[row].energy_kev;
            wanted.map = Arc::new(wanted.map.calibrated(row, configured));
        }
        let applied = wanted.end(place);
        self.say_so();
        Ok(applied)
    }

    /// What stands, in the order in which it was applied.
    pub fn standing(&self) -> Vec<Applied> {
        self.wanted().standing.iter().map(|standing| standing.applied.clone()).collect()
    }

    /// All that was ever applied, for the record of the run.
    pub fn history(&self) -> Vec<Applied> {
        let wanted = self.wanted();
        let standing = wanted.standing.iter().map(|standing| &standing.applied);
        let mut all: Vec<Applied> = wanted.former.iter().chain(standing).cloned().collect();
        all.sort_by_key(|applied| applied.number);
        all
    }

    /// As the configuration says.
    pub(super) fn configured(&self) -> &Arc<ChannelMap> {
        &self.0.configured
    }

    /// Counts the changes that were asked for.
    pub(super) fn changes(&self) -> u32 {
        self.0.changed.load(Ordering::Acquire)
    }

    /// For the data path, which waits for nobody: `None` while somebody else looks.
    pub(super) fn try_wanted(&self) -> Option<MutexGuard<'_, Wanted>> {
        match self.0.wanted.try_lock() {
            Ok(wanted) => Some(wanted),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say_so(&self) {
        self.0.changed.fetch_add(1, Ordering::AcqRel);
    }
}

impl Standing {
    fn calibrates(&self, row: usize) -> bool {
        matches!(self.does, Does::Calibrate(own) if own == row)
    }
}

impl Wanted {
    fn next_number(&mut self, replaces: bool) -> Result<u32, ViewError> {
        if self.is_over {
            return Err(ViewError::Over);
        }
        if self.standing.len() >= MOST_APPLIED && !replaces {
            return Err(ViewError::Full(MOST_APPLIED));
        }
        if self.made as usize >= MOST_MADE {
            return Err(ViewError::TooMany(MOST_MADE));
        }
        self.made += 1;
        Ok(self.made)
    }

    /// Puts one away; when it ended is known when the data path follows.
    fn end(&mut self, place: usize) -> Applied {
        let Standing { applied, .. } = self.standing.remove(place);
        self.former.push(applied.clone());
        applied
    }

    /// The data path follows with the batch of this mark: hits behind `after_ps` are shown so.
    pub(super) fn follow(&mut self, mark_ns: u64, after_ps: i64) {
        let seconds = mark_ns as f64 / NS_PER_SECOND;
        for Standing { applied, .. } in &mut self.standing {
            if applied.since_seconds.is_none() {
                (applied.since_seconds, applied.after_ps) = (Some(seconds), Some(after_ps));
            }
        }
        // One that was taken back before it was followed has never been shown.
        for applied in self.former.iter_mut().filter(|applied| applied.since_seconds.is_some()) {
            applied.until_seconds.get_or_insert(seconds);
        }
    }

    /// The cuts that stand, by number.
    pub(super) fn cuts(&self) -> impl Iterator<Item = (u32, &Expression)> {
        self.standing.iter().filter_map(|standing| match &standing.does {
            Does::Cut(expression) => Some((standing.applied.number, &**expression)),
            Does::Calibrate(_) => None,
        })
    }

    /// Enters how much a cut has kept.
    pub(super) fn count(&mut self, number: u32, passed: cut::Passed) {
        let standing = self.standing.iter_mut().map(|standing| &mut standing.applied);
        let applied = standing.chain(&mut self.former).find(|applied| applied.number == number);
        if let Some(applied) = applied {
            applied.count(passed);
        }
    }

    pub(super) fn close(&mut self) {
        self.is_over = true;
    }
}

fn check_length(what: &'static str, text: &str, most: usize) -> Result<(), ViewError> {
    let length = text.chars().count();
    if length > most { Err(ViewError::Long { what, length, most }) } else { Ok(()) }
}

/// A calibration whose energies do not rise would fold a spectrum onto itself.
fn check_rise(new: &NewCalibration, energy_kev: &[f64; COEFFICIENTS]) -> Result<(), ViewError> {
    let kev = |energy: u16| energy_kev.iter().rev().fold(0.0, |sum, each| sum * f64::from(energy) + each);
    // A number beyond what a float holds is not below the next one, either.
    let rises = |from: &u16| kev(*from) < kev(from + 1) && kev(from + 1).is_finite();
    match (0..u16::MAX).find(|from| !rises(from)) {
        None => Ok(()),
        Some(from) => {
            let (channel, given) = (new.channel, new.energy_kev.clone());
            Err(ViewError::Falls { channel, given, from, to: from + 1 })
        }
    }
}
