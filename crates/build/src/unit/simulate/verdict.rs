//! What must hold at the end of a run.
//!
//! ```text
//!  rows on all disks + what every living readout unit has taken + all books ─► Outcome, or what does not hold
//! ```

use std::collections::BTreeMap;

use thalweg_data::{Closing, Events, LossReason, Tally, Unit};

use super::Outcome;
use super::boards::payload;
use super::world::World;
use crate::unit::BuilderUnit;

/// One event as a disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    closing: Closing,
    present: u64,
    missing: u64,
}

/// The files of all builder units: they outlive their writers.
#[derive(Default)]
pub(super) struct Disk {
    /// By trigger and attempt.
    rows: BTreeMap<(u64, u8), Row>,
    complaint: Option<String>,
}

impl Disk {
    /// Writes a batch, and reads every payload.
    pub fn write(&mut self, events: &Events) {
        let mut slices = events.slices.iter();
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (event, fragments) in events.iter() {
            let mut row = Row { closing: event.closing, present: 0, missing: 0 };
            for fragment in fragments {
                bytes.clear();
                for slice in slices.by_ref().take(usize::from(fragment.slices)) {
                    bytes.extend_from_slice(events.leases.bytes(*slice));
                }
                expected.clear();
                payload(fragment.source.0, event.trigger, &mut expected);
                if bytes != expected || fragment.ticks != 3 * event.trigger {
                    self.complain(format!("trigger {}: {} is mixed up", event.trigger, fragment.source));
                }
                if row.present >> fragment.source.0 != 0 {
                    self.complain(format!("trigger {}: fragments out of order", event.trigger));
                }
                row.present |= 1 << fragment.source.0;
            }
            events.missing_of(event).iter().for_each(|source| row.missing |= 1 << source.0);
            if self.rows.insert((event.trigger, event.attempt), row).is_some() {
                self.complain(format!(
                    "trigger {} was written twice as attempt {}",
                    event.trigger, event.attempt
                ));
            }
        }
    }

    fn complain(&mut self, what: String) {
        self.complaint.get_or_insert(what);
    }

    pub fn complaint(&self) -> Result<(), String> {
        self.complaint.clone().map_or(Ok(()), Err)
    }
}

/// Fragments that a builder unit has received and not put into any event.
pub(super) fn late_fragments(unit: &BuilderUnit) -> u64 {
    let tally = unit.tally();
    tally.total_lost(LossReason::LateFragment, Unit::Fragments)
        + tally.total_lost(LossReason::UnitLost, Unit::Fragments)
}

/// Fragments that a builder unit has.
pub(super) fn held_fragments(unit: &BuilderUnit) -> u64 {
    unit.tally().held(Unit::Fragments)
}

fn closes(tally: &Tally, unit: Unit, whose: &str) -> Result<(), String> {
    let right = tally.total_output(unit) + tally.total_lost_any(unit) + tally.held(unit);
    match tally.total_input(unit) == right {
        true => Ok(()),
        false => Err(format!("{whose}: {unit}: in {} = out + lost + held {right}", tally.total_input(unit))),
    }
}

impl World {
    /// Judges a run that has come to rest.
    ///
    /// # Errors
    /// Says what does not hold.
    pub(super) fn verdict(&mut self) -> Result<Outcome, String> {
        let mut outcome = Outcome {
            accepted: self.accepted,
            refused: self.refused,
            deaths: self.deaths,
            breaks: self.breaks,
            ..Outcome::default()
        };
        self.close_books()?;
        let all = (1u64 << (self.plan.readouts * self.plan.boards)) - 1;
        let last = self.last_attempts(&mut outcome);
        for trigger in 0..self.accepted {
            match last.get(&trigger) {
                None => outcome.nowhere += 1,
                Some(row) => {
                    judge(trigger, row, all)?;
                    match row.closing {
                        Closing::Complete => outcome.complete += 1,
                        _ => outcome.partial += 1,
                    }
                }
            }
        }
        if last.keys().next_back().is_some_and(|trigger| *trigger >= self.accepted) {
            return Err("a trigger was built that there never was".to_owned());
        }
        self.look_for_the_lost(&last)?;
        self.take_blocks_back()?;
        Ok(outcome)
    }

    /// Of each trigger the row of the highest attempt.
    fn last_attempts(&self, outcome: &mut Outcome) -> BTreeMap<u64, Row> {
        let mut last = BTreeMap::new();
        for ((trigger, _), row) in &self.disk.rows {
            outcome.replaced += u64::from(last.insert(*trigger, *row).is_some());
        }
        last
    }

    fn close_books(&self) -> Result<(), String> {
        for (number, process) in self.readouts.iter().enumerate() {
            let unit = process.unit.as_ref().ok_or("a readout unit does not live")?;
            for count in [Unit::Events, Unit::Fragments, Unit::Bytes] {
                closes(unit.tally(), count, &format!("readout {number}"))?;
            }
            if unit.refused().damaged + unit.refused().stranger > 0 {
                return Err(format!("readout {number} refused {:?}", unit.refused()));
            }
        }
        for (number, process) in self.builders.iter().enumerate() {
            let unit = process.unit.as_ref().ok_or("a builder unit does not live")?;
            for count in [Unit::Events, Unit::Fragments, Unit::Bytes] {
                closes(unit.tally(), count, &format!("builder {number}"))?;
            }
            if unit.refused().damaged + unit.refused().stranger > 0 {
                return Err(format!("builder {number} refused {:?}", unit.refused()));
            }
        }
        Ok(())
    }

    /// Whatever a living readout unit has had, and is in no event, must be in the books as lost.
    fn look_for_the_lost(&self, last: &BTreeMap<u64, Row>) -> Result<(), String> {
        let mut counted = self.late_of_the_dead;
        let builders = self.builders.iter().filter_map(|process| process.unit.as_ref());
        counted += builders.map(late_fragments).sum::<u64>();
        let mut gone = 0;
        for (process, board) in self.readouts.iter().zip(&self.crates) {
            let Some(unit) = &process.unit else { continue };
            counted += unit.tally().total_lost_any(Unit::Fragments);
            for (trigger, mask) in &board.taken {
                let present = last.get(trigger).map_or(0, |row| row.present);
                gone += u64::from((mask & !present).count_ones());
            }
        }
        if gone > counted {
            return Err(format!("{gone} fragments are in no event, {counted} of them in the books"));
        }
        if self.plan.is_faultless() && (gone > 0 || counted > 0) {
            return Err(format!("nothing went wrong, yet {gone} fragments are gone, {counted} counted"));
        }
        Ok(())
    }

    /// Nobody may hold a block any more.
    fn take_blocks_back(&mut self) -> Result<(), String> {
        self.readouts.clear();
        self.builders.clear();
        self.crates.clear();
        self.clear_links();
        for pool in &self.pools {
            if pool.free_count() != pool.block_count() {
                return Err(format!("blocks are still held: {pool:?}"));
            }
        }
        Ok(())
    }
}

fn judge(trigger: u64, row: &Row, all: u64) -> Result<(), String> {
    let whole = row.present == all;
    if whole != (row.closing == Closing::Complete) {
        return Err(format!(
            "trigger {trigger} has {:b} of {all:b} and is {}",
            row.present,
            row.closing.word()
        ));
    }
    if row.missing != all & !row.present {
        return Err(format!("trigger {trigger} has {:b}, lacks {:b}", row.present, row.missing));
    }
    Ok(())
}
