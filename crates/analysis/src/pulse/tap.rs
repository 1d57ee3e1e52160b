//! Takes pulses out of the stream: the writing half.
//!
//! ```text
//!  hits with samples ─► budget of the slot ─► channel's quota ─► condition ─► samples ─► store
//! ```

use std::sync::Arc;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;

use thalweg_data::hit::{Extra, Layout};
use thalweg_data::waveform::Samples;
use thalweg_data::{Flags, Hits, SourceId};

use super::persistence::Persistence;
use super::settings::{PulseError, Settings};
use super::store::{PulseStore, Row};
use crate::channels::ChannelMap;
use crate::cut::{Expression, Polygon, polygon};

/// Slots of a second, each with its part of the budget: a picture that is drawn ten times a second has something new.
const SLOTS_PER_SECOND: u64 = 10;
/// Hits looked at per slot, at most: what a condition that nothing fulfils can cost.
const SAMPLED_PER_SLOT: usize = 16_384;
/// Candidates whose conditions are evaluated together.
const CANDIDATES: usize = 256;

/// Takes pulses out of ordered batches.
#[derive(Debug)]
pub struct PulseTap {
    settings: Settings,
    store: PulseStore,
    filters: Vec<Option<Expression>>,
    seen_changed: u32,
    /// By source.
    ns_per_sample: Vec<Option<f64>>,
    slot: Option<u64>,
    left: u32,
    left_to_sample: usize,
    /// Left in the second of budget, by row.
    quota_left: Vec<u32>,
    samples: Samples,
    candidates: Vec<(usize, usize, usize)>,
    hits: Vec<thalweg_data::Hit>,
    pass: Vec<u8>,
}

impl PulseTap {
    /// A tap of the channels of `map`, and where its pulses are found. Conditions may name the `polygons`.
    ///
    /// # Errors
    /// When a setting is outside its range, or a polygon is invalid.
    pub fn new(
        settings: &Settings,
        polygons: &[polygon::Settings],
        map: &Arc<ChannelMap>,
    ) -> Result<(PulseTap, PulseStore), PulseError> {
        settings.check()?;
        let polygons = Polygon::read(polygons)?;
        let store = PulseStore::new(map, polygons);
        let channels = map.channels().len();
        let sources = map.channels().iter().map(|channel| channel.source.index() + 1).max().unwrap_or(0);
        let tap = PulseTap {
            settings: settings.clone(),
            store: store.clone(),
            filters: vec![None; channels],
            seen_changed: 0,
            ns_per_sample: vec![None; sources],
            slot: None,
            left: 0,
            left_to_sample: 0,
            quota_left: vec![0; channels],
            samples: Samples::default(),
            candidates: Vec::with_capacity(CANDIDATES),
            hits: Vec::with_capacity(CANDIDATES),
            pass: vec![0; CANDIDATES],
        };
        Ok((tap, store))
    }

    /// A source says how far its samples lie apart, nanoseconds.
    pub fn set_ns_per_sample(&mut self, source: SourceId, ns_per_sample: Option<f64>) {
        if let Some(of_source) = self.ns_per_sample.get_mut(source.index()) {
            *of_source = ns_per_sample;
        }
    }

    /// Takes what the budget allows out of a batch.
    #[inline]
    pub fn look(&mut self, batch: &Hits, map: &ChannelMap) {
        if !batch.extras.is_empty() && self.settings.enabled {
            self.look_at_extras(batch, map);
        }
    }

    fn look_at_extras(&mut self, batch: &Hits, map: &ChannelMap) {
        self.begin_slot(batch.header.mark.0 / (1_000_000_000 / SLOTS_PER_SECOND));
        if self.left == 0 || self.left_to_sample == 0 {
            return;
        }
        let mut extra = 0;
        for (index, hit) in batch.hits.iter().take(self.left_to_sample).enumerate() {
            if !hit.flags.has(Flags::EXTRA) {
                continue;
            }
            let own = extra;
            extra += 1;
            let has_samples = |extra: &Extra| extra.samples_count > 0 && extra.layout != Layout::None;
            if !batch.extras.get(own).is_some_and(has_samples) {
                continue;
            }
            let Some(row) = map.row(hit.channel).filter(|row| self.quota_left[*row] > 0) else { continue };
            self.candidates.push((row, index, own));
            if self.candidates.len() == CANDIDATES {
                self.decide(batch, map);
                if self.left == 0 {
                    return;
                }
            }
        }
        self.left_to_sample -= batch.hits.len().min(self.left_to_sample);
        self.decide(batch, map);
    }

