//! Fills the spectra: the writing half, one for each thread that has hits.
//!
//! ```text
//!  words of hits ─► fill buffers, by channel ─ full, or asked for ─► bins of that channel
//!  hits, pass ────► the user's own spectra, at once                events ─► time differences, own spectra
//! ```
//! What lies in the fill buffers is counted within [`SETTLED_WITHIN_NS`], and by [`Filler::settle`] at once. It is counted in turn, some channels
//! at a time: counted all together, it would hold up what comes for as long as the buffers of whole threads bridge.

use std::ops::Range;
use std::sync::atomic::Ordering;

use thalweg_data::{Hit, HitEvents, Hits, Mark};

use super::catalogue::Catalogue;
use super::custom::Custom;
use super::differences::Differences;
use super::fill_buffers::{FillBuffers, Word};
use super::hit_words::{HitWord, WordMaker};
use super::set::SpectrumSet;
use super::settings::At;
use super::standard::StandardFiller;
use crate::channels::ChannelMap;
use crate::cut::{EventFacts, gather_facts};
use crate::view::ViewChange;

/// Hits of each channel that wait, at most: each of its bins is fetched from memory once for all of them.
const MOST_WAITING: usize = 1 << 14;
/// Of many channels, fewer hits wait: this is the memory of all fill buffers together, bytes.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// A hit is counted within this time, of the marks: in less, few channels have hits for a full fill buffer.
const SETTLED_WITHIN_NS: u64 = 200_000_000;
/// In this time, the channels are counted in so many parts.
const PARTS: u64 = 32;
/// Fewest hits that wait.
const LEAST_WAITING: usize = 256;

/// Fills the spectra of a run from one thread.
#[derive(Debug)]
pub struct Filler {
    set: SpectrumSet,
    store: usize,
    own: Vec<Custom>,
    standard: Option<StandardFiller>,
    /// Rows of each plane; 0 of none.
    plane_rows: u32,
    fill_buffers: FillBuffers,
    differences: Option<Differences>,
    facts: Vec<EventFacts>,
    seen_asked: u32,
    /// Whether the words that wait have been through cuts.
    is_cut: bool,
    /// By row, and of channels that nobody sends: hits that are counted, and shown as kept.
    shown: Box<[u64]>,
    /// Parts that were counted in turn, from the beginning of the marks.
    parts_settled: u64,
    /// When the hits reach this time, they are compared with what a board has counted.
    report_due_ps: i64,
}

impl Filler {
    pub(super) fn new(set: SpectrumSet, store: usize, own: Vec<Custom>, map: &ChannelMap) -> Filler {
        let catalogue = &set.0.catalogue;
        let standard = StandardFiller::new(catalogue, map.calibrations().clone());
        let plane = catalogue.received.and_then(|received| received.plane);
        let plane_rows = plane.map_or(0, |block| catalogue.spectra[block.first].axes[1].bins);
        let fill_buffers = match standard.is_some() {
            true => FillBuffers::new(set.channels() + 1, waiting_hits(set.channels())),
            false => FillBuffers::new(0, 0),
        };
        let differences = Differences::new(catalogue);
        let shown = vec![0; set.channels() + 1].into();
        Filler {
            set,
            store,
            own,
            standard,
            plane_rows,
            fill_buffers,
            differences,
            facts: Vec::new(),
            seen_asked: 0,
            is_cut: false,
            shown,
            parts_settled: 0,
            report_due_ps: i64::MAX,
        }
    }

    /// Whether every hit is counted by channel.
    pub fn has_standard(&self) -> bool {
        self.standard.is_some()
    }

    /// What makes the words of hits for it; `None` where no hit is counted by channel.
    pub fn word_maker(&self) -> Option<WordMaker> {
        self.has_standard().then(|| WordMaker::new(self.plane_rows))
    }

    /// Hits that were counted and are shown as kept, by row of the channel map and of channels that nobody sends; those that wait are not
    /// among them.
    pub fn shown(&self) -> &[u64] {
        &self.shown
    }

