//! A table's file: a whole Arrow stream at every moment.
//!
//! ```text
//!  whole:      … ┊ FFFFFFFF 00000000                              a reader stops here
//!  stage:      … ┊ FFFFFFFF 00000000 ┊ metadata body ┊ FFFFFFFF 00000000
//!  commit:     … ┊ FFFFFFFF len      ┊ metadata body ┊ FFFFFFFF 00000000
//!                           └── these 4 bytes change last, and make the batch visible
//! ```
//! A new batch is written behind the end-of-stream marker, then the marker becomes the batch's prefix. So an open file,
//! and one whose writer was killed, ends in a marker for every reader. Several files are committed together by staging
//! all before the first commit: a full disk shows while staging, and nothing has to be taken back.
//!
//! A table that goes on in a new file (`turn_over`) is one table: batches and rows are numbered through, and each of its files is a whole
//! stream. A file that is complete is forced to the disk when the next one is, or at the end.
//!
//! Payload is not copied: buffers go to the system as they lie in memory. The checksum is computed chunk by chunk just
//! before a chunk is written, while writing it needs its bytes in the cache anyway. The checksum of the whole file follows from
//! those of its parts, so that it is known without reading anything again.

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use thalweg_data::checksum::{self, Crc32c};

use super::columns::{Batch, Buffers, length_of};
use super::message::{self, BATCH_KEY, FIRST_ROW_KEY};
use super::{END_OF_STREAM, ZEROS, padding};
use crate::error::RecordError;
use crate::settings::{Compression, FileLimits};
use crate::system;
use crate::table::{Column, Table, part_name};
use crate::table_part::name_owner;

/// Bytes whose checksum is computed before they are written: well inside a second-level cache.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// Most parts of one system call (Linux takes 1024).
const MOST_PARTS: usize = 512;
/// Write-back begins when this many bytes are new.
pub const WRITE_BACK_BYTES: u64 = 8 << 20;
/// What was written last stays in the page cache, for those who follow a run: `thalweg ship`, copies, readers of the newest rows. What is older gives
/// its pages back, so that the newest come into memory that is in use already. Else a long run takes all memory of the machine page by
/// page, and what other programs had cached.
const CACHED_BYTES: u64 = 256 << 20;
/// What the system writes at a time.
const PAGE_BYTES: u64 = 4096;

/// The writer of one table's file.
#[derive(Debug)]
pub struct TableFile {
    file: File,
    path: PathBuf,
    table: Table,
    /// What comes before the first batch, in each file.
    opening: Vec<u8>,
    /// The table's first file, and the number of the present one.
    first: PathBuf,
    part: u32,
    /// Where the end-of-stream marker lies.
    end: u64,
    /// Bytes of the files before this one.
    earlier_bytes: u64,
    /// Complete files that were not forced to the disk.
    unforced: Vec<PathBuf>,
    /// CRC-32C of each complete file.
    complete: Vec<u32>,
    /// CRC-32C of everything before the marker.
    checksum: u32,
    staged: Option<Staged>,
    batches: u64,
    rows: u64,
    write_back_from: u64,
}

#[derive(Debug, Clone, Copy)]
struct Staged {
    prefix: [u8; 8],
    end: u64,
    /// CRC-32C of everything before the next marker.
    checksum: u32,
    rows: u64,
}

/// What another program has done to a table's file while it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileLoss {
    /// It has no name any more: all of it is gone when the writer ends.
    Removed,
    /// Another file, or none, has its name.
    Moved,
    /// It was truncated to so many bytes.
    Truncated(u64),
}

/// What a table's file holds; part of `run.json`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TableSummary {
    /// The table.
    pub table: String,
    /// Name of the file.
    pub file: String,
    /// Rows on file.
    pub rows: u64,
    /// Batches on file.
    pub batches: u64,
    /// Bytes on file, of all files.
    pub bytes: u64,
    /// Number of files: `file`, and the parts that follow it (`hits.0001.arrows`).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub files: u32,
    /// CRC-32C of each of them, in hexadecimal, as computed while they were written. Empty in the records of older runs, and after
    /// `recover` has changed a file in place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crc32c: Vec<String>,
    /// Of the table `coincidences`, whose rows are hits: how many coincidences these are. `recover` counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coincidences: Option<u64>,
    /// Of the tables `raw` and `fragments`: how many bytes of payload its rows name. `recover` counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
}

