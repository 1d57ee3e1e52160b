//! `run.json`: what a run was, in words that people and programs read.
//!
//! ```text
//!  start ──► state "running" ──► replaced at once, at the end: "stopped" · "failed" · "recovered"
//! ```
//! The file is replaced by renaming a complete one over it: a reader sees the old text or the new. A comment, and what became of
//! the tables, may be added later.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use thalweg_data::ledger::{CounterSnapshot, MOST_COUNT, UnitCounts};
use thalweg_data::topology::{FlowPath, Topology};
use thalweg_data::{Counters, LedgerSnapshot, LossReason, Noted, SourceId, Stage, StageRole, Unit};

use crate::advice;
use crate::directory::{DocumentSummary, RunDirectory};
use crate::error::RecordError;
use crate::ipc::file::TableSummary;
use crate::json_lines::check_plain;
use crate::missing::MissingRows;
use crate::removed::RemovedTables;
use crate::replay_record::ReplayRecord;
use crate::table::Table;

/// Version of this file's form.
pub const FORMAT: u32 = 1;

/// Where a recorded run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunRecordState {
    /// It is being written, or its writer was killed.
    #[default]
    Running,
    /// It ended as asked.
    Stopped,
    /// It ended by an error; what is on file is whole.
    Failed,
    /// Its writer was killed, and `recover` has put its files in order.
    Recovered,
}

impl RunRecordState {
    /// The word in files and on the page.
    pub const fn word(self) -> &'static str {
        match self {
            RunRecordState::Running => "running",
            RunRecordState::Stopped => "stopped",
            RunRecordState::Failed => "failed",
            RunRecordState::Recovered => "recovered",
        }
    }
}

/// The record of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// Version of this form.
    pub format: u32,
    /// Where it stands.
    pub state: RunRecordState,
    /// The run's number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Words about it, by whoever started it.
    pub comment: String,
    /// When it started, UTC, as `2026-11-21T02:18:04.123Z`.
    pub started: String,
    /// When it ended; empty while it runs.
    pub stopped: String,
    /// Versions of the program and its parts.
    pub versions: BTreeMap<String, String>,
    /// Names of the sources, by number.
    pub sources: Vec<String>,
    /// The channels of each source that gives hits, by its name: they are disjoint, so that the channel of a hit says which source it
    /// came from. Empty of older runs, and where they are not disjoint.
    pub channels: BTreeMap<String, ChannelsRecord>,
    /// The configuration as the user wrote it; of a replay, with the sections that were replaced.
    pub configuration: String,
    /// Of a node of a run with readout and builder units: which run that is. Other runs, and older ones, have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityRecord>,
    /// Of a replay: which run was read again, and what was done otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRecord>,
    /// The tables that it keeps by its configuration, from its start on: of a run that was killed, only this says which there were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_tables: Vec<String>,
    /// What the files hold.
    pub tables: Vec<TableSummary>,
    /// Files beside the tables, such as spectra.
    pub documents: Vec<DocumentSummary>,
    /// The numbers each cut was given and kept, in the order of the configuration.
    pub cuts: Vec<CutRecord>,
    /// Events that were made of hits, of a run with coincidence.
    pub coincidences: Option<CoincidenceRecord>,
    /// The ledger at the end.
    pub ledger: Option<LedgerRecord>,
    /// Tables that were removed since, by the policy on old runs.
    pub removed: Option<RemovedTables>,
    /// Rows that were on file and are not any more, of a run that was recovered.
    pub missing: Vec<MissingRows>,
    /// What happened to the run, for people: why it failed, what was recovered.
    pub remarks: Vec<String>,
    /// What the room that ran it wants to keep beside: signals of boards, the resolved plan, host facts.
    pub details: BTreeMap<String, serde_json::Value>,
}

