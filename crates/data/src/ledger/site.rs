//! Mutation tests of the balance equations: a test can leave out the counts of one line of the source text. If a run still balances
//! without them, no equation checks that count.
//!
//! ```text
//!  note_all() ─► run ─► counted(): every line that counted something ─► for each: leave_out(line) ─► run ─► must not balance
//! ```
//! Only in builds with debug assertions.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A call in the source text: file and line.
pub type Site = (&'static str, u32);

/// The call whose counts are left out in this process.
static LEFT_OUT: OnceLock<(String, u32)> = OnceLock::new();
static IS_NOTING: AtomicBool = AtomicBool::new(false);
static COUNTED: Mutex<BTreeMap<Site, u64>> = Mutex::new(BTreeMap::new());

/// Leaves out everything that this line counts, until the process ends. A second call has no effect.
pub fn leave_out(file: &str, line: u32) {
    let _second = LEFT_OUT.set((file.to_owned(), line));
}

/// Notes from now on which calls count something.
pub fn note_all() {
    IS_NOTING.store(true, Ordering::Relaxed);
}

/// Every call that has counted something, with its sum.
pub fn counted() -> BTreeMap<Site, u64> {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Whether the counts of this call are left out.
pub(super) fn is_left_out(call: &'static Location<'static>, count: u64) -> bool {
    if IS_NOTING.load(Ordering::Relaxed) && count > 0 {
        let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
        *counted.entry((call.file(), call.line())).or_default() += count;
    }
    LEFT_OUT.get().is_some_and(|(file, line)| *line == call.line() && file == call.file())
}
