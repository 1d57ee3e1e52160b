//! Reacts to a recorder's result: pause on a full disk, else end the run.
//!
//! ```text
//!  Result of a write ─► full, and it may wait ─► paused        failed ─► said once, and the run ends
//! ```

use std::time::{Duration, Instant};

use thalweg_data::SinkError;
use thalweg_record::OnFull;

use super::{Recorded, Signals};

/// A recording that may wait for space does so for this long when the run has ended.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// Between two tries.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// The state of one recording. Data that it refuses are counted as lost in its own slots.
#[derive(Debug)]
pub(crate) struct RecordingState {
    recorded: Recorded,
    on_full: OnFull,
    /// The disk is full, and the run may wait for space.
    is_waiting: bool,
    /// It has failed, and has said why.
    has_failed: bool,
}

impl RecordingState {
    pub(crate) fn new(recorded: Recorded, on_full: OnFull) -> RecordingState {
        RecordingState { recorded, on_full, is_waiting: false, has_failed: false }
    }

    /// A batch was written, or not.
    pub(crate) fn on_result(&mut self, result: Result<(), SinkError>, signals: &Signals) {
        match result {
            Ok(()) => {
                signals.note_written();
                self.wait(false, signals);
            }
            Err(SinkError::Full { .. }) if self.on_full == OnFull::Pause => self.wait(true, signals),
            Err(error) if self.has_failed => tracing::debug!("{error}"),
            Err(error) => {
                self.has_failed = true;
                signals.fail(error.to_string());
            }
        }
    }

    /// Returns true if it waits for disk space.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn wait(&mut self, is_waiting: bool, signals: &Signals) {
        if std::mem::replace(&mut self.is_waiting, is_waiting) != is_waiting {
            signals.set_paused(self.recorded, is_waiting);
        }
    }

    /// The run has ended, and `sink` is closed. What a full disk has no space for is tried again first, by `complete`, while somebody may
    /// make some; what `finish` cannot write is lost, and reported.
    pub(crate) fn close<S>(
        &mut self,
        sink: &mut S,
        complete: impl Fn(&mut S) -> Result<(), SinkError>,
        finish: impl FnOnce(&mut S) -> Result<(), SinkError>,
        signals: &Signals,
    ) {
        let until = Instant::now() + LAST_WAIT;
        let may_wait = self.on_full == OnFull::Pause;
        while may_wait
            && matches!(complete(sink), Err(SinkError::Full { .. }))
            && !signals.is_out_of_space()
            && Instant::now() < until
        {
            self.wait(true, signals);
            std::thread::sleep(TRY_EVERY);
        }
        self.wait(false, signals);
        if let Err(error) = finish(sink)
            && !self.has_failed
        {
            signals.fail(error.to_string());
        }
    }
}
