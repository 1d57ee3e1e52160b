//! One export from start to end.
//!
//! ```text
//!  Request ─► RunSource ─► TableStream ─► (keV, names) ─► Exporter ─► Target ─► Report
//! ```
//! Memory holds one batch of the run, and what the format collects: a row group, or one event.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use serde::Serialize;
use thalweg_analysis::channels::ChannelSettings;
use thalweg_record::Table;
use thalweg_record::read::{ReadAt, TableBytes};

use crate::channel_columns::ChannelColumns;
use crate::column_text::described;
use crate::compass::CompassExporter;
use crate::csv::CsvExporter;
use crate::error::ExportError;
use crate::exporter::{Exporter, TableHead};
use crate::format::Format;
use crate::mid::MidExporter;
use crate::parquet::ParquetExporter;
use crate::python::{HDF5, PythonExporter, ROOT};
use crate::run_source::{RunSource, TableFile};
use crate::table_stream::TableStream;
use crate::target::Target;

/// What is to be exported, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The run's directory.
    pub run: PathBuf,
    /// The format.
    pub format: Format,
    /// Where it goes: a file, or a directory for the files of several tables. Nothing may be there.
    pub out: PathBuf,
    /// The tables; none for all that the run has and the format can hold.
    pub tables: Vec<Table>,
    /// Whether hits get their energy in keV.
    pub with_kev: bool,
    /// Whether hits get the name of their channel.
    pub with_names: bool,
    /// What the run's configuration says of its channels, before its `channels.csv`.
    pub described: Vec<ChannelSettings>,
}

/// How far an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The file that is read.
    pub file: String,
    /// Rows of it that are exported.
    pub rows: u64,
    /// Bytes of all files that are read.
    pub bytes: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
}

/// A finished export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Where it is.
    pub out: PathBuf,
    /// Its format.
    pub format: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// What it holds.
    pub tables: Vec<ExportedTable>,
    /// What a reader must know: a run that has not ended, what the format could not hold.
    pub remarks: Vec<String>,
}

/// One file of the run that was exported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExportedTable {
    /// Name of the file.
    pub file: String,
    /// Its rows.
    pub rows: u64,
    /// Its batches.
    pub batches: u64,
}

/// Exports a run. `progress` is asked after each batch whether to go on.
///
/// # Errors
/// When the run cannot be read, the request cannot be carried out, something is at the target, the disk is full, or `progress`
/// says no. Nothing is left at the target then.
pub fn export(request: &Request, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Report, ExportError> {
    let run = RunSource::open(&request.run)?;
    let files = chosen(request, &run)?;
    let columns = ChannelColumns::new(&run, &request.described, request.with_kev, request.with_names)?;
    let target = Target::new(&request.out, is_directory(request, &files)?)?;
    let mut walk = Walk {
        run: &run,
        columns: columns.as_ref(),
        target: &target,
        bytes: 0,
        bytes_total: files.iter().map(|file| length(&file.path)).sum::<Result<u64, _>>()?,
        progress,
    };
    let mut exporter = exporter(request, &run, &target)?;
    let mut tables = Vec::new();
    let mut write = || {
        for file in &files {
            tables.push(walk.table(file, exporter.as_mut())?);
        }
        exporter.finish()
    };
    let mut remarks = write().map_err(|error| target.explained(error))?;
    if run.is_written {
        remarks.insert(0, NOT_ENDED.to_owned());
    }
    let bytes = target.commit()?;
    Ok(Report { out: request.out.clone(), format: request.format.word(), bytes, tables, remarks })
}

const NOT_ENDED: &str = "the run has not ended, or its program was killed: this is what was whole in its files when each was read; \
                         export again after its end, or after `thalweg recover`";

fn exporter(request: &Request, run: &RunSource, target: &Target) -> Result<Box<dyn Exporter>, ExportError> {
    Ok(match request.format {
        Format::Parquet => Box::new(ParquetExporter::default()),
        Format::Csv => Box::new(CsvExporter::default()),
        Format::Mid => Box::new(MidExporter::new(run, target)?),
        Format::Compass => Box::new(CompassExporter::new(run, target)?),
        Format::Root => Box::new(PythonExporter::new(&ROOT, target)?),
        Format::Hdf5 => Box::new(PythonExporter::new(&HDF5, target)?),
    })
}

/// The files that are exported.
fn chosen(request: &Request, run: &RunSource) -> Result<Vec<TableFile>, ExportError> {
    let held = request.format.tables();
    let words = || held.iter().map(|table| table.word()).collect::<Vec<_>>().join(", ");
    if let Some(table) = request.tables.iter().find(|table| !held.contains(table)) {
        let (format, table) = (request.format.word(), table.word());
        return Err(ExportError::Refused(format!(
            "{format} cannot hold the table `{table}`; it holds {}",
            words()
        )));
    }
    // In the order of the format, and each once.
    let wanted: Vec<Table> = held.iter().copied().filter(|table| request.tables.contains(table)).collect();
    let files = run.files(held, &wanted)?;
    match files.is_empty() {
        true => Err(run.refused(format!(
            "the run has none of the tables that {} holds: {}",
            request.format.word(),
            words()
        ))),
        false => Ok(files),
    }
}

/// Whether the target is a directory of files.
fn is_directory(request: &Request, files: &[TableFile]) -> Result<bool, ExportError> {
    let name = request.out.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let endings = request.format.endings();
    let is_named_file = endings.iter().any(|ending| name.ends_with(ending));
    let refused = |what: String| Err(ExportError::Refused(format!("{}: {what}", request.out.display())));
    if request.format.is_one_file() {
        let endings = endings.join(" or ");
        return match is_named_file {
            true => Ok(false),
            false => refused(format!("a file of this format ends with {endings}; name it so with --out")),
        };
    }
    match (request.tables.is_empty(), files.len(), is_named_file) {
        (false, 1, _) => Ok(false),
        (_, count, true) => refused(format!(
            "a file holds one table, and {count} are to be exported; name one with --table, or a directory with --out"
        )),
        _ => Ok(true),
    }
}

/// Bytes of a table, of all files of it.
fn length(path: &Path) -> Result<u64, ExportError> {
    TableBytes::open(path)?.length().map_err(|cause| ExportError::io(path, "asking for its length", cause))
}

/// The way through the files of a run.
struct Walk<'a> {
    run: &'a RunSource,
    columns: Option<&'a ChannelColumns>,
    target: &'a Target,
    bytes: u64,
    bytes_total: u64,
    progress: &'a mut dyn FnMut(&Progress) -> bool,
}

