//! What every format does: tables begin, their batches come, they end; then the whole is finished.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::ExportError;
use crate::run_source::{RunSource, TableFile};
use crate::target::Target;

/// One table that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableHead<'a> {
    /// The run.
    pub run: &'a RunSource,
    /// The file that is read.
    pub file: &'a TableFile,
    /// The columns of the batches, with units and descriptions.
    pub schema: &'a SchemaRef,
    /// Where the export goes.
    pub target: &'a Target,
}

/// Writes one format.
pub(crate) trait Exporter {
    /// A table begins.
    ///
    /// # Errors
    /// When it cannot be written.
    fn begin(&mut self, head: &TableHead<'_>) -> Result<(), ExportError>;

    /// Its next rows.
    ///
    /// # Errors
    /// When they cannot be written, or the format cannot hold them.
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ExportError>;

    /// The table ends. A table of `run` that was read beside it is checked.
    ///
    /// # Errors
    /// When its end cannot be written, or the table beside it is not whole.
    fn end(&mut self, run: &RunSource) -> Result<(), ExportError>;

    /// All tables are written. Returns what a reader of the result must know: what the format could not hold.
    ///
    /// # Errors
    /// When the end of the export cannot be written.
    fn finish(&mut self) -> Result<Vec<String>, ExportError>;
}
