//! Fills the spectra: the writing half, one for each thread that has hits.
//!
//! ```text
//!  256 hits ─► channel's row, bin of energy, bin of the plane ─► lists of bins ─► one more in each
//!                                          └ those that passed the cuts ─► lists ─► one more in each
//! ```
//! First all places, then all counts: the places of one list do not depend on each other, so that many bins are on their way from memory
//! at a time.

use std::sync::atomic::Ordering;

use thalweg_data::{Flags, Hit, Hits};

use super::calibrations::Calibrations;
use super::catalogue::{Block, Standard};
use super::custom::Custom;
use super::set::SpectrumSet;
use super::settings::At;
use super::store::{Store, Totals};
use crate::channels::ChannelMap;
use crate::cut::{EventFacts, gather_facts};
use thalweg_data::HitEvents;

/// Hits at a time: their places are a few KiB.
const PIECE: usize = 256;

/// Places of the bins of one piece.
#[derive(Debug)]
struct Places {
    bins: [u32; PIECE],
    count: usize,
}

impl Places {
    const EMPTY: Places = Places { bins: [0; PIECE], count: 0 };

    /// Adds a place if it is one: without a branch, since what is in the data cannot be foreseen.
    #[inline(always)]
    fn add(&mut self, bin: u32, is_one: bool) {
        self.bins[self.count] = bin;
        self.count += usize::from(is_one);
    }

    #[inline(always)]
    fn count_in(&mut self, store: &Store, offset: usize) {
        self.bins[..self.count].iter().for_each(|bin| store.count(*bin as usize + offset));
        self.count = 0;
    }
}

/// Counts of one batch by row, entered in the totals once.
#[derive(Debug)]
struct Rows {
    hits: Box<[u32]>,
    energies: Box<[u32]>,
    shapes: Box<[u32]>,
    shapes_beside: Box<[u32]>,
    kev: Box<[u32]>,
}

impl Rows {
    fn new(channels: usize) -> Rows {
        let zeros = || vec![0; channels].into();
        Rows { hits: zeros(), energies: zeros(), shapes: zeros(), shapes_beside: zeros(), kev: zeros() }
    }
}

/// Fills the spectra of a run from one thread.
#[derive(Debug)]
pub struct Filler {
    set: SpectrumSet,
    store: usize,
    own: Vec<Custom>,
    calibrations: Calibrations,
    received: Rows,
    kept: Rows,
    energy: [Places; 2],
    plane: [Places; 2],
    facts: Vec<EventFacts>,
    seen_asked: u32,
}

/// How a batch's hits are turned into places.
#[derive(Clone, Copy)]
struct Shape {
    standard: Standard,
    energy_shift: u32,
    plane: Option<PlaneShape>,
}

#[derive(Clone, Copy)]
struct PlaneShape {
    block: Block,
    energy_shift: u32,
    log2_row: u32,
    bins: f32,
}

impl Filler {
    pub(super) fn new(set: SpectrumSet, store: usize, own: Vec<Custom>, map: &ChannelMap) -> Filler {
        let channels = set.0.catalogue.received.map_or(0, |_| set.channels());
        Filler {
            set,
            store,
            own,
            calibrations: Calibrations::new(map),
            received: Rows::new(channels),
            kept: Rows::new(channels),
            energy: [Places::EMPTY; 2],
            plane: [Places::EMPTY; 2],
            facts: Vec::new(),
            seen_asked: 0,
        }
    }

    /// Fills in a batch from behind time order; `pass` says which hits the cuts keep, `None` when there are no cuts.
    pub fn fill(&mut self, batch: &Hits, pass: Option<&[u8]>, map: &ChannelMap) {
        self.rest();
        let inner = self.set.0.clone();
        for statistics in &batch.statistics {
            if let Some(row) = map.row(statistics.channel) {
                inner.history.tell(row, statistics);
            }
        }
        if let Some(received) = inner.catalogue.received {
            let shape = Shape::new(received, &self.set);
            let kev = [Some(received), inner.catalogue.kept].map(|standard| standard.and_then(|of| of.kev));
            for (index, hits) in batch.hits.chunks(PIECE).enumerate() {
                let pass = pass.map(|pass| &pass[index * PIECE..index * PIECE + hits.len()]);
                self.fill_piece(hits, pass, &shape, map);
                if kev[0].is_some() {
                    self.fill_kev(hits, pass, kev, map);
                }
            }
            self.enter_totals();
        }
        for own in self.own.iter_mut().filter(|own| own.at() != At::Events) {
            let pass = pass.filter(|_| own.at() == At::Kept);
            own.fill_hits(&batch.hits, pass, map, &inner.stores[self.store]);
        }
    }