/// Which run a node belongs to. Nodes of one run have the same words and digest, and know the same event managers: each of them one
/// at least that another one knows, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdentityRecord {
    /// The run, in words of its operator (`[run] identity`); empty where nobody said.
    pub run: String,
    /// Digest of what all nodes are configured with alike, in hexadecimal.
    pub configuration: String,
    /// The node; empty where one process hosts all.
    pub node: String,
    /// When this node was started, nanoseconds since 1970: another one after each start.
    pub started_ns: u64,
    /// The epochs of the event managers that it knows, ascending: each about the time of its start, nanoseconds since 1970.
    pub managers: Vec<u64>,
}

impl IdentityRecord {
    /// Whether it says to which run the node belongs.
    pub fn is_known(&self) -> bool {
        !self.run.is_empty() || !self.managers.is_empty()
    }

    /// Adds event managers.
    pub fn add_managers(&mut self, epochs: impl IntoIterator<Item = u64>) {
        self.managers.extend(epochs);
        self.managers.sort_unstable();
        self.managers.dedup();
    }

    /// Whether both say by themselves that they are of one run.
    pub fn is_of_run_of(&self, other: &IdentityRecord) -> bool {
        let is_named = !self.run.is_empty() && self.configuration == other.configuration;
        is_named && self.run == other.run || self.managers.iter().any(|epoch| other.managers.contains(epoch))
    }

    /// Whether both are of one start of one node: one directory is a copy of the other.
    pub fn is_copy_of(&self, other: &IdentityRecord) -> bool {
        self.started_ns > 0 && (self.started_ns, &self.node) == (other.started_ns, &other.node)
    }
}

impl std::fmt::Display for IdentityRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.run.is_empty() {
            return write!(f, "the run \"{}\"", self.run);
        }
        let managers = self.managers.iter().map(|epoch| utc_text(UNIX_EPOCH + Duration::from_nanos(*epoch)));
        write!(f, "the event manager of {}", managers.collect::<Vec<_>>().join(", "))
    }
}

/// The channels of one source: `first` to `first + count - 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelsRecord {
    /// The first one.
    pub first: u16,
    /// How many there are.
    pub count: u16,
}

/// The result of one cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CutRecord {
    /// Its name.
    pub name: String,
    /// The kind of item it judges: `hit` or `event`.
    pub on: String,
    /// The number it was given.
    #[serde(rename = "in")]
    pub input: u64,
    /// The number it kept.
    pub kept: u64,
}

/// The events that were made of hits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoincidenceRecord {
    /// Events that were made.
    pub made: u64,
    /// Those that passed the cuts on events.
    pub kept: u64,
    /// Those that were closed early because they grew too long.
    pub cut_short: u64,
    /// How many were made of each multiplicity, from 0; the last entry stands for all that are as large or larger.
    pub multiplicity: Vec<u64>,
}

/// The ledger of a run as its file has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerRecord {
    /// Whether both balance equations held everywhere.
    pub closed: bool,
    /// Where they did not.
    pub discrepancies: Vec<String>,
    /// Every counter slot.
    pub entries: Vec<EntriesRecord>,
    /// Every loss: source, stage, reason, unit, count, quality.
    pub losses: serde_json::Value,
    /// Who feeds whom: what the entries are held against. Older runs have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
}

/// One unit of one counter slot, as [`thalweg_data::ledger::Entries`] but readable from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntriesRecord {
    /// Name of the source.
    pub source: String,
    /// Word of the stage.
    pub stage: String,
    /// Word of the unit.
    pub unit: String,
    /// Came in.
    #[serde(rename = "in")]
    pub input: u64,
    /// Passed on.
    #[serde(rename = "out")]
    pub output: u64,
    /// Framing that has done its work.
    pub overhead: u64,
    /// Left out on request.
    pub filtered: u64,
    /// In the stage's containers.
    pub held: u64,
    /// On the wire, what sequence numbers were found to lack.
    pub gap_opened: u64,
    /// Of that, what has come all the same.
    pub gap_filled: u64,
    /// Lost, by reason; of gaps, what is still missing.
    pub lost: BTreeMap<String, u64>,
    /// Noted beside what became of them: late but kept, unseen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub noted: BTreeMap<String, u64>,
}

