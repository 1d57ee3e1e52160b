//! The ledger's counters, and their copy in a mapped file, which is written with plain stores, can be read by any process, and survives
//! `kill -9`.
//!
//! ```text
//!  64 B header: "THALEDGR", version, sources, stages, cells per slot, bytes of the description
//!  64 B per source: its name
//!  per (source, stage): 64 B (mask of the units that are counted), then the cells, u64 in native byte order
//!  description, JSON: the names of stages, units, reasons and notes in the order of the cells, and the topology
//! ```
//! Because of the description, a program that has other reasons can read the file. Version 1 has no description, and is read if its cells
//! are those of that version.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::claims::Claims;
use super::counters::{CELLS, Counters, MOST_COUNT, output_cell};
use super::description::{Description, Words};
use super::mirror::Mirror;
use super::snapshot::{CounterSnapshot, LedgerSnapshot};
use super::stages::StageRole;
use super::vocabulary::{Stage, Unit};
use crate::batch::SnapshotNumber;
use crate::id::SourceId;
use crate::topology::{Counts, Marker, Topology};

const MAGIC: u64 = u64::from_le_bytes(*b"THALEDGR");
const VERSION: u64 = 2;
/// The version without a description.
const LEGACY_VERSION: u64 = 1;
pub(super) const LINE_WORDS: usize = 8;
const SLOT_WORDS: usize = LINE_WORDS + CELLS.next_multiple_of(LINE_WORDS);
/// Most snapshots that wait to be completed and read; older ones are discarded.
const SNAPSHOTS_KEPT: usize = 8;

/// Why a ledger cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file could not be made, mapped or read.
    #[error("{path}: {cause}")]
    File {
        /// The ledger's file.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The disk has no space for the file.
    #[error("{path}: no space left on the disk")]
    Full {
        /// The ledger's file.
        path: PathBuf,
    },
    /// The file is not a ledger that this program can read.
    #[error("{path}: not a ledger of version {LEGACY_VERSION} or {VERSION}: {found}")]
    Foreign {
        /// The ledger's file.
        path: PathBuf,
        /// What the file contains instead.
        found: String,
    },
}

struct Inner {
    sources: Vec<String>,
    /// The meaning of the cells.
    words: Words,
    /// The topology, if the ledger was made for a run.
    topology: Option<Arc<Topology>>,
    claims: Mutex<Claims>,
    cells: Box<[AtomicU64]>,
    /// The copy in a file, if there is one.
    mirror: Option<Mirror>,
    snapshots: Mutex<Vec<Snapshot>>,
}

struct Snapshot {
    number: SnapshotNumber,
    slots: Vec<CounterSnapshot>,
}

/// The counters of one run. A clone is another handle to the same counters.
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

