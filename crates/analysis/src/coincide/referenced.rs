//! A reference, and others in a stretch of time around it.
//!
//! ```text
//!           ├ from ──── R ─── to ┤
//!     A     B           R    C      D        event: B R C
//! ```
//! Each hit of the reference makes its own event; a hit near two of them stands in both. The stretch may lie wholly before or
//! behind the reference, as for a delayed partner. A reference is no partner of its own channel.

use std::collections::VecDeque;

use super::END_PS;
use super::held::{Distinct, Held, MOST_WAITING, Waiting};
use super::output::Output;
use super::settings::Span;

#[derive(Debug)]
pub(super) struct Referenced {
    span: Span,
    at_least: usize,
    longest: usize,
    held: Held,
    /// Places of the references whose stretch is not over.
    open: VecDeque<u64>,
    /// Place of the first hit that may lie in the stretch of the first open reference.
    low: u64,
    distinct: Distinct,
    /// The event being put together.
    members: Vec<Waiting>,
}

impl Referenced {
    pub fn new(span: Span, at_least: u16, longest: usize, elements: usize) -> Referenced {
        Referenced {
            span,
            at_least: usize::from(at_least),
            longest,
            held: Held::default(),
            open: VecDeque::new(),
            low: 0,
            distinct: Distinct::new(elements),
            members: Vec::new(),
        }
    }

    pub fn waiting(&self) -> &[Waiting] {
        self.held.waiting()
    }

    #[inline]
    pub fn push(&mut self, waiting: Waiting, out: &mut Output) {
        self.advance(waiting.hit.time_ps, out);
        if self.held.waiting().len() >= MOST_WAITING {
            self.make_room(out);
        }
        if waiting.is_reference {
            self.open.push_back(self.held.end());
        }
        self.held.push(waiting);
    }

    /// No hit before `frontier_ps` will come any more.
    pub fn advance(&mut self, frontier_ps: i64, out: &mut Output) {
        while let Some(reference) = self.open.front().copied() {
            let time_ps = self.held.at(reference).hit.time_ps;
            if frontier_ps < END_PS && time_ps.max(time_ps.saturating_add(self.span.to_ps)) >= frontier_ps {
                break;
            }
            self.open.pop_front();
            self.settle(reference, out);
        }
        self.release(frontier_ps, out);
    }

    /// Too many wait: the first reference is settled with what has come, or the first hit is given up.
    fn make_room(&mut self, out: &mut Output) {
        out.cut_short += 1;
        match self.open.pop_front() {
            Some(reference) => self.settle(reference, out),
            None => self.low = self.low.max(self.held.head() + 1),
        }
        let next = self.open.front().copied().unwrap_or(self.low);
        self.low = self.low.max((self.held.head() + 1).min(next));
        out.release(&mut self.held, self.low.min(next));
    }

    /// Hits that no open reference and none to come can want.
    fn release(&mut self, frontier_ps: i64, out: &mut Output) {
        let next_ps = self.open.front().map_or(frontier_ps, |place| self.held.at(*place).hit.time_ps);
        let wanted_from_ps = next_ps.saturating_add(self.span.from_ps);
        while self.low < self.held.end() && self.held.at(self.low).hit.time_ps < wanted_from_ps {
            self.low += 1;
        }
        if next_ps == END_PS {
            self.low = self.held.end();
        }
        let until = self.open.front().map_or(self.low, |place| self.low.min(*place));
        out.release(&mut self.held, until);
    }

    fn settle(&mut self, reference: u64, out: &mut Output) {
        let centre = *self.held.at(reference);
        let (from_ps, to_ps) = (
            centre.hit.time_ps.saturating_add(self.span.from_ps),
            centre.hit.time_ps.saturating_add(self.span.to_ps),
        );
        let mut from = self.low.min(reference);
        while from < self.held.end() && self.held.at(from).hit.time_ps < from_ps {
            from += 1;
        }
        let is_partner = |waiting: &Waiting| waiting.is_other && waiting.element != centre.element;
        let mut until = from;
        while until < self.held.end() && self.held.at(until).hit.time_ps <= to_ps {
            let waiting = self.held.at(until);
            if is_partner(waiting) {
                self.distinct.enter(waiting.element);
            }
            until += 1;
        }
        let is_event = self.distinct.different() >= self.at_least;
        for waiting in self.held.range(from, until).iter().filter(|waiting| is_partner(waiting)) {
            self.distinct.leave(waiting.element);
        }
        if is_event {
            self.emit(reference, from..until, is_partner, out);
        }
    }

    fn emit(
        &mut self,
        reference: u64,
        stretch: std::ops::Range<u64>,
        is_partner: impl Fn(&Waiting) -> bool,
        out: &mut Output,
    ) {
        self.members.clear();
        let (first, until) = (stretch.start.min(reference), stretch.end.max(reference + 1));
        let (mut centre, mut is_cut) = (0, false);
        for place in first..until {
            let is_reference = place == reference;
            let waiting = &mut self.held.range_mut(place, place + 1)[0];
            let reserved = usize::from(place < reference);
            let has_room = self.members.len() + reserved < self.longest;
            if is_reference || (stretch.contains(&place) && is_partner(waiting) && has_room) {
                if is_reference {
                    centre = self.members.len();
                }
                waiting.kept = true;
                self.members.push(*waiting);
            } else if !has_room && stretch.contains(&place) && is_partner(waiting) {
                is_cut = true;
            }
        }
        out.cut_short += u64::from(is_cut);
        out.emit(&mut self.members, Some(centre));
    }
}
