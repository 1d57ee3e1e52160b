//! A board that behaves: physics in, the bytes of a running board out, without a socket or a clock.
//!
//! ```text
//!  Settings ─► physics ─► pulses ─► Board ─► datagrams or packets, truth, totals
//!                                     ▲ arm, start, stop, clear, reset (from `control`)
//! ```

pub mod physics;
pub mod settings;
