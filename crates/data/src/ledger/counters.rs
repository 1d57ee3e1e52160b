//! The counters of one stage for one source: plain numbers with one writer.

use super::vocabulary::{LossReason, Noted, Unit};
use crate::prefetch::prefetch;

/// More than any run counts, 9 PB: a file with a larger count is damaged, and sums of what is below stay within 64 bits.
pub const MOST_COUNT: u64 = 1 << 53;

/// Indices of the entries of one unit in its row.
pub(super) mod entry {
    pub const IN: usize = 0;
    pub const OUT: usize = 1;
    pub const OVERHEAD: usize = 2;
    pub const FILTERED: usize = 3;
    pub const HELD: usize = 4;
    pub const GAP_FILLED: usize = 5;
    pub const FIRST_LOSS: usize = 6;
    /// The names of the entries before the losses.
    pub const WORDS: [&str; FIRST_LOSS] = ["in", "out", "overhead", "filtered", "held", "gap_filled"];
    /// How many of them files of version 1 have.
    pub const LEGACY: usize = 5;
    pub const FIRST_NOTE: usize = FIRST_LOSS + super::LossReason::CAPACITY;
}

/// Entries per unit.
pub(super) const ROW: usize = entry::FIRST_NOTE + Noted::COUNT;
/// Number of cells in a set of counters.
pub(super) const CELLS: usize = ROW * Unit::COUNT;
const MASK_WORDS: usize = CELLS.div_ceil(64);

/// Index of a unit's `out` among the cells of a set of counters.
pub(super) const fn output_cell(unit: Unit) -> usize {
    unit as usize * ROW + entry::OUT
}

/// The counts of one stage for one source since the start of the run. They only grow, except for `held` and for `out` where a stage must
/// take it back ([`Counters::destroyed`], [`Counters::filter_output`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    cells: [u64; CELLS],
    /// Bit mask of the cells that were ever written; publishing writes only these.
    used: [u64; MASK_WORDS],
}

/// All counts of one unit, as in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitCounts {
    /// Came in, or was made here.
    pub input: u64,
    /// Passed on.
    pub output: u64,
    /// Framing that is no longer needed.
    pub overhead: u64,
    /// Left out on request.
    pub filtered: u64,
    /// In the stage's containers.
    pub held: u64,
    /// First missing, and arrived nevertheless, late or damaged.
    pub gap_filled: u64,
    /// Lost, by reason; for gaps, those still missing.
    pub lost: Vec<(LossReason, u64)>,
    /// Notes, which are not part of any sum.
    pub noted: Vec<(Noted, u64)>,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { cells: [0; CELLS], used: [0; MASK_WORDS] }
    }
}

/// Returns from the method if a test leaves this call out; see [`site`](super::site).
macro_rules! counted_here {
    ($count:expr) => {
        #[cfg(debug_assertions)]
        if super::site::is_left_out(std::panic::Location::caller(), $count) {
            return Default::default();
        }
    };
}

