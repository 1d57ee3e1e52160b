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
    state: State,
}

/// What became of what was to be written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was written.
    Writing,
    /// It was written, and little space is left: the run waits for more.
    Low,
    /// There was no space for it: the run waits for some. `since` is when it had ended, and was still waiting.
    Full { since: Option<Instant> },
    /// The run ends because of this recording, which has said why. What comes is tried, and was refused or not.
    Ended { is_refused: bool },
}

impl State {
    fn is_waiting(self) -> bool {
        matches!(self, State::Low | State::Full { .. })
    }
}

impl RecordingState {
    pub(crate) fn new(recorded: Recorded, settings: &Settings) -> RecordingState {
        let space = SpaceWatch::new(settings);
        RecordingState { recorded, on_full: settings.on_full, space, state: State::Writing }
    }

    /// A batch was written, or not.
    pub(crate) fn on_result(&mut self, result: Result<(), SinkError>, signals: &Signals) {
        match (result, self.state) {
            (Ok(()), state) => {
                signals.note_written();
                match state {
                    State::Ended { .. } => self.state = State::Ended { is_refused: false },
                    _ => self.watch_space(signals),
                }
            }
            (Err(error), State::Ended { .. }) => {
                self.state = State::Ended { is_refused: true };
                tracing::debug!("{error}");
            }
            (Err(SinkError::Full { .. }), state) if self.on_full == OnFull::Pause => {
                if !matches!(state, State::Full { .. }) {
                    self.wait(State::Full { since: None }, FULL, signals);
                }
            }
            (Err(error), _) => self.end(State::Ended { is_refused: true }, error.to_string(), signals),
        }
    }

    /// Returns true if it waits for disk space.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.is_waiting()
    }

    /// Whether nothing more will be written: the run ends by a full disk or one that failed, or has waited long enough for space behind its
    /// end. For a recording that others wait for before it is closed.
    pub(crate) fn gives_up(&mut self, signals: &Signals) -> bool {
        let State::Full { since } = &mut self.state else {
            return self.state == State::Ended { is_refused: true };
        };
        if !signals.stop_requested() {
            *since = None;
            return false;
        }
        let since = *since.get_or_insert_with(Instant::now);
        let is_over = signals.is_out_of_space() || since.elapsed() >= LAST_WAIT;
        if is_over {
            let why = format!("{FULL}, and the run has ended: what waits for space is lost");
            self.end(State::Ended { is_refused: true }, why, signals);
        }
        is_over
    }

    /// Waits, or ends the run, when the disk has too little space left. What comes is written as long as there is any.
    fn watch_space(&mut self, signals: &Signals) {
        let Some(left) = self.space.as_mut().and_then(|space| space.low(Instant::now())) else {
            return self.go_on(signals);
        };
        let text = format!("the disk has {left} bytes left, fewer than [record] least_free_bytes");
        match self.on_full {
            OnFull::Pause => self.wait(State::Low, &text, signals),
            OnFull::End => {
                let why = format!("{text}; free some, or name another directory");
                self.end(State::Ended { is_refused: false }, why, signals);
            }
        }
    }

    /// Waits for this reason.
    fn wait(&mut self, state: State, why: &str, signals: &Signals) {
        if !std::mem::replace(&mut self.state, state).is_waiting() {
            signals.set_paused(self.recorded, Some(why));
        }
    }

    /// Waits no longer: there is space.
    fn go_on(&mut self, signals: &Signals) {
        if std::mem::replace(&mut self.state, State::Writing).is_waiting() {
            signals.set_paused(self.recorded, None);
        }
    }

    /// Waits no longer, although there is no space.
    fn wait_no_longer(&mut self, state: State, signals: &Signals) {
        if std::mem::replace(&mut self.state, state).is_waiting() {
            signals.end_pause(self.recorded);
        }
    }

    fn end(&mut self, state: State, why: String, signals: &Signals) {
        self.wait_no_longer(state, signals);
        signals.fail(why);
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
        let has_ended = matches!(self.state, State::Ended { .. });
        if self.on_full == OnFull::Pause && !has_ended {
            self.wait_for_the_last(|| complete(sink), signals);
        }
        if let Err(error) = finish(sink)
            && !has_ended
        {
            signals.fail(error.to_string());
        }
    }

    /// Tries again for a while what there was no space for.
    fn wait_for_the_last(&mut self, mut complete: impl FnMut() -> Result<(), SinkError>, signals: &Signals) {
        let until = Instant::now() + LAST_WAIT;
        while matches!(complete(), Err(SinkError::Full { .. })) {
            self.wait(State::Full { since: None }, FULL, signals);
            if signals.is_out_of_space() || Instant::now() >= until {
                return self.wait_no_longer(State::Writing, signals);
            }
            std::thread::sleep(TRY_EVERY);
        }
        self.go_on(signals);
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
