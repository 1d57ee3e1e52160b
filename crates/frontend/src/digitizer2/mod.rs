//! CAEN Digitizer 2.0 (x27xx) boards: DPP-PSD, DPP-PHA, Open DPP, DPP-ZLE and scope firmware.
//!
//! ```text
//!  datagrams, stream ─ unpack ─► aggregates, scope and special events ─ decode ─► hits
//!  hits, waveforms   ─ emit   ─► the same bytes, as a board sends them
//! ```

#[cfg(any(test, feature = "harness"))]
pub mod check;
mod compass_settings;
pub mod control;
mod cursor;
pub mod decode;
pub mod emit;
pub mod emulate;
mod entry;
pub mod parameters;
mod record_parts;
mod records;
#[cfg(any(test, feature = "harness"))]
mod seeds;
pub mod settings;
pub mod unpack;
pub mod wire;

pub use decode::Decoder;
pub use entry::FORMAT;
pub use settings::{Firmware, Settings, SettingsError};
pub use unpack::{TcpUnpack, UdpUnpack};

#[cfg(test)]
mod tests;
