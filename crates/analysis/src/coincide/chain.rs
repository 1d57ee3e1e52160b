//! Every window with enough different hits, and windows that share a hit together.
//!
//! ```text
//!        ├──── window ────┤
//!   A    B            C      D                 E          at least 2 different
//!   └────┴── one event ──────┘                 single
//! ```
//! A window is looked at when its last hit comes. What it holds then, is all that it will ever hold.

use super::END_PS;
use super::held::{Distinct, Held, Waiting};
use super::output::Output;
use super::scan::Reach;

/// The open event: places of its first and its last hit.
type Open = (u64, u64);

#[derive(Debug)]
pub(super) struct Chain {
    window_ps: i64,
    at_least: usize,
    longest: u64,
    held: Held,
    distinct: Distinct,
    /// Place of the first hit in the window of the latest.
    low: u64,
    open: Option<Open>,
}

impl Chain {
    pub fn new(window_ps: i64, at_least: u16, longest: usize, elements: usize) -> Chain {
        Chain {
            window_ps,
            at_least: usize::from(at_least),
            longest: longest as u64,
            held: Held::default(),
            distinct: Distinct::new(elements),
            low: 0,
            open: None,
        }
    }

    pub fn reach(&self) -> Reach {
        Reach::new(self.window_ps, self.at_least, self.longest)
    }

    pub fn waiting(&self) -> &[Waiting] {
        self.held.waiting()
    }

    #[inline]
    pub fn push(&mut self, waiting: Waiting, out: &mut Output) {
        let earliest_ps = waiting.hit.time_ps.saturating_sub(self.window_ps);
        self.leave_before(earliest_ps);
        let place = self.held.end();
        self.held.push(waiting);
        self.distinct.enter(waiting.element);
        if place - self.low >= self.longest {
            // The window is over-full: its first hit is no longer looked at.
            self.leave_first();
            out.cut_short += 1;
        }
        if self.distinct.different() >= self.at_least {
            self.open = match self.open {
                Some((start, last)) if self.low <= last => Some((start, place)),
                Some(before) => {
                    self.close(before, out);
                    Some((self.low, place))
                }
                None => Some((self.low, place)),
            };
        } else if let Some(before) = self.open.filter(|(_, last)| self.low > *last) {
            self.close(before, out);
            self.open = None;
        }
        if let Some((start, last)) = self.open.filter(|(start, last)| last - start + 1 >= self.longest) {
            // A window adds all hits since the last one that had one, so that there can be more than the longest event has.
            let behind = start + self.longest;
            self.close((start, behind - 1), out);
            out.cut_short += 1;
            // What follows is looked at by itself.
            self.leave_until(behind);
            self.open = (self.distinct.different() >= self.at_least).then_some((self.low, last));
        }
        let needed = self.open.map_or(self.low, |(start, _)| start.min(self.low));
        if needed > self.held.head() {
            out.release(&mut self.held, needed);
        }
    }

    /// No hit before `frontier_ps` will come any more.
    pub fn advance(&mut self, frontier_ps: i64, out: &mut Output) {
        match frontier_ps {
            END_PS => self.leave_until(self.held.end()),
            _ => self.leave_before(frontier_ps.saturating_sub(self.window_ps)),
        }
        if let Some(before) = self.open.filter(|(_, last)| self.low > *last) {
            self.close(before, out);
            self.open = None;
        }
        let needed = self.open.map_or(self.low, |(start, _)| start.min(self.low));
        out.release(&mut self.held, needed);
    }

    fn leave_before(&mut self, earliest_ps: i64) {
        while self.low < self.held.end() && self.held.at(self.low).hit.time_ps < earliest_ps {
            self.leave_first();
        }
    }

    fn leave_until(&mut self, place: u64) {
        while self.low < place {
            self.leave_first();
        }
    }

    fn leave_first(&mut self) {
        self.distinct.leave(self.held.at(self.low).element);
        self.low += 1;
    }

    fn close(&mut self, (start, last): Open, out: &mut Output) {
        out.emit(self.held.range_mut(start, last + 1), None);
    }
}
