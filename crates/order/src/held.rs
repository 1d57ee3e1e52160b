//! Pending hits: sorted runs per source, with their extras.
//!
//! ```text
//!  source ─ queue of runs ─┬─ [----head====|====]   hits, extras, slices, leases
//!                          └─ [=========]           each sorted; neighbours may overlap
//! ```
//! An incoming batch becomes a run by exchange of vectors, without copying. A small batch is appended to the run
//! before it, so that a slow source does not hold one large buffer per hit.

use std::collections::VecDeque;

use thalweg_data::hit::{Extra, Flags, Hit};
use thalweg_data::{Hits, Leases, Slice};

use crate::merge::gallop_back;
use crate::repair::Repair;

/// Some rows of extras of a batch or run, with the slices and leases to which they refer.
#[derive(Clone, Copy)]
pub(crate) struct ExtraRows<'a> {
    pub rows: &'a [Extra],
    pub slices: &'a [Slice],
    pub leases: &'a Leases,
}

impl ExtraRows<'_> {
    /// Appends the rows to `extras`, and their chains and leases to the other two.
    pub(crate) fn append_to(&self, extras: &mut Vec<Extra>, slices: &mut Vec<Slice>, leases: &mut Leases) {
        for row in self.rows {
            let (samples_first, samples_count) =
                self.append_chain(row.samples_first, row.samples_count, slices, leases);
            let (words_first, words_count) =
                self.append_chain(row.words_first, row.words_count, slices, leases);
            extras.push(Extra { samples_first, samples_count, words_first, words_count, ..*row });
        }
    }

    /// Adds the leases on all blocks in which something of these rows lies.
    fn add_leases_to(&self, leases: &mut Leases) {
        for row in self.rows {
            for (first, count) in [(row.samples_first, row.samples_count), (row.words_first, row.words_count)]
            {
                let chain = self.chain(first, count).unwrap_or(&[]);
                self.add_leases_of(chain, leases);
            }
        }
    }

    /// One chain, if it lies in the list.
    fn chain(&self, first: u32, count: u16) -> Option<&[Slice]> {
        let first = first as usize;
        self.slices.get(first..first + usize::from(count)).filter(|_| count > 0)
    }

    fn add_leases_of(&self, chain: &[Slice], leases: &mut Leases) {
        let mut block = None;
        for slice in chain {
            if block != Some(slice.block) {
                leases.add_for(*slice, self.leases);
                block = Some(slice.block);
            }
        }
    }

    /// Copies one chain; a chain outside the list becomes an empty one.
    fn append_chain(
        &self,
        first: u32,
        count: u16,
        slices: &mut Vec<Slice>,
        leases: &mut Leases,
    ) -> (u32, u16) {
        let new_first = slices.len() as u32;
        let Some(chain) = self.chain(first, count) else { return (new_first, 0) };
        self.add_leases_of(chain, leases);
        slices.extend_from_slice(chain);
        (new_first, count)
    }
}

/// Hits of one source, sorted by time; those before `head` have been passed on.
#[derive(Debug, Default)]
pub(crate) struct Run {
    content: Hits,
    head: usize,
    extras_head: usize,
    /// Blocks in which only rows of extras before this one lie are not held any more.
    let_go: usize,
    /// No hit of this run, or of a later run of the queue, is earlier.
    floor_ps: i64,
}

impl Run {
    /// The hits that have not been passed on.
    #[inline]
    pub(crate) fn hits(&self) -> &[Hit] {
        &self.content.hits[self.head..]
    }

