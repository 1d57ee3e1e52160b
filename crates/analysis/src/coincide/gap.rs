//! All hits with no long pause between neighbours.
//!
//! ```text
//!   A  B    A       C  C          longest pause: ├────┤      at least 2 different
//!   └─ one event ─┘ └ single ┘
//! ```

use super::END_PS;
use super::held::{Distinct, Held, Waiting};
use super::output::Output;
use super::scan::Reach;

#[derive(Debug)]
pub(super) struct Gap {
    gap_ps: i64,
    at_least: usize,
    longest: u64,
    held: Held,
    distinct: Distinct,
}

impl Gap {
    pub fn new(gap_ps: i64, at_least: u16, longest: usize, elements: usize) -> Gap {
        Gap {
            gap_ps,
            at_least: usize::from(at_least),
            longest: longest as u64,
            held: Held::default(),
            distinct: Distinct::new(elements),
        }
    }

    pub fn reach(&self) -> Reach {
        Reach::new(self.gap_ps, self.at_least, self.longest)
    }

    pub fn waiting(&self) -> &[Waiting] {
        self.held.waiting()
    }

    #[inline]
    pub fn push(&mut self, waiting: Waiting, out: &mut Output) {
        self.close_before(waiting.hit.time_ps, out);
        self.held.push(waiting);
        self.distinct.enter(waiting.element);
        if self.held.end() - self.held.head() >= self.longest {
            out.cut_short += 1;
            self.settle(out);
        }
    }

    /// No hit before `frontier_ps` will come any more.
    pub fn advance(&mut self, frontier_ps: i64, out: &mut Output) {
        self.close_before(frontier_ps, out);
    }

    fn close_before(&mut self, frontier_ps: i64, out: &mut Output) {
        let last_ps = self.held.waiting().last().map(|waiting| waiting.hit.time_ps);
        let is_over =
            |last_ps: i64| frontier_ps == END_PS || last_ps.saturating_add(self.gap_ps) < frontier_ps;
        if last_ps.is_some_and(is_over) {
            self.settle(out);
        }
    }

    fn settle(&mut self, out: &mut Output) {
        let (first, end) = (self.held.head(), self.held.end());
        let is_event = self.distinct.different() >= self.at_least;
        for waiting in self.held.range(first, end) {
            self.distinct.leave(waiting.element);
        }
        if is_event {
            out.emit(self.held.range_mut(first, end), None);
        }
        out.release(&mut self.held, end);
    }
}
