//! Two questions to the kernel that no library asks for us: where a file lies on its device, and how much of it is cached.
//!
//! ```text
//!  file ─► FIEMAP ─► extents: from, to on the device of the file system     (Documentation/filesystems/fiemap.rst)
//!       └► cachestat ─► bytes in the page cache                             (Linux 6.5 and later)
//! ```

use std::fs::File;
use std::os::fd::AsRawFd;

use schemars::JsonSchema;
use serde::Serialize;

/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: u64 = 0xC020_660B;
/// Data still in memory get their position first.
const SYNC: u32 = 1;
const LAST: u32 = 1;
/// Position not known, not given yet, encoded, or inside the inode: no position.
const WITHOUT_POSITION: u32 = 0x2 | 0x4 | 0x8 | 0x200;
/// Extents that are asked for at a time.
const EXTENTS: usize = 256;
/// The same number on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_words: [u32; 3],
}

#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// The position of a file on the device of its file system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Placement {
    /// Its first byte on the device.
    pub from_bytes: u64,
    /// The offset after its last byte on the device.
    pub to_bytes: u64,
    /// The mean position of its bytes.
    pub mean_bytes: f64,
    /// The number of contiguous runs.
    pub extents: u64,
}

/// Returns where a file lies.
///
/// # Errors
/// In words, where the file system does not say it.
pub(super) fn placement(file: &File) -> Result<Placement, String> {
    let mut found: Option<(Placement, f64)> = None;
    let mut start = 0;
    loop {
        let request = mapped(file, start).map_err(|cause| match cause.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL) => {
                "this file system does not say where files lie (FIEMAP)".to_owned()
            }
            _ => format!("where the file lies (FIEMAP): {cause}"),
        })?;
        let extents = &request.extents[..(request.mapped as usize).min(EXTENTS)];
        for extent in extents {
            if extent.flags & WITHOUT_POSITION != 0 {
                return Err("a part of the file has no position on the device yet".to_owned());
            }
            found = Some(joined(found, extent));
        }
        match extents.last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical + last.length,
            _ => break,
        }
    }
    match found {
        Some((placement, weight)) => Ok(Placement { mean_bytes: placement.mean_bytes / weight, ..placement }),
        None => Err("the file has no position on a device".to_owned()),
    }
}

/// The placement with one more extent, its mean still a sum over bytes, and those bytes.
fn joined(found: Option<(Placement, f64)>, extent: &Extent) -> (Placement, f64) {
    let (from, to, length) = (extent.physical, extent.physical + extent.length, extent.length as f64);
    let sum = length * (from as f64 + length / 2.0);
    match found {
        None => (Placement { from_bytes: from, to_bytes: to, mean_bytes: sum, extents: 1 }, length),
        Some((old, weight)) => {
            let placement = Placement {
                from_bytes: old.from_bytes.min(from),
                to_bytes: old.to_bytes.max(to),
                mean_bytes: old.mean_bytes + sum,
                extents: old.extents + 1,
            };
            (placement, weight + length)
        }
    }
}

fn mapped(file: &File, start: u64) -> std::io::Result<Request> {
    let mut request = Request {
        start,
        length: u64::MAX - start,
        flags: SYNC,
        mapped: 0,
        count: EXTENTS as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENTS],
    };
    // SAFETY: the request is laid out as the kernel's struct fiemap with space for `count` extents behind its head, and outlives the
    // call; the descriptor is open for as long as `file` is borrowed.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut request) };
    if answer == 0 { Ok(request) } else { Err(std::io::Error::last_os_error()) }
}

/// Bytes of a file that are in the page cache; `None` where the kernel does not say it.
pub(super) fn cached_bytes(file: &File) -> Option<u64> {
    // struct cachestat_range: offset, and length, of which 0 is to the end. struct cachestat: pages cached, and four more counts.
    let range = [0_u64; 2];
    let mut counts = [0_u64; 5];
    // SAFETY: both are laid out as the kernel's structs and outlive the call; the descriptor is open.
    let answer =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0_u32) };
    (answer == 0).then(|| counts[0] * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_position_is_weighted_by_bytes() {
        let extent = |physical, length| Extent { physical, length, ..Extent::default() };
        let one = joined(None, &extent(1000, 100));
        let (both, weight) = joined(Some(one), &extent(5000, 300));
        assert_eq!((both.from_bytes, both.to_bytes, both.extents, weight), (1000, 5300, 2, 400.0));
        assert_eq!(both.mean_bytes / weight, (100.0 * 1050.0 + 300.0 * 5150.0) / 400.0);
    }

    #[test]
    fn a_file_has_a_position_or_it_is_said_why_not() {
        let mut file = tempfile::tempfile().expect("temporary file");
        std::io::Write::write_all(&mut file, &vec![1; 1 << 20]).expect("written");
        file.sync_all().expect("forced");
        match placement(&file) {
            Ok(found) => {
                assert!(found.to_bytes - found.from_bytes >= 1 << 20 && found.extents > 0, "{found:?}")
            }
            Err(why) => assert!(!why.is_empty()),
        }
        assert!(cached_bytes(&file).is_none_or(|bytes| bytes <= 2 << 20));
    }
}
