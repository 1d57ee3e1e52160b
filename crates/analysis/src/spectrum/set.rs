//! All spectra of a run, as everybody but their filler sees them.
//!
//! ```text
//!  Filler 0 ─► store 0 ─┐
//!  Filler 1 ─► store 1 ─┴─ added up ─► read · export         ask to empty ─► each filler, between two batches
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde::Serialize;

use super::catalogue::{BeyondMemory, Catalogue, Info, Kind, Path, Standard};
use super::custom::Custom;
use super::filler::{Filler, waiting_bytes};
use super::history::History;
use super::settings::{At, Settings, SpectrumError, SpectrumSettings};
use super::store::Store;
use crate::channels::ChannelMap;
use crate::cut::polygon;
use crate::view::Shows;

/// Counts that a reader wants beside the bins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Everything that was binned, outside included.
    pub entries: u64,
    /// Below the first axis.
    pub below: u64,
    /// At the end of the first axis, and above.
    pub above: u64,
    /// Inside the first axis, outside the second.
    pub beside: u64,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub catalogue: Catalogue,
    /// One per filler.
    pub stores: Vec<Store>,
    /// By filler: it lives, and will empty what is asked.
    pub filled: Vec<AtomicBool>,
    /// By spectrum: how often it was asked to be empty.
    asked: Vec<AtomicU32>,
    /// Anything was asked: counted, so that a filler need look at one number only.
    pub asked_at_all: AtomicU32,
    pub history: History,
    /// By row of the channel map: its energy is known in keV.
    pub has_kev: Box<[AtomicBool]>,
    /// Hits are cut: what is kept is not all.
    pub has_kept: AtomicBool,
}

/// The spectra of a run. Cheap to clone; every clone is the same spectra.
#[derive(Clone, Debug)]
pub struct SpectrumSet(pub(super) Arc<Inner>);

impl SpectrumSet {
    /// The spectra of a run with these channels, and `fillers` threads that fill them.
    ///
    /// # Errors
    /// When a setting is invalid: what was found, and what to write.
    pub fn new(
        settings: &Settings,
        own: &[SpectrumSettings],
        polygons: &[polygon::Settings],
        map: &ChannelMap,
        path: Path,
        fillers: usize,
    ) -> Result<(SpectrumSet, Vec<Filler>), SpectrumError> {
        let catalogue = Catalogue::new(settings, own, map, path)?;
        let count = catalogue.spectra.len();
        let mut customs = Vec::new();
        for _ in 0..fillers {
            let custom = |(index, settings)| Custom::new(index, settings, &catalogue, polygons, map);
            customs.push(own.iter().enumerate().map(custom).collect::<Result<Vec<_>, _>>()?);
        }
        let inner = Arc::new(Inner {
            stores: (0..fillers).map(|_| Store::new(catalogue.bins, count)).collect(),
            filled: (0..fillers).map(|_| AtomicBool::new(true)).collect(),
            asked: (0..count).map(|_| AtomicU32::new(0)).collect(),
            asked_at_all: AtomicU32::new(0),
            history: History::new(map),
            has_kev: map.channels().iter().map(|each| AtomicBool::new(each.energy_kev.is_some())).collect(),
            has_kept: AtomicBool::new(path.cuts_hits),
            catalogue,
        });
        let set = SpectrumSet(inner);
        let fillers =
            customs.into_iter().enumerate().map(|(index, own)| Filler::new(set.clone(), index, own, map));
        let fillers = fillers.collect();
        Ok((set, fillers))
    }

    /// All of them, by number.
    pub fn spectra(&self) -> &[Info] {
        &self.0.catalogue.spectra
    }

    /// Default spectra that the settings ask for and that are not there, as their memory has no space for them.
    pub fn beyond_memory(&self) -> Option<BeyondMemory> {
        self.0.catalogue.beyond_memory
    }

    /// Whether a spectrum is filled: one of calibrated energies where its channel is calibrated, and one of what cuts keep while
    /// there is a cut. For those that the user describes and time differences it is always so.
    pub fn is_filled(&self, info: &Info) -> bool {
        let catalogue = &self.0.catalogue;
        let is_calibrated = |standard: Standard| {
            let row = (info.id as usize).checked_sub(standard.kev?.first)?;
            Some(self.0.has_kev.get(row)?.load(Ordering::Relaxed))
        };
        let of_standard = |standard: Option<Standard>| standard.and_then(is_calibrated).unwrap_or(false);
        let is_standard = matches!(info.kind, Kind::Energy | Kind::Kev | Kind::Plane);
        let has_kept = !is_standard || info.at != At::Kept || self.0.has_kept.load(Ordering::Relaxed);
        let standard = if info.at == At::Kept { catalogue.kept } else { catalogue.received };
        has_kept && (info.kind != Kind::Kev || of_standard(standard))
    }

    /// Whether there are spectra of calibrated energies, and such of what cuts keep: those that show what is applied to a run.
    pub(crate) fn shows(&self) -> Shows {
        let Catalogue { received, kept, .. } = &self.0.catalogue;
        Shows { kev: received.is_some_and(|standard| standard.kev.is_some()), kept: kept.is_some() }
    }

