//! The gauges of a run's threads: one thread writes each of them now and then, any thread reads them.
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
