//! Ranges of triggers out of the table `ranges`.
//!
//! ```text
//!  ranges-UNIT.arrows ──► columns of a batch ──► RangeRecord, as it was noted
//! ```

use std::path::Path;

use thalweg_data::{EventSum, RangeFate, RangeRecord, UnitId};

use super::events::open_table;
use super::table_reader::{BatchHead, ReadAt, TableReader};
use crate::error::RecordError;
use crate::loss_row::LIST_FULL;
use crate::range_list::UnitNames;
use crate::table::Table;

/// Reads the table `ranges` of one unit, batch by batch.
#[derive(Debug)]
pub struct RangesReader {
    reader: TableReader,
}

/// Rows of the table `ranges`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeRows {
    /// The ranges.
    pub records: Vec<RangeRecord>,
    /// Whether a row says that the list is full: records of several ranges follow.
    pub is_full: bool,
}

impl RangesReader {
    /// Opens a file of ranges.
    ///
    /// # Errors
    /// When it cannot be read or is another table.
    pub fn open(path: &Path) -> Result<RangesReader, RecordError> {
        Ok(RangesReader { reader: open_table(path, Table::Ranges)? })
    }

    /// The unit that noted them, and the units that the rows name by number.
    pub fn units(&self) -> (String, UnitNames) {
        units_of(&self.reader)
    }

    /// The rest of the file at once. The checksums are verified.
    ///
    /// # Errors
    /// When a batch is damaged or cut.
    pub fn read_all(mut self) -> Result<RangeRows, RecordError> {
        let mut all = RangeRows::default();
        while let Some(head) = self.reader.next_batch()? {
            self.reader.verify_checksum(&head)?;
            rows_of(&self.reader, &head, &mut all)?;
        }
        Ok(all)
    }
}

/// The unit that wrote a file of ranges, and the units of its run.
pub(super) fn units_of<R: ReadAt>(reader: &TableReader<R>) -> (String, UnitNames) {
    let text = |key: &str, nothing: &'static str| reader.metadata().get(key).map_or(nothing, String::as_str);
    let mut names = UnitNames {
        readouts: serde_json::from_str(text("readouts", "[]")).unwrap_or_default(),
        builders: serde_json::from_str(text("builders", "[]")).unwrap_or_default(),
    };
    // Their numbers have 16 bits.
    names.readouts.truncate(usize::from(u16::MAX));
    names.builders.truncate(usize::from(u16::MAX));
    (text("unit", "").to_owned(), names)
}

/// Appends the rows of a batch. A fate that is not known was written by a newer program, and is refused.
pub(super) fn rows_of<R: ReadAt>(
    reader: &TableReader<R>,
    head: &BatchHead,
    into: &mut RangeRows,
) -> Result<(), RecordError> {
    let numbers = |column| reader.numbers::<8>(head, column);
    let (first, last, ranges, epoch) = (numbers(0)?, numbers(1)?, numbers(2)?, numbers(4)?);
    let (events, fragments) = (numbers(8)?, numbers(9)?);
    let (bytes, digest) = (numbers(10)?, numbers(11)?);
    let attempt = reader.numbers::<1>(head, 3)?;
    let readout = reader.optional_numbers::<2>(head, 5)?;
    let builder = reader.numbers::<2>(head, 6)?;
    let of = u64::from_le_bytes;
    // Every column has as many values as the batch has rows: so was each of them read.
    for (row, word) in reader.texts(head, 7)?.into_iter().enumerate() {
        if word == LIST_FULL {
            into.is_full = true;
            continue;
        }
        let fate = RangeFate::from_word(&word).ok_or_else(|| {
            reader.damaged(head.offset(), format!("a range is \"{word}\", which is no fate"))
        })?;
        into.records.push(RangeRecord {
            first: of(first[row]),
            last: of(last[row]),
            ranges: of(ranges[row]),
            attempt: attempt[row][0],
            epoch: of(epoch[row]),
            readout: readout[row].map(u16::from_le_bytes).map(UnitId),
            builder: UnitId(u16::from_le_bytes(builder[row])),
            fate,
            sum: EventSum {
                events: of(events[row]),
                fragments: of(fragments[row]),
                bytes: of(bytes[row]),
                digest: of(digest[row]),
            },
        });
    }
    Ok(())
}
