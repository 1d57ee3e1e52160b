//! The keys of a `[[source]]` with `format = "example"`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One board.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Number of the board in its datagrams.
    pub board: u16,
    /// Length of one count of the board's clock in picoseconds.
    pub tick_ps: f64,
    /// Number of channels of the board. Hits of higher channels are counted as lost.
    pub channels: u16,
    /// The experiment's channel for channel 0 of the board.
    pub first_channel: u16,
    /// Added to every time of this board, in picoseconds.
    pub time_offset_ps: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { board: 0, tick_ps: 1000.0, channels: 16, first_channel: 0, time_offset_ps: 0 }
    }
}
