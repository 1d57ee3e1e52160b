//! What can be said of a channel, in `[[channel]]` or in a row of a file.
//!
//! ```text
//!  [channels]                        [[channel]]
//!  file = "channels.csv"             number = 0
//!                                    name = "LaBr3"
//!                                    group = "gamma"
//!                                    energy_kev = [0.0, 0.34]
//! ```

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[channels]`: what holds for all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// A table of channels as comma-separated values, with a first line that names its columns: `number`, and any of `name`,
    /// `group`, `enabled`, `offset_ps`, `kev_0` … `kev_5`. What a `[[channel]]` says of the same channel goes before it.
    pub file: Option<PathBuf>,
}

/// `[[channel]]`: one channel of the experiment. What is not said is as if the channel had not been listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelSettings {
    /// Its number: the source's first channel plus the board's own.
    pub number: u16,
    /// What it is called on the page.
    #[serde(default)]
    pub name: Option<String>,
    /// The group that it belongs to: detectors that are treated alike, or parts of one detector.
    #[serde(default)]
    pub group: Option<String>,
    /// `false` leaves its hits out of everything but the recording of all hits and the spectra of what is received.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// Added to the time of its hits before they are ordered, picoseconds, at most ten seconds either way: cables and electronics.
    #[serde(default)]
    pub offset_ps: Option<i64>,
    /// Energy in keV as a polynomial of the measured energy, constant first, at most six coefficients.
    #[serde(default)]
    #[schemars(length(min = 1, max = 6))]
    pub energy_kev: Option<Vec<f64>>,
}

impl ChannelSettings {
    /// What is said here, and otherwise what `other` says.
    pub(super) fn or(self, other: &ChannelSettings) -> ChannelSettings {
        ChannelSettings {
            number: self.number,
            name: self.name.or_else(|| other.name.clone()),
            group: self.group.or_else(|| other.group.clone()),
            enabled: self.enabled.or(other.enabled),
            offset_ps: self.offset_ps.or(other.offset_ps),
            energy_kev: self.energy_kev.or_else(|| other.energy_kev.clone()),
        }
    }
}
