//! Properties that a board reports.

use serde::{Deserialize, Serialize};

/// Properties that a board reports when it is queried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoardFacts {
    /// Model name; empty if the board does not report one.
    pub model: String,
    /// Serial number; empty if the board does not report one.
    pub serial: String,
    /// Firmware, as the family names it, if it is known.
    pub firmware: Option<String>,
    /// Version of its firmware, if it reports one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// Sampling rate in MHz: one count of the board's clock is one sampling period.
    pub sampling_mhz: f64,
    /// Length of one count in picoseconds.
    pub tick_ps: f64,
    /// Number of channels.
    pub channels: u16,
    /// How many samples of its clock the board combines to one, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decimation: Option<u32>,
    /// Samples of a waveform before the trigger, if they are the same for all channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_before_trigger: Option<u32>,
}

impl BoardFacts {
    /// The name of the board for messages.
    pub fn name(&self) -> String {
        match (self.model.as_str(), self.serial.as_str()) {
            ("", "") => "the board".to_owned(),
            (model, "") => format!("the {model}"),
            (model, serial) => format!("the {model} with serial number {serial}"),
        }
    }
}
