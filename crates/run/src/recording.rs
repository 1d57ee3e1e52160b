//! The operations on recordings, for programs that build on this crate alone.

use std::path::Path;

pub use thalweg_data::ledger::{LossReport, LossTotal, percent_of};
pub use thalweg_record::{
    EdgeReport, Inspection, NodesReport, RecordError, RecoverReport, RemovedTables, RunDirectory, Table,
    VerifyReport, recover, utc_text, verify, verify_nodes,
};

/// Returns the bytes that the files of a directory take together; 0 if it is not there.
pub(crate) fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|data| data.is_file())
        .map(|data| data.len())
        .sum()
}

/// Whether the raw bytes of a run are still there, as far as it says so itself.
///
/// # Errors
/// When they were removed.
pub fn check_replayable(run: &Path) -> Result<(), RecordError> {
    RemovedTables::refuse(run, Table::Raw)
}
