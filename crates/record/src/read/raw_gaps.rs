//! Where a raw recording has gaps: the places at which `recover` found rows to be missing.
//!
//! ```text
//!  run.json: missing between mark_ns 420 and 447 ─┐
//!  batches of raw.arrows: … 420 │ 447 …           ┴─► a gap before the batch that begins with 447
//! ```

use std::path::{Path, PathBuf};

use crate::missing::MissingRows;
use crate::run_record::RunRecord;
use crate::table::Table;

/// Rows are missing before a batch of the table `raw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawGap {
    pub path: PathBuf,
    /// Where the batch behind the gap begins; beyond the file where none is left.
    pub before: u64,
    /// Bytes of the damaged file that are missing here.
    pub bytes: u64,
}

/// A batch of the table, and the arrival marks of its first and last row.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedBatch {
    pub offset: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

/// The rows that the run's record says are missing in one file of raw bytes.
pub(super) fn missing_rows(file: &Path, record: &RunRecord) -> Vec<MissingRows> {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_of_it = |missing: &MissingRows| missing.table == Table::Raw.word() && missing.file == name;
    record.missing.iter().filter(|missing| is_of_it(missing)).cloned().collect()
}

/// The gaps of a file with these batches, in their order.
pub(super) fn gaps_of(file: &Path, batches: &[MarkedBatch], missing: &[MissingRows]) -> Vec<RawGap> {
    let mut gaps: Vec<RawGap> = Vec::new();
    for place in missing {
        let borders = (0..=batches.len()).map(|index| {
            let last = index.checked_sub(1).map(|before| batches[before].last_ns as i64);
            let next = batches.get(index).map(|batch| batch.first_ns as i64);
            (batches.get(index).map_or(u64::MAX, |batch| batch.offset), last, next)
        });
        let at = |offset| gaps.iter().any(|gap| gap.before == offset);
        let exact = borders
            .clone()
            .find(|(offset, last, next)| (*last, *next) == (place.after, place.before) && !at(*offset));
        // Of many places the last ones are reported together: there, every border between two batches may be one.
        let within = |(_, last, next): &(u64, Option<i64>, Option<i64>)| {
            place.after.is_none_or(|after| last.is_some_and(|last| last >= after))
                && place.before.is_none_or(|before| next.is_some_and(|next| next <= before))
        };
        let found: Vec<u64> = match exact {
            Some((offset, ..)) => vec![offset],
            None => borders.filter(within).map(|(offset, ..)| offset).filter(|offset| !at(*offset)).collect(),
        };
        let mut bytes = place.bytes;
        for before in found {
            gaps.push(RawGap { path: file.to_owned(), before, bytes: std::mem::take(&mut bytes) });
        }
    }
    gaps.sort_by_key(|gap| gap.before);
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(after: Option<i64>, before: Option<i64>) -> MissingRows {
        MissingRows { after, before, bytes: 100, ..MissingRows::default() }
    }

    fn borders(missing: &[MissingRows]) -> Vec<(u64, u64)> {
        let batch = |offset, first_ns, last_ns| MarkedBatch { offset, first_ns, last_ns };
        // Marks of several sources need not come in order.
        let batches = [batch(10, 1, 5), batch(20, 4, 9), batch(30, 15, 19), batch(40, 19, 25)];
        let gaps = gaps_of(Path::new("raw.arrows"), &batches, missing);
        gaps.iter().map(|gap| (gap.before, gap.bytes)).collect()
    }

    #[test]
    fn a_gap_lies_between_the_batches_that_the_record_names() {
        assert_eq!(borders(&[]), []);
        assert_eq!(borders(&[missing(Some(9), Some(15))]), [(30, 100)]);
        assert_eq!(borders(&[missing(None, Some(1)), missing(Some(25), None)]), [(10, 100), (u64::MAX, 100)]);
    }

    #[test]
    fn places_that_are_reported_together_may_be_between_any_two_batches() {
        assert_eq!(borders(&[missing(Some(5), Some(19))]), [(20, 100), (30, 0), (40, 0)]);
        assert_eq!(borders(&[missing(Some(19), None)]), [(40, 100), (u64::MAX, 0)]);
    }
}
