//! Settings of time order: the `[order]` table of the configuration.
//!
//! ```text
//!  [order]
//!  stall_ms = 500           wait this long for a silent source
//!  late = "keep"            or "drop"
//!  memory_bytes = 268435456
//!  full = "pass_over"       or "drop", when the memory is used up
//!  disorder_ps = 0          by how much a hit may be earlier than the latest of its source
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of time order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Time in milliseconds after which a source without new hits is passed over: the other sources no longer wait for
    /// it. A hit that arrives in time makes it live again; for this, the order stays behind the newest hit by twice as
    /// much as the hits of the source were seen to need, and never by more than this time.
    pub stall_ms: u64,
    /// What happens to hits that arrive after later ones have been passed on.
    pub late: Late,
    /// Limit of the memory for hits that wait for other sources, in bytes: at least a full batch, 524288, of each source of hits, or the default
    /// where that is less.
    pub memory_bytes: u64,
    /// What happens when this memory is used up.
    pub full: Full,
    /// By how many picoseconds a hit may be earlier than the latest hit of its source. 0 means that sources are
    /// sorted; disorder is still repaired among hits that have not been passed on.
    /// A source can have its own value.
    pub disorder_ps: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            stall_ms: 500,
            late: Late::Keep,
            memory_bytes: 256 << 20,
            full: Full::PassOver,
            disorder_ps: 0,
        }
    }
}

/// What happens to late hits. They are counted in both cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// They are passed on with the next hits, flagged [`LATE`](thalweg_data::Flags::LATE). Only these hits can be out of
    /// order.
    #[default]
    Keep,
    /// They are lost for the reason [`Late`](thalweg_data::LossReason::Late).
    Drop,
}

/// What happens when the memory is used up. Back-pressure is no option: batches are taken in the order of their arrival,
/// so a waiting batch would block the batch of another source that the order needs to advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    /// The slowest source is passed over, as if it had been silent for too long, then the next slowest, until hits
    /// can be passed on. Only a batch that is larger than the memory is lost then, as `over_budget`.
    #[default]
    PassOver,
    /// The hits of the incoming batch are lost for the reason [`over_budget`](thalweg_data::LossReason::OverBudget), unless hits that wait
    /// can be passed on without passing over a source.
    Drop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_refused() {
        let found = serde_json::from_str::<Settings>(r#"{ "stall_s": 1 }"#);
        assert!(found.expect_err("no such key").to_string().contains("stall_ms"));
    }

    #[test]
    fn policies_are_read_from_the_configuration() {
        let settings: Settings =
            serde_json::from_str(r#"{ "late": "drop", "full": "pass_over" }"#).expect("valid");
        assert_eq!(settings, Settings { late: Late::Drop, ..Settings::default() });
    }
}
