//! Finds whole events in datagrams and streams, and the gaps between them.
//!
//! ```text
//!  datagrams ─ UdpUnpack ─┐  id in the sequence from the hash           ┌─► units: one slice, or a chain
//!                         ├──► events, followed from header to header ──┤
//!  stream    ─ TcpUnpack ─┘  packet headers, blobs, clear markers       └─► lost{reason}, gaps, duplicates
//! ```
//! A unit is an event of the board: an aggregate, a scope event, or a special event; its tag contains the format
//! number. A scope event that is too large is passed on in parts. No payload is copied: a unit over several datagrams or packets is a chain. This module reads only sizes; the
//! decoder checks the content.

mod asked;
mod frames;
mod large;
mod sequence;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
mod window;

pub use tcp::TcpUnpack;
pub use udp::UdpUnpack;