impl RunRecord {
    /// The record of a run that starts now.
    pub fn start(
        directory: &RunDirectory,
        title: &str,
        configuration: &str,
        sources: &[String],
    ) -> RunRecord {
        let versions = [
            ("thalweg".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("tables".to_owned(), crate::table::FORMAT.to_owned()),
        ];
        RunRecord {
            format: FORMAT,
            number: directory.number(),
            title: title.to_owned(),
            started: utc_text(SystemTime::now()),
            versions: versions.into_iter().collect(),
            sources: sources.to_vec(),
            configuration: configuration.to_owned(),
            ..RunRecord::default()
        }
    }

    /// Name of the source that gave the hits of a channel; `None` where no source has it, and of runs that do not say.
    pub fn source_of(&self, channel: u16) -> Option<&str> {
        let has = |channels: &ChannelsRecord| {
            channel.checked_sub(channels.first).is_some_and(|offset| offset < channels.count)
        };
        self.channels.iter().find(|(_, channels)| has(channels)).map(|(name, _)| name.as_str())
    }

    /// Completes the record of a run that ends now.
    pub fn stop(
        &mut self,
        state: RunRecordState,
        tables: Vec<TableSummary>,
        snapshot: Option<&LedgerSnapshot>,
    ) {
        self.state = state;
        self.stopped = utc_text(SystemTime::now());
        self.tables = tables;
        self.ledger = snapshot.map(LedgerRecord::of);
    }

    /// Writes the record, in place of an older one, and forces it to the disk.
    ///
    /// # Errors
    /// When the disk is full or fails; the older one stands then.
    pub fn write(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let path = directory.run_record();
        directory.replace(&path, &self.text(&path)?)
    }

    /// As [`RunRecord::write`], on a disk that is full, into a file that was kept for it.
    pub(crate) fn write_within(&self, reserve: &Path, directory: &RunDirectory) -> Result<(), RecordError> {
        let path = directory.run_record();
        directory.replace_within(reserve, &path, &self.text(&path)?)
    }

    fn text(&self, path: &Path) -> Result<Vec<u8>, RecordError> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|cause| RecordError::io(path, "putting the run into words", cause.into()))?;
        text.push(b'\n');
        Ok(text)
    }

    /// Reads the record of a run.
    ///
    /// # Errors
    /// When the file is missing, is no plain file, or is not such a record.
    pub fn read(path: &Path) -> Result<RunRecord, RecordError> {
        check_plain(path)?;
        let text = fs::read(path).map_err(|cause| RecordError::io(path, "reading", cause))?;
        let damaged = |found| RecordError::Damaged { path: path.to_owned(), offset: 0, found };
        let record: RunRecord = serde_json::from_slice(&text)
            .map_err(|cause| damaged(format!("not the record of a run: {cause}")))?;
        let counts = record.ledger.iter().flat_map(|ledger| &ledger.entries).flat_map(EntriesRecord::all);
        match counts.filter(|count| *count > MOST_COUNT).max() {
            Some(count) => Err(damaged(format!("a count of {count} in the ledger, more than any run has"))),
            None => Ok(record),
        }
    }
}

impl EntriesRecord {
    /// Every count in it.
    fn all(&self) -> impl Iterator<Item = u64> {
        let EntriesRecord { input, output, overhead, filtered, held, gap_opened, gap_filled, .. } = *self;
        let named = self.lost.values().chain(self.noted.values()).copied();
        [input, output, overhead, filtered, held, gap_opened, gap_filled].into_iter().chain(named)
    }

    /// Came in, and was not left out on request.
    fn came(&self) -> u64 {
        self.input.saturating_sub(self.filtered)
    }

