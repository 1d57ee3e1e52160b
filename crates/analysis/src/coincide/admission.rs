//! Veto and gate: which hits take part at all.
//!
//! ```text
//!  veto     ─────V────────────────V─────
//!             ├─ out ─┤         ├─ out ─┤
//!  hits     ─a──b───c───────d─────e──────►   a and d take part
//! ```
//! A hit is decided when nothing that could speak for or against it can come any more. Both ends of a stretch are within.

use std::collections::VecDeque;

use super::END_PS;
use super::held::{MOST_WAITING, Waiting};
use super::settings::Span;

/// Stretches of time in the order of their beginnings, which is that of their ends.
#[derive(Debug)]
struct Stretches {
    span: Span,
    stretches: VecDeque<(i64, i64)>,
}

impl Stretches {
    fn open(&mut self, time_ps: i64) {
        let (from_ps, to_ps) =
            (time_ps.saturating_add(self.span.from_ps), time_ps.saturating_add(self.span.to_ps));
        match self.stretches.back_mut() {
            // Stretches that touch are one: there are never more than fit side by side.
            Some(last) if from_ps <= last.1 => last.1 = to_ps,
            _ => self.stretches.push_back((from_ps, to_ps)),
        }
    }

    /// Drops those that end before a time: none earlier is asked for any more.
    fn drop_before(&mut self, time_ps: i64) {
        while self.stretches.front().is_some_and(|(_, to_ps)| *to_ps < time_ps) {
            self.stretches.pop_front();
        }
    }

    /// Whether a time lies in one, once those that end before it are dropped.
    fn hold(&self, time_ps: i64) -> bool {
        self.stretches.front().is_some_and(|(from_ps, _)| *from_ps <= time_ps)
    }
}

/// A hit, and what was decided of it.
pub(super) struct Decided {
    pub waiting: Waiting,
    pub takes_part: bool,
    /// Somebody could have spoken for or against it still: too many were waiting.
    pub is_open: bool,
}

#[derive(Debug)]
pub(super) struct Admission {
    veto: Option<Stretches>,
    gate: Option<Stretches>,
    /// How long after a hit somebody may still speak of it.
    delay_ps: i64,
    undecided: VecDeque<Waiting>,
}

impl Admission {
    /// `None` when everybody is admitted.
    pub fn new(veto: Option<Span>, gate: Option<Span>) -> Option<Admission> {
        let delay_ps = [veto, gate].into_iter().flatten().map(|span| (-span.from_ps).max(0)).max()?;
        let stretches = |span| Stretches { span, stretches: VecDeque::new() };
        Some(Admission {
            veto: veto.map(stretches),
            gate: gate.map(stretches),
            delay_ps,
            undecided: VecDeque::new(),
        })
    }

    pub fn veto(&mut self, time_ps: i64) {
        self.veto.iter_mut().for_each(|veto| veto.open(time_ps));
    }

    pub fn gate(&mut self, time_ps: i64) {
        self.gate.iter_mut().for_each(|gate| gate.open(time_ps));
    }

    pub fn push(&mut self, waiting: Waiting) {
        self.undecided.push_back(waiting);
    }

    pub fn undecided(&self) -> &VecDeque<Waiting> {
        &self.undecided
    }

    /// The next hit that is decided. Nothing before `frontier_ps` will come any more.
    pub fn decide(&mut self, frontier_ps: i64) -> Option<Decided> {
        let first_ps = self.undecided.front().map(|first| first.hit.time_ps);
        // Also when nobody waits: else the stretches would pile up until a hit takes part.
        let earliest_ps = first_ps.unwrap_or(frontier_ps);
        self.veto.iter_mut().chain(&mut self.gate).for_each(|leg| leg.drop_before(earliest_ps));
        let time_ps = first_ps?;
        let is_open = frontier_ps < END_PS && time_ps.saturating_add(self.delay_ps) >= frontier_ps;
        if is_open && self.undecided.len() <= MOST_WAITING {
            return None;
        }
        let vetoed = self.veto.as_ref().is_some_and(|veto| veto.hold(time_ps));
        let gated = self.gate.as_ref().is_none_or(|gate| gate.hold(time_ps));
        self.undecided.pop_front().map(|waiting| Decided { waiting, takes_part: gated && !vetoed, is_open })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_dropped_when_no_hit_takes_part() {
        let span = Span { from_ps: -50, to_ps: 50 };
        let mut admission = Admission::new(Some(span), Some(span)).expect("veto and gate");
        for time_ps in (0..1_000_000).step_by(1000) {
            admission.veto(time_ps);
            admission.gate(time_ps);
            assert!(admission.decide(time_ps).is_none(), "nobody waits");
            let kept =
                [&admission.veto, &admission.gate].map(|leg| leg.as_ref().map(|leg| leg.stretches.len()));
            assert_eq!(kept, [Some(1); 2], "at {time_ps} ps");
        }
    }
}
