//! A recorded run, as the page lists it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use thalweg_data::ledger::LossTotal;

/// A run by its `run.json`; of the one under way, what that will say at the end, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RecordedRun {
    /// Name of its directory.
    pub name: String,
    /// Its number.
    pub number: u64,
    /// Where it stands, or stood at its end; `unreadable` when that is unknown.
    pub state: String,
    /// Its title.
    pub title: String,
    /// Words about it, by whoever started it.
    pub comment: String,
    /// When it started, UTC, as `2026-11-21T02:18:04.123Z`.
    pub started: String,
    /// When it ended, UTC; empty while it goes on.
    pub stopped: String,
    /// How long it took data; null where it is not known.
    pub seconds: Option<f64>,
    /// Hits that it has recorded.
    pub hits: u64,
    /// Events that it has recorded.
    pub events: u64,
    /// Hits that it has lost, or fragments of a run without hits; where none of these are lost, events or coincidences; null where the number
    /// is not known.
    pub lost: Option<u64>,
    /// What it has lost, with how well it is known, and in words; null without a ledger.
    pub loss: Option<Vec<LossTotal>>,
    /// Whether its ledger balances; null before its end, and without a ledger.
    pub ledger_closed: Option<bool>,
    /// Bytes on file.
    pub bytes: u64,
    /// What the policy on old runs has removed of it.
    pub removed: Option<RemovedData>,
    /// What happened to it: why it failed, what was recovered.
    pub remarks: Vec<String>,
    /// Energies of all channels together, in few bins.
    pub preview: Option<Vec<u64>>,
    /// What was written down about it, oldest first.
    pub notes: Vec<RunNote>,
    /// Its labels, in order of the alphabet.
    pub labels: Vec<String>,
    /// Its directory; of a single run only, as all that follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<RunFile>>,
    /// Its `run.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Map<String, Value>>,
}

/// Tables of an old run that were removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemovedData {
    /// When, UTC.
    pub at: String,
    /// Which rule asked for it, and what it had found.
    pub why: String,
    /// Bytes of their files.
    pub bytes: u64,
    /// Rows of all of them.
    pub rows: u64,
}

/// What somebody has written down about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunNote {
    /// When, UTC; empty where its line is damaged.
    pub time: String,
    /// The words.
    pub text: String,
    /// Who has written it; empty where that is not known.
    pub author: String,
}

/// A file of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunFile {
    /// Its name.
    pub name: String,
    /// Bytes on file.
    pub bytes: u64,
}
