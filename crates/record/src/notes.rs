//! Notes of the operator: what people write down while a run goes on, and afterwards.
//!
//! ```text
//!  runs/000042-…/notes.jsonl    {"time":"2026-11-21T02:18:04.123Z","text":"beam off, vacuum at 3e-6"}
//! ```
//! A line is added with one write, so that a reader and another writer see whole lines. A line that a full disk or a power cut has
//! left unfinished is given as it stands.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::run_record::utc_text;

/// What somebody has written down about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When, UTC, as `2026-11-21T02:18:04.123Z`; empty where the line is damaged.
    pub time: String,
    /// The words.
    pub text: String,
}

impl Note {
    /// Adds a note of this moment to a run, and forces it to the disk.
    ///
    /// # Errors
    /// When the disk is full or fails; older notes stand then.
    pub fn add(directory: &RunDirectory, text: &str) -> Result<Note, RecordError> {
        let path = directory.notes();
        let failed = |cause| RecordError::io(&path, "adding a note", cause);
        let note = Note { time: utc_text(SystemTime::now()), text: text.to_owned() };
        let mut line = serde_json::to_vec(&note).map_err(|cause| failed(cause.into()))?;
        line.push(b'\n');
        if fs::read(&path).is_ok_and(|before| before.last().is_some_and(|last| *last != b'\n')) {
            line.insert(0, b'\n');
        }
        let mut file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        file.write_all(&line).and_then(|()| file.sync_data()).map_err(failed)?;
        Ok(note)
    }

    /// The notes of a run, oldest first.
    ///
    /// # Errors
    /// When they are there and cannot be read.
    pub fn all_of(directory: &RunDirectory) -> Result<Vec<Note>, RecordError> {
        let path = directory.notes();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(RecordError::io(&path, "reading", cause)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let damaged = |line: &str| Note { time: String::new(), text: line.to_owned() };
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        Ok(lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| damaged(line))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_in_order_and_a_torn_line_costs_no_other() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let directory = RunDirectory::create(folder.path(), "test").expect("made");
        assert_eq!(Note::all_of(&directory).expect("none is no fault"), []);
        let first = Note::add(&directory, "beam on\nat 3 µA").expect("added");
        let torn = "{\"time\":\"2026-11-21T02";
        let mut file = File::options().append(true).open(directory.notes()).expect("there");
        file.write_all(torn.as_bytes()).expect("written");
        let last = Note::add(&directory, "beam off").expect("added");
        let damaged = Note { time: String::new(), text: torn.to_owned() };
        assert_eq!(Note::all_of(&directory).expect("read"), [first, damaged, last]);
    }
}
