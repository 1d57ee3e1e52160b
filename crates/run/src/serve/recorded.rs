//! Runs that were recorded, as the page lists them.
//!
//! ```text
//!  runs directory ─► run.json of each ─► number, title, comment, counts, whether its ledger balanced
//!                      notes.jsonl ─► what the operator wrote
//! ```

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use thalweg_data::Quality;
use thalweg_data::ledger::LossTotal;
use thalweg_monitor::{RecordedRun, RemovedData, RequestRefused, RunFile, RunNote};
use thalweg_record::catalogue::check_label;
use thalweg_record::{LabelChange, Note, RemovedTables, RunDirectory, RunRecord, RunRecordState, Table};
use thalweg_ship::message::Identity;

use crate::observed::Observed;
use crate::preview::preview;
use crate::supervise::LiveState;

fn refused(error: impl std::fmt::Display) -> RequestRefused {
    RequestRefused::new(error.to_string(), "look whether `[record] directory` is there and can be read")
}

/// All runs, newest first. Before the first there is no directory, and no run.
pub(super) fn list(
    directory: &Path,
    present: &LiveState,
    observed: Option<&Observed>,
    lines: &mut KnownLines,
) -> Result<Vec<RecordedRun>, RequestRefused> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let runs = RunDirectory::list(directory).map_err(refused)?;
    let here: HashSet<String> = runs.iter().map(RunDirectory::name).collect();
    lines.0.retain(|name, _| here.contains(name));
    Ok(runs.iter().rev().map(|run| shown_now(run, lines.line(run), present, observed)).collect())
}

/// Lines of runs that are over, as they were read last: the list is asked for again and again, and may have thousands of runs.
#[derive(Default)]
pub(super) struct KnownLines(HashMap<String, (LineStamp, RecordedRun)>);

/// What shows that the line of a run may have changed: its directory, in which files come and go, and the files that the line is of.
#[derive(Clone, PartialEq, Eq)]
struct LineStamp([Option<Identity>; 4]);

impl LineStamp {
    fn of(run: &RunDirectory) -> LineStamp {
        let of = |path: PathBuf| Some(Identity::of(&std::fs::metadata(path).ok()?));
        LineStamp([
            of(run.path().to_owned()),
            of(run.run_record()),
            of(run.path().join("notes.jsonl")),
            of(run.labels()),
        ])
    }
}

impl KnownLines {
    fn line(&mut self, run: &RunDirectory) -> RecordedRun {
        // The stamp first: what changes while the files are read is read again.
        let stamp = LineStamp::of(run);
        if let Some((_, line)) = self.0.get(&run.name()).filter(|(known, _)| *known == stamp) {
            return line.clone();
        }
        let line = line(run);
        // The files of one that is under way, or was killed, grow without a sign of it.
        let is_over = line.state != RunRecordState::Running.word() && line.state != UNREADABLE;
        match is_over {
            true => _ = self.0.insert(run.name(), (stamp, line.clone())),
            false => _ = self.0.remove(&run.name()),
        }
        line
    }
}

/// One run with its record; the name is looked for among those that there are.
pub(super) fn one(
    directory: &Path,
    name: &str,
    present: &LiveState,
    observed: Option<&Observed>,
) -> Result<Option<RecordedRun>, RequestRefused> {
    let Some(run) = find(directory, name)? else { return Ok(None) };
    let record = RunRecord::read(&run.run_record()).ok();
    let record = record.map(serde_json::to_value).transpose().map_err(refused)?;
    let record = record.and_then(|record| record.as_object().cloned());
    Ok(Some(RecordedRun {
        record,
        path: Some(run.path().display().to_string()),
        files: Some(files(&run)),
        ..listed(&run, present, observed)
    }))
}

/// Replaces the comment of a run that is over.
pub(super) fn comment(
    directory: &Path,
    name: &str,
    text: &str,
    present: &LiveState,
) -> Result<(), RequestRefused> {
    // A record is read and written as a whole: two at a time would undo each other.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let run = finished(directory, name, present)?;
    let mut record = RunRecord::read(&run.run_record()).map_err(refused)?;
    if record.state == RunRecordState::Running {
        // Nobody knows yet that it begins, and it writes its record itself.
        let error = format!("run {name} has not ended, by its record");
        return Err(RequestRefused::new(
            error,
            "wait for its end; if its program was killed, `thalweg recover` ends it",
        ));
    }
    record.comment = text.to_owned();
    record.write(&run).map_err(refused)
}

