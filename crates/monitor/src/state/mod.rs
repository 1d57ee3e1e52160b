//! The live state of a run: one type for everything that is said of a run while it goes on, and after its end.
//!
//! ```text
//!  supervisor, each 50 ms ─► LiveState ─┬─► terminal, lines of JSON
//!                            + serve    ├─► /api/state, /api/events ─► page
//!                                       ├─► alarms: Quantity
//!                                       └─► metrics
//!  JsonSchema ─► openapi.json ─► web/src/live/generated.ts
//! ```
//! The JSON, its schema, the OpenAPI document and the page's types are made from these structs (`make generated`); alarms and metrics
//! read their fields. Units are in the names: `_hz` per second, `_ns`, `_ps`, `_bytes`, `_seconds`; a `fill`, `share` or `fraction`
//! is 0 to 1. Rates are over the whole snapshots of the last seconds, null until there are two since the start or the end of a pause, and 0
//! when the run takes no more data; counts are those since the start.

mod copies;
mod dead_time;
mod events;
mod flow;
mod observed;
mod refused;
mod source;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_analysis::clocks::ClockState;
use thalweg_analysis::view::Applied;
use thalweg_data::ledger::{Entries, Loss, LossTotal};
use thalweg_data::{Kept, RunState};

pub use copies::{CopyCounts, CopyState};
pub use dead_time::{DeadTime, DeadTimeOf, RunDeadTime, TriggerCounts, TriggerState};
pub use events::{BuildSample, Completeness, EventSelection, EventState};
pub use flow::{FlowPlace, FlowStage, LostIn};
pub use observed::{CoincidenceState, CutReport};
pub use refused::RefusedUnit;
pub use source::{ChannelState, SourceKind, SourceState};

use crate::alarm::Alarm;
use crate::experiment::OperatorMessage;

/// When a run ends by itself: at the first of the limits that are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EndWhen {
    /// After this time since its start, pauses included.
    pub seconds: Option<f64>,
    /// After this many recorded hits.
    pub hits: Option<u64>,
    /// After this many recorded events.
    pub events: Option<u64>,
}

/// Why a run is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PausedBy {
    /// Somebody asked for it.
    Command,
    /// The recording waits for disk space.
    Disk,
}

/// The run that the live state is of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LiveRun {
    /// Its number; 0 before it has one.
    pub number: u64,
    /// Name of its directory; null before it has one.
    pub name: Option<String>,
    /// Its title.
    pub title: String,
    /// The comment of its configuration.
    pub comment: String,
    /// Since the first data could come, seconds.
    pub elapsed_seconds: f64,
    /// When it ends by itself.
    pub limits: EndWhen,
    /// Where it is recorded.
    pub directory: String,
    /// Whether its data are kept: of a run that was started without, only `run.json`, the ledger, losses and spectra are.
    pub keeps_data: bool,
}

/// The counts at both ends of the time that rates are over.
#[derive(Clone, Debug, Default)]
pub struct RateWindow {
    /// Between the two; 0 where there are none: before the second snapshot, and after the end.
    pub seconds: f64,
    /// The run takes no more data: its rates are 0, and not unknown.
    pub is_over: bool,
    /// The ledger by `[[source]]`, earlier.
    pub before: Arc<Vec<Entries>>,
    /// The ledger by `[[source]]`, later.
    pub now: Arc<Vec<Entries>>,
    /// Hits per second of each channel, by row of the channel map.
    pub channels_hz: Vec<f64>,
}

impl RateWindow {
    /// How fast a number of the ledger has grown; `None` where that is not known.
    pub fn per_second(&self, now: u64, before: u64) -> Option<f64> {
        let known = (self.seconds > 0.0).then(|| now.saturating_sub(before) as f64 / self.seconds);
        known.or(self.is_over.then_some(0.0))
    }

    /// Hits of a channel per second, by its row of the channel map; `None` where that is not known.
    pub fn channel_hz(&self, row: usize) -> Option<f64> {
        self.channels_hz.get(row).copied().or(self.is_over.then_some(0.0))
    }
}

/// A value of slow control.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SeriesValue {
    /// The latest value; null before the first one, and where the last reading failed.
    pub value: Option<f64>,
    /// Its unit; empty where it has none.
    pub unit: String,
}

