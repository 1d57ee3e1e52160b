//! `[[cut]]`: what is kept, by name.
//!
//! ```text
//!  [[cut]]
//!  name = "neutrons"
//!  keep = "psd > 0.12 && energy > 200 && !pile_up"
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What the ledger counts it by.
    pub name: String,
    /// What is kept: an expression over the fields of a hit.
    pub keep: String,
    /// What is cut: hits, before coincidence, or events, after it.
    #[serde(default)]
    pub on: Scope,
    /// Of a cut on events: whether one of the event's hits has to answer yes, or all of them.
    #[serde(default)]
    pub members: Quantity,
}

/// What is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Single hits, before coincidence.
    #[default]
    Hit,
    /// Whole events, after it.
    Event,
}

impl Scope {
    /// The word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Hit => "hit",
            Scope::Event => "event",
        }
    }
}

/// How many of an event's hits have to answer yes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// One is enough.
    #[default]
    Any,
    /// Every one of them.
    All,
}