    /// Lost, for whatever reason.
    pub(crate) fn all_lost(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Whether it was counted by a stage that does this.
    pub(crate) fn is_at(&self, role: StageRole) -> bool {
        Stage::from_word(&self.stage).is_some_and(|stage| stage.role() == role)
    }

    /// The same as the ledger has it; what a newer program has counted and this one does not know is left out.
    fn counts(&self) -> UnitCounts {
        let lost =
            self.lost.iter().filter_map(|(word, count)| Some((LossReason::of_file(word).ok()?, *count)));
        let noted = self.noted.iter().filter_map(|(word, count)| Some((Noted::from_word(word)?, *count)));
        let EntriesRecord { input, output, overhead, filtered, held, gap_filled, .. } = *self;
        let (lost, noted) = (lost.collect(), noted.collect());
        UnitCounts { input, output, overhead, filtered, held, gap_filled, lost, noted }
    }
}

impl RunRecord {
    /// Rows of all files of a table, as the record has them; `None` when it has no such file.
    pub fn rows_of(&self, table: Table) -> Option<u64> {
        self.sum_of(table, |found| found.rows)
    }

    /// Hits, events or fragments of a table of a recovered run; of the table `coincidences`, whose rows are hits, coincidences. The records
    /// of older versions have their hits alone: as many at most. 0 of a table that `recover` has found gone; `None` where there was none.
    pub(crate) fn on_file(&self, table: Table) -> Option<u64> {
        let is_gone = || self.missing.iter().any(|missing| missing.table == table.word());
        let on_file = self.sum_of(table, |found| found.coincidences.unwrap_or(found.rows));
        on_file.or_else(|| is_gone().then_some(0))
    }

    fn sum_of(&self, table: Table, count: fn(&TableSummary) -> u64) -> Option<u64> {
        let mut files = self.tables.iter().filter(|found| found.table == table.word()).peekable();
        files.peek()?;
        Some(files.map(count).fold(0, u64::saturating_add))
    }

    /// How long it took data, in seconds; `None` where its record does not say.
    pub fn seconds(&self) -> Option<f64> {
        self.details.get("elapsed_seconds").and_then(serde_json::Value::as_f64)
    }

    /// Losses that are not in the ledger: hits recorded late, triggers that came from no board, bytes that could not be read.
    pub fn beside_the_ledger(&self) -> Vec<String> {
        let lines = [
            ("hits_late", "hits came too late for the time order; they are recorded, flagged `late`"),
            ("triggers_unseen", "trigger numbers came from no board"),
            ("bytes_unread", "bytes unread in damaged files"),
        ];
        let noted = lines.into_iter().filter(|(key, _)| self.detail_count(key) > 0);
        noted.map(|(key, words)| format!("{} {words}", self.detail_count(key))).collect()
    }

    pub(crate) fn detail_count(&self, key: &str) -> u64 {
        self.details.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0)
    }
}

impl LedgerRecord {
    /// The ledger, as a file has them.
    pub fn of(snapshot: &LedgerSnapshot) -> LedgerRecord {
        let discrepancies: Vec<String> = snapshot.discrepancies().iter().map(ToString::to_string).collect();
        let words = serde_json::to_value(snapshot.entries()).ok();
        LedgerRecord {
            closed: discrepancies.is_empty(),
            discrepancies,
            entries: words.and_then(|words| serde_json::from_value(words).ok()).unwrap_or_default(),
            losses: serde_json::to_value(advice::losses(snapshot)).unwrap_or_default(),
            topology: snapshot.topology.as_deref().cloned(),
        }
    }

