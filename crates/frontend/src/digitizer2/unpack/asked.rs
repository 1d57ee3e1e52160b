//! A sender that can be asked what was in the datagrams and frames that came, and in those that did not.
//!
//! ```text
//!  datagram at its turn ─► how many were sent before it and did not come      frames ─► how many hits were in them and between them
//! ```

use std::sync::Arc;

use thalweg_data::sent::Sought;
use thalweg_data::{Counters, LossReason, Noted, SentRecord, Unit};

use super::sequence::Place;
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
        match self.record.hits_between(self.frames, until).filter(|_| distance <= COUNTER_MASK / 2) {
            Some(hits) => {
                wire.input(Unit::Hits, hits);
                wire.lost(LossReason::FrameGap, Unit::Hits, hits);
                (self.entered, self.frames) = (until, until + 1);
            }
            None => self.give_up(u64::from(distance), wire),
        }
    }

    /// Enters the hits of frames in a row that have come.
    fn enter(&mut self, wire: &mut Counters) {
        let came = self.frames - self.entered;
        // To look at the record costs the sender its place in the cache.
        if came == 0 {
            return;
        }
        match self.record.hits_between(self.entered, self.frames) {
            Some(hits) => {
                wire.input(Unit::Hits, hits);
                wire.output(Unit::Hits, hits);
            }
            None => self.give_up(came, wire),
        }
        self.entered = self.frames;
    }

    /// Nobody knows any more how many hits were in these frames.
    #[cold]
    fn give_up(&self, frames: u64, wire: &mut Counters) {
        wire.noted(Noted::Uncounted, Unit::Frames, frames);
        self.record.give_up();
    }

    /// Enters what has come, and tells the record how far that is.
    pub fn settle(&mut self, wire: &mut Counters) {
        self.enter(wire);
        self.record.hear(self.datagrams, self.frames);
    }
}
