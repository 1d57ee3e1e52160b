//! The catalogue: all runs of a directory at a glance, from an index that is only a cache.
//!
//! ```text
//!  runs/000042-…/  run.json, notes.jsonl, labels.jsonl ─ facts: size, times, inode ─┬─ as indexed ─► entry of the index
//!                                                                                   └─ otherwise ──► read ─► entry
//!  runs/.catalogue.jsonl ◄── entries whose facts are settled
//! ```
//! What is true of a run is in its own directory. The index may be missing, old, damaged, or of another program: then the runs
//! are read again. One damaged run costs its own line and no other.
//!
//! - `entry`: one run, as the catalogue has it: [`RunEntry`].
//! - `facts`: how the index sees that a run has changed.
//! - `index`: the file of the index.
//! - `labels`: words that people stick to a run: [`LabelChange`].
//! - `query`: which runs are asked for: [`Query`].
//! - `selection`: runs by number, path, or range of numbers: [`select`].

mod entry;
mod facts;
mod index;
mod labels;
mod query;
mod selection;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub use entry::{EntryState, RunEntry};
pub use labels::{LabelChange, check_label};
pub use query::{DateBound, Query};
pub use selection::select;

use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::notes::Note;

use facts::RunFacts;
use index::{Index, Indexed};

/// All runs of a directory.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Catalogue {
    /// The directory of runs.
    pub directory: PathBuf,
    /// Its runs, by number.
    pub runs: Vec<RunEntry>,
    /// Notes that wait for the next run.
    pub notes_for_next: Vec<Note>,
    /// What could not be read beside the runs, in words.
    pub problems: Vec<String>,
}

/// How the catalogue looks at runs.
trait Reader {
    /// Nanoseconds since 1970.
    fn now_ns(&self) -> i64;
    /// What shows that a run has changed, without opening any of its files.
    fn facts(&self, run: &RunDirectory) -> RunFacts;
    /// Opens a run and reads what the catalogue has of it.
    fn read(&self, run: &RunDirectory) -> RunEntry;
}

struct Disk;

impl Reader for Disk {
    fn now_ns(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
    }

    fn facts(&self, run: &RunDirectory) -> RunFacts {
        RunFacts::of(run)
    }

    fn read(&self, run: &RunDirectory) -> RunEntry {
        RunEntry::read(run)
    }
}

impl Catalogue {
    /// Of the runs in a directory. Runs that have not changed since are taken from the index, which is brought up to date where
    /// the directory can be written.
    ///
    /// # Errors
    /// When the directory cannot be read. What is wrong with a run is in its entry.
    pub fn read(directory: &Path) -> Result<Catalogue, RecordError> {
        Catalogue::read_by(&Disk, directory)
    }

    fn read_by(reader: &impl Reader, directory: &Path) -> Result<Catalogue, RecordError> {
        if !directory.is_dir() {
            let found = "there is no such directory of runs; name another one with --runs or THALWEG_RUNS";
            return Err(RecordError::Missing { path: directory.to_owned(), found: found.to_owned() });
        }
        let now_ns = reader.now_ns();
        let mut index = Index::read(directory);
        let mut fresh = Index::default();
        let mut runs = Vec::new();
        let mut has_new = false;
        for run in RunDirectory::list(directory)? {
            let name = run.name();
            let facts = reader.facts(&run);
            let indexed = index.take(&name, &facts);
            let is_new = indexed.is_none();
            let entry = indexed.unwrap_or_else(|| reader.read(&run));
            // Of a run that goes on, or was killed, the record does not say how much there is, nor which of both it is.
            if entry.state.is_settled() && facts.are_settled(now_ns) {
                fresh.add(name, Indexed { facts, run: entry.clone() });
                has_new |= is_new;
            }
            runs.push(entry);
        }
        // What is left of the old one is of runs that are gone or have changed.
        if has_new || !index.is_empty() {
            fresh.write(directory);
        }
        let mut problems = Vec::new();
        let notes_for_next = Note::all_for_next(directory).unwrap_or_else(|error| {
            problems.push(error.to_string());
            Vec::new()
        });
        Ok(Catalogue { directory: directory.to_owned(), runs, notes_for_next, problems })
    }

    /// The runs that are asked for.
    pub fn keep(&mut self, query: &Query) {
        self.runs.retain(|run| query.matches(run));
        let most = query.latest.unwrap_or(usize::MAX);
        self.runs.drain(..self.runs.len().saturating_sub(most));
    }
}

#[cfg(test)]
mod tests;
