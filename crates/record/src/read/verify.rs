//! `verify`: checks checksums, order and row counts against the ledger.
//!
//! ```text
//!  run directory ──► checksum of each batch · columns · time order · rows against the ledger ──► VerifyReport
//!                    events against their fragments (`verify_events`), coincidences in themselves (`verify_coincidences`)
//!                    losses against the ledger (`verify_losses`)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thalweg_data::ledger::{LedgerError, LossReport, LossTotal};
use thalweg_data::{Flags, Hit, Kept, Ledger, LedgerSnapshot, LossReason, Noted, StageRole, Unit};

use super::hits::hits_of;
use super::table_reader::{BatchHead, TableReader};
use super::verify_coincidences::{CoincidenceCheck, CoincidencesReport};
use super::verify_events::{EventsReport, Triggers, compare_selected, verify_pair};
use super::verify_losses::{LossesCheck, LossesReport, compare_losses};
use super::verify_ranges::{EdgeReport, RangeCheck};
use crate::directory::{DocumentSummary, RunDirectory};
use crate::error::RecordError;
use crate::ipc::END_OF_STREAM;
use crate::missing::MissingRows;
use crate::recorded_tables::RecordedTables;
use crate::removed::RemovedTables;
use crate::run_record::{EntriesRecord, IdentityRecord, LedgerRecord, RunRecord, RunRecordState};
use crate::table::Table;

/// Most problems that a report lists; the rest is counted.
const MOST_PROBLEMS: usize = 100;
/// Most rows of one file that a report lists as problems; the rest is counted. One damaged batch takes the hits of thousands.
const MOST_ROW_PROBLEMS: u64 = 5;

/// What [`verify`] found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// The run.
    pub run_directory: PathBuf,
    /// Whether nothing is wrong.
    pub ok: bool,
    /// Everything that is wrong, in words.
    pub problems: Vec<String>,
    /// Problems of rows, by file, until those that are not listed are named.
    #[serde(skip)]
    pub(super) row_problems: BTreeMap<String, u64>,
    /// Other problems that are not listed.
    #[serde(skip)]
    pub(super) unlisted: u64,
    /// Where the run stands, as `run.json` has it.
    pub state: RunRecordState,
    /// Each file.
    pub tables: Vec<TableReport>,
    /// Tables that the policy on old runs has removed, and that are not there.
    pub removed: Option<RemovedTables>,
    /// Rows that were on file until they were damaged, as `run.json` of a recovered run has them.
    pub missing: Vec<MissingRows>,
    /// Hits in the file.
    pub hits: u64,
    /// Hits marked as late: allowed to be out of order.
    pub hits_late: u64,
    /// Hits before the one in front of them that are not marked as late.
    pub hits_out_of_order: u64,
    /// Hits whose flag `extra` promises a row of extras that is not there; counted where extras are kept.
    pub extras_missing: u64,
    /// Rows of extras or waveforms whose hit is not there, or has another time.
    pub extras_unpaired: u64,
    /// Events and their fragments.
    pub events: EventsReport,
    /// Events of hits.
    pub coincidences: CoincidencesReport,
    /// The list of losses.
    pub losses: LossesReport,
    /// Of a node of a run with units: which run it is of, as far as that is known.
    pub identity: Option<IdentityRecord>,
    /// What went from each readout unit of it to each builder unit.
    pub edges: Vec<EdgeReport>,
    /// The ledger.
    pub ledger: LedgerReport,
}

/// What [`verify`] found in one file.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// The table.
    pub table: Table,
    /// Name of the file.
    pub file: String,
    /// Rows of whole batches.
    pub rows: u64,
    /// Batches whose checksum is right.
    pub batches: u64,
    /// Bytes up to and with the end-of-stream marker.
    pub bytes: u64,
    /// Payload bytes, of the tables `raw` and `fragments`.
    pub payload_bytes: u64,
}

