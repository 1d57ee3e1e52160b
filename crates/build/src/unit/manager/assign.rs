//! Which triggers can be built, and by whom.
//!
//! ```text
//!  closed_until of each readout unit ─► limit ─► ranges below it ─► the builder with most credit, or the next in turn
//! ```

use thalweg_data::{Mark, UnitId};

use super::{EventManager, Readout};
use crate::unit::message::Progress;
use crate::unit::{Assignment, AssignmentOrder};

/// How far the readout units are.
struct Reach {
    /// What all that are waited for have closed.
    limit: u64,
    /// Nobody of them has anything unassigned below; `None` while not all have said so of what is assigned now.
    lowest: Option<u64>,
    /// How many have nothing for long; and how many have been reporting at all.
    far: usize,
    reporting: usize,
}

impl EventManager {
    pub(super) fn assign(&mut self, now: Mark) {
        if self.orphans > 0 {
            self.assign_orphans(now);
        }
        let Some(reach) = self.reach(now) else { return };
        let Some(limit) = self.jump_hole(reach) else { return };
        let is_patient = now.since_ns(self.assigned_at) < self.settings.progress_us * 1_000;
        while self.next < limit {
            let range = u64::from(self.settings.range_events);
            let whole = match self.settings.order {
                AssignmentOrder::Credit => range,
                // Ranges do not cross multiples of their length, so that a trigger's builder depends on its number alone.
                AssignmentOrder::RoundRobin => range - self.next % range,
            };
            let length = whole.min(limit - self.next);
            if length < whole && is_patient {
                break;
            }
            let Some(builder) = self.choose(self.next, length, now) else { break };
            let length = length.min(u64::from(self.builders[builder].credits.limit));
            let attempt = self.first_attempt(self.next);
            let assignment = Assignment {
                start: self.next,
                length: length as u32,
                builder: UnitId::from_index(builder),
                attempt,
                written: false,
            };
            self.next += length;
            self.builders[builder].outstanding += length;
            self.open.insert(assignment);
            self.new.push(assignment);
            self.counts.assigned_ranges += 1;
            self.assigned_at = now;
        }
    }

    /// Gives ranges of dead builders to living ones, the oldest first.
    fn assign_orphans(&mut self, now: Mark) {
        let starts: Vec<(u64, u32)> = self
            .open
            .iter()
            .filter(|range| range.builder == Assignment::NOBODY)
            .map(|range| (range.start, range.length))
            .collect();
        for (start, length) in starts {
            let Some(builder) = self.choose(start, u64::from(length), now) else { break };
            if let Some(range) = self.open.find(start) {
                range.builder = UnitId::from_index(builder);
                self.new.push(*range);
                self.builders[builder].outstanding += u64::from(length);
                self.orphans -= 1;
                self.counts.reassigned_ranges += 1;
            }
        }
    }

    /// Passes over trigger numbers that nobody has; returns how far can be assigned then, or `None` to wait.
    fn jump_hole(&mut self, Reach { limit, lowest, far, reporting }: Reach) -> Option<u64> {
        let jump = self.settings.jump_triggers;
        if limit.saturating_sub(self.next) <= jump && lowest.is_none() {
            return Some(limit);
        }
        // So many at once: a backlog, or numbers that were never there. Those who have them must know what is assigned.
        let behind = lowest?.min(limit);
        let hole = behind.saturating_sub(self.next);
        if hole > u64::from(self.settings.range_events) {
            // A single unit that is far ahead of every other is a board that counts wrongly, until a second one agrees.
            if self.next > 0 && hole > jump && reporting >= 2 && far < 2 {
                return None;
            }
            self.counts.jumped_triggers += hole;
            self.next = behind;
            self.jumped = true;
        }
        Some(limit.min(self.next.saturating_add(jump)))
    }

