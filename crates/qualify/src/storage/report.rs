//! The report of a measurement, for people, programs and the plot.
//!
//! ```text
//!  StorageReport ─┬ what was written and how, memory of the host
//!                 ├ DirectoryReport … ─┬ Site, Pass …: Rate over time
//!                 │                    ├ Position …: Rate by position on the device
//!                 │                    ├ FioRate …
//!                 │                    └ StorageVerdict
//!                 └ published figures of another machine
//! ```

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_record::Sync;

use super::fio::FioRate;
use super::kernel::Placement;
use super::series::Rate;
use super::site::Site;
use super::transfer::Access;
use super::verdict::StorageVerdict;

/// Everything.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StorageReport {
    /// Bytes of each file that is written or read.
    pub file_bytes: u64,
    /// Bytes of one call.
    pub chunk_bytes: u64,
    /// With `sync = "batch"`: forced to the disk behind so many bytes.
    pub batch_bytes: u64,
    /// When what is written is forced to the disk, as `record.sync`.
    pub sync: Sync,
    /// What is written.
    pub pattern: &'static str,
    /// The seed of the pattern.
    pub seed: u64,
    /// Memory of the host, bytes; null where the system does not say it.
    pub memory_bytes: Option<u64>,
    /// True if this is a virtual machine, whose host may cache what is written; null where it is not known.
    pub is_virtual: Option<bool>,
    /// The rate that the plan needs, bytes per second.
    pub needs_bytes_per_s: Option<f64>,
    /// One for each directory.
    pub directories: Vec<DirectoryReport>,
    /// Published figures of another machine, for comparison.
    pub published: &'static [Published],
    /// The duration, s.
    pub seconds: f64,
}

/// One directory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DirectoryReport {
    /// The site of the directory.
    pub site: Site,
    /// Bytes of its file system.
    pub total_bytes: u64,
    /// Free before.
    pub free_bytes: u64,
    /// The bytes that stayed free.
    pub floor_bytes: u64,
    /// Writing, reading, both; buffered, direct.
    pub passes: Vec<Pass>,
    /// Files that fill what is free, with `--fill`.
    pub positions: Vec<Position>,
    /// The results of `fio`; empty where it was not asked for.
    pub fio: Vec<FioRate>,
    /// Against what the plan needs.
    pub verdict: Option<StorageVerdict>,
    /// Remarks on these figures.
    pub remarks: Vec<String>,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A file is written.
    Write,
    /// It is read back.
    Read,
    /// Another one is written while the first is read back.
    Mixed,
}

impl Work {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Work::Write => "write",
            Work::Read => "read",
            Work::Mixed => "mixed",
        }
    }
}

/// One measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Pass {
    /// What is done.
    pub work: Work,
    /// Buffered or direct.
    pub access: Access,
    /// The rate of writing.
    pub write: Option<Rate>,
    /// The rate of reading.
    pub read: Option<Rate>,
    /// True if the figures are those of the disk and not of the page cache; null where it is not known.
    pub is_beyond_page_cache: Option<bool>,
    /// Why they are not, or why nothing was measured; empty otherwise.
    pub remark: String,
}

/// One of the files that fill what is free.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Position {
    /// Its number, from 0.
    pub file: u32,
    /// The position on the device of the file system; null where that is unknown.
    pub placement: Option<Placement>,
    /// Why it is unknown; empty otherwise.
    pub remark: String,
    /// The rate of writing it.
    pub write: Rate,
    /// The rate of reading it, past the page cache where the file system allows it.
    pub read: Rate,
}

/// A figure of another machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Published {
    /// The measured quantity.
    pub what: &'static str,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// The origin of the figure.
    pub source: &'static str,
}

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
const COMET: &str = "COMET Phase-I readout network (2020): another machine's disks; whether read or written is not part of the figure";

/// Published figures of storage for data taking.
pub const PUBLISHED: &[Published] = &[
    Published { what: "xfs", bytes_per_s: 1.84 * GIB, source: COMET },
    Published { what: "ext4", bytes_per_s: 1.66 * GIB, source: COMET },
    Published { what: "whole disk, mean over positions", bytes_per_s: 1.5 * GIB, source: COMET },
    Published { what: "innermost tracks", bytes_per_s: 1.1 * GIB, source: COMET },
];