/// What [`verify`] found in the ledger.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LedgerReport {
    /// Whether the run has snapshot.
    pub present: bool,
    /// Whether they close.
    pub closed: bool,
    /// What there is to say of this, behind "the ledger"; empty where there is none.
    pub verdict: &'static str,
    /// Hits that they call recorded.
    pub hits_recorded: Option<u64>,
    /// What is kept of them.
    pub hits_kept: Kept,
    /// Hits that came to the recording and were left out of it on request: those that the cuts do not keep, or of a pause.
    pub hits_left_out: Option<u64>,
    /// What they call lost, as people read it.
    pub loss: LossReport,
    /// Losses that are not in the ledger, in words: late hits, triggers unseen, unread bytes.
    pub beside: Vec<String>,
    /// Hits that are lost, by `loss`, with those that files have lost since; `null` where some are, of which nobody knows how many.
    pub hits_lost: Option<u64>,
    /// Raw bytes that they call recorded.
    pub raw_bytes: Option<u64>,
    /// Events that they call recorded.
    pub events_recorded: Option<u64>,
    /// What is kept of them.
    pub events_kept: Kept,
    /// Events of hits that they call recorded.
    pub coincidences_recorded: Option<u64>,
    /// The same of built events.
    pub events_lost: Option<u64>,
    /// Fragments that they call recorded.
    pub fragments_recorded: Option<u64>,
}

/// Where extras and hits meet: the hits with the flag `extra`, in order.
struct Owners {
    rows: Vec<(u64, i64)>,
    /// Whether these are all of them.
    complete: bool,
    /// The run's record notes rows of extras that are missing.
    may_miss_extras: bool,
}

/// Most hits with extras whose pairing is checked; beyond that memory would grow with the file.
const MOST_OWNERS: usize = 1 << 26;

impl VerifyReport {
    pub(super) fn problem(&mut self, text: impl Into<String>) {
        match self.problems.len() < MOST_PROBLEMS {
            true => self.problems.push(text.into()),
            false => self.unlisted += 1,
        }
        self.ok = false;
    }

    /// Whether a program may be writing its tables: then a batch may be half there, and rows may come behind those of a table that was read
    /// before and has theirs by now. If it was killed, `recover` sees to both.
    pub(super) fn may_be_written(&self) -> bool {
        self.state == RunRecordState::Running
    }

    /// A problem of one row of a file.
    pub(super) fn row_problem(&mut self, file: &str, text: impl Display) {
        let count = self.row_problems.entry(file.to_owned()).or_default();
        *count += 1;
        if *count <= MOST_ROW_PROBLEMS {
            self.problem(format!("{file}: {text}"));
        }
    }

    /// Says of how many problems nothing was listed: of a file, behind those that are.
    pub(super) fn name_unlisted(&mut self) {
        for (file, count) in std::mem::take(&mut self.row_problems) {
            let Some(more @ 1..) = count.checked_sub(MOST_ROW_PROBLEMS) else { continue };
            let is_of_file =
                |problem: &String| problem.strip_prefix(&file).is_some_and(|rest| rest.starts_with(": "));
            let place =
                self.problems.iter().rposition(is_of_file).map_or(self.problems.len(), |last| last + 1);
            self.problems.insert(place, format!("{file}: … and {more} more of its rows"));
        }
        if let unlisted @ 1.. = std::mem::take(&mut self.unlisted) {
            self.problems.push(format!("… and {unlisted} more problems"));
        }
    }
}

/// Checks a run's directory.
///
/// # Errors
/// When it is no run's directory. What is wrong inside is in the report.
pub fn verify(path: &Path) -> Result<VerifyReport, RecordError> {
    let mut ranges = RangeCheck::default();
    let opened = Verifying::open(path, &mut ranges)?;
    ranges.complete();
    let Verified { mut report, .. } = opened.check(&mut ranges)?;
    ranges.problems_of_files().into_iter().for_each(|text| report.problem(text));
    let (edges, problems) = ranges.edges();
    report.edges = edges;
    problems.into_iter().for_each(|text| report.problem(text));
    report.name_unlisted();
    Ok(report)
}

/// A run's directory that is being checked: its lists of ranges are read, and the rest is not.
pub(super) struct Verifying {
    directory: RunDirectory,
    record: Option<RunRecord>,
    report: VerifyReport,
}