impl Default for TableSummary {
    fn default() -> TableSummary {
        TableSummary {
            table: String::new(),
            file: String::new(),
            rows: 0,
            batches: 0,
            bytes: 0,
            files: 1,
            crc32c: Vec::new(),
            coincidences: None,
            payload_bytes: None,
        }
    }
}

impl TableSummary {
    /// CRC-32C of one of its files, by the number of the part, as computed while it was written.
    pub fn crc32c_of(&self, part: u32) -> Option<&str> {
        self.crc32c.get(part as usize).map(String::as_str)
    }
}

impl TableFile {
    /// Makes the file, which must not exist, and writes its schema. `metadata` goes into the schema, each key behind
    /// `thalweg.`.
    ///
    /// # Errors
    /// When the file exists, cannot be made, or the disk is full.
    pub fn create(path: &Path, table: Table, metadata: &[(&str, &str)]) -> Result<TableFile, RecordError> {
        TableFile::create_of(path, table, table.columns(), metadata)
    }

    /// The same with other columns that the table can have.
    ///
    /// # Errors
    /// As for `create`.
    pub(crate) fn create_of(
        path: &Path,
        table: Table,
        columns: &[Column],
        metadata: &[(&str, &str)],
    ) -> Result<TableFile, RecordError> {
        let opening = message::opening(table, columns, metadata);
        Ok(TableFile {
            file: create_file(path, &opening)?,
            path: path.to_owned(),
            table,
            end: opening.len() as u64,
            checksum: checksum::of(&opening),
            opening,
            first: path.to_owned(),
            part: 0,
            earlier_bytes: 0,
            unforced: Vec::new(),
            complete: Vec::new(),
            staged: None,
            batches: 0,
            rows: 0,
            write_back_from: 0,
        })
    }

    /// Goes on in a new file: the next batch is the first there. The files lie beside the first and in `directories`, in turn. Nothing is
    /// staged.
    ///
    /// # Errors
    /// When that file exists, cannot be made, or the disk is full; the next batch then goes to the present file.
    pub(crate) fn turn_over(&mut self, directories: &[PathBuf]) -> Result<(), RecordError> {
        let name = self.first.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let beside = self.first.with_file_name(part_name(&name, self.part + 1));
        let (file, path) = match elsewhere(&beside, directories, self.part + 1) {
            None => (create_file(&beside, &self.opening)?, beside),
            Some(path) => (create_linked(&path, &beside, &self.opening)?, path),
        };
        system::begin_write_back(&self.file, self.write_back_from, self.file_bytes() - self.write_back_from);
        self.earlier_bytes += self.file_bytes();
        self.complete.push(self.file_checksum());
        self.unforced.push(std::mem::replace(&mut self.path, path));
        self.file = file;
        self.part += 1;
        self.end = self.opening.len() as u64;
        self.checksum = checksum::of(&self.opening);
        self.write_back_from = 0;
        Ok(())
    }

    /// Writes a batch behind the end of the stream, where no reader sees it yet. Whatever was staged is discarded.
    ///
    /// # Errors
    /// When the disk is full or fails; the file is as before.
    pub(crate) fn stage(&mut self, batch: &dyn Batch, compression: Compression) -> Result<(), RecordError> {
        self.discard();
        self.try_stage(batch, compression).map_err(|cause| {
            self.discard();
            RecordError::io(&self.path, "writing a batch", cause)
        })
    }

    fn try_stage(&mut self, batch: &dyn Batch, compression: Compression) -> io::Result<()> {
        let shape = batch.shape();
        let buffers = Buffers::of(batch);
        let lengths = buffers.lengths();
        let (number, first_row) = (self.batches.to_string(), self.rows.to_string());
        let custom = [(BATCH_KEY, &number[..]), (FIRST_ROW_KEY, &first_row[..])];
        let mut metadata = message::batch_metadata(&shape, &lengths, compression, &custom);
        // The end of the file is behind the marker until the staged batch is committed or discarded.
        self.staged = Some(Staged { prefix: END_OF_STREAM, end: self.end, checksum: self.checksum, rows: 0 });
        let body_at = self.end + 8 + metadata.bytes.len() as u64;
        let of_blank = checksum::of(&metadata.bytes);
        let (of_body, body_bytes) = self.write_body(body_at, &buffers)?;
        system::write_all_at(&self.file, &END_OF_STREAM, body_at + body_bytes)?;
        let digits = format!("{:08x}", checksum::combined(of_blank, of_body, body_bytes));
        metadata.bytes[metadata.checksum_at..][..digits.len()].copy_from_slice(digits.as_bytes());
        system::write_all_at(&self.file, &metadata.bytes, self.end + 8)?;
        let prefix = message::prefix(metadata.bytes.len());
        let head = [&prefix[..], &metadata.bytes].concat();
        let before_body = checksum::combined(self.checksum, checksum::of(&head), head.len() as u64);
        self.staged = Some(Staged {
            prefix,
            end: body_at + body_bytes,
            checksum: checksum::combined(before_body, of_body, body_bytes),
            rows: shape.rows as u64,
        });
        Ok(())
    }