    /// The ledger again, of a run that is over.
    pub fn snapshot(&self) -> LedgerSnapshot {
        let topology = self.topology.clone().map(Arc::new);
        let names = topology.as_ref().map(|topology| topology.names());
        let legacy = topology.is_none();
        let mut snapshot =
            LedgerSnapshot { topology, legacy, ..LedgerSnapshot::of(names.unwrap_or_default(), Vec::new()) };
        for row in &self.entries {
            let (Some(stage), Some(unit)) = (Stage::of_file(&row.stage).ok(), Unit::from_word(&row.unit))
            else {
                continue;
            };
            let known = snapshot.sources.iter().position(|name| *name == row.source);
            let source = SourceId(known.unwrap_or(snapshot.sources.len()) as u16);
            if known.is_none() {
                snapshot.sources.push(row.source.clone());
            }
            let open = |own: &CounterSnapshot| (own.source, own.stage) == (source, stage);
            let place = snapshot.slots.iter().rposition(open).unwrap_or_else(|| {
                snapshot.slots.push(CounterSnapshot {
                    stage,
                    source,
                    units: 0,
                    counters: Counters::default(),
                });
                snapshot.slots.len() - 1
            });
            let CounterSnapshot { units, counters, .. } = &mut snapshot.slots[place];
            *units |= 1 << unit as u32;
            counters.restore(unit, &row.counts());
        }
        snapshot.slots.sort_by_key(|slot| (slot.source, slot.stage));
        snapshot
    }

    /// The same of recorded events: of those of the table `events`, or of those that were made of hits, `coincidences`. The
    /// latter are accounted for under a name of their own, and come the way of hits.
    pub(crate) fn total_events(&self, table: Table, entry: impl Fn(&EntriesRecord) -> u64) -> Option<u64> {
        let flow_path = if table == Table::Coincidences { FlowPath::Hits } else { FlowPath::Events };
        let snapshot = self.snapshot();
        let recorded = snapshot.recorded_events(flow_path).into_iter();
        let recorded: BTreeSet<(&str, &str)> =
            recorded.map(|own| (snapshot.sources[own.source.index()].as_str(), own.stage.word())).collect();
        self.sum(entry, |row| {
            row.unit == Unit::Events.word() && recorded.contains(&(&row.source[..], &row.stage[..]))
        })
    }

    /// How many rows had come to the recording for this table: hits, coincidences or events; of the table `raw`, how many bytes. What was
    /// left out on request had not.
    pub(crate) fn came_to(&self, table: Table) -> Option<u64> {
        self.at_recording(table, EntriesRecord::came)
    }

    /// How many payload bytes had come to the recording for this table, `raw` or `fragments`.
    pub(crate) fn payload_came_to(&self, table: Table) -> Option<u64> {
        self.payload(table, EntriesRecord::came)
    }

    /// How many of these are not among the `on_file` bytes of it.
    pub(crate) fn payload_not_on_file(&self, table: Table, on_file: u64) -> Option<u64> {
        self.payload_came_to(table).map(|came| came.saturating_sub(on_file))
    }

    /// How many of these were counted as lost there.
    pub(crate) fn payload_lost(&self, table: Table) -> u64 {
        self.payload(table, EntriesRecord::all_lost).unwrap_or(0)
    }

    fn payload(&self, table: Table, entry: impl Fn(&EntriesRecord) -> u64) -> Option<u64> {
        let role = if table == Table::Raw { StageRole::Raw } else { StageRole::Recording };
        self.total(role, Unit::Bytes, entry)
    }

    /// How many of these are neither among the `on_file` hits, coincidences, events or bytes of the table nor were `removed` with it
    /// since; `None` where that is not known.
    pub(crate) fn not_on_file(
        &self,
        table: Table,
        on_file: u64,
        removed: Option<&RemovedTables>,
    ) -> Option<u64> {
        // Rows of `coincidences` are hits, and those of `raw` datagrams: how much was removed is not known any more.
        let is_of_rows = !matches!(table, Table::Coincidences | Table::Raw);
        if !is_of_rows && removed.is_some_and(|removed| removed.has(table)) {
            return None;
        }
        let removed = removed.map_or(0, |removed| removed.rows_of(table));
        self.came_to(table).map(|came| came.saturating_sub(on_file).saturating_sub(removed))
    }