    /// Something else is shown from now on: spectra that would have both begin anew. What was kept before is among all received hits still.
    pub fn follow(&mut self, change: &ViewChange, map: &ChannelMap, has_cuts: bool) {
        self.settle();
        let inner = self.set.0.clone();
        let store = &inner.stores[self.store];
        if let Some(standard) = &mut self.standard {
            standard.set_calibrations(map.calibrations());
        }
        if change.cuts {
            for (received, kept) in inner.catalogue.pairs() {
                let of = |id: usize| (id, inner.catalogue.spectra[id].range());
                if store.pour(of(kept), of(received)) {
                    self.set.begin_anew(self.store, kept);
                }
            }
        }
        for row in &change.calibrated {
            for block in inner.catalogue.kev() {
                self.set.begin_anew(self.store, block.first + row);
            }
            let is_calibrated = map.channels()[*row].energy_kev.is_some();
            inner.has_kev[*row].store(is_calibrated, Ordering::Relaxed);
        }
        let of_pairs = self.differences.iter().filter(|_| change.cuts).flat_map(Differences::spectra);
        let mixed = |own: &&Custom| {
            change.cuts && own.at() != At::Received || !change.calibrated.is_empty() && own.asks_for_kev()
        };
        let own = self.own.iter().filter(mixed).map(Custom::spectrum);
        of_pairs.chain(own).for_each(|id| self.set.begin_anew(self.store, id));
        inner.has_kept.store(has_cuts, Ordering::Relaxed);
    }

    /// A batch begins: what the boards say of themselves with it is kept.
    pub fn begin(&mut self, batch: &Hits, map: &ChannelMap) {
        self.rest();
        self.settle_due(batch.header.mark);
        if !batch.statistics.is_empty() {
            let records =
                batch.statistics.iter().filter_map(|record| Some((map.row(record.channel)?, record)));
            self.report_due_ps = self.set.0.history.report(records);
        }
    }

    /// Takes hits from behind time order with their words, of which there are none where [`Filler::word_maker`] is none; `pass` says which of
    /// them are kept, `None` when there are no cuts.
    ///
    /// # Panics
    /// When there are not as many words as hits.
    pub fn fill(
        &mut self,
        mut hits: &[Hit],
        mut words: &[HitWord],
        mut pass: Option<&[u8]>,
        map: &ChannelMap,
    ) {
        assert!(!self.has_standard() || words.len() == hits.len(), "one word for each hit");
        self.rest();
        // A hit may have the largest time, which also says that no record is due.
        let is_due = |last: &Hit, due_ps: i64| due_ps < i64::MAX && last.time_ps >= due_ps;
        while hits.last().is_some_and(|last| is_due(last, self.report_due_ps)) {
            let before = hits.partition_point(|hit| hit.time_ps < self.report_due_ps);
            let (words_before, words_behind) = words.split_at(before.min(words.len()));
            self.fill_all(&hits[..before], words_before, pass.map(|pass| &pass[..before]), map);
            (hits, words, pass) = (&hits[before..], words_behind, pass.map(|pass| &pass[before..]));
            self.settle();
            self.report_due_ps = self.set.0.history.pass(self.report_due_ps);
        }
        self.fill_all(hits, words, pass, map);
    }

    fn fill_all(&mut self, hits: &[Hit], words: &[HitWord], pass: Option<&[u8]>, map: &ChannelMap) {
        if self.is_cut != pass.is_some() {
            self.settle();
            self.is_cut = pass.is_some();
        }
        if self.standard.is_some() {
            self.fill_buffers_with(words, map);
        }
        let inner = &self.set.0;
        for own in self.own.iter_mut().filter(|own| own.at() != At::Events) {
            let pass = pass.filter(|_| own.at() == At::Kept);
            own.fill_hits(hits, pass, map, &inner.stores[self.store]);
        }
    }

    fn fill_buffers_with(&mut self, words: &[HitWord], map: &ChannelMap) {
        let Filler { standard, set, store, fill_buffers, is_cut, shown, .. } = self;
        let mut filling = fill_buffers.filling();
        for word in words {
            let row = map.row_or_behind(word.channel());
            if filling.push(row, word.word()) {
                count(standard.as_ref(), (set, *store), row, filling.take(row), (*is_cut, shown));
            }
        }
    }

