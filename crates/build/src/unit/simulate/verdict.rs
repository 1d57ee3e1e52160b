//! What must hold at the end of a run.
//!
//! ```text
//!  rows on all disks + the fate of every fragment + all ledgers ─► SimulationOutcome, or what does not hold
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use thalweg_data::{Closing, Counters, EventSum, Events, RangeRecord, Unit};

use super::SimulationOutcome;
use super::boards::payload;
use super::random::Random;
use super::world::World;
use crate::unit::OnFile;

/// One event as a disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    closing: Closing,
    present: u64,
    missing: u64,
    /// The builder unit whose file it is in.
    writer: usize,
    pub attempt: u8,
}

impl Row {
    pub fn has(&self, bit: u64) -> bool {
        self.present & bit != 0
    }
}

/// Trigger and attempt.
type Key = (u64, u8);

/// The files of all builder units: they outlive their writers, and a power cut but for what is not synced.
#[derive(Default)]
pub(super) struct Disk {
    rows: BTreeMap<Key, Row>,
    /// Which boards every row had that was ever written.
    ever: BTreeMap<Key, u64>,
    /// Likewise of those that power cuts took.
    cut: BTreeMap<Key, u64>,
    /// Which builder unit wrote each row.
    writers: BTreeMap<Key, usize>,
    /// Of each builder unit, the batches that are written and not synced, with the time of that.
    unsynced: BTreeMap<usize, VecDeque<(u64, Vec<Key>)>>,
    complaint: Option<String>,
}

impl Disk {
    /// Writes a batch, and reads every payload. It is synced later.
    pub fn write(&mut self, writer: usize, events: &Events, synced_at: u64) {
        let mut slices = events.slices.iter();
        let (mut bytes, mut expected, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (event, fragments) in events.iter() {
            let mut row =
                Row { closing: event.closing, present: 0, missing: 0, writer, attempt: event.attempt };
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
            let key = (event.trigger, event.attempt);
            keys.push(key);
            *self.ever.entry(key).or_default() |= row.present;
            self.writers.insert(key, writer);
            if self.rows.insert(key, row).is_some() {
                self.complain(format!(
                    "trigger {} was written twice as attempt {}",
                    event.trigger, event.attempt
                ));
            }
        }
        self.unsynced.entry(writer).or_default().push_back((synced_at, keys));
    }

    /// Notes what is on the disk by now, whatever becomes of the power.
    pub fn sync(&mut self, writer: usize, now: u64) {
        let Some(batches) = self.unsynced.get_mut(&writer) else { return };
        while batches.front().is_some_and(|(synced_at, _)| *synced_at <= now) {
            batches.pop_front();
        }
    }

    /// The power goes: of what is not synced each batch is there or not, in any order; one of which a part is there is not.
    pub fn cut_power(&mut self, writer: usize, random: &mut Random) {
        for (_, keys) in self.unsynced.remove(&writer).into_iter().flatten() {
            if random.once_in(2) {
                continue;
            }
            for key in keys {
                if let Some(row) = self.rows.remove(&key) {
                    *self.cut.entry(key).or_default() |= row.present;
                }
            }
        }
    }

    /// What a builder unit finds on its files.
    pub fn recall(&self, writer: usize) -> OnFile {
        let own = self.rows.iter().filter(|(_, row)| row.writer == writer);
        own.fold(OnFile::default(), |found, ((trigger, attempt), _)| OnFile {
            until: found.until.max(trigger + 1),
            attempt: found.attempt.max(*attempt),
        })
    }

    /// Whether a power cut took the row of the highest attempt that had a fragment. Where it took an earlier one only, the fragment was not
    /// lost with that: it was built again.
    pub fn was_cut(&self, trigger: u64, bit: u64) -> bool {
        let last = self.last_attempt_with(trigger, bit);
        self.cut.get(&(trigger, last)).is_some_and(|boards| boards & bit != 0)
    }

    /// Every row that was ever written of a trigger, as text.
    pub fn history(&self, trigger: u64) -> String {
        let all = self.ever.range((trigger, 0)..=(trigger, u8::MAX));
        let text = all.map(|(key, boards)| {
            let cut = if self.cut.contains_key(key) { ", cut" } else { "" };
            let row = self.rows.get(key).map_or(String::new(), |row| {
                format!(", {} of builder {}, missing {:b}", row.closing.word(), row.writer, row.missing)
            });
            format!("attempt {}: {boards:b}{row}{cut}", key.1)
        });
        text.collect::<Vec<_>>().join("; ")
    }

    /// The highest attempt of which a row had a fragment; 0 if none had.
    pub fn last_attempt_with(&self, trigger: u64, bit: u64) -> u8 {
        let all = self.ever.range((trigger, 0)..=(trigger, u8::MAX));
        all.filter(|(_, boards)| **boards & bit != 0).map(|((_, attempt), _)| *attempt).max().unwrap_or(0)
    }

    /// The lowest attempt of which a row on file has a fragment; 0 if none has.
    pub fn first_attempt_with(&self, trigger: u64, bit: u64) -> u8 {
        let all = self.rows.range((trigger, 0)..=(trigger, u8::MAX));
        all.filter(|(_, row)| row.has(bit)).map(|((_, attempt), _)| *attempt).next().unwrap_or(0)
    }

    /// What a builder unit ever wrote of a range and attempt, of these boards.
    pub fn ever_of(&self, record: &RangeRecord, sources: &Range<u16>) -> EventSum {
        let mut sum = EventSum::default();
        for ((trigger, attempt), present) in self.ever.range((record.first, 0)..=(record.last, u8::MAX)) {
            if *attempt == record.attempt && self.is_of(&(*trigger, *attempt), record) {
                sum.add(part_of(*trigger, *present, sources));
            }
        }
        sum
    }

    fn is_of(&self, key: &Key, record: &RangeRecord) -> bool {
        self.writers.get(key) == Some(&record.builder.index())
    }

    /// Whether whatever was written of these boards lies in a range that their readout unit has sent.
    pub fn check_all_sent(&self, records: &[RangeRecord], sources: &Range<u16>) -> Result<(), String> {
        for ((trigger, attempt), present) in &self.ever {
            let is_sent = |record: &RangeRecord| {
                (record.first..=record.last).contains(trigger)
                    && record.attempt == *attempt
                    && self.is_of(&(*trigger, *attempt), record)
            };
            let part = part_of(*trigger, *present, sources);
            if !part.is_empty() && !records.iter().any(is_sent) {
                return Err(format!(
                    "trigger {trigger}, attempt {attempt} is on file, and the readout unit of {sources:?} has not noted that: {}",
                    self.history(*trigger)
                ));
            }
        }
        Ok(())
    }

    fn complain(&mut self, what: String) {
        self.complaint.get_or_insert(what);
    }

    pub fn complaint(&self) -> Result<(), String> {
        self.complaint.clone().map_or(Ok(()), Err)
    }
}

/// What a row has of these boards.
fn part_of(trigger: u64, present: u64, sources: &Range<u16>) -> EventSum {
    let (mut fragments, mut bytes) = (0, Vec::new());
    for source in sources.clone().filter(|source| present >> source & 1 != 0) {
        fragments += 1;
        payload(source, trigger, &mut bytes);
    }
    match fragments {
        0 => EventSum::default(),
        _ => EventSum::of(trigger, fragments, bytes.len() as u64),
    }
}

fn closes(counters: &Counters, unit: Unit, whose: &str) -> Result<(), String> {
    let right = counters.total_output(unit) + counters.total_lost_any(unit) + counters.held(unit);
    match counters.total_input(unit) == right {
        true => Ok(()),
        false => {
            Err(format!("{whose}: {unit}: in {} = out + lost + held {right}", counters.total_input(unit)))
        }
    }
}

impl World {
    /// Judges a run that has come to rest.
    ///
    /// # Errors
    /// Says what does not hold.
    pub(super) fn verdict(&mut self) -> Result<SimulationOutcome, String> {
        let mut outcome = SimulationOutcome {
            accepted: self.accepted,
            refused: self.refused,
            deaths: self.deaths,
            breaks: self.breaks,
            power_cuts: self.power_cuts,
            ..SimulationOutcome::default()
        };
        self.balance_ledgers()?;
        let all = (1u64 << (self.plan.readouts * self.plan.boards)) - 1;
        let (taken, attempts) = self.rows_taken();
        for (trigger, row) in &taken {
            judge(*trigger, row, all)?;
            match row.closing {
                Closing::Complete => outcome.complete += 1,
                _ => outcome.partial += 1,
            }
            match attempts.get(trigger) {
                Some(1) => outcome.once += 1,
                _ if self.plan.is_faultless() => {
                    return Err(format!("trigger {trigger} was built again, and nothing went wrong"));
                }
                _ => outcome.repeated += 1,
            }
        }
        if taken.keys().next_back().is_some_and(|trigger| *trigger >= self.accepted) {
            return Err("a trigger was built that there never was".to_owned());
        }
        outcome.lost = self.fates(&taken)?;
        self.check_edges()?;
        let known = outcome.once + outcome.repeated + outcome.lost.total();
        if known != outcome.accepted || self.accepted + self.refused != self.offered {
            return Err(format!("{} triggers came: {outcome:?}", self.offered));
        }
        self.take_blocks_back()?;
        Ok(outcome)
    }

