//! Values of slow control as a table, while the run goes on.
//!
//! ```text
//!  Reading, Reading, … ─► waiting, bounded ─ a second old ─► a batch of series.arrows, whole on file
//! ```
//! A register or parameter that could not be read has a row without a value: a gap is seen, and when it began. Readings that find no space,
//! because the disk does not take the rows before them, are counted, and the count is written at the end of the run.

use serde::{Deserialize, Serialize};

use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::ipc::columns::Columns;
use crate::ipc::file::{TableFile, TableSummary};
use crate::settings::{Compression, Sync};
use crate::table::Table;

/// Readings that wait at most while the disk takes none.
const MOST_WAITING: usize = 16_384;
/// Readings are on file at this age, nanoseconds.
const MOST_AGE_NS: u64 = 1_000_000_000;

/// The subject of a series; one entry each in the metadata of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeriesName {
    /// Its name, as in the rows.
    pub name: String,
    /// The device or source that has the register or parameter.
    pub of: String,
    /// The register or parameter.
    pub path: String,
    /// The unit of its values.
    pub unit: String,
}

/// One value at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// When it was read, nanoseconds since run start.
    pub time_ns: u64,
    /// The name of the series.
    pub series: String,
    /// The reading, in the unit of the series; `None` where it could not be read.
    pub value: Option<f64>,
}

/// The table `series` of a run, and its file.
#[derive(Debug)]
pub struct SeriesList {
    file: TableFile,
    columns: Columns,
    sync: Sync,
    waiting: Vec<Reading>,
    /// Readings that found no space.
    not_kept: u64,
}

impl SeriesList {
    /// Makes the table in a run's directory.
    ///
    /// # Errors
    /// When the file exists already or cannot be made.
    pub fn create(
        directory: &RunDirectory,
        names: &[SeriesName],
        sync: Sync,
    ) -> Result<SeriesList, RecordError> {
        let names = serde_json::to_string(names).unwrap_or_default();
        let path = directory.table(Table::Series);
        Ok(SeriesList {
            file: TableFile::create(&path, Table::Series, &[("series", &names)])?,
            columns: Columns::new(Table::Series),
            sync,
            waiting: Vec::new(),
            not_kept: 0,
        })
    }

    /// Takes readings out of `readings`, oldest first.
    pub fn take(&mut self, readings: &mut Vec<Reading>) {
        let free = MOST_WAITING.saturating_sub(self.waiting.len()).min(readings.len());
        self.waiting.extend(readings.drain(..free));
        self.not_kept += readings.len() as u64;
        readings.clear();
    }

    /// Writes what has waited long enough at `now_ns` since run start.
    ///
    /// # Errors
    /// When the disk does not take it; then it goes on waiting.
    pub fn advance(&mut self, now_ns: u64) -> Result<(), RecordError> {
        let since = self.waiting.first().map(|reading| reading.time_ns);
        match since.is_some_and(|since| now_ns.saturating_sub(since) >= MOST_AGE_NS) {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Writes what is left, and forces the table to the disk.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn finish(&mut self) -> Result<(), RecordError> {
        self.write()?;
        self.file.sync()
    }

    /// Returns a summary of what the file holds.
    pub fn summary(&self) -> TableSummary {
        self.file.summary()
    }

    /// Readings that are not in the table: those that found no space, and those that the disk has not taken.
    pub fn not_kept(&self) -> u64 {
        self.not_kept + self.waiting.len() as u64
    }

    fn write(&mut self) -> Result<(), RecordError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if let Some(loss) = self.file.loss() {
            return Err(RecordError::Missing {
                path: self.file.path().to_owned(),
                found: loss.message(&self.file),
            });
        }
        self.columns.clear();
        for reading in &self.waiting {
            self.columns.push(0, reading.time_ns.to_le_bytes());
            self.columns.push_text(1, &reading.series);
            self.columns.push_optional(2, reading.value.map(f64::to_le_bytes));
            self.columns.end_row();
        }
        self.file.stage(&self.columns, Compression::None)?;
        self.file.commit()?;
        self.waiting.clear();
        if self.sync == Sync::None { Ok(()) } else { self.file.sync() }
    }
}
