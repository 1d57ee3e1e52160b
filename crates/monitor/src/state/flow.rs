//! The path from the boards to the disk: each stage with what goes in and comes out, and every loss where it happened.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::ledger::{Loss, Quality};
use thalweg_data::topology::Lane;
use thalweg_data::{Stage, Unit};

/// A stop of the path in the topology of a run, and which lines of the ledger by `[[source]]` are counted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlace {
    /// Which way its data go.
    pub path: Lane,
    /// The stage.
    pub stage: Stage,
    /// Whose accounts, and in which units.
    pub counted: BTreeSet<(String, Unit)>,
    /// Of these units, those that come into being here.
    pub made: BTreeSet<Unit>,
}

/// A stage of one path, in one unit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlowStage {
    /// Which way its data go.
    pub path: Lane,
    /// The stage.
    pub stage: Stage,
    /// What stands over it: what it has done to what comes out of it.
    pub heading: String,
    /// What is left out here on request is called this.
    pub filtered_as: String,
    /// What is counted here.
    pub unit: Unit,
    /// Came in since the start.
    #[serde(rename = "in")]
    pub input: u64,
    /// Passed on since the start.
    #[serde(rename = "out")]
    pub output: u64,
    /// Left out on request since the start.
    pub filtered: u64,
    /// In the stage's containers now.
    pub held: u64,
    /// Lost since the start, in `unit`; what is lost in other units is in `lost_in`.
    pub lost: u64,
    /// Came in, per second.
    pub in_rate_hz: f64,
    /// Passed on, per second. Of the recorder, what it has taken and not lost: what is on file grows by whole batches.
    pub out_rate_hz: f64,
    /// Left out on request, per second.
    pub filtered_rate_hz: f64,
    /// Everything lost here, each source in the finest unit in which it is counted.
    pub lost_in: Vec<LostIn>,
    /// The same by source and reason, in all units.
    pub losses: Vec<Loss>,
    /// How full the ring behind the stage is, 0 to 1; null where there is none.
    pub ring_fill: Option<f64>,
}

/// What a stage lost in one unit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LostIn {
    /// What is counted.
    pub unit: Unit,
    /// How many.
    pub count: u64,
    /// The least certain of its losses.
    pub quality: Quality,
    /// Of what came in since the start, 0 to 1; null where the unit comes into being.
    pub share: Option<f64>,
    /// Of what came in within the window of the rates, 0 to 1.
    pub share_now: Option<f64>,
}
