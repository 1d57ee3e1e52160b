//! The whole batches of a damaged table, written beside it as a table without gaps, and put in its place.
//!
//! ```text
//!  hits.arrows ── whole batches ──► .hits.arrows.new ─┐  then, all tables of a run at once:
//!  recover.json: what is to replace what  ◄───────────┘  hits.arrows ──► hits.arrows.damaged (kept)
//!                                                        .hits.arrows.new ──► hits.arrows
//! ```
//! Batches and their rows are numbered anew, and rows that name rows of another table follow. Killed before `recover.json`
//! is there, it leaves the run as it was; killed behind that, the next `recover` goes on with it, and notes in it when it is done.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::salvage::{Salvage, WholeBatch};
use super::table_reader::{BatchHead, TableReader};
use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::ipc::columns::{Batch, Buffers, Shape};
use crate::ipc::compress::Compressor;
use crate::ipc::file::{TableFile, TableSummary};
use crate::missing::MissingRows;
use crate::run_record::RunRecord;
use crate::settings::Compression;
use crate::table::{Table, first_part_of};
use crate::table_part::kept_of;

/// What is to replace what.
const JOURNAL_FILE: &str = "recover.json";

/// Rows of a table that stay, by the numbers that they had.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptRows {
    /// Of each unbroken stretch the first row, the one behind the last, and how many rows in front of it do not stay.
    stretches: Vec<(u64, u64, u64)>,
}

impl KeptRows {
    /// The rows of these batches.
    pub fn of<'b>(batches: impl Iterator<Item = &'b WholeBatch>) -> KeptRows {
        let mut stretches: Vec<(u64, u64, u64)> = Vec::new();
        for batch in batches {
            match stretches.last_mut() {
                Some((_, end, _)) if *end == batch.first_row => *end = batch.end_row(),
                last => {
                    let missing =
                        last.map_or(batch.first_row, |(_, end, missing)| *missing + batch.first_row - *end);
                    stretches.push((batch.first_row, batch.end_row(), missing));
                }
            }
        }
        KeptRows { stretches }
    }

    /// Whether all of these rows stay.
    pub fn has_all(&self, first: u64, end: u64) -> bool {
        let place = self.stretches.partition_point(|(_, stretch_end, _)| *stretch_end <= first);
        first >= end
            || self.stretches.get(place).is_some_and(|stretch| stretch.0 <= first && end <= stretch.1)
    }

    /// Rows in front of this one that do not stay.
    pub fn missing_before(&self, row: u64) -> u64 {
        let place = self.stretches.partition_point(|(first, ..)| *first < row);
        match place.checked_sub(1).map(|place| self.stretches[place]) {
            Some((_, end, missing)) => missing + row.saturating_sub(end),
            None => row,
        }
    }

    /// Whether the rows that stay are the first ones.
    pub fn has_no_gap(&self) -> bool {
        self.stretches.is_empty() || self.stretches.len() == 1 && self.stretches[0].0 == 0
    }
}

/// A batch as it lies in a file.
struct StoredBatch {
    shape: Shape,
    buffers: Vec<Vec<u8>>,
}

impl Batch for StoredBatch {
    fn shape(&self) -> Shape {
        self.shape.clone()
    }

    fn buffers<'a>(&'a self, into: &mut Buffers<'a>) {
        into.extend(self.buffers.iter().map(|buffer| &buffer[..]));
    }
}

impl StoredBatch {
    fn load(reader: &TableReader, head: &BatchHead) -> Result<StoredBatch, RecordError> {
        let places = (0..head.buffer_count()).filter_map(|index| head.buffer_place(index));
        let buffers = places.map(|(offset, length)| reader.read(offset, length as usize));
        Ok(StoredBatch { shape: head.shape(), buffers: buffers.collect::<Result<_, _>>()? })
    }

    /// Gives the rows that a column of row numbers names the numbers that they have now.
    fn renumber(
        &mut self,
        reader: &TableReader,
        head: &BatchHead,
        column: usize,
        rows: &KeptRows,
    ) -> Result<(), RecordError> {
        let numbers = reader.numbers::<8>(head, column)?;
        let numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
        let plain: Vec<u8> = numbers.flat_map(|row| (row - rows.missing_before(row)).to_le_bytes()).collect();
        self.buffers[reader.first_buffer(column) + 1] = match head.compression() {
            Compression::None => plain,
            compression => Compressor::new(compression).compress(&[&plain], Vec::new()),
        };
        Ok(())
    }
}

