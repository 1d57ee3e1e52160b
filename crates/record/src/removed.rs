//! What is left in `run.json` of tables that the policy on old runs has removed: which, when, why.
//!
//! ```text
//!  run.json "removed" ─ of these, files that are gone ─► verify · inspect · recover · replay · page
//! ```
//! The note is written before the first file goes. Where a removal was interrupted, what is still on file counts as there.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::ipc::file::TableSummary;
use crate::run_record::RunRecord;
use crate::table::Table;
use crate::table_part::kept_of;

/// Tables that were removed; part of `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemovedTables {
    /// When, UTC.
    pub at: String,
    /// Which rule asked for it, and what it had found.
    pub why: String,
    /// Bytes of their files.
    pub bytes: u64,
    /// Rows of all of them.
    pub rows: u64,
    /// Each file as it was.
    pub tables: Vec<TableSummary>,
}

impl RemovedTables {
    /// Adds files that are going to be removed. Whether anything has changed.
    pub(crate) fn add(&mut self, tables: &[TableSummary]) -> bool {
        let new: Vec<_> =
            tables.iter().filter(|table| self.rows_in(&table.file).is_none()).cloned().collect();
        let has_new = !new.is_empty();
        self.tables.extend(new);
        self.sum_up();
        has_new
    }

    /// Of these, the tables whose files are gone, with what was kept of them; `None` when no table is.
    pub(crate) fn gone(mut self, directory: &RunDirectory) -> Result<Option<RemovedTables>, RecordError> {
        let on_file = directory.files()?;
        let is_on_file =
            |name: &str| on_file.iter().any(|path| path.file_name().is_some_and(|found| found == name));
        self.tables.retain(|table| !is_on_file(&table.file));
        self.sum_up();
        let has_tables = self.of_tables().next().is_some();
        Ok(has_tables.then_some(self))
    }

    /// Of the run in this directory, what is gone. What cannot be read says nothing.
    pub fn of(directory: &RunDirectory) -> Option<RemovedTables> {
        RunRecord::read(&directory.run_record()).ok()?.removed?.gone(directory).ok()?
    }

    /// Refuses what needs a table of the run at `path` that was removed.
    ///
    /// # Errors
    /// When it was, with when and why.
    pub fn refuse(path: &Path, table: Table) -> Result<(), RecordError> {
        match RunDirectory::open(path).ok().as_ref().and_then(RemovedTables::of) {
            Some(removed) if removed.has(table) => {
                let found = format!("the table `{}` is gone: {removed}", table.word());
                Err(RecordError::Missing { path: path.to_owned(), found })
            }
            _ => Ok(()),
        }
    }

    /// Whether files of this table are among them.
    pub fn has(&self, table: Table) -> bool {
        self.of_table(table).next().is_some()
    }

    /// Whether files of the table are among them of which this is one.
    pub(crate) fn has_table_of(&self, said: &TableSummary) -> bool {
        self.of_tables().any(|summary| summary.table == said.table)
    }

    /// Rows of the file of this name, if it is among them.
    pub fn rows_in(&self, file: &str) -> Option<u64> {
        self.tables.iter().find(|table| table.file == file).map(|table| table.rows)
    }

    /// Rows of this table.
    pub fn rows_of(&self, table: Table) -> u64 {
        self.of_table(table).map(|summary| summary.rows).fold(0, u64::saturating_add)
    }

    fn of_table(&self, table: Table) -> impl Iterator<Item = &TableSummary> {
        self.of_tables().filter(move |summary| summary.table == table.word())
    }

    /// Without what `recover` had kept of a damaged table: it goes first, and the table may still be there.
    fn of_tables(&self) -> impl Iterator<Item = &TableSummary> {
        self.tables.iter().filter(|summary| kept_of(&summary.file).is_none())
    }

    fn sum_up(&mut self) {
        // Of a record that somebody has edited, sums may be anything.
        let sum = |of: fn(&TableSummary) -> u64| self.tables.iter().map(of).fold(0, u64::saturating_add);
        (self.bytes, self.rows) = (sum(|table| table.bytes), sum(|table| table.rows));
    }
}

impl std::fmt::Display for RemovedTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RemovedTables { at, why, bytes, rows, tables } = self;
        let files: Vec<&str> = tables.iter().map(|table| table.file.as_str()).collect();
        let files = files.join(", ");
        write!(f, "{files} ({bytes} bytes, {rows} rows) removed by [record.retention] at {at}: {why}")
    }
}
