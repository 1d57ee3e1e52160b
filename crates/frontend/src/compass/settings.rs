//! Settings of a CoMPASS source.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wire::{Fields, Limits};

/// Settings of a source with `format = "compass"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The header word of the run's first file, such as `0xCAED`, for files without one: continuation files that are
    /// read alone, and files of CoMPASS 1.x (`0xCAE5`). A header in the file has precedence.
    pub header: Option<u16>,
    /// Number of boards; a record with a higher board number is damaged.
    pub boards: u16,
    /// Channels per board; the experiment's channel is first_channel + board × channels_per_board + channel.
    pub channels_per_board: u16,
    /// The experiment's channel for channel 0 of board 0.
    pub first_channel: u16,
    /// Longest waveform in samples; a record with more is damaged.
    pub samples_limit: u32,
    /// Added to every time of this source, in picoseconds.
    pub time_offset_ps: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            header: None,
            boards: 16,
            channels_per_board: 64,
            first_channel: 0,
            samples_limit: 65_536,
            time_offset_ps: 0,
        }
    }
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The word is not the header of a CoMPASS file.
    #[error(
        "`header = {found:#06X}` is not a CoMPASS header: write the first word of the first file, 0xCAE0 to 0xCAEF"
    )]
    Header {
        /// The configured word.
        found: u16,
    },
    /// The channels of all boards exceed those of the experiment.
    #[error(
        "`boards` × `channels_per_board` + `first_channel` is {found}, and must be `first_channel` + 1 to 65536: lower one of them"
    )]
    Channels {
        /// The resulting number.
        found: u64,
    },
    /// Longer than any digitizer's memory.
    #[error("`samples_limit = {found}` is more than {}: no board records that long", Settings::MOST_SAMPLES)]
    Samples {
        /// The configured number.
        found: u32,
    },
}

impl Settings {
    /// Highest `samples_limit`: 64 MiB of samples, beyond the memory of every board.
    pub const MOST_SAMPLES: u32 = 32 << 20;

    /// Checks the settings.
    ///
    /// # Errors
    /// The value that cannot be used, and what to write instead.
    pub fn validate(&self) -> Result<(), SettingsError> {
        if let Some(found) = self.header
            && Fields::from_header(found).is_none()
        {
            return Err(SettingsError::Header { found });
        }
        let channels = self.channel_count() as u64;
        let found = channels + u64::from(self.first_channel);
        if channels == 0 || found > 1 << 16 {
            return Err(SettingsError::Channels { found });
        }
        if self.samples_limit > Self::MOST_SAMPLES {
            return Err(SettingsError::Samples { found: self.samples_limit });
        }
        Ok(())
    }

    /// Number of the experiment's channels that this source has, from `first_channel` on.
    pub fn channel_count(&self) -> usize {
        usize::from(self.boards) * usize::from(self.channels_per_board)
    }

    /// The fields of files without a header, if configured.
    pub fn fields(&self) -> Option<Fields> {
        self.header.and_then(Fields::from_header)
    }

    /// The limits of plausible records.
    pub fn limits(&self) -> Limits {
        Limits {
            // A board number must not look like a header.
            boards: self.boards.min(Fields::from_bits(0).header()),
            channels_per_board: self.channels_per_board,
            samples: self.samples_limit,
        }
    }
}
