//! Recorded data, counted: bytes, batches and rows.
//!
//! ```text
//!  file of a table ─► message, message, … ─► Amount { bytes, batches, rows }       document ─► Amount { bytes, 0, 0 }
//! ```

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};
use thalweg_record::read::MessageSpan;

/// Batches and rows of a table, or of the beginning of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCounts {
    /// Batches.
    pub batches: u64,
    /// Rows in them.
    pub rows: u64,
}

impl RowCounts {
    /// Counts a message. Schemas and dictionaries are no batches of rows.
    pub fn count(&mut self, message: &MessageSpan) {
        if let Some(rows) = message.rows {
            self.batches += 1;
            self.rows += rows;
        }
    }
}

impl AddAssign for RowCounts {
    fn add_assign(&mut self, other: RowCounts) {
        self.batches += other.batches;
        self.rows += other.rows;
    }
}

/// An amount of recorded data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// Batches of rows; null where somebody has not counted them.
    pub batches: Option<u64>,
    /// Rows; null where somebody has not counted them.
    pub rows: Option<u64>,
}

impl Default for Amount {
    fn default() -> Amount {
        Amount { bytes: 0, batches: Some(0), rows: Some(0) }
    }
}

impl Amount {
    /// Of a file without rows.
    pub fn of_bytes(bytes: u64) -> Amount {
        Amount { bytes, ..Amount::default() }
    }

    /// Of a table; `None` where its rows were not counted.
    pub fn of_table(bytes: u64, counts: Option<RowCounts>) -> Amount {
        Amount { bytes, batches: counts.map(|counts| counts.batches), rows: counts.map(|counts| counts.rows) }
    }

    /// Whether nothing of it is unknown.
    pub fn is_counted(&self) -> bool {
        self.batches.is_some() && self.rows.is_some()
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            Some(rows) => write!(f, "{} B with {rows} rows", self.bytes),
            None => write!(f, "{} B", self.bytes),
        }
    }
}

impl Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Amount {
            bytes: self.bytes + other.bytes,
            batches: sum(self.batches, other.batches),
            rows: sum(self.rows, other.rows),
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        *self = *self + other;
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Amount>>(amounts: I) -> Amount {
        amounts.fold(Amount::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_knows_its_rows_only_when_each_part_does() {
        let table = Amount::of_table(5, Some(RowCounts { batches: 1, rows: 3 }));
        let sum: Amount = [table, Amount::of_bytes(2)].into_iter().sum();
        assert_eq!(sum, Amount { bytes: 7, batches: Some(1), rows: Some(3) });
        let unknown = sum + Amount::of_table(1, None);
        assert_eq!((unknown.bytes, unknown.rows, unknown.is_counted()), (8, None, false));
    }
}
