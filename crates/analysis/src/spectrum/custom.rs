//! The user's own spectra: any fields, any cut.
//!
//! ```text
//!  256 hits ─► whose channel takes part ─► cut ─► column x, column y ─► one more in each bin
//! ```

use thalweg_data::Hit;

use super::axis::Axis;
use super::catalogue::Catalogue;
use super::settings::{At, SpectrumError, SpectrumSettings};
use super::store::{Store, Totals};
use crate::channels::{ChannelList, ChannelMap};
use crate::cut::{EventFacts, Expression, Members, Polygon, Scope, fill, polygon};
use thalweg_data::HitEvents;

const CHUNK: usize = 256;

/// One of the user's own spectra, with the memory that it is filled by.
#[derive(Debug)]
pub(super) struct Custom {
    spectrum: usize,
    first_bin: usize,
    at: At,
    x: Axis,
    y: Option<Axis>,
    /// By row of the channel map.
    takes: Box<[bool]>,
    partner: Option<Box<[bool]>>,
    cut: Option<Expression>,
    pass: Vec<u8>,
    column_x: Vec<f64>,
    column_y: Vec<f64>,
}

impl Custom {
    pub fn new(
        index: usize,
        settings: &SpectrumSettings,
        catalogue: &Catalogue,
        polygons: &[polygon::Settings],
        map: &ChannelMap,
    ) -> Result<Custom, SpectrumError> {
        let refuse = |message: String| SpectrumError::Spectrum { name: settings.name.clone(), message };
        let polygons = Polygon::read(polygons).map_err(|error| refuse(error.to_string()))?;
        let scope = if settings.at == At::Events { Scope::Event } else { Scope::Hit };
        let parse = |text: &String| Expression::parse(text, scope, &polygons);
        let cut = settings.cut.as_ref().map(parse).transpose().map_err(|error| refuse(error.to_string()))?;
        let rows = |channels: &ChannelList, groups: &[String]| rows(channels, groups, map).map_err(refuse);
        let partner = settings.partner.as_ref().map(|each| rows(&each.channels, &each.groups)).transpose()?;
        let spectrum = catalogue.own.start + index;
        let info = &catalogue.spectra[spectrum];
        Ok(Custom {
            spectrum,
            first_bin: info.first_bin,
            at: settings.at,
            x: info.axes[0].clone(),
            y: info.axes.get(1).cloned(),
            takes: rows(&settings.channels, &settings.groups)?,
            partner,
            cut,
            pass: Vec::new(),
            column_x: Vec::new(),
            column_y: Vec::new(),
        })
    }

    pub fn at(&self) -> At {
        self.at
    }

    /// Its number.
    pub fn spectrum(&self) -> usize {
        self.spectrum
    }

    /// Whether what it has depends on calibrated energies.
    pub fn asks_for_kev(&self) -> bool {
        let axes = [Some(&self.x), self.y.as_ref()];
        axes.into_iter().flatten().any(|axis| axis.field.is_calibrated())
            || self.cut.as_ref().is_some_and(Expression::asks_for_kev)
    }

    pub fn fill_hits(&mut self, hits: &[Hit], pass: Option<&[u8]>, map: &ChannelMap, store: &Store) {
        for (index, chunk) in hits.chunks(CHUNK).enumerate() {
            let pass = pass.map(|pass| &pass[index * CHUNK..index * CHUNK + chunk.len()]);
            self.choose(chunk, pass, map);
            if let Some(cut) = &mut self.cut {
                let mut answers = [0; CHUNK];
                cut.evaluate_hits(chunk, map, &mut answers[..chunk.len()]);
                self.pass.iter_mut().zip(answers).for_each(|(pass, answer)| *pass &= answer);
            }
            self.fill_columns(Members { hits: chunk, events: None }, map, store);
        }
    }

    /// `pass` says which members are shown, `None` all.
    pub fn fill_events(
        &mut self,
        (events, pass): (&HitEvents, Option<&[u8]>),
        facts: &[EventFacts],
        map: &ChannelMap,
        store: &Store,
    ) {
        self.choose(&events.members, pass, map);
        if let Some(cut) = &mut self.cut {
            let mut answers = vec![0; events.members.len()];
            cut.evaluate_members(events, facts, map, &mut answers);
            self.pass.iter_mut().zip(answers).for_each(|(pass, answer)| *pass &= answer);
        }
        let members = Members { hits: &events.members, events: Some(facts) };
        match self.partner.take() {
            Some(partner) => {
                self.fill_pairs(events, members, &partner, map, store);
                self.partner = Some(partner);
            }
            None => self.fill_columns(members, map, store),
        }
    }

