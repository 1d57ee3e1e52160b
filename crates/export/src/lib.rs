//! Recorded runs in the formats of other programs, and files of other programs as recorded runs.
//!
//! ```text
//!  RUN/*.arrows ──► batches, verified ──► Exporter ──► .OUT.part ──► OUT
//!  run.json, channels.csv ──► units, zero of time, names, keV ┘
//! ```
//! An export reads a run batch by batch, so that its memory does not grow with the run. It overwrites nothing, and appears under its
//! name only when it is whole.
//!
//! - `export`: one export from start to end: [`export()`], [`Request`], [`Report`].
//! - `format`: the formats: [`Format`].
//! - `run_source`: the run that is exported.
//! - `table_stream`: the batches of one table's file, each verified.
//! - `column_text`: unit and description of each column.
//! - `channel_columns`: energies in keV and names of channels, on request.
//! - `exporter`: what every format does.
//! - `parquet`: a file for each table.
//! - `csv`: a file for each table.
//! - `mid`: MIDAS event files.
//! - `midas`: their events as they lie on disk.
//! - `event_rows`: built events beside their fragments.
//! - `compass`: list files of CoMPASS.
//! - `python`: formats that the Python package writes: ROOT and HDF5.
//! - `target`: where an export goes.
//! - `import`: MIDAS files as recordings: [`import()`], [`ImportRequest`], [`ImportReport`].
//! - `import_tables`: the tables of an import.
//! - `mid_content`: what the events of a MIDAS file are in a recording.
//! - `mid_file`: a MIDAS file, event by event.
//! - `midas_view`: MIDAS events as a reader finds them: [`check_midas()`].
//! - `error`: what can end an export or an import: [`ExportError`], [`ImportError`].

mod channel_columns;
mod column_text;
mod compass;
mod csv;
mod error;
mod event_rows;
mod export;
mod exporter;
mod format;
mod import;
mod import_tables;
mod mid;
mod mid_content;
mod mid_file;
mod midas;
mod midas_view;
mod parquet;
mod python;
mod run_source;
mod table_stream;
mod target;

pub use error::{ExportError, ImportError};
pub use export::{ExportedTable, Progress, Report, Request, export};
pub use format::Format;
pub use import::{ImportReport, ImportRequest, import};
pub use midas_view::check_midas;
