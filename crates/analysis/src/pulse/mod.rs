//! Pulses: a few waveforms of each channel, for people to look at.
//!
//! ```text
//!  ordered batch, extras ─► PulseTap ─ so many a second, those that a condition picks ─► PulseStore ─► page
//! ```
//! Waveforms stay where they were received until somebody wants their samples; the tap is one who wants few. Its budget is counted in
//! the time of the batches, so that a busy hour costs as little as a quiet one.

mod persistence;
mod settings;
mod store;
mod tap;
#[cfg(test)]
mod tests;

pub use persistence::{COLUMNS, Persistence, ROWS};
pub use settings::{PulseError, Settings};
pub use store::{Pulse, PulseStore};
pub use tap::PulseTap;
