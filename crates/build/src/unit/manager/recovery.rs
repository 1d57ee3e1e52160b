//! How a new manager finds out where the one before it stood.
//!
//! ```text
//!  reports of readout units ─► which ranges there are, and which a readout unit has seen released: those are done
//!  reports of builder units ─► which of the others are still built: those stay; the rest is assigned again
//! ```
//! Every readout unit receives the same messages in the same order, some not the last of them. So among those that know the
//! highest epoch, the one that has received most knows all ranges, and a range that it knows and another one of them no longer
//! does, is done.

use thalweg_data::{Mark, UnitId};

use super::{EventManager, Phase, Report};
use crate::unit::{Assignment, OnFile};

impl EventManager {
    /// Whether every unit has reported, or enough have and the others have had their time.
    pub(super) fn has_enough_reports(&self, now: Mark) -> bool {
        let Phase::Collecting { since } = self.phase else { return false };
        let any = self.readouts.iter().any(|unit| unit.link.reported)
            && self.builders.iter().any(|unit| unit.link.reported);
        self.has_all_reports() || any && now.since_ns(since) >= self.settings.announce_ns()
    }

    pub(super) fn has_all_reports(&self) -> bool {
        self.readouts.iter().all(|unit| unit.link.reported)
            && self.builders.iter().all(|unit| unit.link.reported)
    }

    /// A unit that comes later than the table was rebuilt, or knows of more than is in it: what it had a part in must not be
    /// written a second time with the same attempt.
    pub(super) fn note_foreign(&mut self, until: u64, attempt: u8) {
        if until > self.next {
            self.hazard = (self.hazard.0.max(until), self.hazard.1.max(attempt.saturating_add(1)));
        }
    }

    /// The first attempt of a range that is assigned now.
    pub(super) fn first_attempt(&self, start: u64) -> u8 {
        let known = if start < self.hazard.0 { self.hazard.1 } else { 0 };
        known.max(u8::from(self.blind))
    }

    /// Rebuilds the table from the reports, and begins to assign.
    pub(super) fn recover(&mut self, now: Mark) {
        let epoch = self.readouts.iter().map(|unit| unit.report.epoch).max().unwrap_or(0);
        let views: Vec<&Report> = self
            .readouts
            .iter()
            .map(|unit| &unit.report)
            .filter(|view| epoch > 0 && view.epoch == epoch)
            .collect();
        let mut table: Vec<Assignment> = Vec::new();
        self.next = views.iter().map(|view| view.assigned_until).max().unwrap_or(0);
        for range in views.iter().flat_map(|view| &view.ranges) {
            let released = views.iter().any(|view| {
                view.assigned_until >= range.end()
                    && !view.ranges.iter().any(|each| each.start == range.start)
            });
            if !released {
                note(&mut table, *range);
            }
        }
        if views.is_empty() {
            // Every readout unit is new. What builders have is all there is.
            for range in self.builders.iter().flat_map(|unit| &unit.report.ranges) {
                if !range.written {
                    note(&mut table, *range);
                }
                self.next = self.next.max(range.end());
            }
        }
        for range in table {
            if !self.open.overlaps(range.start, range.end()) {
                self.open.insert(Assignment { builder: Assignment::NOBODY, written: false, ..range });
            }
        }
        self.take_claims();
        if !self.has_all_reports() {
            // Whoever is missing, or has died, may have had a part in attempts that nobody here knows of.
            self.blind = true;
        }
        let on_file: Vec<OnFile> = self.builders.iter().map(|unit| unit.report.on_file).collect();
        on_file.iter().for_each(|files| self.note_foreign(files.until, files.attempt));
        self.orphans = 0;
        for range in self.open.iter_mut().filter(|range| range.builder == Assignment::NOBODY) {
            let written = on_file.iter().filter(|files| files.until > range.start).map(|files| files.attempt);
            range.attempt = written.fold(range.attempt, u8::max).saturating_add(1);
            self.orphans += 1;
        }
        self.readouts.iter_mut().for_each(|unit| unit.report = Report::default());
        self.builders.iter_mut().for_each(|unit| unit.report = Report::default());
        self.phase = Phase::Running;
        self.assigned_at = now;
    }

    /// Leaves with each builder what it has; what it has that is in no table must not be written a second time with the same attempt.
    fn take_claims(&mut self) {
        let mut foreign = Vec::new();
        let mut outstanding: Vec<u64> = self.builders.iter().map(|builder| builder.outstanding).collect();
        for (number, builder) in self.builders.iter_mut().enumerate() {
            for claim in std::mem::take(&mut builder.report.ranges) {
                match self.open.find(claim.start) {
                    Some(range) if range.is(claim) && range.builder == Assignment::NOBODY => {
                        range.builder = UnitId::from_index(number);
                        outstanding[number] += u64::from(range.length);
                    }
                    Some(range)
                        if claim.written && range.length == claim.length && range.attempt < claim.attempt =>
                    {
                        // It was assigned again, and is written: who builds an earlier attempt need not go on.
                        if let Some(before) = outstanding.get_mut(range.builder.index()) {
                            *before -= u64::from(range.length);
                        }
                        *range = Assignment { builder: UnitId::from_index(number), written: false, ..claim };
                        outstanding[number] += u64::from(range.length);
                    }
                    _ => {
                        let touched = self.open.iter_mut().filter(|range| {
                            range.builder == Assignment::NOBODY
                                && range.start < claim.end()
                                && claim.start < range.end()
                        });
                        touched.for_each(|range| range.attempt = range.attempt.max(claim.attempt));
                        foreign.push(claim);
                    }
                }
            }
        }
        for (builder, outstanding) in self.builders.iter_mut().zip(outstanding) {
            builder.outstanding = outstanding;
        }
        foreign.iter().for_each(|claim: &Assignment| self.note_foreign(claim.end(), claim.attempt));
    }
}

/// Enters a range; of two versions that of the higher attempt stays.
fn note(table: &mut Vec<Assignment>, range: Assignment) {
    match table.iter_mut().find(|each| each.start == range.start) {
        Some(each) if each.attempt >= range.attempt => {}
        Some(each) => *each = range,
        None => table.push(range),
    }
}
