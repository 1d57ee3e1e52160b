//! A range whose events were passed on, until it is written and the manager knows of it.
//!
//! ```text
//!  finish ─► Passed ─ written ─► Done ─► event manager ─ Release ─► forgotten
//! ```

use thalweg_data::{EventSum, UnitId};

use crate::unit::Assignment;
use crate::unit::message::Finished;

/// A range that was passed on whole.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    pub(super) assignment: Assignment,
    /// It is written when the host says that this position is.
    pub(super) position: u64,
    pub(super) complete: u32,
    pub(super) partial: u32,
    /// The readout units whose parts were not in it, but for so many trigger numbers from the start on.
    pub(super) absent: Vec<(UnitId, u32)>,
    pub(super) bytes: u64,
    /// What was passed on: whole events, then of each readout unit its part of them.
    pub(super) sums: Vec<EventSum>,
    pub(super) written: bool,
    pub(super) reported: bool,
    /// The manager needs no report of it any more.
    pub(super) forgotten: bool,
}

impl Passed {
    pub(super) fn is_news(&self) -> bool {
        self.written && !self.reported && !self.forgotten
    }

    /// As it is reported to the manager: whose parts were not in it, then what was written.
    pub(super) fn items(&self) -> impl Iterator<Item = Finished> + '_ {
        let Passed { complete, partial, .. } = *self;
        let Assignment { start, attempt, .. } = self.assignment;
        let absent = self.absent.iter().map(move |(readout, included)| Finished {
            start,
            complete,
            partial: *included,
            attempt,
            absent: Some(*readout),
        });
        absent.chain([Finished { start, complete, partial, attempt, absent: None }])
    }
}
