//! Losses out of the table `losses`.
//!
//! ```text
//!  losses.arrows ──► columns of a batch ──► LossRow, as they were recorded
//! ```

use std::path::Path;

use super::events::open_table;
use super::table_reader::{BatchHead, ReadAt, TableReader};
use crate::error::RecordError;
use crate::loss_row::LossRow;
use crate::table::Table;

/// Reads the table `losses`, batch by batch.
#[derive(Debug)]
pub struct LossesReader {
    reader: TableReader,
}

impl LossesReader {
    /// Opens a file of losses.
    ///
    /// # Errors
    /// When it cannot be read or is another table.
    pub fn open(path: &Path) -> Result<LossesReader, RecordError> {
        Ok(LossesReader { reader: open_table(path, Table::Losses)? })
    }

    /// The rows of the next batch; `None` at the end. The checksum is verified.
    ///
    /// # Errors
    /// When the batch is damaged or cut.
    pub fn next_batch(&mut self) -> Result<Option<Vec<LossRow>>, RecordError> {
        let Some(head) = self.reader.next_batch()? else { return Ok(None) };
        self.reader.verify_checksum(&head)?;
        rows_of(&self.reader, &head).map(Some)
    }

    /// The rest of the file at once.
    ///
    /// # Errors
    /// As for `next_batch`.
    pub fn read_all(mut self) -> Result<Vec<LossRow>, RecordError> {
        let mut all = Vec::new();
        while let Some(rows) = self.next_batch()? {
            all.extend(rows);
        }
        Ok(all)
    }
}

/// The rows of a batch.
pub(super) fn rows_of<R: ReadAt>(
    reader: &TableReader<R>,
    head: &BatchHead,
) -> Result<Vec<LossRow>, RecordError> {
    let numbers = |column| reader.numbers::<8>(head, column);
    let (from, until, counts) = (numbers(0)?, numbers(1)?, numbers(8)?);
    let texts = |column| reader.texts(head, column).map(Vec::into_iter);
    let (mut subjects, mut stages, mut reasons) = (texts(2)?, texts(3)?, texts(4)?);
    let (mut units, mut qualities) = (texts(5)?, texts(9)?);
    let triggers = |column| reader.optional_numbers::<8>(head, column);
    let (first, last) = (triggers(6)?, triggers(7)?);
    // Every column has as many values as the batch has rows: so was each of them read.
    let row = |row: usize| LossRow {
        from_ns: u64::from_le_bytes(from[row]),
        until_ns: u64::from_le_bytes(until[row]),
        subject: subjects.next().unwrap_or_default(),
        stage: stages.next().unwrap_or_default(),
        reason: reasons.next().unwrap_or_default(),
        unit: units.next().unwrap_or_default(),
        first: first[row].map(u64::from_le_bytes),
        last: last[row].map(u64::from_le_bytes),
        count: i64::from_le_bytes(counts[row]),
        quality: qualities.next().unwrap_or_default(),
    };
    Ok((0..head.rows()).map(row).collect())
}
