//! SiTCP boards: data as a TCP stream, registers over UDP.
//!
//! ```text
//!  TCP bytes ─► Splitter ─► Fragments: one per trigger (or heartbeat frame), with its header, by reference
//!  Trigger ─► emulate::Board ─► TCP bytes              registers: rbcp::Client ◄─ datagrams ─► rbcp::Registers
//! ```
//! The board's own logic defines the content of the stream: [`wire`] has a file per profile, [`emit`] its inverse.
//! Counters wrap: that of triggers at 32 bits (that of frames of the streaming TDC at 24, after 2.4 h), that of sent
//! blocks at 16. They are compared modulo their width and may start at any value; the builder extends the trigger
//! numbers. They are not converted to picoseconds here: times within a frame remain in the payload. The board listens
//! (on port 24 by default) and the host connects; boards start when they are connected.

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
