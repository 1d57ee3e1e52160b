//! Whole ranges on their way out.
//!
//! ```text
//!  ready ranges ─ pass_on ─► Events ─► the host's sink            exhausted ─ finish ─► Passed
//! ```

use thalweg_data::{Closing, Events, Mark, Noted, Unit, UnitId};

use super::BuilderUnit;
use super::building::{Building, Contribution, Standing, put_together};
use super::passed_range::Passed;
use crate::unit::Assignment;
use crate::unit::store::Amount;

impl BuilderUnit {
    pub(super) fn next_ready(&mut self) -> Option<u64> {
        if self.settings.ordered {
            self.ready.clear();
            return self
                .open
                .iter()
                .next()
                .filter(|first| first.is_ready())
                .map(|first| first.assignment.start);
        }
        while let Some(start) = self.ready.front().copied() {
            if self.open.get(start).is_some_and(|building| building.is_ready()) {
                return Some(start);
            }
            self.ready.pop_front();
        }
        None
    }

    /// Passes events of a range on; all of it, or until there are enough.
    pub(super) fn pass_on(&mut self, start: u64, events: &mut Events, most_events: usize, now: Mark) {
        let Some(building) = self.open.find(start) else { return };
        let (before, fragments_before) = (events.events.len(), events.fragments.len());
        for rows in building.contributions.iter().map(|contribution| &contribution.rows) {
            if rows.next_trigger().is_some() {
                events.leases.add_all(rows.leases());
            }
        }
        let mut whole = 0;
        while events.events.len() < most_events {
            let next = building.contributions.iter().filter_map(|each| each.rows.next_trigger());
            let Some(trigger) = next.min() else { break };
            let event = put_together(building, &self.sources, trigger, events, now);
            whole += 1;
            self.unseen.skip(trigger.saturating_sub(building.next));
            self.unseen.add();
            building.next = trigger + 1;
            match event.closing {
                Closing::Complete => building.passed.0 += 1,
                _ => building.passed.1 += 1,
            }
        }
        let passed = &events.events[before..];
        let amount = Amount {
            events: passed.len() as u64,
            fragments: (events.fragments.len() - fragments_before) as u64,
            bytes: passed.iter().map(|event| event.bytes).sum(),
        };
        passed.iter().for_each(|event| self.on_file.add(event));
        building.held.take(Amount { events: 0, ..amount });
        building.passed_bytes += amount.bytes;
        self.building.take(Amount { events: 0, ..amount });
        self.unwritten.add(Amount { fragments: 0, ..amount });
        // In the ledger they are the sink's from here on, written or not; the credit is used until they are.
        self.counters.input(Unit::Events, whole);
        let unseen = self.unseen.take();
        if unseen > 0 {
            self.counters.noted(Noted::Unseen, Unit::Events, unseen);
        }
        self.counters.output(Unit::Events, amount.events);
        self.counters.output(Unit::Fragments, amount.fragments);
        self.counters.output(Unit::Bytes, amount.bytes);
        let exhausted = building.contributions.iter().all(|each| each.rows.next_trigger().is_none());
        if exhausted && let Some(building) = self.open.remove(start) {
            self.finish(building);
        }
    }

    fn finish(&mut self, building: Box<Building>) {
        self.position += 1;
        let (complete, partial) = building.passed;
        if complete + partial > 0 {
            self.filled_position = self.position;
        }
        self.unseen.skip(building.assignment.end().saturating_sub(building.next));
        let Assignment { start, length, .. } = building.assignment;
        // A unit may have gone in the middle of its part: what had come of it was built.
        let absent = |(readout, contribution): (usize, &Contribution)| {
            let last = contribution.rows.last_trigger();
            let included = last.map_or(0, |last| (last + 1 - start) as u32);
            let is_absent = matches!(contribution.standing, Standing::Gone(_)) && included < length;
            is_absent.then_some((UnitId::from_index(readout), included))
        };
        let absent = building.contributions.iter().enumerate().filter_map(absent).collect();
        self.passed_until = self.passed_until.max(building.assignment.end());
        self.passed.push_back(Passed {
            assignment: building.assignment,
            position: self.position,
            complete,
            partial,
            absent,
            bytes: building.passed_bytes,
            sums: building.sums(),
            written: false,
            reported: false,
            forgotten: false,
        });
        self.recycle(building);
    }

    pub(super) fn note_held(&mut self) {
        self.counters.set_held(Unit::Fragments, self.building.fragments);
        self.counters.set_held(Unit::Bytes, self.building.bytes);
    }
}
