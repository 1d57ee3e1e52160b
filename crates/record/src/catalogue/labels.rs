//! Labels: words that people stick to a run, beside its notes.
//!
//! ```text
//!  runs/000042-…/labels.jsonl   {"time":"2026-11-21T02:18:04.123Z","author":"ana","added":["good"],"removed":["bad"]}
//! ```
//! Lines are only added; the labels of a run are what is left when all lines are read in order.

use std::collections::BTreeSet;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::json_lines;
use crate::run_record::utc_text;

/// Longest label.
const MOST_BYTES: usize = 64;

/// One change of a run's labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelChange {
    /// When, UTC, as `2026-11-21T02:18:04.123Z`.
    pub time: String,
    /// Who has made it; empty where that is not known.
    pub author: String,
    /// Labels that were added.
    pub added: Vec<String>,
    /// Labels that were taken off.
    pub removed: Vec<String>,
}

impl LabelChange {
    /// Changes the labels of a run, and forces that to the disk: of the labels named here, those that the run has not are added, and
    /// those that it has are taken off. `None` when nothing changes.
    ///
    /// # Errors
    /// When the disk is full or fails, or the labels cannot be read; they stand as they were then.
    pub fn add(
        directory: &RunDirectory,
        author: &str,
        added: &[String],
        removed: &[String],
    ) -> Result<Option<LabelChange>, RecordError> {
        let (changes, _) = LabelChange::all_of(directory)?;
        let present = LabelChange::labels(&changes);
        let added: BTreeSet<&String> = added.iter().filter(|label| !present.contains(*label)).collect();
        let removed: BTreeSet<&String> = removed.iter().filter(|label| present.contains(*label)).collect();
        if added.is_empty() && removed.is_empty() {
            return Ok(None);
        }
        let change = LabelChange {
            time: utc_text(SystemTime::now()),
            author: author.to_owned(),
            added: added.into_iter().cloned().collect(),
            removed: removed.into_iter().cloned().collect(),
        };
        json_lines::append(&directory.labels(), "changing the labels", &change)?;
        Ok(Some(change))
    }

    /// All changes of a run's labels, oldest first, and the number of lines that are damaged.
    ///
    /// # Errors
    /// When they are there and cannot be read.
    pub fn all_of(directory: &RunDirectory) -> Result<(Vec<LabelChange>, usize), RecordError> {
        let lines = json_lines::read(&directory.labels())?;
        let count = lines.len();
        let changes: Vec<LabelChange> = lines.into_iter().flatten().collect();
        let damaged = count - changes.len();
        Ok((changes, damaged))
    }

    /// The labels that are left when all of these changes are made, in order.
    pub fn labels(changes: &[LabelChange]) -> BTreeSet<String> {
        let mut labels = BTreeSet::new();
        for change in changes {
            labels.extend(change.added.iter().filter(|label| check_label(label).is_ok()).cloned());
            change.removed.iter().for_each(|label| {
                labels.remove(label);
            });
        }
        labels
    }
}

/// Checks that a word can be a label: letters `a` to `z`, digits, `_` and `-`, with one of the first two at its start.
///
/// # Errors
/// When it cannot, in words.
pub fn check_label(word: &str) -> Result<(), String> {
    let is_of_it = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let starts_well =
        word.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    match word.bytes().all(is_of_it) && starts_well && word.len() <= MOST_BYTES {
        true => Ok(()),
        false => Err(format!(
            "a label is a word of a-z, 0-9, _ and -, begins with a letter or digit, and has at most {MOST_BYTES} characters"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn labels_are_what_is_left_of_all_changes_and_a_torn_line_costs_no_other() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let run = RunDirectory::create(folder.path(), "").expect("made");
        let change = |added: &[&str], removed: &[&str]| {
            LabelChange::add(&run, "ana", &words(added), &words(removed)).expect("changed")
        };
        let first = change(&["bad", "cosmics"], &["never"]).expect("new");
        assert_eq!((first.added, first.removed), (words(&["bad", "cosmics"]), words(&[])));
        let mut file = std::fs::File::options().append(true).open(run.labels()).expect("there");
        file.write_all(b"{\"added\":[\"to").expect("written");
        change(&["good"], &["bad"]).expect("new");
        assert_eq!(change(&["good"], &["bad"]), None, "nothing is left to do");
        let (changes, damaged) = LabelChange::all_of(&run).expect("read");
        assert_eq!((changes.len(), damaged), (2, 1));
        assert_eq!(LabelChange::labels(&changes).into_iter().collect::<Vec<_>>(), ["cosmics", "good"]);
        assert_eq!(changes[1].author, "ana");
    }

    #[test]
    fn a_label_is_a_plain_word() {
        for word in ["good", "run-3_b", "2026-11"] {
            assert_eq!(check_label(word), Ok(()), "{word}");
        }
        for word in ["", "Good", "not good", "-bad", "µ", "a,b", &"a".repeat(65)] {
            assert!(check_label(word).is_err(), "{word}");
        }
    }
}