impl Counters {
    /// Adds to what came in, or was made here.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn input(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::IN, count);
    }

    /// Adds to what was passed on.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn output(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::OUT, count);
    }

    /// Adds to the framing that is no longer needed: headers, footers, padding.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn overhead(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::OVERHEAD, count);
    }

    /// Adds to what was left out on request.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn filtered(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::FILTERED, count);
    }

    /// Adds to what was lost.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lost(&mut self, reason: LossReason, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::FIRST_LOSS + reason.index(), count);
    }

    /// Adds to a note, which is not part of any sum.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn noted(&mut self, what: Noted, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::FIRST_NOTE + what as usize, count);
    }

    /// Adds to what was counted as missing before and arrived nevertheless, late or damaged. Subtracted from the gaps found, this gives
    /// what is still missing; both only grow. What arrived is counted as passed on or, at the stage that refuses it, as lost.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn gap_filled(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        self.add(unit, entry::GAP_FILLED, count);
    }

    /// Moves what was lost for the reason `from` since `before`, the state that was published last, to the reason `to`.
    pub fn rename_since(&mut self, before: &Counters, (from, to): (LossReason, LossReason), unit: Unit) {
        let new = self.total_lost(from, unit).saturating_sub(before.total_lost(from, unit));
        if new > 0 {
            let cell = |reason: LossReason| unit as usize * ROW + entry::FIRST_LOSS + reason.index();
            self.cells[cell(from)] -= new;
            self.add_cell(cell(to), new);
        }
    }

    /// Moves from `out` to lost what another program destroyed after it was on file; at most as much as was passed on.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn destroyed(&mut self, reason: LossReason, unit: Unit, count: u64) {
        counted_here!(count);
        let index = unit as usize * ROW + entry::OUT;
        let moved = count.min(self.cells[index]);
        self.cells[index] -= moved;
        self.lost(reason, unit, moved);
    }

    /// Moves from `out` to filtered what the next stage leaves out on request; at most as much as was passed on.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn filter_output(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        let output = unit as usize * ROW + entry::OUT;
        let count = count.min(self.cells[output]);
        self.cells[output] -= count;
        self.filtered(unit, count);
    }

    /// Sets how many are in this stage's containers now.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn set_held(&mut self, unit: Unit, count: u64) {
        counted_here!(count);
        let index = unit as usize * ROW + entry::HELD;
        self.cells[index] = count;
        self.used[index / 64] |= 1 << (index % 64);
    }

    /// Prefetches the counts of a unit.
    #[inline]
    pub fn prefetch(&self, unit: Unit) {
        prefetch(&self.cells[unit as usize * ROW]);
        prefetch(&self.used);
    }

    /// Adds all counts of another set of counters, such as a worker's, including `held`.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn add_all(&mut self, other: &Counters) {
        counted_here!(other.cells.iter().sum());
        for index in other.used_cells() {
            self.add_cell(index, other.cells[index]);
        }
    }

    /// Adds the counts of a unit that were read from a file.
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
            self.add(unit, entry::FIRST_LOSS + reason.index(), *count + filled);
        }
        for (what, count) in noted {
            self.add(unit, entry::FIRST_NOTE + *what as usize, *count);
        }
    }

    /// Total that came in, or was made here.
    pub fn total_input(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::IN)
    }

    /// Total passed on.
    pub fn total_output(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::OUT)
    }

    /// Total lost for one reason; for a gap, what is still missing.
    pub fn total_lost(&self, reason: LossReason, unit: Unit) -> u64 {
        let lost = self.cell(unit, entry::FIRST_LOSS + reason.index());
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

    /// Total found missing by numbers, including what arrived afterwards.
    pub fn total_gap_opened(&self, unit: Unit) -> u64 {
        let gaps = LossReason::ALL.iter().filter(|reason| reason.is_gap());
        gaps.map(|reason| self.cell(unit, entry::FIRST_LOSS + reason.index())).sum()
    }

    /// Total first missing that arrived nevertheless.
    pub fn total_gap_filled(&self, unit: Unit) -> u64 {
        self.cell(unit, entry::GAP_FILLED)
    }

    /// Total of a note.
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

    /// How many are in the stage's containers now.
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

    /// Counters from cells with their indices.
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
    fn counters_return_what_was_counted() {
        let mut counters = Counters::default();
        counters.input(Unit::Hits, 10);
        counters.lost(LossReason::Late, Unit::Hits, 3);
        counters.output(Unit::Hits, 7);
        counters.noted(Noted::Late, Unit::Hits, 2);
        assert_eq!(counters.total_input(Unit::Hits), 10);
        assert_eq!(counters.total_lost_any(Unit::Hits), 3, "a note is no loss");
        assert_eq!(counters.total_noted(Noted::Late, Unit::Hits), 2);
        assert_eq!(counters.used_cells().count(), 4);
    }

    #[test]
    fn filled_gaps_are_no_longer_missing() {
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
    fn destroyed_output_is_lost() {
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
