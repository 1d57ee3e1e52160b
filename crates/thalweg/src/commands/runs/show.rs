//! Everything that is known of one run.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;
use thalweg_run::recording::{LabelChange, RunDirectory, RunEntry, RunRecord, percent_of};
use thalweg_ship::contents::Contents;
use thalweg_ship::ledger::ShipLedger;
use thalweg_ship::message::Identity;
use thalweg_ship::run_files::files_of;
use thalweg_ship::run_state::RunState;

use super::super::Ended;
use super::table::{duration, losses, moment, note_line, plain, state, written_by};
use crate::report::{CommandOutcome, print, si};

/// A run, with what the catalogue does not have of it.
#[derive(Serialize)]
struct Shown<'r> {
    path: &'r Path,
    #[serde(flatten)]
    entry: RunEntry,
    files: Vec<File>,
    /// The stage `ship` of the ledger, by destination.
    copies: Vec<Copy>,
    label_changes: Vec<LabelChange>,
    /// Its `run.json`; null where it cannot be read.
    record: Option<RunRecord>,
}

#[derive(Serialize)]
struct File {
    name: String,
    bytes: u64,
    /// Destinations of `thalweg ship` at which this very file is proved as a whole.
    copies: Vec<String>,
}

#[derive(Serialize)]
struct Copy {
    destination: String,
    #[serde(flatten)]
    ledger: ShipLedger,
    /// Null where rows were not counted.
    balances: Option<bool>,
}

pub(super) fn show(path: &Path, json: bool) -> Ended {
    let run = RunDirectory::unlocked(path);
    run.check_has_run()?;
    let shown = Shown {
        path,
        entry: RunEntry::read(&run),
        files: files(path)?,
        copies: copies(path),
        // What cannot be read is among the problems of the entry.
        label_changes: LabelChange::all_of(&run).unwrap_or_default().0,
        record: RunRecord::read(&run.run_record()).ok(),
    };
    print(&shown, json, text)?;
    Ok(CommandOutcome::Done)
}

fn files(run: &Path) -> anyhow::Result<Vec<File>> {
    let states = RunState::all(run);
    let entries = std::fs::read_dir(run)?.flatten();
    let files = entries.filter_map(|entry| {
        // A link leads to a file of a table on another disk.
        let data = std::fs::metadata(entry.path()).ok().filter(std::fs::Metadata::is_file)?;
        let (name, now) = (entry.file_name().to_string_lossy().into_owned(), Identity::of(&data));
        let has_it =
            |state: &&RunState| state.files.get(&name).is_some_and(|file| file.is_proved(&now, None));
        let copies = states.iter().filter(has_it).map(|state| state.destination.clone()).collect();
        Some(File { bytes: data.len(), copies, name })
    });
    let mut files: Vec<File> = files.collect();
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// What was recorded, and where it is, by destination. A run whose record cannot be read has none.
fn copies(run: &Path) -> Vec<Copy> {
    let Ok(found) = files_of(run) else { return Vec::new() };
    let mut contents = Contents::default();
    let copy = |state: RunState| {
        let ledger = ShipLedger::of(&found, &state, &mut contents);
        Copy { destination: state.destination, balances: ledger.balances(), ledger }
    };
    let mut copies: Vec<Copy> = RunState::all(run).into_iter().map(copy).collect();
    copies.sort_by(|one, other| one.destination.cmp(&other.destination));
    copies
}

fn text(shown: &Shown<'_>) -> String {
    let Shown { path, entry, .. } = shown;
    let mut text = format!("run {}: {}  {}\n", entry.number, path.display(), plain(&entry.title));
    if !entry.comment.is_empty() {
        let _ = writeln!(text, "  {}", plain(&entry.comment));
    }
    let _ = write!(text, "  {}", state(entry));
    if !entry.started.is_empty() {
        let _ = write!(text, ", started {} UTC", moment(&entry.started));
    }
    if !entry.stopped.is_empty() {
        let _ = write!(text, ", stopped {} UTC", moment(&entry.stopped));
    }
    let _ = writeln!(
        text,
        "{}",
        entry.seconds.map_or(String::new(), |seconds| format!(", {}", duration(seconds)))
    );
    if let Some(replay) = &entry.replay {
        let _ = writeln!(text, "  {}", plain(&replay.to_string()));
    }
    let labels = if entry.labels.is_empty() { "none".to_owned() } else { entry.labels.join(" ") };
    let _ = writeln!(text, "  labels: {labels}");
    if !entry.sources.is_empty() {
        let sources: Vec<String> = entry.sources.iter().map(|source| plain(source)).collect();
        let _ = writeln!(text, "  sources: {}", sources.join(", "));
    }
    let _ = writeln!(text, "  losses: {}", losses(entry.loss.as_deref()));
    if let Some(removed) = &entry.removed {
        let _ = writeln!(text, "  not there any more: {removed}");
    }
    if let Some(record) = &shown.record {
        of_record(record, &mut text);
    }
    for File { name, bytes, copies } in &shown.files {
        let table = shown.record.iter().flat_map(|record| &record.tables).find(|table| table.file == *name);
        let rows = table.map_or(String::new(), |table| format!("{} rows", table.rows));
        let copies: Vec<String> = copies.iter().map(|copy| format!("  copy at {}", plain(copy))).collect();
        let (name, bytes) = (plain(name), si(*bytes as f64));
        let _ = writeln!(text, "  {name:<24} {bytes:>9}B  {rows:<16}{}", copies.concat());
    }
    for Copy { destination, ledger, balances } in &shown.copies {
        let balance = match balances {
            Some(true) => "balances",
            Some(false) => "DOES NOT BALANCE",
            None => "is not counted yet",
        };
        let _ = writeln!(text, "  at {}: {ledger}; the ledger {balance}", plain(destination));
    }
    for change in &shown.label_changes {
        let signed = |sign: &str, labels: &[String]| {
            labels.iter().map(|label| format!("{sign}{label}")).collect::<Vec<_>>()
        };
        let words = [signed("+", &change.added), signed("-", &change.removed)].concat().join(" ");
        let _ = writeln!(text, "  label {}: {}", written_by(&change.time, &change.author), plain(&words));
    }
    for note in &entry.notes {
        let _ = writeln!(text, "  note {}", note_line(note));
    }
    for problem in &entry.problems {
        let _ = writeln!(text, "  problem: {}", plain(problem));
    }
    text
}

/// What only the record has.
fn of_record(record: &RunRecord, text: &mut String) {
    for kind in record.loss_report().iter().flat_map(|loss| &loss.kinds) {
        let _ = writeln!(text, "  {}", kind.what());
    }
    for line in record.beside_the_ledger() {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(verdict) = record.ledger_verdict() {
        let _ = writeln!(text, "  the ledger {verdict}");
    }
    for cut in &record.cuts {
        let percent = percent_of(cut.kept, cut.input).unwrap_or(0.0);
        let (name, on) = (plain(&cut.name), plain(&cut.on));
        let _ =
            writeln!(text, "  cut {name} on each {on}: {} of {} kept, {percent:.1} %", cut.kept, cut.input);
    }
    for missing in &record.missing {
        let _ = writeln!(text, "  missing: {missing}");
    }
    if let Some(identity) = record.identity.as_ref().filter(|identity| identity.is_known()) {
        let _ = writeln!(text, "  node {} of {}", plain(&identity.node), plain(&identity.to_string()));
    }
    if let Some(version) = record.versions.get("thalweg") {
        let _ = writeln!(text, "  recorded by thalweg {}", plain(version));
    }
    for remark in &record.remarks {
        let _ = writeln!(text, "  remark: {}", plain(remark));
    }
}
