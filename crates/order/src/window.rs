//! Chooses what is merged at a time: all hits before one moment, about as many as the second-level cache holds.
//!
//! ```text
//!  source 0   [====|=====·······
//!  source 1   [=|=======|====···      │ cut: every hit before it, of every source, no other
//!  source 2   [==========|====··
//! ```
//! The cut is a time, so that hits of equal times stay together. It is found by rank: the run with the most hits
//! gives the time of the hit at which it would have contributed its part. Rates and bursts do not matter.

use thalweg_data::Hit;

use crate::held::Queue;
use crate::merge::{gallop, gallop_back};

/// The next hits of one run that belong to a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Index of the source.
    pub source: usize,
    /// Index of the run in the source's queue.
    pub run: usize,
    /// Number of hits, from the run's head.
    pub length: usize,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing is left before the time up to which the order is known.
    Nothing,
    /// Merge the parts.
    Merge,
    /// There are so many hits at this one moment that no cut comes before them. They need no merging: source by
    /// source, as they came.
    Ties(i64),
}

/// Finds windows; keeps the list of parts.
#[derive(Debug, Default)]
pub(crate) struct Window {
    parts: Vec<Part>,
    /// Hits that each source gave to the window before, and their sum: what the next one is expected to hold. It only
    /// saves looking at hits that are not in the cache; it decides nothing.
    expected: Vec<usize>,
    expected_total: usize,
}

impl Window {
    /// The parts, by source and age.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Chooses the next window: at most `limit` hits, all before `released_ps`.
    pub(crate) fn cut(&mut self, queues: &[Queue], released_ps: i64, limit: usize) -> Cut {
        self.expected.resize(queues.len(), 0);
        let target = limit / 8 * 7;
        let mut cut_ps = self.expected_cut_ps(queues, target).min(released_ps);
        let mut total = self.gather(queues, cut_ps, target);
        if total < limit / 4 && cut_ps < released_ps {
            let near_end = queues.iter().filter_map(|queue| queue.near_end_ps()).min();
            cut_ps = released_ps.min(near_end.unwrap_or(i64::MAX));
            total = self.gather(queues, cut_ps, target);
        }
        while total > limit {
            let Some(largest) = self.parts.iter().max_by_key(|part| part.length) else { break };
            // A little less than its part, so that the neighbours' chance does not ask for another turn.
            let rank = largest.length * target / total;
            cut_ps = hits_of(queues, largest)[rank].time_ps;
            total = self.shorten(queues, cut_ps);
        }
        if total > 0 {
            self.parts.retain(|part| part.length > 0);
            self.expect(total);
            return Cut::Merge;
        }
        let first = queues.iter().filter_map(first_ps).min();
        // Behind the end of time there is nothing to wait for, and a hit there (a damaged one) is passed on, too.
        first.filter(|first| *first < released_ps || released_ps == i64::MAX).map_or(Cut::Nothing, Cut::Ties)
    }

    fn expect(&mut self, total: usize) {
        self.expected.fill(0);
        for part in &self.parts {
            self.expected[part.source] += part.length;
        }
        self.expected_total = total;
    }

    fn expected_of(&self, source: usize, target: usize) -> usize {
        self.expected[source] * target / self.expected_total.max(1)
    }

    /// Where the source that gave most to the window before will have given its part of this one.
    fn expected_cut_ps(&self, queues: &[Queue], target: usize) -> i64 {
        let most = (0..queues.len()).max_by_key(|source| self.expected[*source]).unwrap_or(0);
        let Some(run) = queues.get(most).and_then(|queue| queue.runs().front()) else { return i64::MIN };
        let rank = self.expected_of(most, target);
        run.hits().get(rank).or(run.hits().last()).map_or(i64::MIN, |hit| hit.time_ps)
    }

    fn gather(&mut self, queues: &[Queue], cut_ps: i64, target: usize) -> usize {
        self.parts.clear();
        let mut total = 0;
        for (source, queue) in queues.iter().enumerate() {
            let mut expected = self.expected_of(source, target);
            let reaching = queue.runs().iter().take_while(|run| run.floor_ps() < cut_ps).enumerate();
            for (run, held) in reaching {
                let length = locate(held.hits(), expected, cut_ps);
                expected = expected.saturating_sub(length);
                if length > 0 {
                    self.parts.push(Part { source, run, length });
                    total += length;
                }
            }
        }
        total
    }

    fn shorten(&mut self, queues: &[Queue], cut_ps: i64) -> usize {
        let mut total = 0;
        for part in &mut self.parts {
            part.length = hits_of(queues, part).partition_point(|hit| hit.time_ps < cut_ps);
            total += part.length;
        }
        total
    }
}

/// How many hits of a run come before a time, looking near the expected place first.
fn locate(hits: &[Hit], expected: usize, cut_ps: i64) -> usize {
    let (below, above) = hits.split_at(expected.min(hits.len()));
    let too_far = gallop_back(below, |hit| hit.time_ps >= cut_ps);
    if too_far > 0 {
        return below.len() - too_far;
    }
    below.len() + gallop(above, |hit| hit.time_ps < cut_ps)
}

fn hits_of<'q>(queues: &'q [Queue], part: &Part) -> &'q [Hit] {
    &queues[part.source].runs()[part.run].hits()[..part.length]
}

/// The time of a queue's earliest hit.
pub(crate) fn first_ps(queue: &Queue) -> Option<i64> {
    let mut first = None;
    for run in queue.runs() {
        if first.is_some_and(|first| run.floor_ps() >= first) {
            break;
        }
        if let Some(hit) = run.hits().first() {
            first = Some(first.map_or(hit.time_ps, |first: i64| first.min(hit.time_ps)));
        }
    }
    first
}
