//! The books' counters in a mapped file: written with plain stores, readable by anyone, alive after `kill -9`.
//!
//! ```text
//!  64 B header: "THALEDGR", version, sources, stages, cells per account
//!  64 B per source: its name
//!  per (source, stage): 64 B (which units are counted), then the cells, u64 in native order
//! ```

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use memmap2::MmapMut;

use super::books::{AccountBook, Books};
use super::tally::{CELLS, Tally, output_cell};
use super::words::{Stage, Unit};
use crate::batch::{SnapshotNumber, SourceId};
use crate::memory::reserve;

const MAGIC: u64 = u64::from_le_bytes(*b"THALEDGR");
const VERSION: u64 = 1;
const LINE_WORDS: usize = 8;
const ACCOUNT_WORDS: usize = LINE_WORDS + CELLS.next_multiple_of(LINE_WORDS);
/// Snapshots kept until they are complete and read; older ones are given up.
const SNAPSHOTS_KEPT: usize = 8;

/// A ledger that cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file could not be made, mapped or read.
    #[error("{path}: {cause}")]
    File {
        /// The ledger's file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Its disk has no room for the file.
    #[error("{path}: no space left on the disk; free some, or set `[record] directory` to another one")]
    Full {
        /// The ledger's file.
        path: PathBuf,
    },
    /// The file is not a ledger of this version.
    #[error("{path}: not a ledger of version {VERSION}: {found}")]
    Foreign {
        /// The ledger's file.
        path: PathBuf,
        /// What was found instead.
        found: String,
    },
}

struct Inner {
    sources: Vec<String>,
    map: MmapMut,
    snapshots: Mutex<Vec<Snapshot>>,
}

struct Snapshot {
    number: SnapshotNumber,
    accounts: Vec<AccountBook>,
}

/// The counters of one run. Cloning gives another handle.
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

impl Ledger {
    /// A ledger for these sources, in `path` or, without one, in memory that ends with the process.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: Option<&Path>, sources: &[String]) -> Result<Ledger, LedgerError> {
        let words = LINE_WORDS * (1 + sources.len()) + sources.len() * Stage::COUNT * ACCOUNT_WORDS;
        let map = match path {
            None => MmapMut::map_anon(words * 8).map_err(|cause| file_error(Path::new("(memory)"), cause)),
            Some(path) => create_file(path, words * 8).map_err(|cause| file_error(path, cause)),
        }?;
        let inner = Inner { sources: sources.to_vec(), map, snapshots: Mutex::new(Vec::new()) };
        let header = [MAGIC, VERSION, sources.len() as u64, Stage::COUNT as u64, CELLS as u64];
        for (index, word) in header.into_iter().enumerate() {
            inner.word(index).store(word, Ordering::Relaxed);
        }
        for (source, name) in sources.iter().enumerate() {
            let mut line = [0u8; 64];
            let kept = name.floor_char_boundary(64);
            line[..kept].copy_from_slice(&name.as_bytes()[..kept]);
            for (index, word) in line.as_chunks::<8>().0.iter().enumerate() {
                inner
                    .word(LINE_WORDS * (1 + source) + index)
                    .store(u64::from_le_bytes(*word), Ordering::Relaxed);
            }
        }
        Ok(Ledger(Arc::new(inner)))
    }

    /// The account of one stage and source, and its one writer. `units` are those that the stage counts:
    /// they take part in the laws even while they are zero.
    pub fn open(&self, stage: Stage, source: SourceId, units: &[Unit]) -> Account {
        let mask = units.iter().fold(0u64, |mask, unit| mask | 1 << *unit as u32);
        let first = account_word(self.0.sources.len(), source, stage);
        self.0.word(first).fetch_or(mask, Ordering::Relaxed);
        Account { ledger: self.clone(), stage, source, first }
    }

    /// The books as they stand. Between batches they close; while data flows, stages publish at different moments, so
    /// use [`Ledger::snapshot_books`] for books of one moment.
    pub fn books(&self) -> Books {
        let count = self.0.sources.len();
        let read = |word: usize| self.0.word(word).load(Ordering::Relaxed);
        Books { sources: self.0.sources.clone(), accounts: read_accounts(count, read) }
    }

    /// What a stage has put out so far, over all sources: a cell of each account, and so cheap enough to ask often.
    pub fn total_output(&self, stage: Stage, unit: Unit) -> u64 {
        let count = self.0.sources.len();
        let cell = LINE_WORDS + output_cell(unit);
        let first = (0..count).map(|source| account_word(count, SourceId(source as u16), stage));
        first.map(|first| self.0.word(first + cell).load(Ordering::Relaxed)).sum()
    }

    /// The books of one snapshot, once every open account has passed its marker.
    pub fn snapshot_books(&self, number: SnapshotNumber) -> Option<Books> {
        let open = self.books().accounts.len();
        let mut snapshots = self.snapshots();
        let place = snapshots.iter().position(|snapshot| snapshot.number == number)?;
        if snapshots[place].accounts.len() < open {
            return None;
        }
        let mut accounts = snapshots.swap_remove(place).accounts;
        accounts.sort_by_key(|account| (account.source, account.stage));
        Some(Books { sources: self.0.sources.clone(), accounts })
    }

    /// Reads the books that a process has left in `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of this version.
    pub fn read_file(path: &Path) -> Result<Books, LedgerError> {
        let bytes = std::fs::read(path).map_err(|cause| file_error(path, cause))?;
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let found = [word(0), word(1), word(3), word(4)];
        let wanted = [MAGIC, VERSION, Stage::COUNT as u64, CELLS as u64];
        let sources = word(2) as usize;
        let size = LINE_WORDS
            .saturating_mul(1 + sources)
            .saturating_add(sources.saturating_mul(Stage::COUNT * ACCOUNT_WORDS));
        if found != wanted || words.len() < size {
            let found = format!("{} bytes, header {:x?}", bytes.len(), &bytes[..bytes.len().min(16)]);
            return Err(LedgerError::Foreign { path: path.to_owned(), found });
        }
        let names = (0..sources).map(|source| {
            let start = 64 * (1 + source);
            let line = &bytes[start..start + 64];
            let end = line.iter().position(|byte| *byte == 0).unwrap_or(64);
            String::from_utf8_lossy(&line[..end]).into_owned()
        });
        Ok(Books { sources: names.collect(), accounts: read_accounts(sources, word) })
    }

    fn snapshots(&self) -> MutexGuard<'_, Vec<Snapshot>> {
        self.0.snapshots.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn add_to_snapshot(&self, number: SnapshotNumber, account: AccountBook) {
        let mut snapshots = self.snapshots();
        let place = snapshots.iter().position(|snapshot| snapshot.number == number).unwrap_or_else(|| {
            if snapshots.len() == SNAPSHOTS_KEPT {
                snapshots.remove(0);
            }
            snapshots.push(Snapshot { number, accounts: Vec::new() });
            snapshots.len() - 1
        });
        snapshots[place].accounts.push(account);
    }
}

