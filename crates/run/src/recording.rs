//! The operations on recordings, for programs that build on this crate alone.

use std::path::Path;

pub use thalweg_data::ledger::{LossReport, LossTotal, percent_of};
pub use thalweg_record::catalogue::{DateBound, check_label, select};
pub use thalweg_record::{
    Catalogue, EdgeReport, EntryState, Inspection, LabelChange, NodesReport, Note, Query, RecordError,
    RecoverReport, RemovedTables, RunDirectory, RunEntry, RunRecord, Table, VerifyReport, recover, utc_text,
    verify, verify_nodes,
};

/// Whether the raw bytes of a run are still there, as far as it says so itself.
///
/// # Errors
/// When they were removed.
pub fn check_replayable(run: &Path) -> Result<(), RecordError> {
    RemovedTables::refuse(run, Table::Raw)
}
