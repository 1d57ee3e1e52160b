//! The handle of a run for a server: reads its state and commands it, from any thread and without touching the data path.
//!
//! ```text
//!  server, page ─ command ─► RunHandle ─ each 20 ms ─► supervisor ─► threads, trigger
//!               ◄─ state ──            ◄─ each 50 ms ─ LiveState
//! ```
//! A reader takes the latest state that the supervisor has put together, by a pointer: the number of readers costs the run nothing.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::{Ledger, LedgerSnapshot, RunState};

use super::{EndWhen, LiveState, PausedBy};
use crate::observed::Observed;
use crate::pipeline::Signals;

/// What can be asked of a run. As JSON: `{"command": "stop"}`, `{"command": "end_when", "seconds": 60}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum RunCommand {
    /// End in good order: boards and triggers are stopped, and everything on its way is written.
    Stop,
    /// Take no new data for a while. Triggers are held back by BUSY; self-triggered boards are not read, so that streams
    /// wait, and datagrams overflow in the kernel, where they are counted as gaps.
    Pause,
    /// Go on.
    Resume,
    /// End by itself, in place of what the configuration said.
    EndWhen(EndWhen),
}

impl RunCommand {
    /// The word of it.
    pub fn word(&self) -> &'static str {
        match self {
            RunCommand::Stop => "stop",
            RunCommand::Pause => "pause",
            RunCommand::Resume => "resume",
            RunCommand::EndWhen(_) => "end_when",
        }
    }
}

/// A command that makes no sense now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("`{command}`: the run is {state}; {advice}")]
pub struct CommandError {
    /// The command.
    pub command: &'static str,
    /// Where the run stands.
    pub state: RunState,
    /// What to do.
    pub advice: &'static str,
}

/// The requests to a run that its supervisor is to carry out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Wishes {
    pub stop: bool,
    pub pause: bool,
    pub end: Option<EndWhen>,
}

#[derive(Default)]
struct Shared {
    latest: Mutex<Arc<LiveState>>,
    newer: Condvar,
    wishes: Mutex<Wishes>,
    ledger: OnceLock<Ledger>,
    observed: OnceLock<Observed>,
    signals: OnceLock<Arc<Signals>>,
}

/// One run, from before its start until long after its end. Clones are the same run.
#[derive(Clone, Default)]
pub struct RunHandle(Arc<Shared>);

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunHandle({})", self.state().state)
    }
}

impl RunHandle {
    /// Makes the handle of a future run: hand it over in [`Watch`](super::Watch).
    pub fn new() -> RunHandle {
        RunHandle::default()
    }

    /// Returns the handle of the run after this one: its states are numbered on, so that a client waiting for newer ones sees both.
    pub fn successor(&self) -> RunHandle {
        let next = RunHandle::default();
        *locked(&next.0.latest) =
            Arc::new(LiveState { sequence: self.state().sequence, ..LiveState::default() });
        next
    }

    /// Reports that the run could not be started, unless that was reported already.
    pub(crate) fn failed(&self, message: &str) {
        if self.state().state != RunState::Failed {
            let failures = vec![message.to_owned()];
            self.publish(LiveState { state: RunState::Failed, failures, ..LiveState::default() });
        }
    }

    /// The latest state: at most [`LiveState::EVERY`] old while data are taken. Costs a pointer.
    pub fn state(&self) -> Arc<LiveState> {
        locked(&self.0.latest).clone()
    }

