//! What is shown of a run can be changed while it goes on: calibrations and cuts that somebody applies on request.
//!
//! ```text
//!  page ─ calibrate · cut · revert ─► View ─ between two batches ─► Shown: spectra, pulses
//!                                      └─► Applied: what, from when to when, how much ─► page, run.json
//!
//!  configuration ─► cuts, coincidence, recording: untouched
//! ```
//! What is recorded is decided by the configuration alone, from the first hit to the last: a table that is cut differently behind some
//! row would have to be known for what it is by everybody who reads it. A change that shall hold for the recording, too, is written into the
//! configuration of the next run.

mod applied;
mod error;
mod handle;
mod shown;
#[cfg(test)]
mod tests;

pub use applied::{Applied, ChangeKind, NewCalibration, NewCut};
pub use error::ViewError;
pub(crate) use handle::Shows;
pub use handle::View;
pub use shown::{Shown, ViewChange};
