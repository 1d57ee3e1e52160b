//! How large events are and how long they take, as histograms of fixed size.
//!
//! ```text
//!  value ─► octave and quarter of it ─► count          1 2 3 4 | 5 6 7 8 | 10 12 14 16 | 20 …
//! ```

/// Counts of values by size, four bins per octave: 2 KiB, for ever. The smallest and the largest value are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    bins: Box<[u64; Histogram::BINS]>,
    total: u64,
    smallest: u64,
    largest: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { bins: Box::new([0; Histogram::BINS]), total: 0, smallest: u64::MAX, largest: 0 }
    }
}

impl Histogram {
    /// Bins of every histogram.
    pub const BINS: usize = 4 * 63;

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.bins[bin(value)] += 1;
        self.total += 1;
        self.smallest = self.smallest.min(value);
        self.largest = self.largest.max(value);
    }

    /// Values counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The smallest value of a bin.
    pub fn bin_start(bin: usize) -> u64 {
        match bin {
            0..4 => bin as u64,
            _ => (4 + bin as u64 % 4) << (bin / 4 - 1),
        }
    }

    /// Every bin that is not empty: the smallest value it takes, and its count.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counted = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bin, count)| (Histogram::bin_start(bin), *count))
    }

    /// The value below which a fraction of all lies (0.5: p50), 0 of none. Between the ends of a bin it is interpolated; it
    /// is never below the smallest value or above the largest, and so exact where all are equal.
    pub fn quantile(&self, fraction: f64) -> u64 {
        let wanted = fraction.clamp(0.0, 1.0) * self.total as f64;
        let mut below = 0.0;
        for (bin, count) in self.bins.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let start = Histogram::bin_start(bin);
                // The last bin ends where no other begins: at the largest value.
                let end =
                    if bin + 1 < Histogram::BINS { Histogram::bin_start(bin + 1) } else { self.largest };
                let within = (end - start) as f64 * (wanted - below) / count;
                return start.saturating_add(within as u64).clamp(self.smallest, self.largest);
            }
            below += count;
        }
        0
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Histogram::default();
    }
}

fn bin(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let octave = value.ilog2() as usize;
    4 * (octave - 1) + (value >> (octave - 2)) as usize % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_bin() {
        for value in (0..2000).chain([u64::MAX / 2, u64::MAX - 1, u64::MAX]) {
            let index = bin(value);
            assert!(Histogram::bin_start(index) <= value);
            assert!(index + 1 == Histogram::BINS || value < Histogram::bin_start(index + 1), "{value}");
        }
    }

    #[test]
    fn a_percentile_is_never_below_the_smallest_value_nor_above_the_largest() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0);
        (0..100).for_each(|_| histogram.add(9056));
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|fraction| histogram.quantile(fraction)), [9056; 4]);
        histogram.add(1 << 40);
        assert!((9056..10_240).contains(&histogram.quantile(0.5)), "{}", histogram.quantile(0.5));
        assert_eq!((histogram.quantile(0.0), histogram.quantile(1.0)), (9056, 1 << 40));
        assert_eq!(histogram.filled().map(|(_, count)| count).sum::<u64>(), 101);
        histogram.clear();
        assert_eq!((histogram.quantile(1.0), histogram.total()), (0, 0));
    }

    #[test]
    fn percentiles_are_interpolated_within_a_bin() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|value| histogram.add(value));
        for (fraction, value) in [(0.01, 1000.0), (0.5, 50_000.0), (0.9, 90_000.0), (0.99, 99_000.0)] {
            let found = histogram.quantile(fraction) as f64;
            assert!((found / value - 1.0).abs() < 0.03, "p{:.0}: {found} of {value}", 100.0 * fraction);
        }
    }
}
