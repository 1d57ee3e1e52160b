//! Reacts to a recorder's result: pause on a full disk, else end the run.
//!
//! ```text
//!  Result of a write ─► full, and it may wait ─► paused        failed ─► said once, and the run ends
//!  space that is left ─► too little ────────────┘
//! ```

use std::time::{Duration, Instant};

use thalweg_data::SinkError;
use thalweg_record::{OnFull, Settings, SpaceWatch};

use super::{Recorded, Signals};

/// A recording that may wait for space does so for this long when the run has ended.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// Between two tries.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// Why a recording waits that was refused.
pub(super) const FULL: &str = "the disk is full";

/// The state of one recording. Data that it refuses are counted as lost in its own slots.
#[derive(Debug)]
pub(crate) struct RecordingState {
    recorded: Recorded,
    on_full: OnFull,
    space: Option<SpaceWatch>,
    /// The disk is full or nearly so, and the run may wait for space.
    is_waiting: bool,
    /// The disk was full at the last try, or has failed.
    is_refused: bool,
    /// When the run had ended, and was still waiting.
    last_wait: Option<Instant>,
    /// It has failed, and has said why.
    has_failed: bool,
}

impl RecordingState {
    pub(crate) fn new(recorded: Recorded, settings: &Settings) -> RecordingState {
        let space = SpaceWatch::new(settings);
        RecordingState {
            recorded,
            on_full: settings.on_full,
            space,
            is_waiting: false,
            is_refused: false,
            last_wait: None,
            has_failed: false,
        }
    }

    /// A batch was written, or not.
    pub(crate) fn on_result(&mut self, result: Result<(), SinkError>, signals: &Signals) {
        self.is_refused = result.is_err();
        match result {
            Ok(()) => {
                signals.note_written();
                self.watch_space(signals);
            }
            Err(SinkError::Full { .. }) if self.on_full == OnFull::Pause && !self.has_failed => {
                self.wait(Some(FULL), signals);
            }
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

    /// Whether nothing more will be written: the run ends by a full disk or one that failed, or has waited long enough for space behind its
    /// end. For a recording that others wait for before it is closed.
    pub(crate) fn gives_up(&mut self, signals: &Signals) -> bool {
        if !self.is_refused || self.has_failed || !signals.stop_requested() {
            self.last_wait = None;
            return self.is_refused && self.has_failed;
        }
        let since = *self.last_wait.get_or_insert_with(Instant::now);
        let is_over = signals.is_out_of_space() || since.elapsed() >= LAST_WAIT;
        if is_over {
            self.has_failed = true;
            self.wait_no_longer(signals);
            signals.fail(format!("{FULL}, and the run has ended: what waits for space is lost"));
        }
        is_over
    }

    /// Waits, or ends the run, when the disk has too little space left. What comes is written as long as there is any.
    fn watch_space(&mut self, signals: &Signals) {
        let Some(left) = self.space.as_mut().and_then(|space| space.low(Instant::now())) else {
            return self.wait(None, signals);
        };
        let text = format!("the disk has {left} bytes left, fewer than [record] least_free_bytes");
        match self.on_full {
            OnFull::Pause => self.wait(Some(&text), signals),
            OnFull::End if self.has_failed => {}
            OnFull::End => {
                self.has_failed = true;
                signals.fail(format!("{text}; free some, or name another directory"));
            }
        }
    }

    /// Waits for this reason, or goes on.
    fn wait(&mut self, why: Option<&str>, signals: &Signals) {
        if std::mem::replace(&mut self.is_waiting, why.is_some()) != why.is_some() {
            signals.set_paused(self.recorded, why);
        }
    }

    /// There is no space, and none is waited for.
    fn wait_no_longer(&mut self, signals: &Signals) {
        self.is_waiting = false;
        signals.end_pause(self.recorded);
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
        let may_wait = self.on_full == OnFull::Pause && !self.has_failed;
        let mut is_full = || may_wait && matches!(complete(sink), Err(SinkError::Full { .. }));
        while is_full() {
            self.wait(Some(FULL), signals);
            if signals.is_out_of_space() || Instant::now() >= until {
                self.wait_no_longer(signals);
                break;
            }
            std::thread::sleep(TRY_EVERY);
        }
        self.wait(None, signals);
        if let Err(error) = finish(sink)
            && !self.has_failed
        {
            signals.fail(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Result<(), SinkError> {
        Err(SinkError::Full { message: "no space".to_owned() })
    }

    fn broken() -> Result<(), SinkError> {
        Err(SinkError::Failed { place: "hits.arrows".to_owned(), message: "it has failed".to_owned() })
    }

    fn recording(on_full: OnFull) -> (RecordingState, Signals) {
        let settings = Settings { on_full, ..Settings::default() };
        (RecordingState::new(Recorded::Events, &settings), Signals::default())
    }

    #[test]
    fn a_run_that_ends_by_a_full_or_failed_disk_waits_for_nothing() {
        for result in [full, broken] {
            let (mut state, signals) = recording(OnFull::End);
            state.on_result(Ok(()), &signals);
            assert!(!state.gives_up(&signals));
            state.on_result(result(), &signals);
            assert!(state.gives_up(&signals) && signals.stop_requested());
            assert_eq!(signals.failures().len(), 1);
        }
        let (mut state, signals) = recording(OnFull::Pause);
        state.on_result(broken(), &signals);
        assert!(state.gives_up(&signals), "space would not help");
    }

    #[test]
    fn a_run_that_waits_for_space_does_so_until_a_while_behind_its_end() {
        let (mut state, signals) = recording(OnFull::Pause);
        state.on_result(full(), &signals);
        assert!(!state.gives_up(&signals) && state.is_waiting() && signals.is_paused());
        signals.request_stop();
        assert!(!state.gives_up(&signals), "somebody may free some");
        state.on_result(Ok(()), &signals);
        assert!(!state.gives_up(&signals) && !signals.is_paused());
        state.on_result(full(), &signals);
        signals.end_without_space("no run is left to remove".to_owned());
        assert!(state.gives_up(&signals), "nobody will");
        state.on_result(full(), &signals);
        assert!(state.gives_up(&signals) && !state.is_waiting() && !signals.is_paused());
    }
}
