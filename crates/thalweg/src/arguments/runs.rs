//! Arguments of `thalweg runs`, and the directory in which every command looks for the number of a run.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use thalweg_run::recording::{DateBound, EntryState, Query, RecordError, RunDirectory, check_label};

/// The directory of runs, where neither the option nor the variable names one.
const DEFAULT_DIRECTORY: &str = "runs";
/// The variable that names it.
const DIRECTORY_VARIABLE: &str = "THALWEG_RUNS";
/// The variable that names who writes notes and labels.
const AUTHOR_VARIABLE: &str = "THALWEG_AUTHOR";

#[derive(Debug, Args)]
pub(crate) struct RunsDirectory {
    /// The directory in which the number of a run is looked for; without it, the one that the variable THALWEG_RUNS names, or `runs`.
    #[arg(id = "directory-of-runs", long = "runs", value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl RunsDirectory {
    /// The one that is given, or else the usual one.
    pub(crate) fn of(directory: Option<PathBuf>) -> RunsDirectory {
        RunsDirectory { directory }
    }

    /// The directory of runs.
    pub(crate) fn path(&self) -> PathBuf {
        let named =
            || std::env::var_os(DIRECTORY_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        self.directory.clone().or_else(named).unwrap_or_else(|| DEFAULT_DIRECTORY.into())
    }

    /// The directory of one run, by its path or number.
    ///
    /// # Errors
    /// When there is none, or several have the number.
    pub(crate) fn find(&self, run: &Path) -> Result<PathBuf, RecordError> {
        RunDirectory::find_in(&self.path(), run)
    }

    /// The same where a number stands that names no file; other words stay as they are.
    ///
    /// # Errors
    /// When there is no run of this number, or several have it.
    pub(crate) fn find_number(&self, what: &str) -> Result<String, RecordError> {
        let is_number = !what.is_empty() && what.bytes().all(|byte| byte.is_ascii_digit());
        match is_number && !Path::new(what).exists() {
            true => Ok(self.find(Path::new(what))?.to_string_lossy().into_owned()),
            false => Ok(what.to_owned()),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Runs {
    #[command(subcommand)]
    pub(crate) command: RunsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs: number, title, start, duration, state, hits or events, bytes, losses, labels
    #[command(
        after_help = "Examples:\n  thalweg runs list --latest 20\n  thalweg runs list --label good --with-losses\n  thalweg runs list --state killed --runs /data/runs\n\nWhat is not known is shown as -. Exit codes: 0 listed, whatever is wrong with a run; 1 the directory of runs cannot be read."
    )]
    List {
        #[command(flatten)]
        filters: RunFilters,
        #[command(flatten)]
        directory: RunsDirectory,
    },
    /// List the runs whose title, comment, notes, labels or directory have all of these words
    #[command(
        after_help = "Examples:\n  thalweg runs find vacuum\n  thalweg runs find cosmics --since 2026-11-21 --until 2026-11-23\n  thalweg runs find --source left --with-losses"
    )]
    Find {
        /// What occurs in them; small and capital letters are the same.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        #[command(flatten)]
        filters: RunFilters,
        #[command(flatten)]
        directory: RunsDirectory,
    },
    /// Show everything that is known of one run, with its notes and files
    #[command(after_help = "Examples:\n  thalweg runs show 42\n  thalweg runs show 42 --json")]
    Show {
        /// The run's number or directory.
        run: PathBuf,
        #[command(flatten)]
        directory: RunsDirectory,
    },
    /// Verify runs one after another, each with a verdict
    #[command(
        after_help = "Examples:\n  thalweg runs verify 42\n  thalweg runs verify 40-48 52\n  thalweg runs verify --all\n\nRuns that are being recorded are left out. Exit codes: 0 all others verify, 1 one does not, or nothing could be verified."
    )]
    Verify(SelectedRuns),
    /// Add labels to runs, or take them off
    #[command(
        after_help = "Examples:\n  thalweg runs label 42 good --remove bad\n  thalweg runs label 40-48 cosmics\n\nA label is a word of a-z, 0-9, _ and -. Who changed which label when is kept in labels.jsonl of the run."
    )]
    Label(LabelRuns),
    /// Write a note for a run under way or over, or for the next one
    #[command(
        after_help = "Examples:\n  thalweg runs note 42 beam off, vacuum at 3e-6\n  thalweg runs note --next \"source moved to 5 cm\"\n\nThe notes of a run are in its notes.jsonl; `thalweg runs show` and the page show them."
    )]
    Note(NoteRun),
}

