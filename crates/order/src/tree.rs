//! Merges many sorted runs into one, by a tree of pairwise merges of neighbours.
//!
//! ```text
//!  runs, first in ties first             A   B   C   D     E (long)
//!  split at half of the elements          \ /     \ /     /
//!                                         AB       CD    /
//!                                           \     /     /
//!                                             ABCD ── ABCDE
//! ```
//! A long run is merged near the root, so that it is copied once or twice instead of at every level.
//! Results alternate between the output and one scratch buffer; with the caller's windows both stay in the
//! second-level cache.

use std::mem::MaybeUninit;

use thalweg_data::hit::Timed;

use crate::merge::{copy, merge_pair};

/// Merges runs; owns the memory for it, which grows to the largest merge and is kept.
#[derive(Debug)]
pub(crate) struct Merger<T> {
    scratch: Vec<MaybeUninit<T>>,
    /// The start of each run in the concatenation of all, and the end of the last.
    bounds: Vec<usize>,
}

impl<T> Default for Merger<T> {
    fn default() -> Self {
        Merger { scratch: Vec::new(), bounds: Vec::new() }
    }
}

impl<T: Timed> Merger<T> {
    /// Appends the merge of `count` sorted runs to `out`. Of equal times, those of the earlier run come first.
    pub(crate) fn merge<'a>(&mut self, count: usize, run: impl Fn(usize) -> &'a [T], out: &mut Vec<T>)
    where
        T: 'a,
    {
        self.bounds.clear();
        self.bounds.push(0);
        let mut total = 0;
        for index in 0..count {
            total += run(index).len();
            self.bounds.push(total);
        }
        if total == 0 {
            return;
        }
        if self.scratch.len() < total {
            self.scratch.resize(total, MaybeUninit::uninit());
        }
        out.reserve(total);
        let nodes = Nodes { run: &run, bounds: &self.bounds };
        nodes.merge(0, count, &mut out.spare_capacity_mut()[..total], &mut self.scratch[..total]);
        // SAFETY: `Nodes::merge` fills the whole of its first buffer: `total` elements behind the old length.
        unsafe { out.set_len(out.len() + total) };
    }
}

/// The runs of one merge.
struct Nodes<'n, F> {
    run: &'n F,
    bounds: &'n [usize],
}

impl<F> Nodes<'_, F> {
    /// Fills `here` with the merge of the runs `first..until`. `other` is scratch memory of the same length.
    fn merge<'a, T: Timed + 'a>(
        &self,
        first: usize,
        until: usize,
        here: &mut [MaybeUninit<T>],
        other: &mut [MaybeUninit<T>],
    ) where
        F: Fn(usize) -> &'a [T],
    {
        if until - first == 1 {
            copy((self.run)(first), here);
            return;
        }
        let middle = self.middle(first, until);
        let left_length = self.bounds[middle] - self.bounds[first];
        let (other_left, other_right) = other.split_at_mut(left_length);
        let (here_left, here_right) = here.split_at_mut(left_length);
        let left = self.child(first, middle, other_left, here_left);
        let right = self.child(middle, until, other_right, here_right);
        merge_pair(left, right, here);
    }

    /// The merge of the runs `first..until`: the run itself if it is only one, else written to `there`.
    fn child<'b, 'a: 'b, T: Timed + 'a>(
        &self,
        first: usize,
        until: usize,
        there: &'b mut [MaybeUninit<T>],
        spare: &mut [MaybeUninit<T>],
    ) -> &'b [T]
    where
        F: Fn(usize) -> &'a [T],
    {
        if until - first == 1 {
            return (self.run)(first);
        }
        self.merge(first, until, there, spare);
        // SAFETY: `merge` has just filled the whole of `there`.
        unsafe { std::slice::from_raw_parts(there.as_ptr().cast::<T>(), there.len()) }
    }

    /// Index at which to split `first..until`: the run boundary that is nearest to half of the elements.
    fn middle(&self, first: usize, until: usize) -> usize {
        let half = (self.bounds[first] + self.bounds[until]) / 2;
        let above = first + self.bounds[first..=until].partition_point(|bound| *bound <= half);
        let nearer_below = half - self.bounds[above - 1] < self.bounds[above.min(until)] - half;
        let middle = if nearer_below { above - 1 } else { above };
        middle.clamp(first + 1, until - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thalweg_data::Hit;

    use super::*;

    /// Runs whose hits contain the number of their run and their index in it.
    fn runs() -> impl Strategy<Value = Vec<Vec<Hit>>> {
        let run = prop_oneof![
            prop::collection::vec(-50i64..50, 0..40),
            prop::collection::vec(-100_000i64..100_000, 0..1500),
            prop::collection::vec(0i64..30, 500..700),
            Just(Vec::new()),
            prop::collection::vec(any::<i64>(), 0..5),
        ];
        prop::collection::vec(run, 0..9).prop_map(|times| {
            let numbered = times.into_iter().enumerate().map(|(run, mut times)| {
                times.sort_unstable();
                let hit = |(index, time_ps)| Hit {
                    time_ps,
                    channel: run as u16,
                    energy: index as u16,
                    ..Hit::default()
                };
                times.into_iter().enumerate().map(hit).collect()
            });
            numbered.collect()
        })
    }

    proptest! {
        #[test]
        fn a_merge_is_the_stable_sort_of_its_runs(runs in runs()) {
            let mut expected: Vec<Hit> = runs.concat();
            expected.sort_by_key(|hit| hit.time_ps);
            let mut merged = vec![Hit::default()];
            Merger::default().merge(runs.len(), |index| &runs[index], &mut merged);
            prop_assert_eq!(&merged[1..], &expected[..]);
        }

        #[test]
        fn merging_unsorted_runs_is_memory_safe(times in prop::collection::vec(any::<i8>(), 0..900), split in 0usize..900) {
            let hits: Vec<Hit> =
                times.iter().map(|time| Hit { time_ps: i64::from(*time), ..Hit::default() }).collect();
            let (left, right) = hits.split_at(split.min(hits.len()));
            let mut merged = Vec::new();
            Merger::default().merge(2, |index| [left, right][index], &mut merged);
            prop_assert_eq!(merged.len(), hits.len());
        }
    }
}
