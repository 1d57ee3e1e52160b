//! A board that behaves: physics in, the bytes of a running board out, without a socket or a clock.
//!
//! ```text
//!  Settings ─► physics ─► pulses ─► Board ─► datagrams or packets, truth, totals
//!                                     ▲ arm, start, stop, clear, reset (from `control`)
//! ```
//! The [board](Board) is driven as every [self-triggered board](crate::self_triggered).

mod board;
mod encode;
mod hit_counter;
mod hosted;
mod packer;
pub mod physics;
mod prepared;
pub mod settings;

pub use board::{Board, Truth};
pub(in crate::digitizer2) use packer::datagram_key;
pub use packer::{buffer_bytes, datagram_data_bytes};
pub use settings::{Settings, SettingsError};

#[cfg(test)]
mod tests;