    /// The budget of a new slot; and what conditions there are by now.
    fn begin_slot(&mut self, slot: u64) {
        if self.slot == Some(slot) {
            return;
        }
        let new_second = self.slot.is_none_or(|before| before / SLOTS_PER_SECOND != slot / SLOTS_PER_SECOND);
        self.slot = Some(slot);
        self.left = self.settings.per_second.div_ceil(SLOTS_PER_SECOND as u32);
        self.left_to_sample = SAMPLED_PER_SLOT;
        if new_second {
            // Each channel twice what all have on average: who sends seldom leaves some to the others.
            let quota = self.settings.per_second as usize * 2 / self.quota_left.len().max(1);
            self.quota_left.fill((quota as u32).max(2));
        }
        let changed = self.store.0.filters_changed.load(Ordering::Acquire);
        if changed != self.seen_changed
            && let Ok(filters) = self.store.0.filters.try_lock()
        {
            self.filters.clone_from(&filters);
            self.seen_changed = changed;
        }
    }

    /// Asks the conditions of the candidates' channels, and takes those that pass.
    fn decide(&mut self, batch: &Hits, map: &ChannelMap) {
        let mut candidates = std::mem::take(&mut self.candidates);
        // Sorted by channel: its condition is asked once.
        candidates.sort_unstable();
        for of_channel in candidates.chunk_by(|one, other| one.0 == other.0) {
            let row = of_channel[0].0;
            let pass = &mut self.pass[..of_channel.len()];
            match &mut self.filters[row] {
                Some(filter) => {
                    self.hits.clear();
                    self.hits.extend(of_channel.iter().map(|(_, hit, _)| batch.hits[*hit]));
                    filter.evaluate_hits(&self.hits, map, pass);
                }
                None => pass.fill(1),
            }
            for (place, (_, hit, extra)) in of_channel.iter().enumerate() {
                if self.pass[place] != 0 && self.left > 0 && self.quota_left[row] > 0 {
                    self.take(row, *hit, *extra, batch);
                }
            }
        }
        candidates.clear();
        self.candidates = candidates;
    }

    fn take(&mut self, row: usize, hit: usize, extra: usize, batch: &Hits) {
        let shared = &self.store.0;
        let mut of_channel = match shared.rows[row].try_lock() {
            Ok(of_channel) => of_channel,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                shared.skipped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        (self.left, self.quota_left[row]) = (self.left - 1, self.quota_left[row] - 1);
        let extra = &batch.extras[extra];
        self.samples.read(extra, &batch.slices, &batch.leases);
        let longest = self.settings.longest_samples;
        let Row { persistence, .. } = &mut *of_channel;
        let persistence = persistence.get_or_insert_with(|| Box::new(Persistence::new()));
        persistence.add(&self.samples.analog_1[..self.samples.analog_1.len().min(longest)]);
        let pulse = of_channel.place(self.settings.keep);
        pulse.of(&batch.hits[hit]);
        let ns_per_sample = self.ns_per_sample.get(extra.source.index()).copied().flatten();
        pulse.ns_per_sample = ns_per_sample.map(|ns| ns * down_sampling(extra));
        pulse.truncated = extra.truncated || self.samples.analog_1.len() > longest;
        let analog = [&self.samples.analog_1, &self.samples.analog_2];
        copy_probes(&mut pulse.analog, analog.into_iter().filter(|probe| !probe.is_empty()), longest);
        let digital = if self.samples.digital.is_empty() { 0 } else { 4 };
        pulse.digital.resize_with(digital, Vec::new);
        for (probe, samples) in pulse.digital.iter_mut().enumerate() {
            samples.clear();
            samples.extend(self.samples.digital.iter().take(longest).map(|bits| bits >> probe & 1));
        }
        pulse.digital_kinds.clear();
        if extra.layout == Layout::DualProbe {
            // Four bits each from bit 12 of the wave info word.
            pulse.digital_kinds.extend((0..4).map(|probe| (extra.info >> (12 + 4 * probe) & 0xF) as u8));
        }
        shared.taken.fetch_add(1, Ordering::Relaxed);
    }
}

fn copy_probes<'s>(to: &mut Vec<Vec<i32>>, probes: impl Iterator<Item = &'s Vec<i32>>, longest: usize) {
    let mut count = 0;
    for samples in probes {
        if to.len() == count {
            to.push(Vec::new());
        }
        to[count].clear();
        to[count].extend_from_slice(&samples[..samples.len().min(longest)]);
        count += 1;
    }
    to.truncate(count);
}

/// How many of the board's samples one sample stands for (caen-digitizer2, wave info, time resolution).
fn down_sampling(extra: &Extra) -> f64 {
    let power = if extra.layout == Layout::DualProbe { extra.info >> 44 & 0b11 } else { 0 };
    f64::from(1u8 << power)
}
