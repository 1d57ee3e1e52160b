//! Who has a directory open: a lock on the directory itself, which the system lets go when its program ends, however that ends.
//!
//! ```text
//!  writer, verify, replay, comment ─► together ─┐ one of both at a time
//!  removal of old tables ───────────► alone ────┘
//! ```
//! Nothing is written for it. It is between programs of this kind: others read and write as they like.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::RecordError;

/// A directory that is held for as long as this lives.
#[derive(Debug)]
pub(crate) struct Hold {
    _directory: File,
}

impl Hold {
    /// Holds a directory beside others that do so. `None` where the file system has no such locks.
    ///
    /// # Errors
    /// While somebody holds it alone.
    pub(crate) fn together(path: &Path) -> Result<Option<Hold>, RecordError> {
        let Ok(directory) = File::open(path) else { return Ok(None) };
        match directory.try_lock_shared() {
            Ok(()) => Ok(Some(Hold { _directory: directory })),
            Err(TryLockError::WouldBlock) => {
                let found =
                    "its tables are being removed at this moment; look again in a few seconds".to_owned();
                Err(RecordError::Missing { path: path.to_owned(), found })
            }
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    /// Holds a directory alone. `None` while somebody else holds it.
    ///
    /// # Errors
    /// When it is none, or a link to one, or the file system has no such locks.
    pub(crate) fn alone(path: &Path) -> io::Result<Option<Hold>> {
        let mut options = File::options();
        let directory = options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)?;
        match directory.try_lock() {
            Ok(()) => Ok(Some(Hold { _directory: directory })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hold_together_and_one_holds_alone() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let together = || Hold::together(folder.path());
        let (one, two) = (together().expect("free"), together().expect("held together"));
        assert!(one.is_some() && Hold::alone(folder.path()).expect("a directory").is_none());
        drop((one, two));
        let alone = Hold::alone(folder.path()).expect("a directory");
        assert!(alone.is_some() && together().is_err());
        drop(alone);
        assert!(together().expect("free").is_some());
    }

    #[test]
    fn nothing_is_held_alone_through_a_link() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (directory, link) = (folder.path().join("directory"), folder.path().join("link"));
        std::fs::create_dir(&directory).expect("made");
        std::os::unix::fs::symlink(&directory, &link).expect("made");
        assert!(Hold::alone(&link).is_err() && Hold::alone(&directory).expect("a directory").is_some());
    }
}
