//! The tables that a run has recorded, against those that are there.
//!
//! ```text
//!  run.json of a run that has ended: hits.arrows, 4 files, 10000 rows ─┬─► files that are missing
//!  files of its directory ─────────────────────────────────────────────┘   rows that are too few
//! ```
//! A file that is missing at the end of a table is missed by nobody who reads the others: only the record names it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::ipc::file::TableSummary;
use crate::run_record::{RunRecord, RunRecordState};
use crate::table::{Table, first_part_of, part_name};
use crate::table_part::missing_target;

/// Most files of one table that are looked for: what stands in a record may be anything.
const MOST_FILES: u32 = 1 << 20;

/// What the record of a run that has ended says of its tables, without those of which files were removed by the policy on old runs.
#[derive(Debug, Default)]
pub struct RecordedTables {
    tables: Vec<TableSummary>,
    /// The names that are in the run's directory.
    on_file: BTreeSet<String>,
    /// Links that lead nowhere, and where they should lead.
    links_to_nothing: BTreeMap<String, PathBuf>,
}

/// A file that is not there.
#[derive(Debug)]
pub struct MissingFile<'a> {
    /// The table that it belongs to.
    pub table: &'a TableSummary,
    /// Its name.
    pub name: String,
    /// Where it should be, if there is a link to it.
    pub link_to: Option<&'a Path>,
}

impl RecordedTables {
    /// Of the run in this directory; no tables of a run that has not ended.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn of(record: &RunRecord, directory: &RunDirectory) -> Result<RecordedTables, RecordError> {
        let removed = record.removed.clone().map_or(Ok(None), |removed| removed.gone(directory))?;
        let is_removed =
            |said: &&TableSummary| removed.as_ref().is_some_and(|removed| removed.has_table_of(said));
        let mut found = RecordedTables::default();
        if record.state != RunRecordState::Running {
            found.tables.extend(record.tables.iter().filter(|said| !is_removed(said)).cloned());
        }
        for path in directory.files()? {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            match missing_target(&path) {
                Some(target) => drop(found.links_to_nothing.insert(name, target)),
                None => drop(found.on_file.insert(name)),
            }
        }
        Ok(found)
    }

    /// The files that are missing, by table.
    pub fn missing_files(&self) -> impl Iterator<Item = MissingFile<'_>> {
        self.tables.iter().flat_map(move |table| {
            let names = (0..table.files.clamp(1, MOST_FILES)).map(|part| part_name(&table.file, part));
            let missing = names.filter(|name| !self.on_file.contains(name));
            missing.map(move |name| MissingFile {
                table,
                link_to: self.links_to_nothing.get(&name).map(PathBuf::as_path),
                name,
            })
        })
    }

    /// The files behind the first one, by its name, that are there.
    pub(crate) fn later_files(&self, first: &str) -> Vec<&str> {
        let is_later = |name: &&str| first_part_of(name).is_some_and(|(of, _)| of == first);
        self.on_file.iter().map(String::as_str).filter(is_later).collect()
    }

    /// The names of first files that are not there, while files behind them are.
    pub(crate) fn headless(&self) -> BTreeSet<(Table, String)> {
        let firsts = self.on_file.iter().filter_map(|name| first_part_of(name)).map(|(first, _)| first);
        let headless = firsts.filter(|first| !self.on_file.contains(first));
        headless.filter_map(|first| Some((Table::of_file_name(&first)?, first))).collect()
    }

    /// Whether any file of a table of this kind is there.
    pub(crate) fn has_file_of(&self, table: Table) -> bool {
        self.on_file.iter().any(|name| Table::of_part_name(name) == Some(table))
    }

    /// The table whose first file has this name.
    pub fn find(&self, file: &str) -> Option<&TableSummary> {
        self.tables.iter().find(|said| said.file == file)
    }

    /// What is wrong with so many rows of the table whose first file has this name, if they are too few.
    pub fn too_few_rows(&self, file: &str, rows: u64) -> Option<String> {
        let said = self.find(file).filter(|said| rows < said.rows)?;
        Some(format!("{file}: {rows} rows where run.json says {}", said.rows))
    }

    /// Refuses what reads the tables that are asked for of the run at `run`, if a file of them is missing.
    ///
    /// # Errors
    /// When one is, with which.
    pub fn refuse_missing(
        &self,
        run: &Path,
        is_asked: impl Fn(&MissingFile<'_>) -> bool,
    ) -> Result<(), RecordError> {
        let missing = self.missing_files().find(is_asked);
        missing.map_or(Ok(()), |missing| Err(incomplete(run, &missing.to_string())))
    }

    /// Refuses a table of the run at `run` of which so many rows were read, if more were recorded. `file` is the name of its first file.
    ///
    /// # Errors
    /// When rows are missing, with how many there are.
    pub fn refuse_too_few(&self, run: &Path, file: &str, rows: u64) -> Result<(), RecordError> {
        self.too_few_rows(file, rows).map_or(Ok(()), |found| Err(incomplete(run, &found)))
    }

    /// Leaves out the tables for which the record does not speak.
    pub(crate) fn retain(&mut self, speaks_for: impl Fn(&TableSummary) -> bool) {
        self.tables.retain(speaks_for);
    }
}

fn incomplete(run: &Path, found: &str) -> RecordError {
    let found = format!("{found}; copy it back, or `thalweg recover` notes what is missing");
    RecordError::Missing { path: run.to_owned(), found }
}

impl MissingFile<'_> {
    /// Whether it is one of this table.
    pub fn is_of(&self, table: Table) -> bool {
        self.table.table == table.word()
    }
}

impl std::fmt::Display for MissingFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MissingFile { table, name, link_to } = self;
        if let Some(target) = link_to {
            return write!(f, "{name}: this link leads to {}, which is not there", target.display());
        }
        match *name == table.file {
            true => write!(f, "{name}: run.json names it, and it is missing"),
            false => write!(
                f,
                "{name}: run.json names {} files of {}, and this one is missing",
                table.files, table.file
            ),
        }
    }
}
