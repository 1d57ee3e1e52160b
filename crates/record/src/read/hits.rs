//! Hits out of the table `hits`.
//!
//! ```text
//!  hits.arrows ──► columns of a batch ──► Vec<Hit>, as they were recorded
//! ```

use std::path::Path;

use thalweg_data::{Flags, Hit};

use super::table_reader::{BatchHead, ReadAt, TableReader};
use crate::error::RecordError;
use crate::table::Table;

/// Reads the table `hits`, batch by batch.
#[derive(Debug)]
pub struct HitsReader {
    reader: TableReader,
}

impl HitsReader {
    /// Opens a file of hits.
    ///
    /// # Errors
    /// When it cannot be read or is another table.
    pub fn open(path: &Path) -> Result<HitsReader, RecordError> {
        let reader = TableReader::open(path)?;
        match reader.table() {
            Table::Hits => Ok(HitsReader { reader }),
            other => Err(reader.damaged(0, format!("the table `{}` where `hits` is wanted", other.word()))),
        }
    }

    /// Replaces `hits` by the next batch; `false` at the end. The checksum is verified.
    ///
    /// # Errors
    /// When the batch is damaged or cut.
    pub fn next_batch(&mut self, hits: &mut Vec<Hit>) -> Result<bool, RecordError> {
        hits.clear();
        let Some(head) = self.reader.next_batch()? else { return Ok(false) };
        self.reader.verify_checksum(&head)?;
        hits_of(&self.reader, &head, hits)?;
        Ok(true)
    }

    /// The rest of the file at once.
    ///
    /// # Errors
    /// As for `next_batch`.
    pub fn read_all(mut self) -> Result<Vec<Hit>, RecordError> {
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while self.next_batch(&mut batch)? {
            all.extend_from_slice(&batch);
        }
        Ok(all)
    }
}

/// Replaces `hits` by those of a batch.
pub(crate) fn hits_of<R: ReadAt>(
    reader: &TableReader<R>,
    head: &BatchHead,
    hits: &mut Vec<Hit>,
) -> Result<(), RecordError> {
    hits_from(reader, head, 0, hits)
}

/// The same of a table whose columns of hits begin with `column`.
pub(crate) fn hits_from<R: ReadAt>(
    reader: &TableReader<R>,
    head: &BatchHead,
    column: usize,
    hits: &mut Vec<Hit>,
) -> Result<(), RecordError> {
    let time_ps = reader.numbers::<8>(head, column)?;
    let channel = reader.numbers::<2>(head, column + 1)?;
    let energy = reader.numbers::<2>(head, column + 2)?;
    let energy_short = reader.numbers::<2>(head, column + 3)?;
    let flags = reader.numbers::<2>(head, column + 4)?;
    let rows = time_ps.iter().zip(&channel).zip(&energy).zip(&energy_short).zip(&flags);
    hits.clear();
    hits.extend(rows.map(|((((time_ps, channel), energy), energy_short), flags)| Hit {
        time_ps: i64::from_le_bytes(*time_ps),
        channel: u16::from_le_bytes(*channel),
        energy: u16::from_le_bytes(*energy),
        energy_short: u16::from_le_bytes(*energy_short),
        flags: Flags(u16::from_le_bytes(*flags)),
    }));
    Ok(())
}
