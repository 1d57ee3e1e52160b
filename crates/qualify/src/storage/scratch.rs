//! The files of a measurement: in one directory that is locked while it runs, and gone when it ends, however it ends.
//!
//! ```text
//!  DIRECTORY/.thalweg-storage-test/   locked by the process that measures
//!      made-by-thalweg                who made it, and that it may be removed
//!      write.bin mixed.bin position-N.bin fio.bin
//!
//!  dropped (end, error, Ctrl-C, panic) ─► removed          killed ─► left over; the next start finds no lock on it ─► removed
//! ```
//! A left-over is removed when its owner is ours, nobody has it locked, and every name in it is one of these. Else it is left as it is.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::StorageError;

/// The directory of a measurement.
pub const DIRECTORY: &str = ".thalweg-storage-test";
/// The file that says whose it is.
const MARKER: &str = "made-by-thalweg";
/// The beginning of its text.
const MARKED: &str = "thalweg qualify storage";
/// The file of `fio`.
pub(super) const FIO_FILE: &str = "fio.bin";

/// The directory. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    /// Keeps the lock.
    _lock: File,
    /// Bytes of a left-over that was removed first.
    pub removed_bytes: Option<u64>,
}

impl Scratch {
    /// Makes the directory inside `directory`; a left-over of a measurement that was killed is removed first.
    ///
    /// # Errors
    /// When it cannot be made, another measurement runs there, or what is there is not clearly ours.
    pub(super) fn make(directory: &Path) -> Result<Scratch, StorageError> {
        let path = directory.join(DIRECTORY);
        let is_new = match fs::create_dir(&path) {
            Ok(()) => true,
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => false,
            Err(cause) => {
                return Err(StorageError::io(&path, "making the directory of the measurement", cause));
            }
        };
        let lock = locked(&path, is_new).inspect_err(|_| {
            if is_new {
                let _ = fs::remove_dir(&path);
            }
        })?;
        let removed_bytes = if is_new { None } else { Some(clear(&path)?) };
        let scratch = Scratch { path, _lock: lock, removed_bytes };
        scratch.mark()?;
        Ok(scratch)
    }

    fn mark(&self) -> Result<(), StorageError> {
        let path = self.path(MARKER);
        let text = format!(
            "{MARKED} measures here (process {}). When no such process runs, this directory can be removed.\n",
            std::process::id()
        );
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        made.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|cause| StorageError::io(&path, "making a file", cause))
    }

    /// A file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes a file, so that the next one finds room.
    pub(super) fn remove(&self, name: &str) -> Result<(), StorageError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(StorageError::io(&path, "removing a file of the measurement", cause))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next start finds what cannot be removed.
        let _ = clear(&self.path).map(|_| fs::remove_dir(&self.path));
    }
}

/// Opens the directory and locks it for as long as the file lives.
fn locked(path: &Path, is_new: bool) -> Result<File, StorageError> {
    let open = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path);
    let file =
        open.map_err(|cause| StorageError::io(path, "opening the directory of the measurement", cause))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::Running(path.to_owned())),
        // No other process can hold it: it has just been made.
        Err(TryLockError::Error(_)) if is_new => Ok(file),
        Err(TryLockError::Error(cause)) => {
            let found = format!("whether a measurement runs here cannot be known ({cause})");
            Err(StorageError::LeftOver { path: path.to_owned(), found })
        }
    }
}

/// Removes our files; returns how many bytes they took. Nothing is removed where anything else is among them.
fn clear(path: &Path) -> Result<u64, StorageError> {
    let left_over = |found: String| StorageError::LeftOver { path: path.to_owned(), found };
    let unread = |cause| StorageError::io(path, "reading the directory of the measurement", cause);
    let owner = fs::symlink_metadata(path).map_err(unread)?.uid();
    let own = rustix::process::geteuid().as_raw();
    if owner != own {
        return Err(left_over(format!("it belongs to the user {owner}, not to you ({own})")));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let (name, found) = (entry.file_name(), entry.metadata().map_err(unread)?);
        let name = name.to_string_lossy().into_owned();
        if !found.is_file() || found.uid() != own || !is_our_name(&name) {
            return Err(left_over(format!("`{name}` in it is not of a measurement")));
        }
        files.push((entry.path(), found.len(), name));
    }
    let is_marked = |file: &(PathBuf, u64, String)| {
        file.2 == MARKER
            && fs::read_to_string(&file.0).is_ok_and(|text| text.starts_with(MARKED) || text.is_empty())
    };
    if !files.is_empty() && !files.iter().any(is_marked) {
        return Err(left_over(format!("`{MARKER}`, which a measurement makes first, is not in it")));
    }
    // The marker goes last: a removal that is interrupted can be taken up again.
    files.sort_by_key(|file| file.2 == MARKER);
    for (file, ..) in &files {
        fs::remove_file(file)
            .map_err(|cause| StorageError::io(file, "removing a file of the measurement", cause))?;
    }
    Ok(files.iter().map(|(_, bytes, _)| bytes).sum())
}

fn is_our_name(name: &str) -> bool {
    let is_position = |name: &str| {
        let number = name.strip_prefix("position-").and_then(|name| name.strip_suffix(".bin"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    [MARKER, "write.bin", "mixed.bin", FIO_FILE].contains(&name) || is_position(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn nothing_is_left_behind_in_a_panic_either() {
        let folder = tempfile::tempdir().expect("a directory");
        let panics = || {
            let scratch = Scratch::make(folder.path()).expect("made");
            fs::write(scratch.path("write.bin"), "data").expect("written");
            assert_eq!(names(folder.path()), [DIRECTORY]);
            panic!("as a measurement might");
        };
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_left_over_is_removed_and_one_that_is_locked_is_not() {
        let folder = tempfile::tempdir().expect("a directory");
        let first = Scratch::make(folder.path()).expect("made");
        fs::write(first.path("position-3.bin"), "data").expect("written");
        let refused = Scratch::make(folder.path()).expect_err("it is locked").to_string();
        assert!(refused.contains("another measurement runs"), "{refused}");
        // The state after `kill -9`: the files are there, and the lock is not.
        first._lock.unlock().expect("unlocked");
        std::mem::forget(first);
        let next = Scratch::make(folder.path()).expect("the left-over is removed");
        assert!(next.removed_bytes.is_some_and(|bytes| bytes > 4), "{next:?}");
        drop(next);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn what_is_not_clearly_ours_is_left_as_it_is() {
        for (name, word) in [("thesis.pdf", "`thesis.pdf` in it"), ("write.bin", "is not in it")] {
            let folder = tempfile::tempdir().expect("a directory");
            let path = folder.path().join(DIRECTORY);
            fs::create_dir(&path).expect("made");
            fs::write(path.join(name), "of somebody else").expect("written");
            let refused = Scratch::make(folder.path()).expect_err("it is not ours").to_string();
            assert!(refused.contains(word), "{refused}");
            assert_eq!(names(&path), [name]);
        }
        let folder = tempfile::tempdir().expect("a directory");
        let elsewhere = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join(DIRECTORY)).expect("linked");
        assert!(Scratch::make(folder.path()).is_err(), "a link is not followed");
        assert!(names(elsewhere.path()).is_empty());
    }
}
