//! The operations on recordings, for programs that build on this crate alone.

pub use thalweg_data::ledger::{LossReport, LossTotal, percent_of};
pub use thalweg_record::catalogue::{DateBound, check_label, select};
pub use thalweg_record::read::Pace;
pub use thalweg_record::{
    Catalogue, EdgeReport, EntryState, Inspection, LabelChange, NodesReport, Note, Query, RecordError,
    RecoverReport, RemovedTables, RunDirectory, RunEntry, RunRecord, Table, VerifyReport, recover, utc_text,
    verify, verify_nodes,
};
