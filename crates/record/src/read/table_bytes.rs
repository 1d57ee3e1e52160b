//! The bytes of a table as one stream, whether they lie in one file or in several.
//!
//! ```text
//!  hits.arrows       schema ┊ batches 0 to 41 ┊ end
//!  hits.0001.arrows  schema ┊ batches 42 to 80 ┊ end     ──►  schema ┊ batches 0 to 41 ┊ 42 to 80 ┊ 81 to … ┊ end
//!  hits.0002.arrows  schema ┊ batches 81 to …  ┊ end
//! ```
//! The schemas of later parts and the ends of earlier ones are left out. So readers, checks and repairs know no parts: batches and rows are
//! numbered through, and a part that is missing shows as batches that are.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::table_reader::{ReadAt, TableReader};
use crate::error::RecordError;
use crate::ipc::{ALIGNMENT, END_OF_STREAM};
use crate::table::first_part_of;
use crate::table_part::missing_target;

/// Files of a table that stay open, beside the one that was read last. A table may have more of them than a process may open, and `recover`
/// has all tables of a run open at once. Most are read from front to back.
const MOST_OPEN: usize = 1;

/// The files of a table, one behind the other.
#[derive(Debug)]
pub struct TableBytes {
    parts: Vec<Part>,
    /// The file behind those that stay open that was read last, and its number.
    last_read: Mutex<Option<(usize, Arc<File>)>>,
}

/// One file.
#[derive(Debug)]
struct Part {
    /// The file itself, of one that stays open.
    file: Option<File>,
    path: PathBuf,
    /// Bytes of the file that do not belong to the stream, at its beginning.
    skipped: u64,
    /// Where it begins and ends in the stream.
    start: u64,
    end: u64,
    /// Bytes of the marker at its end, where one is left out.
    end_bytes: u64,
}

/// A place at which a table is cut.
#[derive(Debug)]
pub(super) struct Cut<'a> {
    /// The file that ends there.
    pub path: &'a Path,
    /// Where, in that file.
    pub offset: u64,
    /// Bytes of all files that are left, with a marker at their end.
    pub file_bytes: u64,
    /// How many files these are.
    pub files: u32,
    /// The files behind it, of which nothing is left.
    pub later: Vec<&'a Path>,
}

impl TableBytes {
    /// Opens a table's first file, and its later parts beside it. A later part can be opened alone.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn open(path: &Path) -> Result<TableBytes, RecordError> {
        let mut bytes = TableBytes { parts: Vec::new(), last_read: Mutex::new(None) };
        // Listed first: of a run that is being written, only the last of these can grow then.
        let later_parts = later_parts(path)?;
        bytes.add(path)?;
        for later in later_parts {
            bytes.add(&later)?;
        }
        Ok(bytes)
    }

    fn add(&mut self, path: &Path) -> Result<(), RecordError> {
        let failed = |action| move |cause| RecordError::io(path, action, cause);
        let file = File::open(path).map_err(|cause| match missing_target(path) {
            Some(target) => link_to_nothing(path, &target),
            None => failed("opening")(cause),
        })?;
        let length = file.length().map_err(failed("asking for its length"))?;
        let mut start = 0;
        let mut skipped = 0;
        if let Some(before) = self.parts.len().checked_sub(1) {
            self.leave_out_end(before).map_err(failed("reading"))?;
            start = self.parts[before].end;
            // A damaged schema stays in the stream, where no batch can be made of it: so it is found.
            skipped = TableReader::over(&file, path).map_or(0, |reader| reader.position()).min(length);
        }
        self.parts.push(Part {
            file: (self.parts.len() < MOST_OPEN).then_some(file),
            path: path.to_owned(),
            skipped,
            start,
            end: start + length - skipped,
            end_bytes: 0,
        });
        Ok(())
    }

    /// Bytes of the files that are not in the stream: schemas of later parts, ends of earlier ones.
    pub fn bytes_left_out(&self) -> u64 {
        self.left_out_before(self.parts.len())
    }

    /// Bytes that are not in the stream, up to the last byte of it that is in the first `parts` files.
    fn left_out_before(&self, parts: usize) -> u64 {
        let schemas: u64 = self.parts[..parts].iter().map(|part| part.skipped).sum();
        let ends: u64 = self.parts[..parts.saturating_sub(1)].iter().map(|part| part.end_bytes).sum();
        schemas + ends
    }

    /// From `at` on, the first place at which a message can begin, and the end of its file: in between there is one every
    /// [`ALIGNMENT`] bytes. They are counted in each file anew: one may have an end that is damaged, and so stays in the stream, or none.
    pub(super) fn message_places(&self, at: u64) -> Option<(u64, u64)> {
        let from_part = |part: &Part| {
            let in_file = at.saturating_sub(part.start) + part.skipped;
            let first = part.start + in_file.next_multiple_of(ALIGNMENT as u64) - part.skipped;
            (first < part.end).then_some((first, part.end))
        };
        self.parts[self.part_of(at)..].iter().find_map(from_part)
    }

    /// What it is to cut the stream at `end`.
    pub(super) fn cut_at(&self, end: u64) -> Cut<'_> {
        let index = self.parts.partition_point(|part| part.end < end).min(self.parts.len() - 1);
        let part = &self.parts[index];
        Cut {
            path: &part.path,
            offset: end.saturating_sub(part.start) + part.skipped,
            file_bytes: end + self.left_out_before(index + 1) + END_OF_STREAM.len() as u64,
            files: index as u32 + 1,
            later: self.parts[index + 1..].iter().map(|part| part.path.as_path()).collect(),
        }
    }

    /// Number of files.
    pub fn files(&self) -> u32 {
        self.parts.len() as u32
    }

    /// The files behind the first.
    pub(super) fn later(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().skip(1).map(|part| part.path.as_path())
    }

    /// Takes the end-of-stream marker of a file out of the stream: another part follows.
    fn leave_out_end(&mut self, index: usize) -> io::Result<()> {
        let mut last = END_OF_STREAM;
        let Part { start, end, skipped, .. } = self.parts[index];
        if let Some(place) = (end - start).checked_sub(last.len() as u64) {
            self.read_part(index, &mut last, skipped + place)?;
            if last == END_OF_STREAM {
                let part = &mut self.parts[index];
                part.end_bytes = last.len() as u64;
                part.end -= part.end_bytes;
            }
        }
        Ok(())
    }

    /// The number of a byte's file, by its name.
    pub(super) fn file_number(&self, offset: u64) -> u32 {
        let name = self.parts[self.part_of(offset)].path.file_name().and_then(|name| name.to_str());
        name.and_then(first_part_of).map_or(0, |(_, part)| part)
    }

    /// Reads bytes of one file.
    fn read_part(&self, index: usize, into: &mut [u8], offset: u64) -> io::Result<()> {
        let Part { file, path, .. } = &self.parts[index];
        if let Some(file) = file {
            return file.read_at(into, offset);
        }
        let mut last = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let found = last.as_ref().filter(|(number, _)| *number == index).map(|(_, file)| Arc::clone(file));
        let file = found.map_or_else(|| File::open(path).map(Arc::new), Ok)?;
        *last = Some((index, Arc::clone(&file)));
        drop(last);
        file.read_at(into, offset)
    }

    /// The number of the part in which a byte lies.
    fn part_of(&self, offset: u64) -> usize {
        self.parts.partition_point(|part| part.start <= offset).saturating_sub(1)
    }
}

