//! A sender that can be asked what was in the datagrams and frames that came, and in those that did not.
//!
//! ```text
//!  datagram at its turn ─► how many were sent before it and did not come      frames ─► how many hits were in them and between them
//! ```

use std::sync::Arc;

use thalweg_data::sent::Sought;
use thalweg_data::{Counters, LossReason, SentRecord};

use super::sequence::Place;
use crate::asked::{enter_hits, give_up};
use crate::digitizer2::emulate::datagram_key;
use crate::digitizer2::wire::{COUNTER_MASK, EventHeader, Format, counter_distance};

/// Follows what was sent, beside what came.
#[derive(Debug)]
pub(super) struct Asked {
    record: Arc<SentRecord>,
    /// Datagrams and frames up to the last that came: the number of the next.
    datagrams: u64,
    frames: u64,
    /// The first of the frames in a row that came, and whose hits are not entered yet.
    entered: u64,
    /// Datagrams that came and stand nowhere: some of those that seem to be missing.
    strange: u64,
    /// So many datagrams were sent when it was last looked at: to look costs the sender its place in the cache.
    known: u64,
}

impl Asked {
    pub fn new(record: Arc<SentRecord>) -> Asked {
        Asked { record, datagrams: 0, frames: 0, entered: 0, strange: 0, known: 0 }
    }

    /// How many datagrams between the last one and this one did not come; `None` where that is not known.
    pub fn missing_before(&mut self, place: Place) -> Option<u64> {
        let key = datagram_key(place.buffer, place.datagram);
        if self.datagrams < self.known && self.record.is_at(self.datagrams, key) {
            self.datagrams += 1;
            return Some(0);
        }
        self.known = self.record.datagrams();
        match self.record.find(self.datagrams, key) {
            Sought::At(number) => {
                let between = number - self.datagrams;
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

    /// A frame has come: enters the hits of those before it that did not.
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

    /// Enters the hits of frames in a row that have come.
    fn enter(&mut self, wire: &mut Counters) {
        // To look at the record costs the sender its place in the cache.
        if self.entered < self.frames {
            enter_hits(&self.record, self.entered..self.frames, None, wire);
        }
        self.entered = self.frames;
    }

    /// Enters what has come, and tells the record how far that is.
    pub fn settle(&mut self, wire: &mut Counters) {
        self.enter(wire);
        self.record.hear(self.datagrams, self.frames);
    }
}
