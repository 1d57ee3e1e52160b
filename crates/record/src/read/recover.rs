//! A run whose writer was killed, or whose files are damaged, put in order: every whole batch stays, all else goes.
//!
//! ```text
//!  schema ┊ batch 0 ┊ batch 1 ┊ unfinished …      ──►  the same file, cut behind batch 1
//!  schema ┊ batch 0 ┊ ▒▒▒▒▒▒▒ ┊ batch 2 ┊ ▒▒▒▒    ──►  schema ┊ batch 0 ┊ batch 2, and the damaged file beside it
//!  ledger.bin, tables ────────────────────────────►  run.json, state "recovered", what is missing by time and rows
//! ```
//! Extras and waveforms whose hits are gone go, too. Events and fragments stay where both are there. Nothing that was ever
//! visible is removed from the disk: it stays under another name.

use std::path::{Path, PathBuf};

use serde::Serialize;
use thalweg_data::ledger::SLICED_HIT_BYTES;
use thalweg_data::{HitEvents, Ledger, LedgerSnapshot};

use super::coincidences::CoincidencesReader;
use super::events::{fragment_rows, open_table};
use super::raw::raw_arrivals;
use super::recover_table::DamagedTable;
use super::rewrite::{Replacement, clear_away};
use crate::directory::{EventFiles, RunDirectory};
use crate::error::RecordError;
use crate::ipc::file::TableSummary;
use crate::missing::MissingRows;
use crate::recorded_tables::{MissingFile, RecordedTables};
use crate::removed::RemovedTables;
use crate::run_record::{LedgerRecord, RunRecord, RunRecordState};
use crate::table::Table;
use crate::table_part::{foreign_target, other_owner};

/// What [`recover`] did.
#[derive(Clone, Debug, Serialize)]
pub struct RecoverReport {
    /// The run.
    pub run_directory: PathBuf,
    /// Whether anything had to be changed.
    pub changed: bool,
    /// Each file.
    pub tables: Vec<RecoveredTable>,
    /// Rows that were on file and are not any more, place by place.
    pub missing: Vec<MissingRows>,
    /// Tables that the policy on old runs has removed, and that are not there.
    pub removed: Option<RemovedTables>,
    /// Whether more may have come than the ledger says, and more of it be gone: it is of a moment before the program was killed.
    pub at_least: bool,
    /// Hits on file now.
    pub hits_on_file: u64,
    /// Hits that had come to the recording when the run ended, as far as its ledger says.
    pub hits_came: Option<u64>,
    /// Hits that had come and are not on file.
    pub hits_not_on_file: Option<u64>,
    /// Events of hits on file now.
    pub coincidences_on_file: u64,
    /// Events of hits that had come to the recording when the run ended, as far as its ledger says.
    pub coincidences_came: Option<u64>,
    /// Events of hits that had come and are not on file.
    pub coincidences_not_on_file: Option<u64>,
    /// Events on file now.
    pub events_on_file: u64,
    /// Events that had come to the recording when the run ended, as far as its ledger says.
    pub events_came: Option<u64>,
    /// Events that had come and are not on file.
    pub events_not_on_file: Option<u64>,
    /// Received bytes on file now, in tables `raw`.
    pub raw_bytes_on_file: u64,
    /// Received bytes that had come to the recording when the run ended, as far as its ledger says.
    pub raw_bytes_came: Option<u64>,
    /// Received bytes that had come and are not on file.
    pub raw_bytes_not_on_file: Option<u64>,
}

/// What [`recover`] did to one file.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveredTable {
    /// What it holds now.
    #[serde(flatten)]
    pub summary: TableSummary,
    /// Bytes of the file that are not in it any more.
    pub bytes_removed: u64,
    /// Why; empty when nothing was wrong.
    pub reason: String,
    /// The file that keeps what was replaced or cut off; empty when there is none: what was removed was never visible.
    pub backup: String,
}

