//! Runs that were recorded, as the page lists them.
//!
//! ```text
//!  runs directory ─► run.json of each ─► number, title, comment, counts, whether its books closed
//! ```

use std::path::Path;

use serde_json::{Value, json};
use thalweg_data::Quality;
use thalweg_data::ledger::LossTotal;
use thalweg_monitor::Refused;
use thalweg_record::{RemovedTables, RunDirectory, RunRecord};

use crate::observed::Observed;
use crate::preview::preview;
use crate::recording::bytes_in;
use crate::supervise::LiveState;

fn refused(error: impl std::fmt::Display) -> Refused {
    Refused::new(error.to_string(), "look whether `[record] directory` is there and can be read")
}

/// All runs, newest first. Before the first there is no directory, and no run.
pub(super) fn list(
    directory: &Path,
    present: &LiveState,
    observed: Option<&Observed>,
) -> Result<Vec<Value>, Refused> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let runs = RunDirectory::list(directory).map_err(refused)?;
    Ok(runs.iter().rev().map(|run| told(run, present, observed)).collect())
}

/// One run with its record; the name is looked for among those that there are.
pub(super) fn one(
    directory: &Path,
    name: &str,
    present: &LiveState,
    observed: Option<&Observed>,
) -> Result<Option<Value>, Refused> {
    let Some(run) = find(directory, name)? else { return Ok(None) };
    let mut one = told(&run, present, observed);
    if let Ok(record) = RunRecord::read(&run.run_record()) {
        one["record"] = serde_json::to_value(record).map_err(refused)?;
    }
    one["files"] = files(&run);
    Ok(Some(one))
}

/// Replaces the comment of a run that is over.
pub(super) fn comment(directory: &Path, name: &str, text: &str, present: &LiveState) -> Result<(), Refused> {
    let run = finished(directory, name, present)?;
    let mut record = RunRecord::read(&run.run_record()).map_err(refused)?;
    record.comment = text.to_owned();
    record.write(&run).map_err(refused)
}

/// Checks every file of a run that is over.
pub(super) fn verify(directory: &Path, name: &str, present: &LiveState) -> Result<Value, Refused> {
    let run = finished(directory, name, present)?;
    let report = thalweg_record::verify(run.path()).map_err(refused)?;
    serde_json::to_value(report).map_err(refused)
}

fn finished(directory: &Path, name: &str, present: &LiveState) -> Result<RunDirectory, Refused> {
    let missing = || Refused::new(format!("there is no run {name}"), "the list of runs says which there are");
    let run = find(directory, name)?.ok_or_else(missing)?;
    match is_under_way(&run, present) {
        true => Err(Refused::new(format!("run {name} is being recorded"), "wait for its end")),
        // Held, so that its tables are not removed meanwhile.
        false => RunDirectory::open(run.path()).map_err(refused),
    }
}

fn find(directory: &Path, name: &str) -> Result<Option<RunDirectory>, Refused> {
    if !directory.exists() {
        return Ok(None);
    }
    let runs = RunDirectory::list(directory).map_err(refused)?;
    Ok(runs.into_iter().find(|run| name_of(run) == name))
}

fn name_of(run: &RunDirectory) -> String {
    run.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_under_way(run: &RunDirectory, present: &LiveState) -> bool {
    let is_present = run.path() == Path::new(&present.run_directory);
    is_present && !matches!(present.state.word(), "stopped" | "failed")
}

/// A run's line. What its record will say at the end is known before of the one under way.
fn told(run: &RunDirectory, present: &LiveState, observed: Option<&Observed>) -> Value {
    let mut line = line(run);
    if is_under_way(run, present) {
        line["state"] = present.state.word().into();
        line["seconds"] = present.elapsed_seconds.into();
        line["hits"] = present.hits_recorded.into();
        line["events"] = present.events.as_ref().map_or(0, |events| events.events_recorded).into();
        let known = present.loss.iter().all(|total| total.quality == Quality::Exact);
        line["lost"] = if known { json!(lost_of(&present.loss)) } else { Value::Null };
        line["loss"] = json!(present.loss);
        line["preview"] = json!(observed.and_then(|observed| preview(&observed.spectra)));
    }
    line
}

/// Hits, or fragments of a run without hits.
fn lost_of(totals: &[LossTotal]) -> Option<u64> {
    totals.first().map(|total| total.known.count)
}

fn line(run: &RunDirectory) -> Value {
    let name = name_of(run);
    let Ok(record) = RunRecord::read(&run.run_record()) else {
        return json!({ "name": name, "number": run.number(), "state": "unreadable", "bytes": bytes_in(run.path()) });
    };
    let loss = record.loss_report();
    let detail = |key: &str| record.details.get(key).cloned().unwrap_or_default();
    let rows = |table: thalweg_record::Table| {
        let of_table = record.tables.iter().filter(|summary| summary.table == table.word());
        of_table.map(|summary| summary.rows).sum::<u64>()
    };
    json!({
        "name": name, "number": run.number(), "title": record.title, "comment": record.comment,
        "started": record.started, "stopped": record.stopped, "state": record.state,
        "seconds": detail("elapsed_seconds"), "preview": detail("preview"),
        // A number only where it is known; in words, with how well, in `loss`.
        "lost": loss.as_ref().filter(|loss| loss.totals.iter().all(|total| total.quality == Quality::Exact)).map(|loss| lost_of(&loss.totals)),
        "loss": loss.as_ref().map(|loss| &loss.totals),
        "hits": rows(thalweg_record::Table::Hits), "events": rows(thalweg_record::Table::Events),
        "ledger_closed": record.ledger.as_ref().map(|ledger| ledger.closed),
        "removed": removed(&record, run), "remarks": record.remarks, "bytes": bytes_in(run.path()),
    })
}

/// What the policy on old runs has taken away.
fn removed(record: &RunRecord, run: &RunDirectory) -> Value {
    record.removed.as_ref().and_then(|_| RemovedTables::of(run)).map_or(Value::Null, |removed| {
        json!({ "at": removed.at, "why": removed.why, "bytes": removed.bytes, "rows": removed.rows })
    })
}

fn files(run: &RunDirectory) -> Value {
    let Ok(entries) = std::fs::read_dir(run.path()) else { return json!([]) };
    let mut files: Vec<(String, u64)> = entries
        .flatten()
        .filter_map(|entry| {
            let size = entry.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
            Some((entry.file_name().to_string_lossy().into_owned(), size))
        })
        .collect();
    files.sort();
    files.into_iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect()
}
