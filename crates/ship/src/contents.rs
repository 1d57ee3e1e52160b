//! What files of tables hold, counted from the files: the messages behind a byte, walked once and kept in sums.
//!
//! ```text
//!  file ─► message, message, … ─► segments of about 4 MiB ─► behind(byte): the rest of its segment is walked again, the others are added
//! ```
//! Nothing but the metadata of messages is read. A call walks a bounded number of messages that are new: behind a large backlog the rows
//! are known some calls later.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use thalweg_record::read::{MARKER_BYTES, message_at};

use crate::amount::{Amount, RowCounts};
use crate::error::ShipError;
use crate::local_file::LocalFile;
use crate::message::FileKind;
use crate::run_files::FoundFile;

/// Bytes of a segment, about; a message at least.
const SEGMENT_BYTES: u64 = 4 << 20;
/// Most messages that are new at a call.
const MOST_NEW: usize = 2000;

/// Messages that follow each other.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: u64,
    end: u64,
    counts: RowCounts,
}

/// One file, as far as it was walked.
#[derive(Debug, Default)]
struct Walked {
    inode: u64,
    segments: Vec<Segment>,
    end: u64,
    /// Whether the end-of-stream marker lies at `end`.
    is_at_marker: bool,
}

/// Files of tables, as far as they were walked.
#[derive(Debug, Default)]
pub struct Contents {
    files: HashMap<PathBuf, Walked>,
}

impl Contents {
    /// What a file of a table holds from a byte on, where a message begins, to its end-of-stream marker and with it. Its rows are unknown
    /// where it was not walked to its marker yet, or is damaged.
    pub fn behind(&mut self, file: &FoundFile, from: u64) -> Amount {
        let rest = Amount::of_table(file.identity.bytes.saturating_sub(from), None);
        let walked = self.files.entry(file.path.clone()).or_default();
        if walked.inode != file.identity.inode || walked.end + MARKER_BYTES > file.identity.bytes {
            *walked = Walked { inode: file.identity.inode, ..Walked::default() };
        }
        walked.behind(file, from).unwrap_or(rest)
    }

    /// Forgets the files of a run.
    pub fn forget(&mut self, files: &[FoundFile]) {
        files.iter().for_each(|file| _ = self.files.remove(&file.path));
    }
}

impl Walked {
    fn behind(&mut self, file: &FoundFile, from: u64) -> Option<Amount> {
        let is_whole = self.is_at_marker && self.end + MARKER_BYTES == file.identity.bytes;
        let mut open = None;
        if !is_whole {
            self.walk_on(opened(&mut open, &file.path).ok()?).ok()?;
        }
        let mut counts = RowCounts::default();
        let mut bytes = 0;
        for segment in self.segments.iter().rev().take_while(|segment| segment.end > from) {
            let begin = segment.from.max(from);
            counts += if segment.from >= from {
                segment.counts
            } else {
                let local = opened(&mut open, &file.path).ok()?;
                let (end, counts) = local.range_end(begin, segment.end - begin).ok()??;
                (end == segment.end).then_some(counts)?
            };
            bytes += segment.end - begin;
        }
        self.is_at_marker.then(|| Amount::of_table(bytes + MARKER_BYTES, Some(counts)))
    }

    fn walk_on(&mut self, file: &LocalFile) -> io::Result<()> {
        self.is_at_marker = false;
        for _ in 0..MOST_NEW {
            let Some(message) = message_at(file.file(), self.end)? else {
                self.is_at_marker = true;
                break;
            };
            match self.segments.last_mut().filter(|last| last.end - last.from < SEGMENT_BYTES) {
                Some(last) => {
                    last.end = message.end;
                    last.counts.count(&message);
                }
                None => {
                    let mut counts = RowCounts::default();
                    counts.count(&message);
                    self.segments.push(Segment { from: self.end, end: message.end, counts });
                }
            }
            self.end = message.end;
        }
        Ok(())
    }
}

fn opened<'f>(open: &'f mut Option<LocalFile>, path: &Path) -> Result<&'f LocalFile, ShipError> {
    if open.is_none() {
        *open = Some(LocalFile::open(path, FileKind::Growing)?);
    }
    Ok(open.as_ref().expect("opened above"))
}

#[cfg(test)]
mod tests {
    use thalweg_data::Hit;
    use thalweg_record::{Compression, HitsFile};

    use super::*;
    use crate::message::Identity;

    fn found(path: &Path) -> FoundFile {
        let identity = Identity::of(&std::fs::metadata(path).expect("there"));
        let name = "hits.arrows".to_owned();
        FoundFile {
            name,
            path: path.to_owned(),
            kind: FileKind::Growing,
            identity,
            is_closed: false,
            recorded: None,
        }
    }

    #[test]
    fn what_lies_behind_a_byte_is_counted_from_the_file_while_it_grows() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("hits.arrows");
        let mut table = HitsFile::create(&path, Compression::None, &[]).expect("made");
        let mut contents = Contents::default();
        let opening = contents.behind(&found(&path), 0);
        assert_eq!((opening.batches, opening.rows), (Some(0), Some(0)));
        let mut ends = vec![opening.bytes - MARKER_BYTES];
        // Some batches are larger than a segment.
        for rows in [10, 1000, 100_000, 128 * 1024, 7, 90_000] {
            for _ in 0..3 {
                table.write(&vec![Hit::default(); rows]).expect("written");
                table.flush().expect("written");
            }
            let file = found(&path);
            let all = contents.behind(&file, 0);
            assert_eq!(all.bytes, file.identity.bytes);
            ends.push(file.identity.bytes - MARKER_BYTES);
        }
        let file = found(&path);
        let rows = [10, 1000, 100_000, 128 * 1024, 7, 90_000_u64];
        for (index, end) in ends.iter().enumerate() {
            let behind = contents.behind(&file, *end);
            assert_eq!(behind.rows, Some(3 * rows[index..].iter().sum::<u64>()), "{index}");
            assert_eq!(behind.batches, Some(3 * (rows.len() - index) as u64));
            assert_eq!(behind.bytes, file.identity.bytes - end);
        }
        let amiss = contents.behind(&file, ends[1] + 8);
        assert_eq!(amiss.rows, None, "no message begins there");
        assert_eq!(Contents::default().behind(&file, ends[3]), contents.behind(&file, ends[3]));
    }
}
