//! The catalogue of runs: `thalweg runs list|find|show|verify|label|note`.
//!
//! ```text
//!  arguments ─► Catalogue, LabelChange, Note, verify of thalweg_run ─► table, text or JSON
//! ```

mod show;
mod table;
mod verify;

use std::path::PathBuf;

use serde::Serialize;
use thalweg_run::recording::{Catalogue, LabelChange, Note, Query, RunDirectory, select};

use super::Ended;
use crate::arguments::{LabelRuns, NoteRun, Runs, RunsCommand, RunsDirectory};
use crate::report::{CommandOutcome, Failure, print};

pub(crate) fn runs(options: &Runs, json: bool) -> Ended {
    match &options.command {
        RunsCommand::List { filters, directory } => list(directory, &filters.query(&[]), json),
        RunsCommand::Find { words, filters, directory } => list(directory, &filters.query(words), json),
        RunsCommand::Show { run, directory } => show::show(&directory.find(run)?, json),
        RunsCommand::Verify(selected) => verify::verify(selected, json),
        RunsCommand::Label(options) => label(options, json),
        RunsCommand::Note(options) => note(options, json),
    }
}

fn list(directory: &RunsDirectory, query: &Query, json: bool) -> Ended {
    let mut catalogue = Catalogue::read(&directory.path())?;
    let all = catalogue.runs.len();
    catalogue.keep(query);
    print(&catalogue, json, |catalogue| table::listed(catalogue, all))?;
    Ok(CommandOutcome::Done)
}

/// What was done to the labels of a run.
#[derive(Serialize)]
struct Labelled {
    run_directory: PathBuf,
    /// What has changed; null when nothing has.
    change: Option<LabelChange>,
    labels: Vec<String>,
}

fn label(options: &LabelRuns, json: bool) -> Ended {
    if let Some(both) = options.add.iter().find(|label| options.remove.contains(label)) {
        return Err(Failure::Usage(anyhow::anyhow!(
            "the label {both} cannot be added and taken off at once"
        )));
    }
    let author = options.author.name();
    let mut labelled = Vec::new();
    for path in select(&options.directory.path(), std::slice::from_ref(&options.run))? {
        // Held open, so that nobody recovers it meanwhile.
        let run = RunDirectory::open(&path)?;
        let change = LabelChange::add(&run, &author, &options.add, &options.remove)?;
        let labels = LabelChange::labels(&LabelChange::all_of(&run)?.0).into_iter().collect();
        labelled.push(Labelled { run_directory: path, change, labels });
    }
    print(&labelled, json, |labelled| {
        let line = |run: &Labelled| {
            let labels = if run.labels.is_empty() { "no label".to_owned() } else { run.labels.join(", ") };
            let unchanged = if run.change.is_some() { "" } else { " (as before)" };
            format!("{}: {labels}{unchanged}", run.run_directory.display())
        };
        labelled.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(CommandOutcome::Done)
}

/// A note that was written, and where.
#[derive(Serialize)]
struct Noted {
    /// The run; null for the next one.
    run_directory: Option<PathBuf>,
    note: Note,
}

fn note(options: &NoteRun, json: bool) -> Ended {
    let without_words = || Failure::Usage(anyhow::anyhow!("a note without words; write them behind the run"));
    let (run, words) = match options.words.split_first() {
        Some((run, words)) if !options.next => (Some(run), words),
        _ => (None, &options.words[..]),
    };
    let text = words.join(" ");
    let text = text.trim();
    if text.is_empty() {
        return Err(without_words());
    }
    let author = options.author.name();
    let noted = match run {
        Some(run) => {
            let directory = RunDirectory::open(&options.directory.find(run.as_ref())?)?;
            let note = Note::add(&directory, text, &author)?;
            Noted { run_directory: Some(directory.path().to_owned()), note }
        }
        None => {
            let note = Note::add_for_next(&options.directory.path(), text, &author)?;
            Noted { run_directory: None, note }
        }
    };
    print(&noted, json, |noted| match &noted.run_directory {
        Some(run) => format!("{}: noted", run.display()),
        None => format!("{}: noted for the next run", options.directory.path().display()),
    })?;
    Ok(CommandOutcome::Done)
}
