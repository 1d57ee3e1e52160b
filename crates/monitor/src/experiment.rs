//! What the page shows and moves, as the program that runs it hands it over.
//!
//! ```text
//!  run ── impl Experiment ──► Monitor ──► browsers
//!   ▲                            │
//!   └────── RunRequest, … ──────────┘
//! ```
//! Nothing here knows how data are taken. Every method may be called from any thread and may take its time: the server calls them where
//! waiting delays nobody else. None may wait for the data path.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_analysis::spectrum::SpectrumSet;
use thalweg_analysis::view::{Applied, NewCalibration, NewCut};
use thalweg_data::{LedgerSnapshot, RunState};

use crate::history::Past;
use crate::recorded_run::{RecordedRun, RunNote};
use crate::state::LiveState;

/// One line for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorMessage {
    /// Rises by one from message to message.
    pub number: u64,
    /// When, UTC, as `2026-11-21T02:18:04.123Z`.
    pub time: String,
    /// `info`, `warning` or `error`; `note` of what the operator has written down.
    pub level: String,
    /// What happened.
    pub text: String,
    /// What can be done about it; may be empty.
    pub advice: String,
}

/// Why something that was asked is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRefused {
    /// What is in the way.
    pub error: String,
    /// What to do.
    pub advice: String,
}

impl RequestRefused {
    /// A refusal of these words.
    pub fn new(error: impl Into<String>, advice: impl Into<String>) -> RequestRefused {
        RequestRefused { error: error.into(), advice: advice.into() }
    }
}

/// What a new run is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StartRun {
    /// Its title.
    pub title: String,
    /// A comment, kept with it.
    pub comment: String,
    /// It ends after so many seconds.
    pub seconds: Option<f64>,
    /// It ends when so many hits are recorded.
    pub hits: Option<u64>,
    /// It ends when so many events are recorded.
    pub events: Option<u64>,
    /// `false`: its data are not kept; `run.json`, the ledger, losses and spectra are. Otherwise as `[record]` says.
    pub record: Option<bool>,
}

/// A channel that has pulses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PulseChannel {
    /// Its number.
    pub channel: u16,
    /// Its name.
    pub name: Option<String>,
    /// The source that it belongs to.
    pub source: Option<String>,
}

/// One sampled pulse.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PulseTrace {
    /// Since run start, picoseconds.
    pub time_ps: i64,
    /// Long-gate charge or pulse height.
    pub energy: u16,
    /// Short-gate charge.
    pub energy_short: u16,
    /// What else is known of it.
    pub flags: Vec<&'static str>,
    /// From one sample to the next, nanoseconds; null where the source does not say.
    pub ns_per_sample: Option<f64>,
    /// Samples of each analog probe.
    pub analog: Vec<Vec<i32>>,
    /// 0 or 1 of each digital probe.
    pub digital: Vec<Vec<u8>>,
    /// The board's numbers for what the digital probes show, in their order; empty where it says nothing.
    pub digital_kinds: Vec<u8>,
    /// There were more samples than are kept, or the board cut the waveform short.
    pub truncated: bool,
}

/// A request to the run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunRequest {
    /// Begin a new one.
    Start(StartRun),
    /// End it: what is in flight is recorded.
    Stop,
    /// Record nothing until asked otherwise.
    Pause,
    /// Record again.
    Resume,
}

