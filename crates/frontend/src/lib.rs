//! What front-end boards speak, without a socket or a clock: bytes and time in, units, hits and bytes out.
//!
//! ```text
//!  received bytes ─► unpack ─► units ─► decode ─► hits        (the host's half)
//!  physics ─► emulate ─► emit ─► bytes                        (the board's half)
//! ```
//! One folder per family of boards, each with its wire format, its encoder, and a board that behaves.

pub mod abcd;
#[cfg(any(test, feature = "harness"))]
pub mod check;
pub mod compass;
pub mod digitizer2;
pub mod emulated_settings;
pub mod fragment;
mod framing;
pub mod generic;
#[cfg(any(test, feature = "harness"))]
pub mod seeds;
pub mod sitcp;
pub mod time_origin;
pub mod trigger;
