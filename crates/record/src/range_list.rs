//! Writes what became of each range of triggers at one unit, as a table, while the run goes on.
//!
//! ```text
//!  RangeRecord, RangeRecord, … ─► waiting ─ 1024 of them, or 2 s old ─► a batch of ranges-UNIT.arrows, whole on file
//! ```
//! The table of a readout unit says what it sent to which builder unit and what of it was acknowledged, that of a builder unit what it has
//! on file of which readout unit. `verify` holds one against the other, and both against the tables of events.
//!
//! The list is bounded. When it is full, a row says so; from there on ranges are joined, one row for each pair of units, attempt and fate,
//! and those rows are written at the end of the run. So the rows always add up to what the ledger has.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thalweg_data::RangeRecord;

use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::ipc::columns::Columns;
use crate::ipc::file::{TableFile, TableSummary};
use crate::loss_row::LIST_FULL;
use crate::settings::{Compression, Sync};
use crate::table::Table;

/// Records that make a batch.
const BATCH_RECORDS: usize = 1024;
/// Records are on file at this age, nanoseconds.
const MOST_AGE_NS: u64 = 2_000_000_000;
/// Room for the rows at the end of the run: one for each pair of units, attempt and fate.
const LAST_ROWS_BYTES: usize = 64 << 10;

/// How much a list of ranges may hold, but for the rows at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeBounds {
    /// Most rows.
    pub rows: u64,
    /// Most bytes on file.
    pub bytes: u64,
}

impl Default for RangeBounds {
    fn default() -> RangeBounds {
        RangeBounds { rows: 2_000_000, bytes: 256 << 20 }
    }
}

/// A readout unit, as a list of ranges names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadoutName {
    /// Its name.
    pub name: String,
    /// The numbers of its boards.
    pub boards: Range<u16>,
}

/// The units of a run by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitNames {
    /// Readout units.
    pub readouts: Vec<ReadoutName>,
    /// Builder units.
    pub builders: Vec<String>,
}

/// The list of one unit's ranges, and its file.
#[derive(Debug)]
pub struct RangeList {
    directory: RunDirectory,
    file: TableFile,
    columns: Columns,
    sync: Sync,
    bounds: RangeBounds,
    /// Records that are not on file yet, and since when.
    waiting: Vec<RangeRecord>,
    since_ns: u64,
    /// What found no space; `None` while everything did.
    joined: Option<Vec<RangeRecord>>,
}

impl RangeList {
    /// Makes the table of a unit in a run's directory, and reserves space for its last rows.
    ///
    /// # Errors
    /// When the file exists already or cannot be made, or the disk has no space.
    pub fn create(
        directory: &RunDirectory,
        unit: &str,
        names: &UnitNames,
        sync: Sync,
        bounds: RangeBounds,
    ) -> Result<RangeList, RecordError> {
        let path = directory.ranges_of(unit);
        let readouts = serde_json::to_string(&names.readouts).unwrap_or_default();
        let builders = serde_json::to_string(&names.builders).unwrap_or_default();
        let metadata = [("unit", unit), ("readouts", &readouts), ("builders", &builders)];
        let file = TableFile::create(&path, Table::Ranges, &metadata)?;
        directory.reserve_rows(&path, LAST_ROWS_BYTES)?;
        Ok(RangeList {
            directory: directory.clone(),
            file,
            columns: Columns::new(Table::Ranges),
            sync,
            bounds,
            waiting: Vec::new(),
            since_ns: 0,
            joined: None,
        })
    }

    /// Takes records at `now_ns` since run start, and writes what waits when it is time. Leaves the list empty.
    ///
    /// # Errors
    /// When the disk is full or has failed, or somebody has removed, moved or cut the file: the list counts as full from there.
    pub fn take(&mut self, records: &mut Vec<RangeRecord>, now_ns: u64) -> Result<(), RecordError> {
        if self.waiting.is_empty() {
            self.since_ns = now_ns;
        }
        match &mut self.joined {
            Some(joined) => records.drain(..).for_each(|record| record.join_to(joined)),
            None => self.waiting.append(records),
        }
        let is_old = now_ns.saturating_sub(self.since_ns) >= MOST_AGE_NS;
        if self.waiting.is_empty() || self.waiting.len() < BATCH_RECORDS && !is_old {
            return Ok(());
        }
        self.write_waiting()
    }

