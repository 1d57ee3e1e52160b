//! The calls of the operating system by which run files are written, and the few that the standard library does not have.
//!
//! ```text
//!  path ──► statvfs ──► bytes, bytes left          file, range ──► sync_file_range ──► write-back begins
//!  create, write, force, rename ──► [ in tests: faults ] ──► disk
//! ```

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(any(test, feature = "harness"))]
use crate::faults::{self, Operation};

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

/// Lets the kernel forget the first `length` bytes of a file that are on the disk already: they are not read soon. What is not there yet stays. A
/// hint, as [`begin_write_back`] is. A length of 0 would be all of the file.
#[cfg(target_os = "linux")]
pub(crate) fn forget_cached(file: &File, length: NonZeroU64) {
    use rustix::fs::{Advice, fadvise};
    let _hint = fadvise(file, 0, Some(length), Advice::DontNeed);
}

/// Makes a file that must not exist, for writing.
///
/// # Errors
/// When it exists or the system refuses.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    #[cfg(any(test, feature = "harness"))]
    faults::fail_if_due(Operation::Open)?;
    File::options().write(true).create_new(true).open(path)
}

/// Makes a file for writing, or empties the one that is there.
///
/// # Errors
/// When the system refuses.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    #[cfg(any(test, feature = "harness"))]
    faults::fail_if_due(Operation::Open)?;
    File::create(path)
}

/// Gives a file another name, in place of one that has it.
///
/// # Errors
/// When the system refuses.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "harness"))]
    faults::fail_if_due(Operation::Rename)?;
    std::fs::rename(from, to)
}

/// Writes all bytes at this offset, however few the system takes at a time.
///
/// # Errors
/// When the disk is full or fails.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(any(test, feature = "harness"))]
    if let Some(fault) = faults::due(Operation::Write) {
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all_at(first, offset)?;
        fault.result()?;
        return file.write_all_at(rest, offset + first.len() as u64);
    }
    file.write_all_at(bytes, offset)
}

/// Writes bytes where the file stands; returns how many.
///
/// # Errors
/// When the disk is full or fails.
pub(crate) fn write_vectored(file: &mut File, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    #[cfg(any(test, feature = "harness"))]
    if let (Some(fault), Some(first)) = (faults::due(Operation::Write), parts.first()) {
        let written = file.write(&first[..first.len().div_ceil(2)])?;
        return fault.result().map(|()| written);
    }
    file.write_vectored(parts)
}

/// Forces the bytes of a file to the disk.
///
/// # Errors
/// When the disk fails. What the kernel had not written then is gone: another try would succeed without it.
pub(crate) fn force(file: &File) -> io::Result<()> {
    #[cfg(any(test, feature = "harness"))]
    faults::fail_if_due(Operation::Force)?;
    file.sync_data()
}

/// Forces the bytes of a file, or the names in a directory, and all that the system knows of it to the disk.
///
/// # Errors
/// As of [`force`].
pub(crate) fn force_all(file: &File) -> io::Result<()> {
    #[cfg(any(test, feature = "harness"))]
    faults::fail_if_due(Operation::Force)?;
    file.sync_all()
}

/// Nothing to do where the system has no such call.
#[cfg(not(target_os = "linux"))]
pub fn begin_write_back(_file: &File, _offset: u64, _length: u64) {}

/// Nothing to do on other systems.
#[cfg(not(target_os = "linux"))]
pub(crate) fn forget_cached(_file: &File, _length: NonZeroU64) {}
