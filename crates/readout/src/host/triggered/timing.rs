//! How late, and how far apart: times in a histogram of fixed size.
//!
//! ```text
//!  nanoseconds ─► histogram, two digits of each ─► p50, p99, largest
//! ```

use hdrhistogram::Histogram;

/// The longest time that is distinguished from longer ones, nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Digits to which a time is known.
const DIGITS: u8 = 2;

/// A histogram of times.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    largest_ns: u64,
}

/// A histogram in a few words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many times were measured.
    pub count: u64,
    /// Half of them were at most this, nanoseconds.
    pub p50_ns: u64,
    /// 99 % of them were at most this, nanoseconds.
    pub p99_ns: u64,
    /// The largest, nanoseconds.
    pub largest_ns: u64,
}

impl Default for Times {
    fn default() -> Times {
        let histogram = Histogram::new_with_max(LONGEST_NS, DIGITS)
            .expect("a range of two and more, five digits or fewer");
        Times { histogram, largest_ns: 0 }
    }
}

impl Times {
    /// Adds `count` times of `time_ns` each.
    pub(super) fn add(&mut self, time_ns: u64, count: u64) {
        self.histogram.saturating_record_n(time_ns, count);
        self.largest_ns = self.largest_ns.max(time_ns);
    }

    /// The time that a fraction of all (0.99: p99) does not exceed, nanoseconds, to a hundredth upwards; 0 of none.
    pub fn quantile_ns(&self, fraction: f64) -> u64 {
        match fraction {
            1.0.. => self.largest_ns,
            _ => self.histogram.value_at_quantile(fraction).min(self.largest_ns),
        }
    }

    /// The histogram in a few words.
    pub fn spread(&self) -> Spread {
        Spread {
            count: self.histogram.len(),
            p50_ns: self.quantile_ns(0.5),
            p99_ns: self.quantile_ns(0.99),
            largest_ns: self.largest_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_range_is_the_largest() {
        let mut times = Times::default();
        times.add(u64::MAX, 3);
        times.add(0, 1);
        assert_eq!((times.quantile_ns(0.1), times.quantile_ns(1.0)), (0, u64::MAX));
        assert!(times.quantile_ns(0.5) >= LONGEST_NS);
        assert_eq!(times.spread().count, 4);
    }

    #[test]
    fn percentiles_are_known_to_a_hundredth_and_the_largest_exactly() {
        let mut times = Times::default();
        assert_eq!(times.spread(), Spread::default());
        (1..=100).for_each(|time| times.add(time * 1000, 1));
        let spread = times.spread();
        assert!((50_000..50_500).contains(&spread.p50_ns), "{spread:?}");
        assert!((99_000..=100_000).contains(&spread.p99_ns), "{spread:?}");
        assert_eq!((spread.largest_ns, spread.count), (100_000, 100));
    }
}