    /// The next `count` rows of extras, or as many as remain.
    pub(crate) fn extra_rows(&self, count: usize) -> ExtraRows<'_> {
        let rows = &self.content.extras[self.extras_head..];
        ExtraRows {
            rows: &rows[..count.min(rows.len())],
            slices: &self.content.slices,
            leases: &self.content.leases,
        }
    }

    /// Number of rows of extras that belong to the first `hits` hits.
    #[inline]
    pub(crate) fn extras_of(&self, hits: usize) -> usize {
        if self.content.extras.is_empty() { 0 } else { count_extras(&self.hits()[..hits]) }
    }

    pub(crate) fn floor_ps(&self) -> i64 {
        self.floor_ps
    }

    /// Removes the next hits and extras.
    pub(crate) fn advance(&mut self, hits: usize, extras: usize) {
        self.head += hits;
        self.extras_head += extras;
    }

    /// Lets go of the blocks in which nothing lies but of hits that have been passed on: a run of which one hit waits for the next would hold
    /// all of them until it comes. `leases` is empty, before and behind it.
    fn let_go(&mut self, leases: &mut Leases) {
        if self.let_go == self.extras_head || self.content.leases.is_empty() {
            return;
        }
        self.let_go = self.extras_head;
        self.extra_rows(usize::MAX).add_leases_to(leases);
        std::mem::swap(&mut self.content.leases, leases);
        leases.clear();
    }

    /// Whether a small batch can be appended. A run that passes hits on while others are appended is never empty, and the slices of all that
    /// have passed stay in it: so none is appended to what has begun to pass on and holds blocks.
    fn has_capacity_for(&self, hits: usize) -> bool {
        if self.head > 0 && !self.content.leases.is_empty() {
            return false;
        }
        let free = self.content.hits.capacity() - self.content.hits.len();
        hits <= free && hits <= self.content.hits.capacity() / SMALL_FRACTION
    }

    fn append(&mut self, hits: &[Hit], extras: ExtraRows<'_>) {
        self.content.hits.extend_from_slice(hits);
        extras.append_to(&mut self.content.extras, &mut self.content.slices, &mut self.content.leases);
    }

    /// Appends sorted hits whose first time is `first_ps`, and repairs the order where they overlap the run.
    fn append_in_order(
        &mut self,
        hits: &[Hit],
        extras: ExtraRows<'_>,
        first_ps: i64,
        repair: &mut RepairBoth,
    ) {
        let overlapped = gallop_back(self.hits(), |hit| hit.time_ps > first_ps);
        let overlap = self.content.hits.len() - overlapped;
        self.append(hits, extras);
        if overlapped > 0 && repair.hits.repair(&mut self.content.hits[overlap..]) {
            repair.extras.repair(&mut self.content.extras[self.extras_head..]);
        }
    }

    fn clear(&mut self) {
        self.content.clear();
        (self.head, self.extras_head, self.let_go) = (0, 0, 0);
    }
}

/// Repairs the order of hits and of their extras by the same rule, so that they stay paired.
#[derive(Debug, Default)]
pub(crate) struct RepairBoth {
    hits: Repair<Hit>,
    extras: Repair<Extra>,
}

impl RepairBoth {
    /// Sorts a batch by time, stably.
    pub(crate) fn repair(&mut self, batch: &mut Hits) {
        if self.hits.repair(&mut batch.hits) {
            self.extras.repair(&mut batch.extras);
        }
    }
}

/// A batch of at most one in so many hits of a run's capacity is copied into that run instead of becoming its own.
const SMALL_FRACTION: usize = 4;

/// The first `count` rows of a batch.
pub(crate) fn extra_rows(batch: &Hits, count: usize) -> ExtraRows<'_> {
    ExtraRows {
        rows: &batch.extras[..count.min(batch.extras.len())],
        slices: &batch.slices,
        leases: &batch.leases,
    }
}

/// Bytes of so many hits and rows of extras, with two slices for each row.
fn bytes_of(hits: usize, extras: usize) -> u64 {
    (hits * size_of::<Hit>() + extras * (size_of::<Extra>() + 2 * size_of::<Slice>())) as u64
}

/// Bytes of pending hits and extras that a batch adds.
pub(crate) fn batch_bytes(batch: &Hits) -> u64 {
    bytes_of(batch.hits.len(), batch.extras.len())
}

/// Number of hits that have a row of extras.
pub(crate) fn count_extras(hits: &[Hit]) -> usize {
    hits.iter().map(|hit| usize::from(hit.flags.0 >> 15)).sum()
}

/// Empty runs for reuse.
#[derive(Debug, Default)]
pub(crate) struct FreeRuns {
    runs: Vec<Run>,
}

impl FreeRuns {
    /// An empty run; a new one has capacity for `capacity` hits.
    fn take(&mut self, capacity: usize) -> Run {
        self.runs.pop().unwrap_or_else(|| Run { content: Hits::with_capacity(capacity), ..Run::default() })
    }

    fn give_back(&mut self, mut run: Run) {
        run.clear();
        self.runs.push(run);
    }
}

/// The runs of one source.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    runs: VecDeque<Run>,
}

