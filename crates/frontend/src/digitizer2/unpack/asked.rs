//! Reads the sender's record for the hits in received and in missing datagrams and frames.
//!
//! ```text
//!  datagram in sequence ─► missing datagrams sent before it                 frames ─► hits in them and between them
//! ```

use std::sync::Arc;

use thalweg_data::sent::Sought;
use thalweg_data::{Counters, LossReason, SentRecord};

use super::sequence::DatagramId;
use crate::asked::{enter_hits, give_up};
use crate::digitizer2::emulate::datagram_key;
use crate::digitizer2::wire::{COUNTER_MASK, EventHeader, Format, counter_distance};

/// The first datagram of a board that is started.
const START: u64 = datagram_key(0, 0);

/// Follows the sender's record with the received data.
#[derive(Debug)]
pub(super) struct Asked {
    record: Arc<SentRecord>,
    /// The number of the next datagram and frame, after the last received one.
    datagrams: u64,
    frames: u64,
    /// The first of the consecutive received frames whose hits are not counted yet.
    entered: u64,
    /// Number of received datagrams that are not in the record: damaged ones, among those that seem to be missing.
    strange: u64,
    /// Number of sent datagrams when the record was last read: reading it costs the sender a cache miss.
    known: u64,
    /// First datagrams of a (re)started board that seem to be missing.
    missing_starts: u64,
}

impl Asked {
    pub fn new(record: Arc<SentRecord>) -> Asked {
        Asked { record, datagrams: 0, frames: 0, entered: 0, strange: 0, known: 0, missing_starts: 0 }
    }

    /// The number of missing datagrams between the last one and this one; `None` if it is not known.
    pub fn missing_before(&mut self, id: DatagramId) -> Option<u64> {
        let key = datagram_key(id.buffer, id.datagram);
        if self.datagrams < self.known && self.record.is_at(self.datagrams, key) {
            self.datagrams += 1;
            return Some(0);
        }
        self.known = self.record.datagrams();
        match self.record.find(self.datagrams, key) {
            Sought::At(number) => {
                let between = number - self.datagrams;
                let is_start = |number: &u64| self.record.is_at(*number, START);
                self.missing_starts += (self.datagrams..number).filter(is_start).count() as u64;
                self.datagrams = number + 1;
                let strange = self.strange.min(between);
                self.strange -= strange;
                Some(between - strange)
            }
            Sought::Nowhere => {
                self.strange += 1;
                None
            }
            Sought::Forgotten => {
                self.record.give_up();
                None
            }
        }
    }

    /// Looks whether the sender has started anew, when an empty datagram says so. If it has not, the datagram was sent earlier: returns the
    /// reason for which it is refused. Nothing in the datagram itself says which start it is of.
    pub fn not_anew(&mut self) -> Option<LossReason> {
        if self.record.find(self.datagrams, START) != Sought::Nowhere {
            return None;
        }
        let was_missed = self.missing_starts > 0;
        self.missing_starts -= u64::from(was_missed);
        Some(if was_missed { LossReason::Late } else { LossReason::DuplicateDatagram })
    }

    /// Takes a received frame, and counts the hits of the missing frames before it.
    #[inline]
    pub fn frame(&mut self, header: EventHeader, wire: &mut Counters) {
        if !matches!(header.format(), Format::Aggregate | Format::Scope) {
            return;
        }
        let distance = counter_distance(self.frames as u32 & COUNTER_MASK, header.counter());
        if distance > 0 {
            return self.missing_frames(distance, wire);
        }
        self.frames += 1;
    }

    #[cold]
    fn missing_frames(&mut self, distance: u32, wire: &mut Counters) {
        self.enter(wire);
        let until = self.frames + u64::from(distance);
        if distance > COUNTER_MASK / 2 {
            give_up(&self.record, distance.into(), wire);
        } else if enter_hits(&self.record, self.frames..until, Some(LossReason::FrameGap), wire) {
            (self.entered, self.frames) = (until, until + 1);
        }
    }

    /// Counts the hits of consecutive received frames.
    fn enter(&mut self, wire: &mut Counters) {
        // Reading the record costs the sender a cache miss.
        if self.entered < self.frames {
            enter_hits(&self.record, self.entered..self.frames, None, wire);
        }
        self.entered = self.frames;
    }

    /// Counts the hits of the received frames, and reports to the record how far they go.
    pub fn settle(&mut self, wire: &mut Counters) {
        self.enter(wire);
        self.record.receive_up_to(self.datagrams, self.frames);
    }
}
