//! The first units that were refused, as the reading threads keep them.
//!
//! ```text
//!  splitters: first_refused ─┐                              ┌─► summary, run.json
//!  builders: dumps ──────────┴─► RefusedGauges ─ by time ───┴─► live state
//! ```

use std::collections::BTreeMap;
use std::sync::Mutex;

use thalweg_monitor::state::RefusedUnit;

/// The refused units that the reading threads have kept. Each thread replaces its own when there are more; any thread reads.
#[derive(Debug, Default)]
pub(crate) struct RefusedGauges(Mutex<BTreeMap<String, Vec<RefusedUnit>>>);

impl RefusedGauges {
    /// Puts what one thread has kept in the place of what it had before.
    pub(crate) fn set(&self, thread: &str, units: Vec<RefusedUnit>) {
        self.lock().insert(thread.to_owned(), units);
    }

    /// All of them, in the order in which they came.
    pub(crate) fn all(&self) -> Vec<RefusedUnit> {
        let mut all: Vec<RefusedUnit> = self.lock().values().flatten().cloned().collect();
        all.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
        all
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<RefusedUnit>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
