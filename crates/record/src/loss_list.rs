//! Losses as a table: what was lost when, from the ledger, while the run goes on.
//!
//! ```text
//!  ledger at 7 s ─┐
//!  ledger at 8 s ─┴─► losses that have grown ─► rows "7 s to 8 s" ─► a batch of losses.arrows, whole on file
//! ```
//! Every row is a difference of two readings of one counter of the ledger, and the first reading is 0: so the rows of a counter add
//! up to what the ledger has. Of fragments that never came the triggers are listed, where they are known; of what a row without triggers has
//! beside them, they are not. Rows that a full disk refuses are not kept; the next row then covers a longer time.
//!
//! The list is bounded. As it fills, more time passes between two readings: four times as much with each halving of what is left.
//! When it is full, a row says so; what is lost from there on stands in one row per counter at the end of the run.

use std::collections::BTreeMap;

use thalweg_data::ledger::CounterSnapshot;
use thalweg_data::{LedgerSnapshot, LossReason, SourceId, Stage, StageRole, Unit};

use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::ipc::columns::Columns;
use crate::ipc::file::{TableFile, TableSummary};
use crate::loss_row::{LossRow, TriggerRange};
use crate::settings::{Compression, Sync};
use crate::table::Table;

/// How much a list of losses may hold, but for the rows at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossBounds {
    /// Most rows.
    pub rows: u64,
    /// Most bytes on file.
    pub bytes: u64,
}

impl Default for LossBounds {
    fn default() -> LossBounds {
        LossBounds { rows: 100_000, bytes: 32 << 20 }
    }
}

/// Between two readings of the ledger, while the list is less than half full: a second.
pub const READ_EVERY_NS: u64 = 1_000_000_000;
/// How often that time is multiplied by four at most.
const MOST_HALVINGS: f64 = 8.0;

/// A counter of losses.
type Counter = (SourceId, Stage, Unit, LossReason);
/// What the counters of losses read at one moment; those that read 0 are left out.
type Reading = BTreeMap<Counter, u64>;

/// Says which triggers a board has missed: those that were not asked for yet, of the first so many that its counters on the wire counts.
/// Where their rows find no space, later ones count them without their numbers.
pub type MissedTriggers<'m> = dyn Fn(SourceId, u64) -> Vec<TriggerRange> + 'm;

/// The list of a run's losses, and its file.
#[derive(Debug)]
pub struct LossList {
    file: TableFile,
    columns: Columns,
    sync: Sync,
    bounds: LossBounds,
    /// What the rows on file add up to.
    written: Reading,
    /// When that was read, nanoseconds since run start.
    written_ns: u64,
    truncated: Option<Truncated>,
    /// Why nothing can be written any more.
    failure: Option<String>,
}

/// The list is full.
#[derive(Debug)]
struct Truncated {
    /// When the ledger was read last, nanoseconds since run start.
    read_ns: u64,
    latest: Reading,
    /// Rows that were not written.
    rows: u64,
}

impl LossList {
    /// Makes the table in a run's directory, and reserves space for the rows at the end of the run. The names of the sources, by
    /// number, go into the schema.
    ///
    /// # Errors
    /// When the file exists already or cannot be made, or the disk has no space.
    pub fn create(
        directory: &RunDirectory,
        sources: &[String],
        sync: Sync,
        bounds: LossBounds,
    ) -> Result<LossList, RecordError> {
        let names = serde_json::to_string(sources).unwrap_or_default();
        let path = directory.table(Table::Losses);
        let file = TableFile::create(&path, Table::Losses, &[("sources", &names)])?;
        directory.reserve_losses(sources.len())?;
        Ok(LossList {
            file,
            columns: Columns::new(Table::Losses),
            sync,
            bounds,
            written: Reading::new(),
            written_ns: 0,
            truncated: None,
            failure: None,
        })
    }

    /// Whether it is time to read the ledger, at `now_ns` since run start.
    pub fn is_due(&self, now_ns: u64) -> bool {
        match &self.truncated {
            Some(truncated) => now_ns.saturating_sub(truncated.read_ns) >= READ_EVERY_NS,
            None => now_ns.saturating_sub(self.written_ns) >= self.every_ns(),
        }
    }

