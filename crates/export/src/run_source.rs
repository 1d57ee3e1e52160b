//! The run that is exported: its record, its files, what it knows of its channels.
//!
//! ```text
//!  RUN ──► run.json · channels.csv · *.arrows ──► RunSource { zero, sources, channels, files of tables }
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use thalweg_analysis::channels::{ChannelMap, ChannelSettings, SourceChannels, table};
use thalweg_data::SourceId;
use thalweg_record::read::TableReader;
use thalweg_record::{
    FILTER_KEY, RecordedTables, RemovedTables, RunDirectory, RunRecord, RunRecordState, Table,
};

use crate::error::ExportError;
use crate::table_stream::TableStream;

/// A run that is read.
#[derive(Debug)]
pub(crate) struct RunSource {
    /// Its record.
    pub record: RunRecord,
    /// Whether its record says that it has not ended: it is being written, or its program was killed.
    pub is_written: bool,
    /// What it says of its tables, when it has ended.
    recorded: RecordedTables,
    // Held open, so that no table is removed meanwhile.
    directory: RunDirectory,
}

/// One file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableFile {
    /// What it holds.
    pub table: Table,
    /// Where it is.
    pub path: PathBuf,
}

impl TableFile {
    /// Its name without the ending: `hits`, `events-builder0`.
    pub fn name(&self) -> String {
        self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl RunSource {
    /// Opens a run.
    ///
    /// # Errors
    /// When there is none, or its record cannot be read, or it is being recovered.
    pub fn open(path: &Path) -> Result<RunSource, ExportError> {
        let directory = RunDirectory::open(path)?;
        let record = RunRecord::read(&directory.run_record())?;
        let is_written = record.state == RunRecordState::Running;
        let recorded = RecordedTables::of(&record, &directory)?;
        Ok(RunSource { record, is_written, recorded, directory })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The files of those `tables` that it has; `wanted` must be there.
    ///
    /// # Errors
    /// When one that is wanted is not there, or a file of one is missing, or they cannot be listed.
    pub fn files(&self, tables: &[Table], wanted: &[Table]) -> Result<Vec<TableFile>, ExportError> {
        let failed = |cause| ExportError::io(self.path(), "listing files", cause);
        let mut paths = Vec::new();
        for entry in fs::read_dir(self.path()).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.sort();
        let table_of = |path: &Path| Table::of_file_name(&path.file_name()?.to_string_lossy());
        let chosen = if wanted.is_empty() { tables } else { wanted };
        self.recorded
            .refuse_missing(self.path(), |missing| chosen.iter().any(|table| missing.is_of(*table)))?;
        let mut files = Vec::new();
        for table in chosen {
            let own = paths.iter().filter(|path| table_of(path) == Some(*table));
            files.extend(own.map(|path| TableFile { table: *table, path: path.clone() }));
            if !wanted.is_empty() && files.last().is_none_or(|file| file.table != *table) {
                RemovedTables::refuse(self.path(), *table)?;
                return Err(self.refused(format!("the run has no table `{}`", table.word())));
            }
        }
        Ok(files)
    }

    /// Refuses a table of which fewer rows are there than were recorded.
    ///
    /// # Errors
    /// When it is one.
    pub fn check_rows(&self, file: &str, rows: u64) -> Result<(), ExportError> {
        Ok(self.recorded.refuse_too_few(self.path(), file, rows)?)
    }

    /// The batches of another table that belongs to this one, such as `events-builder0` to `fragments-builder0`; `None` where it
    /// was not recorded, or is known to be gone.
    ///
    /// # Errors
    /// When a file of it is missing, or it cannot be read.
    pub fn beside(&self, file: &TableFile, table: Table) -> Result<Option<TableStream>, ExportError> {
        let name = file.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let Some(rest) = name.strip_prefix(file.table.word()) else { return Ok(None) };
        let beside = format!("{}{rest}", table.word());
        self.recorded.refuse_missing(self.path(), |missing| missing.table.file == beside)?;
        let path = file.path.with_file_name(beside);
        path.exists().then(|| TableStream::open(&path)).transpose()
    }

    /// What an export lacks that reads this table beside another, if the record says that rows of it are gone.
    pub fn lacking(&self, table: Table) -> Option<String> {
        let is_missing = self.record.missing.iter().any(|missing| missing.table == table.word());
        let is_removed = || RemovedTables::of(&self.directory).is_some_and(|removed| removed.has(table));
        let lacks = is_missing || is_removed();
        let word = table.word();
        lacks.then(|| {
            format!("rows of the table `{word}` are not on file: what they held is not in the export")
        })
    }

    /// What is known of the run's channels: what `[[channel]]` of its configuration says (`described`), and its `channels.csv`.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn channels(&self, described: &[ChannelSettings]) -> Result<ChannelMap, ExportError> {
        let path = self.directory.channels();
        let rows = match fs::read_to_string(&path) {
            Ok(text) => table::read(&path.display().to_string(), &text),
            Err(_) => Ok(Vec::new()),
        };
        let refused = |error: thalweg_analysis::channels::ChannelError| self.refused(error.to_string());
        // Older runs do not say whose channels are whose, and for names and energies nobody asks.
        let all = SourceChannels { source: SourceId(0), name: "run".to_owned(), channels: 0..=u16::MAX };
        ChannelMap::new(&[all], described, &rows.map_err(refused)?).map_err(refused)
    }

    /// The names of the sources, by number.
    pub fn sources(&self) -> &[String] {
        &self.record.sources
    }

    /// By what its event filter selected events, as their table says; `None` where it had no filter.
    pub fn event_filter(&self) -> Option<String> {
        let files = self.files(&[Table::Events], &[]).ok()?;
        let events = files.iter().find_map(|file| TableReader::open(&file.path).ok())?;
        events.metadata().get(FILTER_KEY).cloned()
    }

    /// Seconds since 1970 at which the run's times are zero; 0 of a record that does not say.
    pub fn zero_s(&self) -> i64 {
        seconds_of(&self.record.started)
    }

    /// A refusal that names the run.
    pub fn refused(&self, what: String) -> ExportError {
        ExportError::Refused(format!("{}: {what}", self.path().display()))
    }
}

/// Seconds since 1970 of a time in UTC as records write it; 0 of anything else.
pub(crate) fn seconds_of(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().map_or(0, |time| time.as_second())
}
