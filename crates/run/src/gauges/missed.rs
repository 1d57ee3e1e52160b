//! The triggers that each board has missed, until the list of losses takes them.
//!
//! ```text
//!  Events, as they are built: trigger 7 without boards 2, 5 ─► by board: 7–9, 20, … ─► losses.arrows
//! ```
//! Bounded: if a board misses more ranges than are kept, all of them become one, from the first trigger to the last.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_data::{Event, Events, SourceId};
use thalweg_record::TriggerRange;

/// Ranges of one board that are kept between two readings of the ledger.
const MOST_RANGES: usize = 8;

/// Written by the building thread, read by the one that keeps the list of losses.
#[derive(Debug, Default)]
pub(crate) struct MissedTriggers(Mutex<BTreeMap<SourceId, Missed>>);

/// The missed triggers of one board.
#[derive(Debug, Default)]
struct Missed {
    /// The number of missed triggers since the start of the run.
    total: u64,
    /// Those that were not taken yet, in the order in which their events left.
    ranges: Vec<TriggerRange>,
}

impl MissedTriggers {
    /// Notes who is missing in the events of a batch, from number `first` on. To be called before the ledger has them.
    pub(crate) fn note(&self, batch: &Events, first: usize) {
        let partial = |event: &&Event| event.missing > 0;
        let mut events = batch.events[first..].iter().filter(partial).peekable();
        if events.peek().is_none() {
            return;
        }
        let mut boards = self.lock();
        for event in events {
            let missing = event.first_missing as usize..(event.first_missing + event.missing) as usize;
            for board in &batch.missing[missing] {
                boards.entry(*board).or_default().note(event.trigger);
            }
        }
    }

    /// Takes the missed triggers of a board that were not taken yet. Of those noted since the start it takes only as many as the ledger has
    /// `counted`, so that numbers and counts appear in one row.
    pub(crate) fn take(&self, board: SourceId, counted: u64) -> Vec<TriggerRange> {
        self.lock().get_mut(&board).map_or(Vec::new(), |missed| missed.take(counted))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SourceId, Missed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Missed {
    fn note(&mut self, trigger: u64) {
        self.total += 1;
        match self.ranges.last_mut() {
            Some(last) if last.last.checked_add(1) == Some(trigger) => {
                last.last = trigger;
                last.count += 1;
            }
            _ => self.ranges.push(TriggerRange { first: trigger, last: trigger, count: 1 }),
        }
        if self.ranges.len() > MOST_RANGES {
            let all = TriggerRange {
                first: self.ranges.iter().map(|range| range.first).min().unwrap_or(trigger),
                last: self.ranges.iter().map(|range| range.last).max().unwrap_or(trigger),
                count: self.ranges.iter().map(|range| range.count).sum(),
            };
            self.ranges = vec![all];
        }
    }

    fn take(&mut self, counted: u64) -> Vec<TriggerRange> {
        let (mut held_back, mut later) = (self.total.saturating_sub(counted), Vec::new());
        while held_back > 0
            && let Some(range) = self.ranges.pop()
        {
            let is_whole = range.last - range.first + 1 == range.count;
            let kept = range.count.min(held_back);
            held_back -= kept;
            let rest = range.count - kept;
            if rest == 0 {
                later.push(range);
                continue;
            }
            // After ranges have become one, the newest of them can no longer be distinguished.
            let (until, from) =
                if is_whole { (range.last - kept, range.last - kept + 1) } else { (range.last, range.first) };
            self.ranges.push(TriggerRange { last: until, count: rest, ..range });
            later.push(TriggerRange { first: from, count: kept, ..range });
        }
        later.reverse();
        std::mem::replace(&mut self.ranges, later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events with these triggers, each without these boards.
    fn batch(events: &[(u64, &[u16])]) -> Events {
        let mut batch = Events::default();
        for (trigger, missing) in events {
            batch.events.push(Event {
                trigger: *trigger,
                first_missing: batch.missing.len() as u32,
                missing: missing.len() as u32,
                ..Event::default()
            });
            batch.missing.extend(missing.iter().map(|board| SourceId(*board)));
        }
        batch
    }

    fn range(first: u64, last: u64, count: u64) -> TriggerRange {
        TriggerRange { first, last, count }
    }

    #[test]
    fn neighbouring_triggers_are_one_range_and_are_taken_once() {
        let missed = MissedTriggers::default();
        missed.note(&batch(&[(6, &[1]), (7, &[2, 1]), (8, &[]), (9, &[1])]), 0);
        assert_eq!(missed.take(SourceId(1), 3), [range(6, 7, 2), range(9, 9, 1)]);
        assert_eq!((missed.take(SourceId(1), 3), missed.take(SourceId(3), 0)), (vec![], vec![]));
        missed.note(&batch(&[(9, &[1]), (10, &[1]), (11, &[2])]), 1);
        assert_eq!(missed.take(SourceId(1), 4), [range(10, 10, 1)]);
        assert_eq!(missed.take(SourceId(2), 2), [range(7, 7, 1), range(11, 11, 1)]);
    }

    #[test]
    fn what_the_ledger_has_not_counted_yet_is_held_back() {
        let missed = MissedTriggers::default();
        missed.note(&batch(&[(1, &[0]), (2, &[0]), (3, &[0]), (5, &[0])]), 0);
        assert_eq!(missed.take(SourceId(0), 2), [range(1, 2, 2)]);
        assert_eq!(missed.take(SourceId(0), 2), []);
        assert_eq!(missed.take(SourceId(0), 9), [range(3, 3, 1), range(5, 5, 1)]);
    }

    #[test]
    fn many_ranges_of_one_board_become_one_that_covers_them() {
        let missed = MissedTriggers::default();
        let events: Vec<(u64, &[u16])> = (0..100).map(|event| (3 * event, &[4][..])).collect();
        missed.note(&batch(&events), 0);
        let taken = missed.take(SourceId(4), 60);
        assert_eq!(taken.iter().map(|range| range.count).sum::<u64>(), 60, "{taken:?}");
        let rest = missed.take(SourceId(4), 100);
        assert_eq!(rest.iter().map(|range| range.count).sum::<u64>(), 40, "{rest:?}");
        assert!(
            taken.len() <= MOST_RANGES
                && taken[0].first == 0
                && rest.last().is_some_and(|last| last.last == 297)
        );
    }
}