/// Changes the labels of a run, under way or over.
pub(super) fn label(
    directory: &Path,
    name: &str,
    added: &[String],
    removed: &[String],
) -> Result<(), RequestRefused> {
    let is_label = |word: &String| {
        check_label(word).map_err(|why| RequestRefused::new(format!("\"{word}\" cannot be a label"), why))
    };
    added.iter().try_for_each(is_label)?;
    let run = existing(directory, name)?;
    let run = RunDirectory::open(run.path()).map_err(refused)?;
    LabelChange::add(&run, "", added, removed).map(drop).map_err(refused)
}

/// Adds a note to a run, under way or over.
pub(super) fn add_note(directory: &Path, name: &str, text: &str) -> Result<(), RequestRefused> {
    let run = existing(directory, name)?;
    let run = RunDirectory::open(run.path()).map_err(refused)?;
    Note::add(&run, text, "").map(drop).map_err(refused)
}

/// The notes that wait for the next run.
pub(super) fn notes_for_next(directory: &Path) -> Result<Vec<RunNote>, RequestRefused> {
    Ok(Note::all_for_next(directory).map_err(refused)?.into_iter().map(shown).collect())
}

/// Adds a note for the next run.
pub(super) fn add_note_for_next(directory: &Path, text: &str) -> Result<(), RequestRefused> {
    Note::add_for_next(directory, text, "").map(drop).map_err(refused)
}

/// Checks every file of a run that is over.
pub(super) fn verify(directory: &Path, name: &str, present: &LiveState) -> Result<Value, RequestRefused> {
    let run = finished(directory, name, present)?;
    let report = thalweg_record::verify(run.path()).map_err(refused)?;
    serde_json::to_value(report).map_err(refused)
}

fn finished(directory: &Path, name: &str, present: &LiveState) -> Result<RunDirectory, RequestRefused> {
    let run = existing(directory, name)?;
    match is_under_way(&run, present) {
        true => Err(RequestRefused::new(format!("run {name} is being recorded"), "wait for its end")),
        // Held, so that its tables are not removed meanwhile.
        false => RunDirectory::open(run.path()).map_err(refused),
    }
}

fn existing(directory: &Path, name: &str) -> Result<RunDirectory, RequestRefused> {
    let missing =
        || RequestRefused::new(format!("there is no run {name}"), "the list of runs says which there are");
    find(directory, name)?.ok_or_else(missing)
}

fn find(directory: &Path, name: &str) -> Result<Option<RunDirectory>, RequestRefused> {
    if !directory.exists() {
        return Ok(None);
    }
    let runs = RunDirectory::list(directory).map_err(refused)?;
    Ok(runs.into_iter().find(|run| run.name() == name))
}

fn is_under_way(run: &RunDirectory, present: &LiveState) -> bool {
    let is_present = run.path() == Path::new(&present.run_directory);
    is_present && !matches!(present.state.word(), "stopped" | "failed")
}

/// A run's line. What its record will say at the end is known before of the one under way.
fn listed(run: &RunDirectory, present: &LiveState, observed: Option<&Observed>) -> RecordedRun {
    shown_now(run, line(run), present, observed)
}

fn shown_now(
    run: &RunDirectory,
    line: RecordedRun,
    present: &LiveState,
    observed: Option<&Observed>,
) -> RecordedRun {
    if !is_under_way(run, present) {
        return line;
    }
    let known = present.loss.iter().all(|total| total.quality == Quality::Exact);
    RecordedRun {
        state: present.state.word().to_owned(),
        seconds: Some(present.elapsed_seconds),
        hits: present.hits_recorded,
        events: present.events.as_ref().map_or(0, |events| events.events_recorded),
        lost: if known { lost_of(&present.loss) } else { None },
        loss: Some(present.loss.clone()),
        preview: observed.and_then(|observed| preview(&observed.spectra)),
        ..line
    }
}

