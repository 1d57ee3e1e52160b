//! How long an answer takes, measured, and after how long it is given up for lost.
//!
//! ```text
//!  answers ─► mean and deviation ─► time-out = mean + 4 × deviation, within bounds; doubled for each one that passed, up to a bound
//! ```
//! Source: RFC 6298, with bounds for networks of one building. What was sent twice is not measured, for nobody knows which of the two was
//! answered (Karn). Doubling is for a network that is full; a network that loses is asked often enough that a packet is found before it is
//! given up.

use std::time::Duration;

/// Before anything was measured.
const FIRST: Duration = Duration::from_millis(20);
/// A busy machine wakes a thread this late without anything being lost.
const SHORTEST: Duration = Duration::from_millis(2);
/// A packet is looked for at least as often before it is given up, whatever was measured, ...
const LEAST_LOOKS: u32 = 8;
/// ... and as often where answers come as quickly as that.
const USUAL_LOOKS: u32 = 32;

/// The round trip to one target.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    /// So long a packet may take in all.
    whole: Duration,
    measured: Option<(Duration, Duration)>,
    passed: u32,
}

impl RoundTrip {
    pub(super) fn new(whole: Duration) -> RoundTrip {
        RoundTrip { whole, measured: None, passed: 0 }
    }

    /// An answer took so long.
    pub(super) fn measure(&mut self, took: Duration) {
        self.passed = 0;
        self.measured = Some(match self.measured {
            None => (took, took / 2),
            Some((mean, deviation)) => ((7 * mean + took) / 8, (3 * deviation + mean.abs_diff(took)) / 4),
        });
    }

    /// What was measured, of late.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.measured.map(|(mean, _)| mean)
    }

    /// Something has answered, whenever that was sent.
    pub(super) fn answered(&mut self) {
        self.passed = 0;
    }

    /// A time-out has passed.
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// After so long an answer is missing.
    pub(super) fn timeout(&self) -> Duration {
        let usual = self.measured.map_or(FIRST, |(mean, deviation)| mean + 4 * deviation);
        let usual = usual.max(SHORTEST).min((self.whole / LEAST_LOOKS).max(SHORTEST));
        usual.saturating_mul(1 << self.passed.min(8)).min(usual.max(self.whole / USUAL_LOOKS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_out_follows_what_is_measured_and_backs_off() {
        let mut trip = RoundTrip::new(Duration::from_millis(800));
        assert_eq!(trip.timeout(), FIRST);
        (0..100).for_each(|_| trip.measure(Duration::from_micros(80)));
        assert_eq!(trip.timeout(), SHORTEST);
        trip.pass();
        trip.pass();
        assert_eq!(trip.timeout(), 4 * SHORTEST);
        (0..20).for_each(|_| trip.pass());
        assert_eq!(trip.timeout(), Duration::from_millis(25), "a 32nd of the whole");
        trip.answered();
        assert_eq!(trip.timeout(), SHORTEST);
        trip.measure(Duration::from_millis(10));
        assert!(trip.timeout() > Duration::from_millis(8), "{:?}", trip.timeout());
        (0..100).for_each(|_| trip.measure(Duration::from_millis(60)));
        trip.pass();
        assert!((60..=100).contains(&trip.timeout().as_millis()), "{:?}", trip.timeout());
        (0..100).for_each(|_| trip.measure(Duration::from_millis(300)));
        assert_eq!(trip.timeout(), Duration::from_millis(100), "an 8th of the whole");
    }
}
