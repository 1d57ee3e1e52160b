//! ABCD event files (`.ade`): charges and times that the ABCD acquisition computed from waveforms.
//!
//! ```text
//!  file bytes ─► AbcdUnpack ─► runs of whole records ─► AbcdDecode ─► hits
//! ```
//! [`wire`] is the view of a record, [`emit`] its inverse. Files need not be in time order; `order` repairs that. A hit
//! has no field for the baseline: it is kept as an extra if `keep_baseline` is set, and in the raw recording in any
//! case. The group counter is only in the raw recording. A time has 64 bits of counts of 2 ps and more, over a year:
//! ABCD has extended the board's counter, and nothing wraps here. Times beyond the range of picoseconds are lost as
//! `time_range`.

#[cfg(any(test, feature = "harness"))]
mod check;
mod decode;
pub mod emit;
mod entry;
#[cfg(any(test, feature = "harness"))]
mod seeds;
mod settings;
#[cfg(test)]
mod tests;
mod unpack;
pub mod wire;

pub use decode::AbcdDecode;
pub use entry::FORMAT;
pub use settings::{Settings, SettingsError};
pub use unpack::AbcdUnpack;