    /// Writes buffers and padding from `at`; returns the checksum and the number of the bytes written.
    fn write_body(&mut self, at: u64, buffers: &Buffers<'_>) -> io::Result<(u32, u64)> {
        self.file.seek(SeekFrom::Start(at))?;
        let mut checksum = Crc32c::new();
        let mut written = 0;
        let mut parts = Vec::with_capacity(MOST_PARTS);
        let mut part_bytes = 0;
        let chunks = buffers.each().flat_map(|parts| {
            let behind = &ZEROS[..padding(length_of(parts))];
            parts.iter().flat_map(|part| part.chunks(CHUNK_BYTES)).chain(std::iter::once(behind))
        });
        for chunk in chunks.filter(|chunk| !chunk.is_empty()) {
            checksum.add(chunk);
            parts.push(IoSlice::new(chunk));
            part_bytes += chunk.len();
            if part_bytes >= CHUNK_BYTES || parts.len() == MOST_PARTS {
                write_parts(&mut self.file, &mut parts)?;
                written += part_bytes as u64;
                part_bytes = 0;
                parts.clear();
            }
        }
        write_parts(&mut self.file, &mut parts)?;
        Ok((checksum.value(), written + part_bytes as u64))
    }

    /// Makes what is staged visible to readers. Nothing to do when nothing is.
    ///
    /// # Errors
    /// When the system refuses; what was staged is not visible then.
    pub(crate) fn commit(&mut self) -> Result<(), RecordError> {
        let Some(staged) = self.staged else { return Ok(()) };
        if let Err(cause) = system::write_all_at(&self.file, &staged.prefix, self.end) {
            self.discard();
            // Not reported as a full disk, which would be tried again: files before this one are committed already.
            return Err(RecordError::Io { path: self.path.clone(), action: "making a batch visible", cause });
        }
        self.staged = None;
        self.end = staged.end;
        self.checksum = staged.checksum;
        self.rows += staged.rows;
        self.batches += 1;
        // The page of the marker is left out: it is written again with the next batch, and would have to wait.
        let settled = self.end / PAGE_BYTES * PAGE_BYTES;
        let fresh = settled.saturating_sub(self.write_back_from);
        if fresh >= WRITE_BACK_BYTES {
            system::begin_write_back(&self.file, self.write_back_from, fresh);
            self.write_back_from = settled;
            // All of it, again and again: what was not on the disk yet is by the next time.
            if let Some(older) = NonZeroU64::new(settled.saturating_sub(CACHED_BYTES)) {
                system::forget_cached(&self.file, older);
            }
        }
        Ok(())
    }

    /// Takes back what is staged.
    pub(crate) fn discard(&mut self) {
        if self.staged.take().is_some() {
            // Bytes behind the marker are seen by no reader; giving their room back is a courtesy to a full disk.
            let _ = self.file.set_len(self.end + END_OF_STREAM.len() as u64);
        }
    }

