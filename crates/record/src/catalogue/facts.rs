//! How the index sees that a run has changed: size, times and inode of its files, without opening one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::directory::RunDirectory;

/// What has changed so lately may change once more within the same tick of the file system's clock, which some keep in steps of two
/// seconds.
const SETTLED_NS: i64 = 2_500_000_000;

/// What shows that a file has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileFacts {
    bytes: u64,
    /// Of the content, nanoseconds since 1970.
    modified_ns: i64,
    /// Of the inode: nobody can set this time back.
    changed_ns: i64,
    inode: u64,
}

impl FileFacts {
    fn of(path: &Path) -> Option<FileFacts> {
        let data = fs::metadata(path).ok()?;
        let nanoseconds = |seconds: i64, nanoseconds: i64| {
            seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
        };
        Some(FileFacts {
            // The size of a directory is the file system's own affair.
            bytes: if data.is_dir() { 0 } else { data.len() },
            modified_ns: nanoseconds(data.mtime(), data.mtime_nsec()),
            changed_ns: nanoseconds(data.ctime(), data.ctime_nsec()),
            inode: data.ino(),
        })
    }
}

/// What shows that a run has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunFacts {
    /// The directory: a file has come or gone.
    pub(super) directory: Option<FileFacts>,
    pub(super) record: Option<FileFacts>,
    pub(super) notes: Option<FileFacts>,
    pub(super) labels: Option<FileFacts>,
}

impl RunFacts {
    pub(super) fn of(run: &RunDirectory) -> RunFacts {
        RunFacts {
            directory: FileFacts::of(run.path()),
            record: FileFacts::of(&run.run_record()),
            notes: FileFacts::of(&run.notes()),
            labels: FileFacts::of(&run.labels()),
        }
    }

    /// Whether any later change shows. What changes within the same tick of the file system's clock, and keeps its size, would not.
    pub(super) fn are_settled(&self, now_ns: i64) -> bool {
        let files = [self.directory, self.record, self.notes, self.labels].into_iter().flatten();
        files
            .flat_map(|file| [file.modified_ns, file.changed_ns])
            .all(|at| now_ns.saturating_sub(at) > SETTLED_NS)
    }
}
