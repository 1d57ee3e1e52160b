//! What the configuration says about an x27xx board, checked.
//!
//! ```text
//!  [[source]] format = "digitizer2", tick_ps = 8000, channels = 64, firmware = "psd" ─► Settings ─► Plan
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::{Tick, tick::TickError};

use super::wire::CHANNELS;

/// What runs in the board, and so how the words behind a hit are to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    /// DPP-PSD: long and short gate.
    #[default]
    Psd,
    /// DPP-PHA: pulse height.
    Pha,
    /// Open DPP: user words and packed samples.
    OpenDpp,
    /// DPP-ZLE: zero-length encoding.
    Zle,
    /// Scope: one event per trigger.
    Scope,
}

/// Settings of one board, as written in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Sampling period in picoseconds: 8000 for the 2740 and 2745 (125 MS/s), 2000 for the 2730 (500 MS/s). The data do
    /// not tell it.
    pub tick_ps: f64,
    /// Channels of the board, 1 to 128. A hit of a channel beyond is counted as lost.
    pub channels: u16,
    /// Number of the board's channel 0 in the experiment.
    pub first_channel: u16,
    /// Firmware of the board.
    pub firmware: Firmware,
    /// Added to every time of this board, in picoseconds.
    pub time_offset_ps: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            tick_ps: 8000.0,
            channels: 64,
            first_channel: 0,
            firmware: Firmware::Psd,
            time_offset_ps: 0,
        }
    }
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// No sampling period.
    #[error("tick_ps: {0}")]
    Tick(#[from] TickError),
    /// No such board.
    #[error("channels = {0}: a board of this family has 1 to {CHANNELS} channels")]
    Channels(u16),
    /// Channel numbers of the experiment have 16 bits.
    #[error(
        "first_channel = {first_channel}: with {channels} channels the last one would be beyond {}",
        u16::MAX
    )]
    FirstChannel {
        /// What was given.
        first_channel: u16,
        /// Channels of the board.
        channels: u16,
    },
    /// So large that times would leave the 64 bits.
    #[error("time_offset_ps = {0}: give at most 1e18 in either direction (eleven days)")]
    TimeOffset(i64),
}

/// Checked settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Length of one time stamp count.
    pub tick: Tick,
    /// Channels of the board, 1 to 128.
    pub channels: u16,
    /// Number of the board's channel 0 in the experiment.
    pub first_channel: u16,
    /// Firmware of the board.
    pub firmware: Firmware,
    /// Added to every time, picoseconds.
    pub time_offset_ps: i64,
}

impl Settings {
    /// Checks everything.
    ///
    /// # Errors
    /// When a value cannot be used; the message says which are allowed.
    pub fn resolve(&self) -> Result<Plan, SettingsError> {
        let tick = Tick::from_ps_f64(self.tick_ps)?;
        if !(1..=CHANNELS).contains(&self.channels) {
            return Err(SettingsError::Channels(self.channels));
        }
        if self.first_channel.checked_add(self.channels - 1).is_none() {
            let Settings { first_channel, channels, .. } = *self;
            return Err(SettingsError::FirstChannel { first_channel, channels });
        }
        if self.time_offset_ps.unsigned_abs() > 1_000_000_000_000_000_000 {
            return Err(SettingsError::TimeOffset(self.time_offset_ps));
        }
        Ok(Plan {
            tick,
            channels: self.channels,
            first_channel: self.first_channel,
            firmware: self.firmware,
            time_offset_ps: self.time_offset_ps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_a_2740() {
        let settings: Settings = serde_json::from_str("{}").expect("all have defaults");
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.resolve().map(|plan| plan.tick.whole_ps()), Ok(Some(8000)));
        let settings: Settings = serde_json::from_str(r#"{"firmware":"opendpp"}"#).expect("a known firmware");
        assert_eq!(settings.firmware, Firmware::OpenDpp);
        assert!(serde_json::from_str::<Settings>(r#"{"chanels":3}"#).is_err());
    }

    #[test]
    fn wrong_values_are_refused_with_what_is_allowed() {
        let with = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.resolve().expect_err("cannot be used").to_string()
        };
        assert!(with(|s| s.channels = 129).contains("1 to 128"));
        assert!(with(|s| s.channels = 0).contains("1 to 128"));
        assert!(with(|s| s.first_channel = 65_500).contains("65535"));
        assert!(with(|s| s.tick_ps = -1.0).contains("tick_ps"));
        assert!(with(|s| s.time_offset_ps = i64::MIN).contains("time_offset_ps"));
    }
}