/// What the page is about. Implemented by the program that runs it, and by tests.
pub trait Experiment: Send + Sync + 'static {
    /// The state, as `/api/state` gives it. Called as often as `update_hz` while anybody watches, and not otherwise.
    fn state(&self) -> LiveState;

    /// The rates and the losses of the last `seconds`, from before anybody looked, too.
    fn past(&self, seconds: f64) -> Past;

    /// Messages of a higher number, oldest first; at most the last hundred.
    fn messages_after(&self, number: u64) -> Vec<OperatorMessage>;

    /// The ledger as it stands; `None` before the first run.
    fn snapshot(&self) -> Option<LedgerSnapshot>;

    /// The spectra of the run, or of the last one.
    fn spectra(&self) -> Option<SpectrumSet>;

    /// Name of the source that a channel belongs to.
    fn source_of(&self, channel: u16) -> Option<String>;

    /// Shows the energies of a channel by another calibration from now on. What is recorded stays as configured.
    ///
    /// # Errors
    /// When no run takes hits, or the calibration cannot be applied to it.
    fn calibrate(&self, new: &NewCalibration) -> Result<Applied, RequestRefused>;

    /// Shows only hits that a further cut keeps from now on. What is recorded stays as configured.
    ///
    /// # Errors
    /// When no run takes hits, or the cut cannot be applied to it.
    fn cut(&self, new: &NewCut) -> Result<Applied, RequestRefused>;

    /// Takes such a change back.
    ///
    /// # Errors
    /// When no run takes hits, or none of this number is applied to it.
    fn revert(&self, number: u32) -> Result<Applied, RequestRefused>;

    /// Channels that have pulses.
    fn pulse_channels(&self) -> Vec<PulseChannel>;

    /// The latest pulses of a channel, at most `count`, newest first.
    ///
    /// # Errors
    /// When the channel has none, and why.
    fn pulses(&self, channel: u16, count: usize) -> Result<Vec<PulseTrace>, RequestRefused>;

    /// Keeps only pulses of a channel for which the expression holds; an empty one keeps all.
    ///
    /// # Errors
    /// When the expression is invalid.
    fn filter_pulses(&self, channel: u16, expression: &str) -> Result<(), RequestRefused>;

    /// The recorded runs, newest first.
    ///
    /// # Errors
    /// When they cannot be listed: as when the directory has vanished.
    fn runs(&self) -> Result<Vec<RecordedRun>, RequestRefused>;

    /// One run, with everything that is known of it; `None` when there is none of this name.
    ///
    /// # Errors
    /// When it cannot be read.
    fn run(&self, name: &str) -> Result<Option<RecordedRun>, RequestRefused>;

    /// The directory that holds the directories of runs: the only one from which files are served.
    fn runs_directory(&self) -> Option<PathBuf>;

    /// Whether a directory of this name in it is one of a run: people keep other things beside their runs.
    fn is_name_of_run(&self, name: &str) -> bool;

    /// Replaces the comment of a run. The name is one of the listing.
    ///
    /// # Errors
    /// When it cannot be written.
    fn comment(&self, run: &str, text: &str) -> Result<(), RequestRefused>;

    /// Changes the labels of a run, under way or over. The name is one of the listing.
    ///
    /// # Errors
    /// When one cannot be a label, or they cannot be written.
    fn label(&self, run: &str, added: &[String], removed: &[String]) -> Result<(), RequestRefused>;

    /// Adds a note to a run, under way or over. The name is one of the listing.
    ///
    /// # Errors
    /// When it cannot be written.
    fn add_note(&self, run: &str, text: &str) -> Result<(), RequestRefused>;

    /// The notes that wait for the next run, oldest first.
    ///
    /// # Errors
    /// When they cannot be read.
    fn notes_for_next(&self) -> Result<Vec<RunNote>, RequestRefused>;

    /// Adds a note for the next run, which takes it when it begins.
    ///
    /// # Errors
    /// When it cannot be written.
    fn add_note_for_next(&self, text: &str) -> Result<(), RequestRefused>;

    /// Checks the files of a run against its record. The name is one of the listing.
    ///
    /// # Errors
    /// When they cannot be read, or the run is being recorded.
    fn verify(&self, run: &str) -> Result<Value, RequestRefused>;

    /// Moves the run; gives the state after it.
    ///
    /// # Errors
    /// When it cannot be moved so from where it stands.
    fn command(&self, command: RunRequest) -> Result<RunState, RequestRefused>;

    /// Somebody has seen an alarm that stands.
    ///
    /// # Errors
    /// When no such alarm stands.
    fn acknowledge(&self, alarm: &str, subject: &str) -> Result<(), RequestRefused>;

    /// The configuration: its text, and the plan that follows from it.
    fn configuration(&self) -> Value;

    /// The host, threads, memory, kernel and network counters.
    fn system(&self) -> Value;
}