/// Writes the batches that stay beside the damaged file; returns what the new file holds.
///
/// # Errors
/// When there is no space, or the disk fails; nothing is left of it then.
pub(super) fn write_beside(
    path: &Path,
    salvage: &Salvage,
    batches: &[WholeBatch],
    references: Option<&(usize, KeptRows)>,
    metadata: &[(&str, &str)],
) -> Result<TableSummary, RecordError> {
    let beside = beside(path);
    let _ = fs::remove_file(&beside);
    let write = || {
        let mut file =
            TableFile::create_of(&beside, salvage.reader.table(), salvage.reader.columns(), metadata)?;
        for batch in batches {
            let gone = || salvage.reader.damaged(batch.offset, "no batch where there was one");
            let head = salvage.reader.batch_at(batch.offset)?.ok_or_else(gone)?;
            let mut stored = StoredBatch::load(&salvage.reader, &head)?;
            if let Some((column, rows)) = references {
                stored.renumber(&salvage.reader, &head, *column, rows)?;
            }
            file.stage(&stored, head.compression())?;
            file.commit()?;
        }
        file.sync()?;
        Ok(TableSummary { file: name_of(path), ..file.summary() })
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&beside);
        no_space(error, path, salvage.reader.length())
    })
}

/// The error of a full disk, from which it is clear that nothing has changed.
pub(super) fn no_space(error: RecordError, path: &Path, bytes: u64) -> RecordError {
    match error {
        RecordError::Full { .. } => RecordError::Missing {
            path: path.to_owned(),
            found: format!(
                "no space left on the disk to write what is whole beside it (up to {bytes} bytes); nothing was changed: free \
                 some space, or copy the run to another disk and recover it there"
            ),
        },
        error => error,
    }
}

/// What is to replace what, and what is missing then.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Replacement {
    /// Files that are replaced, and under which names the damaged ones are kept.
    pub files: Vec<(String, String)>,
    /// Later parts of tables, whose rows are in the new files, and under which names they are kept.
    pub parts: Vec<(String, String)>,
    /// Rows that are missing in the new ones.
    pub missing: Vec<MissingRows>,
    /// How many remarks `run.json` has as long as it does not say this: `recover` adds one.
    pub remarks: Option<usize>,
    /// Every new file is in its place: what is beside one now, a later `recover` has begun to write.
    pub is_done: bool,
}