#[derive(Debug, Args)]
pub(crate) struct RunFilters {
    /// Runs that have this label; may be given again.
    #[arg(long, value_name = "LABEL", value_parser = label)]
    label: Vec<String>,
    /// Runs that do not have this label; may be given again.
    #[arg(long, value_name = "LABEL", value_parser = label)]
    without_label: Vec<String>,
    /// Runs that started at this date or time of UTC, or later: 2026-11-21, 2026-11-21T02:18.
    #[arg(long, value_name = "DATE", value_parser = DateBound::parse)]
    since: Option<DateBound>,
    /// Runs that started at this date or time of UTC, or earlier; a date stands for the whole day.
    #[arg(long, value_name = "DATE", value_parser = DateBound::parse)]
    until: Option<DateBound>,
    /// Runs that have lost something, or may have: those that were killed.
    #[arg(long)]
    with_losses: bool,
    /// Runs with a source of this name.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Runs that are: running, ended, failed, killed, recovered, damaged, unreadable, no-record, running-or-killed.
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<EntryState>,
    /// Only so many, the last ones.
    #[arg(long, value_name = "COUNT")]
    latest: Option<usize>,
}

impl RunFilters {
    /// What is asked for, with these words.
    pub(crate) fn query(&self, words: &[String]) -> Query {
        Query {
            words: words.to_vec(),
            labels: self.label.clone(),
            without_labels: self.without_label.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            with_losses: self.with_losses,
            source: self.source.clone(),
            state: self.state,
            latest: self.latest,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SelectedRuns {
    /// Runs by number, directory, or range of numbers such as 40-48.
    #[arg(value_name = "RUN", required_unless_present = "all")]
    pub(crate) runs: Vec<String>,
    /// All runs of the directory.
    #[arg(long, conflicts_with = "runs")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) directory: RunsDirectory,
}

#[derive(Debug, Args)]
pub(crate) struct LabelRuns {
    /// A run by its number or directory, or a range of numbers such as 40-48.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Labels to add.
    #[arg(value_name = "LABEL", value_parser = label, required_unless_present = "remove")]
    pub(crate) add: Vec<String>,
    /// A label to take off; may be given again.
    #[arg(long, value_name = "LABEL", value_parser = label)]
    pub(crate) remove: Vec<String>,
    #[command(flatten)]
    pub(crate) author: Author,
    #[command(flatten)]
    pub(crate) directory: RunsDirectory,
}

#[derive(Debug, Args)]
pub(crate) struct NoteRun {
    /// The run, by its number or directory, and the words of the note; with `--next` the words alone.
    #[arg(value_name = "RUN TEXT", required = true)]
    pub(crate) words: Vec<String>,
    /// Keep the note for the next run, which takes it when it begins.
    #[arg(long)]
    pub(crate) next: bool,
    #[command(flatten)]
    pub(crate) author: Author,
    #[command(flatten)]
    pub(crate) directory: RunsDirectory,
}

#[derive(Debug, Args)]
pub(crate) struct Author {
    /// Who writes; without it, who the variable THALWEG_AUTHOR names, or the user.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
}

impl Author {
    /// Who writes; empty where nobody says.
    pub(crate) fn name(&self) -> String {
        let variable = |name: &str| std::env::var(name).ok().filter(|name| !name.trim().is_empty());
        let user = || [AUTHOR_VARIABLE, "USER", "LOGNAME"].into_iter().find_map(variable);
        self.author.clone().or_else(user).unwrap_or_default()
    }
}

fn label(word: &str) -> Result<String, String> {
    check_label(word).map(|()| word.to_owned())
}

fn state(word: &str) -> Result<EntryState, String> {
    let as_typed = |state: &EntryState| state.word().replace(' ', "-");
    let found = EntryState::ALL.into_iter().find(|state| as_typed(state) == word);
    found.ok_or_else(|| format!("write one of {}", EntryState::ALL.map(|state| as_typed(&state)).join(", ")))
}