/// Puts a run's directory in order. Does nothing to a run that is whole.
///
/// # Errors
/// When it is no run's directory, or another process has it open, or the disk refuses; the tables are as they were then, or
/// the next `recover` goes on.
pub fn recover(path: &Path) -> Result<RecoverReport, RecordError> {
    let directory = RunDirectory::open_exclusively(path)?;
    expect_own_files(&directory)?;
    let mut begun = Replacement::unfinished(&directory)?;
    begun.carry_out(&directory)?;
    begun.note_done(&directory)?;
    clear_away(&directory)?;
    let known = RunRecord::read(&directory.run_record());
    if known.as_ref().is_ok_and(|record| begun.is_in(record)) {
        begun = Replacement::default();
    }
    let removed = RemovedTables::of(&directory);
    let mut damaged = damaged_tables(&directory)?;
    if damaged.is_empty() && removed.is_none() && known.is_err() && !directory.ledger().exists() {
        let found = "no table of a run is there, and no run.json: nothing to recover".to_owned();
        return Err(RecordError::Missing { path: directory.path().to_owned(), found });
    }
    let said = recorded(known.as_ref().ok(), &directory, &begun)?;
    let sources = known.as_ref().map_or(&[][..], |record| &record.sources);
    let mut replacement = Replacement::default();
    for table in &mut damaged {
        table.compare(&said);
        table.write_beside(sources, &mut replacement)?;
    }
    if !replacement.files.is_empty() {
        replacement.remarks = Some(known.as_ref().map_or(0, |record| record.remarks.len()));
        replacement.behind(&begun).write_down(&directory)?;
        replacement.carry_out(&directory)?;
    }
    let tables = damaged.into_iter().map(|table| table.settle(&mut replacement.missing));
    let tables = tables.collect::<Result<Vec<RecoveredTable>, _>>()?;
    let mut report = RecoverReport::of(&directory, tables, removed)?;
    report.takes_over(&begun);
    let mut gone = gone_tables(&said);
    if known.as_ref().map_or(true, |record| record.state == RunRecordState::Running) {
        let kept = known.as_ref().map_or(&[][..], |record| &record.kept_tables);
        gone.extend(gone_of_killed(kept, &said, &directory.ledger()));
    }
    report.changed |= !gone.is_empty();
    report.missing = [begun.missing, replacement.missing, gone].concat();
    rewrite_record(&directory, known, &mut report)?;
    Replacement::forget(&directory);
    directory.release_reserved();
    Ok(report)
}

/// Refuses a run whose tables are links to files that are not its own: what is cut or put away would be theirs.
fn expect_own_files(directory: &RunDirectory) -> Result<(), RecordError> {
    for path in directory.files()? {
        let found = if let Some(owner) = other_owner(&path) {
            format!(
                "this run is a copy, and the link leads to a file of {}; recover that run, or copy it with the files in place of \
                 the links (`cp -rL`)",
                owner.display()
            )
        } else if let Some(target) = foreign_target(&path) {
            format!(
                "the link leads to {}, which is no file of this run, and `recover` would write to it; put a copy of the file in \
                 place of the link, then try again",
                target.display()
            )
        } else {
            continue;
        };
        return Err(RecordError::Missing { path, found });
    }
    Ok(())
}

/// What the run's record says of its tables, if it has ended. Of those that an earlier `recover` has replaced it does not know yet.
fn recorded(
    known: Option<&RunRecord>,
    directory: &RunDirectory,
    begun: &Replacement,
) -> Result<RecordedTables, RecordError> {
    let mut said = RecordedTables::of(known.unwrap_or(&RunRecord::default()), directory)?;
    said.retain(|table| !begun.files.iter().any(|(name, _)| *name == table.file));
    Ok(said)
}

