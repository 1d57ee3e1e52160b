//! A run whose writer was killed, or whose files were cut, put in order: whole batches stay, all else goes.
//!
//! ```text
//!  schema ┊ batch ┊ batch ┊ damaged or cut …   ──►   schema ┊ batch ┊ batch ┊ end-of-stream
//!  ledger.bin ─────────────────────────────────►   run.json, state "recovered"
//! ```
//! Batches of extras and waveforms whose hits are gone go, too: they were written before their hits. Events and
//! fragments are kept as far as both are there.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thalweg_data::{HitEvents, Ledger, Stage, Unit};

use super::coincidences::CoincidencesReader;
use super::events::{EventRows, open_table};
use super::table_reader::{BatchHead, TableReader};
use crate::directory::{EventFiles, RunDirectory};
use crate::error::RecordError;
use crate::ipc::END_OF_STREAM;
use crate::ipc::file::TableSummary;
use crate::ipc::message::opening;
use crate::removed::RemovedTables;
use crate::run_record::{EntriesRecord, LedgerRecord, RunRecord, RunRecordState};
use crate::table::Table;

/// What [`recover`] did.
#[derive(Clone, Debug, Serialize)]
pub struct RecoverReport {
    /// The run.
    pub run_directory: PathBuf,
    /// Whether anything had to be changed.
    pub changed: bool,
    /// Each file.
    pub tables: Vec<RecoveredTable>,
    /// Tables that the policy on old runs has removed, and that are not there.
    pub removed: Option<RemovedTables>,
    /// Hits on file now.
    pub hits_on_file: u64,
    /// Hits that had come to the recording when the run ended, as far as its books tell.
    pub hits_came: Option<u64>,
    /// Hits that had come and are not on file.
    pub hits_not_on_file: Option<u64>,
    /// Events of hits on file now.
    pub coincidences_on_file: u64,
    /// Events of hits that had come to the recording when the run ended, as far as its books tell.
    pub coincidences_came: Option<u64>,
    /// Events of hits that had come and are not on file.
    pub coincidences_not_on_file: Option<u64>,
    /// Events on file now.
    pub events_on_file: u64,
    /// Events that had come to the recording when the run ended, as far as its books tell.
    pub events_came: Option<u64>,
    /// Events that had come and are not on file.
    pub events_not_on_file: Option<u64>,
}

/// What [`recover`] did to one file.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveredTable {
    /// What it holds now.
    #[serde(flatten)]
    pub summary: TableSummary,
    /// Bytes taken away behind the last whole batch.
    pub bytes_removed: u64,
    /// Why; empty when nothing was wrong.
    pub reason: String,
}

/// What must be there for a batch to stay.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// Nothing but the batch.
    None,
    /// The hits that its rows belong to, of so many.
    Hits(u64),
    /// The fragments that its events name, of so many.
    Fragments(u64),
    /// The events that its fragments belong to: they name so many.
    Rows(u64),
}

/// Puts a run's directory in order. Does nothing to a run that is whole. Never call it on a run that is being written.
///
/// # Errors
/// When it is no run's directory, or the disk refuses.
pub fn recover(path: &Path) -> Result<RecoverReport, RecordError> {
    let directory = RunDirectory::open(path)?;
    let mut tables = Vec::new();
    let mut hits_on_file = None;
    for table in Table::OF_HITS {
        let file = directory.table(table);
        if file.exists() {
            let bound = match hits_on_file {
                Some(hits) if table != Table::Statistics => Bound::Hits(hits),
                _ => Bound::None,
            };
            let recovered = recover_file(&file, table, bound)?;
            if table == Table::Hits {
                hits_on_file = Some(recovered.summary.rows);
            }
            tables.push(recovered);
        }
    }
    for file in directory.raw_files()? {
        tables.push(recover_file(&file, Table::Raw, Bound::None)?);
    }
    let coincidences = directory.table(Table::Coincidences);
    let mut coincidences_on_file = 0;
    if coincidences.exists() {
        tables.push(recover_file(&coincidences, Table::Coincidences, Bound::None)?);
        coincidences_on_file = count_coincidences(&coincidences)?;
    }
    for files in directory.event_files()? {
        tables.extend(recover_events(&files)?);
    }
    let removed = RemovedTables::of(&directory);
    if tables.is_empty() && removed.is_none() {
        let found = "no table of a run is there: nothing to recover".to_owned();
        return Err(RecordError::Missing { path: path.to_owned(), found });
    }
    let events = tables.iter().filter(|table| table.summary.table == Table::Events.word());
    let mut report = RecoverReport {
        events_on_file: events.map(|table| table.summary.rows).sum(),
        run_directory: path.to_owned(),
        changed: tables.iter().any(|table| !table.reason.is_empty()),
        tables,
        removed,
        hits_on_file: hits_on_file.unwrap_or(0),
        hits_came: None,
        hits_not_on_file: None,
        coincidences_on_file,
        coincidences_came: None,
        coincidences_not_on_file: None,
        events_came: None,
        events_not_on_file: None,
    };
    rewrite_record(&directory, &mut report)?;
    Ok(report)
}

