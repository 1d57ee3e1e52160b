//! A disk: how fast it is written and read back as a run would, over time and by position.
//!
//! ```text
//!  directory ─► Site: file system, device, disk ─┐
//!               Space: what is free, the floor ──┼► may it be measured?
//!               locked directories: recordings ──┘            │
//!                                                              ▼
//!  Scratch (locked, removed at its end) ─► files ─► write, read, both at once; buffered, direct ─► Rate over time
//!                                              └──► ten that fill what is free, FIEMAP ─► Rate by position
//!                                              └──► fio, where it is installed
//!  Rate ─► StorageVerdict against what the plan needs ─► StorageReport
//! ```
//! There is no baseline of memory beside: bytes of this pattern go to `/dev/null` without being touched, so its rate is that of system calls and
//! says nothing of a disk. `fio` is the baseline.

mod error;
mod fio;
mod kernel;
mod measure;
mod pattern;
mod report;
mod scratch;
mod series;
mod site;
mod space;
mod transfer;
mod verdict;

use std::path::PathBuf;

pub use thalweg_record::Sync;
use thalweg_record::ipc::file::CHUNK_BYTES;

pub use error::{StorageError, bytes_text};
pub use fio::FioRate;
pub use kernel::Placement;
pub use measure::measure;
pub use pattern::{BLOCK_BYTES, PATTERN};
pub use report::{DirectoryReport, PUBLISHED, Pass, Position, Published, StorageReport, Work};
pub use scratch::DIRECTORY as SCRATCH_DIRECTORY;
pub use series::{Fall, Rate};
pub use site::Site;
pub use space::KeepFree;
pub use transfer::Access;
pub use verdict::{Judgement, StorageVerdict};

/// Files that fill what is free, with `fill`.
pub const POSITIONS: u32 = 10;
/// The longest chunk, bytes.
const MOST_CHUNK_BYTES: usize = 256 << 20;

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct StorageSettings {
    /// The directories on the disks; each is measured by itself.
    pub directories: Vec<PathBuf>,
    /// Bytes of each file. Two of them are there at a time.
    pub file_bytes: u64,
    /// Bytes of one call; a multiple of [`BLOCK_BYTES`].
    pub chunk_bytes: usize,
    /// With `sync = "batch"`: forced to the disk behind so many bytes.
    pub batch_bytes: u64,
    /// When what is written is forced to the disk, as `record.sync`.
    pub sync: Sync,
    /// Buffered, direct, or both.
    pub accesses: Vec<Access>,
    /// True if the free space is filled down to the floor.
    pub is_filled: bool,
    /// The space that stays free.
    pub keep_free: KeepFree,
    /// True if `fio` measures as well.
    pub has_fio: bool,
    /// The seed of the data that are written.
    pub seed: u64,
    /// The rate that the plan needs, bytes per second.
    pub needs_bytes_per_s: Option<f64>,
}

impl Default for StorageSettings {
    /// Returns the settings with which a run without settings of its own records.
    fn default() -> StorageSettings {
        let record = thalweg_record::Settings::default();
        StorageSettings {
            directories: Vec::new(),
            file_bytes: 4 << 30,
            chunk_bytes: CHUNK_BYTES,
            batch_bytes: record.batch_bytes as u64,
            sync: record.sync,
            accesses: vec![Access::Buffered, Access::Direct],
            is_filled: false,
            keep_free: KeepFree::default(),
            has_fio: true,
            seed: 1,
            needs_bytes_per_s: None,
        }
    }
}

impl StorageSettings {
    /// Checks that this can be measured.
    ///
    /// # Errors
    /// What was found, and what to write.
    pub fn check(&self) -> Result<(), StorageError> {
        let refuse = |words: String| Err(StorageError::Settings(words));
        let StorageSettings { chunk_bytes, file_bytes, .. } = *self;
        if self.directories.is_empty() {
            return refuse("no directory is given; give one on each disk that is to be measured".to_owned());
        }
        if chunk_bytes == 0 || chunk_bytes > MOST_CHUNK_BYTES || !chunk_bytes.is_multiple_of(BLOCK_BYTES) {
            return refuse(format!(
                "a chunk of {chunk_bytes} bytes: write a multiple of {BLOCK_BYTES}, as direct I/O needs it, up to 256MiB"
            ));
        }
        if file_bytes < chunk_bytes as u64 {
            return refuse(format!(
                "{file_bytes} bytes are less than one chunk of {chunk_bytes}; write more with --bytes"
            ));
        }
        if let Sync::Seconds(seconds) = self.sync
            && !(seconds > 0.0 && seconds <= 86_400.0)
        {
            return refuse(format!(
                "forced to the disk each {seconds} s: write above 0, up to 86400 seconds"
            ));
        }
        Ok(())
    }

    /// Bytes of each file, in whole chunks.
    fn whole_file_bytes(&self) -> u64 {
        self.file_bytes / self.chunk_bytes as u64 * self.chunk_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_nobody_can_mean_are_refused_with_what_to_write() {
        let good = StorageSettings { directories: vec![PathBuf::from("/")], ..StorageSettings::default() };
        assert!(good.check().is_ok());
        let cases = [
            (StorageSettings { directories: Vec::new(), ..good.clone() }, "no directory"),
            (StorageSettings { chunk_bytes: 1000, ..good.clone() }, "multiple of 4096"),
            (StorageSettings { chunk_bytes: 0, ..good.clone() }, "multiple of 4096"),
            (StorageSettings { file_bytes: 5, ..good.clone() }, "less than one chunk"),
            (StorageSettings { sync: Sync::Seconds(0.0), ..good.clone() }, "above 0"),
            (StorageSettings { sync: Sync::Seconds(f64::NAN), ..good.clone() }, "above 0"),
        ];
        for (settings, word) in cases {
            let refused = settings.check().expect_err(word).to_string();
            assert!(refused.contains(word), "{refused}");
        }
        let odd = StorageSettings { file_bytes: 10_000, chunk_bytes: 4096, ..good };
        assert_eq!(odd.whole_file_bytes(), 8192);
    }
}
