//! Whether each connection between a readout unit and a builder unit balances, range by range, by what its two ends have noted.
//!
//! ```text
//!  readout unit: range, attempt, acknowledged ─┐
//!  disks: rows of that attempt ────────────────┼─► acknowledged = ever on file ≤ sent; whatever is on file was sent
//!  builder unit: range, attempt, on file ──────┘    and sums over ranges are the counts of the ledger
//! ```

use std::ops::Range;

use thalweg_data::{Counters, EventSum, RangeFate, RangeRecord, Unit};

use super::verdict::Disk;
use super::world::World;

/// What the units have noted of ranges in each of their lives.
#[derive(Default)]
pub(super) struct Noted {
    readouts: Vec<Vec<Vec<RangeRecord>>>,
    builders: Vec<Vec<Vec<RangeRecord>>>,
}

impl Noted {
    pub fn of(readouts: usize, builders: usize) -> Noted {
        Noted { readouts: vec![vec![Vec::new()]; readouts], builders: vec![vec![Vec::new()]; builders] }
    }

    pub fn by_readout(&mut self, number: usize, records: &mut Vec<RangeRecord>) {
        if let Some(life) = self.readouts[number].last_mut() {
            life.append(records);
        }
    }

    pub fn by_builder(&mut self, number: usize, records: &mut Vec<RangeRecord>) {
        if let Some(life) = self.builders[number].last_mut() {
            life.append(records);
        }
    }

    /// A readout unit dies, and what it has not noted dies with it.
    pub fn readout_died(&mut self, number: usize) {
        self.readouts[number].push(Vec::new());
    }

    /// The same of a builder unit.
    pub fn builder_died(&mut self, number: usize) {
        self.builders[number].push(Vec::new());
    }
}

impl World {
    /// Takes what the units have noted.
    pub(super) fn take_ranges(&mut self) {
        for (number, process) in self.readouts.iter_mut().enumerate() {
            process.unit.iter_mut().for_each(|unit| self.noted.by_readout(number, unit.ranges()));
        }
        for (number, process) in self.builders.iter_mut().enumerate() {
            process.unit.iter_mut().for_each(|unit| self.noted.by_builder(number, unit.ranges()));
        }
    }

    /// Judges every connection.
    ///
    /// # Errors
    /// Says which one does not balance, and where.
    pub(super) fn check_edges(&self) -> Result<(), String> {
        for (number, lives) in self.noted.readouts.iter().enumerate() {
            let sources = self.sources_of(number);
            // One that has died may have sent what it had no time to note, of the same ranges and attempts.
            let has_died = lives.len() > 1;
            for record in lives.iter().flatten() {
                check_sent(&self.disk, record, &sources, has_died)?;
            }
            if !has_died {
                self.disk.check_all_sent(&lives[0], &sources)?;
            }
            if let (Some(unit), Some(life)) = (&self.readouts[number].unit, lives.last()) {
                let noted = |fate| life.iter().filter(move |record| record.fate == fate);
                adds_up(noted(RangeFate::Acknowledged), unit.counters(), &format!("readout {number}"))?;
            }
        }
        for (number, lives) in self.noted.builders.iter().enumerate() {
            if let (Some(unit), Some(life)) = (&self.builders[number].unit, lives.last()) {
                let whole = life.iter().filter(|record| record.readout.is_none());
                adds_up(whole, unit.counters(), &format!("builder {number}"))?;
            }
            for record in lives.iter().flatten().filter(|record| record.fate == RangeFate::OnFile) {
                let sources = match record.readout {
                    Some(readout) => self.sources_of(readout.index()),
                    None => 0..self.plan.readouts * self.plan.boards,
                };
                let ever = self.disk.ever_of(record, &sources);
                if ever != record.sum {
                    return Err(format!("builder {number} noted {record:?}, and has {ever:?} on file"));
                }
            }
        }
        Ok(())
    }

    fn sources_of(&self, readout: usize) -> Range<u16> {
        let boards = self.plan.boards;
        readout as u16 * boards..(readout as u16 + 1) * boards
    }
}

/// What a readout unit says of a range against what was ever on file of that attempt.
fn check_sent(disk: &Disk, record: &RangeRecord, sources: &Range<u16>, has_died: bool) -> Result<(), String> {
    let ever = disk.ever_of(record, sources);
    let holds = match (record.fate, has_died) {
        (RangeFate::Acknowledged, false) => ever == record.sum,
        (RangeFate::Acknowledged, true) => record.sum.is_within(ever),
        (_, false) => ever.is_within(record.sum),
        (_, true) => true,
    };
    match holds {
        true => Ok(()),
        false => Err(format!(
            "readout {:?} noted {record:?}, and {ever:?} is on file: {}",
            record.readout,
            disk.history(record.first)
        )),
    }
}

/// Sums over ranges are what the ledger has.
fn adds_up<'r>(
    records: impl Iterator<Item = &'r RangeRecord>,
    counters: &Counters,
    whose: &str,
) -> Result<(), String> {
    let mut sum = EventSum::default();
    records.for_each(|record| sum.add(record.sum));
    let noted = [sum.events, sum.fragments, sum.bytes];
    let counted = [Unit::Events, Unit::Fragments, Unit::Bytes].map(|unit| counters.total_output(unit));
    match noted == counted {
        true => Ok(()),
        false => Err(format!("{whose} has noted {noted:?} as out, range by range, and counted {counted:?}")),
    }
}
