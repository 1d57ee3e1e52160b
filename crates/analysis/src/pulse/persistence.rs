//! Many pulses over one another: how often a channel's samples came to which value at which time.
//!
//! ```text
//!  value ▲      ·░▒▓▒░·
//!        │   ·░▒▓▓▒░··▒▓▒░·
//!        │▓▓▓▓▓▒·         ·▒▓▓▓▓▓
//!        └──────────────────────► sample
//! ```

/// Bins along time and along value.
pub const COLUMNS: usize = 256;
/// Bins along value.
pub const ROWS: usize = 128;

/// Counts of the first analog probe of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// Pulses that were counted.
    pub pulses: u64,
    /// Samples in one column.
    pub samples_per_column: usize,
    /// The smallest value of the first row.
    pub low: i32,
    /// Values in one row.
    pub step: i32,
    /// Row after row, each of [`COLUMNS`].
    pub counts: Vec<u32>,
}

impl Persistence {
    pub(super) fn new() -> Persistence {
        Persistence { pulses: 0, samples_per_column: 1, low: 0, step: 1, counts: vec![0; COLUMNS * ROWS] }
    }

    /// Forgets what was counted.
    pub(super) fn clear(&mut self) {
        self.pulses = 0;
        self.counts.fill(0);
    }

    /// Adds one pulse. One that has no place in what was counted so far makes the range wider, and counting begins anew: that ends
    /// after a few pulses, since a range never shrinks.
    pub(super) fn add(&mut self, samples: &[i32]) {
        let (Some(least), Some(most)) = (samples.iter().min(), samples.iter().max()) else { return };
        let (least, most) = (i64::from(*least), i64::from(*most));
        let per_column = samples.len().div_ceil(COLUMNS);
        if self.pulses == 0 || !self.holds(least, most) || per_column > self.samples_per_column {
            self.widen(least, most, per_column);
        }
        for (index, sample) in samples.iter().enumerate() {
            let row = (i64::from(*sample) - i64::from(self.low)) / i64::from(self.step);
            let cell = &mut self.counts[row as usize * COLUMNS + index / self.samples_per_column];
            *cell = cell.saturating_add(1);
        }
        self.pulses += 1;
    }

    fn holds(&self, least: i64, most: i64) -> bool {
        let low = i64::from(self.low);
        least >= low && most < low + i64::from(self.step) * ROWS as i64
    }

    fn widen(&mut self, least: i64, most: i64, per_column: usize) {
        let (low, high) = match self.pulses {
            0 => (least, most),
            _ => {
                let low = i64::from(self.low);
                (least.min(low), most.max(low + i64::from(self.step) * ROWS as i64 - 1))
            }
        };
        // An eighth of room on both sides: the next pulse is not the same.
        let margin = ((high - low) / 8).max(1);
        let low = (low - margin).max(i64::from(i32::MIN));
        let step = ((high + margin - low) / ROWS as i64 + 1).min(i64::from(i32::MAX));
        (self.low, self.step) = (low as i32, step as i32);
        self.samples_per_column = self.samples_per_column.max(per_column);
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_sample_of_every_pulse_since_the_last_widening_is_counted(
            pulses in proptest::collection::vec(proptest::collection::vec(any::<i32>(), 1..600), 1..6),
        ) {
            let mut persistence = Persistence::new();
            for pulse in &pulses {
                persistence.add(pulse);
            }
            let last = persistence.pulses as usize;
            let expected: usize = pulses[pulses.len() - last..].iter().map(Vec::len).sum();
            prop_assert!(last >= 1);
            prop_assert_eq!(persistence.counts.iter().map(|count| *count as usize).sum::<usize>(), expected);
        }
    }

    #[test]
    fn equal_pulses_lie_on_one_another() {
        let mut persistence = Persistence::new();
        let pulse: Vec<i32> = (0..512).map(|index| index / 4).collect();
        (0..3).for_each(|_| persistence.add(&pulse));
        assert_eq!((persistence.pulses, persistence.samples_per_column), (3, 2));
        assert_eq!(persistence.counts.iter().max(), Some(&6));
    }
}
