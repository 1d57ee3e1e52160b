//! The file system of the far side, as few calls: what is written, what is forced, and what is read back from the disk.
//!
//! ```text
//!  FarFiles ─► Disk ─► HostDisk: the host's      (in tests: FaultyDisk, which forgets what no fsync has covered)
//! ```

#[cfg(test)]
pub(crate) mod faulty;
mod host;

use std::fmt;
use std::io;
use std::path::Path;

pub use host::HostDisk;
use thalweg_record::read::ReadAt;

/// A file system.
pub trait Disk: Clone + Send + fmt::Debug {
    /// A file of it.
    type File: DiskFile;

    /// Opens a file that is there, to read and write it. A link is none.
    ///
    /// # Errors
    /// When it is not there, or the system refuses.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Makes an empty file in place of an older one, whose bytes stay as they are where it has another name as well.
    ///
    /// # Errors
    /// When the system refuses.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Puts a file in the place of another one.
    ///
    /// # Errors
    /// When the system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a directory and those above it, and forces their names to the disk.
    ///
    /// # Errors
    /// When the system refuses.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Forces the names in a directory to the disk.
    ///
    /// # Errors
    /// When the disk fails.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Puts a small file in place of an older one: after a crash at any moment the old or the new is there.
    ///
    /// # Errors
    /// When the disk is full or fails; the older one stands then.
    fn replace(&self, directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
        let beside = directory.join(format!("{name}.new"));
        let file = self.create(&beside)?;
        file.write_at(content, 0)?;
        file.sync()?;
        self.rename(&beside, &directory.join(name))?;
        self.sync_directory(directory)
    }

    /// The content of a small file; `None` when it is not there.
    ///
    /// # Errors
    /// When it cannot be read, or is longer than `most_bytes`.
    fn read_small(&self, path: &Path, most_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.open(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let length = file.length()?;
        if length > most_bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has {length} bytes")));
        }
        let mut content = vec![0; length as usize];
        file.read_at(&mut content, 0)?;
        Ok(Some(content))
    }
}

/// A file that is written and read back.
pub trait DiskFile: ReadAt + Send + fmt::Debug {
    /// Writes all of it.
    ///
    /// # Errors
    /// When the disk is full or fails.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file.
    ///
    /// # Errors
    /// When the system refuses.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Forces bytes and length to the disk.
    ///
    /// # Errors
    /// When the disk fails.
    fn sync(&self) -> io::Result<()>;

    /// Drops a range from the system's cache, so that it is read from the disk next. What is not forced to the disk stays.
    fn forget(&self, from: u64, bytes: u64);
}

/// Whether the disk has no space, or the user no quota.
pub fn is_full(cause: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(cause.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
