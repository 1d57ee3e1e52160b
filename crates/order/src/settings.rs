//! The configuration of time order: `[order]`.
//!
//! ```text
//!  [order]
//!  stall_ms = 500           a silent source is waited for this long
//!  late = "keep"            or "drop"
//!  memory_bytes = 268435456
//!  full = "pass_over"       or "drop", when the memory is used up
//!  disorder_ps = 0          how far back inside a source a hit may lie
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of time order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// A source from which no hit in time has come for so many milliseconds is passed over: the others are no
    /// longer held back for it. It joins again with its next hit in time.
    pub stall_ms: u64,
    /// What becomes of hits whose place in the order has passed.
    pub late: Late,
    /// Most memory for hits that wait for other sources, in bytes.
    pub memory_bytes: u64,
    /// What happens when that memory is used up.
    pub full: Full,
    /// How far before the latest hit of its source a hit may still lie, in picoseconds. With 0 the sources are
    /// taken to be sorted; what disorder there is, is repaired as far as the order has not moved on.
    /// A source may state its own.
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

/// What is done with late hits. They are counted either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// They come out with the next hits, flagged [`LATE`](thalweg_data::Flags::LATE): the only ones that may
    /// stand out of order.
    #[default]
    Keep,
    /// They are lost for the reason [`Late`](thalweg_data::LossReason::Late).
    Drop,
}

/// What happens when the memory is used up. Holding the input back would not help: batches are taken in the order of their arrival, so the
/// batch that would move the order on would wait behind the one that is held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    /// The slowest source is passed over, as if it had been silent for too long, and the next slowest, until hits
    /// come out.
    #[default]
    PassOver,
    /// The hits of the incoming batch are lost for the reason [`OverBudget`](thalweg_data::LossReason::OverBudget).
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
    fn words_are_those_of_the_configuration() {
        let settings: Settings =
            serde_json::from_str(r#"{ "late": "drop", "full": "pass_over" }"#).expect("valid");
        assert_eq!(settings, Settings { late: Late::Drop, ..Settings::default() });
    }
}
