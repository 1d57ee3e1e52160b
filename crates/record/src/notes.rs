//! Notes of the operator: what people write down before a run, while it goes on, and afterwards.
//!
//! ```text
//!  runs/000042-…/notes.jsonl    {"time":"2026-11-21T02:18:04.123Z","text":"beam off, vacuum at 3e-6","author":"ana"}
//!  runs/.next-notes.jsonl       notes for the next run ─ a run begins ─► its notes.jsonl
//!                                                      ◄─ it does not begin after all ─
//! ```
//! A line that a full disk or a power cut has left unfinished is given as it stands.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::directory::{NumbersLock, RunDirectory};
use crate::error::RecordError;
use crate::json_lines;
use crate::run_record::utc_text;

/// The file of notes for the next run, in the directory of runs.
const NEXT_FILE: &str = ".next-notes.jsonl";

/// What somebody has written down about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When, UTC, as `2026-11-21T02:18:04.123Z`; empty where the line is damaged.
    pub time: String,
    /// The words.
    pub text: String,
    /// Who has written it; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub author: String,
}

impl Note {
    fn of_now(text: &str, author: &str) -> Note {
        Note { time: utc_text(SystemTime::now()), text: text.to_owned(), author: author.to_owned() }
    }

    /// Adds a note of this moment to a run, and forces it to the disk. `author` may be empty.
    ///
    /// # Errors
    /// When the disk is full or fails; older notes stand then.
    pub fn add(directory: &RunDirectory, text: &str, author: &str) -> Result<Note, RecordError> {
        let note = Note::of_now(text, author);
        json_lines::append(&directory.notes(), "adding a note", &note)?;
        Ok(note)
    }

    /// The notes of a run, oldest first.
    ///
    /// # Errors
    /// When they are there and cannot be read.
    pub fn all_of(directory: &RunDirectory) -> Result<Vec<Note>, RecordError> {
        Note::all_in(&directory.notes())
    }

    /// Adds a note of this moment for the next run in the directory `runs`, which is made when missing.
    ///
    /// # Errors
    /// When the disk is full or fails; older notes stand then.
    pub fn add_for_next(runs: &Path, text: &str, author: &str) -> Result<Note, RecordError> {
        fs::create_dir_all(runs)
            .map_err(|cause| RecordError::io(runs, "making a directory of runs", cause))?;
        let _numbers = NumbersLock::of(runs)
            .map_err(|cause| RecordError::io(runs, "adding a note for the next run", cause))?;
        let note = Note::of_now(text, author);
        json_lines::append(&next_file(runs), "adding a note for the next run", &note)?;
        Ok(note)
    }

    /// The notes that wait for the next run in the directory `runs`, oldest first.
    ///
    /// # Errors
    /// When they are there and cannot be read.
    pub fn all_for_next(runs: &Path) -> Result<Vec<Note>, RecordError> {
        Note::all_in(&next_file(runs))
    }

    /// Moves the notes that wait for the next run into this run, which begins.
    ///
    /// # Errors
    /// When the system refuses; the notes wait for another run then.
    pub fn take_waiting(directory: &RunDirectory) -> Result<(), RecordError> {
        let Some(runs) = directory.path().parent() else { return Ok(()) };
        let waiting = next_file(runs);
        if !waiting.exists() {
            return Ok(());
        }
        let _numbers = NumbersLock::of(runs).map_err(|cause| RecordError::io(runs, "moving notes", cause))?;
        move_lines(&waiting, &directory.notes())
    }

    /// Moves the notes of a run that has not begun to those that wait for the next.
    ///
    /// # Errors
    /// When the system refuses; the notes stay where they are then.
    pub(crate) fn give_back(directory: &RunDirectory) -> Result<(), RecordError> {
        let Some(runs) = directory.path().parent() else { return Ok(()) };
        if !directory.notes().exists() {
            return Ok(());
        }
        let _numbers = NumbersLock::of(runs).map_err(|cause| RecordError::io(runs, "moving notes", cause))?;
        move_lines(&directory.notes(), &next_file(runs))
    }

    fn all_in(path: &Path) -> Result<Vec<Note>, RecordError> {
        let damaged = |line: String| Note { text: line, ..Note::default() };
        Ok(json_lines::read(path)?.into_iter().map(|note| note.unwrap_or_else(damaged)).collect())
    }
}

fn next_file(runs: &Path) -> PathBuf {
    runs.join(NEXT_FILE)
}

/// Moves all lines of one file to the end of another one. A whole file moves by its name, so that a crash neither doubles nor loses a
/// note; only where the other file is there already, a crash in between leaves notes in both.
fn move_lines(from: &Path, to: &Path) -> Result<(), RecordError> {
    let failed = |cause| RecordError::io(from, "moving notes", cause);
    if !to.exists() {
        return match fs::rename(from, to) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
            renamed => renamed.map_err(failed),
        };
    }
    let mut lines = fs::read(from).map_err(failed)?;
    if lines.last().is_some_and(|last| *last != b'\n') {
        lines.push(b'\n');
    }
    json_lines::append_lines(to, lines).map_err(|cause| RecordError::io(to, "moving notes", cause))?;
    fs::remove_file(from).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn notes_are_kept_in_order_and_a_torn_line_costs_no_other() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let directory = RunDirectory::create(folder.path(), "test").expect("made");
        assert_eq!(Note::all_of(&directory).expect("none is no fault"), []);
        let first = Note::add(&directory, "beam on\nat 3 µA", "ana").expect("added");
        let torn = "{\"time\":\"2026-11-21T02";
        let mut file = File::options().append(true).open(directory.notes()).expect("there");
        file.write_all(torn.as_bytes()).expect("written");
        let last = Note::add(&directory, "beam off", "").expect("added");
        let damaged = Note { text: torn.to_owned(), ..Note::default() };
        assert_eq!(Note::all_of(&directory).expect("read"), [first, damaged, last]);
    }

    #[test]
    fn a_note_without_an_author_is_as_older_programs_write_it() {
        let note = Note { time: "t".to_owned(), text: "x".to_owned(), ..Note::default() };
        assert_eq!(serde_json::to_string(&note).expect("plain"), "{\"time\":\"t\",\"text\":\"x\"}");
        assert_eq!(serde_json::from_str::<Note>("{\"time\":\"t\",\"text\":\"x\"}").expect("read"), note);
    }

    #[test]
    fn notes_for_the_next_run_move_into_it_once_and_come_back_from_a_run_that_does_not_begin() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let runs = folder.path().join("runs");
        let before = Note::add_for_next(&runs, "source moved to 5 cm", "ana").expect("kept");
        let failing = RunDirectory::create(&runs, "").expect("made");
        Note::take_waiting(&failing).expect("moved");
        assert_eq!(Note::all_of(&failing).expect("read"), std::slice::from_ref(&before));
        assert_eq!(Note::all_for_next(&runs).expect("read"), []);
        let another = Note::add_for_next(&runs, "shutter closed", "").expect("kept");
        failing.discard().expect("removed");
        assert_eq!(Note::all_for_next(&runs).expect("read"), [another.clone(), before.clone()]);
        let run = RunDirectory::create(&runs, "").expect("made");
        let own = Note::add(&run, "first words", "").expect("added");
        Note::take_waiting(&run).expect("moved");
        assert_eq!(Note::all_of(&run).expect("read"), [own, another, before]);
        let next = RunDirectory::create(&runs, "").expect("made");
        Note::take_waiting(&next).expect("nothing waits");
        assert_eq!(Note::all_of(&next).expect("read"), []);
    }
}