    /// Waits for the next state after the one with number `sequence`; `None` when there is none within `wait`. For callers that pass on
    /// every state once.
    pub fn newer_than(&self, sequence: u64, wait: Duration) -> Option<Arc<LiveState>> {
        let until = Instant::now() + wait;
        let mut latest = locked(&self.0.latest);
        while latest.sequence <= sequence {
            let left = until.checked_duration_since(Instant::now())?;
            latest = self.0.newer.wait_timeout(latest, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(latest.clone())
    }

    /// Waits until the run has moved from `before` to another state, at most for `wait`; the latest state either way. A run that is over
    /// moves no more.
    pub(crate) fn moved_from(&self, before: RunState, wait: Duration) -> RunState {
        let until = Instant::now() + wait;
        let mut latest = self.state();
        while latest.state == before && !matches!(before, RunState::Stopped | RunState::Failed) {
            let left = until.saturating_duration_since(Instant::now());
            let Some(newer) = self.newer_than(latest.sequence, left) else { break };
            latest = newer;
        }
        latest.state
    }

    /// Every counter slot of every board, now: more than the state has, and more to copy. `None` before the run has a ledger.
    pub fn snapshot(&self) -> Option<LedgerSnapshot> {
        self.0.ledger.get().map(Ledger::snapshot)
    }

    /// Spectra and the like, of a run with hits. `None` before it has begun.
    pub fn observed(&self) -> Option<&Observed> {
        self.0.observed.get()
    }

    /// Asks the run for something. It is done within some twenty milliseconds, and seen in [`LiveState::state`].
    ///
    /// # Errors
    /// When the run is where that makes no sense.
    pub fn command(&self, command: &RunCommand) -> Result<(), CommandError> {
        let mut wishes = locked(&self.0.wishes);
        let latest = self.state();
        let state = latest.state;
        let refuse = |advice| Err(CommandError { command: command.word(), state, advice });
        match (command, state) {
            (_, RunState::Stopped | RunState::Failed) => return refuse("start another one"),
            (RunCommand::Stop, _) => wishes.stop = true,
            (_, RunState::Stopping) => return refuse("wait for its end"),
            (RunCommand::EndWhen(end), _) => wishes.end = Some(*end),
            (RunCommand::Pause, _) if wishes.pause => return refuse("`resume` it first"),
            (RunCommand::Pause, _) => wishes.pause = true,
            (RunCommand::Resume, _) if wishes.pause => wishes.pause = false,
            (RunCommand::Resume, RunState::Paused) if latest.paused_by == Some(PausedBy::Command) => {
                return refuse("it was asked to resume already, and does so now");
            }
            (RunCommand::Resume, RunState::Paused) => {
                return refuse("the recording waits for disk space; free some, and it goes on by itself");
            }
            (RunCommand::Resume, _) => return refuse("it was not asked to pause"),
        }
        Ok(())
    }

    /// Returns true if a recording waits for space on the disk, also when the run has ended otherwise.
    pub(crate) fn waits_for_space(&self) -> bool {
        self.0.signals.get().is_some_and(|signals| signals.is_paused())
    }

    /// Ends the run because its disk is full and nothing is left that could be removed.
    pub(crate) fn has_no_space(&self) {
        let Some(signals) = self.0.signals.get() else { return };
        signals.end_without_space(format!(
            "{}: no space left on the disk, and [record.retention] has no older run to remove; free some, or name another directory: \
             `[record] directory`, of a replay --directory",
            self.state().run_directory
        ));
    }

    pub(super) fn wishes(&self) -> Wishes {
        *locked(&self.0.wishes)
    }

    pub(super) fn set_ledger(&self, ledger: &Ledger) {
        // A handle is for one run: of a second one only the states are seen.
        let _ = self.0.ledger.set(ledger.clone());
    }

    pub(super) fn set_signals(&self, signals: &Arc<Signals>) {
        // The same holds as for the ledger.
        let _ = self.0.signals.set(signals.clone());
    }

    pub(crate) fn set_observed(&self, observed: &Observed) {
        // The same holds as for the ledger.
        let _ = self.0.observed.set(observed.clone());
    }

    /// Puts a newer state in the place of the latest.
    pub(crate) fn publish(&self, state: LiveState) -> Arc<LiveState> {
        let mut latest = locked(&self.0.latest);
        let state = Arc::new(LiveState { sequence: latest.sequence + 1, ..state });
        latest.clone_from(&state);
        self.0.newer.notify_all();
        state
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(state: RunState) -> RunHandle {
        let handle = RunHandle::new();
        handle.publish(LiveState { state, ..LiveState::default() });
        handle
    }

    #[test]
    fn commands_are_taken_where_they_make_sense() {
        let run = at(RunState::Running);
        assert_eq!(run.command(&RunCommand::Pause), Ok(()));
        assert!(run.wishes().pause);
        assert_eq!(run.command(&RunCommand::Pause).map_err(|error| error.advice), Err("`resume` it first"));
        assert_eq!(run.command(&RunCommand::Resume), Ok(()));
        assert!(run.command(&RunCommand::Resume).is_err() && !run.wishes().pause);
        let end = EndWhen { events: Some(5), ..EndWhen::default() };
        assert_eq!(run.command(&RunCommand::EndWhen(end)), Ok(()));
        assert_eq!(run.wishes().end, Some(end));
        assert_eq!(run.command(&RunCommand::Stop), Ok(()));
        assert!(run.wishes().stop);
        let over = at(RunState::Stopped).command(&RunCommand::Stop).expect_err("over");
        assert_eq!(over.to_string(), "`stop`: the run is stopped; start another one");
        let paused_by = |by| {
            let run = RunHandle::new();
            run.publish(LiveState { state: RunState::Paused, paused_by: Some(by), ..LiveState::default() });
            run.command(&RunCommand::Resume).expect_err("nobody has asked it to pause").advice
        };
        assert!(paused_by(PausedBy::Disk).contains("waits for disk space"));
        assert!(
            paused_by(PausedBy::Command).contains("resume already"),
            "its supervisor has not seen it yet"
        );
    }

    #[test]
    fn who_commands_a_run_can_wait_for_the_state_that_follows() {
        let run = at(RunState::Running);
        assert_eq!(run.moved_from(RunState::Running, Duration::from_millis(1)), RunState::Running);
        let other = run.clone();
        let waiting =
            std::thread::spawn(move || other.moved_from(RunState::Running, Duration::from_secs(20)));
        for state in [RunState::Running, RunState::Paused] {
            run.publish(LiveState { state, ..LiveState::default() });
        }
        assert_eq!(waiting.join().expect("no panic"), RunState::Paused);
        assert_eq!(run.moved_from(RunState::Running, Duration::from_secs(20)), RunState::Paused);
    }

    #[test]
    fn nobody_waits_for_what_follows_a_run_that_is_over() {
        for state in [RunState::Stopped, RunState::Failed] {
            assert_eq!(at(state).moved_from(state, Duration::from_secs(100_000)), state);
        }
    }

    #[test]
    fn commands_are_plain_json() {
        let parse = |text: &str| serde_json::from_str::<RunCommand>(text).ok();
        assert_eq!(parse(r#"{"command": "pause"}"#), Some(RunCommand::Pause));
        let end = EndWhen { seconds: Some(60.0), ..EndWhen::default() };
        assert_eq!(parse(r#"{"command": "end_when", "seconds": 60}"#), Some(RunCommand::EndWhen(end)));
        assert_eq!(parse(r#"{"command": "jump"}"#), None);
    }

    #[test]
    fn the_next_state_is_waited_for() {
        let run = at(RunState::Running);
        let first = run.state();
        assert!(first.sequence == 1 && run.newer_than(1, Duration::from_millis(1)).is_none());
        let other = run.clone();
        let waiting = std::thread::spawn(move || other.newer_than(1, Duration::from_secs(20)));
        run.publish(LiveState { state: RunState::Stopping, ..LiveState::default() });
        let next = waiting.join().expect("no panic").expect("published");
        assert_eq!((next.sequence, next.state), (2, RunState::Stopping));
    }
}
