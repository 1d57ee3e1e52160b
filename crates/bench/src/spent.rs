//! What one turn of a bench costs, by two clocks.

use std::time::Duration;

/// Processor time and time on the clock.
#[derive(Clone, Copy, Default)]
pub(super) struct Spent {
    pub processor: Duration,
    pub wall: Duration,
}