    /// Of each trigger what readers find, all attempts joined, and how many rows it has. The attempt is the highest.
    fn rows_taken(&self) -> (BTreeMap<u64, Row>, BTreeMap<u64, u32>) {
        let (mut taken, mut attempts) = (BTreeMap::<u64, Row>::new(), BTreeMap::new());
        // In the order of attempts.
        for ((trigger, _), row) in &self.disk.rows {
            let joined = taken.entry(*trigger).or_insert(*row);
            joined.present |= row.present;
            joined.missing &= row.missing;
            joined.attempt = row.attempt;
            joined.closing = if joined.missing == 0 { Closing::Complete } else { row.closing };
            *attempts.entry(*trigger).or_default() += 1;
        }
        (taken, attempts)
    }

    fn balance_ledgers(&self) -> Result<(), String> {
        for (number, process) in self.readouts.iter().enumerate() {
            let unit = process.unit.as_ref().ok_or("a readout unit does not live")?;
            for count in [Unit::Events, Unit::Fragments, Unit::Bytes] {
                closes(unit.counters(), count, &format!("readout {number}"))?;
            }
            if unit.refused().damaged + unit.refused().unexpected_sender > 0 {
                return Err(format!("readout {number} refused {:?}", unit.refused()));
            }
        }
        for (number, process) in self.builders.iter().enumerate() {
            let unit = process.unit.as_ref().ok_or("a builder unit does not live")?;
            for count in [Unit::Events, Unit::Fragments, Unit::Bytes] {
                closes(unit.counters(), count, &format!("builder {number}"))?;
            }
            let counted = [Unit::Events, Unit::Fragments].map(|count| unit.counters().total_output(count));
            if counted != process.handed_over {
                return Err(format!(
                    "builder {number}: out {counted:?} events and fragments, handed over {:?}",
                    process.handed_over
                ));
            }
            if unit.refused().damaged + unit.refused().unexpected_sender > 0 {
                return Err(format!("builder {number} refused {:?}", unit.refused()));
            }
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