impl Queue {
    /// The runs, oldest first; some may be empty.
    #[inline]
    pub(crate) fn runs(&self) -> &VecDeque<Run> {
        &self.runs
    }

    /// One run, to remove hits from.
    pub(crate) fn run_mut(&mut self, index: usize) -> &mut Run {
        &mut self.runs[index]
    }

    /// Number of pending hits.
    pub(crate) fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.hits().len() as u64).sum()
    }

    /// Bytes of the pending hits and extras. Lengths count, not capacities, so that a replay gives the same number; the
    /// vectors are at least a quarter full.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| bytes_of(run.hits().len(), run.content.extras.len() - run.extras_head))
            .sum()
    }

    /// Adds the hits of a sorted batch from `head` on, with their extras. The batch may get an empty buffer in exchange.
    pub(crate) fn push(
        &mut self,
        batch: &mut Hits,
        (head, extras_head): (usize, usize),
        repair: &mut RepairBoth,
        free_runs: &mut FreeRuns,
    ) {
        let Some(first) = batch.hits.get(head).map(|hit| hit.time_ps) else { return };
        let fresh = batch.hits.len() - head;
        if let Some(run) = self.runs.back_mut().filter(|run| run.has_capacity_for(fresh)) {
            let rows = &batch.extras[extras_head..];
            let extras = ExtraRows { rows, slices: &batch.slices, leases: &batch.leases };
            run.append_in_order(&batch.hits[head..], extras, first, repair);
        } else {
            let mut run = free_runs.take(batch.hits.capacity());
            std::mem::swap(&mut run.content.hits, &mut batch.hits);
            std::mem::swap(&mut run.content.extras, &mut batch.extras);
            std::mem::swap(&mut run.content.slices, &mut batch.slices);
            std::mem::swap(&mut run.content.leases, &mut batch.leases);
            run.advance(head, extras_head);
            run.floor_ps = first;
            self.runs.push_back(run);
        }
        for run in self.runs.iter_mut().rev().take_while(|run| run.floor_ps >= first) {
            run.floor_ps = first;
        }
    }

    /// Adds a copy of some hits of a batch.
    pub(crate) fn push_copy(
        &mut self,
        hits: &[Hit],
        extras: ExtraRows<'_>,
        capacity: usize,
        free_runs: &mut FreeRuns,
    ) {
        if hits.is_empty() {
            return;
        }
        if self
            .runs
            .back()
            .is_none_or(|run| run.content.hits.capacity() - run.content.hits.len() < hits.len())
        {
            let run = free_runs.take(capacity);
            self.runs.push_back(run);
        }
        let run = self.runs.back_mut().expect("the queue has a run or has just got one");
        run.append(hits, extras);
    }

    /// Moves the next `count` hits of a run to the end of `out`, with their extras. Returns how many there were.
    pub(crate) fn move_out(&mut self, index: usize, count: usize, out: &mut Hits) -> u32 {
        let run = &mut self.runs[index];
        let count = count.min(run.hits().len());
        let extras = run.extras_of(count);
        out.hits.extend_from_slice(&run.hits()[..count]);
        run.extra_rows(extras).append_to(&mut out.extras, &mut out.slices, &mut out.leases);
        run.advance(count, extras);
        count as u32
    }

    /// Recycles the empty runs at the front.
    pub(crate) fn drop_empty(&mut self, free_runs: &mut FreeRuns) {
        while self.runs.front().is_some_and(|run| run.hits().is_empty()) {
            if let Some(run) = self.runs.pop_front() {
                free_runs.give_back(run);
            }
        }
    }

    /// Lets go of the blocks in which nothing lies but of hits that have been passed on. `leases` is empty, before and behind it.
    pub(crate) fn let_go(&mut self, leases: &mut Leases) {
        self.runs.iter_mut().for_each(|run| run.let_go(leases));
    }

    /// The time of the second run's last hit, if more runs follow: a window does not need to reach further.
    pub(crate) fn near_end_ps(&self) -> Option<i64> {
        let second = self.runs.get(1).filter(|_| self.runs.len() > 2)?;
        second.hits().last().map(|hit| hit.time_ps)
    }
}

/// Sets [`Flags::LATE`] on every hit.
pub(crate) fn flag_late(hits: &mut [Hit]) {
    hits.iter_mut().for_each(|hit| hit.flags |= Flags::LATE);
}
