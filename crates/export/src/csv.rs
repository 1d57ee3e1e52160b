//! CSV: a file for each table, its first line names the columns, which say their units.
//!
//! ```text
//!  time_ps,channel,energy,energy_short,flags
//!  120400,3,812,,4096                          nothing: null · lists: items with a space between · bytes: hexadecimal
//! ```

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::error::ExportError;
use crate::exporter::{Exporter, TableHead};
use crate::run_source::RunSource;
use crate::target::Output;

/// Writes CSV.
#[derive(Default)]
pub(crate) struct CsvExporter {
    writer: Option<csv::Writer<Output>>,
    cell: String,
}

impl Exporter for CsvExporter {
    fn begin(&mut self, head: &TableHead<'_>) -> Result<(), ExportError> {
        let output = head.target.output(&format!("{}.csv", head.file.name()))?;
        let mut writer = csv::Writer::from_writer(output);
        let names = head.schema.fields().iter().map(|field| field.name());
        writer.write_record(names).map_err(ExportError::writer)?;
        self.writer = Some(writer);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let writer = self.writer.as_mut().expect("a table has begun");
        for row in 0..batch.num_rows() {
            for column in batch.columns() {
                self.cell.clear();
                append(column.as_ref(), row, &mut self.cell)?;
                writer.write_field(&self.cell).map_err(ExportError::writer)?;
            }
            writer.write_record(None::<&[u8]>).map_err(ExportError::writer)?;
        }
        Ok(())
    }

    fn end(&mut self, _run: &RunSource) -> Result<(), ExportError> {
        let writer = self.writer.take().expect("a table has begun");
        let output = writer.into_inner().map_err(|failed| ExportError::writer(failed.error()))?;
        output.into_inner().map(drop).map_err(|failed| ExportError::writer(failed.into_error()))
    }

    fn finish(&mut self) -> Result<Vec<String>, ExportError> {
        Ok(Vec::new())
    }
}

/// Appends one value as text; nothing where it is null.
fn append(column: &dyn Array, row: usize, to: &mut String) -> Result<(), ExportError> {
    if column.is_null(row) {
        return Ok(());
    }
    let written = match column.data_type() {
        DataType::Int64 => write!(to, "{}", column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => write!(to, "{}", column.as_primitive::<UInt64Type>().value(row)),
        DataType::Int32 => write!(to, "{}", column.as_primitive::<Int32Type>().value(row)),
        DataType::Int16 => write!(to, "{}", column.as_primitive::<Int16Type>().value(row)),
        DataType::UInt32 => write!(to, "{}", column.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt16 => write!(to, "{}", column.as_primitive::<UInt16Type>().value(row)),
        DataType::UInt8 => write!(to, "{}", column.as_primitive::<UInt8Type>().value(row)),
        DataType::Float64 => write!(to, "{}", column.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => write!(to, "{}", column.as_primitive::<Float32Type>().value(row)),
        DataType::Boolean => write!(to, "{}", column.as_boolean().value(row)),
        DataType::Utf8 => write!(to, "{}", column.as_string::<i32>().value(row)),
        DataType::BinaryView => {
            column.as_binary_view().value(row).iter().try_for_each(|byte| write!(to, "{byte:02x}"))
        }
        DataType::Dictionary(_, _) => {
            let words = column.as_dictionary::<UInt8Type>();
            let key = usize::from(words.keys().value(row));
            return append(words.values().as_ref(), key, to);
        }
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            for item in 0..items.len() {
                if item > 0 {
                    to.push(' ');
                }
                append(items.as_ref(), item, to)?;
            }
            return Ok(());
        }
        other => return Err(ExportError::Writer(format!("CSV has no text for values of {other}"))),
    };
    written.map_err(ExportError::writer)
}