/// The tables of which the first file is not there: the files behind it are not read without it.
fn gone_tables(said: &RecordedTables) -> Vec<MissingRows> {
    let gone = said.missing_files().filter(|missing| missing.name == missing.table.file);
    let rows = |missing: MissingFile<'_>| MissingRows {
        table: missing.table.table.clone(),
        file: missing.name.clone(),
        rows: Some(missing.table.rows),
        bytes: missing.table.bytes,
        reason: format!("{missing}{}", files_behind(said, &missing.name)),
        ..MissingRows::default()
    };
    gone.map(rows).collect()
}

/// What there is to say of the files behind a first one that is not there.
fn files_behind(said: &RecordedTables, first: &str) -> String {
    match said.later_files(first)[..] {
        [] => String::new(),
        [only] => format!("; the file behind it is there, {only}: put the first one back, and recover again"),
        [first, .., last] => format!(
            "; the files behind it are there, {first} to {last}: put the first one back, and recover again"
        ),
    }
}

/// The same of a run that was killed, whose record names no files: those that have files behind them, and those of tables that the run
/// keeps and to which something had come. Nobody has counted their rows.
fn gone_of_killed(kept: &[String], said: &RecordedTables, ledger: &Path) -> Vec<MissingRows> {
    let ledger = Ledger::read_file(ledger).ok().map(|snapshot| LedgerRecord::of(&snapshot));
    let is_kept = |table: Table| kept.iter().any(|word| word == table.word()) && !said.has_file_of(table);
    let came = |table: Table| ledger.as_ref()?.came_to(table).filter(|came| *came > 0 && is_kept(table));
    let kinds = [
        (Table::Hits, "hits"),
        (Table::Coincidences, "coincidences"),
        (Table::Events, "events"),
        (Table::Fragments, "fragments"),
        (Table::Raw, "bytes"),
    ];
    let whole = kinds.into_iter().filter_map(|(table, what)| {
        let reason = format!("the file is missing, and {} {what} had come to it", came(table)?);
        Some((table, table.file_name(), reason))
    });
    let headless = said.headless().into_iter().map(|(table, first)| {
        let reason = format!("the file is missing{}", files_behind(said, &first));
        (table, first, reason)
    });
    let rows = |(table, file, reason): (Table, String, String)| MissingRows {
        table: table.word().to_owned(),
        file,
        reason,
        ..MissingRows::default()
    };
    headless.chain(whole).map(rows).collect()
}

/// Of what an earlier `recover` has found missing, what is still: rows of a file that is there again are not. What is missing now stands
/// in `report`.
fn still_missing(record: &RunRecord, report: &RecoverReport) -> Vec<MissingRows> {
    let mut missing = record.missing.clone();
    for RecoveredTable { summary: table, .. } in &report.tables {
        // The record names no table that was gone.
        let known = record.tables.iter().find(|known| known.file == table.file);
        if known.is_none() {
            missing.retain(|place| place.file != table.file || !place.is_of_uncounted_table());
        }
        let known = known.map_or(0, |known| known.rows);
        let now = report.missing.iter().filter(|place| place.file == table.file);
        let now = now.filter_map(|place| place.rows).fold(table.rows, u64::saturating_add);
        let mut back = now.saturating_sub(known);
        // A whole table, or its last file, is the last that was found missing of it.
        for place in missing.iter_mut().rev().filter(|place| place.file == table.file) {
            back -= place.take_back(back);
        }
    }
    missing.retain(|place| place.rows != Some(0));
    missing
}