/// Cuts a pair of files where both are whole: events first, by the whole fragments that there are, then fragments
/// behind those that these events name.
fn recover_events(files: &EventFiles) -> Result<Vec<RecoveredTable>, RecordError> {
    let mut recovered = Vec::new();
    let mut named = Bound::None;
    if files.events.exists() {
        let bound = match files.fragments.exists() {
            true => Bound::Fragments(whole_rows(&files.fragments)?),
            false => Bound::None,
        };
        recovered.push(recover_file(&files.events, Table::Events, bound)?);
        named = Bound::Rows(named_fragments(&files.events)?);
    }
    if files.fragments.exists() {
        recovered.push(recover_file(&files.fragments, Table::Fragments, named)?);
    }
    Ok(recovered)
}

/// Events of a whole table of coincidences.
fn count_coincidences(path: &Path) -> Result<u64, RecordError> {
    let (mut reader, mut events) = (CoincidencesReader::open(path)?, HitEvents::default());
    let mut count = 0;
    while reader.next_batch(&mut events)? {
        count += events.events.len() as u64;
    }
    Ok(count)
}

/// Rows of the whole batches of a file.
fn whole_rows(path: &Path) -> Result<u64, RecordError> {
    let mut reader = match TableReader::open(path) {
        Ok(reader) => reader,
        Err(RecordError::Damaged { .. }) => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut rows = 0;
    loop {
        match whole_batch(&mut reader, Bound::None, rows) {
            Ok(Some(more)) => rows += more,
            Ok(None) | Err(RecordError::Damaged { .. }) => return Ok(rows),
            Err(error) => return Err(error),
        }
    }
}

/// Where the fragments end that the events of a whole file name.
fn named_fragments(path: &Path) -> Result<u64, RecordError> {
    let (mut reader, mut end) = (open_table(path, Table::Events)?, 0);
    while let Some(head) = reader.next_batch()? {
        end = end.max(fragments_end(&reader, &head)?);
    }
    Ok(end)
}

fn fragments_end(reader: &TableReader<File>, head: &BatchHead) -> Result<u64, RecordError> {
    let rows = EventRows::load(reader, head)?.rows;
    let ends = rows.iter().map(|row| row.first_fragment.saturating_add(u64::from(row.fragments)));
    Ok(ends.max().unwrap_or(0))
}

/// Cuts one file behind its last whole batch that is within `bound`.
fn recover_file(path: &Path, table: Table, bound: Bound) -> Result<RecoveredTable, RecordError> {
    let failed = |action| move |cause| RecordError::io(path, action, cause);
    let length = std::fs::metadata(path).map_err(failed("asking for its length"))?.len();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut summary = TableSummary { table: table.word().to_owned(), file: name, ..TableSummary::default() };
    let mut reader = match TableReader::open(path) {
        Ok(reader) => reader,
        Err(error @ RecordError::Damaged { .. }) => {
            return write_empty(path, table, length, error.to_string(), summary);
        }
        Err(error) => return Err(error),
    };
    let (mut end, mut reason) = (reader.position(), String::new());
    loop {
        match whole_batch(&mut reader, bound, summary.rows) {
            Ok(None) => break,
            Ok(Some(rows)) => {
                summary.batches += 1;
                summary.rows += rows;
                end = reader.position();
            }
            Err(error @ RecordError::Damaged { .. }) => {
                reason = error.to_string();
                break;
            }
            Err(error) => return Err(error),
        }
    }
    summary.bytes = end + END_OF_STREAM.len() as u64;
    if reason.is_empty() && length > summary.bytes {
        reason = "bytes behind the end of the stream: a batch that was being written".to_owned();
    }
    if !reason.is_empty() {
        let file = OpenOptions::new().write(true).open(path).map_err(failed("opening for repair"))?;
        finish_at(&file, end).map_err(failed("repairing"))?;
    }
    Ok(RecoveredTable { bytes_removed: length.saturating_sub(summary.bytes), summary, reason })
}

/// Rows of the next batch when it is whole and within `bound`; `before` rows lie in front of it.
fn whole_batch(
    reader: &mut TableReader<File>,
    bound: Bound,
    before: u64,
) -> Result<Option<u64>, RecordError> {
    let Some(head) = reader.next_batch()? else { return Ok(None) };
    reader.verify_checksum(&head)?;
    let rows = head.rows() as u64;
    let gone = match bound {
        Bound::Hits(hits) if matches!(reader.table(), Table::Extras | Table::Waveforms) => {
            let owners = reader.numbers::<8>(&head, 0)?;
            let gone = owners.iter().any(|owner| u64::from_le_bytes(*owner) >= hits);
            gone.then_some("rows whose hits were never written")
        }
        Bound::Fragments(fragments) => {
            let gone = fragments_end(reader, &head)? > fragments;
            gone.then_some("events whose fragments are not there")
        }
        Bound::Rows(named) => (before + rows > named).then_some("fragments whose events were never written"),
        Bound::Hits(_) | Bound::None => None,
    };
    match gone {
        Some(words) => Err(reader.damaged(head.offset(), words)),
        None => Ok(Some(rows)),
    }
}

fn finish_at(file: &File, end: u64) -> std::io::Result<()> {
    // First the marker, then the cut: whenever this stops, the file is a whole stream.
    file.write_all_at(&END_OF_STREAM, end)?;
    file.set_len(end + END_OF_STREAM.len() as u64)?;
    file.sync_all()
}

/// A file without a whole schema held no row: it becomes an empty table.
fn write_empty(
    path: &Path,
    table: Table,
    length: u64,
    reason: String,
    mut summary: TableSummary,
) -> Result<RecoveredTable, RecordError> {
    let schema = opening(table, &[]);
    // Bytes of another program's table are left alone; what this program cuts short is shorter than a schema, or
    // begins with one that a crash has damaged.
    if length > schema.len() as u64 + 4096 {
        return Err(RecordError::Damaged { path: path.to_owned(), offset: 0, found: reason });
    }
    let failed = |cause| RecordError::io(path, "repairing", cause);
    let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
    file.write_all_at(&schema, 0).map_err(failed)?;
    finish_at(&file, schema.len() as u64).map_err(failed)?;
    summary.bytes = (schema.len() + END_OF_STREAM.len()) as u64;
    Ok(RecoveredTable { bytes_removed: length, summary, reason })
}

fn rewrite_record(directory: &RunDirectory, report: &mut RecoverReport) -> Result<(), RecordError> {
    let known = RunRecord::read(&directory.run_record());
    let complete = known.as_ref().is_ok_and(|record| record.state != RunRecordState::Running);
    if complete && !report.changed {
        return Ok(());
    }
    let mut record = known.unwrap_or_else(|_| RunRecord {
        format: crate::run_record::FORMAT,
        number: directory.number(),
        remarks: vec!["run.json was missing or damaged".to_owned()],
        ..RunRecord::default()
    });
    let books = Ledger::read_file(&directory.ledger()).ok();
    let tables = report.tables.iter().map(|table| table.summary.clone()).collect();
    let (stopped, ledger) = (std::mem::take(&mut record.stopped), record.ledger.take());
    record.stop(RunRecordState::Recovered, tables, books.as_ref());
    // When it was recovered is not when it stopped; nobody knows the latter of a killed run.
    record.stopped = stopped;
    record.ledger = record.ledger.or(ledger);
    if let Some(books) = &record.ledger {
        report.compare(books);
    }
    record.remarks.push(remark(report));
    report.changed = true;
    record.write(directory)
}

impl RecoverReport {
    /// Tells what had come to the recording and is not on file. What was left out on request had not come to it.
    fn compare(&mut self, books: &LedgerRecord) {
        let wanted = |row: &EntriesRecord| row.input - row.filtered.min(row.input);
        self.hits_came = books.total(Stage::Record, Unit::Hits, wanted);
        self.events_came = books.total_events(Table::Events, wanted);
        self.coincidences_came = books.total_events(Table::Coincidences, wanted);
        let rows_removed = |table| self.removed.as_ref().map_or(0, |removed| removed.rows_of(table));
        let missing = |came: Option<u64>, on_file: u64, table| {
            came.map(|came| came.saturating_sub(on_file).saturating_sub(rows_removed(table)))
        };
        self.hits_not_on_file = missing(self.hits_came, self.hits_on_file, Table::Hits);
        self.events_not_on_file = missing(self.events_came, self.events_on_file, Table::Events);
        // Its rows are hits: how many coincidences were removed is not known any more.
        if !self.removed.as_ref().is_some_and(|removed| removed.has(Table::Coincidences)) {
            self.coincidences_not_on_file =
                missing(self.coincidences_came, self.coincidences_on_file, Table::Coincidences);
        }
    }
}

fn remark(report: &RecoverReport) -> String {
    let removed: u64 = report.tables.iter().map(|table| table.bytes_removed).sum();
    let of = |on_file: u64, missing: Option<u64>, what: &str| match missing {
        Some(missing) => {
            format!(
                "{on_file} {what} on file, {missing} {what} that had come to the recording are not on file"
            )
        }
        None => format!("{on_file} {what} on file, how many {what} were on their way is not known"),
    };
    let has = |table: Table| report.tables.iter().any(|found| found.summary.table == table.word());
    let mut words = Vec::new();
    if has(Table::Hits) || !has(Table::Events) {
        words.push(of(report.hits_on_file, report.hits_not_on_file, "hits"));
    }
    if has(Table::Events) {
        words.push(of(report.events_on_file, report.events_not_on_file, "events"));
    }
    if has(Table::Coincidences) {
        words.push(of(report.coincidences_on_file, report.coincidences_not_on_file, "coincidences"));
    }
    let words = words.join("; ");
    format!("recovered: {words}; {removed} bytes of unfinished batches removed")
}
