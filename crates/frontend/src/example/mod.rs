//! The documented example of a front end, complete and minimal: boards that send hits in numbered datagrams.
//!
//! ```text
//!  datagram ─ wire ─► number ─► unit ─ wire ─► hits        entry: framing, decoder
//!  settings of a board ─ emulate ─► hits ─ wire ─► datagram
//! ```
//! No hardware sends it. `CONTRIBUTING.md` explains these files; the [bytes](../../../../docs/formats/example.md) have
//! a page.

#[cfg(any(test, feature = "harness"))]
mod check;
mod emulate;
mod entry;
mod settings;
#[cfg(test)]
mod tests;
mod wire;

pub use entry::FORMAT;
