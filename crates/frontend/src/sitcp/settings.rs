//! Settings of a SiTCP source.
//!
//! ```text
//!  [[source]] format = "sitcp" ─► Settings ─ validate ─► Splitter
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wire::{adc_sitcp, recbe, str_tdc};

/// The format of the board's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// RECBE: board in byte 1, block counter in bytes 2 and 3.
    #[default]
    Recbe,
    /// Belle II drift chamber: board in bytes 2 and 3.
    Belle2,
    /// ADC-SiTCP: 16 channels of waveforms.
    AdcSitcp,
    /// Streaming TDC (AMANEQ, HUL): one fragment per heartbeat frame.
    StrTdc,
}

/// Identifies the board that sent a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedBy {
    /// The number in the header; other numbers than the configured ones are refused. The streaming TDC sends none.
    #[default]
    Header,
    /// The connection: the board at its other end sends all its data, whatever number is in the headers.
    Connection,
}

/// Settings of a source with `format = "sitcp"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The format of the boards' stream.
    pub profile: Profile,
    /// Number of boards behind one connection.
    pub boards: u16,
    /// Number of the first board in its headers; the other boards have the next numbers.
    pub first_board: u16,
    /// Identifies the board that sent a block.
    pub named_by: NamedBy,
    /// Longest block in bytes, with its header; a longer one is treated as damaged. By default, the limit of the
    /// format, or 256 KiB of waveforms. A block must fit `block_bytes` of the source.
    pub longest_block_bytes: Option<u32>,
    /// Whether the board's own counter (block counter of RECBE, frame number of the streaming TDC) increases by one per
    /// block, so that a gap in it is a loss in the board. Set this to false for firmware that counts otherwise.
    pub sent_number: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            profile: Profile::default(),
            boards: 1,
            first_board: 0,
            named_by: NamedBy::default(),
            longest_block_bytes: None,
            sent_number: true,
        }
    }
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No board, or numbers that the header cannot have.
    #[error(
        "`boards = {boards}` from `first_board = {first_board}` on is invalid: write 1 to {highest} boards whose numbers are at most {highest_number}"
    )]
    Boards {
        /// The configured number of boards.
        boards: u16,
        /// The configured first number.
        first_board: u16,
        /// Most boards that are possible.
        highest: u32,
        /// Highest number in a header of this profile.
        highest_number: u32,
    },
    /// Several boards whose blocks nothing distinguishes.
    #[error(
        "`boards = {boards}`, but nothing distinguishes their blocks: use `named_by = \"header\"` with a profile that has board numbers, or one connection per board"
    )]
    Nameless {
        /// The configured number of boards.
        boards: u16,
    },
    /// Shorter than a header, or longer than any block.
    #[error("`longest_block_bytes = {found}` must be {least} to {most}")]
    LongestBlock {
        /// The configured length.
        found: u32,
        /// Lowest value.
        least: usize,
        /// Highest value.
        most: usize,
    },
}

/// Default limit of a block of waveforms, with its header.
const WAVEFORM_BLOCK_BYTES: usize = 256 << 10;
/// Most boards behind one connection, since each has its own counters.
pub const MOST_BOARDS: u16 = 1024;
/// Highest limit of a block.
const MOST_BLOCK_BYTES: usize = 64 << 20;

impl Profile {
    /// Bits of the trigger number (or frame number), which then wraps.
    pub const fn trigger_bits(self) -> u32 {
        match self {
            Profile::StrTdc => str_tdc::FRAME_NUMBER_BITS,
            _ => 32,
        }
    }

    /// Highest board number in a header; `None` if only the connection names the board.
    pub const fn highest_board(self) -> Option<u32> {
        match self {
            Profile::Recbe | Profile::AdcSitcp => Some(u8::MAX as u32),
            Profile::Belle2 => Some(u16::MAX as u32),
            Profile::StrTdc => None,
        }
    }

    /// Whether the format has a counter of blocks.
    pub const fn counts_blocks(self) -> bool {
        matches!(self, Profile::Recbe | Profile::StrTdc)
    }

    const fn shortest_block_bytes(self) -> usize {
        match self {
            Profile::Recbe | Profile::Belle2 => recbe::HEADER_BYTES,
            Profile::AdcSitcp => adc_sitcp::HEADER_BYTES,
            Profile::StrTdc => str_tdc::DELIMITER_BYTES,
        }
    }

    const fn longest_block_bytes(self) -> usize {
        match self {
            Profile::Recbe | Profile::Belle2 => recbe::HEADER_BYTES + recbe::LONGEST_BODY,
            Profile::AdcSitcp => WAVEFORM_BLOCK_BYTES,
            Profile::StrTdc => str_tdc::LONGEST_DATA + str_tdc::DELIMITER_BYTES,
        }
    }
}

impl Settings {
    /// Whether the boards count their sent blocks, and gaps in the count are losses.
    pub fn counts_frames(&self) -> bool {
        self.sent_number && self.profile.counts_blocks()
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The value that cannot be used, and what to write instead.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let highest_number = self.profile.highest_board().filter(|_| self.named_by == NamedBy::Header);
        if self.boards > 1 && highest_number.is_none() {
            return Err(SettingsError::Nameless { boards: self.boards });
        }
        let highest_number = highest_number.unwrap_or(u32::from(u16::MAX));
        let beyond = u32::from(self.first_board) + u32::from(self.boards) > highest_number + 1;
        if self.boards == 0 || self.boards > MOST_BOARDS || beyond {
            return Err(SettingsError::Boards {
                boards: self.boards,
                first_board: self.first_board,
                highest: (highest_number + 1).min(u32::from(MOST_BOARDS)),
                highest_number,
            });
        }
        let least = self.profile.shortest_block_bytes();
        match self.longest_block_bytes {
            Some(found) if !(least..=MOST_BLOCK_BYTES).contains(&(found as usize)) => {
                Err(SettingsError::LongestBlock { found, least, most: MOST_BLOCK_BYTES })
            }
            _ => Ok(()),
        }
    }

    /// Whether blocks are distinguished by the number in their header.
    pub fn names_in_header(&self) -> bool {
        self.named_by == NamedBy::Header && self.profile.highest_board().is_some()
    }

    /// Longest accepted block, with its header.
    pub fn longest_block(&self) -> usize {
        self.longest_block_bytes.map_or(self.profile.longest_block_bytes(), |bytes| bytes as usize)
    }
}
