//! Events that were lost at once, while events before them were held.
//!
//! ```text
//!  events  1  2  3  4  5       held: 1, 2    lost at once: 3    held: 4, 5
//!          └ on file ┘         settled up to 3 when 1 and 2 are on file, although 3 has been counted as lost before
//! ```
//! Row groups get on file in the order in which they were begun, so that the number of those events that have settled says which.

use std::collections::VecDeque;

/// Losses that may stand behind events which have not settled.
#[derive(Debug, Default)]
pub(crate) struct EarlyLosses {
    /// The number of events before a run of lost ones, and their number.
    runs: VecDeque<(u64, u64)>,
}

impl EarlyLosses {
    /// Events were lost at once, behind so many others. Runs before which everything has settled are forgotten: there are never more runs
    /// than events that are held.
    pub fn add(&mut self, before: u64, events: u64, settled: u64) {
        while self.runs.front().is_some_and(|(before, _)| *before <= self.in_order(settled)) {
            self.runs.pop_front();
        }
        match self.runs.back_mut() {
            Some((first, run)) if *first + *run == before => *run += events,
            _ => self.runs.push_back((before, events)),
        }
    }

    /// The events up to which all have settled, when so many have altogether, in whatever order.
    pub fn in_order(&self, settled: u64) -> u64 {
        let early: u64 = self.runs.iter().map(|(_, events)| events).sum();
        let held_back = settled - early;
        self.runs.iter().fold(held_back, |settled, (before, events)| match *before <= settled {
            true => settled + events,
            false => settled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_loss_settles_when_everything_before_it_has() {
        let mut losses = EarlyLosses::default();
        assert_eq!(losses.in_order(7), 7);
        // Seven have settled, the next two are held, and the two behind them lost; then one is held, and the next lost.
        losses.add(9, 1, 7);
        losses.add(10, 1, 8);
        assert_eq!(losses.in_order(9), 7);
        losses.add(12, 1, 9);
        // The three that are held get on file, one after the other.
        assert_eq!([10, 11, 12, 13].map(|settled| losses.in_order(settled)), [7, 8, 11, 13]);
    }
}
