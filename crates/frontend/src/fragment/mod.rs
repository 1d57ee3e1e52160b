//! Synchronous boards that send one fragment per trigger, over UDP or TCP, in a format of our own.
//!
//! ```text
//!  datagrams ─► Splitter ───────┐   one jumbo per fragment, or several datagrams
//!  stream ────► StreamSplitter ─┴─► Fragments ─► build
//!  Trigger ───► emulate::Board ─► emit ─► datagrams · stream
//! ```
//! [`wire`] is the header byte by byte and its checked view, [`emit`] its inverse. A fragment is passed on with the
//! header of its first datagram; the headers of the others are left out. Trigger number and time have 64 bits each: at
//! a count of 1 ns and a trigger per count that is 584 years, so neither wraps.

mod admission;
#[cfg(any(test, feature = "harness"))]
pub mod check;
pub mod emit;
pub mod emulate;
mod entry;
#[cfg(any(test, feature = "harness"))]
mod seeds;
mod settings;
mod split;
mod stream;
#[cfg(test)]
mod tests;
pub mod wire;

pub use entry::FORMAT;
pub use settings::{Checksum, Settings, SettingsError};
pub use split::Splitter;
pub use stream::StreamSplitter;
