//! What can end an export, in words an operator can act on.
//!
//! ```text
//!  a damaged batch, a full disk, a target that exists ──► ExportError { where, what was seen, what to do }
//! ```

use std::path::{Path, PathBuf};

use thalweg_data::SinkError;
use thalweg_record::RecordError;

/// An export that did not come to its end. Nothing of it stays on the disk.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read.
    #[error("{}", .0.with_advice())]
    Record(#[from] RecordError),
    /// A batch of a table is damaged.
    #[error(
        "{file}: batch {batch} is damaged ({found}); the {batch} batches before it are whole and hold {rows} rows: \
         `thalweg recover` keeps every whole batch, then export again"
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Number of the batch, from 0.
        batch: u64,
        /// Rows of the batches before it.
        rows: u64,
        /// What was found.
        found: String,
    },
    /// What was asked for cannot be exported.
    #[error("{0}")]
    Refused(String),
    /// No space is left.
    #[error(
        "{path}: no space left on the disk; the export is removed again: free some space, or choose another disk with --out"
    )]
    Full {
        /// The target.
        path: PathBuf,
    },
    /// The target cannot be written.
    #[error("{path}: {action}: {cause}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Somebody asked for its end.
    #[error("{path}: the export was interrupted and is removed again")]
    Interrupted {
        /// The target.
        path: PathBuf,
    },
    /// A writer of a format refused what it was given.
    #[error("{0}")]
    Writer(String),
}

/// An import that did not come to its end. Nothing of it stays on the disk.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The recording cannot be written.
    #[error("{}", .0.with_advice())]
    Record(#[from] RecordError),
    /// The file is none of MIDAS.
    #[error("{path}: not a MIDAS event file: {found}")]
    NotMidas {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// The file has no event that could be recorded.
    #[error("{path}: no event of it can be imported: {found}")]
    Nothing {
        /// The file.
        path: PathBuf,
        /// Why.
        found: String,
    },
    /// The file cannot be read.
    #[error("{path}: {action}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A table refused what it was given.
    #[error("{0}")]
    Sink(#[from] SinkError),
    /// Somebody asked for its end.
    #[error("{path}: the import was interrupted and is removed again")]
    Interrupted {
        /// The file.
        path: PathBuf,
    },
}

impl ImportError {
    /// An error of the system while doing `action`.
    pub(crate) fn io(path: &Path, action: &'static str, cause: std::io::Error) -> ImportError {
        ImportError::Io { path: path.to_owned(), action, cause }
    }
}

impl ExportError {
    /// An error of the system while doing `action`; a full disk is distinguished from the rest.
    pub(crate) fn io(path: &Path, action: &'static str, cause: std::io::Error) -> ExportError {
        let path = path.to_owned();
        match cause.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => ExportError::Full { path },
            _ => ExportError::Io { path, action, cause },
        }
    }

    /// An error that a format's writer reports. Where the disk was the cause, [`Target`](crate::target::Target) knows it.
    pub(crate) fn writer(cause: impl std::fmt::Display) -> ExportError {
        ExportError::Writer(cause.to_string())
    }
}
