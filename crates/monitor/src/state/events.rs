//! Event building: what the builder says of itself, and which boards answered.

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_analysis::normalise::NormalisedEvents;
use thalweg_data::{Closing, Kept};

/// The events of a run with triggered sources.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct EventState {
    /// Events passed on per second.
    pub event_rate_hz: Option<f64>,
    /// Events passed on since the start, complete or not.
    pub events_built: u64,
    /// Of these, events to which a source had not answered.
    pub events_partial: u64,
    /// Events recorded since the start.
    pub events_recorded: u64,
    /// What is kept of them: their rows, what was received alone, or nothing.
    pub events_kept: Kept,
    /// What the event filter has done with those that were built; null in a run without.
    pub selection: Option<EventSelection>,
    /// What the recorded events stand for; null of time slices, which no trigger makes.
    pub normalised: Option<NormalisedEvents>,
    /// Who answered and who did not, in the order of the boards.
    pub completeness: Vec<Completeness>,
    /// The builder's state.
    #[serde(flatten)]
    pub sample: BuildSample,
}

/// What an event filter has done with built events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventSelection {
    /// Events that it rejected, and that were not recorded.
    pub rejected: u64,
    /// Events that it rejected, and that were recorded all the same, for monitoring.
    pub prescaled: u64,
    /// Events that it did not decide in time, and that were kept.
    pub undecided_kept: u64,
    /// Events that it did not decide in time, and that are lost.
    pub undecided_lost: u64,
}

/// One board's answers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Completeness {
    /// The board's name.
    pub name: String,
    /// Events that were closed in `rate_window_seconds`.
    pub expected: u64,
    /// Of these, events to which it had answered.
    pub built: u64,
    /// Events since the start to which it had not answered.
    pub missing: u64,
}

impl Completeness {
    /// Answered ÷ expected, 0 to 1; `None` where no event was closed in the window of the rates.
    pub fn fraction(&self) -> Option<f64> {
        (self.expected > 0).then(|| self.built as f64 / self.expected as f64)
    }
}

/// The builder's state at one moment.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct BuildSample {
    /// Events passed on so far, by why they were closed: complete, age, depth, end, unit lost.
    pub closed: [u64; Closing::ALL.len()],
    /// Lowest and highest trigger of them.
    pub numbers: Option<(u64, u64)>,
    /// Triggers with fragments that wait for others.
    pub open_events: usize,
    /// Triggers from the oldest that is open to the newest that was seen.
    pub span: u64,
    /// Payload that waits, bytes.
    pub held_bytes: u64,
    /// Half of all events are at most so large, bytes.
    pub median_event_bytes: u64,
    /// Event sizes: the smallest of each bin, and how many.
    pub event_bytes: Vec<(u64, u64)>,
    /// Half of all events were built within this time of their first fragment, nanoseconds.
    pub median_build_ns: u64,
    /// All but one in a hundred.
    pub p99_build_ns: u64,
    /// Build times, as the sizes.
    pub build_ns: Vec<(u64, u64)>,
    /// Whether the trigger is held back now.
    pub busy: bool,
    /// Fraction of the run so far in which it was, 0 to 1; null where builder units are elsewhere.
    pub busy_share: Option<f64>,
    /// How full the ring to the recorder is, 0 to 1.
    pub ring_fill: f64,
}

impl BuildSample {
    /// Events passed on so far.
    pub fn events(&self) -> u64 {
        self.closed.iter().sum()
    }

    /// Of these, events of which a source was missing.
    pub fn partial(&self) -> u64 {
        self.events() - self.closed[Closing::Complete as usize]
    }
}
