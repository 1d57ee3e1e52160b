//! What can go wrong with run files, in words an operator can act on.
//!
//! ```text
//!  io::Error, bad bytes ──► RecordError { where, what was seen, what to do }
//! ```

use std::io;
use std::path::{Path, PathBuf};

/// A file of a run that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No space is left; what was written is whole.
    #[error(
        "{path}: no space left on the disk; free some, or name another directory: `[record] directory`, of a replay --directory"
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path}: {action}: {cause}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// No run can be made where runs are to be.
    #[error(
        "{path}: making a run directory: {cause}; name another directory: `[record] directory`, of a replay or the demonstration --directory"
    )]
    NoDirectory {
        /// The directory of runs.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Bytes that are not what this program writes.
    #[error("{path}: at byte {offset}: {found}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What was found.
        found: String,
    },
    /// A run that does not hold what was asked for.
    #[error("{path}: {found}")]
    Missing {
        /// The run directory or file.
        path: PathBuf,
        /// What is missing, and what to do.
        found: String,
    },
}

impl RecordError {
    /// An error of the system while doing `action`; a full disk is distinguished from the rest.
    pub(crate) fn io(path: &Path, action: &'static str, cause: io::Error) -> RecordError {
        let path = path.to_owned();
        if is_full(&cause) { RecordError::Full { path } } else { RecordError::Io { path, action, cause } }
    }

    /// The same for the directory of a new run.
    pub(crate) fn no_directory(path: &Path, cause: io::Error) -> RecordError {
        let path = path.to_owned();
        if is_full(&cause) { RecordError::Full { path } } else { RecordError::NoDirectory { path, cause } }
    }

    /// The error for whoever reads a recording: of damaged bytes also what to do. Not for `recover`, which does it.
    pub fn with_advice(&self) -> String {
        match self {
            RecordError::Damaged { .. } => format!("{self}; `thalweg recover` keeps what is whole"),
            _ => self.to_string(),
        }
    }

    /// Whether freeing disk space would help.
    pub fn is_full(&self) -> bool {
        matches!(self, RecordError::Full { .. })
    }
}

/// Whether the system had no space: no blocks, no quota, or a limit on the file's size.
fn is_full(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}