/// Every table that is there, and which of its batches stay.
fn damaged_tables(directory: &RunDirectory) -> Result<Vec<DamagedTable>, RecordError> {
    let mut tables = Vec::new();
    let mut hits = None;
    for table in Table::OF_HITS {
        let file = directory.table(table);
        if !file.exists() {
            continue;
        }
        let mut found = DamagedTable::of(&file, table)?;
        match table {
            Table::Hits => hits = Some(found.kept_rows()),
            Table::Extras | Table::Waveforms => found.keep_those_of(hits.as_ref())?,
            _ => {}
        }
        tables.push(found);
    }
    for file in directory.raw_files()? {
        tables.push(DamagedTable::of(&file, Table::Raw)?);
    }
    for table in [Table::Coincidences, Table::Losses, Table::Series] {
        let file = directory.table(table);
        if file.exists() {
            tables.push(DamagedTable::of(&file, table)?);
        }
    }
    for file in directory.range_files()? {
        tables.push(DamagedTable::of(&file, Table::Ranges)?);
    }
    for files in directory.event_files()? {
        tables.extend(damaged_events(&files)?);
    }
    Ok(tables)
}

/// Of a pair of files what is whole in both: events whose fragments are there, and fragments that these name.
fn damaged_events(files: &EventFiles) -> Result<Vec<DamagedTable>, RecordError> {
    let of = |path: &PathBuf, table| path.exists().then(|| DamagedTable::of(path, table)).transpose();
    let mut events = of(&files.events, Table::Events)?;
    let mut fragments = of(&files.fragments, Table::Fragments)?;
    if let (Some(events), Some(fragments)) = (&mut events, &mut fragments) {
        events.keep_those_of(Some(&fragments.kept_rows()))?;
        fragments.keep_named(&events.named_rows()?);
        events.keep_those_of(Some(&fragments.kept_rows()))?;
    }
    Ok(events.into_iter().chain(fragments).collect())
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

/// Received bytes in a whole table `raw`.
fn count_raw_bytes(path: &Path) -> Result<u64, RecordError> {
    let mut bytes = 0;
    raw_arrivals(path, |arrival| bytes += arrival.bytes)?;
    Ok(bytes)
}

/// Bytes of fragments in a whole table `fragments`.
fn count_fragment_bytes(path: &Path) -> Result<u64, RecordError> {
    let (mut reader, mut bytes) = (open_table(path, Table::Fragments)?, 0);
    while let Some(head) = reader.next_batch()? {
        let rows = fragment_rows(&reader, &head)?;
        bytes += rows.iter().map(|row| row.view.length() as u64).sum::<u64>();
    }
    Ok(bytes)
}

/// Payload bytes of all files of a table.
fn payload_of(tables: &[RecoveredTable], table: Table) -> u64 {
    let files = tables.iter().map(|found| &found.summary).filter(|found| found.table == table.word());
    files.filter_map(|found| found.payload_bytes).sum()
}

/// Completes `run.json` by what the tables and the ledger says; makes it where it is missing.
fn rewrite_record(
    directory: &RunDirectory,
    known: Result<RunRecord, RecordError>,
    report: &mut RecoverReport,
) -> Result<(), RecordError> {
    let tables: Vec<TableSummary> = report.tables.iter().map(|table| table.summary.clone()).collect();
    let is_removed =
        |table: &TableSummary| report.removed.as_ref().is_some_and(|removed| removed.has_table_of(table));
    let snapshot = Ledger::read_file(&directory.ledger()).ok();
    let is_complete = |record: &RunRecord| {
        let names = |table: &TableSummary| {
            let said = record.tables.iter().find(|said| said.file == table.file);
            let fits = |said: &TableSummary| (said.rows, said.files) == (table.rows, table.files);
            said.is_some_and(|said| fits(said) || is_removed(said))
        };
        let has_ledger = match record.state {
            RunRecordState::Running => false,
            // A run without a ledger anywhere, which says how it ended, cannot be completed any further.
            RunRecordState::Recovered => snapshot.is_none() || record.ledger.is_some(),
            RunRecordState::Stopped | RunRecordState::Failed => record.ledger.is_some(),
        };
        has_ledger && tables.iter().all(names)
    };
    if known.as_ref().is_ok_and(is_complete) && !report.changed {
        return Ok(());
    }
    let mut record = known.unwrap_or_else(|_| unknown_run(directory, snapshot.as_ref()));
    record.missing = still_missing(&record, report);
    let (stopped, ledger) = (std::mem::take(&mut record.stopped), record.ledger.take());
    record.stop(RunRecordState::Recovered, tables, snapshot.as_ref());
    // When it was recovered is not when it stopped; nobody knows the latter of a killed run.
    record.stopped = stopped;
    record.ledger = record.ledger.or(ledger);
    if let Some(ledger) = &record.ledger {
        report.compare(&record, ledger);
        // Of a killed run, nobody has written when it stopped.
        report.at_least = record.stopped.is_empty();
    }
    record.missing.extend(report.missing.iter().cloned());
    directory.add_documents(&mut record.documents);
    record.remarks.push(remark(report));
    report.changed = true;
    record.write(directory)
}

/// The record of a run that has left none that can be read.
fn unknown_run(directory: &RunDirectory, snapshot: Option<&LedgerSnapshot>) -> RunRecord {
    RunRecord {
        format: crate::run_record::FORMAT,
        number: directory.number(),
        sources: snapshot.map(|snapshot| snapshot.sources.clone()).unwrap_or_default(),
        remarks: vec!["run.json was missing or damaged".to_owned()],
        ..RunRecord::default()
    }
}

impl RecoverReport {
    /// What an earlier `recover` had begun is done now.
    fn takes_over(&mut self, begun: &Replacement) {
        self.changed |= !begun.files.is_empty();
        for (name, backup) in &begun.files {
            if let Some(table) = self.tables.iter_mut().find(|table| table.summary.file == *name) {
                "an earlier `recover` was interrupted".clone_into(&mut table.reason);
                table.backup.clone_from(backup);
            }
        }
    }

    fn of(
        directory: &RunDirectory,
        mut tables: Vec<RecoveredTable>,
        removed: Option<RemovedTables>,
    ) -> Result<RecoverReport, RecordError> {
        for RecoveredTable { summary, .. } in &mut tables {
            if summary.table == Table::Coincidences.word() {
                summary.coincidences = Some(count_coincidences(&directory.path().join(&summary.file))?);
            }
            let path = directory.path().join(&summary.file);
            if summary.table == Table::Raw.word() {
                summary.payload_bytes = Some(count_raw_bytes(&path)?);
            } else if summary.table == Table::Fragments.word() {
                summary.payload_bytes = Some(count_fragment_bytes(&path)?);
            }
        }
        let rows_of = |table: Table| {
            let found = tables.iter().filter(|found| found.summary.table == table.word());
            found.map(|found| found.summary.rows).sum()
        };
        Ok(RecoverReport {
            run_directory: directory.path().to_owned(),
            changed: tables.iter().any(|table| !table.reason.is_empty()),
            missing: Vec::new(),
            removed,
            at_least: false,
            hits_on_file: rows_of(Table::Hits),
            hits_came: None,
            hits_not_on_file: None,
            coincidences_on_file: tables.iter().filter_map(|table| table.summary.coincidences).sum(),
            coincidences_came: None,
            coincidences_not_on_file: None,
            events_on_file: rows_of(Table::Events),
            events_came: None,
            events_not_on_file: None,
            raw_bytes_on_file: payload_of(&tables, Table::Raw),
            raw_bytes_came: None,
            raw_bytes_not_on_file: None,
            tables,
        })
    }

    /// Describes what had come to the recording and is not on file, of the tables that the run has or had.
    fn compare(&mut self, record: &RunRecord, ledger: &LedgerRecord) {
        let removed = self.removed.as_ref();
        let had = self.tables_had(record, ledger);
        let came = |table| ledger.came_to(table).filter(|_| had.contains(&table));
        let missing = |table, on_file| came(table).and(ledger.not_on_file(table, on_file, removed));
        self.hits_came = came(Table::Hits);
        self.events_came = came(Table::Events);
        self.coincidences_came = came(Table::Coincidences);
        self.raw_bytes_came = came(Table::Raw);
        self.hits_not_on_file = missing(Table::Hits, self.hits_on_file);
        self.events_not_on_file = missing(Table::Events, self.events_on_file);
        self.coincidences_not_on_file = missing(Table::Coincidences, self.coincidences_on_file);
        self.raw_bytes_not_on_file = missing(Table::Raw, self.raw_bytes_on_file);
        if record.data_kept(&ledger.snapshot()).are_in_slices() {
            self.hits_on_file = payload_of(&self.tables, Table::Fragments) / SLICED_HIT_BYTES;
            self.hits_came = ledger.payload_came_to(Table::Fragments).map(|bytes| bytes / SLICED_HIT_BYTES);
            let was_removed = removed.is_some_and(|removed| removed.has(Table::Fragments));
            let not_on_file = self.hits_came.map(|came| came.saturating_sub(self.hits_on_file));
            self.hits_not_on_file = not_on_file.filter(|_| !was_removed);
        }
    }

    /// The tables of data that are there, or were. Where nothing is known of any, those to which something had come, as far as the run keeps
    /// them.
    fn tables_had(&self, record: &RunRecord, ledger: &LedgerRecord) -> Vec<Table> {
        let all = || [Table::Hits, Table::Events, Table::Coincidences, Table::Raw].into_iter();
        let had: Vec<Table> = all().filter(|table| self.had(*table)).collect();
        let has_come = |table: &Table| ledger.came_to(*table).is_some_and(|came| came > 0);
        match had.is_empty() {
            true => all().filter(|table| record.may_keep(*table) && has_come(table)).collect(),
            false => had,
        }
    }

    /// Whether a table is there, or was.
    fn had(&self, table: Table) -> bool {
        self.tables.iter().any(|found| found.summary.table == table.word())
            || self.missing.iter().any(|place| place.table == table.word())
            || self.removed.as_ref().is_some_and(|removed| removed.has(table))
    }
}

fn remark(report: &RecoverReport) -> String {
    let RecoverReport { tables, missing, removed, .. } = report;
    let kinds = [
        (Table::Hits, report.hits_on_file, report.hits_came, report.hits_not_on_file, "hits"),
        (Table::Events, report.events_on_file, report.events_came, report.events_not_on_file, "events"),
        (
            Table::Coincidences,
            report.coincidences_on_file,
            report.coincidences_came,
            report.coincidences_not_on_file,
            "coincidences",
        ),
        (
            Table::Raw,
            report.raw_bytes_on_file,
            report.raw_bytes_came,
            report.raw_bytes_not_on_file,
            "raw bytes",
        ),
    ];
    let at_least = if report.at_least { "≥ " } else { "" };
    let of_run = kinds.into_iter().filter(|(table, _, came, ..)| report.had(*table) || came.is_some());
    let mut text: Vec<String> = of_run
        .map(|(_, on_file, _, not_on_file, what)| match not_on_file {
            Some(count) => {
                format!(
                    "{on_file} {what} on file, {at_least}{count} {what} that had come to the recording are not on file"
                )
            }
            None => format!("{on_file} {what} on file, how many {what} were on their way is not known"),
        })
        .collect();
    let is_of_data =
        |found: &RecoveredTable| Table::LISTS.iter().all(|list| found.summary.table != list.word());
    if text.is_empty() && !tables.iter().any(is_of_data) && missing.is_empty() && removed.is_none() {
        return "recovered: the run ended before its first table".to_owned();
    }
    text.extend(missing.iter().map(ToString::to_string));
    let backups = tables.iter().map(|table| table.backup.as_str()).filter(|name| !name.is_empty());
    text.extend(backups.map(|name| format!("what was replaced or cut off is kept as {name}")));
    let bytes_removed: u64 = tables.iter().map(|table| table.bytes_removed).sum();
    text.push(format!("{bytes_removed} bytes of unfinished or damaged batches removed"));
    format!("recovered: {}", text.join("; "))
}
