//! The tables of one run removed: first it is written down, then they go.
//!
//! ```text
//!  run.json: ended? ─► files: recorded tables? ─► run.json + note ─► files removed
//! ```
//! Killed anywhere, it leaves a run that says what has become of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::KeepRule;
use crate::directory::RunDirectory;
use crate::directory_lock::DirectoryLock;
use crate::error::RecordError;
use crate::ipc::file::TableSummary;
use crate::read::TableReader;
use crate::removed::RemovedTables;
use crate::run_record::{RunRecord, RunRecordState, utc_text};
use crate::table::Table;
use crate::table_part::{KeptPart, TablePart, other_owner, part_elsewhere, remove_if_empty};

/// What came of it.
#[derive(Debug)]
pub(super) enum Removal {
    /// Files are gone.
    Removed {
        /// These.
        removed: RemovedTables,
        /// Why others are not, where the system refused.
        failed: Option<RecordError>,
    },
    /// None of its files is a table that the run has recorded, whatever their names are.
    NoTables,
    /// The run is left as it is, for this reason.
    Kept(String),
}

/// Removes the tables of a run that has ended, unless `rule` keeps them. `reserve` is a file that takes the note when the disk is full.
///
/// # Errors
/// When the record cannot be read, the note not written, or no file removed.
pub(super) fn remove_tables(
    run: &RunDirectory,
    why: &str,
    reserve: &Path,
    rule: &KeepRule,
) -> Result<Removal, RecordError> {
    let lock = DirectoryLock::exclusive(run.path());
    let Some(_lock) = lock.map_err(|cause| RecordError::io(run.path(), "locking", cause))? else {
        return Ok(Removal::Kept("a program has it open".to_owned()));
    };
    let mut record = RunRecord::read(&run.run_record())?;
    if record.number != run.number() {
        return Ok(Removal::Kept("its record has another number".to_owned()));
    }
    if record.state == RunRecordState::Running {
        return Ok(Removal::Kept(
            "its record says that it is being written; `thalweg recover` ends that of a killed run"
                .to_owned(),
        ));
    }
    let tables = recorded_tables(run, &record)?;
    if tables.is_empty() {
        return Ok(Removal::NoTables);
    }
    if let Some(owner) = run.files()?.iter().find_map(|path| other_owner(path)) {
        return Ok(Removal::Kept(format!("it is a copy, whose links lead to files of {}", owner.display())));
    }
    let summaries: Vec<TableSummary> = tables.iter().map(|(_, summary)| summary.clone()).collect();
    if let Some(why) = rule.reason_to_keep(run.path(), &summaries) {
        return Ok(Removal::Kept(why));
    }
    // First what is least: it goes with the tables that it was kept of.
    let tables = [kept_files(run, &record)?, tables].concat();
    let summaries: Vec<TableSummary> = tables.iter().map(|(_, summary)| summary.clone()).collect();
    let first =
        || RemovedTables { at: utc_text(SystemTime::now()), why: why.to_owned(), ..RemovedTables::default() };
    // Files that an earlier try could not remove are in the note already.
    if record.removed.get_or_insert_with(first).add(&summaries) {
        match record.write(run) {
            Err(error) if error.is_full() => record.write_within(reserve, run)?,
            written => written?,
        }
    }
    let (mut gone, mut failed) = (Vec::new(), None);
    for (path, summary) in tables {
        match remove_table_file(&path) {
            Ok(()) => gone.push(summary),
            Err(cause) => failed = failed.or(Some(RecordError::io(&path, "removing", cause))),
        }
    }
    match failed {
        Some(failed) if gone.is_empty() => Err(failed),
        failed => {
            let mut removed = RemovedTables { tables: Vec::new(), ..record.removed.unwrap_or_default() };
            removed.add(&gone);
            Ok(Removal::Removed { removed, failed })
        }
    }
}

/// The files on which the tables of a run lie, what belongs to hits in front of the hits, so that what is left of an interrupted
/// removal agrees with itself. No links, and nothing that only has such a name.
fn recorded_tables(
    run: &RunDirectory,
    record: &RunRecord,
) -> Result<Vec<(PathBuf, TableSummary)>, RecordError> {
    let mut tables = Vec::new();
    for path in run.files()? {
        let Some(TablePart { table, first, part, data, .. }) = TablePart::at(&path) else { continue };
        let bytes = data.len();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let removed = record.removed.iter().flat_map(|removed| &removed.tables);
        let known = record.tables.iter().chain(removed).find(|summary| summary.file == first);
        let summary = match known {
            Some(known) => {
                let crc32c = known.crc32c_of(part).map(str::to_owned).into_iter().collect();
                // Its rows are entered with the first file.
                let rows_of = if part == 0 { known.clone() } else { TableSummary::default() };
                Some(TableSummary { file: name, bytes, table: known.table.clone(), crc32c, ..rows_of })
            }
            // A run that failed before it could say what it holds.
            None if record.tables.is_empty() && part == 0 => {
                counted(&path, table, TableSummary { file: name, bytes, ..TableSummary::default() })
            }
            // What is left of a table whose first file was gone when the run was recovered.
            None if record.missing.iter().any(|missing| missing.file == first) => {
                let table = table.word().to_owned();
                Some(TableSummary { table, file: name, bytes, ..TableSummary::default() })
            }
            None => None,
        };
        tables.extend(summary.map(|summary| (table, path, summary)));
    }
    tables.sort_by_key(|(table, ..)| *table == Table::Hits);
    Ok(tables.into_iter().map(|(_, path, summary)| (path, summary)).collect())
}

/// What `recover` has kept of damaged tables that the run has recorded.
fn kept_files(run: &RunDirectory, record: &RunRecord) -> Result<Vec<(PathBuf, TableSummary)>, RecordError> {
    let kept = |path: PathBuf| {
        let KeptPart { first, bytes } = KeptPart::at(&path)?;
        let known = record.tables.iter().find(|summary| summary.file == first)?;
        let file = path.file_name()?.to_string_lossy().into_owned();
        Some((path, TableSummary { table: known.table.clone(), file, bytes, ..TableSummary::default() }))
    };
    Ok(run.files()?.into_iter().filter_map(kept).collect())
}

/// Removes a table's file; of a part on another disk the file, its link, and its directory when nothing else is in it.
fn remove_table_file(path: &Path) -> std::io::Result<()> {
    if let Some(part) = part_elsewhere(path) {
        match fs::remove_file(&part) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        if let Some(directory) = part.parent() {
            remove_if_empty(directory);
        }
    }
    fs::remove_file(path)
}

/// The rows of a file that nobody has counted, when it is such a table.
fn counted(path: &Path, table: Table, mut summary: TableSummary) -> Option<TableSummary> {
    let mut reader = TableReader::open(path).ok().filter(|reader| reader.table() == table)?;
    table.word().clone_into(&mut summary.table);
    while let Ok(Some(head)) = reader.next_batch() {
        summary.rows += head.rows() as u64;
        summary.batches += 1;
    }
    Some(summary)
}