    /// Which hits are of a channel that takes part, here or as partner, and passed.
    fn choose(&mut self, hits: &[Hit], pass: Option<&[u8]>, map: &ChannelMap) {
        let (takes, partner) = (&self.takes, self.partner.as_deref());
        let takes_part = |row: usize| takes[row] || partner.is_some_and(|partner| partner[row]);
        let is_one = |hit: &Hit| u8::from(map.row(hit.channel).is_some_and(takes_part));
        self.pass.clear();
        self.pass.extend(hits.iter().map(is_one));
        if let Some(kept) = pass {
            self.pass.iter_mut().zip(kept).for_each(|(pass, kept)| *pass &= kept);
        }
    }

    fn fill_columns(&mut self, members: Members<'_>, map: &ChannelMap, store: &Store) {
        self.columns(members, map);
        for row in 0..members.hits.len() {
            if self.pass[row] != 0 {
                self.count(self.column_x[row], self.column_y.get(row).copied(), store);
            }
        }
    }

    /// Of the hits of each event that passed, the first of ours, and the first of the partner's: the one along x, the other along y.
    fn fill_pairs(
        &mut self,
        events: &HitEvents,
        members: Members<'_>,
        partner: &[bool],
        map: &ChannelMap,
        store: &Store,
    ) {
        self.columns(members, map);
        for event in &events.events {
            let range = event.first as usize..(event.first + event.count) as usize;
            let mut passed = range.filter(|place| self.pass[*place] != 0);
            let is_of = |place: usize, channels: &[bool]| {
                map.row(members.hits[place].channel).is_some_and(|row| channels[row])
            };
            let Some(ours) = passed.clone().find(|place| is_of(*place, &self.takes)) else { continue };
            if let Some(theirs) = passed.find(|place| *place != ours && is_of(*place, partner)) {
                self.count(self.column_x[ours], self.column_y.get(theirs).copied(), store);
            }
        }
    }

    fn columns(&mut self, members: Members<'_>, map: &ChannelMap) {
        self.column_x.resize(members.hits.len(), 0.0);
        fill(self.x.field, members, map, &mut self.column_x);
        if let Some(y) = &self.y {
            self.column_y.resize(members.hits.len(), 0.0);
            fill(y.field, members, map, &mut self.column_y);
        }
    }

    #[inline]
    fn count(&self, x: f64, y: Option<f64>, store: &Store) {
        let totals = &store.totals[self.spectrum];
        let Some(x) = self.x.bin(x) else { return };
        let row = match (&self.y, y) {
            (Some(axis), Some(y)) => match axis.bin(y) {
                Some(bin) => bin,
                None => return,
            },
            _ => 0,
        };
        Totals::add(&totals.entries, 1);
        let rows = self.y.as_ref().map_or(1, |axis| i64::from(axis.bins));
        if x < 0 {
            Totals::add(&totals.below, 1);
        } else if x >= i64::from(self.x.bins) {
            Totals::add(&totals.above, 1);
        } else if !(0..rows).contains(&row) {
            Totals::add(&totals.beside, 1);
        } else {
            store.count(self.first_bin + row as usize * self.x.bins as usize + x as usize);
        }
    }
}

fn rows(channels: &ChannelList, groups: &[String], map: &ChannelMap) -> Result<Box<[bool]>, String> {
    if channels.is_empty() && groups.is_empty() {
        return Ok(vec![true; map.channels().len()].into());
    }
    let mut takes = vec![false; map.channels().len()];
    for channel in channels.channels().map_err(|error| error.to_string())? {
        let row = map.row(channel).ok_or_else(|| format!("no source sends channel {channel}"))?;
        takes[row] = true;
    }
    for name in groups {
        let group = map
            .group_named(name)
            .ok_or_else(|| format!("there is no group \"{name}\"; there are: {}", map.groups_in_words()))?;
        for (takes, channel) in takes.iter_mut().zip(map.channels()) {
            *takes |= channel.group == group;
        }
    }
    Ok(takes.into())
}