/// One that is checked.
pub(super) struct Verified {
    pub(super) directory: RunDirectory,
    pub(super) report: VerifyReport,
    /// The triggers of its events.
    pub(super) triggers: Triggers,
    /// Its ledger, where they can be read.
    pub(super) snapshot: Result<LedgerSnapshot, LedgerError>,
}

impl Verifying {
    /// Opens a directory and reads its lists of ranges.
    ///
    /// # Errors
    /// When it is no run's directory.
    pub(super) fn open(path: &Path, ranges: &mut RangeCheck) -> Result<Verifying, RecordError> {
        let directory = RunDirectory::open(path)?;
        let mut report =
            VerifyReport { run_directory: directory.path().to_owned(), ok: true, ..VerifyReport::default() };
        let record = match RunRecord::read(&directory.run_record()) {
            Ok(record) => Some(record),
            Err(error) => {
                report.problem(error.to_string());
                None
            }
        };
        report.state = record.as_ref().map(|record| record.state).unwrap_or_default();
        report.removed = removed(record.as_ref(), &directory)?;
        report.identity = record.as_ref().and_then(|record| record.identity.clone());
        report.missing = record.as_ref().map(|record| record.missing.clone()).unwrap_or_default();
        let epochs = ranges.enter(&mut report, &directory, record.as_ref())?;
        // One that was killed had no time to note which event managers it knew.
        if !epochs.is_empty() {
            report.identity.get_or_insert_default().add_managers(epochs);
        }
        Ok(Verifying { directory, record, report })
    }

    /// Checks everything else; what its tables of events have of each range is in `ranges` then.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(super) fn check(self, ranges: &mut RangeCheck) -> Result<Verified, RecordError> {
        let Verifying { directory, record, mut report } = self;
        check_parts(&mut report, &directory, record.as_ref())?;
        let mut triggers = check_tables(&mut report, &directory, record.as_ref(), ranges)?;
        triggers.compare(&mut report);
        check_presence(&mut report, record.as_ref());
        let snapshot = Ledger::read_file(&directory.ledger());
        if let Some(record) = record {
            compare_tables(&mut report, &record);
            compare_documents(&mut report, &directory, &record);
            compare_ledger(&mut report, snapshot.as_ref().ok(), &record);
        }
        Ok(Verified { directory, report, triggers, snapshot })
    }
}

/// Whether all files of a table are there that has several. Before the tables: what hangs on a missing file comes behind it.
fn check_parts(
    report: &mut VerifyReport,
    directory: &RunDirectory,
    record: Option<&RunRecord>,
) -> Result<(), RecordError> {
    let Some(record) = record else { return Ok(()) };
    for missing in RecordedTables::of(record, directory)?.missing_files() {
        // A table without its first file is reported with those that cannot be read.
        if missing.name != missing.table.file {
            report.problem(missing.to_string());
        }
    }
    Ok(())
}

/// Checks each table but the lists of ranges.
fn check_tables(
    report: &mut VerifyReport,
    directory: &RunDirectory,
    record: Option<&RunRecord>,
    ranges: &mut RangeCheck,
) -> Result<Triggers, RecordError> {
    let is_reported = |table: Table| {
        let missing = record.map_or(&[][..], |record| &record.missing);
        missing.iter().any(|missing| missing.table == table.word())
    };
    let extras_are_reported = is_reported(Table::Extras);
    // Waveforms may be recorded without a table of hits: whose they are is not known here then.
    let complete = directory.table(Table::Hits).exists();
    let mut owners = Owners { rows: Vec::new(), complete, may_miss_extras: extras_are_reported };
    for table in Table::OF_HITS.into_iter().chain([Table::Coincidences, Table::Losses, Table::Series]) {
        let file = directory.table(table);
        if file.exists() {
            verify_file(report, &file, &mut owners);
        }
    }
    for file in directory.raw_files()? {
        verify_file(report, &file, &mut owners);
    }
    let mut triggers = Triggers::new();
    for files in directory.event_files()? {
        verify_pair(report, &files, &mut triggers, ranges);
    }
    Ok(triggers)
}