impl Walk<'_> {
    fn table(&mut self, file: &TableFile, exporter: &mut dyn Exporter) -> Result<ExportedTable, ExportError> {
        let mut stream = TableStream::open(&file.path)?;
        let columns = self.columns.filter(|_| ChannelColumns::apply_to(file.table));
        let schema = schema_of(self.run, file.table, &stream.schema(), columns);
        exporter.begin(&TableHead { run: self.run, file, schema: &schema, target: self.target })?;
        while let Some(batch) = stream.next_batch()? {
            let mut values = batch.columns().to_vec();
            values.extend(columns.into_iter().flat_map(|columns| columns.values(&batch)));
            let batch = RecordBatch::try_new(schema.clone(), values).map_err(ExportError::writer)?;
            exporter.batch(&batch)?;
            let (_, rows) = stream.passed();
            let bytes = self.bytes + stream.position().0;
            let state = Progress { file: file.name(), rows, bytes, bytes_total: self.bytes_total };
            if !(self.progress)(&state) {
                return Err(ExportError::Interrupted { path: self.target.path().to_owned() });
            }
        }
        exporter.end(self.run)?;
        stream.end(self.run)?;
        self.bytes += stream.position().1;
        let (batches, rows) = stream.passed();
        Ok(ExportedTable { file: stream.name(), rows, batches })
    }
}

/// The columns of a table with units and descriptions, and what the run says of itself.
fn schema_of(run: &RunSource, table: Table, found: &Schema, columns: Option<&ChannelColumns>) -> SchemaRef {
    let fields: Vec<Field> = found.fields().iter().map(|field| described(table, field)).collect();
    let record = &run.record;
    let mut metadata = found.metadata().clone();
    let own = [
        ("run_number", record.number.to_string()),
        ("run_title", record.title.clone()),
        ("run_state", record.state.word().to_owned()),
        ("time_zero_utc", record.started.clone()),
        ("stopped_utc", record.stopped.clone()),
    ];
    metadata.extend(own.map(|(key, value)| (format!("thalweg.{key}"), value)));
    // What the rows stand for: live time and numbers corrected for losses, as JSON. A run that goes on does not know it yet.
    let detail = match table {
        Table::Hits => "channels",
        Table::Events => "events",
        _ => "",
    };
    let normalised = record.details.get(detail).filter(|value| !value.is_null());
    metadata.extend(normalised.map(|value| (format!("thalweg.{detail}"), value.to_string())));
    let schema = Schema::new(fields).with_metadata(metadata);
    columns.map_or_else(|| Arc::new(schema.clone()), |columns| columns.extended(table, &schema))
}
