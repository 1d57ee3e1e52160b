//! Decides how much may be sent now: an even rate with a bounded burst.
//!
//! ```text
//!  now ─► Pacer ─► how many units are due
//! ```
//! It reads no clock; callers pass the time.

use std::time::Duration;

/// Releases units (bytes, datagrams, whatever the caller counts in) at an even rate.
#[derive(Clone, Debug)]
pub struct Pacer {
    per_second: f64,
    burst: f64,
    due: f64,
    last: Duration,
}

impl Pacer {
    /// A pacer of `per_second` units, at most `burst` of them at once: units that a stall delays beyond the burst are not
    /// made up for.
    pub fn new(per_second: f64, burst: f64) -> Pacer {
        Pacer { per_second: per_second.max(0.0), burst: burst.max(1.0), due: 0.0, last: Duration::ZERO }
    }

    /// Whole units that are due at `now`, which is measured from the same moment in all calls.
    pub fn due(&mut self, now: Duration) -> u64 {
        let passed = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        self.due = (self.due + passed.as_secs_f64() * self.per_second).min(self.burst);
        self.due.max(0.0) as u64
    }

    /// Subtracts sent units; sending more than was due delays the following ones.
    pub fn sent(&mut self, units: u64) {
        self.due -= units as f64;
    }

    /// How long it takes until `units` are due.
    pub fn until(&self, units: u64) -> Duration {
        let missing = units as f64 - self.due;
        if missing <= 0.0 || self.per_second <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_releases_its_units_however_often_it_is_asked() {
        let mut pacer = Pacer::new(1000.0, 50.0);
        let mut total = 0;
        for step in 1..=977u64 {
            let due = pacer.due(Duration::from_nanos(step * 1_000_000_000 / 977));
            pacer.sent(due);
            total += due;
        }
        assert!((999..=1000).contains(&total), "{total}");
    }

    #[test]
    fn a_stall_is_not_made_up_for() {
        let mut pacer = Pacer::new(1000.0, 50.0);
        assert_eq!(pacer.due(Duration::from_secs(10)), 50);
        pacer.sent(60);
        assert_eq!(pacer.until(1), Duration::from_millis(11));
    }
}
