//! The batches of one table, each verified before it is passed on.
//!
//! ```text
//!  hits.arrows ─┬► TableReader: every number checked, the checksum right ─┐
//!               └► Arrow's own reader ────────────────────────────────────┴► RecordBatch
//! ```
//! Of a run that is being written, the batches that are whole when the file is opened.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;
use thalweg_record::RecordError;
use thalweg_record::read::{TableReader, TableStreamBytes};

use crate::error::ExportError;
use crate::run_source::RunSource;

/// Reads one table, all files of it, from its first to its last whole batch.
#[derive(Debug)]
pub(crate) struct TableStream {
    path: PathBuf,
    heads: TableReader,
    // Not buffered: a buffer could keep the end-of-stream marker of a moment ago.
    batches: StreamReader<TableStreamBytes>,
    number: u64,
    rows: u64,
}

impl TableStream {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be read or is no table.
    pub fn open(path: &Path) -> Result<TableStream, ExportError> {
        let heads = TableReader::open(path)?;
        let damaged =
            |found: String| ExportError::Damaged { file: path.to_owned(), batch: 0, rows: 0, found };
        let batches = StreamReader::try_new(TableStreamBytes::open(path)?, None)
            .map_err(|cause| damaged(cause.to_string()))?;
        Ok(TableStream { path: path.to_owned(), heads, batches, number: 0, rows: 0 })
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.batches.schema()
    }

    /// Batches and rows so far.
    pub fn passed(&self) -> (u64, u64) {
        (self.number, self.rows)
    }

    /// How many bytes of the file are read, and how many it has.
    pub fn position(&self) -> (u64, u64) {
        (self.heads.position(), self.heads.length())
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, ExportError> {
        let Some(head) = self.heads.next_batch().map_err(|error| self.damaged(error))? else {
            return Ok(None);
        };
        self.heads.verify_checksum(&head).map_err(|error| self.damaged(error))?;
        let batch = match self.batches.next() {
            Some(Ok(batch)) if batch.num_rows() == head.rows() => batch,
            Some(Ok(_)) => return Err(self.found("another number of rows than its head says".to_owned())),
            Some(Err(cause)) => return Err(self.found(cause.to_string())),
            None => return Err(self.found("the file was cut while it was read".to_owned())),
        };
        self.number += 1;
        self.rows += batch.num_rows() as u64;
        Ok(Some(batch))
    }

    /// Reads what is left of the table.
    ///
    /// # Errors
    /// When a batch of it is damaged, or `run` has recorded more rows.
    pub fn end(&mut self, run: &RunSource) -> Result<(), ExportError> {
        while self.next_batch()?.is_some() {}
        run.check_rows(&self.name(), self.rows)
    }

    /// Name of its first file.
    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn damaged(&self, error: RecordError) -> ExportError {
        match error {
            RecordError::Damaged { offset, found, .. } => self.found(format!("at byte {offset}: {found}")),
            error => error.into(),
        }
    }

    fn found(&self, found: String) -> ExportError {
        ExportError::Damaged { file: self.path.clone(), batch: self.number, rows: self.rows, found }
    }
}
