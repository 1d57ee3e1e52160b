//! SiTCP's register protocol (RBCP): one UDP datagram for a request, one for its answer, on port 4660.
//!
//! ```text
//!  Operation ─► Client ─► datagram ─► board's registers ─► datagram ─► Client ─► Done
//!                 ▲ now: time-outs, re-sending, read-back
//! ```
//! [`wire`] is the datagram, [`Client`] and [`RegisterControl`] the side of the host, [`Registers`] that of an emulated board, [`map`] the
//! addresses. None of them has a socket or a clock. Sources: h-sendai/SitcpRbcp, BeeBeansTechnologies/sitcpy,
//! RyotaroHonda/ug-amaneq.

mod client;
mod control;
pub mod map;
mod registers;
#[cfg(test)]
mod tests;
pub mod wire;

pub use client::{Client, Counts, Done, Operation, RbcpError, Settings};
pub use control::RegisterControl;
pub use registers::{Faults, Registers};
