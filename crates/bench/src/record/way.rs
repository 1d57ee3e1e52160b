//! How a turn of recording is measured: where, with which settings, and at which pace its data are offered.
//!
//! ```text
//!  Free    batch, batch, batch …                      as fast as they are taken
//!  Paced   batch ··· batch ··· batch ···               0.8 of what the disk takes, subject and baseline alike
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use thalweg_data::measure::{Clock, Comparison, Measurement, compare, median};
use thalweg_record::Settings;

use super::is_in_memory;

/// Fraction of what the disk takes that is offered.
const FRACTION_OF_DISK: f64 = 0.8;
/// The number of bytes by which the rate of a disk is found, and those of one write.
const PROBE_BYTES: usize = 512 << 20;
const PROBE_WRITE_BYTES: usize = 1 << 20;

/// Where, how often, and how.
#[derive(Clone, Debug)]
pub struct Way {
    /// The directory for files.
    pub parent: PathBuf,
    /// Counted repeats.
    pub repeats: usize,
    /// What is recorded, and how.
    pub settings: Settings,
    /// The pace of the data.
    pub pace: Pace,
}

/// The pace at which data are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as they are taken.
    Free,
    /// So many bytes per second.
    Paced {
        /// Those of the data.
        bytes_per_s: f64,
        /// Those that the disk took just before.
        disk_bytes_per_s: f64,
    },
}

impl Pace {
    /// A fraction of what the disk of a folder takes now, to the last byte.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn of_disk(folder: &Path) -> io::Result<Pace> {
        let disk_bytes_per_s = disk_rate(folder)?;
        Ok(Pace::Paced { bytes_per_s: FRACTION_OF_DISK * disk_bytes_per_s, disk_bytes_per_s })
    }

    /// Begins to offer data.
    pub(super) fn begin(self) -> Pacer {
        Pacer { pace: self, start: Instant::now(), processor_s: processor_seconds(), offered: 0 }
    }
}

/// Data on offer.
pub(super) struct Pacer {
    pace: Pace,
    start: Instant,
    /// Of this process, at the start.
    processor_s: f64,
    offered: usize,
}

/// What a turn took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub wall: Duration,
    /// Processor time of all threads of this process, seconds.
    pub processor_s: f64,
}

impl Pacer {
    /// Waits until these bytes are due.
    pub(super) fn wait_for(&mut self, bytes: usize) {
        if let Pace::Paced { bytes_per_s, .. } = self.pace {
            let due = self.start + Duration::from_secs_f64(self.offered as f64 / bytes_per_s);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        self.offered += bytes;
    }

    /// What the turn took, up to now.
    pub(super) fn spent(&self) -> Spent {
        Spent { wall: self.start.elapsed(), processor_s: processor_seconds() - self.processor_s }
    }
}

/// Two subjects that took turns, and the processor time of each.
pub(super) struct Compared {
    pub comparison: Comparison,
    /// Seconds of all threads of this process, subject and baseline.
    processor_s: [f64; 2],
}

impl Way {
    /// With these settings in this directory, as fast as possible.
    pub fn free(parent: &Path, repeats: usize, settings: Settings) -> Way {
        Way { parent: parent.to_owned(), repeats, settings, pace: Pace::Free }
    }

    /// Makes a subject and its baseline take turns.
    pub(super) fn compare(
        &self,
        mut subject: impl FnMut() -> Spent,
        mut baseline: impl FnMut() -> Spent,
    ) -> Compared {
        let mut processor = [Vec::new(), Vec::new()];
        let [of_subject, of_baseline] = &mut processor;
        let comparison = compare(
            Clock::Wall,
            self.repeats,
            || timed(&mut subject, of_subject),
            || timed(&mut baseline, of_baseline),
        );
        // The first turn of each does not count.
        let processor_s = processor.map(|mut turns| median(&mut turns[1..]));
        Compared { comparison, processor_s }
    }

    /// Adds to a figure how it was measured; `bytes` are those of a turn.
    pub(super) fn described(&self, measurement: Measurement, compared: &Compared, bytes: f64) -> Measurement {
        let [subject, baseline] = compared.processor_s.map(|seconds| 1e9 * seconds / bytes);
        let measurement = measurement
            .with("directory", self.parent.display().to_string())
            .with("file_system_in_memory", is_in_memory(&self.parent))
            .with("compression", format!("{:?}", self.settings.compression).to_lowercase())
            .with("sync", "at the end")
            .with("processor_ns_per_byte", subject)
            .with("baseline_processor_ns_per_byte", baseline)
            .repeated(self.repeats);
        match self.pace {
            Pace::Free => measurement.with("pace", "free"),
            Pace::Paced { bytes_per_s, disk_bytes_per_s } => measurement
                .with("pace", "0.8 of the disk")
                .with("offered_bytes_per_s", bytes_per_s)
                .with("disk_bytes_per_s", disk_bytes_per_s),
        }
    }
}

/// Bytes per second that the disk takes, to the last one.
pub(crate) fn disk_rate(folder: &Path) -> io::Result<f64> {
    let path = folder.join(format!("thalweg-bench-probe-{}", std::process::id()));
    let chunk = vec![0x5a; PROBE_WRITE_BYTES];
    let write = || {
        let mut file = File::create(&path)?;
        let start = Instant::now();
        for _ in 0..PROBE_BYTES / PROBE_WRITE_BYTES {
            file.write_all(&chunk)?;
        }
        file.sync_data()?;
        Ok(PROBE_BYTES as f64 / start.elapsed().as_secs_f64())
    };
    let rate = write();
    let removed = fs::remove_file(&path);
    rate.and_then(|rate| removed.map(|()| rate))
}

/// Takes a turn, and notes its processor time.
fn timed(turn: &mut dyn FnMut() -> Spent, processor_s: &mut Vec<f64>) -> Duration {
    let spent = turn();
    processor_s.push(spent.processor_s);
    spent.wall
}

/// Processor time of all threads of this process, seconds.
pub(crate) fn processor_seconds() -> f64 {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + 1e-6 * time.tv_usec() as f64;
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask for its own time");
    seconds(usage.user_time()) + seconds(usage.system_time())
}
