//! A board that behaves: physics in, the bytes of a running board out, without a socket or a clock.
//!
//! ```text
//!  Settings ─► physics ─► pulses ─► Board ─► datagrams or packets, truth, totals
//!                                     ▲ arm, start, stop, clear, reset (from `control`)
//! ```
//! The host owns sockets and time: it passes commands on, calls [`Board::produce`] with its `now`, and sends what it
//! gets. The same settings, commands and times give the same bytes.

mod board;
mod encode;
mod outgoing;
mod packer;
pub mod physics;
mod prepared;
pub mod settings;

pub use board::{Board, BoardError, State, Truth};
pub use outgoing::{Outgoing, Run};
pub(in crate::digitizer2) use packer::datagram_key;
pub use packer::{Totals, buffer_bytes, datagram_data_bytes};
pub use settings::{Settings, SettingsError};

#[cfg(test)]
mod tests;