    #[inline]
    fn fill_piece(&mut self, hits: &[Hit], pass: Option<&[u8]>, shape: &Shape, map: &ChannelMap) {
        let inner = self.set.0.clone();
        let store = &inner.stores[self.store];
        let [energy, kept_energy] = &mut self.energy;
        let [plane, kept_plane] = &mut self.plane;
        for (index, hit) in hits.iter().enumerate() {
            let Some(row) = map.row(hit.channel) else { continue };
            let keeps = pass.is_some_and(|pass| pass[index] != 0);
            self.received.hits[row] += 1;
            let has_energy = hit.flags.0 & (Flags::NO_ENERGY | Flags::FAKE).0 == 0;
            let bin = shape.energy_bin(row, hit.energy);
            energy.add(bin, has_energy);
            kept_energy.add(bin, has_energy & keeps);
            self.received.energies[row] += u32::from(has_energy);
            self.kept.energies[row] += u32::from(has_energy & keeps);
            let Some(plane_shape) = &shape.plane else { continue };
            let has_shape = has_energy & !hit.flags.has(Flags::NO_ENERGY_SHORT) & (hit.energy != 0);
            let (bin, inside) = plane_shape.bin(row, hit);
            plane.add(bin, has_shape & inside);
            kept_plane.add(bin, has_shape & inside & keeps);
            self.received.shapes[row] += u32::from(has_shape);
            self.received.shapes_beside[row] += u32::from(has_shape & !inside);
            self.kept.shapes[row] += u32::from(has_shape & keeps);
            self.kept.shapes_beside[row] += u32::from(has_shape & !inside & keeps);
        }
        energy.count_in(store, 0);
        plane.count_in(store, 0);
        if let Some(kept) = inner.catalogue.kept {
            let offset = |of: Block, received: Block| of.first_bin - received.first_bin;
            kept_energy.count_in(store, offset(kept.energy, shape.standard.energy));
            if let Some((kept, received)) = kept.plane.zip(shape.standard.plane) {
                kept_plane.count_in(store, offset(kept, received));
            }
        }
        (kept_energy.count, kept_plane.count) = (0, 0);
    }

    /// Calibrated energies, of channels that have a calibration.
    fn fill_kev(
        &mut self,
        hits: &[Hit],
        pass: Option<&[u8]>,
        [received, kept]: [Option<Block>; 2],
        map: &ChannelMap,
    ) {
        let inner = self.set.0.clone();
        let store = &inner.stores[self.store];
        let Some(received) = received else { return };
        let axis = &inner.catalogue.spectra[received.first].axes[0];
        let (scale, bins) = (axis.scale(), f64::from(axis.bins));
        let [places, kept_places] = &mut self.energy;
        for (index, hit) in hits.iter().enumerate() {
            let Some(row) = map.row(hit.channel) else { continue };
            let keeps = pass.is_some_and(|pass| pass[index] != 0);
            let place = f64::from(self.calibrations.kev(row, hit.energy)) * scale;
            let is_one = !place.is_nan() & (hit.flags.0 & (Flags::NO_ENERGY | Flags::FAKE).0 == 0);
            let inside = (place >= 0.0) & (place < bins);
            let bin = (received.first_bin + row * received.stride) as u32 + (place as u32).min(axis.bins - 1);
            places.add(bin, is_one & inside);
            kept_places.add(bin, is_one & inside & keeps);
            self.received.kev[row] += u32::from(is_one);
            self.kept.kev[row] += u32::from(is_one & keeps);
            if is_one & !inside {
                for block in [Some(received), kept.filter(|_| keeps)].into_iter().flatten() {
                    let totals = &store.totals[block.first + row];
                    Totals::add(if place < 0.0 { &totals.below } else { &totals.above }, 1);
                }
            }
        }
        places.count_in(store, 0);
        match kept {
            Some(kept) => kept_places.count_in(store, kept.first_bin - received.first_bin),
            None => kept_places.count = 0,
        }
    }

