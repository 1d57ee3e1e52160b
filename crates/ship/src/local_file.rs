//! A file here, while it is shipped: the bytes, and whether it is still the same file.
//!
//! ```text
//!  path ─► open, no link ─► identity ─ read ─► identity again: the same? ─► bytes count
//! ```

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, OFlags, fadvise};
use thalweg_record::read::{MARKER_BYTES, ReadAt, message_at};

use crate::amount::RowCounts;
use crate::error::ShipError;
use crate::message::{FileKind, Identity};

impl Identity {
    /// Of a file by what its file system says.
    pub fn of(data: &Metadata) -> Identity {
        let modified_ns = data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec());
        Identity { bytes: data.len(), modified_ns, inode: data.ino() }
    }
}

/// A file that is read to be shipped.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    path: PathBuf,
    kind: FileKind,
    identity: Identity,
}

impl LocalFile {
    /// Opens it.
    ///
    /// # Errors
    /// When it is not there, a link, or cannot be read.
    pub fn open(path: &Path, kind: FileKind) -> Result<LocalFile, ShipError> {
        let open = || {
            let flags = OFlags::NOFOLLOW.bits().cast_signed();
            let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
            let identity = Identity::of(&file.metadata()?);
            Ok((file, identity))
        };
        let (file, identity) = open().map_err(ShipError::local(path, "opening"))?;
        Ok(LocalFile { file, path: path.to_owned(), kind, identity })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it comes to be complete.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Which file it was when it was opened.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Bytes that it has now.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn bytes(&self) -> Result<u64, ShipError> {
        self.file.length().map_err(ShipError::local(&self.path, "asking for its length"))
    }

    /// Whether bytes up to `end` are still those of this file, under its name.
    ///
    /// # Errors
    /// When somebody has changed it.
    pub fn check(&self, end: u64) -> Result<(), ShipError> {
        let changed = |found: &str| ShipError::Changed { path: self.path.clone(), found: found.to_owned() };
        let open = self.file.metadata().map_err(ShipError::local(&self.path, "asking for its state"))?;
        let open = Identity::of(&open);
        if open.bytes < end || open.bytes < self.identity.bytes {
            return Err(changed("it became shorter"));
        }
        if self.kind == FileKind::Whole && open != self.identity {
            return Err(changed("it was written"));
        }
        match std::fs::symlink_metadata(&self.path) {
            Ok(named) if named.ino() == open.inode => Ok(()),
            Ok(_) => Err(changed("another file took its name")),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(changed("it was removed or moved")),
            Err(cause) => Err(ShipError::local(&self.path, "asking for its state")(cause)),
        }
    }

    /// Where the next range ends that begins at `from`, and what it holds: about `wanted` bytes, of a growing file whole messages. `None`
    /// at its end.
    ///
    /// # Errors
    /// When a table is damaged, or the system fails.
    pub fn range_end(&self, from: u64, wanted: u64) -> Result<Option<(u64, RowCounts)>, ShipError> {
        if self.kind == FileKind::Whole {
            let end = self.identity.bytes.min(from.saturating_add(wanted));
            return Ok((end > from).then_some((end, RowCounts::default())));
        }
        let (mut end, mut counts) = (from, RowCounts::default());
        while end - from < wanted {
            match message_at(&self.file, end) {
                Ok(None) => break,
                Ok(Some(message)) => {
                    counts.count(&message);
                    end = message.end;
                }
                Err(cause) => {
                    let found = format!("it is no whole table ({cause})");
                    return Err(ShipError::Damaged { path: self.path.clone(), found });
                }
            }
        }
        Ok((end > from).then_some((end, counts)))
    }

    /// What a table holds from one end of a message to another.
    ///
    /// # Errors
    /// When it is damaged, or the system fails.
    pub fn counts(&self, from: u64, to: u64) -> Result<RowCounts, ShipError> {
        let wanted = to.saturating_sub(from);
        Ok(self.range_end(from, wanted)?.map_or_else(RowCounts::default, |(_, counts)| counts))
    }

    /// What a whole table holds; `None` of a file that is none.
    pub fn table_counts(&self) -> Option<RowCounts> {
        let (end, counts) = self.range_end(0, u64::MAX).ok()??;
        (self.kind == FileKind::Growing && end + MARKER_BYTES == self.identity.bytes).then_some(counts)
    }

    /// Whether a growing file ends with the marker at `end`, once nobody writes it any more.
    ///
    /// # Errors
    /// When something lies behind it.
    pub fn check_end(&self, end: u64) -> Result<(), ShipError> {
        let (bytes, wanted) = (self.bytes()?, end + MARKER_BYTES);
        if self.kind == FileKind::Whole || bytes == wanted {
            return Ok(());
        }
        let found = format!("it has {bytes} bytes, and its last batch ends at {end}");
        Err(ShipError::Damaged { path: self.path.clone(), found })
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// When they are not there, or the system fails.
    pub fn read(&self, into: &mut [u8], offset: u64) -> Result<(), ShipError> {
        self.file.read_at(into, offset).map_err(ShipError::local(&self.path, "reading"))
    }

    /// The file, for digests.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Drops a range from the system's cache, which data taking needs more.
    pub fn forget(&self, from: u64, bytes: u64) {
        // Advice: pages that are not on the disk yet stay.
        let _ = fadvise(&self.file, from, NonZeroU64::new(bytes), Advice::DontNeed);
    }
}