    /// Writes what was lost since the last time. `snapshot` were read at `now_ns` since run start, and `missed` is asked after that.
    ///
    /// # Errors
    /// When the disk is full: the next time covers this one, too. When it has failed, or somebody has removed, moved or cut the file:
    /// nothing more is written, and every further call says so.
    pub fn take(
        &mut self,
        snapshot: &LedgerSnapshot,
        missed: &MissedTriggers<'_>,
        now_ns: u64,
    ) -> Result<(), RecordError> {
        let reading = reading(snapshot);
        if let Some(truncated) = &mut self.truncated {
            truncated.rows += grown(&truncated.latest, &reading).count() as u64;
            (truncated.latest, truncated.read_ns) = (reading, now_ns);
            return Ok(());
        }
        let mut rows = self.rows(snapshot, &reading, missed, now_ns);
        let left = self.bounds.rows.saturating_sub(self.file.rows() + 1);
        if rows.len() as u64 > left || self.file.summary().bytes >= self.bounds.bytes {
            let not_written = rows.len() as u64;
            rows = vec![LossRow::end_of_list(self.written_ns, now_ns, None)];
            self.write(&rows)?;
            self.truncated = Some(Truncated { read_ns: now_ns, latest: reading, rows: not_written });
            return Ok(());
        }
        self.write(&rows)?;
        (self.written, self.written_ns) = (reading, now_ns);
        Ok(())
    }

    /// Writes what was lost until the end of the run, which gives these `snapshot` at `now_ns` since its start, and forces the table to
    /// the disk. Of a full disk it takes the space that was reserved in `directory`.
    ///
    /// # Errors
    /// When something of it cannot be written.
    pub fn finish(
        &mut self,
        directory: &RunDirectory,
        snapshot: &LedgerSnapshot,
        missed: &MissedTriggers<'_>,
        now_ns: u64,
    ) -> Result<(), RecordError> {
        let reading = reading(snapshot);
        let mut rows = self.rows(snapshot, &reading, missed, now_ns);
        if let Some(truncated) = &self.truncated {
            let not_written = truncated.rows + grown(&truncated.latest, &reading).count() as u64;
            rows.push(LossRow::end_of_list(self.written_ns, now_ns, Some(not_written)));
        }
        match self.write(&rows) {
            Err(error) if error.is_full() => {
                directory.release_rows(self.file.path());
                self.write(&rows)?;
            }
            written => written?,
        }
        (self.written, self.written_ns) = (reading, now_ns);
        self.file.sync()
    }

    /// What the file holds.
    pub fn summary(&self) -> TableSummary {
        self.file.summary()
    }

    /// Nanoseconds until the next reading.
    fn every_ns(&self) -> u64 {
        let summary = self.file.summary();
        let part = |is: u64, most: u64| is as f64 / most.max(1) as f64;
        let fill = part(summary.rows, self.bounds.rows).max(part(summary.bytes, self.bounds.bytes));
        let halvings = -(1.0 - fill).max(f64::MIN_POSITIVE).log2();
        READ_EVERY_NS << (2 * halvings.floor().clamp(0.0, MOST_HALVINGS) as u32)
    }

    /// What has changed since the rows on file: a row for each counter, or several where the triggers are known.
    fn rows(
        &self,
        snapshot: &LedgerSnapshot,
        reading: &Reading,
        missed: &MissedTriggers<'_>,
        now_ns: u64,
    ) -> Vec<LossRow> {
        let mut changes: BTreeMap<Counter, i64> = grown(&self.written, reading).collect();
        let row = |(source, stage, unit, reason): Counter, count| LossRow {
            from_ns: self.written_ns,
            until_ns: now_ns,
            subject: snapshot.sources.get(source.index()).cloned().unwrap_or_else(|| source.to_string()),
            stage: stage.word().to_owned(),
            reason: reason.word().to_owned(),
            unit: unit.word().to_owned(),
            first: None,
            last: None,
            count,
            quality: LossRow::quality_of(reason),
        };
        let mut rows = Vec::new();
        for (slot, counted) in missing_by_number(snapshot) {
            let counter = (slot.source, slot.stage, Unit::Fragments, LossReason::MissingFragment);
            for TriggerRange { first, last, count } in missed(slot.source, counted) {
                // Counts of one run are far below 2⁶³.
                *changes.entry(counter).or_default() -= count as i64;
                rows.push(LossRow { first: Some(first), last: Some(last), ..row(counter, count as i64) });
            }
        }
        let rest = changes.into_iter().filter(|(_, count)| *count != 0);
        rows.extend(rest.map(|(counter, count)| row(counter, count)));
        rows
    }

