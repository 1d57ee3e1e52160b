//! What the stages behind time order say of themselves.

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_analysis::cut::{Passed, Scope};

/// How much one cut kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CutReport {
    /// Its name.
    pub name: String,
    /// What it cuts.
    pub on: Scope,
    /// Came to it since the start.
    #[serde(rename = "in")]
    pub input: u64,
    /// It kept since the start.
    pub kept: u64,
}

impl CutReport {
    /// Of a cut of this name.
    pub fn new((name, passed): (&str, Passed), on: Scope) -> CutReport {
        CutReport { name: name.to_owned(), on, input: passed.input, kept: passed.kept }
    }
}

/// What coincidence makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CoincidenceState {
    /// Events that the cuts on events kept, per second.
    pub rate_hz: Option<f64>,
    /// Events that the cuts on events kept, since the start.
    pub events: u64,
    /// Events that were made since the start.
    pub made: u64,
    /// Events that could not be recorded, since the start.
    pub lost: u64,
    /// How fast `lost` grows, per second.
    pub lost_rate_hz: Option<f64>,
    /// Events that were closed because they had grown too long.
    pub cut_short: u64,
    /// Events by how many different channels or groups they are of: from none to fifteen, and more.
    pub multiplicity: [u64; 17],
}
