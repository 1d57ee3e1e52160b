//! Counts hits in received and lost frames at the wire, by the record of their sender.
//!
//! ```text
//!  received frames, lost frames ─ SentRecord ─► hits, out or lost
//!                                  └ what the record no longer has: uncounted
//! ```

use std::ops::Range;

use thalweg_data::{Counters, LossReason, Noted, SentRecord, Unit};

/// Counts the hits of frames that were received, or lost for a reason; returns whether the record has them.
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

/// Notes frames whose number of hits is no longer known.
#[cold]
pub(crate) fn give_up(record: &SentRecord, frames: u64, wire: &mut Counters) {
    wire.noted(Noted::Uncounted, Unit::Frames, frames);
    record.give_up();
}