/// Everything that is said of a run while it goes on, and after its end.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LiveState {
    /// Counts the states of a run: a higher one is newer. 0 before the first.
    pub sequence: u64,
    /// Where the run stands.
    pub state: RunState,
    /// Of a paused run.
    pub paused_by: Option<PausedBy>,
    /// Between runs, where `[unattended]` starts the next one: how long until then, seconds. `stop` takes that back.
    pub next_run_seconds: Option<f64>,
    /// Which run it is.
    pub run: LiveRun,
    /// Its title, as in `run`.
    pub title: String,
    /// Where it is recorded, as in `run`.
    pub run_directory: String,
    /// Since the first data could come, as in `run`, seconds.
    pub elapsed_seconds: f64,
    /// When it ends by itself, as in `run`.
    pub end: EndWhen,
    /// By `[[source]]`, in the order of the configuration.
    pub sources: Vec<SourceState>,
    /// The path from the boards to the disk, by stage. Not in the lines of JSON of the terminal.
    pub flow: Vec<FlowStage>,
    /// What was lost on it, by unit, the most first. Not in the lines of JSON of the terminal.
    pub lost_in: Vec<LostIn>,
    /// The stops of that path, by the topology of the run.
    #[serde(skip)]
    #[schemars(skip)]
    pub flow_places: Arc<Vec<FlowPlace>>,
    /// Hits put into time order per second; null where that is not known, as all rates.
    pub ordered_rate_hz: Option<f64>,
    /// Hits given to the recording per second, those that wait for their batch among them.
    pub recorded_rate_hz: Option<f64>,
    /// The time that all rates are over, seconds; 0 where there is none: before the second snapshot since the start or the end of a pause,
    /// and when no data are taken any more.
    pub rate_window_seconds: f64,
    /// The counts at both ends of that time.
    #[serde(skip)]
    #[schemars(skip)]
    pub rate_window: RateWindow,
    /// Hits that came to the recording since the start.
    pub hits_recorded: u64,
    /// What is kept of them.
    pub hits_kept: Kept,
    /// What the files of the run take, bytes.
    pub bytes_recorded: u64,
    /// How fast that grows, bytes per second; known once two batches of the recorder may have come.
    pub byte_rate_hz: Option<f64>,
    /// Coincidences recorded since the start; null of a run without coincidence.
    pub coincidences_recorded: Option<u64>,
    /// What each cut keeps, in the order in which they are made.
    pub cuts: Vec<CutReport>,
    /// What is applied to what is shown of the run, and is not in its configuration.
    pub applied: Vec<Applied>,
    /// What is known of the boards' clocks, of a run whose clocks are watched.
    pub clocks: Vec<ClockState>,
    /// Of a run with coincidence.
    pub coincidences: Option<CoincidenceState>,
    /// Of a run with triggered sources.
    pub events: Option<EventState>,
    /// Whether the trigger is asked to wait now, for whatever reason.
    pub busy: bool,
    /// What the trigger was offered and what it refused, where it reports that.
    pub trigger: Option<TriggerState>,
    /// How long BUSY was raised, and how long it was not, of a run with triggered sources; null where nobody here knows.
    pub busy_time: Option<DeadTime>,
    /// Time BUSY ÷ time over the last seconds, 0 to 1; null where that is not known.
    pub recent_busy_fraction: Option<f64>,
    /// What of the run is not taken, as one number; null where nobody reports dead time.
    pub dead_time: Option<RunDeadTime>,
    /// Sum of the losses of the sources and of the coincidences.
    pub lost: u64,
    /// Lost hits, fragments, events and coincidences, those of them that the run has, with how well they are known, and in words.
    pub loss: Vec<LossTotal>,
    /// Every loss by `[[source]]`, stage and reason.
    pub losses: Vec<Loss>,
    /// The ledger by `[[source]]`; `events` and units have lines of their own. Counts of stages that follow each other are
    /// of moments up to a tenth of a second apart. Only in the lines of JSON of the terminal: `/metrics` and `/api/system` have it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Vec<Entries>>,
    /// The first datagrams, blocks and fragments that were refused.
    pub refused: Vec<RefusedUnit>,
    /// Snapshots of the ledger that were checked on the way.
    pub snapshots: u64,
    /// What did not balance in them.
    pub discrepancies: Vec<String>,
    /// What has gone wrong: the run ends by it.
    pub failures: Vec<String>,
    /// Free space where the run is recorded, bytes.
    pub disk_free_bytes: u64,
    /// How long that lasts at the mean rate of the run while it takes data, and of other programs where they fill the disk, too, seconds; null
    /// while nothing is written, in the first seconds of a run, and between runs.
    pub disk_left_seconds: Option<f64>,
    /// Copies of the runs elsewhere, by destination of `[ship]`; none in the lines of JSON of the terminal.
    pub copies: Vec<CopyState>,
    /// Alarms as they stand.
    pub alarms: Vec<Alarm>,
    /// The last messages, oldest first, at most a hundred.
    pub messages: Vec<OperatorMessage>,
    /// Values of slow control, by name.
    pub series: BTreeMap<String, SeriesValue>,
}

impl LiveState {
    /// How often there is a new one while data are taken.
    pub const EVERY: Duration = Duration::from_millis(50);
}