impl Ledger {
    /// A ledger for these sources, with a copy in the file `path` or, without one, in memory only. Any counter slot may be opened.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: Option<&Path>, sources: &[String]) -> Result<Ledger, LedgerError> {
        Ledger::make(path, sources, None)
    }

    /// A ledger for a run. Every counter slot that the topology declares must be opened once, and no other; see [`Ledger::claim_faults`].
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn of(path: Option<&Path>, topology: Arc<Topology>) -> Result<Ledger, LedgerError> {
        let names = topology.names();
        Ledger::make(path, &names, Some(topology))
    }

    fn make(
        path: Option<&Path>,
        sources: &[String],
        topology: Option<Arc<Topology>>,
    ) -> Result<Ledger, LedgerError> {
        let description = Description::of(topology.as_deref());
        let (meaning, description) = (Words::ours(&description), description.text());
        let slots = slots_words(sources.len(), meaning.stages.len());
        let words = slots + description.len().div_ceil(8);
        let mirror =
            path.map(|path| Mirror::create(path, words * 8).map_err(|cause| file_error(path, cause)));
        let mirror = mirror.transpose()?;
        let cells = (0..words).map(|_| AtomicU64::new(0)).collect();
        let inner = Inner {
            sources: sources.to_vec(),
            words: meaning,
            topology,
            claims: Mutex::default(),
            cells,
            mirror,
            snapshots: Mutex::new(Vec::new()),
        };
        let stages = inner.words.stages.len() as u64;
        let (cells, bytes) = (CELLS as u64, description.len() as u64);
        let header = [MAGIC, VERSION, sources.len() as u64, stages, cells, bytes];
        for (index, word) in header.into_iter().enumerate() {
            inner.store(index, word);
        }
        for (source, name) in sources.iter().enumerate() {
            let mut line = [0u8; 64];
            let kept = name.floor_char_boundary(64);
            line[..kept].copy_from_slice(&name.as_bytes()[..kept]);
            for (index, word) in line.as_chunks::<8>().0.iter().enumerate() {
                inner.store(LINE_WORDS * (1 + source) + index, u64::from_le_bytes(*word));
            }
        }
        for (index, chunk) in description.as_bytes().chunks(8).enumerate() {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            inner.store(slots + index, u64::from_ne_bytes(word));
        }
        Ok(Ledger(Arc::new(inner)))
    }

    /// The topology, if the ledger was made for a run.
    pub fn topology(&self) -> Option<&Arc<Topology>> {
        self.0.topology.as_ref()
    }

    /// Counter slots that were opened without being declared, twice, or with other units than declared; and slots that are declared with
    /// one of these markers and were not opened. One text per fault; empty for a ledger without a topology.
    pub fn claim_faults(&self, markers: &[Marker]) -> Vec<String> {
        let Some(topology) = &self.0.topology else { return Vec::new() };
        let claims = self.0.claims();
        let mut faults = claims.faults.clone();
        for node in topology.nodes.iter().filter(|node| markers.contains(&node.marker)) {
            for subject in node.counts.iter().flat_map(Counts::each) {
                if !claims.opened.contains(&(node.stage, subject)) {
                    let name = &self.0.sources[subject.index()];
                    faults.push(format!(
                        "{}: the counter slot of {name} is declared and was not opened",
                        node.id
                    ));
                }
            }
        }
        faults
    }

    /// Opens the counter slot that a node of the topology declares for a subject, with the declared units. The result is its only writer.
    /// If the slot is not declared, its counts are discarded, and that is a fault; see [`Ledger::claim_faults`].
    pub fn claim(&self, node: &str, subject: SourceId) -> CounterSlot {
        self.claim_units(node, subject, None)
    }

    /// As [`Ledger::claim`], for a source of which only the caller knows which of the declared units it counts.
    pub fn claim_of(&self, node: &str, subject: SourceId, units: &[Unit]) -> CounterSlot {
        self.claim_units(node, subject, Some(units))
    }

    fn claim_units(&self, node: &str, subject: SourceId, units: Option<&[Unit]>) -> CounterSlot {
        let declared = self.0.topology.as_ref().and_then(|topology| topology.counting_at(node, subject));
        match declared {
            Some((stage, counts)) => self.open(stage, subject, units.unwrap_or(&counts.units)),
            None => {
                let name = self.0.sources.get(subject.index()).map_or("?", |name| name);
                self.0.claims().faults.push(format!("{node} of {name}: opened and not declared"));
                CounterSlot::unread()
            }
        }
    }

    /// Opens the counters of one stage and source. The result is their only writer. `units` are those that the stage counts;
    /// they are part of the balance equations even while they are zero.
    pub fn open(&self, stage: Stage, source: SourceId, units: &[Unit]) -> CounterSlot {
        if let Some(topology) = &self.0.topology {
            self.0.claims().open(topology, (stage, source), units);
        }
        let mask = units.iter().fold(0u64, |mask, unit| mask | 1 << *unit as u32);
        let first = self.0.slot_word(source, stage);
        let units = self.0.cells[first].fetch_or(mask, Ordering::Relaxed) | mask;
        self.0.store(first, units);
        CounterSlot { ledger: self.clone(), stage, source, first }
    }

    /// The counters at this moment. They balance while no data are in flight; otherwise stages publish at different moments, and
    /// [`Ledger::snapshot_at`] gives counts that match.
    pub fn snapshot(&self) -> LedgerSnapshot {
        let count = self.0.sources.len();
        let read = |word: usize| self.0.load(word);
        let slots = read_slots(count, &self.0.words, read);
        LedgerSnapshot {
            topology: self.0.topology.clone(),
            ..LedgerSnapshot::of(self.0.sources.clone(), slots)
        }
    }

    /// The sum of `out` so far, over all sources, at the stages with this role. Reads one cell per counter slot, so it is cheap to call.
    pub fn output_at(&self, role: StageRole, unit: Unit) -> u64 {
        let count = self.0.sources.len();
        let cell = LINE_WORDS + output_cell(unit);
        let stages = self.0.words.stages.iter().filter(|stage| stage.role() == role);
        let sources = || (0..count).map(|source| SourceId(source as u16));
        let first = stages.flat_map(|stage| sources().map(|source| self.0.slot_word(source, *stage)));
        first.map(|first| self.0.load(first + cell)).sum()
    }

    /// The snapshot with this number, after its marker has passed every open counter slot; `None` before.
    pub fn snapshot_at(&self, number: SnapshotNumber) -> Option<LedgerSnapshot> {
        let open = self.snapshot().slots.len();
        let mut snapshots = self.snapshots();
        let index = snapshots.iter().position(|snapshot| snapshot.number == number)?;
        if snapshots[index].slots.len() < open {
            return None;
        }
        let slots = snapshots.swap_remove(index).slots;
        let counts = LedgerSnapshot::of(self.0.sources.clone(), slots);
        Some(LedgerSnapshot { topology: self.0.topology.clone(), at_a_marker: true, ..counts })
    }

    /// Writes the file again if another program has truncated, removed or replaced it; the counters themselves are in memory and are not
    /// affected. Returns whether the file was written. Asks the system for the length of the file, so call it about once a second.
    ///
    /// # Errors
    /// If the file cannot be made, or its disk has no space.
    pub fn repair_file(&self) -> Result<bool, LedgerError> {
        let Some(mirror) = &self.0.mirror else { return Ok(false) };
        mirror.repair(&self.0.cells).map_err(|cause| file_error(mirror.path(), cause))
    }

    /// Reads the ledger that a process has left in the file `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a ledger that this program can read.
    pub fn read_file(path: &Path) -> Result<LedgerSnapshot, LedgerError> {
        let bytes = std::fs::read(path).map_err(|cause| file_error(path, cause))?;
        read_snapshot(&bytes).map_err(|found| LedgerError::Foreign { path: path.to_owned(), found })
    }

    fn snapshots(&self) -> MutexGuard<'_, Vec<Snapshot>> {
        self.0.snapshots.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn add_to_snapshot(&self, number: SnapshotNumber, slot: CounterSnapshot) {
        let mut snapshots = self.snapshots();
        let index = snapshots.iter().position(|snapshot| snapshot.number == number).unwrap_or_else(|| {
            if snapshots.len() == SNAPSHOTS_KEPT {
                snapshots.remove(0);
            }
            snapshots.push(Snapshot { number, slots: Vec::new() });
            snapshots.len() - 1
        });
        snapshots[index].slots.push(slot);
    }
}

