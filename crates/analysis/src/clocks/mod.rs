//! Clocks of several boards: brought together, measured against each other, watched.
//!
//! ```text
//!  batches of sources ─► Aligner ─► time order ─► ordered hits ─► ClockMonitor ─► offset, drift, locked?
//!                          ▲ [[clocks.source]] offset_ps, drift_ppb ◄── what was measured, by the user
//! ```
//! Boards with a common clock differ by constant offsets; boards with their own drift. Both show in the data: what two detectors see of one
//! decay makes a peak in the difference of their times, and where it lies is how far the clocks are apart.

mod align;
mod monitor;
mod peak;
mod settings;
#[cfg(test)]
mod tests;

pub use align::Aligner;
pub use monitor::{ClockMonitor, ClockState};
pub use settings::{ClockError, Correction, Settings};