    /// The sum of one entry over all recordings of hits, coincidences, events or bytes into this table.
    pub(crate) fn at_recording(&self, table: Table, entry: impl Fn(&EntriesRecord) -> u64) -> Option<u64> {
        match table {
            Table::Hits => self.total(StageRole::Recording, Unit::Hits, entry),
            Table::Fragments => self.total(StageRole::Recording, Unit::Fragments, entry),
            Table::Raw => self.payload(table, entry),
            _ => self.total_events(table, entry),
        }
    }

    /// The sum over all sources of one entry, where stages that do this count that unit at all.
    pub(crate) fn total(
        &self,
        role: StageRole,
        unit: Unit,
        entry: impl Fn(&EntriesRecord) -> u64,
    ) -> Option<u64> {
        self.sum(entry, |row| row.unit == unit.word() && row.is_at(role))
    }

    fn sum(
        &self,
        entry: impl Fn(&EntriesRecord) -> u64,
        takes: impl Fn(&EntriesRecord) -> bool,
    ) -> Option<u64> {
        let mut found = self.entries.iter().filter(|row| takes(row)).peekable();
        found.peek().is_some().then(|| found.map(entry).sum())
    }
}

/// UTC to the millisecond, as in RFC 3339; the start of 1970 for a time beyond year 9999.
pub fn utc_text(time: SystemTime) -> String {
    format!("{:.3}", jiff::Timestamp::try_from(time).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_reported_as_people_write_them() {
        let text = |seconds: u64| utc_text(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(text(1_795_227_484), "2026-11-21T02:18:04.000Z");
        assert_eq!(
            utc_text(UNIX_EPOCH + Duration::from_micros(1_999_999)),
            "1970-01-01T00:00:01.999Z",
            "not rounded up"
        );
        assert_eq!(utc_text(UNIX_EPOCH - Duration::from_millis(1)), "1969-12-31T23:59:59.999Z");
        assert_eq!(text(u64::from(u32::MAX) << 20), text(0), "no year that the calendar has");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_record_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("run.json");
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("no zero byte");
        // SAFETY: `name` ends with a zero byte and outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let error = RunRecord::read(&path).expect_err("a pipe").to_string();
        assert!(
            error.ends_with("run.json: is no plain file, and is neither read nor written; move it away"),
            "{error}"
        );
        let of_folder = RunRecord::read(folder.path()).expect_err("a directory").to_string();
        assert!(of_folder.contains("is no plain file"), "{of_folder}");
    }

    #[test]
    fn a_record_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let directory = RunDirectory::create(folder.path(), "test").expect("made");
        let mut record = RunRecord::start(&directory, "test", "[run]\n", &["left".to_owned()]);
        record.write(&directory).expect("written");
        assert_eq!(RunRecord::read(&directory.run_record()).expect("read").state, RunRecordState::Running);
        record.stop(RunRecordState::Stopped, Vec::new(), Some(&LedgerSnapshot::default()));
        record.write(&directory).expect("written");
        assert_eq!(RunRecord::read(&directory.run_record()).expect("read"), record);
        assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 1);
    }

    #[test]
    fn a_record_with_impossible_counts_is_damaged() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let directory = RunDirectory::create(folder.path(), "test").expect("made");
        let mut record = RunRecord::start(&directory, "test", "[run]\n", &["left".to_owned()]);
        let lost = BTreeMap::from([("late".to_owned(), MOST_COUNT + 1)]);
        let entries = vec![EntriesRecord { lost, ..EntriesRecord::default() }];
        record.ledger = Some(LedgerRecord { entries, ..LedgerRecord::default() });
        record.write(&directory).expect("written");
        let error = RunRecord::read(&directory.run_record()).expect_err("damaged").to_string();
        assert!(
            error.contains("a count of 9007199254740993 in the ledger, more than any run has"),
            "{error}"
        );
    }
}
