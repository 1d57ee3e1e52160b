//! Chooses which hits are merged together: all hits before one time, about as many as fit in the second-level cache.
//!
//! ```text
//!  source 0   [====|=====·······
//!  source 1   [=|=======|====···      │ end of the window: all hits of all sources before it
//!  source 2   [==========|====··
//! ```
//! A window ends at a time, so that hits of equal times stay in one window. The end is found by rank: the run with the
//! most hits is taken in proportion, and the time of its next hit is the end. Rates and bursts do not matter.

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

/// What the next window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextWindow {
    /// No hit is before the time up to which the order is known.
    Empty,
    /// Merge the parts.
    Merge,
    /// So many hits have this one time that no window ends before them. They need no merge: they are passed on source
    /// by source, in the order of arrival.
    Ties(i64),
}

/// Finds windows; owns the list of parts.
#[derive(Debug, Default)]
pub(crate) struct Window {
    parts: Vec<Part>,
    /// Hits of each source in the previous window, and their sum: the estimate for the next one. It only decides which
    /// hits are read first, which saves cache misses; it does not change the result.
    expected: Vec<usize>,
    expected_total: usize,
}

impl Window {
    /// The parts, by source and age.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Chooses the next window: at most `limit` hits, all before `released_ps`.
    pub(crate) fn choose(&mut self, queues: &[Queue], released_ps: i64, limit: usize) -> NextWindow {
        self.expected.resize(queues.len(), 0);
        let target = limit / 8 * 7;
        let mut end_ps = self.expected_end_ps(queues, target).min(released_ps);
        let mut total = self.gather(queues, end_ps, target);
        if total < limit / 4 && end_ps < released_ps {
            let near_end = queues.iter().filter_map(|queue| queue.near_end_ps()).min();
            end_ps = released_ps.min(near_end.unwrap_or(i64::MAX));
            total = self.gather(queues, end_ps, target);
        }
        while total > limit {
            let Some(largest) = self.parts.iter().max_by_key(|part| part.length) else { break };
            // The target is a little below the limit, so that fluctuations of the other runs rarely need another turn.
            let rank = largest.length * target / total;
            end_ps = hits_of(queues, largest)[rank].time_ps;
            total = self.shorten(queues, end_ps);
        }
        if total > 0 {
            self.parts.retain(|part| part.length > 0);
            self.expect(total);
            return NextWindow::Merge;
        }
        let first = queues.iter().filter_map(first_ps).min();
        // When everything is released, a (damaged) hit at the largest time is passed on, too.
        first
            .filter(|first| *first < released_ps || released_ps == i64::MAX)
            .map_or(NextWindow::Empty, NextWindow::Ties)
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

    /// The time at which the source with the most hits in the previous window reaches its estimate for this one.
    fn expected_end_ps(&self, queues: &[Queue], target: usize) -> i64 {
        let most = (0..queues.len()).max_by_key(|source| self.expected[*source]).unwrap_or(0);
        let Some(run) = queues.get(most).and_then(|queue| queue.runs().front()) else { return i64::MIN };
        let rank = self.expected_of(most, target);
        run.hits().get(rank).or(run.hits().last()).map_or(i64::MIN, |hit| hit.time_ps)
    }

    fn gather(&mut self, queues: &[Queue], end_ps: i64, target: usize) -> usize {
        self.parts.clear();
        let mut total = 0;
        for (source, queue) in queues.iter().enumerate() {
            let mut expected = self.expected_of(source, target);
            let reaching = queue.runs().iter().take_while(|run| run.floor_ps() < end_ps).enumerate();
            for (run, held) in reaching {
                let length = locate(held.hits(), expected, end_ps);
                expected = expected.saturating_sub(length);
                if length > 0 {
                    self.parts.push(Part { source, run, length });
                    total += length;
                }
            }
        }
        total
    }

    fn shorten(&mut self, queues: &[Queue], end_ps: i64) -> usize {
        let mut total = 0;
        for part in &mut self.parts {
            part.length = hits_of(queues, part).partition_point(|hit| hit.time_ps < end_ps);
            total += part.length;
        }
        total
    }
}

/// Number of hits of a run before a time; searches near the expected index first.
fn locate(hits: &[Hit], expected: usize, end_ps: i64) -> usize {
    let (below, above) = hits.split_at(expected.min(hits.len()));
    let too_far = gallop_back(below, |hit| hit.time_ps >= end_ps);
    if too_far > 0 {
        return below.len() - too_far;
    }
    below.len() + gallop(above, |hit| hit.time_ps < end_ps)
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