    /// Forces what is committed to the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn sync(&mut self) -> Result<(), RecordError> {
        let failed = |path: &Path, cause| RecordError::Io {
            path: path.to_owned(),
            action: "forcing to the disk",
            cause,
        };
        while let Some(path) = self.unforced.last() {
            let forced = File::open(path).and_then(|file| system::force(&file));
            forced.map_err(|cause| failed(path, cause))?;
            self.unforced.pop();
        }
        system::force(&self.file).map_err(|cause| failed(&self.path, cause))
    }

    /// What another program has done to the file since the last batch, if anything: it is not under its name any more, or shorter
    /// than it was written.
    pub(crate) fn loss(&self) -> Option<FileLoss> {
        // A file system that says nothing for a moment has not harmed the file.
        let open = self.file.metadata().ok()?;
        let named = std::fs::symlink_metadata(&self.path);
        match named {
            _ if open.nlink() == 0 => Some(FileLoss::Removed),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Some(FileLoss::Moved),
            // Some file systems give a file another number now and then; another file has another length, too.
            Ok(named) if named.ino() != open.ino() && named.len() != open.len() => Some(FileLoss::Moved),
            _ if open.len() < self.end + END_OF_STREAM.len() as u64 => Some(FileLoss::Truncated(open.len())),
            _ => None,
        }
    }

    /// The table's first file.
    pub(crate) fn first(&self) -> &Path {
        &self.first
    }

    /// Where the next batch goes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Which table it is.
    pub fn table(&self) -> Table {
        self.table
    }

    /// Rows that readers see.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The file that is being written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directories in which its first and its present file have their names, and those in which these directories have theirs.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        let present = (self.path != self.first).then_some(&self.path);
        let named = std::iter::once(&self.first).chain(present);
        let directories = named.flat_map(|path| path.ancestors().skip(1).take(2));
        directories.filter(|path| !path.as_os_str().is_empty())
    }

    /// Bytes of the present file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.end + END_OF_STREAM.len() as u64
    }

    /// CRC-32C of the present file as readers see it.
    fn file_checksum(&self) -> u32 {
        checksum::combined(self.checksum, checksum::of(&END_OF_STREAM), END_OF_STREAM.len() as u64)
    }

    /// Number of the present file; 0 is the first.
    pub(crate) fn part(&self) -> u32 {
        self.part
    }

    /// What the file holds.
    pub fn summary(&self) -> TableSummary {
        TableSummary {
            table: self.table.word().to_owned(),
            file: self.first.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            rows: self.rows,
            batches: self.batches,
            bytes: self.earlier_bytes + self.file_bytes(),
            files: self.part + 1,
            crc32c: self
                .complete
                .iter()
                .chain([&self.file_checksum()])
                .map(|value| format!("{value:08x}"))
                .collect(),
            coincidences: None,
            payload_bytes: None,
        }
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Makes a file that is an empty stream.
fn create_file(path: &Path, opening: &[u8]) -> Result<File, RecordError> {
    let failed = |action| move |cause| RecordError::io(path, action, cause);
    let file = system::create_new(path).map_err(failed("making the file"))?;
    system::write_all_at(&file, &[opening, &END_OF_STREAM].concat(), 0).map_err(|cause| {
        // One without a schema, on a full disk, would be taken for a damaged table.
        let _still_there = std::fs::remove_file(path);
        failed("writing the schema")(cause)
    })?;
    Ok(file)
}

/// Where a part lies that does not lie beside the first: in the directory whose turn it is, under the name of the run.
fn elsewhere(beside: &Path, directories: &[PathBuf], part: u32) -> Option<PathBuf> {
    let turn = part as usize % (directories.len() + 1);
    let directory = std::path::absolute(directories.get(turn.checked_sub(1)?)?).ok()?;
    let run = std::path::absolute(beside).ok()?.parent()?.file_name()?.to_owned();
    Some(directory.join(run).join(beside.file_name()?))
}

/// Makes a file that is an empty stream, and a link to it.
fn create_linked(path: &Path, link: &Path, opening: &[u8]) -> Result<File, RecordError> {
    let failed = |path: &Path, action, cause| RecordError::io(path, action, cause);
    if let Some(directory) = path.parent() {
        directory.parent().map_or(Ok(()), FileLimits::check_directory)?;
        match std::fs::create_dir(directory) {
            Ok(()) => link.parent().into_iter().for_each(|run| name_owner(directory, run)),
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(directory, "making the directory", cause));
            }
            Err(_) => {}
        }
    }
    let file = create_file(path, opening)?;
    std::os::unix::fs::symlink(path, link).map_err(|cause| {
        // Nobody would find it.
        let _still_there = std::fs::remove_file(path);
        failed(link, "making a link to the next file", cause)
    })?;
    Ok(file)
}

fn one() -> u32 {
    1
}

fn is_one(files: &u32) -> bool {
    *files == 1
}

/// Writes all parts, however few the system takes at a time.
fn write_parts(file: &mut File, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    let mut rest = parts;
    while !rest.is_empty() {
        match system::write_vectored(file, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
