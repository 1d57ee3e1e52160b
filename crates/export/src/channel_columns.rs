//! Columns that the run's table of channels gives hits on request: the energy in keV, the channel's name.
//!
//! ```text
//!  time_ps channel energy …  ──► time_ps channel energy … energy_kev channel_name
//! ```

use std::sync::Arc;

use arrow_array::builder::{Float32Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use thalweg_analysis::channels::{ChannelMap, ChannelSettings};
use thalweg_record::Table;

use crate::column_text::described;
use crate::error::ExportError;
use crate::run_source::RunSource;

/// Adds the requested columns to hits and coincidences.
#[derive(Debug)]
pub(crate) struct ChannelColumns {
    channels: ChannelMap,
    with_kev: bool,
    with_names: bool,
}

impl ChannelColumns {
    /// What was requested, of this run; `None` where that is nothing.
    ///
    /// # Errors
    /// When the run has no calibration or no names.
    pub fn new(
        run: &RunSource,
        described: &[ChannelSettings],
        with_kev: bool,
        with_names: bool,
    ) -> Result<Option<ChannelColumns>, ExportError> {
        if !with_kev && !with_names {
            return Ok(None);
        }
        let channels = run.channels(described)?;
        if with_kev && !channels.is_calibrated() {
            return Err(run.refused("no channel of the run is calibrated; leave --energies out".to_owned()));
        }
        let is_named = |channel: &thalweg_analysis::channels::Channel| {
            channel.name != format!("channel {}", channel.number)
        };
        if with_names && !channels.channels().iter().any(is_named) {
            return Err(run.refused("no channel of the run has a name; leave --channel-names out".to_owned()));
        }
        Ok(Some(ChannelColumns { channels, with_kev, with_names }))
    }

    /// Whether a table's rows have a channel and an energy.
    pub fn apply_to(table: Table) -> bool {
        matches!(table, Table::Hits | Table::Coincidences)
    }

    /// The schema with the columns.
    pub fn extended(&self, table: Table, schema: &Schema) -> SchemaRef {
        let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        if self.with_kev {
            fields.push(described(table, &Field::new("energy_kev", DataType::Float32, true)));
        }
        if self.with_names {
            fields.push(described(table, &Field::new("channel_name", DataType::Utf8, false)));
        }
        Arc::new(Schema::new(fields).with_metadata(schema.metadata().clone()))
    }

    /// The values of the columns for a batch.
    pub fn values(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        let column = |name| batch.column_by_name(name).map(|column| column.as_primitive::<UInt16Type>());
        let (Some(channel), Some(energy)) = (column("channel"), column("energy")) else { return Vec::new() };
        let mut added: Vec<ArrayRef> = Vec::new();
        if self.with_kev {
            let mut kev = Float32Builder::with_capacity(batch.num_rows());
            for row in 0..batch.num_rows() {
                let value =
                    energy.is_valid(row).then(|| self.channels.kev(channel.value(row), energy.value(row)));
                kev.append_option(value.filter(|kev| !kev.is_nan()).map(|kev| kev as f32));
            }
            added.push(Arc::new(kev.finish()));
        }
        if self.with_names {
            let mut names = StringBuilder::with_capacity(batch.num_rows(), batch.num_rows() * 8);
            for number in channel.values() {
                names.append_value(self.channels.get(*number).map_or("", |channel| &channel.name));
            }
            added.push(Arc::new(names.finish()));
        }
        added
    }
}
