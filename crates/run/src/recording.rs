//! What can be done with recordings, for those who build on this crate alone.

pub use thalweg_record::{
    Inspection, RecordError, RecoverReport, RunDirectory, VerifyReport, recover, verify,
};
