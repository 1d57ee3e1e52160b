//! Parquet: a file for each table, compressed, with units and the run's zero in its metadata.
//!
//! ```text
//!  batches ──► row groups of at most a million rows or 128 MiB ──► TABLE.parquet
//! ```

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::error::ExportError;
use crate::exporter::{Exporter, TableHead};
use crate::run_source::RunSource;
use crate::target::Output;

/// Most rows of a row group.
const ROWS_PER_GROUP: usize = 1 << 20;
/// Most bytes of a row group: what bounds the memory of an export.
const BYTES_PER_GROUP: usize = 128 << 20;

/// Writes Parquet.
#[derive(Default)]
pub(crate) struct ParquetExporter {
    writer: Option<ArrowWriter<Output>>,
}

impl Exporter for ParquetExporter {
    fn begin(&mut self, head: &TableHead<'_>) -> Result<(), ExportError> {
        let level = ZstdLevel::try_new(3).map_err(ExportError::writer)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(format!("thalweg {}", env!("CARGO_PKG_VERSION")))
            .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
            .set_max_row_group_bytes(Some(BYTES_PER_GROUP))
            .set_key_value_metadata(Some(key_values(head.schema)))
            .build();
        let output = head.target.output(&format!("{}.parquet", head.file.name()))?;
        let writer = ArrowWriter::try_new(output, head.schema.clone(), Some(properties));
        self.writer = Some(writer.map_err(ExportError::writer)?);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let writer = self.writer.as_mut().expect("a table has begun");
        writer.write(batch).map_err(ExportError::writer)
    }

    fn end(&mut self, _run: &RunSource) -> Result<(), ExportError> {
        let writer = self.writer.take().expect("a table has begun");
        let output = writer.into_inner().map_err(ExportError::writer)?;
        output.into_inner().map(drop).map_err(|failed| ExportError::writer(failed.into_error()))
    }

    fn finish(&mut self) -> Result<Vec<String>, ExportError> {
        Ok(Vec::new())
    }
}

/// The metadata of the schema, and units and descriptions of the columns, where readers that know no Arrow find them.
fn key_values(schema: &Schema) -> Vec<KeyValue> {
    let column = |field: &Arc<Field>| {
        let said = field.metadata().iter().map(|(key, value)| (key.clone(), value.clone().into()));
        (field.name().clone(), serde_json::Value::Object(said.collect()))
    };
    let columns = serde_json::Value::Object(schema.fields().iter().map(column).collect()).to_string();
    let mut pairs: Vec<_> =
        schema.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    pairs.push(("thalweg.columns".to_owned(), columns));
    pairs.sort();
    pairs.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect()
}
