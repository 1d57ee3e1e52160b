//! The errors that keep a run from being started.

use thalweg_data::ledger::LedgerError;
use thalweg_readout::pool_refusal;
use thalweg_record::RecordError;

use crate::config::ConfigError;

/// A run that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// A source could not be opened.
    #[error(transparent)]
    Source(#[from] thalweg_data::SourceError),
    /// Another program uses a board.
    #[error("the run was not started, and no board was changed: \"{name}\", {error}")]
    BoardInUse {
        /// The source.
        name: String,
        /// What the board reports.
        error: thalweg_data::ControlError,
    },
    /// A board was not armed or started.
    #[error("the run was not started, and no board is left armed: \"{name}\", {error}")]
    Board {
        /// The source, with a number if it has several boards.
        name: String,
        /// What it answered.
        error: thalweg_data::ControlError,
    },
    /// The recording could not be started or closed.
    #[error("{}", .0.with_advice())]
    Record(#[from] RecordError),
    /// Time cannot be cut like that.
    #[error(transparent)]
    Slices(#[from] thalweg_build::slices::SliceError),
    /// The builder cannot be like that.
    #[error("[build]: {0}")]
    Build(#[from] thalweg_build::BuildError),
    /// BUSY cannot be sent to the trigger.
    #[error("[busy]: {0}")]
    Busy(#[from] thalweg_readout::busy::BusyError),
    /// The units do not make a system.
    #[error(transparent)]
    UnitPlan(#[from] crate::plan::UnitPlanError),
    /// The units' rules cannot work.
    #[error(transparent)]
    UnitRules(#[from] thalweg_build::unit::SettingsError),
    /// A unit cannot be reached or reach others.
    #[error("[[unit]]: {0}")]
    Peer(#[from] thalweg_transport::peer::PeerError),
    /// Memory for what a unit receives.
    #[error("[[unit]] memory_bytes: {}", pool_refusal(.0))]
    Memory(#[from] thalweg_data::PoolError),
    /// Emulated boards could not be hosted.
    #[error(transparent)]
    Host(#[from] thalweg_readout::host::HostError),
    /// The system does not let a thread stand where it is to.
    #[error("[threads]: {0}")]
    Place(#[from] thalweg_transport::placement::PlaceError),
    /// The ledger could not be made.
    #[error(transparent)]
    Ledger(LedgerError),
    /// The assembled run differs from the topology that it declares.
    #[error("the run was not assembled as its topology says, a defect, please report it: {}", .0.join("; "))]
    Claims(Vec<String>),
    /// The system gave no thread.
    #[error("no thread for \"{name}\": {cause}; end other programs or lower `workers`")]
    Thread {
        /// The purpose of the thread.
        name: String,
        /// The error of the system.
        cause: std::io::Error,
    },
}

impl From<LedgerError> for RunError {
    /// A full disk is that of the recording, where the ledger lies.
    fn from(error: LedgerError) -> RunError {
        match error {
            LedgerError::Full { path } => RunError::Record(RecordError::Full { path }),
            other => RunError::Ledger(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_without_room_names_the_directory_of_the_recording() {
        let error = RunError::from(LedgerError::Full { path: "runs/00001/ledger.bin".into() });
        assert_eq!(
            error.to_string(),
            "runs/00001/ledger.bin: no space left on the disk; free some, or name another directory: \
             `[record] directory`, of a replay --directory"
        );
    }
}