/// Whether there is a table, where one must be.
fn check_presence(report: &mut VerifyReport, record: Option<&RunRecord>) {
    // A node that reads and ships has snapshot and no table.
    let none_promised =
        record.is_some_and(|record| record.state != RunRecordState::Running && record.keeps_no_data());
    let has_data = report.tables.iter().any(|found| !Table::LISTS.contains(&found.table));
    if !has_data && report.ok && !none_promised && report.removed.is_none() {
        report.problem("no table is there");
    }
}

/// What the policy on old runs has taken away, as the run's record has it.
pub(super) fn removed(
    record: Option<&RunRecord>,
    directory: &RunDirectory,
) -> Result<Option<RemovedTables>, RecordError> {
    record.and_then(|record| record.removed.clone()).map_or(Ok(None), |removed| removed.gone(directory))
}

fn verify_file(report: &mut VerifyReport, path: &Path, owners: &mut Owners) {
    let mut reader = match TableReader::open(path) {
        Ok(reader) => reader,
        Err(error) => return report.problem(error.to_string()),
    };
    let table = reader.table();
    let mut found = TableReport::new(table, path);
    let mut check = TableCheck {
        last_time_ps: i64::MIN,
        hits: Vec::new(),
        next_owner: 0,
        coincidences: CoincidenceCheck::default(),
        losses: LossesCheck::default(),
    };
    loop {
        match reader.next_batch() {
            Ok(None) => break,
            Ok(Some(head)) => {
                if let Err(error) = check.batch(report, &mut found, &reader, &head, owners) {
                    report.problem(error.with_advice());
                    break;
                }
            }
            Err(error) => {
                report.problem(error.with_advice());
                break;
            }
        }
    }
    let has_all_extras = check.next_owner == owners.rows.len() || !owners.complete || owners.may_miss_extras;
    if table == Table::Extras && !has_all_extras {
        report.extras_missing = (owners.rows.len() - check.next_owner) as u64;
        let missing = report.extras_missing;
        report.problem(format!("{}: rows of {missing} hits with the flag `extra` are missing", found.file));
    }
    check_rest(report, &reader, &mut found);
    report.tables.push(found);
}

impl TableReport {
    pub(super) fn new(table: Table, path: &Path) -> TableReport {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        TableReport { table, file, rows: 0, batches: 0, bytes: 0, payload_bytes: 0 }
    }
}

/// What lies behind the end of a file's stream.
pub(super) fn check_rest(report: &mut VerifyReport, reader: &TableReader, found: &mut TableReport) {
    let end = reader.position() + END_OF_STREAM.len() as u64;
    let behind = reader.length().saturating_sub(end);
    found.bytes = end + reader.bytes().bytes_left_out();
    if reader.ended() && behind > 0 && !report.may_be_written() {
        report.problem(format!(
            "{}: {behind} bytes behind the end of the stream: a batch that was being written; \
             `thalweg recover` removes them",
            found.file
        ));
    }
}

/// Whether a batch is the next one of its table.
pub(super) fn check_number(report: &mut VerifyReport, found: &TableReport, head: &BatchHead) {
    if head.number() != Some(found.batches) || head.first_row() != Some(found.rows) {
        let text = format!("batch {} where batch {} is due", head.number().unwrap_or(0), found.batches);
        report.problem(format!("{}: at byte {}: {text}", found.file, head.offset()));
    }
}

struct TableCheck {
    last_time_ps: i64,
    hits: Vec<Hit>,
    next_owner: usize,
    coincidences: CoincidenceCheck,
    losses: LossesCheck,
}

