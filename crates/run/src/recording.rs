//! What can be done with recordings, for those who build on this crate alone.

use std::path::Path;

pub use thalweg_data::ledger::{LossReport, LossTotal};
use thalweg_record::Table;

pub use thalweg_record::{
    Inspection, RecordError, RecoverReport, RemovedTables, RunDirectory, VerifyReport, recover, verify,
};

/// Whether the raw bytes of a run are still there, as far as it says so itself.
///
/// # Errors
/// When they were removed.
pub fn check_replayable(run: &Path) -> Result<(), RecordError> {
    RemovedTables::refuse(run, Table::Raw)
}
