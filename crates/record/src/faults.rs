//! A disk that fails when a test says so: the N-th call of a kind, once or from then on.
//!
//! ```text
//!  create, write, force, rename ──► counted ──► due? half of it, then EIO or ENOSPC · or half of it alone
//! ```
//! Faults are those of the thread that sets them; a thread that writes for it takes them along.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex};

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file is made.
    Open,
    /// Bytes are written.
    Write,
    /// A file or directory is forced to the disk.
    Force,
    /// A file gets another name.
    Rename,
}

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO, after half of the bytes.
    Broken,
    /// ENOSPC, after half of the bytes.
    Full,
    /// Half of the bytes are written, which is no error. Of other operations: nothing.
    Short,
}

/// Which operations fail.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Those of this kind; `None`: all.
    pub of: Option<Operation>,
    /// The first that fails, counted from 0.
    pub first: u64,
    /// The number of those that fail in a row.
    pub count: u64,
    /// How.
    pub fault: Fault,
}

/// Faults, and the operations so far.
#[derive(Debug)]
struct Injected {
    faults: Faults,
    seen: Mutex<u64>,
}

thread_local! {
    static INJECTED: RefCell<Option<Arc<Injected>>> = const { RefCell::new(None) };
}

impl Fault {
    /// What the system says after it.
    pub(crate) fn result(self) -> io::Result<()> {
        match self {
            Fault::Broken => Err(io::Error::from_raw_os_error(libc::EIO)),
            Fault::Full => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Fault::Short => Ok(()),
        }
    }
}

/// The faults of a thread, for one that works for it.
pub(crate) struct Here(Option<Arc<Injected>>);

impl Here {
    /// Those of this thread.
    pub fn of_this_thread() -> Here {
        Here(INJECTED.with_borrow(Clone::clone))
    }

    /// Makes them those of this thread.
    pub fn take_over(&self) {
        INJECTED.set(self.0.clone());
    }
}

/// Runs `work` on a disk with these faults; returns its result, and how many operations of the kind there were.
pub fn with_faults<R>(faults: Faults, work: impl FnOnce() -> R) -> (R, u64) {
    let injected = Arc::new(Injected { faults, seen: Mutex::new(0) });
    INJECTED.set(Some(injected.clone()));
    let result = work();
    INJECTED.set(None);
    let seen = *injected.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    (result, seen)
}

/// On this thread, so many more files are forced to the disk; every later try fails. `None`: none fails.
#[cfg(test)]
pub(crate) fn fail_forces_after(forces: Option<u64>) {
    let faults = |first| Faults { of: Some(Operation::Force), first, count: u64::MAX, fault: Fault::Broken };
    let injected = |first| Arc::new(Injected { faults: faults(first), seen: Mutex::new(0) });
    INJECTED.set(forces.map(injected));
}

/// Counts an operation; returns how it fails, if it does.
pub(crate) fn due(operation: Operation) -> Option<Fault> {
    let injected = Here::of_this_thread().0?;
    let faults = injected.faults;
    if faults.of.is_some_and(|of| of != operation) {
        return None;
    }
    let mut seen = injected.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let number = *seen;
    *seen += 1;
    (number >= faults.first && number - faults.first < faults.count).then_some(faults.fault)
}

/// Counts an operation that is done as a whole or not at all.
pub(crate) fn fail_if_due(operation: Operation) -> io::Result<()> {
    due(operation).map_or(Ok(()), Fault::result)
}