impl TableCheck {
    fn batch(
        &mut self,
        report: &mut VerifyReport,
        found: &mut TableReport,
        reader: &TableReader,
        head: &BatchHead,
        owners: &mut Owners,
    ) -> Result<(), RecordError> {
        reader.verify_checksum(head)?;
        check_number(report, found, head);
        match found.table {
            Table::Hits => self.hits(report, found, reader, head, owners)?,
            Table::Extras | Table::Waveforms => {
                super::read_every_column(reader, head)?;
                self.extras(report, found, reader, head, owners)?;
            }
            Table::Statistics | Table::Events | Table::Fragments | Table::Ranges | Table::Series => {
                super::read_every_column(reader, head)?;
            }
            Table::Coincidences => self.coincidences.batch(report, &found.file, reader, head)?,
            Table::Losses => self.losses.batch(report, &found.file, reader, head)?,
            Table::Raw => {
                let loaded = super::raw::LoadedBatch::load(reader, head.clone())?;
                found.payload_bytes += loaded.rows().iter().map(|row| row.length() as u64).sum::<u64>();
            }
        }
        found.batches += 1;
        found.rows += head.rows() as u64;
        Ok(())
    }

    fn hits(
        &mut self,
        report: &mut VerifyReport,
        found: &TableReport,
        reader: &TableReader,
        head: &BatchHead,
        owners: &mut Owners,
    ) -> Result<(), RecordError> {
        hits_of(reader, head, &mut self.hits)?;
        report.hits += self.hits.len() as u64;
        for (place, hit) in self.hits.iter().enumerate() {
            let row = found.rows + place as u64;
            if hit.flags.has(Flags::EXTRA) {
                owners.add(row, hit.time_ps);
            }
            if hit.flags.has(Flags::LATE) {
                report.hits_late += 1;
            } else if hit.time_ps < self.last_time_ps {
                report.hits_out_of_order += 1;
                let (time_ps, last) = (hit.time_ps, self.last_time_ps);
                report.row_problem(
                    &found.file,
                    format_args!("hit {row} at {time_ps} ps lies before {last} ps"),
                );
            } else {
                self.last_time_ps = hit.time_ps;
            }
        }
        Ok(())
    }

    /// Extras come in the order of their hits; a table may leave hits out (waveforms), and none may be added.
    fn extras(
        &mut self,
        report: &mut VerifyReport,
        found: &TableReport,
        reader: &TableReader,
        head: &BatchHead,
        owners: &Owners,
    ) -> Result<(), RecordError> {
        let hits = reader.numbers::<8>(head, 0)?;
        let times = reader.numbers::<8>(head, 1)?;
        for (hit, time_ps) in hits.iter().zip(&times).filter(|_| owners.complete) {
            let (hit, time_ps) = (u64::from_le_bytes(*hit), i64::from_le_bytes(*time_ps));
            if report.may_be_written() && hit >= report.hits {
                break;
            }
            let rest = &owners.rows[self.next_owner..];
            let place = match found.table {
                Table::Extras if !owners.may_miss_extras => {
                    (rest.first() == Some(&(hit, time_ps))).then_some(0)
                }
                _ => rest.binary_search(&(hit, time_ps)).ok(),
            };
            match place {
                Some(place) => self.next_owner += place + 1,
                None => {
                    report.extras_unpaired += 1;
                    report.row_problem(
                        &found.file,
                        format_args!("a row of hit {hit} at {time_ps} ps has no such hit"),
                    );
                }
            }
        }
        Ok(())
    }
}

impl Owners {
    fn add(&mut self, row: u64, time_ps: i64) {
        if self.rows.len() < MOST_OWNERS {
            self.rows.push((row, time_ps));
        } else {
            self.complete = false;
        }
    }
}

fn compare_tables(report: &mut VerifyReport, record: &RunRecord) {
    if record.state == RunRecordState::Running {
        report.problem(
            "run.json says that the run is being written; if its program is gone, use `thalweg recover`",
        );
        return;
    }
    for said in &record.tables {
        let found = report.tables.iter().find(|table| table.file == said.file).map(|found| found.rows);
        match found.or_else(|| report.removed.as_ref()?.rows_in(&said.file)) {
            None => report
                .problem(format!("{}: run.json names it, and it is missing or cannot be read", said.file)),
            Some(rows) if rows != said.rows => {
                report.problem(format!("{}: {rows} rows where run.json says {}", said.file, said.rows));
            }
            Some(_) => {}
        }
    }
}

