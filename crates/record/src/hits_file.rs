//! A file of hits alone, outside any run: an emulator's truth, an export.
//!
//! ```text
//!  &[Hit] ──► HitsFile ──► truth.arrows
//! ```

use std::path::Path;

use thalweg_data::Hit;

use crate::error::RecordError;
use crate::hit_columns::HitColumns;
use crate::ipc::compress::{Compressed, Compressor};
use crate::ipc::file::{TableFile, TableSummary};
use crate::settings::Compression;
use crate::table::Table;

/// Hits per batch.
const BATCH_HITS: usize = 128 * 1024;

/// Writes hits to one file of the table `hits`, in the order given.
///
/// ```
/// use thalweg_data::Hit;
/// use thalweg_record::{Compression, HitsFile, read::HitsReader};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("hits.arrows");
/// let hits: Vec<Hit> = (0..1000).map(|time_ps| Hit { time_ps, channel: 3, ..Hit::default() }).collect();
/// let mut file = HitsFile::create(&path, Compression::Lz4, &[])?;
/// file.write(&hits)?;
/// file.finish()?;
/// assert_eq!(HitsReader::open(&path)?.read_all()?, hits);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HitsFile {
    file: TableFile,
    columns: HitColumns,
    compression: Compression,
    compressor: Compressor,
    /// Memory for the next batch that is compressed.
    spent: Option<Compressed>,
}

impl HitsFile {
    /// Makes the file, which must not exist. `metadata` goes into its schema, each key behind `thalweg.`.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub fn create(
        path: &Path,
        compression: Compression,
        metadata: &[(&str, &str)],
    ) -> Result<HitsFile, RecordError> {
        let file = TableFile::create(path, Table::Hits, metadata)?;
        let (columns, compressor) = (HitColumns::with_capacity(BATCH_HITS), Compressor::new(compression));
        Ok(HitsFile { file, columns, compression, compressor, spent: None })
    }

    /// Appends hits.
    ///
    /// # Errors
    /// When the disk is full or fails; call [`HitsFile::flush`] to try again.
    pub fn write(&mut self, hits: &[Hit]) -> Result<(), RecordError> {
        let mut rest = hits;
        while !rest.is_empty() {
            let free = BATCH_HITS - self.columns.rows();
            let (now, later) = rest.split_at(free.min(rest.len()));
            self.columns.append(now);
            if self.columns.rows() == BATCH_HITS {
                self.flush()?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Makes all hits so far visible to readers.
    ///
    /// # Errors
    /// As for `write`.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        self.columns.seal();
        match self.compression {
            Compression::None => self.file.stage(&self.columns, Compression::None)?,
            compression => {
                let compressed = self.compressor.batch(&self.columns, self.spent.take());
                let staged = self.file.stage(&compressed, compression);
                self.spent = Some(compressed);
                staged?;
            }
        }
        self.file.commit()?;
        self.columns.clear();
        Ok(())
    }

    /// Writes everything and says what the file holds.
    ///
    /// # Errors
    /// As for `write`.
    pub fn finish(mut self) -> Result<TableSummary, RecordError> {
        self.flush()?;
        Ok(self.file.summary())
    }
}
