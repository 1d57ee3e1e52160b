//! What the threads of a run show of themselves while it goes on: written by one of them now and then, read by anyone.
//!
//! ```text
//!  readers: Gauges · builders: BuildGauges · both: RefusedGauges ─► supervise ─► live state, summary
//! ```

mod build;
mod missed;
mod refused;
mod source;

pub(crate) use build::BuildGauges;
pub(crate) use refused::RefusedGauges;
pub(crate) use source::{Gauges, GaugesOf, add_drop_counters};