    /// Returns the number of channels that have spectra.
    pub(super) fn channels(&self) -> usize {
        self.0.history.channels()
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of this number.
    pub fn info(&self, id: u32) -> Result<&Info, SpectrumError> {
        self.spectra().get(id as usize).ok_or(SpectrumError::Unknown(id))
    }

    /// Its counts, row after row: along the first axis the next bin is the next count.
    ///
    /// # Errors
    /// As for [`SpectrumSet::info`].
    pub fn read(&self, id: u32, counts: &mut Vec<u64>) -> Result<Totals, SpectrumError> {
        let info = self.info(id)?;
        counts.clear();
        counts.resize(info.bins(), 0);
        for part in self.parts(info) {
            self.0.stores.iter().for_each(|store| store.read(part.range(), counts));
        }
        self.totals(id)
    }

    /// What lies outside, and how much was filled.
    ///
    /// # Errors
    /// As for [`SpectrumSet::info`].
    pub fn totals(&self, id: u32) -> Result<Totals, SpectrumError> {
        let info = self.info(id)?;
        let mut sum = Totals::default();
        let of_all = self
            .0
            .stores
            .iter()
            .flat_map(|store| self.parts(info).map(|part| &store.totals[part.id as usize]));
        for totals in of_all {
            sum.entries += totals.entries.load(Ordering::Relaxed);
            sum.below += totals.below.load(Ordering::Relaxed);
            sum.above += totals.above.load(Ordering::Relaxed);
            sum.beside += totals.beside.load(Ordering::Relaxed);
        }
        Ok(sum)
    }

    /// The spectra whose bins together are this one: itself, and of all received hits those that the cuts keep.
    fn parts<'s>(&'s self, info: &'s Info) -> impl Iterator<Item = &'s Info> {
        let kept = self.0.catalogue.kept_of(info.id as usize);
        std::iter::once(info).chain(kept.map(|id| &self.spectra()[id]))
    }

    /// A number that is another one whenever the counts are others.
    ///
    /// # Errors
    /// As for [`SpectrumSet::info`].
    pub fn revision(&self, id: u32) -> Result<u64, SpectrumError> {
        let entries = self.totals(id)?.entries;
        Ok(u64::from(self.asked_of(id as usize)) << 48 | entries & 0xffff_ffff_ffff)
    }

    /// Empties one spectrum, or all. The fillers do it before their next batch, and nothing that is filled later is lost by it. The
    /// default spectra of a channel before and behind the cuts are emptied together.
    ///
    /// # Errors
    /// As for [`SpectrumSet::info`].
    pub fn empty(&self, id: Option<u32>) -> Result<(), SpectrumError> {
        let ask = |id: usize| self.0.asked[id].fetch_add(1, Ordering::AcqRel);
        match id {
            Some(id) => {
                let (id, catalogue) = (self.info(id)?.id as usize, &self.0.catalogue);
                let other = catalogue.kept_of(id).or(catalogue.received_of(id));
                std::iter::once(id).chain(other).for_each(|id| _ = ask(id));
            }
            None => (0..self.spectra().len()).for_each(|id| _ = ask(id)),
        }
        self.0.asked_at_all.fetch_add(1, Ordering::AcqRel);
        for (filler, filled) in self.0.filled.iter().enumerate() {
            // Nobody fills it any more: there is no other writer.
            if !filled.load(Ordering::Acquire) {
                self.empty_asked(filler);
            }
        }
        Ok(())
    }

    /// Empties what was asked, of one filler's store; called by the one who writes it.
    pub(super) fn empty_asked(&self, filler: usize) {
        let store = &self.0.stores[filler];
        for (index, info) in self.spectra().iter().enumerate() {
            let asked = self.asked_of(index);
            if store.totals[index].emptied.load(Ordering::Relaxed) != asked {
                store.clear(index, info.range(), asked);
            }
        }
    }

    /// A spectrum begins anew, by its only writer: it has another revision, whatever comes.
    pub(super) fn begin_anew(&self, filler: usize, index: usize) {
        let asked = self.0.asked[index].fetch_add(1, Ordering::AcqRel) + 1;
        self.0.stores[filler].clear(index, self.spectra()[index].range(), asked);
    }

    /// Whether a spectrum of the run has begun anew, so that it has not all of its hits.
    pub(super) fn was_emptied(&self, id: u32) -> bool {
        self.asked_of(id as usize) > 0
    }

    /// The row of the channel that a spectrum is of.
    pub(super) fn row_of(&self, info: &Info) -> Option<usize> {
        self.0.catalogue.row_of(info.id as usize)
    }

    fn asked_of(&self, index: usize) -> u32 {
        self.0.asked[index].load(Ordering::Acquire)
    }

    /// Rates, and the boards' own times.
    pub fn history(&self) -> &History {
        &self.0.history
    }

    /// Memory of all bins and of the hits that wait to be counted, bytes.
    pub fn memory_bytes(&self) -> u64 {
        let of_bins = self.0.catalogue.bins * size_of::<AtomicU32>();
        let of_waiting = waiting_bytes(&self.0.catalogue, self.channels());
        ((of_bins + of_waiting) * self.0.stores.len()) as u64
    }
}