/// The only writer of a stage's counters for one source.
pub struct CounterSlot {
    ledger: Ledger,
    stage: Stage,
    source: SourceId,
    first: usize,
}

impl CounterSlot {
    /// A slot of a separate ledger that nobody reads, for a stage that is not declared.
    fn unread() -> CounterSlot {
        let source = ["nobody".to_owned()];
        let ledger = Ledger::make(None, &source, None).expect("a ledger in memory needs no file");
        let stage = ledger.0.words.stages[0];
        ledger.open(stage, SourceId(0), &[])
    }

    /// The stage that counts here.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Makes the counters visible to readers: a plain store per used cell, without a lock.
    #[inline]
    pub fn publish(&self, counters: &Counters) {
        for index in counters.used_cells() {
            self.ledger.0.store(self.first + LINE_WORDS + index, counters.cells()[index]);
        }
    }

    /// Publishes the counters, and adds them to the snapshot whose marker has just passed.
    pub fn snapshot(&self, number: SnapshotNumber, counters: &Counters) {
        self.publish(counters);
        let units = self.ledger.0.load(self.first);
        let slot =
            CounterSnapshot { stage: self.stage, source: self.source, units, counters: counters.clone() };
        self.ledger.add_to_snapshot(number, slot);
    }
}

impl Inner {
    /// Index of the first word of the counter slot of a stage and source.
    fn slot_word(&self, source: SourceId, stage: Stage) -> usize {
        let (sources, stages) = (self.sources.len(), &self.words.stages);
        assert!(source.index() < sources, "a counter slot belongs to a source of the ledger");
        let index = stages.iter().position(|each| *each == stage);
        let index = index.expect("a stage is added before the ledger is made");
        LINE_WORDS * (1 + sources) + (source.index() * stages.len() + index) * SLOT_WORDS
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[inline]
    fn store(&self, index: usize, value: u64) {
        self.cells[index].store(value, Ordering::Relaxed);
        if let Some(mirror) = &self.mirror {
            mirror.store(index, value);
        }
    }

    fn load(&self, index: usize) -> u64 {
        self.cells[index].load(Ordering::Relaxed)
    }
}

fn file_error(path: &Path, cause: std::io::Error) -> LedgerError {
    let path = path.to_owned();
    match cause.kind() {
        std::io::ErrorKind::StorageFull => LedgerError::Full { path },
        _ => LedgerError::File { path, cause },
    }
}

/// Number of words before the description, for this program's cells.
fn slots_words(sources: usize, stages: usize) -> usize {
    LINE_WORDS * (1 + sources) + sources * stages * SLOT_WORDS
}

fn read_snapshot(bytes: &[u8]) -> Result<LedgerSnapshot, String> {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let foreign = || format!("{} bytes, header {:x?}", bytes.len(), &bytes[..bytes.len().min(16)]);
    let (sources, stages, cells) = (word(2) as usize, word(3) as usize, word(4) as usize);
    let cell_words = cells.checked_next_multiple_of(LINE_WORDS).unwrap_or(usize::MAX);
    let slot_words = LINE_WORDS.saturating_add(cell_words);
    let slots = sources.saturating_mul(stages).saturating_mul(slot_words);
    let slots = LINE_WORDS.saturating_mul(sources.saturating_add(1)).saturating_add(slots);
    if word(0) != MAGIC || words.len() < slots {
        return Err(foreign());
    }
    let (described, topology) = match word(1) {
        LEGACY_VERSION if (stages, cells) == Words::legacy().shape() => (Words::legacy(), None),
        VERSION => {
            let text =
                bytes.get(slots * 8..).and_then(|rest| rest.get(..word(5) as usize)).ok_or_else(foreign)?;
            let description: Description =
                serde_json::from_slice(text).map_err(|cause| format!("its description: {cause}"))?;
            if let Some(fault) =
                description.topology.as_ref().and_then(|each| each.faults().into_iter().next())
            {
                return Err(format!("its topology: {fault}"));
            }
            (Words::of(&description, (stages, cells))?, description.topology.map(Arc::new))
        }
        _ => return Err(foreign()),
    };
    let names = (0..sources).map(|source| {
        let start = 64 * (1 + source);
        let line = &bytes[start..start + 64];
        let end = line.iter().position(|byte| *byte == 0).unwrap_or(64);
        String::from_utf8_lossy(&line[..end]).into_owned()
    });
    // A line of the file contains only the first 64 bytes of a long name.
    let names = topology.as_ref().map_or_else(|| names.collect(), |topology| topology.names());
    if names.len() != sources {
        return Err(format!("{} names of {sources} sources", names.len()));
    }
    let legacy = word(1) == LEGACY_VERSION;
    let slots = read_slots(sources, &described, word);
    let counts = slots.iter().flat_map(|slot| slot.counters.cells());
    if let Some(count) = counts.filter(|count| **count > MOST_COUNT).max() {
        return Err(format!("a count of {count}, more than any run has"));
    }
    Ok(LedgerSnapshot { topology, legacy, ..LedgerSnapshot::of(names, slots) })
}

fn read_slots(sources: usize, words: &Words, word: impl Fn(usize) -> u64) -> Vec<CounterSnapshot> {
    let mut slots = Vec::new();
    for source in 0..sources {
        for (index, stage) in words.stages.iter().enumerate() {
            let first = LINE_WORDS * (1 + sources) + (source * words.stages.len() + index) * words.slot_words;
            let counted = word(first);
            let units = words.units.iter().enumerate().filter(|(bit, _)| counted >> bit & 1 == 1);
            let units = units.fold(0, |mask, (_, unit)| mask | 1 << *unit as u32);
            if units != 0 {
                let cell = |(theirs, ours): (usize, &Option<usize>)| {
                    Some(((*ours)?, word(first + LINE_WORDS + theirs)))
                };
                let counters = Counters::from_cells(words.cells.iter().enumerate().filter_map(cell));
                slots.push(CounterSnapshot {
                    stage: *stage,
                    source: SourceId(source as u16),
                    units,
                    counters,
                });
            }
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(path: &Path) -> Option<u64> {
        let counts = Ledger::read_file(path).ok()?;
        Some(counts.slot(Stage::Receive, SourceId(0))?.counters.total_input(Unit::Hits))
    }

    /// A folder of this test's own, and the ledger of a board in a file there.
    fn ledger_in_a_folder(test: &str) -> (PathBuf, PathBuf, Ledger) {
        let folder = std::env::temp_dir().join(format!("thalweg-ledger-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        let path = folder.join("ledger.bin");
        let ledger = Ledger::create(Some(&path), &["board".to_owned()]).expect("made");
        (folder, path, ledger)
    }

    #[test]
    fn a_truncated_or_removed_file_is_written_again_with_every_count() {
        let (folder, path, ledger) = ledger_in_a_folder("truncated");
        let slot = ledger.open(Stage::Receive, SourceId(0), &[Unit::Hits]);
        let mut counters = Counters::default();
        let mut count = || {
            counters.input(Unit::Hits, 7);
            slot.publish(&counters);
        };
        count();
        assert_eq!((counted(&path), ledger.repair_file().expect("whole")), (Some(7), false));
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("there");
        file.set_len(0).expect("truncated");
        // Without the handler, this store kills the process, since the page is behind the end of the file.
        count();
        count();
        let in_memory = ledger.snapshot().slot(Stage::Receive, SourceId(0)).map(|slot| slot.counters.clone());
        assert_eq!(in_memory.map(|counters| counters.total_input(Unit::Hits)), Some(21));
        assert!(ledger.repair_file().expect("written again"));
        assert_eq!(counted(&path), Some(21));
        std::fs::remove_file(&path).expect("removed");
        count();
        assert!(ledger.repair_file().expect("written again"));
        count();
        assert_eq!((counted(&path), ledger.repair_file().expect("whole")), (Some(35), false));
        drop((slot, ledger));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_file_with_impossible_counts_or_sizes_is_refused() {
        let (folder, path, ledger) = ledger_in_a_folder("damaged");
        let mut counters = Counters::default();
        counters.input(Unit::Hits, MOST_COUNT);
        ledger.open(Stage::Receive, SourceId(0), &[Unit::Hits]).publish(&counters);
        assert_eq!(counted(&path), Some(MOST_COUNT));
        let whole = std::fs::read(&path).expect("readable");
        let place =
            whole.array_windows().position(|word| *word == MOST_COUNT.to_ne_bytes()).expect("it is there");
        let with = |place: usize, word: u64| {
            let mut damaged = whole.clone();
            damaged[place..place + 8].copy_from_slice(&word.to_ne_bytes());
            std::fs::write(&path, damaged).expect("written");
            Ledger::read_file(&path).map_or_else(|error| error.to_string(), |_| String::new())
        };
        assert!(with(place, u64::MAX).contains("a count of 18446744073709551615, more than any run has"));
        for size in 2..=5 {
            assert!(!with(8 * size, u64::MAX).is_empty(), "size {size}");
        }
        drop(ledger);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
