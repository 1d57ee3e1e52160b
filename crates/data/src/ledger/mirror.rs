//! The mapped file of the ledger: a copy of the counters that survives the process, while the process survives damage to the file.
//!
//! ```text
//!  counters in private memory (the original) ── plain stores ──► mapping of ledger.bin ──► readers, even after kill -9
//!                                                   │ the file was truncated: SIGBUS
//!                                                   └─► anonymous memory replaces the mapping; `repair` writes the file again
//! ```
//! A store to a mapping beyond the end of its file raises SIGBUS, which by default kills the process. Here, the file is out of date until
//! the next [`Mirror::repair`], and no count is lost.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use memmap2::MmapRaw;

use crate::memory::reserve;

/// Most mappings that are guarded at a time in one process: one per current run.
const MOST_GUARDED: usize = 64;

/// A mapping that the signal handler knows.
struct Guarded {
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// Anonymous memory has replaced its file.
    is_detached: AtomicBool,
}

static GUARDED: [Guarded; MOST_GUARDED] = [const {
    Guarded { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0), is_detached: AtomicBool::new(false) }
}; MOST_GUARDED];

/// The action of the signal before the handler was installed: a pointer that is made once and never freed.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// The mapped copy of a ledger's counters.
pub(super) struct Mirror {
    map: MmapRaw,
    path: PathBuf,
    file: Mutex<File>,
    guarded: &'static Guarded,
}

impl Mirror {
    /// Makes the file, which must not exist, with a length of `bytes` bytes.
    ///
    /// # Errors
    /// If it exists or cannot be made, the disk is full, or too many ledgers are open.
    pub fn create(path: &Path, bytes: usize) -> io::Result<Mirror> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let mapped = reserve(&file, bytes)
            .and_then(|()| MmapRaw::map_raw(&file))
            .and_then(|map| Ok((guard(&map)?, map)));
        let (guarded, map) = mapped.inspect_err(|_| {
            // The incomplete file is no ledger; without it, the name is free for another try.
            let _ = std::fs::remove_file(path);
        })?;
        Ok(Mirror { map, path: path.to_owned(), file: Mutex::new(file), guarded })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores a word of the copy.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        assert!(index < self.map.len() / 8, "a ledger's words lie inside its file");
        // SAFETY: the mapping is page-aligned, so word `index` is aligned and, as checked, inside it; it lives as long as
        // `self`. All access in this process is through atomics. If the file is shorter by now, the handler of SIGBUS
        // replaces the whole mapping by anonymous memory, and the store is repeated.
        let word = unsafe { &*self.map.as_mut_ptr().add(index * 8).cast::<AtomicU64>() };
        word.store(value, Ordering::Relaxed);
    }

    /// Writes the file again with all counters if another program has truncated, removed or replaced it. Returns whether it was written.
    ///
    /// # Errors
    /// If the file cannot be made or its disk has no space; counting continues without it.
    pub fn repair(&self, counters: &[AtomicU64]) -> io::Result<bool> {
        let bytes = self.map.len();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let open = file.metadata()?;
        let named = std::fs::symlink_metadata(&self.path).ok();
        let is_named = named.is_some_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino()));
        let is_whole = open.len() >= bytes as u64 && !self.guarded.is_detached.load(Ordering::Acquire);
        if is_named && is_whole {
            return Ok(false);
        }
        if !is_named {
            let beside = self.path.with_extension("bin.new");
            *file = File::options().read(true).write(true).create(true).truncate(true).open(&beside)?;
            std::fs::rename(&beside, &self.path)?;
        }
        reserve(&file, bytes)?;
        // SAFETY: the range is that of our own mapping, which this call maps to another object; no reference into it exists across
        // the call, and concurrent atomic stores go to either object.
        let again = unsafe {
            libc::mmap(
                self.map.as_mut_ptr().cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                0,
            )
        };
        if again == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.guarded.is_detached.store(false, Ordering::Release);
        for (index, counter) in counters.iter().enumerate() {
            self.store(index, counter.load(Ordering::Relaxed));
        }
        Ok(true)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.guarded.bytes.store(0, Ordering::Release);
        self.guarded.start.store(0, Ordering::Release);
    }
}

/// Adds a mapping to those that the handler knows.
fn guard(map: &MmapRaw) -> io::Result<&'static Guarded> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    let start = map.as_ptr() as usize;
    let free = GUARDED.iter().find(|guarded| {
        guarded.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    let guarded = free.ok_or_else(|| io::Error::other("too many ledgers are open in this process"))?;
    guarded.is_detached.store(false, Ordering::Release);
    guarded.bytes.store(map.len(), Ordering::Release);
    Ok(guarded)
}

fn install() {
    let mut before = Box::new(empty_action());
    let mut action = empty_action();
    action.sa_sigaction = on_bus_error as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both structures are valid and outlive the call; the handler is a function of this program.
    let result = unsafe { libc::sigaction(libc::SIGBUS, &action, &mut *before) };
    if result == 0 {
        BEFORE.store(Box::into_raw(before), Ordering::Release);
    }
}

fn empty_action() -> libc::sigaction {
    // SAFETY: all zeros are a valid value of this structure of numbers: the default action, an empty mask.
    unsafe { std::mem::zeroed() }
}

/// Replaces a mapping whose file is too short by anonymous memory; for every other address, performs the previous action.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure to a handler with SA_SIGINFO, and for SIGBUS it has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    for guarded in &GUARDED {
        let (start, bytes) = (guarded.start.load(Ordering::Acquire), guarded.bytes.load(Ordering::Acquire));
        if start != 0 && (start..start + bytes).contains(&address) {
            // SAFETY: the range is that of a mapping of ours, which exists, since a thread stores to it at this moment, and which is
            // accessed by atomic stores only. mmap is one system call and takes no lock; when it succeeds, it does not change errno.
            let mapped = unsafe {
                libc::mmap(
                    start as *mut libc::c_void,
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                    -1,
                    0,
                )
            };
            if mapped != libc::MAP_FAILED {
                guarded.is_detached.store(true, Ordering::Release);
                return;
            }
        }
    }
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: the pointer is null or was leaked by `install`. The called function is the handler that was installed with
    // these flags; without one, the default action is set, and takes effect when the instruction is repeated.
    unsafe {
        let action = if before.is_null() { empty_action() } else { *before };
        match action.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::sigaction(signal, &empty_action(), std::ptr::null_mut());
            }
            handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}
