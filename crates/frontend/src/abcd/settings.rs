//! Settings of an ABCD source.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::Tick;
use thalweg_data::tick::TickError;

use crate::time_origin::TimeOrigin;

/// Settings of a source with `format = "abcd"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Length of one count of the time in picoseconds, which the file does not contain: 1.953125 (2 ns / 1024) for a
    /// DT5730, 3.90625 (4 ns / 1024) for a DT5725.
    pub tick_ps: f64,
    /// Number of channels; a record with a higher channel is lost as `bad_channel`.
    #[serde(default = "all_channels")]
    pub channels: u16,
    /// The experiment's channel for channel 0 of this source.
    #[serde(default)]
    pub first_channel: u16,
    /// Keep the baseline, which a hit cannot hold, as the `number` of an extra of 40 bytes for each hit.
    #[serde(default)]
    pub keep_baseline: bool,
    /// Added to every time of this source, in picoseconds.
    #[serde(default)]
    pub time_offset_ps: i64,
    /// The time that becomes 0.
    #[serde(default)]
    pub time_origin: TimeOrigin,
}

fn all_channels() -> u16 {
    256
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// An invalid tick.
    #[error("`tick_ps`: {0}")]
    Tick(#[from] TickError),
    /// More channels than the format or the experiment has.
    #[error(
        "`channels = {channels}` from `first_channel = {first_channel}`: write 1 to 256 channels, to end at or below channel 65535"
    )]
    Channels {
        /// The configured number.
        channels: u16,
        /// The first of them.
        first_channel: u16,
    },
}

impl Settings {
    /// Settings with this tick; all others are defaults.
    pub fn with_tick_ps(tick_ps: f64) -> Settings {
        Settings {
            tick_ps,
            channels: all_channels(),
            first_channel: 0,
            keep_baseline: false,
            time_offset_ps: 0,
            time_origin: TimeOrigin::default(),
        }
    }

    /// Checks the settings, and returns the exact tick.
    ///
    /// # Errors
    /// The value that cannot be used, and what to write instead.
    pub fn validate(&self) -> Result<Tick, SettingsError> {
        let Settings { channels, first_channel, .. } = *self;
        let possible =
            (1..=256).contains(&channels) && u32::from(channels) + u32::from(first_channel) <= 1 << 16;
        if !possible {
            return Err(SettingsError::Channels { channels, first_channel });
        }
        Ok(Tick::from_ps_f64(self.tick_ps)?)
    }

    /// Number of the experiment's channels that this source has, from `first_channel` on.
    pub fn channel_count(&self) -> usize {
        usize::from(self.channels)
    }
}
