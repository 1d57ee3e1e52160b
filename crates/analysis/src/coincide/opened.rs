//! A window that the first hit opens, and that closes after a fixed time.
//!
//! ```text
//!   A   B     A'      C                B
//!   ├── window ──┤    ├── window ──┤            at least 2 different
//!   └ one event ─┘    single, the next hit opens
//! ```
//! When the window holds too few different hits, the hit that opened it is single, and the next one opens.

use super::END_PS;
use super::held::{Distinct, Held, Waiting};
use super::output::Output;
use super::scan::Reach;

#[derive(Debug)]
pub(super) struct Opened {
    window_ps: i64,
    at_least: usize,
    longest: u64,
    held: Held,
    distinct: Distinct,
    /// Place behind the last hit that has been counted into the window of the first.
    high: u64,
}

impl Opened {
    pub fn new(window_ps: i64, at_least: u16, longest: usize, elements: usize) -> Opened {
        Opened {
            window_ps,
            at_least: usize::from(at_least),
            longest: longest as u64,
            held: Held::default(),
            distinct: Distinct::new(elements),
            high: 0,
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
        self.close_before(waiting.hit.time_ps, out);
        self.held.push(waiting);
        self.enter_window();
        if self.high - self.held.head() >= self.longest {
            out.cut_short += 1;
            self.settle(out);
        }
    }

    /// No hit before `frontier_ps` will come any more.
    pub fn advance(&mut self, frontier_ps: i64, out: &mut Output) {
        self.close_before(frontier_ps, out);
    }

    fn end_ps(&self) -> Option<i64> {
        let opening = (self.held.head() < self.held.end()).then(|| self.held.at(self.held.head()));
        opening.map(|waiting| waiting.hit.time_ps.saturating_add(self.window_ps))
    }

    fn enter_window(&mut self) {
        let Some(end_ps) = self.end_ps() else { return };
        while self.high < self.held.end() && self.held.at(self.high).hit.time_ps <= end_ps {
            self.distinct.enter(self.held.at(self.high).element);
            self.high += 1;
        }
    }

    fn close_before(&mut self, frontier_ps: i64, out: &mut Output) {
        while self.end_ps().is_some_and(|end_ps| frontier_ps == END_PS || end_ps < frontier_ps) {
            self.settle(out);
        }
    }

    /// The window of the first hit is over: an event, or a single hit.
    fn settle(&mut self, out: &mut Output) {
        let first = self.held.head();
        let until = match self.distinct.different() >= self.at_least {
            true => {
                out.emit(self.held.range_mut(first, self.high), None);
                self.high
            }
            false => first + 1,
        };
        for waiting in self.held.range(first, until) {
            self.distinct.leave(waiting.element);
        }
        out.release(&mut self.held, until);
        self.enter_window();
    }
}