    /// What was counted by row goes to the totals of the spectra.
    fn enter_totals(&mut self) {
        let inner = &self.set.0;
        let store = &inner.stores[self.store];
        for (row, hits) in self.received.hits.iter_mut().enumerate().filter(|(_, hits)| **hits > 0) {
            inner.history.add_hits(row, u64::from(std::mem::take(hits)));
        }
        let sides = [(inner.catalogue.received, &mut self.received), (inner.catalogue.kept, &mut self.kept)];
        for (standard, rows) in sides {
            let Some(standard) = standard else { continue };
            for (row, count) in rows.energies.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                Totals::add(
                    &store.totals[standard.energy.first + row].entries,
                    u64::from(std::mem::take(count)),
                );
            }
            let kev = standard.kev.map_or(0, |block| block.first);
            for (row, count) in rows.kev.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                Totals::add(&store.totals[kev + row].entries, u64::from(std::mem::take(count)));
            }
            let Some(plane) = standard.plane else { continue };
            for (row, count) in rows.shapes.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                let totals = &store.totals[plane.first + row];
                Totals::add(&totals.entries, u64::from(std::mem::take(count)));
                Totals::add(&totals.beside, u64::from(std::mem::take(&mut rows.shapes_beside[row])));
            }
        }
    }

    /// Fills in events from behind the cuts on events.
    pub fn fill_events(&mut self, events: &HitEvents, map: &ChannelMap) {
        self.rest();
        let inner = self.set.0.clone();
        let store = &inner.stores[self.store];
        if let Some(block) = inner.catalogue.differences {
            for (event, members) in events.iter() {
                fill_differences(event.reference, members, block, &inner.catalogue.spectra, map, store);
            }
        }
        if self.own.iter().any(|own| own.at() == At::Events) {
            gather_facts(events, map, &mut self.facts);
            for own in self.own.iter_mut().filter(|own| own.at() == At::Events) {
                own.fill_events(events, &self.facts, map, store);
            }
        }
    }

    /// Between two batches: empties what was asked to be empty.
    pub fn rest(&mut self) {
        let asked = self.set.0.asked_at_all.load(Ordering::Acquire);
        if asked != self.seen_asked {
            self.seen_asked = asked;
            self.set.empty_asked(self.store);
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.set.0.filled[self.store].store(false, Ordering::Release);
        self.set.empty_asked(self.store);
    }
}

/// Times of all members but the reference after it.
fn fill_differences(
    reference: u16,
    members: &[Hit],
    block: Block,
    spectra: &[super::Info],
    map: &ChannelMap,
    store: &Store,
) {
    let Some(centre) = members.get(usize::from(reference)) else { return };
    for (index, member) in members.iter().enumerate() {
        let Some(row) = map.row(member.channel).filter(|_| index != usize::from(reference)) else { continue };
        let totals = &store.totals[block.first + row];
        Totals::add(&totals.entries, 1);
        let difference = member.time_ps.wrapping_sub(centre.time_ps) as f64;
        match spectra[block.first + row].axes[0].bin(difference) {
            Some(-1) => Totals::add(&totals.below, 1),
            Some(bin) if (bin as usize) < block.stride => {
                store.count(block.first_bin + row * block.stride + bin as usize);
            }
            _ => Totals::add(&totals.above, 1),
        }
    }
}

impl Shape {
    fn new(standard: Standard, set: &SpectrumSet) -> Shape {
        // Powers of two that divide all that 16 bits can say.
        let shift = |bins: u32| 16 - bins.trailing_zeros();
        let axes_of = |block: Block| &set.spectra()[block.first].axes;
        let plane = standard.plane.map(|block| PlaneShape {
            block,
            energy_shift: shift(axes_of(block)[0].bins),
            log2_row: axes_of(block)[0].bins.trailing_zeros(),
            bins: axes_of(block)[1].bins as f32,
        });
        Shape { standard, energy_shift: shift(axes_of(standard.energy)[0].bins), plane }
    }

    #[inline(always)]
    fn energy_bin(&self, row: usize, energy: u16) -> u32 {
        let block = self.standard.energy;
        (block.first_bin + row * block.stride) as u32 + (u32::from(energy) >> self.energy_shift)
    }
}

impl PlaneShape {
    /// The bin of a hit, and whether it lies on the plane.
    #[inline(always)]
    fn bin(&self, row: usize, hit: &Hit) -> (u32, bool) {
        let energy = f32::from(hit.energy);
        let place = (energy - f32::from(hit.energy_short)) / energy * self.bins;
        let inside = (place >= 0.0) & (place < self.bins);
        // A cast of a float saturates; what is outside is not counted.
        let y = (place as u32).min(self.bins as u32 - 1);
        let first = (self.block.first_bin + row * self.block.stride) as u32;
        (first + (y << self.log2_row) + (u32::from(hit.energy) >> self.energy_shift), inside)
    }
}
