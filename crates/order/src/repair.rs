//! Disorder inside a batch, found in one pass and repaired only where it is.
//!
//! ```text
//!  1 2 3 | 7 5 6 | 8 9        most hits stand right; the few that do not are moved back
//!          └ 5 moves back past 7
//! ```
//! Boards interleave their channels, so a hit is rarely far from its place and moving it there costs little. A batch
//! that is disordered throughout is cut into its ascending runs, and those are merged. Both are stable: of equal
//! times the one that came first stays first, which keeps extras with their hits.

use std::ops::Range;

use thalweg_data::hit::Timed;

use crate::tree::Merger;

/// Moves allowed per element before merging is the better way.
const MOVES_PER_ELEMENT: usize = 6;
/// An element is moved step by step this far; beyond, its place is searched for.
const STEPS: usize = 16;
/// Ascending runs are made at least this long before they are merged.
const SHORTEST_RUN: usize = 24;
/// Neighbours compared without a branch.
const PASS: usize = 256;

/// Repairs disorder; owns the memory to do it in.
#[derive(Debug)]
pub(crate) struct Repair<T> {
    merger: Merger<T>,
    runs: Vec<Range<usize>>,
    sorted: Vec<T>,
}

impl<T> Default for Repair<T> {
    fn default() -> Self {
        Repair { merger: Merger::default(), runs: Vec::new(), sorted: Vec::new() }
    }
}

impl<T: Timed> Repair<T> {
    /// Sorts `batch` by time, stably. Returns whether there was anything to do.
    pub(crate) fn repair(&mut self, batch: &mut [T]) -> bool {
        let Some(first) = first_disorder(batch) else { return false };
        if !insert_from(batch, first, MOVES_PER_ELEMENT * batch.len()) {
            self.merge_runs(batch);
        }
        true
    }

    fn merge_runs(&mut self, batch: &mut [T]) {
        self.runs.clear();
        let mut start = 0;
        while start < batch.len() {
            let rest = &mut batch[start..];
            let mut length = first_disorder(rest).unwrap_or(rest.len());
            if length < SHORTEST_RUN {
                let made = SHORTEST_RUN.min(rest.len());
                insert_from(&mut rest[..made], length, usize::MAX);
                length = made;
            }
            self.runs.push(start..start + length);
            start += length;
        }
        self.sorted.clear();
        let runs = &self.runs;
        self.merger.merge(runs.len(), |index| &batch[runs[index].clone()], &mut self.sorted);
        batch.copy_from_slice(&self.sorted);
    }
}

/// The first element that is earlier than the one before it.
pub(crate) fn first_disorder<T: Timed>(run: &[T]) -> Option<usize> {
    let mut start = 0;
    while start + 1 < run.len() {
        let pass = &run[start..run.len().min(start + PASS + 1)];
        let disordered =
            pass.windows(2).fold(false, |found, pair| found | (pair[1].time_ps() < pair[0].time_ps()));
        if disordered {
            let at = pass.windows(2).position(|pair| pair[1].time_ps() < pair[0].time_ps());
            return at.map(|place| start + place + 1);
        }
        start += PASS;
    }
    None
}

/// Moves every element from `first` on back to its place among those before it, which are sorted. Gives up, with every
/// element still there, when that takes more than `allowed` moves.
fn insert_from<T: Timed>(run: &mut [T], first: usize, mut allowed: usize) -> bool {
    for index in first..run.len() {
        let moved = run[index];
        let time_ps = moved.time_ps();
        if run[index - 1].time_ps() <= time_ps {
            continue;
        }
        let mut place = index;
        while place > 0 && index - place < STEPS && run[place - 1].time_ps() > time_ps {
            run[place] = run[place - 1];
            place -= 1;
        }
        if place > 0 && run[place - 1].time_ps() > time_ps {
            let found = run[..place].partition_point(|each| each.time_ps() <= time_ps);
            run.copy_within(found..place, found + 1);
            place = found;
        }
        run[place] = moved;
        match allowed.checked_sub(index - place) {
            Some(left) => allowed = left,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thalweg_data::Hit;

    use super::*;

    fn numbered(times: Vec<i64>) -> Vec<Hit> {
        let hit = |(place, time_ps)| Hit { time_ps, energy: place as u16, ..Hit::default() };
        times.into_iter().enumerate().map(hit).collect()
    }

    fn disordered() -> impl Strategy<Value = Vec<i64>> {
        let jitter = |reach: i64| {
            prop::collection::vec(0..=reach, 0..2000)
                .prop_map(|late| late.iter().enumerate().map(|(index, late)| index as i64 - late).collect())
        };
        prop_oneof![
            prop::collection::vec(any::<i64>(), 0..2000),
            prop::collection::vec(0i64..4, 0..600),
            jitter(3),
            jitter(100),
            (0i64..3000).prop_map(|length| (0..length).rev().collect()),
            (1i64..3000).prop_map(|length| (0..length).chain([-5]).chain(0..length / 2).collect()),
        ]
    }

    proptest! {
        #[test]
        fn repair_is_a_stable_sort(times in disordered()) {
            let mut hits = numbered(times);
            let mut expected = hits.clone();
            expected.sort_by_key(|hit| hit.time_ps);
            let was_disordered = hits != expected;
            prop_assert_eq!(Repair::default().repair(&mut hits), was_disordered);
            prop_assert_eq!(hits, expected);
        }
    }

    #[test]
    fn the_first_disorder_is_found_at_the_edge_of_a_pass() {
        for place in [1, PASS - 1, PASS, PASS + 1, 3 * PASS] {
            let mut hits = numbered((0..4 * PASS as i64).collect());
            hits[place].time_ps = -1;
            assert_eq!(first_disorder(&hits), Some(place));
        }
        assert_eq!(first_disorder(&numbered(vec![3, 3, 4])), None);
    }
}
