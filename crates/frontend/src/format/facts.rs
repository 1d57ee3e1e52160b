//! What a board says of itself when it is asked.

use serde::{Deserialize, Serialize};

/// What a board is, as it says itself when it is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoardFacts {
    /// Model name; empty if the board does not report one.
    pub model: String,
    /// Serial number; empty if the board does not report one.
    pub serial: String,
    /// Firmware in the family's word, where it is a known one.
    pub firmware: Option<String>,
    /// Sampling rate in MHz: one count of its clock is one sampling period.
    pub sampling_mhz: f64,
    /// Length of that count in picoseconds.
    pub tick_ps: f64,
    /// Channels.
    pub channels: u16,
}

impl BoardFacts {
    /// The board in words, for messages.
    pub fn name(&self) -> String {
        match (self.model.as_str(), self.serial.as_str()) {
            ("", "") => "the board".to_owned(),
            (model, "") => format!("the {model}"),
            (model, serial) => format!("the {model} with serial number {serial}"),
        }
    }
}
