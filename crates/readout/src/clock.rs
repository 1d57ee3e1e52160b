//! The receiver's clock of a run: where arrival marks come from.
//!
//! ```text
//!  run start ─► RunClock ─ mark ─► nanoseconds since then, monotonic
//! ```

use std::time::Instant;

use thalweg_data::Mark;

/// Gives marks; all sources of a run share one.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    start: Instant,
}

impl RunClock {
    /// The run starts now.
    pub fn start() -> RunClock {
        RunClock { start: Instant::now() }
    }

    /// The run started at `start`.
    pub fn since(start: Instant) -> RunClock {
        RunClock { start }
    }

    /// The mark of this moment.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.start.elapsed().as_nanos() as u64)
    }
}