/// Files beside the tables: there, and as they were written.
fn compare_documents(report: &mut VerifyReport, directory: &RunDirectory, record: &RunRecord) {
    for said in &record.documents {
        // The name is looked up among the files that are there: what is written in a file leads nowhere else.
        let path = directory.document(&said.file);
        match path.and_then(|path| fs::read(&path).ok()) {
            None => report.problem(format!("{}: run.json names it, and it is missing", said.file)),
            Some(content) if DocumentSummary::of(&said.file, &content) != *said => {
                report.problem(format!("{}: not as it was written", said.file));
            }
            Some(_) => {}
        }
    }
}

fn compare_ledger(report: &mut VerifyReport, snapshot: Option<&LedgerSnapshot>, record: &RunRecord) {
    let Some(ledger) = &record.ledger else {
        // A killed run may have left none, and `recover` cannot know it.
        if !matches!(record.state, RunRecordState::Running | RunRecordState::Recovered) {
            report.problem("run.json holds no ledger");
        }
        return;
    };
    let loss = record.loss_report().unwrap_or_default();
    let lost = |unit: Unit| loss.total(unit).map_or(Some(0), LossTotal::known_lost);
    let counts = ledger.snapshot();
    let kept = record.data_kept(&counts);
    report.ledger = LedgerReport {
        present: true,
        closed: ledger.closed,
        verdict: record.ledger_verdict().unwrap_or_default(),
        hits_recorded: kept.hits_recorded(&counts),
        hits_kept: kept.hits,
        hits_left_out: kept.hits_left_out(&counts),
        beside: record.beside_the_ledger(),
        hits_lost: lost(Unit::Hits),
        raw_bytes: ledger.total(StageRole::Raw, Unit::Bytes, |row| row.output),
        events_recorded: ledger.total_events(Table::Events, |row| row.output),
        events_kept: kept.events,
        coincidences_recorded: ledger.total_events(Table::Coincidences, |row| row.output),
        events_lost: lost(Unit::Events),
        fragments_recorded: ledger.total(StageRole::Recording, Unit::Fragments, |row| row.output),
        loss,
    };
    let recovered = record.state == RunRecordState::Recovered;
    if !ledger.closed && !recovered {
        let where_not = ledger.discrepancies.join("; ");
        report.problem(format!("the ledger does not balance: {where_not}"));
    }
    if snapshot.is_some_and(|snapshot| LedgerRecord::of(snapshot).entries != ledger.entries) {
        report.problem("ledger.bin and run.json hold different ledgers");
    }
    // A killed run's snapshot end up to one batch before its file; `recover` has said so.
    if recovered {
        return;
    }
    if report.tables.iter().any(|found| found.table == Table::Losses) {
        compare_losses(report, ledger);
    }
    compare_amounts(report, ledger);
    compare_selected(report, ledger);
    compare_late(report, ledger, record);
    compare_sources(report, ledger, &record.sources);
}

/// Hits on file that are flagged late against those that run.json counts. Of these, some are not on file where hits were left out or
/// lost behind the time order: by an added stage, a cut, the disk.
fn compare_late(report: &mut VerifyReport, ledger: &LedgerRecord, record: &RunRecord) {
    let is_whole = report.tables.iter().any(|found| found.table == Table::Hits) && report.removed.is_none();
    let said = record.details.get("hits_late").and_then(serde_json::Value::as_u64);
    let Some(said) = said.filter(|_| is_whole) else { return };
    let hits = || ledger.entries.iter().filter(|row| row.unit == Unit::Hits.word());
    let notes = |row: &&EntriesRecord| row.noted.contains_key(Noted::Late.word());
    let ordering: BTreeSet<&str> = hits().filter(notes).map(|row| row.stage.as_str()).collect();
    let ordered: u64 = hits().filter(|row| ordering.contains(row.stage.as_str())).map(|row| row.output).sum();
    let recorded = ledger.total(StageRole::Recording, Unit::Hits, |row| row.output);
    let fits = match recorded == Some(ordered) {
        true => report.hits_late == said,
        false => report.hits_late <= said,
    };
    if !fits {
        report.problem(format!(
            "{} hits on file are flagged late, and run.json reports {said}",
            report.hits_late
        ));
    }
}

