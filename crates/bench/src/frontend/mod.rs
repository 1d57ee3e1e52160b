//! Measures the cost of splitting, decoding and emulating, by family of boards.
//!
//! ```text
//!  emulated boards ─► bytes in memory ─► unpack, decode, split    against a look at each datagram, or a copy of the bytes
//! ```

pub mod digitizer2;
pub mod fragment;
pub mod sitcp;
