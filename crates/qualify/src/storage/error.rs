//! Why a disk was not measured: what was seen, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a disk was not measured.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The settings are invalid.
    #[error("{0}")]
    Settings(String),
    /// The directory is not there, or is none.
    #[error("{path}: {found}; give a directory on the disk that is to be measured")]
    Directory {
        /// The path given.
        path: PathBuf,
        /// The kind of file found there.
        found: String,
    },
    /// Too little is free.
    #[error(
        "{path}: {} free of {}, and the measurement takes {} at its peak: {} would be left, and {} stay free (--keep-free); write less with --bytes, or keep less free",
        text(.free_bytes), text(.total_bytes), text(.takes_bytes), left(*.free_bytes, *.takes_bytes), text(.floor_bytes)
    )]
    Floor {
        /// The directory.
        path: PathBuf,
        /// Free now.
        free_bytes: u64,
        /// The whole file system.
        total_bytes: u64,
        /// The bytes to be written.
        takes_bytes: u64,
        /// The bytes that are to stay free.
        floor_bytes: u64,
    },
    /// Others have written meanwhile.
    #[error(
        "{path}: others have written to this disk meanwhile, and only {free} are free; the measurement ended at its floor of {floor} (--keep-free), and its files are removed"
    )]
    FloorReached {
        /// The directory.
        path: PathBuf,
        /// The free space, as text.
        free: String,
        /// The space that is to stay free.
        floor: String,
    },
    /// Somebody records to the disk, or reads a recording of it.
    #[error(
        "{path}: {holder} {does} {directory} on the same disk ({disk}), which a measurement would disturb; end it first, or measure another disk"
    )]
    Occupied {
        /// The directory that was to be measured.
        path: PathBuf,
        /// Name and number of the process.
        holder: String,
        /// `records to`, `reads` or `has locked`.
        does: &'static str,
        /// The directory that it has open.
        directory: String,
        /// Name of the disk.
        disk: String,
    },
    /// Another measurement runs in the same directory.
    #[error("{0}: another measurement runs in this directory now; wait for its end")]
    Running(PathBuf),
    /// A measurement's directory is there that is not clearly ours.
    #[error("{path}: {found}; it is left as it is: look at it, and remove or rename it")]
    LeftOver {
        /// The directory.
        path: PathBuf,
        /// The fault found.
        found: String,
    },
    /// The disk is full.
    #[error(
        "{path}: no space left after {written}, although enough was free: a quota, or others that write; the files are removed: see `df` and `quota`, and write less with --bytes"
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// Bytes written, as text.
        written: String,
    },
    /// The system refuses, or the disk fails.
    #[error("{path}: {action}: {cause}; {advice}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The error of the system.
        cause: io::Error,
        /// The advice.
        advice: &'static str,
    },
    /// The disk has given back something else than was written.
    #[error(
        "{path}: at byte {offset} something else comes back than was written; this disk alters data: record nothing to it, and see `dmesg` and `smartctl -a`"
    )]
    Altered {
        /// The file.
        path: PathBuf,
        /// The offset at which it begins.
        offset: u64,
    },
    /// Stopped by who started it.
    #[error("stopped; the files of the measurement are removed")]
    Stopped,
}

impl StorageError {
    /// Makes an error of the system on a file, with advice on what to do.
    pub(super) fn io(path: &Path, action: &'static str, cause: io::Error) -> StorageError {
        let advice = match cause.raw_os_error() {
            Some(libc::EIO) => {
                "the disk fails: see `dmesg` and `smartctl -a`, and record nothing to it until it is replaced"
            }
            Some(libc::EROFS) => {
                "the file system is mounted read-only: mount it for writing (`mount -o remount,rw`)"
            }
            Some(libc::EACCES | libc::EPERM) => {
                "give a directory that you may write to, or run as the user that records"
            }
            Some(libc::EDQUOT) => "your quota is used up: see `quota`",
            Some(libc::EFBIG) => "files may not be so long here: see `ulimit -f`, or write less with --bytes",
            _ => "look at the disk with `df` and `dmesg`",
        };
        StorageError::Io { path: path.to_owned(), action, cause, advice }
    }
}

fn text(bytes: &u64) -> String {
    bytes_text(*bytes as f64)
}

fn left(free_bytes: u64, takes_bytes: u64) -> String {
    free_bytes.checked_sub(takes_bytes).map_or("nothing".to_owned(), |left| text(&left))
}

/// Formats a number of bytes: `4.29 GB`.
pub fn bytes_text(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| bytes >= *scale).unwrap_or((1.0, "B"));
    let scaled = bytes / scale;
    match scale {
        1.0 => format!("{scaled:.0} {unit}"),
        _ if scaled >= 99.95 => format!("{scaled:.0} {unit}"),
        _ if scaled >= 9.995 => format!("{scaled:.1} {unit}"),
        _ => format!("{scaled:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        let text = [0.0, 999.0, 4_294_967_296.0, 24e9, 512e9, 99_960.0].map(bytes_text);
        assert_eq!(text, ["0 B", "999 B", "4.29 GB", "24.0 GB", "512 GB", "100 kB"]);
    }

    #[test]
    fn a_failing_disk_and_a_missing_right_get_different_advice() {
        let of = |code| {
            StorageError::io(Path::new("/d"), "writing", io::Error::from_raw_os_error(code)).to_string()
        };
        assert!(
            of(libc::EIO).contains("smartctl") && of(libc::EROFS).contains("remount"),
            "{}",
            of(libc::EIO)
        );
        assert!(of(libc::EACCES).contains("may write to"), "{}", of(libc::EACCES));
    }
}
