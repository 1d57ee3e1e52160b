//! `[pulses]`: how many waveforms are looked at.
//!
//! ```text
//!  [pulses]
//!  per_second = 200                  all channels together
//!  keep = 16                         of each channel
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[pulses]`: the waveforms that the page shows. What is recorded does not depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether any are looked at.
    pub enabled: bool,
    /// Pulses taken each second, of all channels together.
    #[schemars(range(min = 1, max = 10_000))]
    pub per_second: u32,
    /// Latest pulses kept of each channel.
    #[schemars(range(min = 1, max = 1024))]
    pub keep: usize,
    /// Samples kept of a pulse, at most.
    #[schemars(range(min = 16, max = 65_536))]
    pub longest_samples: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { enabled: true, per_second: 200, keep: 16, longest_samples: 8192 }
    }
}

/// Pulses that cannot be shown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PulseError {
    /// A number outside its range.
    #[error("[pulses] {key} = {found}: write {least} to {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// What was found.
        found: usize,
        /// The smallest.
        least: usize,
        /// The largest.
        most: usize,
    },
    /// A channel that no source sends.
    #[error("no source sends channel {0}; the list of channels says which there are")]
    Channel(u16),
    /// A condition that cannot be read.
    #[error(transparent)]
    Filter(#[from] crate::cut::CutError),
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), PulseError> {
        let ranges = [
            ("per_second", self.per_second as usize, 1, 10_000),
            ("keep", self.keep, 1, 1024),
            ("longest_samples", self.longest_samples, 16, 65_536),
        ];
        match ranges.into_iter().find(|(_, found, least, most)| !(*least..=*most).contains(found)) {
            Some((key, found, least, most)) => Err(PulseError::Range { key, found, least, most }),
            None => Ok(()),
        }
    }
}
