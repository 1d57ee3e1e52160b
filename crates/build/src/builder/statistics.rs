//! How large events are and how long they take, as histograms of fixed size.
//!
//! ```text
//!  value ─► octave and quarter of it ─► count          1 2 3 4 | 5 6 7 8 | 10 12 14 16 | 20 …
//! ```

/// Counts of values by size, four bins per octave: an error of at most an eighth, 2 KiB, for ever.
#[derive(Clone, Debug)]
pub struct Histogram {
    bins: Box<[u64; Histogram::BINS]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { bins: Box::new([0; Histogram::BINS]), total: 0 }
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

    /// The value below which a share of all lies (0.5: the median), to within its bin; 0 of none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share.clamp(0.0, 1.0) * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.bins.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, Histogram::bin_start)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bins.fill(0);
        self.total = 0;
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
            let place = bin(value);
            assert!(Histogram::bin_start(place) <= value);
            assert!(place + 1 == Histogram::BINS || value < Histogram::bin_start(place + 1), "{value}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_bins() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0);
        (0..100).for_each(|_| histogram.add(1000));
        histogram.add(1 << 40);
        assert_eq!((histogram.quantile(0.5), histogram.quantile(1.0)), (896, 1 << 40));
        assert_eq!(histogram.filled().map(|(_, count)| count).sum::<u64>(), 101);
    }
}
