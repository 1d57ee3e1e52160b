//! What follows from what a recording says: whether the run waits or ends.
//!
//! ```text
//!  Result of a write ─► full, and it may wait ─► paused        failed ─► told once, and the run ends
//! ```

use thalweg_data::SinkError;
use thalweg_record::OnFull;

use super::{Recorded, Signals};

/// How one recording stands. What it refuses is counted as lost in its own books.
#[derive(Debug)]
pub(super) struct Outcome {
    recorded: Recorded,
    on_full: OnFull,
    /// It has failed, and has told why.
    has_failed: bool,
}

impl Outcome {
    pub(super) fn new(recorded: Recorded, on_full: OnFull) -> Outcome {
        Outcome { recorded, on_full, has_failed: false }
    }

    /// A batch was written, or not.
    pub(super) fn heed(&mut self, result: Result<(), SinkError>, signals: &Signals) {
        match result {
            Ok(()) => signals.set_paused(self.recorded, false),
            Err(SinkError::Full { .. }) if self.on_full == OnFull::Pause => {
                signals.set_paused(self.recorded, true);
            }
            Err(error) if self.has_failed => tracing::debug!("{error}"),
            Err(error) => {
                self.has_failed = true;
                signals.fail(error.to_string());
            }
        }
    }

    /// Everything was written, or not: nothing is waited for any more.
    pub(super) fn end(&self, result: Result<(), SinkError>, signals: &Signals) {
        if let Err(error) = result
            && !self.has_failed
        {
            signals.fail(error.to_string());
        }
    }
}
