//! Files of JSON lines that people and programs add to: notes, labels.
//!
//! ```text
//!  value ─► one line, one write, on the disk ─► … ─► each line, or the text of one that is damaged
//! ```
//! A line is added with one write, so that a reader and another writer see whole lines. A line that a full disk or a power cut has
//! left unfinished costs no other.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::RecordError;

/// Adds a line, and forces it to the disk.
///
/// # Errors
/// When the disk is full or fails; older lines stand then.
pub(crate) fn append<T: Serialize>(path: &Path, action: &'static str, value: &T) -> Result<(), RecordError> {
    check_plain(path)?;
    let failed = |cause| RecordError::io(path, action, cause);
    let mut line = serde_json::to_vec(value).map_err(|cause| failed(cause.into()))?;
    line.push(b'\n');
    append_lines(path, line).map_err(failed)
}

/// The same of whole lines that are in JSON already.
pub(crate) fn append_lines(path: &Path, mut lines: Vec<u8>) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|before| before.last().is_some_and(|last| *last != b'\n')) {
        lines.insert(0, b'\n');
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(&lines)?;
    file.sync_data()
}

/// All lines, the oldest first; of a damaged one its text. None when there is no such file.
///
/// # Errors
/// When it is there and cannot be read.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<Result<T, String>>, RecordError> {
    check_plain(path)?;
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(RecordError::io(path, "reading", cause)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(|line| serde_json::from_str(line).map_err(|_| line.to_owned())).collect())
}

/// Refuses what is no plain file: opening a pipe would wait for its other end. What is not there is not refused.
///
/// # Errors
/// When something else is there.
pub(crate) fn check_plain(path: &Path) -> Result<(), RecordError> {
    match fs::metadata(path) {
        Ok(data) if !data.is_file() => {
            let found = "is no plain file, and is neither read nor written; move it away".to_owned();
            Err(RecordError::Missing { path: path.to_owned(), found })
        }
        _ => Ok(()),
    }
}