    /// Writes rows as one batch.
    fn write(&mut self, rows: &[LossRow]) -> Result<(), RecordError> {
        let path = self.file.path().to_owned();
        if let Some(found) = &self.failure {
            return Err(RecordError::Missing { path, found: found.clone() });
        }
        if rows.is_empty() {
            return Ok(());
        }
        if let Some(loss) = self.file.loss() {
            let found = loss.message(&self.file);
            self.failure = Some(found.clone());
            return Err(RecordError::Missing { path, found });
        }
        self.columns.clear();
        rows.iter().for_each(|row| row.push_to(&mut self.columns));
        let staged = self.file.stage(&self.columns, Compression::None);
        let written = staged.and_then(|()| self.file.commit());
        // Rows that a disk could not be forced to take are visible all the same: another try would list them twice.
        let forced = written.and_then(|()| if self.sync == Sync::None { Ok(()) } else { self.file.sync() });
        forced.inspect_err(|error| {
            if !error.is_full() {
                self.failure = Some(error.to_string());
            }
        })
    }
}

/// Fragments of each board that were found to be missing, by the trigger numbers of the others; some of them have come since.
fn missing_by_number(snapshot: &LedgerSnapshot) -> impl Iterator<Item = (&CounterSnapshot, u64)> {
    let by_number = snapshot.at(StageRole::SequenceNumbers);
    let missing = by_number.map(|slot| (slot, slot.counters.total_gap_opened(Unit::Fragments)));
    missing.filter(|(_, count)| *count > 0)
}

/// The counters of losses as readers of the ledger see them: a stage may count units that its slot is not opened for.
fn reading(snapshot: &LedgerSnapshot) -> Reading {
    let losses = snapshot.losses_by_source().into_iter();
    losses.map(|(source, loss)| ((source, loss.stage, loss.unit, loss.reason), loss.count)).collect()
}

/// The counters that differ between two readings, and by how much. One that was taken back differs by less than nothing.
fn grown<'r>(before: &'r Reading, now: &'r Reading) -> impl Iterator<Item = (Counter, i64)> + 'r {
    let gone = before.iter().filter(|(counter, _)| !now.contains_key(counter));
    let gone = gone.map(|(counter, count)| (*counter, 0, *count));
    let present =
        now.iter().map(|(counter, count)| (*counter, *count, before.get(counter).copied().unwrap_or(0)));
    gone.chain(present).filter(|(_, now, before)| now != before).map(|(counter, now, before)| {
        // Counts of one run are far below 2⁶³.
        (counter, now.wrapping_sub(before) as i64)
    })
}

#[cfg(test)]
mod tests {
    use thalweg_data::{Counters, Ledger};

    use super::*;
    use crate::faults::fail_forces_after;
    use crate::read::LossesReader;

    #[test]
    fn losses_are_listed_of_the_units_that_a_stage_counts() {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        let mut counters = Counters::default();
        counters.lost(LossReason::Unfinished, Unit::Bytes, 6);
        counters.lost(LossReason::Unfinished, Unit::Frames, 1);
        ledger.open(Stage::Unpack, SourceId(0), &[Unit::Bytes]).publish(&counters);
        let listed: Vec<(Unit, u64)> =
            reading(&ledger.snapshot()).into_iter().map(|((_, _, unit, _), count)| (unit, count)).collect();
        assert_eq!(listed, [(Unit::Bytes, 6)], "`run.json` has these alone");
    }

    #[test]
    fn rows_that_the_disk_was_not_forced_to_take_are_not_listed_twice() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let run = RunDirectory::create(folder.path(), "").expect("made");
        let names = ["left".to_owned()];
        let ledger = Ledger::create(None, &names).expect("memory");
        let slot = ledger.open(Stage::Wire, SourceId(0), &[Unit::Frames]);
        let mut list = LossList::create(&run, &names, Sync::Batch, LossBounds::default()).expect("made");
        let mut counters = Counters::default();
        let mut take = |second: u64| {
            counters.lost(LossReason::FrameGap, Unit::Frames, 1);
            slot.publish(&counters);
            list.take(&ledger.snapshot(), &|_, _| Vec::new(), second * READ_EVERY_NS)
        };
        take(1).expect("forced");
        fail_forces_after(Some(0));
        let text = take(2).expect_err("the disk fails").to_string();
        fail_forces_after(None);
        assert!(text.contains("forcing to the disk"), "{text}");
        assert!(take(3).is_err(), "nobody knows what is on the disk");
        let rows = LossesReader::open(&run.table(Table::Losses)).and_then(LossesReader::read_all);
        let counts: Vec<i64> = rows.expect("whole").iter().map(|row| row.count).collect();
        assert_eq!(counts, [1, 1]);
    }
}
