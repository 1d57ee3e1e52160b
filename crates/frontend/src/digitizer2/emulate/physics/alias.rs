//! Draws an index by weight with one random number and one look-up (Walker's alias method, in the form of Vose).
//!
//! ```text
//!  weights ─► rows of (threshold, alias) ─ one random u64 ─► index
//! ```

/// One row: a number below the threshold selects the row itself, any other its alias.
#[derive(Clone, Copy, Debug)]
struct Row {
    threshold: u32,
    alias: u32,
}

/// A table for drawing. Its length is rounded up to a power of two; the added rows have no weight.
#[derive(Clone, Debug)]
pub struct Alias {
    rows: Box<[Row]>,
    shift: u32,
}

impl Alias {
    /// Creates a table for `weights`; `None` if no weight is positive.
    pub fn new(weights: &[f64]) -> Option<Alias> {
        let length = weights.len().next_power_of_two().max(2);
        let sum: f64 = weights.iter().filter(|weight| **weight > 0.0).sum();
        if !sum.is_finite() || sum <= 0.0 {
            return None;
        }
        let scale = length as f64 / sum;
        let mut scaled: Vec<f64> = weights.iter().map(|weight| weight.max(0.0) * scale).collect();
        scaled.resize(length, 0.0);
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..length).partition(|&row| scaled[row] < 1.0);
        let mut rows: Vec<Row> = (0..length as u32).map(|alias| Row { threshold: u32::MAX, alias }).collect();
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            rows[poor] = Row { threshold: (scaled[poor] * 2f64.powi(32)) as u32, alias: rich as u32 };
            scaled[rich] -= 1.0 - scaled[poor];
            if scaled[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Some(Alias { rows: rows.into(), shift: 64 - length.trailing_zeros() })
    }

    /// The index for a uniform random number: the high bits select the row, the low 32 bits are compared with its
    /// threshold.
    #[inline(always)]
    pub fn draw(&self, random: u64) -> usize {
        let index = (random >> self.shift) as usize & (self.rows.len() - 1);
        let row = self.rows[index];
        if (random as u32) < row.threshold { index } else { row.alias as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    #[test]
    fn indices_are_drawn_in_proportion_to_their_weights() {
        let weights = [0.0, 1.0, 2.0, 0.5, 0.0, 4.5];
        let alias = Alias::new(&weights).expect("positive weights");
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let mut counts = [0u32; 6];
        (0..800_000).for_each(|_| counts[alias.draw(random.next_u64())] += 1);
        for (count, weight) in counts.iter().zip(weights) {
            let expected = weight * 100_000.0;
            assert!((f64::from(*count) - expected).abs() < 5.0 * expected.sqrt() + 1.0, "{counts:?}");
        }
    }

    #[test]
    fn there_is_no_table_without_weight() {
        assert!(Alias::new(&[]).is_none() && Alias::new(&[0.0, -1.0]).is_none());
    }
}