/// The one writer of a stage's counts for one source.
pub struct Account {
    ledger: Ledger,
    stage: Stage,
    source: SourceId,
    first: usize,
}

impl Account {
    /// Makes the tally visible: a plain store per used cell, no lock.
    #[inline]
    pub fn publish(&self, tally: &Tally) {
        for index in tally.used_cells() {
            self.ledger
                .0
                .word(self.first + LINE_WORDS + index)
                .store(tally.cells()[index], Ordering::Relaxed);
        }
    }

    /// Publishes, and enters the tally under the number of a marker that has just passed.
    pub fn snapshot(&self, number: SnapshotNumber, tally: &Tally) {
        self.publish(tally);
        let units = self.ledger.0.word(self.first).load(Ordering::Relaxed);
        let account = AccountBook { stage: self.stage, source: self.source, units, tally: tally.clone() };
        self.ledger.add_to_snapshot(number, account);
    }
}

impl Inner {
    fn word(&self, index: usize) -> &AtomicU64 {
        let words = self.map.len() / 8;
        assert!(index < words, "a ledger's words lie inside its file");
        // SAFETY: the mapping is page-aligned, so word `index` is aligned and, as checked, inside it; it lives as long as
        // `self`. All access in this process is through these atomics.
        unsafe { &*self.map.as_ptr().add(index * 8).cast::<AtomicU64>() }
    }
}

fn create_file(path: &Path, bytes: usize) -> std::io::Result<MmapMut> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    // SAFETY: the file was made by us just now (`create_new`); should another process cut it short the kernel ends this
    // one with a bus error, as for any mapped file.
    let mapped = reserve(&file, bytes).and_then(|()| unsafe { MmapMut::map_mut(&file) });
    if mapped.is_err() {
        // What is there of it is no ledger, and a later try is to find its name free.
        let _ = std::fs::remove_file(path);
    }
    mapped
}

fn file_error(path: &Path, cause: std::io::Error) -> LedgerError {
    let path = path.to_owned();
    match cause.kind() {
        std::io::ErrorKind::StorageFull => LedgerError::Full { path },
        _ => LedgerError::File { path, cause },
    }
}

fn account_word(sources: usize, source: SourceId, stage: Stage) -> usize {
    assert!(source.index() < sources, "an account is of a source that the ledger was made for");
    LINE_WORDS * (1 + sources) + (source.index() * Stage::COUNT + stage as usize) * ACCOUNT_WORDS
}

fn read_accounts(sources: usize, word: impl Fn(usize) -> u64) -> Vec<AccountBook> {
    let every =
        (0..sources).flat_map(|source| Stage::ALL.iter().map(move |stage| (SourceId(source as u16), *stage)));
    every
        .filter_map(|(source, stage)| {
            let first = account_word(sources, source, stage);
            let units = word(first);
            let tally = || Tally::from_cells(|cell| word(first + LINE_WORDS + cell));
            (units != 0).then(|| AccountBook { stage, source, units, tally: tally() })
        })
        .collect()
}
