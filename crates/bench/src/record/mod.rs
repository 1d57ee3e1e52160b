//! Measures how fast data become files, against writing the same bytes as they are.
//!
//! ```text
//!  hits in memory ────► HitWriter ────► file            value
//!  events of hits ────► CoincidenceWriter ► file         value
//!  events in blocks ──► EventWriter ──► files           value
//!  events in blocks ──► EventWriter, workers ► files, compressed
//!  bytes in memory ───► write, writev ──► file          baseline: as many bytes, the same sync policy
//! ```

mod coincidences;
mod compressed;
pub(crate) mod events;
mod hits;
mod turn;
mod way;

pub use coincidences::{record_coincidences, record_coincidences_in};
pub use compressed::record_compressed_in;
pub use events::{EventShape, record_events, record_events_in};
pub use hits::{change_of_files_in, record, record_in};
pub use way::{Pace, Way};
pub(crate) use way::{disk_rate, processor_seconds};

use std::fs;
use std::path::{Path, PathBuf};

use thalweg_data::measure::warm_memory;

use nix::sys::statfs::{TMPFS_MAGIC, statfs};

/// Names the directory of the bench; without it, the one for temporary files is taken.
pub const DIRECTORY_VARIABLE: &str = "THALWEG_BENCH_DIRECTORY";

/// Returns the directory in which a bench writes by default.
fn default_directory() -> PathBuf {
    std::env::var_os(DIRECTORY_VARIABLE).map_or_else(std::env::temp_dir, PathBuf::from)
}

/// An empty directory in `directory`, for so many bytes; where that is memory, they are there.
fn fresh(directory: &Path, bytes: usize) -> PathBuf {
    let run = directory.join("run");
    let _ = fs::remove_dir_all(&run);
    fs::create_dir_all(&run).expect("the directory of a bench can be written");
    if is_in_memory(&run) {
        warm_memory(bytes);
    }
    run
}

/// Returns true if a directory lies in memory; figures of writing mean something else there.
fn is_in_memory(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC)
}
