//! The few calls of the operating system that the standard library does not have.
//!
//! ```text
//!  path ──► statvfs ──► bytes, bytes left          file, range ──► sync_file_range ──► write-back begins
//! ```

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that an ordinary user can still write to the file system of `path`.
///
/// # Errors
/// When the path does not exist or the system refuses.
pub(crate) fn bytes_left(path: &Path) -> io::Result<u64> {
    disk_of(path).map(|disk| disk.left)
}

/// Bytes of the whole file system of `path`.
///
/// # Errors
/// As of [`bytes_left`].
pub(crate) fn disk_bytes(path: &Path) -> io::Result<u64> {
    disk_of(path).map(|disk| disk.all)
}

/// Bytes of a file system.
struct Disk {
    all: u64,
    left: u64,
}

fn disk_of(path: &Path) -> io::Result<Disk> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut answer = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is a string ended by 0 and the answer has space for the structure; both outlive the call.
    let result = unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the structure is filled; it was all zeros, a valid value, before.
    let answer = unsafe { answer.assume_init() };
    // Their types differ between systems.
    #[allow(clippy::unnecessary_cast)]
    let [blocks, blocks_left, block_bytes] =
        [answer.f_blocks as u64, answer.f_bavail as u64, answer.f_frsize as u64];
    Ok(Disk { all: blocks.saturating_mul(block_bytes), left: blocks_left.saturating_mul(block_bytes) })
}

/// Lets the kernel begin to write a range of a file to the disk, so that dirty pages do not pile up until a flush
/// stalls the run. A hint: nothing depends on it, errors are of no interest.
#[cfg(target_os = "linux")]
pub fn begin_write_back(file: &File, offset: u64, length: u64) {
    let (offset, length) = (offset as libc::off64_t, length as libc::off64_t);
    // SAFETY: the descriptor is open for as long as `file` is borrowed; no memory is passed.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Forces the bytes of a file to the disk.
///
/// # Errors
/// When the disk fails. What the kernel had not written then is gone: another try would succeed without it.
pub(crate) fn force(file: &File) -> io::Result<()> {
    #[cfg(test)]
    faults::fail_if_due()?;
    file.sync_data()
}

/// A disk that fails when a test says so.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static FORCES_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// On this thread so many more files are forced to the disk; every later try fails. `None`: none fails.
    pub(crate) fn fail_forces_after(forces: Option<u32>) {
        FORCES_LEFT.set(forces);
    }

    pub(super) fn fail_if_due() -> io::Result<()> {
        match FORCES_LEFT.get() {
            Some(0) => Err(io::Error::from_raw_os_error(libc::EIO)),
            left => {
                FORCES_LEFT.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }
}

/// Nothing to do where the system has no such call.
#[cfg(not(target_os = "linux"))]
pub fn begin_write_back(_file: &File, _offset: u64, _length: u64) {}
