//! Which spectra a run has: made once from the settings, with the place of each one's bins.
//!
//! ```text
//!  [spectra], [[spectrum]], channels ──► Info 0 │ Info 1 │ …     bins: 0‥4096 │ 4096‥8192 │ …
//! ```

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::axis::Axis;
use super::settings::{At, Settings, SpectrumError, SpectrumSettings};
use crate::channels::ChannelMap;
use crate::cut::Field;

/// Bins of all spectra together, at most: 4 GiB of them.
const MOST_BINS_TOGETHER: usize = 1 << 30;

/// What a spectrum is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Measured energies of one channel.
    Energy,
    /// Calibrated energies of one channel.
    Kev,
    /// Energy against pulse shape of one channel.
    Plane,
    /// Signed times of one channel's hits after another hit of their events.
    TimeDifference,
    /// The user's own.
    Own,
}

/// Default spectra that a run does not have because `memory_bytes` has no space for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BeyondMemory {
    /// Those of every kind.
    All,
    /// The planes of energy against pulse shape.
    Planes,
}

/// One spectrum, but for its counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Its number.
    pub id: u32,
    /// What it is called.
    pub name: String,
    /// What it is filled with.
    pub kind: Kind,
    /// Where it is filled.
    pub at: At,
    /// The channel whose hits it has, if it is of one.
    pub channel: Option<u16>,
    /// Its axes, one or two.
    pub axes: Vec<Axis>,
    #[serde(skip)]
    pub(super) first_bin: usize,
}

impl Info {
    /// How many bins it has.
    pub fn bins(&self) -> usize {
        self.axes.iter().map(|axis| axis.bins as usize).product()
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.first_bin..self.first_bin + self.bins()
    }
}

/// First spectra of one kind, by row of the channel map: the spectrum of row k is `first + k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub first: usize,
    /// How many channels, hence spectra.
    pub count: usize,
    pub first_bin: usize,
    /// Bins of each.
    pub stride: usize,
}

impl Block {
    /// The bins of one row.
    pub fn range(self, row: usize) -> Range<usize> {
        let first = self.first_bin + row * self.stride;
        first..first + self.stride
    }
}

/// The default spectra of one place on the path. Where there are cuts, the bins of those received have only the hits that the cuts
/// take away: see [`Catalogue::kept_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    pub energy: Block,
    pub kev: Option<Block>,
    pub plane: Option<Block>,
}

impl Standard {
    fn blocks(self) -> impl Iterator<Item = Block> {
        [Some(self.energy), self.kev, self.plane].into_iter().flatten()
    }
}

/// Everything there is.
#[derive(Clone, Debug)]
pub(super) struct Catalogue {
    pub spectra: Vec<Info>,
    pub bins: usize,
    pub received: Option<Standard>,
    pub kept: Option<Standard>,
    pub differences: Option<Block>,
    /// What the settings ask for and their memory has no space for.
    pub beyond_memory: Option<BeyondMemory>,
    /// Whether time differences are taken against a reference that the user chose.
    pub has_reference: bool,
    /// Places of the user's own.
    pub own: Range<usize>,
}

/// What of the path there is to fill from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// There are cuts on hits.
    pub cuts_hits: bool,
    /// There is a coincidence; the time differences that it has at most, picoseconds.
    pub widest_ps: Option<i64>,
    /// Each event of the coincidence has a reference hit that the user chose, and not only a first hit.
    pub has_reference: bool,
}

