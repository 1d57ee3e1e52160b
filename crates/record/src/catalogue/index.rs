//! The file of the index: a line that says what it is and how it was, then a line for each run.
//!
//! ```text
//!  runs/.catalogue.jsonl    {"catalogue":1,"thalweg":"1.3.0","crc32c":"89ab01cd"}
//!                           {"facts":{…},"run":{…}}
//!                           …
//! ```
//! It is only a cache. A file that is damaged in any way, or that another version has written, is no index.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use thalweg_data::checksum;

use super::entry::RunEntry;
use super::facts::RunFacts;

/// The file.
pub(super) const INDEX_FILE: &str = ".catalogue.jsonl";
/// The same while it is written.
pub(super) const NEW_INDEX_FILE: &str = ".catalogue.jsonl.new";
/// Version of its form.
const FORMAT: u32 = 1;
/// An index that is longer is not read.
const MOST_BYTES: u64 = 1 << 30;

/// The first line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    catalogue: u32,
    /// Version of the program: another one may see more in a run.
    thalweg: String,
    /// Checksum of the lines behind this one, in hexadecimal.
    crc32c: String,
}

/// A run, and how its files were when it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Indexed {
    pub(super) facts: RunFacts,
    pub(super) run: RunEntry,
}

/// Runs by the name of their directory.
#[derive(Debug, Default)]
pub(super) struct Index {
    runs: BTreeMap<String, Indexed>,
}

impl Head {
    fn of(lines: &[u8]) -> Head {
        Head {
            catalogue: FORMAT,
            thalweg: env!("CARGO_PKG_VERSION").to_owned(),
            crc32c: format!("{:08x}", checksum::of(lines)),
        }
    }
}

impl Index {
    /// The index of a directory of runs; an empty one where there is none that can be used.
    pub(super) fn read(directory: &Path) -> Index {
        let path = directory.join(INDEX_FILE);
        match read_bytes(&path) {
            Ok(bytes) => Index::parse(&bytes).unwrap_or_else(|| {
                tracing::debug!("{}: no index of this version; the runs are read again", path.display());
                Index::default()
            }),
            Err(_) => Index::default(),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Index> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, lines) = (&bytes[..end], &bytes[end + 1..]);
        if serde_json::from_slice::<Head>(head).ok()? != Head::of(lines) {
            return None;
        }
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let named = lines.map(|line| {
            let indexed: Indexed = serde_json::from_slice(line).ok()?;
            Some((indexed.run.name.clone(), indexed))
        });
        Some(Index { runs: named.collect::<Option<_>>()? })
    }

    fn text(&self) -> Option<Vec<u8>> {
        let mut lines = Vec::new();
        for indexed in self.runs.values() {
            serde_json::to_writer(&mut lines, indexed).ok()?;
            lines.push(b'\n');
        }
        let mut text = serde_json::to_vec(&Head::of(&lines)).ok()?;
        text.push(b'\n');
        text.extend(lines);
        Some(text)
    }

    /// Takes out the entry of a run that is as it was.
    pub(super) fn take(&mut self, name: &str, facts: &RunFacts) -> Option<RunEntry> {
        let is_as_it_was = self.runs.get(name).is_some_and(|indexed| indexed.facts == *facts);
        is_as_it_was.then(|| self.runs.remove(name).map(|indexed| indexed.run)).flatten()
    }

    pub(super) fn add(&mut self, name: String, indexed: Indexed) {
        self.runs.insert(name, indexed);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Puts this index in the place of an older one. Where that cannot be, such as on a read-only disk, the runs are read again
    /// next time.
    pub(super) fn write(&self, directory: &Path) {
        let Some(text) = self.text() else { return };
        if let Err(cause) = write_by_renaming(directory, &text) {
            tracing::debug!("{}: the index is not written: {cause}", directory.display());
        }
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whoever reads sees the old index or the new. Of two programs that write at the same time, one does; a program that is killed leaves
/// a file that the next one uses.
fn write_by_renaming(directory: &Path, text: &[u8]) -> io::Result<()> {
    let new = directory.join(NEW_INDEX_FILE);
    let flags = libc::O_NOFOLLOW;
    let mut file = File::options().create(true).truncate(false).write(true).custom_flags(flags).open(&new)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(cause)) => return Err(cause),
    }
    // Between opening and locking, another program may have made an index of this very file.
    if fs::symlink_metadata(&new)?.ino() != file.metadata()?.ino() {
        return Ok(());
    }
    let mut written = || {
        file.set_len(0)?;
        file.write_all(text)?;
        // After a power cut, the name must not stand for an empty file; a damaged one would be read again.
        file.sync_data()?;
        fs::rename(&new, directory.join(INDEX_FILE))
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use thalweg_data::ledger::{LossTotal, LostCount};
    use thalweg_data::{Quality, Unit};

    use super::*;
    use crate::catalogue::EntryState;
    use crate::notes::Note;

    #[test]
    fn an_entry_comes_back_as_it_was_written() {
        let lost =
            |unit, count| LostCount { unit, count, of: 84_000, fraction: Some(count as f64 / 84_000.0) };
        let total = LossTotal {
            known: lost(Unit::Hits, 178),
            quality: Quality::Unknown,
            bound: Some(lost(Unit::Frames, 130)),
            text: "hits lost: unknown, ≥ 130 frames (≥ 0.15 %)".to_owned(),
            of_coincidences: false,
        };
        let note = Note {
            time: "2026-11-21T02:18:04.123Z".to_owned(),
            text: "beam\noff".to_owned(),
            ..Note::default()
        };
        let run = RunEntry {
            number: 42,
            name: "000042-µ".to_owned(),
            state: EntryState::Recovered,
            seconds: Some(0.125),
            hits: Some(u64::MAX),
            loss: Some(vec![total]),
            notes: vec![note],
            ..RunEntry::default()
        };
        let mut index = Index::default();
        index.add(run.name.clone(), Indexed { facts: RunFacts::default(), run: run.clone() });
        let mut read = Index::parse(&index.text().expect("JSON")).expect("an index");
        assert_eq!(read.take("000042-µ", &RunFacts::default()), Some(run));
        assert!(read.is_empty());
    }
}
