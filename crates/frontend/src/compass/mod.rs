//! CoMPASS list-mode files (`.BIN`): hits of CAEN boards as their own software wrote them.
//!
//! ```text
//!  file bytes ─► CompassUnpack ─► runs of whole records ─► CompassDecode ─► hits · extras
//! ```
//! [`wire`] is the checked view of a record in all sixteen combinations of fields, [`emit`] its inverse.
//! Files need not be in time order; `order` repairs that. A time has 64 bits of picoseconds, 213 days: CoMPASS has
//! extended the board's counter, and nothing wraps here. The second half of that range is lost as `time_range`.

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

pub use decode::{CompassDecode, flags};
pub use entry::FORMAT;
pub use settings::{Settings, SettingsError};
pub use unpack::CompassUnpack;
