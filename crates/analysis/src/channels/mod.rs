//! What is known of each channel: its name, its group, its time offset, its energy in keV.
//!
//! ```text
//!  [[channel]] ─┐
//!  a CSV file ──┼─► ChannelMap ─► offsets before time order, groups for coincidence, keV for cuts and spectra
//!  the sources ─┘
//! ```
//! Energies stay as the boards measured them; what they mean in keV is computed where it is asked for, so that there is no
//! second copy of the data, and a better calibration later needs no other recording.

mod calibrations;
mod list;
mod map;
mod settings;
pub mod table;
#[cfg(test)]
mod tests;

pub use calibrations::{Calibrations, Line};
pub use list::{ChannelList, Entry, RangeError};
pub use map::{COEFFICIENTS, Channel, ChannelMap, NO_GROUP, SourceChannels};
pub(crate) use map::{by_channel, polynomial};
pub use settings::{ChannelSettings, Settings};

/// An invalid description of channels.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChannelError {
    /// Two sources number their channels alike.
    #[error(
        "channel {channel} is sent by both \"{first}\" and \"{second}\"; give one of them another `first_channel`"
    )]
    Shared {
        /// The channel.
        channel: u16,
        /// The source that had it first.
        first: String,
        /// The one that has it, too.
        second: String,
    },
    /// A description of a channel that is not there.
    #[error("channel {channel} is described, and no source sends it; sent are {sent}")]
    NobodySends {
        /// The channel.
        channel: u16,
        /// What is sent.
        sent: String,
    },
    /// Two descriptions of one channel.
    #[error("two [[channel]] have the number {channel}; keep one")]
    Twice {
        /// The channel.
        channel: u16,
    },
    /// A time offset that no cable makes: the hits of the other channels would wait as long.
    #[error(
        "channel {channel}: offset_ps = {found}; write -10000000000000 to 10000000000000, ten seconds either way"
    )]
    Offset {
        /// The channel.
        channel: u16,
        /// What was given.
        found: i64,
    },
    /// A calibration that gives no number.
    #[error(
        "channel {channel}: energy_kev = {given:?} is no polynomial; write one to six numbers, constant first"
    )]
    Polynomial {
        /// The channel.
        channel: u16,
        /// What was given.
        given: Vec<f64>,
    },
    /// A file that cannot be read as a table.
    #[error("{file}, line {line}: {message}")]
    Table {
        /// The file.
        file: String,
        /// Its line, from 1.
        line: usize,
        /// What was found, and what to write.
        message: String,
    },
}