impl Replacement {
    /// What an earlier `recover` was about to do, when it was killed.
    ///
    /// # Errors
    /// When it cannot be read, or names files that `recover` does not replace.
    pub fn unfinished(directory: &RunDirectory) -> Result<Replacement, RecordError> {
        let path = directory.path().join(JOURNAL_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Replacement::default()),
            Err(cause) => return Err(RecordError::io(&path, "reading", cause)),
        };
        let begun: Replacement = serde_json::from_slice(&text)
            .map_err(|cause| RecordError::io(&path, "reading what was begun", cause.into()))?;
        begun.check_names(&path)?;
        Ok(begun)
    }

    /// A run may come from anywhere: what is written in one of its files leads to no file but its tables.
    fn check_names(&self, path: &Path) -> Result<(), RecordError> {
        let is_table = |(name, _): &&(String, String)| Table::of_file_name(name).is_some();
        let is_part = |(name, _): &&(String, String)| {
            first_part_of(name).is_some_and(|(first, _)| Table::of_file_name(&first).is_some())
        };
        let is_kept_as = |(name, kept): &(String, String)| {
            !name.contains('/') && kept_of(kept).is_some_and(|of| of == name)
        };
        let files = self.files.iter().map(|pair| (pair, is_table(&pair)));
        let parts = self.parts.iter().map(|pair| (pair, is_part(&pair)));
        let mut others = files.chain(parts).filter(|(pair, is_of_run)| !is_of_run || !is_kept_as(pair));
        others.next().map_or(Ok(()), |((name, kept), _)| {
            let found = format!(
                "names `{name}`, to be kept as `{kept}`, which `recover` does not write: the file is damaged or from somebody \
                 else; nothing was changed: move it out of the run, then try again"
            );
            Err(RecordError::Missing { path: path.to_owned(), found })
        })
    }

    /// Whether `run.json` says it: that `recover` was killed before it forgot what was done.
    pub fn is_in(&self, record: &RunRecord) -> bool {
        self.remarks.is_some_and(|before| record.remarks.len() > before)
    }

    /// This one, and what an earlier `recover` has done of which `run.json` does not know yet.
    pub fn behind(&self, begun: &Replacement) -> Replacement {
        let is_new = |name: &str| self.files.iter().any(|(new, _)| new == name);
        let done = begun.files.iter().filter(|(name, _)| !is_new(name));
        Replacement {
            files: self.files.iter().chain(done).cloned().collect(),
            parts: self.parts.clone(),
            missing: [&begun.missing[..], &self.missing].concat(),
            remarks: self.remarks,
            is_done: false,
        }
    }

    /// Enters a file; returns the name under which the damaged one is kept.
    pub fn add(&mut self, path: &Path) -> String {
        let name = name_of(path);
        let kept = free_name(path, "damaged");
        self.files.push((name, kept.clone()));
        kept
    }

    /// Enters a later part of a table that becomes one file; returns the name under which it is kept.
    pub fn retire(&mut self, path: &Path) -> String {
        let kept = free_name(path, "damaged");
        self.parts.push((name_of(path), kept.clone()));
        kept
    }

    /// Writes down what is to be done.
    ///
    /// # Errors
    /// When there is no space, or the disk fails; nothing has changed then.
    pub fn write_down(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let path = directory.path().join(JOURNAL_FILE);
        let text = serde_json::to_vec(self)
            .map_err(|cause| RecordError::io(&path, "putting into words", cause.into()))?;
        directory.replace(&path, &text)
    }

    /// Puts every new file in the place of the damaged one. What was done before is left.
    ///
    /// # Errors
    /// When the system refuses; another try goes on with it.
    pub fn carry_out(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        if self.is_done {
            return Ok(());
        }
        for (name, kept) in &self.files {
            let (path, kept) = (directory.path().join(name), directory.path().join(kept));
            let new = beside(&path);
            if !new.exists() {
                continue;
            }
            let failed = |cause| RecordError::io(&path, "putting the recovered table in its place", cause);
            // By a second name the damaged file is there at every moment; not every file system has such names.
            if !kept.exists() && fs::hard_link(&path, &kept).is_err() && path.exists() {
                fs::rename(&path, &kept).map_err(failed)?;
            }
            fs::rename(&new, &path).map_err(failed)?;
        }
        for (name, kept) in &self.parts {
            let path = directory.path().join(name);
            match fs::rename(&path, directory.path().join(kept)) {
                Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                    return Err(RecordError::io(&path, "putting away a part of a recovered table", cause));
                }
                _ => {}
            }
        }
        let synced = File::open(directory.path()).and_then(|opened| opened.sync_all());
        synced.map_err(|cause| RecordError::io(directory.path(), "forcing to the disk", cause))
    }

    /// Writes down that it is carried out, before a later `recover` writes files beside the tables.
    ///
    /// # Errors
    /// When there is no space, or the disk fails; the next `recover` goes on with it.
    pub fn note_done(&mut self, directory: &RunDirectory) -> Result<(), RecordError> {
        if self.is_done || self.files.is_empty() {
            return Ok(());
        }
        self.is_done = true;
        self.write_down(directory)
    }

    /// Forgets it: `run.json` says what was done.
    pub fn forget(directory: &RunDirectory) {
        let _ = fs::remove_file(directory.path().join(JOURNAL_FILE));
    }
}

/// A name beside `path` that no file has: `hits.arrows.damaged`, `hits.arrows.damaged-2`.
pub(super) fn free_name(path: &Path, word: &str) -> String {
    let name = name_of(path);
    let names = (1..).map(|number| match number {
        1 => format!("{name}.{word}"),
        number => format!("{name}.{word}-{number}"),
    });
    let free = |name: &String| path.with_file_name(name).symlink_metadata().is_err();
    let mut names = names.filter(free);
    names.next().unwrap_or(name)
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.new", name_of(path)))
}

/// Removes what a killed `recover` has left that nothing will use.
pub(super) fn clear_away(directory: &RunDirectory) -> Result<(), RecordError> {
    let is_left = |path: &PathBuf| {
        let name = name_of(path);
        name.starts_with('.') && name.ends_with(".arrows.new")
    };
    for path in directory.files()?.into_iter().filter(is_left) {
        fs::remove_file(&path).map_err(|cause| RecordError::io(&path, "removing", cause))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(first_row: u64, rows: u64) -> WholeBatch {
        WholeBatch { offset: 0, end: 0, number: 0, first_row, rows }
    }

    #[test]
    fn rows_behind_a_gap_move_up() {
        let rows = KeptRows::of([batch(0, 10), batch(10, 5), batch(25, 5), batch(40, 10)].iter());
        assert!(
            rows.has_all(3, 15) && rows.has_all(25, 30) && !rows.has_all(14, 16) && !rows.has_all(30, 31)
        );
        assert!(rows.has_all(33, 33) && !rows.has_all(15, 16) && !rows.has_no_gap());
        assert_eq!([0, 15, 25, 29, 45].map(|row| rows.missing_before(row)), [0, 0, 10, 10, 20]);
        assert!(KeptRows::of([batch(0, 10), batch(10, 5)].iter()).has_no_gap());
        assert!(!KeptRows::of([batch(5, 10)].iter()).has_no_gap() && KeptRows::default().has_no_gap());
    }
}
