//! The file system of this host.
//!
//! ```text
//!  write_at ─► fdatasync ─► posix_fadvise(DONTNEED) ─► read_at: from the disk
//! ```
//! A file system that keeps no cache, or whose server keeps one (NFS), gives back what it has.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Advice, OFlags, fadvise};

use super::{Disk, DiskFile};

/// The files of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDisk;

impl HostDisk {
    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        // A link that somebody has put there leads nowhere.
        options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        options
    }
}

impl Disk for HostDisk {
    type File = File;

    fn open(&self, path: &Path) -> io::Result<File> {
        HostDisk::options().open(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        match fs::remove_file(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
            _ => HostDisk::options().create_new(true).open(path),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            self.make_directory(above)?;
            match fs::create_dir(path) {
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                made => made?,
            }
            return self.sync_directory(above);
        }
        fs::create_dir(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl DiskFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn forget(&self, from: u64, bytes: u64) {
        // Advice: where a file system takes none, the bytes are read from its cache.
        let _ = fadvise(self, from, NonZeroU64::new(bytes), Advice::DontNeed);
    }
}
