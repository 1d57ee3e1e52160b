//! An emulated board: simulates physics and gives the bytes of a running board, without socket or clock.
//!
//! ```text
//!  Settings ─► physics ─► pulses ─► Board ─► datagrams or packets, truth, totals
//!                                     ▲ arm, start, stop, clear, reset (from `control`)
//! ```
//! The [board](Board) is controlled like every [self-triggered board](crate::self_triggered).

mod board;
mod encode;
mod hit_counter;
mod hosted;
mod packer;
pub mod physics;
mod prepared;
pub mod settings;
mod zle;

pub use board::{Board, Truth};
pub(in crate::digitizer2) use packer::datagram_key;
pub use packer::{buffer_bytes, datagram_data_bytes};
pub use settings::{Settings, SettingsError};

#[cfg(test)]
mod tests;
