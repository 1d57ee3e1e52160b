//! SiTCP boards: data as a TCP stream, registers over UDP.
//!
//! ```text
//!  TCP bytes ─► Splitter ─► Fragments: one per trigger (or heartbeat frame), header and all, by reference
//!  Trigger ─► emulate::Board ─► TCP bytes              registers: rbcp::Client ◄─ datagrams ─► rbcp::Registers
//! ```
//! What stands in the stream is the business of the board's own logic: [`wire`] has a file per profile, [`emit`] its
//! inverse. Counters wrap: of triggers at 32 bits (frames of the streaming TDC at 24, after 2.4 h), of blocks sent at 16. They are
//! compared modulo their width and may begin anywhere; the builder extends the trigger numbers. No time in picoseconds is made of them
//! here: times within a frame stay in the payload. The board listens (port 24 by default), the host connects; with many boards connecting is starting.

#[cfg(any(test, feature = "harness"))]
pub mod check;
pub mod emit;
pub mod emulate;
mod entry;
pub mod rbcp;
#[cfg(any(test, feature = "harness"))]
mod seeds;
mod settings;
mod split;
#[cfg(test)]
mod tests;
pub mod wire;

pub use entry::FORMAT;
pub use settings::{NamedBy, Profile, Settings, SettingsError};
pub use split::Splitter;