    /// Counts what has waited for long at this mark, in turn.
    pub fn settle_due(&mut self, mark: Mark) {
        let due = mark.0 / (SETTLED_WITHIN_NS / PARTS);
        // After a long time without hits, once is enough.
        for part in self.parts_settled.max(due.saturating_sub(PARTS))..due {
            let part = part % PARTS;
            let first_row = |part: u64| self.fill_buffers.rows() * part as usize / PARTS as usize;
            self.settle_rows(first_row(part)..first_row(part + 1));
            if part == 0 {
                self.settle_differences();
            }
        }
        self.parts_settled = self.parts_settled.max(due);
    }

    /// Counts what is in the fill buffers: the spectra have every hit that came until now.
    pub fn settle(&mut self) {
        self.settle_rows(0..self.fill_buffers.rows());
        self.settle_differences();
    }

    fn settle_rows(&mut self, rows: Range<usize>) {
        let Filler { standard, set, store, fill_buffers, is_cut, shown, .. } = self;
        fill_buffers.take_rows(rows, |row, words| {
            count(standard.as_ref(), (set, *store), row, words, (*is_cut, shown));
        });
    }

    fn settle_differences(&mut self) {
        if let Some(differences) = &mut self.differences {
            differences.settle(&self.set.0.stores[self.store]);
        }
    }

    /// No hit follows: what boards have reported is compared with all that came.
    pub fn finish(&mut self) {
        self.settle();
        self.report_due_ps = self.set.0.history.pass(i64::MAX);
    }

    /// Fills in events from behind the cuts on events; `pass` says which of their members are shown, `None` all.
    pub fn fill_events(&mut self, events: &HitEvents, pass: Option<&[u8]>, map: &ChannelMap) {
        self.rest();
        let store = &self.set.0.stores[self.store];
        if let Some(differences) = &mut self.differences {
            differences.fill(events, pass, map, store);
        }
        if self.own.iter().any(|own| own.at() == At::Events) {
            gather_facts(events, map, &mut self.facts);
            for own in self.own.iter_mut().filter(|own| own.at() == At::Events) {
                own.fill_events((events, pass), &self.facts, map, store);
            }
        }
    }

    /// Between two batches: empties what was asked to be empty.
    pub fn rest(&mut self) {
        let asked = self.set.0.asked_at_all.load(Ordering::Acquire);
        if asked != self.seen_asked {
            self.seen_asked = asked;
            self.settle();
            self.set.empty_asked(self.store);
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.settle();
        self.set.0.filled[self.store].store(false, Ordering::Release);
        self.set.empty_asked(self.store);
    }
}

/// How many hits of each of so many channels wait, a power of two.
fn waiting_hits(channels: usize) -> usize {
    let room = (MOST_WAITING_BYTES / size_of::<Word>()) >> (channels + 1).next_power_of_two().ilog2();
    room.clamp(LEAST_WAITING, MOST_WAITING)
}

/// Memory of what waits in one filler of so many channels, bytes.
pub(super) fn waiting_bytes(catalogue: &Catalogue, channels: usize) -> usize {
    let of_hits = FillBuffers::bytes(channels + 1, waiting_hits(channels));
    let of_differences = Differences::waiting_bytes(catalogue);
    of_differences + if catalogue.received.is_some() { of_hits } else { 0 }
}

/// Counts what has waited in one row; the last is of channels that nobody sends, which have no spectrum. Without cuts all hits are kept.
fn count(
    standard: Option<&StandardFiller>,
    (set, store): (&SpectrumSet, usize),
    row: usize,
    words: &[u32],
    (is_cut, shown): (bool, &mut [u64]),
) {
    let kept = match standard.filter(|_| row < set.channels()) {
        Some(standard) => standard.count(row, words, &set.0.stores[store], &set.0.history),
        None => words.iter().map(|word| u64::from(Word(*word).is_kept())).sum(),
    };
    shown[row] += if is_cut { kept } else { words.len() as u64 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fill_buffers_together_stay_within_their_memory() {
        for (channels, hits) in [(1, 16_384), (512, 16_384), (1023, 16_384), (1024, 8192), (65_536, 256)] {
            assert_eq!(waiting_hits(channels), hits, "{channels} channels");
            assert!(
                FillBuffers::bytes(channels + 1, hits) < MOST_WAITING_BYTES / 8 * 9,
                "{channels} channels"
            );
        }
    }
}
