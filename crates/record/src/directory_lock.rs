//! Locks a directory that a process has open; the system releases the lock when the process ends, however it ends.
//!
//! ```text
//!  writer, verify, replay, comment ─► shared ────┐ one of both at a time
//!  recover, removal of old tables ──► exclusive ─┘
//! ```
//! Nothing is written for it. It is between programs of this kind: others read and write as they like.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::error::RecordError;

/// A directory that is locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    directory: File,
}

impl DirectoryLock {
    /// Locks a directory beside others that do so. `None` where the file system has no such locks.
    ///
    /// # Errors
    /// While somebody has it exclusively.
    pub(crate) fn shared(path: &Path) -> Result<Option<DirectoryLock>, RecordError> {
        let Ok(directory) = File::open(path) else { return Ok(None) };
        match directory.try_lock_shared() {
            Ok(()) => Ok(Some(DirectoryLock { directory })),
            Err(TryLockError::WouldBlock) => {
                let holder = Holder::of(&directory);
                let found = format!("{holder} recovers it or removes its tables; try again in a few seconds");
                Err(RecordError::Missing { path: path.to_owned(), found })
            }
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    /// Locks a directory against everybody else. `None` while somebody else has it.
    ///
    /// # Errors
    /// When it is none, or a link to one, or the file system has no such locks.
    pub(crate) fn exclusive(path: &Path) -> io::Result<Option<DirectoryLock>> {
        let directory = open_directory(path)?;
        match directory.try_lock() {
            Ok(()) => Ok(Some(DirectoryLock { directory })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is being started at this moment has the descriptor, too, until it is another program.
        let _ = self.directory.unlock();
    }
}

fn open_directory(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// The process that has a directory locked, for messages: `thalweg (pid 4211)`, or "another process" where the system
/// does not say.
#[derive(Debug, Default)]
pub(crate) struct Holder {
    process: Option<(String, u32)>,
}

impl Holder {
    /// Who has the directory at `path` locked now.
    pub(crate) fn of_path(path: &Path) -> Holder {
        open_directory(path).map(|directory| Holder::of(&directory)).unwrap_or_default()
    }

    fn of(directory: &File) -> Holder {
        let process = || {
            let inode = directory.metadata().ok()?.ino();
            let locks = fs::read_to_string("/proc/locks").ok()?;
            let pid = locks.lines().find_map(|line| locked_by(line, inode))?;
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Some((name.trim().to_owned(), pid))
        };
        Holder { process: process() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some((name, pid)) if name.is_empty() => write!(f, "the process {pid}"),
            Some((name, pid)) => write!(f, "`{name}` (pid {pid})"),
            None => write!(f, "another process"),
        }
    }
}

/// The process in a line of `/proc/locks` (proc(5)), when it is about a lock on this inode:
/// `7: FLOCK  ADVISORY  READ 4211 fd:01:131085 0 EOF`. Of the device only the inode's number is compared: what some file
/// systems report there is not what `stat` reports.
fn locked_by(line: &str, inode: u64) -> Option<u32> {
    let (process, locked) = lock_in(line)?;
    (locked == inode).then_some(process)
}

/// The process and the inode in a line of `/proc/locks`, when it is about a lock that is held on a whole file or directory.
pub(crate) fn lock_in(line: &str) -> Option<(u32, u64)> {
    // A process that waits for a lock has `->` behind the number.
    let mut words = line.split_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    Some((pid, words.next()?.rsplit(':').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_share_a_directory_and_one_has_it_exclusively() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let shared = || DirectoryLock::shared(folder.path());
        let (one, two) = (shared().expect("free"), shared().expect("shared"));
        assert!(one.is_some() && DirectoryLock::exclusive(folder.path()).expect("a directory").is_none());
        let holder = Holder::of_path(folder.path()).to_string();
        assert!(holder.contains(&format!("pid {}", std::process::id())), "{holder}");
        drop((one, two));
        let exclusive = DirectoryLock::exclusive(folder.path()).expect("a directory");
        assert!(exclusive.is_some() && shared().is_err());
        drop(exclusive);
        assert!(shared().expect("free").is_some());
    }

    #[test]
    fn nothing_is_locked_exclusively_through_a_link() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (directory, link) = (folder.path().join("directory"), folder.path().join("link"));
        std::fs::create_dir(&directory).expect("made");
        std::os::unix::fs::symlink(&directory, &link).expect("made");
        assert!(DirectoryLock::exclusive(&link).is_err());
        assert!(DirectoryLock::exclusive(&directory).expect("a directory").is_some());
    }

    #[test]
    fn a_line_of_the_locks_names_the_process() {
        let line = "7: FLOCK  ADVISORY  READ 4211 fd:01:131085 0 EOF";
        assert_eq!((locked_by(line, 131_085), locked_by(line, 131_086)), (Some(4211), None));
        assert_eq!(locked_by("7: -> FLOCK ADVISORY WRITE 9 fd:01:131085 0 EOF", 131_085), None);
        assert_eq!(locked_by("1: POSIX  ADVISORY  READ 4211 fd:01:131085 0 EOF", 131_085), None);
    }
}
