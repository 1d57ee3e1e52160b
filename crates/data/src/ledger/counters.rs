//! The running count of one stage for one source: plain numbers, one writer.

use super::vocabulary::{LossReason, Noted, Unit};
use crate::prefetch::prefetch;

/// Places of the entries of one unit within its row.
pub(super) mod entry {
    pub const IN: usize = 0;
    pub const OUT: usize = 1;
    pub const OVERHEAD: usize = 2;
    pub const FILTERED: usize = 3;
    pub const HELD: usize = 4;
    pub const GAP_FILLED: usize = 5;
    pub const FIRST_LOSS: usize = 6;
    /// The words of those before the losses.
    pub const WORDS: [&str; FIRST_LOSS] = ["in", "out", "overhead", "filtered", "held", "gap_filled"];
    /// How many of them older files have.
    pub const LEGACY: usize = 5;
    pub const FIRST_NOTE: usize = FIRST_LOSS + super::LossReason::PLACES;
}

/// Entries per unit.
pub(super) const ROW: usize = entry::FIRST_NOTE + Noted::COUNT;
/// Cells of a whole set of counters.
pub(super) const CELLS: usize = ROW * Unit::COUNT;
const MASK_WORDS: usize = CELLS.div_ceil(64);

/// Place of what was passed on in one unit, among the cells of a set of counters.
pub(super) const fn output_cell(unit: Unit) -> usize {
    unit as usize * ROW + entry::OUT
}

/// What one stage did with one source's data, since the run began. Grows only, but for `held`, and for what a stage has to take
/// back ([`Counters::destroyed`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    cells: [u64; CELLS],
    /// Which cells were ever written: publishing touches those alone.
    used: [u64; MASK_WORDS],
}

/// All counts of one unit, as a file has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitCounts {
    /// Came in.
    pub input: u64,
    /// Passed on.
    pub output: u64,
    /// Framing that has done its work.
    pub overhead: u64,
    /// Left out on request.
    pub filtered: u64,
    /// In the stage's containers.
    pub held: u64,
    /// Of what was missing, what has come all the same, and was refused.
    pub gap_filled: u64,
    /// Lost, by reason; of gaps, what is still missing.
    pub lost: Vec<(LossReason, u64)>,
    /// Told beside what became of them.
    pub noted: Vec<(Noted, u64)>,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { cells: [0; CELLS], used: [0; MASK_WORDS] }
    }
}

/// Leaves the method where a test has this place of the source text left out; see [`site`](super::site).
macro_rules! counted_here {
    ($count:expr) => {
        #[cfg(debug_assertions)]
        if super::site::is_left_out(std::panic::Location::caller(), $count) {
            return Default::default();
        }
    };
}

