//! Run states.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a run. The names are those of the page, the log and the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The configuration is read and the plan is made; no thread runs.
    #[default]
    Configured,
    /// Threads run and sources are open; boards are armed.
    Ready,
    /// Data are taken.
    Running,
    /// The sources stay open, and no new data are requested; data in flight are still recorded.
    Paused,
    /// Data in flight are written.
    Stopping,
    /// The last byte is on disk and the ledger is final.
    Stopped,
    /// The run ended with an error; the data written so far can be verified.
    Failed,
}

impl RunState {
    /// The name in lower case.
    pub fn word(self) -> &'static str {
        match self {
            RunState::Configured => "configured",
            RunState::Ready => "ready",
            RunState::Running => "running",
            RunState::Paused => "paused",
            RunState::Stopping => "stopping",
            RunState::Stopped => "stopped",
            RunState::Failed => "failed",
        }
    }

    /// Whether data may come.
    pub fn takes_data(self) -> bool {
        matches!(self, RunState::Running | RunState::Paused)
    }

    /// Whether a run may go from this state to `next`.
    pub fn may_become(self, next: RunState) -> bool {
        use RunState::*;
        matches!(
            (self, next),
            (Configured, Ready)
                | (Ready, Running | Stopping)
                | (Running, Paused | Stopping)
                | (Paused, Running | Stopping)
                | (Stopping, Stopped)
                | (Stopped, Configured)
        ) || next == Failed && self != Stopped
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_run_does_not_resume() {
        assert!(!RunState::Stopped.may_become(RunState::Running));
        assert!(RunState::Running.may_become(RunState::Failed));
        assert!(!RunState::Stopped.may_become(RunState::Failed));
    }
}