/// What is on file against what the ledger calls recorded, where the table was kept.
fn compare_amounts(report: &mut VerifyReport, ledger: &LedgerRecord) {
    let is_removed = |table| report.removed.as_ref().is_some_and(|removed| removed.has(table));
    let has = |table| report.tables.iter().any(|found| found.table == table) || is_removed(table);
    // What was removed has its rows in the note; how many payload bytes and coincidences these were is not known any more.
    let is_whole = |table| has(table) && !is_removed(table);
    let with_removed = |table, found: u64| {
        report.removed.as_ref().map_or(0, |removed| removed.rows_of(table)).saturating_add(found)
    };
    let raw_bytes = report.tables.iter().filter(|found| found.table == Table::Raw);
    let raw_bytes = raw_bytes.map(|found| found.payload_bytes).sum::<u64>();
    let of_unit = |role, unit| ledger.total(role, unit, promised).zip(ledger.total(role, unit, not_forced));
    let of_events = |table| ledger.total_events(table, promised).zip(ledger.total_events(table, not_forced));
    let pairs = [
        (
            of_unit(StageRole::Recording, Unit::Hits),
            has(Table::Hits),
            with_removed(Table::Hits, report.hits),
            "hits",
        ),
        (of_unit(StageRole::Raw, Unit::Bytes), is_whole(Table::Raw), raw_bytes, "raw bytes"),
        (
            of_events(Table::Events),
            has(Table::Events),
            with_removed(Table::Events, report.events.events),
            "events",
        ),
        (
            of_events(Table::Coincidences),
            is_whole(Table::Coincidences),
            report.coincidences.events,
            "coincidences",
        ),
        (
            of_unit(StageRole::Recording, Unit::Fragments),
            has(Table::Fragments),
            with_removed(Table::Fragments, report.events.fragments),
            "fragments",
        ),
        (
            of_unit(StageRole::Recording, Unit::Bytes),
            is_whole(Table::Fragments),
            report.events.payload_bytes,
            "bytes of fragments",
        ),
    ];
    for (said, kept, found, what) in pairs {
        if let Some((said, not_forced)) = said
            && kept
            && !is_as_said(found, said, not_forced)
        {
            let place = if report.removed.is_some() { "on file or removed" } else { "on file" };
            report.problem(format!("{found} {what} {place}, and {said} in the ledger"));
        }
    }
}

/// What the ledger promises to be on file.
fn promised(row: &EntriesRecord) -> u64 {
    row.output
}

/// What was on file when the disk could not force it.
fn not_forced(row: &EntriesRecord) -> u64 {
    row.lost.get(LossReason::NotForced.word()).copied().unwrap_or(0)
}

/// Whether as much is on file as the ledger says. What could not be forced may be there or not.
fn is_as_said(found: u64, promised: u64, not_forced: u64) -> bool {
    (promised..=promised.saturating_add(not_forced)).contains(&found)
}

/// The same of the fragments of each source.
fn compare_sources(report: &mut VerifyReport, ledger: &LedgerRecord, names: &[String]) {
    let is_removed = report.removed.as_ref().is_some_and(|removed| removed.has(Table::Fragments));
    if is_removed || !report.tables.iter().any(|found| found.table == Table::Fragments) {
        return;
    }
    for (index, name) in names.iter().enumerate() {
        let [fragments, bytes] = report.events.sources.get(index).copied().unwrap_or_default();
        for (unit, found) in [(Unit::Fragments, fragments), (Unit::Bytes, bytes)] {
            let said = ledger.entries.iter().find(|row| {
                row.source == *name && row.unit == unit.word() && row.is_at(StageRole::Recording)
            });
            if let Some((said, not_forced)) = said.map(|row| (promised(row), not_forced(row)))
                && !is_as_said(found, said, not_forced)
            {
                report.problem(format!("{name}: {found} {unit} on file, and {said} in the ledger"));
            }
        }
    }
}
