//! One run, as the catalogue has it.
//!
//! ```text
//!  run.json, labels.jsonl, notes.jsonl, whether somebody has it open ─► RunEntry
//! ```

use std::thread;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thalweg_data::Ledger;
use thalweg_data::ledger::LossTotal;

use super::labels::LabelChange;
use crate::directory::RunDirectory;
use crate::directory_lock::DirectoryLock;
use crate::error::RecordError;
use crate::json_lines;
use crate::notes::Note;
use crate::replay_record::ReplayRecord;
use crate::run_record::{LedgerRecord, RunRecord, RunRecordState};
use crate::table::Table;

/// How often, and how long apart, a lock is tried for: another program may look at the same moment.
const TRIES: u32 = 4;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// Where a run stands, as far as that can be seen from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// Its record says so, and a program has it open.
    Running,
    /// It ended as asked.
    Ended,
    /// It ended by an error; what is on file is whole.
    Failed,
    /// Its record says that it runs, and no program has it open.
    Killed,
    /// It was killed, and `recover` has put its files in order.
    Recovered,
    /// Its record says that it runs; whether that is so is not known, for its file system has no locks.
    RunningOrKilled,
    /// Its record is damaged.
    Damaged,
    /// Its record cannot be read.
    Unreadable,
    /// It has no record: it begins at this moment, or the record was lost.
    #[default]
    NoRecord,
}

impl EntryState {
    /// All of them.
    pub const ALL: [EntryState; 9] = [
        EntryState::Running,
        EntryState::Ended,
        EntryState::Failed,
        EntryState::Killed,
        EntryState::Recovered,
        EntryState::RunningOrKilled,
        EntryState::Damaged,
        EntryState::Unreadable,
        EntryState::NoRecord,
    ];

