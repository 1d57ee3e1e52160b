//! A disk that forgets: after a crash it has any part of what no fsync has covered, sector by sector and name by name.
//!
//! ```text
//!  operations ─► now          fsync: now ─► durable
//!      └ the one that a test names fails, and all after it       lose_power: durable + any subset of the rest ─► now
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_record::read::ReadAt;

use super::{Disk, DiskFile};

/// What a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// Reproducible choices: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Choices(pub u64);

impl Choices {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % most
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

#[derive(Clone, Debug)]
enum Naming {
    Set(String, usize),
    Unset(String),
}

#[derive(Debug, Default)]
struct Content {
    durable: Vec<u8>,
    now: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Default)]
struct Names {
    durable: BTreeMap<String, usize>,
    now: BTreeMap<String, usize>,
    pending: Vec<Naming>,
}

#[derive(Debug, Default)]
struct State {
    contents: Vec<Content>,
    names: BTreeMap<PathBuf, Names>,
    /// Operations until the crash.
    left: Option<u64>,
    most_bytes: Option<usize>,
    forget: Option<Choices>,
}

/// The disk; its clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyDisk(Arc<Mutex<State>>);

/// A file of it.
#[derive(Debug)]
pub(crate) struct FaultyFile {
    disk: FaultyDisk,
    content: usize,
}

fn crashed() -> io::Error {
    io::Error::other("crashed")
}

impl State {
    /// Counts an operation; whether it is done, fails in the middle, or comes after the crash.
    fn count(&mut self) -> io::Result<bool> {
        match &mut self.left {
            None => Ok(true),
            Some(0) => Err(crashed()),
            Some(left) => {
                *left -= 1;
                Ok(*left > 0)
            }
        }
    }

    fn names(&mut self, path: &Path) -> (&mut Names, String) {
        let name = path.file_name().expect("a file").to_str().expect("plain").to_owned();
        (self.names.entry(path.parent().expect("a directory").to_owned()).or_default(), name)
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>, mut takes: impl FnMut() -> bool) {
        match self {
            Change::Length(length) => {
                if takes() {
                    to.resize(*length, 0);
                }
            }
            Change::Write(offset, bytes) => {
                let mut from = 0;
                while from < bytes.len() {
                    let start = offset + from;
                    let end = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES - offset).min(bytes.len());
                    if takes() {
                        if to.len() < offset + end {
                            to.resize(offset + end, 0);
                        }
                        to[start..offset + end].copy_from_slice(&bytes[from..end]);
                    }
                    from = end;
                }
            }
        }
    }
}

impl FaultyDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with it")
    }

    /// So many operations are done; the next fails in the middle, and all after it.
    pub(crate) fn crash_after(&self, operations: Option<u64>) {
        self.state().left = operations;
    }

    /// All files together take no more than this.
    pub(crate) fn limit(&self, most_bytes: Option<usize>) {
        self.state().most_bytes = most_bytes;
    }

    /// Reads after [`DiskFile::forget`] give what is on the disk, one bit of it changed: a disk that does not keep what it was given.
    pub(crate) fn damage_what_is_read_back(&self, choices: Option<Choices>) {
        self.state().forget = choices;
    }

    /// The program is killed: what it has written is there.
    pub(crate) fn restart(&self) {
        self.state().left = None;
    }

    /// The power goes: of what no fsync has covered any subset is there.
    pub(crate) fn lose_power(&self, choices: &mut Choices) {
        let mut state = self.state();
        state.left = None;
        for content in &mut state.contents {
            let Content { durable, now, pending } = content;
            for change in pending.drain(..) {
                // All of it, none, or some sectors.
                let mode = choices.below(3);
                change.apply(durable, || mode == 0 || mode == 1 && choices.below(2) == 0);
            }
            now.clone_from(durable);
        }
        for names in state.names.values_mut() {
            for naming in std::mem::take(&mut names.pending) {
                if choices.below(2) == 0 {
                    naming.apply(&mut names.durable);
                }
            }
            names.now.clone_from(&names.durable);
        }
    }

    /// What a reader sees of a file now.
    pub(crate) fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let mut state = self.state();
        let (names, name) = state.names(path);
        let content = *names.now.get(&name)?;
        Some(state.contents[content].now.clone())
    }
}

impl Naming {
    fn apply(&self, to: &mut BTreeMap<String, usize>) {
        match self {
            Naming::Set(name, content) => _ = to.insert(name.clone(), *content),
            Naming::Unset(name) => _ = to.remove(name),
        }
    }
}

impl Names {
    fn change(&mut self, naming: Naming) {
        naming.apply(&mut self.now);
        self.pending.push(naming);
    }
}

impl Disk for FaultyDisk {
    type File = FaultyFile;

    fn open(&self, path: &Path) -> io::Result<FaultyFile> {
        let mut state = self.state();
        if state.left == Some(0) {
            return Err(crashed());
        }
        let (names, name) = state.names(path);
        let content = *names.now.get(&name).ok_or(io::ErrorKind::NotFound)?;
        Ok(FaultyFile { disk: self.clone(), content })
    }

    fn create(&self, path: &Path) -> io::Result<FaultyFile> {
        let mut state = self.state();
        if !state.count()? {
            return Err(crashed());
        }
        state.contents.push(Content::default());
        let content = state.contents.len() - 1;
        let (names, name) = state.names(path);
        names.change(Naming::Set(name, content));
        Ok(FaultyFile { disk: self.clone(), content })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.open(from)?;
        let mut state = self.state();
        let is_done = state.count()?;
        let (names, name) = state.names(to);
        names.change(Naming::Set(name, file.content));
        let (names, name) = state.names(from);
        names.change(Naming::Unset(name));
        if is_done { Ok(()) } else { Err(crashed()) }
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.state().names.entry(path.to_owned()).or_default();
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if !state.count()? {
            return Err(crashed());
        }
        let names = state.names.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
        names.pending.clear();
        names.durable.clone_from(&names.now);
        Ok(())
    }
}

impl ReadAt for FaultyFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.state().contents[self.content].now.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        (&state.contents[self.content].now[..]).read_at(into, offset)?;
        // State files are small, and a disk that loses them is another test.
        if let (Some(choices), true) = (&mut state.forget, into.len() >= SECTOR_BYTES) {
            let bit = choices.below(into.len() as u64 * 8) as usize;
            into[bit / 8] ^= 1 << (bit % 8);
        }
        Ok(())
    }
}

impl DiskFile for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let is_done = state.count()?;
        // The system may have taken a part of it.
        let taken = if is_done { bytes.len() } else { bytes.len() / 2 };
        let used: usize = state.contents.iter().map(|content| content.now.len()).sum();
        let content = &state.contents[self.content];
        let grows = (offset as usize + bytes.len()).saturating_sub(content.now.len());
        if state.most_bytes.is_some_and(|most| used + grows > most) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let Content { now, pending, .. } = &mut state.contents[self.content];
        let change = Change::Write(offset as usize, bytes[..taken].to_vec());
        change.apply(now, || true);
        pending.push(change);
        if is_done { Ok(()) } else { Err(crashed()) }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let is_done = state.count()?;
        let Content { now, pending, .. } = &mut state.contents[self.content];
        now.resize(length as usize, 0);
        pending.push(Change::Length(length as usize));
        if is_done { Ok(()) } else { Err(crashed()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if !state.count()? {
            return Err(crashed());
        }
        let Content { durable, now, pending } = &mut state.contents[self.content];
        pending.clear();
        durable.clone_from(now);
        Ok(())
    }

    fn forget(&self, _from: u64, _bytes: u64) {}
}
