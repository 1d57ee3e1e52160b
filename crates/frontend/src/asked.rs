//! Hits in frames that came and in those that did not, as their sender says, in the counters of the wire.
//!
//! ```text
//!  frames that came, frames that did not ─ SentRecord ─► hits, out or lost
//!                                              └ what it does not remember any more: uncounted, for good
//! ```

use std::ops::Range;

use thalweg_data::{Counters, LossReason, Noted, SentRecord, Unit};

/// Enters the hits of frames that came, or were lost for a reason; returns whether the sender knows them.
#[inline]
pub(crate) fn enter_hits(
    record: &SentRecord,
    frames: Range<u64>,
    lost: Option<LossReason>,
    wire: &mut Counters,
) -> bool {
    let Some(hits) = record.hits_between(frames.start, frames.end) else {
        give_up(record, frames.end - frames.start, wire);
        return false;
    };
    wire.input(Unit::Hits, hits);
    match lost {
        Some(reason) => wire.lost(reason, Unit::Hits, hits),
        None => wire.output(Unit::Hits, hits),
    }
    true
}

/// Nobody knows any more how many hits were in so many frames.
#[cold]
pub(crate) fn give_up(record: &SentRecord, frames: u64, wire: &mut Counters) {
    wire.noted(Noted::Uncounted, Unit::Frames, frames);
    record.give_up();
}