impl Counters {
    /// Came in.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn input(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::IN, count);
    }

    /// Was passed on.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn output(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::OUT, count);
    }

    /// Was framing: headers, footers, padding that have done their work.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn overhead(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::OVERHEAD, count);
    }

    /// Was left out on request.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn filtered(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::FILTERED, count);
    }

    /// Was lost.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lost(&mut self, reason: LossReason, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::FIRST_LOSS + reason.place(), count);
    }

    /// Is said beside what became of it: no part of any sum.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn noted(&mut self, what: Noted, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::FIRST_NOTE + what as usize, count);
    }

    /// Was counted as missing before, and has come all the same: too late, or damaged. What is missing is what was found to be, less this;
    /// both only grow. What has come is passed on or, where it was refused, lost there.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn gap_filled(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::GAP_FILLED, count);
    }

    /// What was lost for one reason since `before`, which is what others have seen of this set of counters, was lost for another.
    pub fn rename_since(&mut self, before: &Counters, (from, to): (LossReason, LossReason), unit: Unit) {
        let new = self.total_lost(from, unit).saturating_sub(before.total_lost(from, unit));
        if new > 0 {
            let cell = |reason: LossReason| unit as usize * ROW + entry::FIRST_LOSS + reason.place();
            self.cells[cell(from)] -= new;
            self.add_cell(cell(to), new);
        }
    }

    /// Was passed on, and was destroyed afterwards by somebody else: what was on file is not there any more. It is lost instead.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn destroyed(&mut self, reason: LossReason, unit: Unit, count: u64) {
        counted_here!(count);
        let index = unit as usize * ROW + entry::OUT;
        let moved = count.min(self.cells[index]);
        self.cells[index] -= moved;
        self.lost(reason, unit, moved);
    }

    /// Some of what was passed on is left out on request instead, by whoever takes it; no more than was passed on.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn filter_output(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        let output = unit as usize * ROW + entry::OUT;
        let count = count.min(self.cells[output]);
        self.cells[output] -= count;
        self.filtered(unit, count);
    }

    /// Is in this stage's containers now, counted from them.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn set_held(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        let index = unit as usize * ROW + entry::HELD;
        self.cells[index] = count;
        self.used[index / 64] |= 1 << (index % 64);
    }

    /// Asks the memory for the counts of a unit, which are needed soon.
    #[inline]
    pub fn prefetch(&self, unit: Unit) {
        prefetch(&self.cells[unit as usize * ROW]);
        prefetch(&self.used);
    }

    /// Adds all counts of another set of counters, as of a worker; `held` adds, too.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn add_all(&mut self, other: &Counters) {
        counted_here!(other.cells.iter().sum());
        for index in other.used_cells() {
            self.add_cell(index, other.cells[index]);
        }
    }

    /// Counts of a unit again that were counted elsewhere, as a file has them.
    pub fn restore(&mut self, unit: Unit, counts: &UnitCounts) {
        let UnitCounts { input, output, overhead, filtered, held, gap_filled, lost, noted } = counts;
        let fixed = [
            (entry::IN, input),
            (entry::OUT, output),
            (entry::OVERHEAD, overhead),
            (entry::FILTERED, filtered),
            (entry::HELD, held),
            (entry::GAP_FILLED, gap_filled),
        ];
        fixed.into_iter().for_each(|(entry, count)| self.add(unit, entry, *count));
        for (reason, count) in lost {
            let filled = if LossReason::gap_of(unit) == Some(*reason) { *gap_filled } else { 0 };
            self.add(unit, entry::FIRST_LOSS + reason.place(), *count + filled);
        }
        for (what, count) in noted {
            self.add(unit, entry::FIRST_NOTE + *what as usize, *count);
        }
    }

    /// Total that came in.
    pub fn total_input(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::IN)
    }

    /// Total passed on.
    pub fn total_output(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::OUT)
    }

    /// Total lost for one reason; of a gap, what is still missing.
    pub fn total_lost(&self, reason: LossReason, unit: Unit) -> u64 {
        let lost = self.cell(unit, entry::FIRST_LOSS + reason.place());
        match LossReason::gap_of(unit) == Some(reason) {
            true => lost.saturating_sub(self.total_gap_filled(unit)),
            false => lost,
        }
    }

    /// Total lost for any reason.
    pub fn total_lost_any(&self, unit: Unit) -> u64 {
        let first = unit as usize * ROW;
        let lost: u64 = self.cells[first + entry::FIRST_LOSS..first + entry::FIRST_NOTE].iter().sum();
        lost.saturating_sub(self.total_gap_filled(unit))
    }

    /// Total that sequence numbers were found to lack, what has come since among it.
    pub fn total_gap_opened(&self, unit: Unit) -> u64 {
        let gaps = LossReason::ALL.iter().filter(|reason| reason.is_gap());
        gaps.map(|reason| self.cell(unit, entry::FIRST_LOSS + reason.place())).sum()
    }

    /// Total that was missing, and has come all the same.
    pub fn total_gap_filled(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::GAP_FILLED)
    }

    /// Total that was said beside what became of it.
    pub fn total_noted(&self, what: Noted, unit: Unit) -> u64 {
        self.cell(unit, entry::FIRST_NOTE + what as usize)
    }

    /// Total that was framing.
    pub fn total_overhead(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::OVERHEAD)
    }

    /// Total left out on request.
    pub fn total_filtered(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::FILTERED)
    }

    /// What is in the stage's containers now.
    pub fn held(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::HELD)
    }

    #[inline]
    fn add(&mut self, unit: Unit, entry: usize, count: u64) {
        self.add_cell(unit as usize * ROW + entry, count);
    }

    #[inline]
    fn add_cell(&mut self, index: usize, count: u64) {
        self.cells[index] += count;
        self.used[index / 64] |= 1 << (index % 64);
    }

    pub(super) fn cell(&self, unit: Unit, entry: usize) -> u64 {
        self.cells[unit as usize * ROW + entry]
    }

    pub(super) fn cells(&self) -> &[u64; CELLS] {
        &self.cells
    }

    /// Of cells by their places.
    pub(super) fn from_cells(cells: impl Iterator<Item = (usize, u64)>) -> Counters {
        let mut counters = Counters::default();
        cells.filter(|(_, count)| *count > 0).for_each(|(index, count)| counters.add_cell(index, count));
        counters
    }

    /// Indices of the cells that were ever written.
    pub(super) fn used_cells(&self) -> impl Iterator<Item = usize> + '_ {
        self.used.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = *bits;
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_list_what_it_was_given() {
        let mut counters = Counters::default();
        counters.input(Unit::Hits, 10);
        counters.lost(LossReason::Late, Unit::Hits, 3);
        counters.output(Unit::Hits, 7);
        counters.noted(Noted::Late, Unit::Hits, 2);
        assert_eq!(counters.total_input(Unit::Hits), 10);
        assert_eq!(counters.total_lost_any(Unit::Hits), 3, "what is noted is no loss");
        assert_eq!(counters.total_noted(Noted::Late, Unit::Hits), 2);
        assert_eq!(counters.used_cells().count(), 4);
    }

    #[test]
    fn gaps_only_grow_and_what_fills_them_is_not_missing() {
        let mut counters = Counters::default();
        counters.lost(LossReason::MissingFragment, Unit::Fragments, 5);
        counters.gap_filled(Unit::Fragments, 2);
        let still = |counters: &Counters| counters.total_lost(LossReason::MissingFragment, Unit::Fragments);
        assert_eq!((still(&counters), counters.total_lost_any(Unit::Fragments)), (3, 3));
        assert_eq!(
            (counters.total_gap_opened(Unit::Fragments), counters.total_gap_filled(Unit::Fragments)),
            (5, 2)
        );
        let seen = counters.clone();
        counters.lost(LossReason::MissingFragment, Unit::Fragments, 4);
        let reasons = (LossReason::MissingFragment, LossReason::RecordingDamaged);
        counters.rename_since(&seen, reasons, Unit::Fragments);
        assert_eq!(
            (still(&counters), counters.total_lost(LossReason::RecordingDamaged, Unit::Fragments)),
            (3, 4)
        );
        assert_eq!(counters.total_gap_opened(Unit::Fragments), 9);
    }

    #[test]
    fn what_was_destroyed_is_lost_and_not_on_file() {
        let mut counters = Counters::default();
        counters.input(Unit::Hits, 10);
        counters.output(Unit::Hits, 10);
        counters.destroyed(LossReason::WriteFailed, Unit::Hits, 4);
        assert_eq!((counters.total_output(Unit::Hits), counters.total_lost_any(Unit::Hits)), (6, 4));
        counters.destroyed(LossReason::WriteFailed, Unit::Hits, 40);
        assert_eq!((counters.total_output(Unit::Hits), counters.total_lost_any(Unit::Hits)), (0, 10));
    }

    #[test]
    fn counters_of_workers_add() {
        let mut one = Counters::default();
        one.output(Unit::Hits, 5);
        let mut both = one.clone();
        both.add_all(&one);
        assert_eq!(both.total_output(Unit::Hits), 10);
    }
}
