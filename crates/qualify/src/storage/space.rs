//! The free space, and the part of it that stays free.
//!
//! ```text
//!  statvfs ─► total, free ─┐
//!  --keep-free ─► floor ───┴► may so many bytes be written?
//! ```

use std::path::Path;

use super::error::{StorageError, bytes_text};

/// The default of what stays free: this part of the file system, or these bytes, whichever is more.
const KEPT_PART: f64 = 0.1;
const KEPT_BYTES: f64 = 5e9;

/// The space that stays free.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum KeepFree {
    /// A tenth of the file system, or 5 GB, whichever is more.
    #[default]
    Cautious,
    /// This number of bytes.
    Bytes(u64),
    /// This part of the file system.
    Part(f64),
}

impl KeepFree {
    fn floor_bytes(self, total_bytes: u64) -> u64 {
        let part = |part: f64| (total_bytes as f64 * part).ceil();
        match self {
            KeepFree::Cautious => part(KEPT_PART).max(KEPT_BYTES) as u64,
            KeepFree::Bytes(bytes) => bytes,
            KeepFree::Part(fraction) => part(fraction) as u64,
        }
    }
}

/// The bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Space {
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub floor_bytes: u64,
}

impl Space {
    pub(super) fn of(directory: &Path, keep_free: KeepFree) -> Result<Space, StorageError> {
        let found = rustix::fs::statvfs(directory)
            .map_err(|cause| StorageError::io(directory, "asking how much is free", cause.into()))?;
        if found.f_blocks == 0 {
            return Err(StorageError::Directory {
                path: directory.to_owned(),
                found: "this file system does not say how much is free, so no floor can be kept".to_owned(),
            });
        }
        let total_bytes = found.f_blocks * found.f_frsize;
        let free_bytes = found.f_bavail * found.f_frsize;
        Ok(Space { total_bytes, free_bytes, floor_bytes: keep_free.floor_bytes(total_bytes) })
    }

    /// Returns how many bytes may be written.
    pub(super) fn usable_bytes(&self) -> u64 {
        self.free_bytes.saturating_sub(self.floor_bytes)
    }

    /// Refuses to write more than keeps the floor.
    pub(super) fn allow(&self, directory: &Path, takes_bytes: u64) -> Result<(), StorageError> {
        if takes_bytes <= self.usable_bytes() {
            return Ok(());
        }
        let Space { total_bytes, free_bytes, floor_bytes } = *self;
        Err(StorageError::Floor {
            path: directory.to_owned(),
            free_bytes,
            total_bytes,
            takes_bytes,
            floor_bytes,
        })
    }

    /// Refuses to go on below the floor: others may write, too.
    pub(super) fn expect_floor(directory: &Path, floor_bytes: u64) -> Result<(), StorageError> {
        let now = Space::of(directory, KeepFree::Bytes(floor_bytes))?;
        if now.free_bytes >= floor_bytes {
            return Ok(());
        }
        Err(StorageError::FloorReached {
            path: directory.to_owned(),
            free: bytes_text(now.free_bytes as f64),
            floor: bytes_text(floor_bytes as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_a_tenth_or_five_gigabytes_whichever_is_more() {
        let floor = |keep: KeepFree, total| keep.floor_bytes(total);
        assert_eq!(floor(KeepFree::Cautious, 20_000_000_000), 5_000_000_000);
        assert_eq!(floor(KeepFree::Cautious, 1_000_000_000_000), 100_000_000_000);
        assert_eq!(floor(KeepFree::Bytes(7), 100), 7);
        assert_eq!(floor(KeepFree::Part(0.25), 1000), 250);
    }

    #[test]
    fn what_would_go_below_the_floor_is_refused_with_what_is_free_and_what_would_be_left() {
        let space =
            Space { total_bytes: 100_000_000_000, free_bytes: 30_000_000_000, floor_bytes: 10_000_000_000 };
        assert!(space.allow(Path::new("/data"), 20_000_000_000).is_ok());
        let said = space.allow(Path::new("/data"), 25_000_000_000).expect_err("too much").to_string();
        for expected in
            ["/data", "30.0 GB free of 100 GB", "takes 25.0 GB", "5.00 GB would be left", "10.0 GB stay free"]
        {
            assert!(said.contains(expected), "{expected}: {said}");
        }
        assert!(
            space
                .allow(Path::new("/data"), 40_000_000_000)
                .is_err_and(|why| why.to_string().contains("nothing would be left"))
        );
    }
}
