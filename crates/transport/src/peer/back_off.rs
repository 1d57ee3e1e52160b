//! Exponential back-off with jitter between tries to connect.
//!
//! ```text
//!  failure ─► 10 ms · 20 ms · 40 ms · … · 2 s        success ─► from the start
//! ```
//! Sans-I/O. Each wait is shortened by up to a quarter, differently for each unit, so that a hundred units do not connect to a
//! restarted one at the same moment.

use std::time::Duration;

/// Doubling waits up to a limit.
#[derive(Clone, Debug)]
pub struct BackOff {
    first: Duration,
    most: Duration,
    failures: u32,
    seed: u64,
}

impl BackOff {
    /// Waits from `first`, doubling up to `most`; units with different values of `seed` wait for different times.
    pub fn new(first: Duration, most: Duration, seed: u64) -> BackOff {
        BackOff { first, most, failures: 0, seed }
    }

    /// How long to wait after one more failure.
    pub fn after_failure(&mut self) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(20)).min(self.most);
        self.failures = self.failures.saturating_add(1);
        // One round of SplitMix64 (Steele, Lea, Flood 2014).
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let part = (mixed >> 40) as f64 / f64::from(1 << 24);
        doubled.mul_f64(1.0 - part / 4.0)
    }

    /// Starts over with the first wait, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_begin_again() {
        let (first, most) = (Duration::from_millis(10), Duration::from_secs(2));
        let mut back_off = BackOff::new(first, most, 7);
        for expected in [10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000] {
            let wait = back_off.after_failure().as_secs_f64() * 1e3;
            assert!(
                (0.75 * f64::from(expected)..=f64::from(expected)).contains(&wait),
                "{wait} of {expected}"
            );
        }
        for _ in 0..100 {
            assert!(back_off.after_failure() <= most);
        }
        back_off.reset();
        assert!(back_off.after_failure() <= first);
    }
}