impl Catalogue {
    pub fn new(
        settings: &Settings,
        own: &[SpectrumSettings],
        map: &ChannelMap,
        path: Path,
    ) -> Result<Catalogue, SpectrumError> {
        check(settings)?;
        let mut catalogue = Catalogue {
            spectra: Vec::new(),
            bins: 0,
            received: None,
            kept: None,
            differences: None,
            beyond_memory: None,
            has_reference: path.has_reference,
            own: 0..0,
        };
        let asked = settings;
        let (settings, keeps_apart) = &fitting(asked, map, path);
        catalogue.beyond_memory = match settings {
            _ if !asked.enabled => None,
            Settings { enabled: false, .. } => Some(BeyondMemory::All),
            Settings { planes: false, .. } if asked.planes => Some(BeyondMemory::Planes),
            _ => None,
        };
        if settings.enabled && !map.channels().is_empty() {
            catalogue.received = Some(catalogue.standard(settings, map, At::Received));
            if *keeps_apart {
                catalogue.kept = Some(catalogue.standard(settings, map, At::Kept));
            }
            if let Some(widest_ps) = path.widest_ps {
                let reach = widest_ps.max(1) as f64;
                let label = match path.has_reference {
                    true => "time after the reference",
                    false => "time after the lowest channel of the event",
                };
                let axis = Axis::new(Field::Dt, settings.time_bins, -reach, reach).labelled(label);
                let name = "time difference";
                catalogue.differences =
                    Some(catalogue.block(map, At::Events, Kind::TimeDifference, name, &[axis]));
            }
        }
        let first = catalogue.spectra.len();
        for each in own {
            catalogue.own(each, &own[..catalogue.spectra.len() - first], path)?;
        }
        catalogue.own = first..catalogue.spectra.len();
        match catalogue.bins > MOST_BINS_TOGETHER {
            true => Err(SpectrumError::Settings(format!(
                "{} bins together, at most {MOST_BINS_TOGETHER}; write planes = false, or fewer bins",
                catalogue.bins
            ))),
            false => Ok(catalogue),
        }
    }

    /// The row of the channel that a spectrum is of.
    pub fn row_of(&self, id: usize) -> Option<usize> {
        let standard = [self.received, self.kept].into_iter().flatten().flat_map(Standard::blocks);
        let row = |block: Block| id.checked_sub(block.first).filter(|row| *row < block.count);
        standard.chain(self.differences).find_map(row)
    }

    /// The spectrum of the same hits behind the cuts, whose counts belong to this one's, too.
    pub fn kept_of(&self, id: usize) -> Option<usize> {
        let (received, kept) = (self.received?, self.kept?);
        let pairs = [
            (Some(received.energy), Some(kept.energy)),
            (received.kev, kept.kev),
            (received.plane, kept.plane),
        ];
        pairs.into_iter().find_map(|(received, kept)| {
            let row =
                id.checked_sub(received?.first).filter(|row| *row < kept.map_or(0, |kept| kept.count))?;
            Some(kept?.first + row)
        })
    }

