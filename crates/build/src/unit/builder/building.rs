//! A range of triggers while it is being built.
//!
//! ```text
//!  parts ─► a contribution per readout unit: rows, standing ─ all settled ─► put_together, trigger by trigger ─► Events
//! ```

use std::ops::Range;

use thalweg_data::{Closing, Event, EventSum, Events, Mark, SourceId, UnitId};

use crate::unit::Assignment;
use crate::unit::ranges::Ranged;
use crate::unit::rows::Rows;
use crate::unit::store::{Amount, sum_of};

/// How one readout unit's part of a range stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Waiting,
    Whole,
    Gone(Closing),
}

#[derive(Debug)]
pub(super) struct Contribution {
    pub(super) standing: Standing,
    /// Triggers below are here.
    pub(super) covered_until: u64,
    /// Its events. The first ones may be passed on already …
    pub(super) rows: Rows,
    /// … which are these, added up.
    pub(super) passed: EventSum,
}

/// A range that is being built.
#[derive(Debug)]
pub(super) struct Building {
    pub(super) assignment: Assignment,
    /// Epoch of the readout unit or manager that it is known by.
    pub(super) epoch: u64,
    /// The manager has said that it is ours. Parts can be faster than its message.
    pub(super) confirmed: bool,
    pub(super) since: Mark,
    pub(super) contributions: Vec<Contribution>,
    pub(super) waiting: usize,
    /// Fragments and bytes here.
    pub(super) held: Amount,
    /// The trigger behind the last one that was passed on.
    pub(super) next: u64,
    /// Whole and partial events passed on, and their bytes.
    pub(super) passed: (u32, u32),
    pub(super) passed_bytes: u64,
    /// The whole events that were passed on, added up.
    pub(super) sum: EventSum,
}

impl Ranged for Building {
    fn start(&self) -> u64 {
        self.assignment.start
    }
    fn end(&self) -> u64 {
        self.assignment.end()
    }
}

impl Building {
    /// Of no range yet.
    pub(super) fn empty(now: Mark) -> Building {
        Building {
            assignment: Assignment::default(),
            epoch: 0,
            confirmed: false,
            since: now,
            contributions: Vec::new(),
            waiting: 0,
            held: Amount::default(),
            next: 0,
            passed: (0, 0),
            passed_bytes: 0,
            sum: EventSum::default(),
        }
    }

    pub(super) fn start_over(
        &mut self,
        assignment: Assignment,
        epoch: u64,
        confirmed: bool,
        now: Mark,
        readouts: usize,
    ) {
        (self.assignment, self.epoch, self.confirmed, self.since) = (assignment, epoch, confirmed, now);
        self.contributions.resize_with(readouts, || Contribution {
            standing: Standing::Waiting,
            covered_until: 0,
            rows: Rows::default(),
            passed: EventSum::default(),
        });
        for contribution in &mut self.contributions {
            contribution.rows.clear();
            (contribution.standing, contribution.covered_until) = (Standing::Waiting, assignment.start);
            contribution.passed = EventSum::default();
        }
        (self.waiting, self.held) = (readouts, Amount::default());
        (self.passed, self.passed_bytes, self.next) = ((0, 0), 0, assignment.start);
        self.sum = EventSum::default();
    }

    pub(super) fn settle(&mut self, readout: UnitId, standing: Standing) {
        let contribution = &mut self.contributions[readout.index()];
        if contribution.standing == Standing::Waiting {
            contribution.standing = standing;
            self.waiting -= 1;
        }
    }

    /// A unit that was given up has come back in time.
    pub(super) fn revive(&mut self, readout: UnitId) {
        let contribution = &mut self.contributions[readout.index()];
        if matches!(contribution.standing, Standing::Gone(_)) && self.passed == (0, 0) {
            contribution.standing = Standing::Waiting;
            self.waiting += 1;
        }
    }

    /// What was passed on: whole events, then of each readout unit its part of them.
    pub(super) fn sums(&self) -> Vec<EventSum> {
        [self.sum]
            .into_iter()
            .chain(self.contributions.iter().map(|contribution| contribution.passed))
            .collect()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.confirmed && self.waiting == 0
    }
}

/// Appends the event of one trigger: what each readout unit has of it, in the order of the units and so of the sources.
pub(super) fn put_together(
    building: &mut Building,
    sources: &[Range<u16>],
    trigger: u64,
    events: &mut Events,
    now: Mark,
) -> Event {
    let mut whole = Event {
        trigger,
        first_arrival: Mark(u64::MAX),
        closed: now,
        first_fragment: events.fragments.len() as u32,
        first_missing: events.missing.len() as u32,
        attempt: building.assignment.attempt,
        ..Event::default()
    };
    for (contribution, sources) in building.contributions.iter_mut().zip(sources) {
        let is_next = contribution.rows.next_trigger() == Some(trigger);
        match is_next.then(|| contribution.rows.take(events)).flatten() {
            Some(event) => {
                whole.bytes += event.bytes;
                whole.first_arrival = whole.first_arrival.min(event.first_arrival);
                whole.closing = whole.closing.max(event.closing);
                contribution.passed.add(sum_of(&event));
            }
            None => {
                let closing = match contribution.standing {
                    Standing::Gone(closing) => closing,
                    // The unit itself has passed the trigger over: none of its boards has answered in time.
                    _ => Closing::Age,
                };
                whole.closing = whole.closing.max(closing);
                events.missing.extend(sources.clone().map(SourceId));
            }
        }
    }
    whole.fragments = events.fragments.len() as u32 - whole.first_fragment;
    whole.missing = events.missing.len() as u32 - whole.first_missing;
    building.sum.add(sum_of(&whole));
    events.events.push(whole);
    whole
}
