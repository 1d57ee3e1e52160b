//! Sorts a batch that is nearly sorted: finds disorder in one pass, and repairs it only where it is.
//!
//! ```text
//!  1 2 3 | 7 5 6 8 7 9        found: 5 comes after 7
//!        | 7 8 9  ·  5 6 7    split without a branch: kept hits, and stragglers, which are earlier than one before them
//!  1 2 3 | 5 6 7 7 8 9        merged, after the few stragglers have been sorted
//! ```
//! Boards interleave their channels: some hits are a little late, and a processor cannot predict which. A batch that is
//! disordered throughout is divided into its ascending runs, which are merged. All steps are stable: equal times keep
//! their order, so that extras stay with their hits. (A straggler follows every kept hit of its own time, because a
//! later hit was already before it.)

use std::ops::Range;

use thalweg_data::hit::Timed;

use crate::merge::gallop_back;
use crate::tree::Merger;

/// Shorter ascending runs are extended to this length by insertion sort before they are merged.
const SHORTEST_RUN: usize = 24;
/// Number of neighbours compared without a branch.
const PASS: usize = 256;

/// Sorts batches; owns the memory for it.
#[derive(Debug)]
pub(crate) struct Repair<T> {
    merger: Merger<T>,
    runs: Vec<Range<usize>>,
    sorted: Vec<T>,
    /// Buffers for stragglers, one for each depth of recursion.
    spare: Vec<Vec<T>>,
}

impl<T> Default for Repair<T> {
    fn default() -> Self {
        Repair { merger: Merger::default(), runs: Vec::new(), sorted: Vec::new(), spare: Vec::new() }
    }
}

impl<T: Timed> Repair<T> {
    /// Sorts `batch` by time, stably. Returns whether it was disordered.
    pub(crate) fn repair(&mut self, batch: &mut [T]) -> bool {
        let Some(first) = first_disorder(batch) else { return false };
        if batch.len() <= SHORTEST_RUN {
            insert_from(batch, first);
            return true;
        }
        let mut stragglers = self.spare.pop().unwrap_or_default();
        let kept = split(batch, first, &mut stragglers);
        if stragglers.len() > batch.len() / 2 {
            self.merge_runs(&mut stragglers);
        } else {
            self.repair(&mut stragglers);
        }
        let earliest = stragglers[0].time_ps();
        let start = kept - gallop_back(&batch[..kept], |each| each.time_ps() > earliest);
        let halves = [&batch[start..kept], &stragglers[..]];
        self.sorted.clear();
        self.merger.merge(2, |index| halves[index], &mut self.sorted);
        batch[start..].copy_from_slice(&self.sorted);
        self.spare.push(stragglers);
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
                insert_from(&mut rest[..made], length);
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

/// Index of the first element that is earlier than the one before it.
pub(crate) fn first_disorder<T: Timed>(run: &[T]) -> Option<usize> {
    let mut start = 0;
    while start + 1 < run.len() {
        let pass = &run[start..run.len().min(start + PASS + 1)];
        let disordered =
            pass.windows(2).fold(false, |found, pair| found | (pair[1].time_ps() < pair[0].time_ps()));
        if disordered {
            let at = pass.windows(2).position(|pair| pair[1].time_ps() < pair[0].time_ps());
            return at.map(|index| start + index + 1);
        }
        start += PASS;
    }
    None
}

/// Moves the elements that are not earlier than one before them to the front, and copies the rest to `stragglers`; both
/// keep their order. The first `first` elements must be sorted. Returns how many were kept; the content of `batch`
/// behind them is unspecified.
fn split<T: Timed>(batch: &mut [T], first: usize, stragglers: &mut Vec<T>) -> usize {
    stragglers.clear();
    stragglers.extend_from_slice(&batch[first..]);
    let mut latest_ps = batch[first - 1].time_ps();
    let (mut kept, mut straggling) = (first, 0);
    for index in first..batch.len() {
        let each = batch[index];
        let time_ps = each.time_ps();
        let straggles = time_ps < latest_ps;
        batch[kept] = each;
        stragglers[straggling] = each;
        kept += usize::from(!straggles);
        straggling += usize::from(straggles);
        latest_ps = latest_ps.max(time_ps);
    }
    stragglers.truncate(straggling);
    kept
}

/// Sorts by insertion; the elements before `first` must be sorted.
fn insert_from<T: Timed>(run: &mut [T], first: usize) {
    for index in first..run.len() {
        let moved = run[index];
        let mut position = index;
        while position > 0 && run[position - 1].time_ps() > moved.time_ps() {
            run[position] = run[position - 1];
            position -= 1;
        }
        run[position] = moved;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thalweg_data::Hit;

    use super::*;

    fn numbered(times: Vec<i64>) -> Vec<Hit> {
        let hit = |(index, time_ps)| Hit { time_ps, energy: index as u16, ..Hit::default() };
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
        for index in [1, PASS - 1, PASS, PASS + 1, 3 * PASS] {
            let mut hits = numbered((0..4 * PASS as i64).collect());
            hits[index].time_ps = -1;
            assert_eq!(first_disorder(&hits), Some(index));
        }
        assert_eq!(first_disorder(&numbered(vec![3, 3, 4])), None);
    }
}
