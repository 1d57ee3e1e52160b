//! `[threads]`: the cores on which the threads of a run may run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_transport::placement::Place;

/// The key of all threads that have none of their own.
pub(crate) const OTHERS: &str = "others";

/// `[threads]`: on which cores the threads of this run may run, by the names that `thalweg run --explain` shows. `others` is for
/// all that are not named; without it they run on any core that the process may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ThreadSettings(pub BTreeMap<String, PlaceSettings>);

/// Where one thread runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a core (2), cores ([4, 5]), or { cores = [2], priority = 20 }")]
pub enum PlaceSettings {
    /// On this core.
    Core(usize),
    /// On any of these cores.
    Cores(Vec<usize>),
    /// With more to say.
    Placed(PlacedSettings),
}

/// Cores and priority of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacedSettings {
    /// On any of these cores; without them, on any that the process may use.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// Before all threads without one, and those of a lower one: real-time priority (`SCHED_FIFO`), which needs a privilege.
    #[serde(default)]
    #[schemars(range(min = 1, max = 99))]
    pub priority: Option<u8>,
}

impl PlaceSettings {
    /// Returns the placement as it is requested from the system.
    pub(crate) fn place(&self) -> Place {
        match self {
            PlaceSettings::Core(core) => Place { cores: vec![*core], priority: None },
            PlaceSettings::Cores(cores) => Place { cores: cores.clone(), priority: None },
            PlaceSettings::Placed(placed) => Place { cores: placed.cores.clone(), priority: placed.priority },
        }
    }
}
