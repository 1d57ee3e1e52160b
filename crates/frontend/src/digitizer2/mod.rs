//! CAEN Digitizer 2.0 (x27xx) boards: DPP-PSD, DPP-PHA, Open DPP, DPP-ZLE and scope firmware.
//!
//! ```text
//!  datagrams, stream ─ unpack ─► aggregates, scope and special events ─ decode ─► hits
//!  hits, waveforms   ─ emit   ─► the same bytes, as a board sends them
//! ```

pub mod control;
pub mod emit;
pub mod emulate;
pub mod wire;
