//! `[filter]`: which built events are kept, by whom this is decided, and how long that may take.
//!
//! ```text
//!  [filter]
//!  keep    = 'missing == 0 && max(u16_le, 12) > 500'
//!  workers = 2
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most workers: more than one per core brings nothing.
const MOST_WORKERS: usize = 64;
/// Longest deadline, one day: beyond that a worker that hangs is never found.
const MOST_DEADLINE_MS: u64 = 86_400_000;

/// The event filter: which of the built events are recorded. Built events pass through the workers and keep their order; those that are
/// rejected are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What is kept: an expression over the fields of an event, its fragments and their bytes. For another `kind`, what that kind reads.
    pub keep: String,
    /// What decides: `"expression"`, or one that this program has been given besides.
    #[serde(default = "expression")]
    pub kind: String,
    /// Threads that decide, each a batch of events at a time.
    #[serde(default = "one")]
    pub workers: usize,
    /// How long a worker may take for an event, milliseconds. After that the event is undecided, and the other workers go on with those
    /// behind it.
    #[serde(default = "second")]
    pub deadline_ms: u64,
    /// What becomes of undecided events: `"keep"` records them, and notes how many; `"drop"` counts them as lost.
    #[serde(default)]
    pub undecided: Undecided,
    /// Of the rejected events, one in this many is recorded all the same, for monitoring; 0: none. A hash of the trigger number chooses them.
    #[serde(default)]
    pub prescale: u64,
}

/// What becomes of events that a worker has not decided in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// They are recorded.
    #[default]
    Keep,
    /// They are lost.
    Drop,
}

/// Why there can be no such filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// There is no such kind.
    #[error("`kind = \"{kind}\"`: this program has no such event filter; it has {known}")]
    Unknown {
        /// What was asked for.
        kind: String,
        /// What there is.
        known: String,
    },
    /// There is one of that word.
    #[error("there is an event filter of kind \"{0}\" already; choose another word")]
    Taken(String),
    /// The kind does not accept what is to be kept.
    #[error("`keep`: {0}")]
    Keep(String),
    /// A number is out of range.
    #[error("`{key} = {value}`: {allowed}")]
    Range {
        /// The key.
        key: &'static str,
        /// What it says.
        value: u64,
        /// What it could say.
        allowed: String,
    },
}

fn expression() -> String {
    "expression".to_owned()
}

fn one() -> usize {
    1
}

fn second() -> u64 {
    1000
}

impl Settings {
    /// Checks the numbers.
    ///
    /// # Errors
    /// When one is out of range.
    pub fn check(&self) -> Result<(), FilterError> {
        let refuse = |key, value, allowed: String| Err(FilterError::Range { key, value, allowed });
        if !(1..=MOST_WORKERS).contains(&self.workers) {
            let allowed = format!("write 1 to {MOST_WORKERS}; more than one per core brings nothing");
            return refuse("workers", self.workers as u64, allowed);
        }
        if !(1..=MOST_DEADLINE_MS).contains(&self.deadline_ms) {
            return refuse(
                "deadline_ms",
                self.deadline_ms,
                format!("write 1 to {MOST_DEADLINE_MS}, which is a day"),
            );
        }
        Ok(())
    }

    /// What a recording says of it: by what its events were selected.
    pub fn text(&self) -> String {
        match self.kind == expression() {
            true => self.keep.clone(),
            false => format!("{}: {}", self.kind, self.keep),
        }
    }
}
