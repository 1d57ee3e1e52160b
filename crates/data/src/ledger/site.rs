//! The places in the source text that count, each of which a test can leave out: where a run goes on to balance without one of its
//! counts, no balance equation watches over that.
//!
//! ```text
//!  note_all() ─► run ─► counted(): every place that counted something ─► for each: leave_out(place) ─► run ─► must not balance
//! ```
//! Only in builds with debug assertions; others count without a look here.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A place in the source text: file and line of the call.
pub type Site = (&'static str, u32);

/// The place that is left out, in this process, from now on.
static LEFT_OUT: OnceLock<(String, u32)> = OnceLock::new();
static IS_NOTING: AtomicBool = AtomicBool::new(false);
static COUNTED: Mutex<BTreeMap<Site, u64>> = Mutex::new(BTreeMap::new());

/// Leaves out whatever is counted at a place, until the process ends. A second place is not taken.
pub fn leave_out(file: &str, line: u32) {
    let _second = LEFT_OUT.set((file.to_owned(), line));
}

/// Notes from now on which places count something.
pub fn note_all() {
    IS_NOTING.store(true, Ordering::Relaxed);
}

/// Every place that has counted something, with the sum of it.
pub fn counted() -> BTreeMap<Site, u64> {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Whether what is counted here is left out.
pub(super) fn is_left_out(place: &'static Location<'static>, count: u64) -> bool {
    if IS_NOTING.load(Ordering::Relaxed) && count > 0 {
        let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
        *counted.entry((place.file(), place.line())).or_default() += count;
    }
    LEFT_OUT.get().is_some_and(|(file, line)| *line == place.line() && file == place.file())
}