/// Hits, or fragments of a run without hits; where none of these are lost, events or coincidences.
fn lost_of(totals: &[LossTotal]) -> Option<u64> {
    let counts = || totals.iter().map(|total| total.known.count);
    counts().find(|count| *count > 0).or_else(|| counts().next())
}

/// The state of a run whose record cannot be read.
const UNREADABLE: &str = "unreadable";

fn line(run: &RunDirectory) -> RecordedRun {
    let known = RecordedRun {
        name: run.name(),
        number: run.number(),
        bytes: RunDirectory::bytes_in(run.path()),
        notes: notes(run),
        labels: labels(run),
        ..RecordedRun::default()
    };
    let Ok(record) = RunRecord::read(&run.run_record()) else {
        return RecordedRun { state: UNREADABLE.to_owned(), ..known };
    };
    let loss = record.loss_report().map(|report| report.totals);
    let is_known = |totals: &&Vec<LossTotal>| totals.iter().all(|total| total.quality == Quality::Exact);
    RecordedRun {
        state: record.state.word().to_owned(),
        seconds: record.seconds(),
        hits: record.rows_of(Table::Hits).unwrap_or(0),
        events: record.rows_of(Table::Events).unwrap_or(0),
        // A number only where it is known; in words, with how well, in `loss`.
        lost: loss.as_ref().filter(is_known).and_then(|totals| lost_of(totals)),
        loss,
        ledger_closed: record.ledger.as_ref().map(|ledger| ledger.closed),
        removed: removed(&record, run),
        preview: record.details.get("preview").and_then(|counts| serde_json::from_value(counts.clone()).ok()),
        title: record.title,
        comment: record.comment,
        started: record.started,
        stopped: record.stopped,
        remarks: record.remarks,
        ..known
    }
}

/// Returns what the policy on old runs has removed.
fn removed(record: &RunRecord, run: &RunDirectory) -> Option<RemovedData> {
    record.removed.as_ref()?;
    let RemovedTables { at, why, bytes, rows, .. } = RemovedTables::of(run)?;
    Some(RemovedData { at, why, bytes, rows })
}

/// Returns the notes; a note that cannot be read is replaced by its error, as the list of runs must not fail for it.
fn notes(run: &RunDirectory) -> Vec<RunNote> {
    match Note::all_of(run) {
        Ok(notes) => notes.into_iter().map(shown).collect(),
        Err(error) => vec![RunNote { text: error.to_string(), ..RunNote::default() }],
    }
}

/// Returns the labels; none where they cannot be read, as the list of runs must not fail for them.
fn labels(run: &RunDirectory) -> Vec<String> {
    let changes = LabelChange::all_of(run).unwrap_or_default().0;
    LabelChange::labels(&changes).into_iter().collect()
}

fn shown(Note { time, text, author }: Note) -> RunNote {
    RunNote { time, text, author }
}

fn files(run: &RunDirectory) -> Vec<RunFile> {
    let Ok(entries) = std::fs::read_dir(run.path()) else { return Vec::new() };
    let mut files: Vec<RunFile> = entries
        .flatten()
        .filter_map(|entry| {
            let bytes = entry.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
            Some(RunFile { name: entry.file_name().to_string_lossy().into_owned(), bytes })
        })
        .collect();
    files.sort_by(|one, other| one.name.cmp(&other.name));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_run_that_begins_is_left_to_it() {
        let parent = tempfile::tempdir().expect("a folder");
        let directory = RunDirectory::create(parent.path(), "").expect("made");
        let mut record = RunRecord::start(&directory, "", "", &[]);
        record.write(&directory).expect("written");
        // The state that is known is still that of the run before.
        let ask = || comment(parent.path(), &directory.name(), "good", &LiveState::default());
        let refusal = ask().expect_err("it has not ended").error;
        assert!(refusal.contains("has not ended"), "{refusal}");
        record.stop(RunRecordState::Stopped, Vec::new(), None);
        record.write(&directory).expect("written");
        ask().expect("it has");
        assert_eq!(RunRecord::read(&directory.run_record()).expect("whole").comment, "good");
    }
}
