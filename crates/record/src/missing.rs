//! Rows that a recovered run is known to miss: where in the table, when, and how many.
//!
//! ```text
//!  … 4 ps ┊ ▒▒▒ ┊ 9 ps …  ──►  hits.arrows: 20 rows missing behind time_ps 4 and before 9
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most places that are listed of one file; those behind are added to the last.
const MOST_PLACES: usize = 100;

/// Rows that are not on file any more, at one place of a table; part of `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingRows {
    /// The table.
    pub table: String,
    /// Name of the file.
    pub file: String,
    /// How many; `None` when nobody counted them: they lie behind the last whole batch of a run that was killed, or in a table of it that
    /// is gone.
    pub rows: Option<u64>,
    /// Bytes of the damaged file that held them, whole batches that had to go among them.
    pub bytes: u64,
    /// The column that places them in time, with its unit: `time_ps`, `mark_ns`, `closed_ns`; empty where there is none.
    pub column: String,
    /// The last value of this column before them; `None` when nothing is left before them.
    pub after: Option<i64>,
    /// The first value behind them; `None` when nothing is left behind them.
    pub before: Option<i64>,
    /// What was found in their place.
    pub reason: String,
}

impl MissingRows {
    /// Adds a place to those of one file, which are bounded.
    pub(crate) fn add_to(self, places: &mut Vec<MissingRows>) {
        let is_full = places.len() >= MOST_PLACES;
        match places.last_mut() {
            Some(last) if is_full => {
                last.rows = last.rows.zip(self.rows).map(|(some, more)| some.saturating_add(more));
                last.bytes = last.bytes.saturating_add(self.bytes);
                last.before = self.before;
            }
            _ => places.push(self),
        }
    }

    /// Whether it stands for a whole table whose rows nobody has counted.
    pub(crate) fn is_of_uncounted_table(&self) -> bool {
        (self.rows, self.after, self.before) == (None, None, None)
    }

    /// Takes rows out that are there again, as many as it has, with their part of its bytes; returns how many.
    pub(crate) fn take_back(&mut self, rows: u64) -> u64 {
        let Some(gone) = &mut self.rows else { return 0 };
        let back = rows.min(*gone);
        let left = u128::from(self.bytes) * u128::from(*gone - back) / u128::from(*gone).max(1);
        *gone -= back;
        self.bytes = u64::try_from(left).unwrap_or(u64::MAX);
        back
    }
}

impl fmt::Display for MissingRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingRows { file, rows, bytes, column, after, before, reason, .. } = self;
        match rows {
            Some(rows) => write!(f, "{file}: {rows} rows missing")?,
            None => write!(f, "{file}: an unknown number of rows missing")?,
        }
        match (after, before) {
            (Some(after), Some(before)) => write!(f, " between {column} {after} and {before}")?,
            (Some(after), None) => write!(f, " behind {column} {after}")?,
            (None, Some(before)) => write!(f, " before {column} {before}")?,
            (None, None) => {}
        }
        match bytes {
            0 => write!(f, ": {reason}"),
            bytes => write!(f, " ({bytes} bytes): {reason}"),
        }
    }
}
