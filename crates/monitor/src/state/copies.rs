//! Copies of the runs elsewhere, by `thalweg ship`: the stage `ship` of the ledger, and what is behind.

use schemars::JsonSchema;
use serde::Serialize;

/// An amount of recorded data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopyCounts {
    /// Bytes.
    pub bytes: u64,
    /// Batches of tables; null where they are not counted yet.
    pub batches: Option<u64>,
    /// Rows of tables; null where they are not counted yet.
    pub rows: Option<u64>,
}

/// One destination of `[ship]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CopyState {
    /// Its address.
    pub to: String,
    /// Of this run, what is recorded here; the ledger balances if that is proved, waiting and refused together.
    pub recorded: CopyCounts,
    /// Of this run, what is proved there.
    pub proved: CopyCounts,
    /// Of this run, what waits or is on its way.
    pub waiting: CopyCounts,
    /// Of this run, what cannot be shipped as it is.
    pub refused: CopyCounts,
    /// Whether that balances; null where something is not counted yet.
    pub balances: Option<bool>,
    /// Of all runs, what could be proved there and is not, bytes.
    pub backlog_bytes: u64,
    /// Runs that have such.
    pub runs_behind: u64,
    /// How long nothing was proved there although something waits, in the time windows of shipping; 0 while nothing waits. Seconds, since
    /// this program was started at most.
    pub silent_seconds: f64,
}
