//! The measured round trip, and the retransmission timeout that follows from it.
//!
//! ```text
//!  replies ─► mean and deviation ─► timeout = mean + 4 × deviation, within bounds; doubled after each timeout, up to a bound
//! ```
//! Source: RFC 6298, with bounds for local networks. The round trip of a repeated packet is not measured, because the reply may be to
//! either copy (Karn's algorithm). Doubling relieves a congested network; its bound leaves enough retries on a lossy one.

use std::time::Duration;

/// The timeout before the first measurement.
const FIRST: Duration = Duration::from_millis(20);
/// The shortest timeout: a busy machine may wake a thread this late although nothing is lost.
const SHORTEST: Duration = Duration::from_millis(2);
/// Least number of tries before a packet is given up, however long the round trip, ...
const LEAST_TRIES: u32 = 8;
/// ... and least number when the round trip is short enough for it.
const USUAL_TRIES: u32 = 32;

/// The round trip to one target.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    /// How long a packet may take, repeats included.
    whole: Duration,
    /// Mean and deviation.
    measured: Option<(Duration, Duration)>,
    /// Timeouts since the last reply.
    passed: u32,
}

impl RoundTrip {
    pub(super) fn new(whole: Duration) -> RoundTrip {
        RoundTrip { whole, measured: None, passed: 0 }
    }

    /// Adds the round trip of one reply.
    pub(super) fn measure(&mut self, took: Duration) {
        self.passed = 0;
        self.measured = Some(match self.measured {
            None => (took, took / 2),
            Some((mean, deviation)) => ((7 * mean + took) / 8, (3 * deviation + mean.abs_diff(took)) / 4),
        });
    }

    /// The moving average of the round trip.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.measured.map(|(mean, _)| mean)
    }

    /// A reply arrived whose round trip is not measured.
    pub(super) fn answered(&mut self) {
        self.passed = 0;
    }

    /// A timeout has passed.
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// The retransmission timeout.
    pub(super) fn timeout(&self) -> Duration {
        let usual = self.measured.map_or(FIRST, |(mean, deviation)| mean + 4 * deviation);
        let usual = usual.max(SHORTEST).min((self.whole / LEAST_TRIES).max(SHORTEST));
        usual.saturating_mul(1 << self.passed.min(8)).min(usual.max(self.whole / USUAL_TRIES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_measured_round_trip_and_backs_off() {
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