/// The stream from its beginning on, for other readers of Arrow.
#[derive(Debug)]
pub struct TableStreamBytes {
    bytes: TableBytes,
    at: u64,
}

impl TableStreamBytes {
    /// Opens a table as [`TableBytes::open`] does.
    ///
    /// # Errors
    /// When one of its files cannot be read.
    pub fn open(path: &Path) -> Result<TableStreamBytes, RecordError> {
        Ok(TableStreamBytes { bytes: TableBytes::open(path)?, at: 0 })
    }
}

impl io::Read for TableStreamBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.length()?.saturating_sub(self.at);
        let count = left.min(into.len() as u64) as usize;
        self.bytes.read_at(&mut into[..count], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl ReadAt for TableBytes {
    fn length(&self) -> io::Result<u64> {
        Ok(self.parts.last().map_or(0, |part| part.end))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let (mut rest, mut at) = (into, offset);
        let first = self.part_of(offset);
        for (index, part) in self.parts.iter().enumerate().skip(first) {
            let there = part.end.saturating_sub(at).min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at_mut(there);
            self.read_part(index, now, at - part.start + part.skipped)?;
            (rest, at) = (later, at + there as u64);
            if rest.is_empty() {
                return Ok(());
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn locate(&self, offset: u64) -> Option<(&Path, u64)> {
        let part = self.parts.get(self.part_of(offset))?;
        Some((&part.path, offset - part.start + part.skipped))
    }

    fn reopened(&self) -> Option<TableBytes> {
        TableBytes::open(&self.parts.first()?.path).ok()
    }
}

/// What to do about a file whose disk is not there.
fn link_to_nothing(path: &Path, target: &Path) -> RecordError {
    let found = format!(
        "this link leads to {}, which is not there: mount its disk; if the disk is lost, remove all links to it, and `thalweg recover` \
         keeps what is here",
        target.display()
    );
    RecordError::Missing { path: path.to_owned(), found }
}

/// The later parts of the table whose first file this is, in order.
pub(crate) fn later_parts(first: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let Some(name) = first.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let parent = first.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |cause| RecordError::io(parent, "listing files", cause);
    let mut parts = Vec::new();
    for entry in fs::read_dir(parent).map_err(failed)? {
        let found = entry.map_err(failed)?.file_name();
        if let Some((of, part)) = found.to_str().and_then(first_part_of)
            && of == name
        {
            parts.push((part, first.with_file_name(&found)));
        }
    }
    parts.sort_unstable();
    Ok(parts.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::part_name;

    /// The files in `folder` that this process has open.
    fn open_in(folder: &Path) -> usize {
        let descriptors = fs::read_dir("/proc/self/fd").expect("Linux").filter_map(Result::ok);
        let files = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        files.filter(|file| file.starts_with(folder)).count()
    }

    #[test]
    fn a_table_of_many_files_is_read_with_few_of_them_open() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let folder = folder.path().canonicalize().expect("it is there");
        let first = folder.join("hits.arrows");
        // No file has a schema: all of its bytes are in the stream.
        let content = |number: u32| format!("file {number:>4} ");
        fs::write(&first, content(0)).expect("written");
        for number in 1..200 {
            fs::write(folder.join(part_name("hits.arrows", number)), content(number)).expect("written");
        }
        let bytes = TableBytes::open(&first).expect("200 files");
        let mut found = vec![0; bytes.length().expect("known") as usize];
        bytes.read_at(&mut found, 0).expect("readable");
        assert_eq!(String::from_utf8(found).expect("text"), (0..200).map(content).collect::<String>());
        assert_eq!((bytes.files(), open_in(&folder)), (200, MOST_OPEN + 1));
    }
}
