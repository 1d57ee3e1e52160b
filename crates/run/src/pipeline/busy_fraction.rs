//! One thread's part in BUSY.
//!
//! ```text
//!  raise, lower ─► Busy, shared by all ─► the trigger
//!        └─► how long it was raised ─► fraction of the run
//! ```

use std::sync::Arc;

use thalweg_data::{Busy, Mark};

/// This thread's part in BUSY, and how long it was raised.
pub(crate) struct BusyFraction {
    busy: Arc<Busy>,
    raised: bool,
    since: Mark,
    total_ns: u64,
}

impl BusyFraction {
    pub(crate) fn new(busy: Arc<Busy>) -> BusyFraction {
        BusyFraction { busy, raised: false, since: Mark(0), total_ns: 0 }
    }

    pub(crate) fn set(&mut self, raised: bool, mark: Mark) {
        if raised == self.raised {
            return;
        }
        match raised {
            true => {
                self.busy.raise();
                self.since = mark;
            }
            false => {
                self.busy.lower();
                self.total_ns += mark.since_ns(self.since);
            }
        }
        self.raised = raised;
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raised
    }

    /// Lowers for good; how long it was raised is not counted on.
    pub(crate) fn lower(&mut self) {
        if std::mem::take(&mut self.raised) {
            self.busy.lower();
        }
    }

    /// Fraction of the run so far, 0 to 1.
    pub(crate) fn fraction(&self, mark: Mark) -> f64 {
        let now = if self.raised { mark.since_ns(self.since) } else { 0 };
        (self.total_ns + now) as f64 / mark.0.max(1) as f64
    }
}