    /// Joins what found no space before the list could take it; from here on it is full.
    ///
    /// # Errors
    /// When what was taken before cannot be written.
    pub fn take_joined(&mut self, joined: &mut Vec<RangeRecord>) -> Result<(), RecordError> {
        let written = if self.joined.is_none() { self.close_list() } else { Ok(()) };
        let into = self.joined.get_or_insert_default();
        joined.drain(..).for_each(|record| record.join_to(into));
        written
    }

    /// Writes what is left, and forces the table to the disk. Of a full disk it takes the space that was reserved.
    ///
    /// # Errors
    /// When something of it cannot be written.
    pub fn finish(&mut self) -> Result<(), RecordError> {
        let path = self.file.path().to_owned();
        if let Err(error) = self.write_waiting() {
            tracing::warn!("{error}; the rest of the ranges is joined");
        }
        if let Some(joined) = self.joined.take() {
            let written = match self.write(&joined) {
                Err(error) if error.is_full() => {
                    self.directory.release_rows(&path);
                    self.write(&joined)
                }
                written => written,
            };
            self.joined = Some(joined);
            written?;
        }
        self.directory.release_rows(&path);
        self.file.sync()
    }

    /// Returns a summary of what the file holds.
    pub fn summary(&self) -> TableSummary {
        self.file.summary()
    }

    /// Writes what waits, as far as there is space; joins the rest.
    fn write_waiting(&mut self) -> Result<(), RecordError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let left = self.bounds.rows.saturating_sub(self.file.rows() + 1);
        let is_full = self.waiting.len() as u64 > left || self.file.summary().bytes >= self.bounds.bytes;
        if is_full {
            return self.close_list();
        }
        let records = std::mem::take(&mut self.waiting);
        let written = self.write(&records);
        if written.is_err() {
            self.join(records);
        }
        // Rows that a disk could not be forced to take are visible all the same: joined, they would count twice.
        written.and_then(|()| self.force())
    }

    /// Says in the table that it is full, and joins what waits.
    fn close_list(&mut self) -> Result<(), RecordError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.join(waiting);
        self.columns.clear();
        push_end_of_list(&mut self.columns);
        self.commit().and_then(|()| self.force())
    }

    fn join(&mut self, records: Vec<RangeRecord>) {
        let joined = self.joined.get_or_insert_default();
        records.into_iter().for_each(|record| record.join_to(joined));
    }

    fn write(&mut self, records: &[RangeRecord]) -> Result<(), RecordError> {
        self.columns.clear();
        records.iter().for_each(|record| push(record, &mut self.columns));
        self.commit()
    }

    /// Writes the columns as one batch.
    fn commit(&mut self) -> Result<(), RecordError> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        let path: PathBuf = self.file.path().to_owned();
        if let Some(loss) = self.file.loss() {
            return Err(RecordError::Missing { path, found: loss.message(&self.file) });
        }
        self.file.stage(&self.columns, Compression::None)?;
        self.file.commit()
    }

    /// Forces the table to the disk where that is asked for.
    fn force(&mut self) -> Result<(), RecordError> {
        if self.sync == Sync::None { Ok(()) } else { self.file.sync() }
    }
}

fn push(record: &RangeRecord, columns: &mut Columns) {
    let RangeRecord { first, last, ranges, attempt, epoch, readout, builder, fate, sum } = record;
    columns.push(0, first.to_le_bytes());
    columns.push(1, last.to_le_bytes());
    columns.push(2, ranges.to_le_bytes());
    columns.push(3, [*attempt]);
    columns.push(4, epoch.to_le_bytes());
    columns.push_optional(5, readout.map(|readout| readout.0.to_le_bytes()));
    columns.push(6, builder.0.to_le_bytes());
    columns.push_text(7, fate.word());
    for (column, count) in (8..).zip([sum.events, sum.fragments, sum.bytes, sum.digest]) {
        columns.push(column, count.to_le_bytes());
    }
    columns.end_row();
}

/// The row that is no range, and says that ranges are joined from here on.
fn push_end_of_list(columns: &mut Columns) {
    for column in [0, 1, 2, 4, 8, 9, 10, 11] {
        columns.push(column, 0u64.to_le_bytes());
    }
    columns.push(3, [0]);
    columns.push_optional(5, None::<[u8; 2]>);
    columns.push(6, u16::MAX.to_le_bytes());
    columns.push_text(7, LIST_FULL);
    columns.end_row();
}