    /// Spectra of all received hits, each with that of the same hits behind the cuts.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let received = self.received.into_iter().flat_map(|standard| standard.blocks());
        received
            .flat_map(|block| block.first..block.first + block.count)
            .filter_map(|id| Some((id, self.kept_of(id)?)))
    }

    /// The spectra of calibrated energies, received and kept.
    pub fn kev(&self) -> impl Iterator<Item = Block> {
        [self.received, self.kept].into_iter().filter_map(|standard| standard?.kev)
    }

    /// The spectrum of all received hits to which this one's counts belong, too.
    pub fn received_of(&self, id: usize) -> Option<usize> {
        let (received, kept) = (self.received?, self.kept?);
        let behind = id.checked_sub(kept.energy.first)? + received.energy.first;
        (self.kept_of(behind) == Some(id)).then_some(behind)
    }

    fn standard(&mut self, settings: &Settings, map: &ChannelMap, at: At) -> Standard {
        let energy = Axis::new(Field::Energy, settings.energy_bins, 0.0, 65536.0);
        let kev = Axis::new(Field::Kev, settings.energy_bins, 0.0, settings.highest_kev);
        let [x, y] = settings.plane_bins;
        let plane = [Axis::new(Field::Energy, x, 0.0, 65536.0), Axis::new(Field::Psd, y, 0.0, 1.0)];
        Standard {
            energy: self.block(map, at, Kind::Energy, "energy", &[energy]),
            // Of every channel: one can be calibrated while the run goes on.
            kev: Some(self.block(map, at, Kind::Kev, "energy in keV", &[kev])),
            plane: settings
                .planes
                .then(|| self.block(map, at, Kind::Plane, "energy and pulse shape", &plane)),
        }
    }

    /// One spectrum of each channel.
    fn block(&mut self, map: &ChannelMap, at: At, kind: Kind, what: &str, axes: &[Axis]) -> Block {
        let (first, first_bin) = (self.spectra.len(), self.bins);
        for channel in map.channels() {
            self.add(format!("{}: {what}", channel.name), kind, at, Some(channel.number), axes.to_vec());
        }
        Block {
            first,
            count: map.channels().len(),
            first_bin,
            stride: axes.iter().map(|axis| axis.bins as usize).product(),
        }
    }

    fn add(&mut self, name: String, kind: Kind, at: At, channel: Option<u16>, axes: Vec<Axis>) {
        let info =
            Info { id: self.spectra.len() as u32, name, kind, at, channel, axes, first_bin: self.bins };
        self.bins += info.bins();
        self.spectra.push(info);
    }

    fn own(
        &mut self,
        settings: &SpectrumSettings,
        before: &[SpectrumSettings],
        path: Path,
    ) -> Result<(), SpectrumError> {
        let refuse = |message: String| SpectrumError::Spectrum { name: settings.name.clone(), message };
        if settings.name.is_empty() || before.iter().any(|other| other.name == settings.name) {
            return Err(refuse("names are unique, and not empty".to_owned()));
        }
        let mut axes = vec![Axis::of(&settings.x).map_err(refuse)?];
        if let Some(y) = &settings.y {
            axes.push(Axis::of(y).map_err(refuse)?);
        }
        if settings.partner.is_some() && (settings.at != At::Events || axes.len() != 2) {
            return Err(refuse(
                "`partner` is the other hit of an event, along `y`; write at = \"events\" and a `y`".into(),
            ));
        }
        let of_event = axes.iter().any(|axis| axis.field.is_of_event());
        if of_event && settings.at != At::Events {
            return Err(refuse("only hits in an event have this field; write at = \"events\"".to_owned()));
        }
        if settings.at == At::Events && path.widest_ps.is_none() {
            return Err(refuse("at = \"events\", and there is no [coincidence] that makes any".to_owned()));
        }
        let bins = axes.iter().map(|axis| u64::from(axis.bins)).product::<u64>();
        if bins > 1 << 24 {
            return Err(refuse(format!("{bins} bins; 16777216 are the most for one spectrum")));
        }
        self.add(settings.name.clone(), Kind::Own, settings.at, None, axes);
        Ok(())
    }
}

/// The settings without what does not fit in the memory that they allow; and whether what cuts keep has spectra of its own. It has where
/// the configuration cuts hits; elsewhere where they fit, for a cut that is applied while the run goes on.
fn fitting(settings: &Settings, map: &ChannelMap, path: Path) -> (Settings, bool) {
    // Measured and calibrated energies.
    const KINDS: u64 = 2;
    let bytes = |bins: u64, places: u64| bins * places * map.channels().len() as u64 * 4;
    let places = 1 + u64::from(path.cuts_hits);
    let energy_bins = u64::from(settings.energy_bins) * KINDS;
    let plane_bins: u64 = settings.plane_bins.into_iter().map(u64::from).product();
    let enabled = settings.enabled && bytes(energy_bins, places) <= settings.memory_bytes;
    let planes = settings.planes && bytes(energy_bins + plane_bins, places) <= settings.memory_bytes;
    let bins = energy_bins + if planes { plane_bins } else { 0 };
    let keeps_apart = path.cuts_hits || bytes(bins, 2) <= settings.memory_bytes;
    (Settings { enabled, planes, ..settings.clone() }, keeps_apart)
}

fn check(settings: &Settings) -> Result<(), SpectrumError> {
    let in_range = |name: &str, bins: u32| match (16..=65_536).contains(&bins) {
        true => Ok(()),
        false => Err(SpectrumError::Settings(format!("{name} = {bins}: write 16 to 65536"))),
    };
    in_range("energy_bins", settings.energy_bins)?;
    in_range("time_bins", settings.time_bins)?;
    let power = |bins: u32| bins.is_power_of_two() && (16..=4096).contains(&bins);
    if !settings.energy_bins.is_power_of_two() || !settings.plane_bins.into_iter().all(power) {
        let message = "energy_bins and plane_bins are powers of two, of planes 16 to 4096".to_owned();
        return Err(SpectrumError::Settings(message));
    }
    match settings.highest_kev.is_finite() && settings.highest_kev > 0.0 {
        true => Ok(()),
        false => Err(SpectrumError::Settings(format!(
            "highest_kev = {}: write a positive number",
            settings.highest_kev
        ))),
    }
}