    /// In words.
    pub const fn word(self) -> &'static str {
        match self {
            EntryState::Running => "running",
            EntryState::Ended => "ended",
            EntryState::Failed => "failed",
            EntryState::Killed => "killed",
            EntryState::Recovered => "recovered",
            EntryState::RunningOrKilled => "running or killed",
            EntryState::Damaged => "damaged",
            EntryState::Unreadable => "unreadable",
            EntryState::NoRecord => "no record",
        }
    }

    /// Whether what the catalogue has of the run follows from its files alone, and holds until one of them changes.
    pub(super) const fn is_settled(self) -> bool {
        matches!(self, EntryState::Ended | EntryState::Failed | EntryState::Recovered | EntryState::Damaged)
    }
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunEntry {
    /// Its number.
    pub number: u64,
    /// The name of its directory.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Words about it, by whoever started it.
    pub comment: String,
    /// Where it stands.
    pub state: EntryState,
    /// When it started, UTC, as `2026-11-21T02:18:04.123Z`; empty where that is not known.
    pub started: String,
    /// When it ended; empty where it has not.
    pub stopped: String,
    /// How long it took data, seconds; of one that runs, so far. `None` where its record does not say.
    pub seconds: Option<f64>,
    /// Hits that it has recorded; `None` where it records none.
    pub hits: Option<u64>,
    /// Events that it has recorded; `None` where it records none.
    pub events: Option<u64>,
    /// Bytes of its files.
    pub bytes: u64,
    /// What it has lost, as its own ledger says it; of one that runs, so far. `None` where there is no ledger, or it ended too soon.
    pub loss: Option<Vec<LossTotal>>,
    /// Of a replay: which run was read again, and what was done otherwise.
    pub replay: Option<ReplayRecord>,
    /// Tables that the policy on old runs has removed, in words.
    pub removed: Option<String>,
    /// Names of its sources.
    pub sources: Vec<String>,
    /// Its labels, in order of the alphabet.
    pub labels: Vec<String>,
    /// Its notes, oldest first.
    pub notes: Vec<Note>,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

impl RunEntry {
    /// Reads a run, as far as it can be read. Whoever has it open calls it running: `run` must be a directory that is not locked.
    pub fn read(run: &RunDirectory) -> RunEntry {
        let mut entry = RunEntry {
            number: run.number(),
            name: run.name(),
            bytes: RunDirectory::bytes_in(run.path()),
            ..RunEntry::default()
        };
        let path = run.run_record();
        match json_lines::check_plain(&path).and_then(|()| RunRecord::read(&path)) {
            Ok(record) => entry.take_record(run, record),
            Err(error) => entry.take_error(run, &error),
        }
        match Note::all_of(run) {
            Ok(notes) => entry.notes = notes,
            Err(error) => entry.problems.push(error.to_string()),
        }
        match LabelChange::all_of(run) {
            Ok((changes, damaged)) => {
                entry.labels = LabelChange::labels(&changes).into_iter().collect();
                if damaged > 0 {
                    let path = run.labels();
                    entry.problems.push(format!("{}: {damaged} damaged lines are left out", path.display()));
                }
            }
            Err(error) => entry.problems.push(error.to_string()),
        }
        entry
    }

    /// Whether it has lost something; of one that was killed, nobody knows.
    pub fn has_losses(&self) -> bool {
        let lost = self.loss.iter().flatten().any(|total| !total.is_none());
        lost || self.state == EntryState::Killed
    }

    fn take_record(&mut self, run: &RunDirectory, mut record: RunRecord) {
        self.state = state_of(run, &record);
        self.hits = record.rows_of(Table::Hits);
        self.events = record.rows_of(Table::Events);
        self.seconds = record.seconds();
        match self.state {
            EntryState::Running => self.take_ledger_so_far(run, &mut record),
            // Until it is recovered, its ledger is of some moment before its end.
            EntryState::Killed | EntryState::RunningOrKilled => {}
            _ => self.loss = record.loss_report().map(|report| report.totals),
        }
        let removed = record.removed.take().map(|removed| removed.gone(run));
        match removed.transpose() {
            Ok(removed) => self.removed = removed.flatten().map(|removed| removed.to_string()),
            Err(error) => self.problems.push(error.to_string()),
        }
        self.replay = record.replay;
        self.title = record.title;
        self.comment = record.comment;
        self.started = record.started;
        self.stopped = record.stopped;
        self.sources = record.sources;
    }

    /// What the ledger of a run has so far: the record has it at the end only.
    fn take_ledger_so_far(&mut self, run: &RunDirectory, record: &mut RunRecord) {
        let started: Option<Timestamp> = record.started.parse().ok();
        let now = Timestamp::try_from(SystemTime::now()).ok();
        self.seconds =
            started.zip(now).map(|(from, until)| until.duration_since(from).as_secs_f64().max(0.0));
        if let Ok(snapshot) = Ledger::read_file(&run.ledger()) {
            let ledger = LedgerRecord::of(&snapshot);
            self.hits = ledger.at_recording(Table::Hits, |row| row.output);
            self.events = ledger.at_recording(Table::Events, |row| row.output);
            record.ledger = Some(ledger);
            self.loss = record.loss_report().map(|report| report.totals);
        }
    }

    fn take_error(&mut self, run: &RunDirectory, error: &RecordError) {
        let is_there = run.run_record().symlink_metadata().is_ok();
        self.state = match error {
            RecordError::Damaged { .. } => EntryState::Damaged,
            _ if is_there => EntryState::Unreadable,
            _ => EntryState::NoRecord,
        };
        let text = match self.state {
            EntryState::NoRecord => format!("{}: has no run.json", run.path().display()),
            _ => error.to_string(),
        };
        // The ledger alone is enough to make a record of.
        let can_recover = self.state != EntryState::Unreadable && run.ledger().exists();
        self.problems.push(if can_recover { format!("{text}; `thalweg recover` rebuilds it") } else { text });
    }
}

fn state_of(run: &RunDirectory, record: &RunRecord) -> EntryState {
    match record.state {
        RunRecordState::Running => open_state(run),
        RunRecordState::Stopped => EntryState::Ended,
        RunRecordState::Failed => EntryState::Failed,
        RunRecordState::Recovered => EntryState::Recovered,
    }
}

/// Whether a program has a run open that runs according to its record. Its writer locks the directory before it writes that
/// record, so that trying the lock takes nothing from a writer that lives.
fn open_state(run: &RunDirectory) -> EntryState {
    // A link leads to the run that it names, and the lock is on that one.
    let Ok(path) = run.path().canonicalize() else { return EntryState::RunningOrKilled };
    for tried in 0..TRIES {
        match DirectoryLock::exclusive(&path) {
            Ok(Some(_free)) => return EntryState::Killed,
            Ok(None) if tried + 1 < TRIES => thread::sleep(BETWEEN_TRIES),
            Ok(None) => break,
            Err(_) => return EntryState::RunningOrKilled,
        }
    }
    EntryState::Running
}
