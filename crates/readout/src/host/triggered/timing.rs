//! How late, and how far apart: times in a histogram of fixed size.
//!
//! ```text
//!  nanoseconds ─► bin: power of two and a sixteenth of it ─► median, 99 %, largest
//! ```

/// Bins per power of two: a value is known to 1/16.
const FINE: u64 = 16;
const BINS: usize = 61 * FINE as usize;

/// A histogram of times.
#[derive(Clone, Debug)]
pub struct Times {
    bins: Vec<u64>,
    count: u64,
    largest_ns: u64,
}

/// A histogram in a few words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many times were measured.
    pub count: u64,
    /// Half of them were at most this, nanoseconds.
    pub median_ns: u64,
    /// 99 % of them were at most this, nanoseconds.
    pub percent_99_ns: u64,
    /// The largest, nanoseconds.
    pub largest_ns: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { bins: vec![0; BINS], count: 0, largest_ns: 0 }
    }
}

fn bin(time_ns: u64) -> usize {
    if time_ns < FINE {
        return time_ns as usize;
    }
    let power = u64::from(time_ns.ilog2()) - 3;
    (power * FINE + (time_ns >> (power - 1)) - FINE) as usize
}

/// The largest time that falls into a bin.
fn upper_ns(bin: usize) -> u64 {
    let bin = bin as u64;
    let (power, fine) = (bin / FINE, bin % FINE);
    match power {
        0 => fine,
        power => ((u128::from(FINE + fine + 1) << (power - 1)) - 1) as u64,
    }
}

impl Times {
    /// Adds `count` times of `time_ns` each.
    pub(super) fn add(&mut self, time_ns: u64, count: u64) {
        self.bins[bin(time_ns)] += count;
        self.count += count;
        self.largest_ns = self.largest_ns.max(time_ns);
    }

    /// The time that a share (0 to 1) of all does not exceed, nanoseconds, to 1/16 upwards; 0 of none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_ns(index).min(self.largest_ns);
            }
        }
        0
    }

    /// The histogram in a few words.
    pub fn spread(&self) -> Spread {
        Spread {
            count: self.count,
            median_ns: self.quantile_ns(0.5),
            percent_99_ns: self.quantile_ns(0.99),
            largest_ns: self.largest_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_bin_that_holds_it() {
        for time_ns in (0..2000).chain([1 << 20, (1 << 40) + 12345, u64::MAX / 3, u64::MAX]) {
            let own = bin(time_ns);
            assert!(own < BINS && time_ns <= upper_ns(own), "{time_ns}");
            assert!(own == 0 || upper_ns(own - 1) < time_ns, "{time_ns}");
        }
    }

    #[test]
    fn quantiles() {
        let mut times = Times::default();
        assert_eq!(times.spread(), Spread::default());
        (1..=100).for_each(|time| times.add(time * 1000, 1));
        let spread = times.spread();
        assert!((50_000..54_000).contains(&spread.median_ns), "{spread:?}");
        assert!((99_000..=100_000).contains(&spread.percent_99_ns), "{spread:?}");
        assert_eq!((spread.largest_ns, spread.count), (100_000, 100));
    }
}
