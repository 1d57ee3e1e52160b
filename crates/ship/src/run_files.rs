//! The files of a run that are to be shipped, as they are now.
//!
//! ```text
//!  run directory, run.json ─► has it ended? ─► tables: growing · ledger.bin: at the end · documents: whenever they change
//! ```
//! What begins with a dot, links and folders are no files of a run, but the links to parts of tables on other disks.

use std::fs;
use std::path::{Path, PathBuf};

use thalweg_record::{RunDirectory, RunRecord, RunRecordState, TablePart, TableSummary, first_part_of};

use crate::error::ShipError;
use crate::message::{FileKind, Identity};
use crate::names::FarName;

/// A run that is shipped.
#[derive(Clone, Debug)]
pub struct FoundRun {
    /// Its directory.
    pub path: PathBuf,
    /// Its directory's name.
    pub name: String,
    /// Whether its record says that it has ended.
    pub has_ended: bool,
    /// What its recorder says that it has written; nothing before the end.
    pub tables: Vec<TableSummary>,
    /// Its files, smallest first.
    pub files: Vec<FoundFile>,
}

impl FoundRun {
    /// Whether a file belongs to one of the tables that the recorder has counted.
    pub fn has_table(&self, file: &str) -> bool {
        let first = first_part_of(file).map_or_else(|| file.to_owned(), |(first, _)| first);
        self.tables.iter().any(|table| table.file == first)
    }
}

/// A file of it.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// How it comes to be complete.
    pub kind: FileKind,
    /// Which file it is.
    pub identity: Identity,
    /// Whether nobody writes it any more: the run has ended, or the table goes on in the next file.
    pub is_closed: bool,
    /// CRC-32C as it was computed while it was written.
    pub recorded: Option<String>,
}

impl FoundFile {
    /// A document as it is now; `None` if there is none, or a link.
    pub fn document(path: &Path, recorded: Option<String>) -> Option<FoundFile> {
        let data = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        let name = path.file_name()?.to_str()?.to_owned();
        let (path, kind, identity) = (path.to_owned(), FileKind::Whole, Identity::of(&data));
        Some(FoundFile { name, path, kind, identity, is_closed: true, recorded })
    }

    /// A file of a table as it is now, which may be on another disk.
    fn of_table(
        path: &Path,
        part: TablePart,
        has_ended: bool,
        recorded: Option<String>,
    ) -> Option<FoundFile> {
        let name = path.file_name()?.to_str()?.to_owned();
        let is_closed = has_ended || part.is_continued(path);
        let identity = Identity::of(&part.data);
        Some(FoundFile { name, path: part.file, kind: FileKind::Growing, identity, is_closed, recorded })
    }
}

/// What is looked at to see whether a run may have changed: its directory, which changes with every file that comes, goes or is replaced,
/// and the files that are changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([Option<Identity>; 3]);

impl Stamp {
    /// Of a run as it is now.
    pub fn of(run: &Path) -> Stamp {
        let identity = |path: PathBuf| fs::symlink_metadata(path).ok().map(|data| Identity::of(&data));
        Stamp([run.to_owned(), run.join("run.json"), run.join("notes.jsonl")].map(identity))
    }
}

/// The runs at a path, by number: the run that it is, or those that it holds, but for the newest `stay_behind`.
///
/// # Errors
/// When there is none.
pub fn runs_at(path: &Path, stay_behind: u64) -> Result<Vec<PathBuf>, ShipError> {
    let failed = |error: thalweg_record::RecordError| ShipError::Settings(error.to_string());
    if path.is_dir() && !path.join("run.json").exists() {
        let runs = RunDirectory::list(path).map_err(failed)?;
        let shipped = runs.len().saturating_sub(usize::try_from(stay_behind).unwrap_or(usize::MAX));
        let paths = runs.into_iter().take(shipped).map(|run| run.path().to_owned());
        return Ok(paths.filter(|path| !path.is_symlink()).collect());
    }
    RunDirectory::find(path).map(|found| vec![found]).map_err(failed)
}

/// The files of a run.
///
/// # Errors
/// When its record cannot be read.
pub fn files_of(run: &Path) -> Result<FoundRun, ShipError> {
    let record =
        RunRecord::read(&run.join("run.json")).map_err(|error| ShipError::Settings(error.to_string()))?;
    let has_ended = record.state != RunRecordState::Running;
    let name = run.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let name = name.ok_or_else(|| ShipError::Settings(format!("{}: no name of a run", run.display())))?;
    let recorded_document = |name: &str| {
        let document = record.documents.iter().find(|document| document.file == name);
        document.map(|document| document.crc32c.clone()).filter(|crc32c| has_ended && !crc32c.is_empty())
    };
    let recorded_table = |part: &TablePart| {
        let table = record.tables.iter().find(|table| table.file == part.first);
        table.filter(|_| has_ended)?.crc32c_of(part.part).map(str::to_owned)
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(run).map_err(ShipError::local(run, "listing files"))?.flatten() {
        let file_name = entry.file_name().to_string_lossy().into_owned();
        if FarName::new(&name, &file_name).is_err() || file_name == "ledger.bin" && !has_ended {
            continue;
        }
        let path = entry.path();
        files.extend(match TablePart::at(&path) {
            Some(part) => {
                let recorded = recorded_table(&part);
                FoundFile::of_table(&path, part, has_ended, recorded)
            }
            None => FoundFile::document(&path, recorded_document(&file_name)),
        });
    }
    files.sort_by(|one, other| (one.identity.bytes, &one.name).cmp(&(other.identity.bytes, &other.name)));
    let tables = if has_ended { record.tables } else { Vec::new() };
    Ok(FoundRun { path: run.to_owned(), name, has_ended, tables, files })
}
