//! Parts of readout units, put where they belong; and how long they are waited for.
//!
//! ```text
//!  Part ─► its range is open here, or has space ─► the contribution of its readout unit          else: counted as late or doubled
//!  sweep ─► contributions of units that are gone, or too late ─► settled without them
//! ```

use thalweg_data::{Closing, LossReason, Mark, Message, RangeFate, UnitId};

use super::building::{Building, Contribution, Standing};
use super::passed_range::Passed;
use super::{BuilderUnit, LostPart, Sender};
use crate::unit::Assignment;
use crate::unit::part::Part;
use crate::unit::store::Amount;

impl BuilderUnit {
    pub(super) fn take_part(&mut self, part: &Part<'_>, message: &Message, now: Mark) {
        let readout = part.head.readout;
        let Some(sources) = self.sources.get(readout.index()).cloned() else {
            self.refused.unexpected_sender += 1;
            return;
        };
        self.readouts[readout.index()].received = now;
        let (fragments, bytes) = (u64::from(part.fragments), part.payload_bytes);
        let lost = LostPart {
            readout,
            from: part.head.from,
            until: part.head.until,
            attempt: part.head.range.attempt,
        };
        if !self.has_capacity_for(part, now) {
            self.lost_parts.iter_mut().for_each(|parts| parts.push(lost));
            self.count_in(fragments, bytes);
            self.lose(LossReason::LateFragment, fragments, bytes);
            return;
        }
        let Some(building) = self.open.find(part.head.range.start) else { return };
        building.revive(readout);
        let contribution = &mut building.contributions[readout.index()];
        if contribution.standing != Standing::Waiting || part.head.from > contribution.covered_until {
            let reason = match contribution.standing {
                Standing::Whole => LossReason::DuplicateFragment,
                _ => LossReason::LateFragment,
            };
            self.lost_parts.iter_mut().for_each(|parts| parts.push(lost));
            self.count_in(fragments, bytes);
            self.lose(reason, fragments, bytes);
            return;
        }
        let lowest = contribution.covered_until;
        match contribution.rows.append(part, message, lowest, &sources) {
            Err(_) => self.refused.unexpected_sender += 1,
            Ok((again, again_bytes)) => {
                contribution.covered_until = lowest.max(part.head.until);
                let new = Amount { events: 0, fragments: fragments - again, bytes: bytes - again_bytes };
                building.held.add(new);
                self.building.add(new);
                if part.head.is_last() {
                    let whole = Standing::Whole;
                    let standing = if part.head.lost { Standing::Gone(Closing::UnitLost) } else { whole };
                    building.settle(readout, standing);
                    if building.is_ready() {
                        self.ready.push_back(part.head.range.start);
                    }
                }
                self.count_in(fragments, bytes);
                self.lose(LossReason::DuplicateFragment, again, again_bytes);
            }
        }
    }

    /// Whether a part has its range here; one that came before the manager's message opens it.
    fn has_capacity_for(&mut self, part: &Part<'_>, now: Mark) -> bool {
        let range = Assignment { builder: self.identity.number, ..part.head.range };
        let supersedes = |passed: &Passed| {
            passed.assignment.start == range.start && passed.assignment.attempt >= range.attempt
        };
        if range.start < self.passed_until && self.passed.iter().any(supersedes) {
            return false;
        }
        match self.open.get(range.start) {
            Some(building) if building.assignment.is(range) => return true,
            Some(building) if building.assignment.attempt > range.attempt => return false,
            Some(building)
                if building.assignment.attempt == range.attempt
                    && (building.confirmed || building.epoch >= part.head.epoch) =>
            {
                return false;
            }
            _ => {}
        }
        // Twice the credits: those in use, and those that a manager before this one had given away.
        if self.open.len() >= 2 * self.settings.slots.max(32) as usize {
            return false;
        }
        self.start_building(range, part.head.epoch, false, now);
        true
    }

    /// Closes what has waited too long, or for units that are gone.
    pub(super) fn sweep(&mut self, now: Mark) {
        let dead_ns = self.settings.dead_ns();
        let is_gone = |readout: &Sender| !readout.connected && now.since_ns(readout.since) > dead_ns;
        let any_gone = self.readouts.iter().any(is_gone);
        let unconfirmed_ns = 2 * dead_ns + self.settings.age_ms * 1_000_000;
        let mut stale = Vec::new();
        self.open.take_where(
            |building| !building.confirmed && now.since_ns(building.since) > unconfirmed_ns,
            |building| stale.push(building),
        );
        stale.into_iter().for_each(|building| self.drop_building(building));
        if !self.manager.connected || !self.manager.answered {
            // Without a manager nothing incomplete is given up: what is missing may be with a unit that does not know of
            // its range, and the manager to come would have it built a second time with the same attempt.
            return;
        }
        for building in self.open.iter_mut().filter(|building| building.confirmed && building.waiting > 0) {
            let since = building.since;
            if !any_gone && !self.settings.is_over_age(since, now) {
                continue;
            }
            for (number, readout) in (0..).map(UnitId).zip(&self.readouts) {
                // One that sends is on its way to this range, however slow the connection is: BUSY is for that.
                let old = self.settings.is_over_age(since.max(readout.received), now);
                match is_gone(readout) {
                    true => building.settle(number, Standing::Gone(Closing::UnitLost)),
                    false if old => building.settle(number, Standing::Gone(Closing::Age)),
                    false => {}
                }
            }
            if building.waiting == 0 {
                self.ready.push_back(building.assignment.start);
            }
        }
    }

    pub(super) fn start_building(&mut self, range: Assignment, epoch: u64, confirmed: bool, now: Mark) {
        let mut building = self.spare.pop().unwrap_or_else(|| Box::new(Building::empty(now)));
        building.start_over(range, epoch, confirmed, now, self.sources.len());
        if building.is_ready() {
            self.ready.push_back(range.start);
        }
        if let Some(older) = self.open.insert(building) {
            self.drop_building(older);
        }
    }

    pub(super) fn drop_building(&mut self, building: Box<Building>) {
        self.lose(LossReason::UnitLost, building.held.fragments, building.held.bytes);
        if let Some(parts) = &mut self.lost_parts {
            let range = building.assignment;
            let part = |(readout, contribution): (usize, &Contribution)| {
                let not_passed = contribution.rows.next_trigger()?;
                Some(LostPart {
                    readout: UnitId::from_index(readout),
                    from: not_passed,
                    until: range.end(),
                    attempt: range.attempt,
                })
            };
            parts.extend(building.contributions.iter().enumerate().filter_map(part));
        }
        self.building.take(Amount { events: 0, ..building.held });
        self.note_range(building.assignment, &building.sums(), RangeFate::Given);
        // Some of it may be with the host already; when that is written, it is not reported.
        let (complete, partial) = building.passed;
        let events = u64::from(complete) + u64::from(partial);
        self.unwritten.take(Amount { events, fragments: 0, bytes: building.passed_bytes });
        self.recycle(building);
    }

    pub(super) fn recycle(&mut self, mut building: Box<Building>) {
        const MOST_SPARE: usize = 256;
        building.contributions.iter_mut().for_each(|contribution| contribution.rows.clear());
        if self.spare.len() < MOST_SPARE {
            self.spare.push(building);
        }
    }
}