    /// How far the readout units have come, by those in good health.
    fn reach(&mut self, now: Mark) -> Option<Reach> {
        let (dead_ns, lag_ns) = (self.settings.dead_ns(), self.settings.lag_ns());
        let alive = |readout: &&mut Readout| readout.link.is_alive(now, dead_ns);
        let closed = |readout: &Readout| readout.progress.map_or(0, |progress| progress.closed_until);
        let furthest = self.readouts.iter_mut().filter(alive).map(|readout| closed(readout)).max()?;
        let far_from = self.next.saturating_add(self.settings.jump_triggers);
        let mut reach = Reach { limit: u64::MAX, lowest: Some(u64::MAX), far: 0, reporting: 0 };
        for readout in self.readouts.iter_mut().filter(alive) {
            let level = readout.progress.is_some() && closed(readout) >= furthest;
            readout.behind = if level { None } else { readout.behind.or(Some(now)) };
            reach.reporting += 1;
            reach.far += usize::from(readout.progress.is_some_and(|each| nothing_below(&each) > far_from));
            let since = readout.behind.map(|behind| behind.max(readout.advanced));
            let is_full = readout.progress.is_some_and(|progress| progress.full);
            if !is_full && since.is_some_and(|since| now.since_ns(since) > lag_ns) {
                // It stands still while others go on, and not because it waits for them: they do not wait for it.
                continue;
            }
            // One that has not spoken in this epoch may have anything.
            let progress = readout.progress?;
            if !progress.ended {
                reach.limit = reach.limit.min(progress.closed_until);
            }
            let is_current = progress.assigned_until >= self.next;
            reach.lowest = reach.lowest.filter(|_| is_current).map(|low| low.min(nothing_below(&progress)));
        }
        if reach.limit == u64::MAX {
            reach.limit = furthest;
        }
        Some(reach)
    }

    /// Looks which builder units no living readout unit misses. One that is not connected yet keeps its events, and nobody has a reason to
    /// build without them.
    pub(super) fn note_who_is_reached(&mut self, now: Mark) {
        let (dead_ns, reach_ns) = (self.settings.dead_ns(), self.settings.reach_ns());
        let lives = |readout: &Readout| readout.link.is_alive(now, dead_ns);
        let living = self.readouts.iter().filter(|readout| lives(readout)).count();
        let readouts = &self.readouts;
        for builder in self.builders.iter_mut().filter(|builder| builder.link.is_alive(now, dead_ns)) {
            let missing = builder.unreached.as_ref().map_or(living, |numbers| {
                let readout = |number: &UnitId| readouts.get(number.index());
                numbers.iter().filter_map(readout).filter(|readout| lives(readout)).count()
            });
            // Where nobody is connected nothing can be built, however long that lasts.
            let since = if missing == living { now } else { builder.short_since.unwrap_or(now) };
            builder.short_since = (missing > 0).then_some(since);
            self.reached |= builder.is_reached(now, reach_ns);
        }
    }

    /// The builder of a range that has space for it.
    fn choose(&mut self, start: u64, length: u64, now: Mark) -> Option<usize> {
        let count = self.builders.len();
        let (dead_ns, reach_ns) = (self.settings.dead_ns(), self.settings.reach_ns());
        let takes = |index: usize| {
            let builder = &self.builders[index];
            let limit = u64::from(builder.credits.limit);
            builder.is_reached(now, reach_ns) && limit > 0 && builder.free() >= length.min(limit)
        };
        let is_there = |index: &usize| {
            let link = &self.builders[*index].link;
            link.is_alive(now, dead_ns) && !link.state_due
        };
        match self.settings.order {
            AssignmentOrder::RoundRobin => {
                let turn = start / u64::from(self.settings.range_events);
                let first = (turn % count.max(1) as u64) as usize;
                let index = (0..count).map(|step| (first + step) % count).find(is_there)?;
                takes(index).then_some(index)
            }
            AssignmentOrder::Credit => {
                let turns = (0..count).map(|step| (self.rotation + step) % count);
                let mut best: Option<usize> = None;
                for index in turns.filter(is_there).filter(|index| takes(*index)) {
                    if best.is_none_or(|best| self.builders[index].free() > self.builders[best].free()) {
                        best = Some(index);
                    }
                }
                self.rotation = best.map_or(self.rotation, |best| (best + 1) % count);
                best
            }
        }
    }
}

/// A readout unit has nothing unassigned below.
fn nothing_below(progress: &Progress) -> u64 {
    match progress.ended && progress.lowest_unassigned >= progress.closed_until {
        true => u64::MAX,
        false => progress.lowest_unassigned,
    }
}
