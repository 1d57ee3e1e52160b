//! Runs verified one after another, each with a verdict.

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thalweg_run::recording::{self, EntryState, RunDirectory, RunEntry, VerifyReport, select};

use super::super::Ended;
use super::table::plain;
use crate::arguments::SelectedRuns;
use crate::report::{CommandOutcome, Failure, print, si};
use crate::terminal;

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// Nothing is wrong with it.
    Verified,
    /// Something is.
    NotVerified,
    /// It is being recorded.
    LeftOut,
}

/// A run, and what was found.
#[derive(Serialize)]
struct Verified {
    number: u64,
    run_directory: PathBuf,
    verdict: Verdict,
    /// The verdict in one line.
    text: String,
    problems: Vec<String>,
}

/// All of them.
#[derive(Serialize)]
struct Summary {
    ok: bool,
    verified: usize,
    not_verified: usize,
    left_out: usize,
    runs: Vec<Verified>,
}

pub(super) fn verify(selected: &SelectedRuns, json: bool) -> Ended {
    let directory = selected.directory.path();
    let paths = match selected.all {
        true => RunDirectory::list(&directory)?.iter().map(|run| run.path().to_owned()).collect(),
        false => select(&directory, &selected.runs)?,
    };
    if paths.is_empty() {
        return Err(Failure::Other(anyhow::anyhow!("{}: there is no run to verify", directory.display())));
    }
    let shows_progress = !json && paths.len() > 1 && std::io::stderr().is_terminal();
    let mut runs = Vec::new();
    for (place, path) in paths.iter().enumerate() {
        if shows_progress {
            terminal::notice(&format!("verifying {} ({} of {})", path.display(), place + 1, paths.len()));
        }
        runs.push(verified(path));
    }
    let count = |verdict: Verdict| runs.iter().filter(|run| run.verdict == verdict).count();
    let (verified, not_verified) = (count(Verdict::Verified), count(Verdict::NotVerified));
    let left_out = count(Verdict::LeftOut);
    let ok = not_verified == 0 && verified > 0;
    print(&Summary { ok, verified, not_verified, left_out, runs }, json, text)?;
    Ok(if ok { CommandOutcome::Done } else { CommandOutcome::Failed })
}

/// Verifies one run. What cannot be verified does not verify, and the next run is verified all the same.
fn verified(path: &Path) -> Verified {
    let RunEntry { number, state, .. } = RunEntry::read(&RunDirectory::unlocked(path));
    let found = |verdict, text: &str, problems| Verified {
        number,
        run_directory: path.to_owned(),
        verdict,
        text: text.to_owned(),
        problems,
    };
    if state == EntryState::Running {
        return found(Verdict::LeftOut, "is being recorded, or another program has it open", Vec::new());
    }
    match recording::verify(path) {
        Ok(report) if report.ok => found(Verdict::Verified, &contents(&report), Vec::new()),
        Ok(report) => {
            let first = report.problems.first().map_or("", String::as_str);
            let text = match report.problems.len() {
                0 | 1 => first.to_owned(),
                count => format!("{count} problems, the first: {first}"),
            };
            found(Verdict::NotVerified, &text, report.problems)
        }
        Err(error) => found(Verdict::NotVerified, &error.to_string(), vec![error.to_string()]),
    }
}

/// What is in a run that verifies, in a few words.
fn contents(report: &VerifyReport) -> String {
    let counts = [(report.hits, "hits"), (report.events.events, "events")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counted = counts.map(|(count, what)| format!("{}{what}", si(count as f64)));
    let removed = report.removed.as_ref().map(|_| "tables removed".to_owned());
    let lost = report.ledger.loss.totals.iter().map(ToString::to_string);
    counted.chain(removed).chain(lost).collect::<Vec<_>>().join(", ")
}

fn text(summary: &Summary) -> String {
    let mut text = String::new();
    for run in &summary.runs {
        let verdict = match run.verdict {
            Verdict::Verified => "verified",
            Verdict::NotVerified => "NOT VERIFIED",
            Verdict::LeftOut => "left out",
        };
        let name = run.run_directory.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let _ = writeln!(text, "{verdict:<12}  {}: {}", plain(&name), plain(&run.text));
    }
    let Summary { verified, not_verified, left_out, .. } = summary;
    let _ = writeln!(text, "{verified} verified, {not_verified} NOT VERIFIED, {left_out} left out");
    text
}
