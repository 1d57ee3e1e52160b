//! Where a datagram belongs, and how many are missing before it.
//!
//! ```text
//!  (buffer id, datagram id) ─► next | gap of n datagrams, m buffers | restart | refused: duplicate, late, not believed
//! ```
//! Datagram ids count from 0 in each buffer, so a gap inside a buffer is exact; the length of a buffer is not sent, so of a
//! buffer whose end was missed, or that was missed whole, one datagram at least is counted.
//!
//! The hash vouches for the data and the datagram id but not for the buffer id. A jump is therefore held against the datagram
//! behind it where that is at hand, and a place nobody expects is taken up only when others follow it.

use std::collections::VecDeque;

use thalweg_data::LossReason;

use crate::digitizer2::wire::COUNTER_MASK;

/// A datagram's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub buffer: u16,
    pub datagram: u32,
}

impl Place {
    const START: Place = Place { buffer: 0, datagram: 0 };

    fn next(self, last: bool) -> Place {
        match last {
            true => Place { buffer: self.buffer.wrapping_add(1), datagram: 0 },
            false => Place { datagram: (self.datagram + 1) & COUNTER_MASK, ..self },
        }
    }
}

/// What is known of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub place: Place,
    /// It ends its buffer.
    pub last: bool,
    /// It has no data: the board is idle, or has cleared its memory.
    pub empty: bool,
    /// Its hash, to tell a repeated first datagram from a new beginning.
    pub hash: u32,
}

/// What to do with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It follows the one before.
    Next,
    /// It is used; before it, so many datagrams and at least so many from buffers of unknown length are missing.
    Gap { datagrams: u64, buffers: u64 },
    /// It is used; the board has begun anew.
    Restart,
    /// It is not used.
    Refused(LossReason),
}

/// Buffers that can be missed at once; beyond that a buffer id is not believed until others follow.
const MOST_BUFFERS: u16 = 1024;
/// Datagrams that can be missed at once inside a buffer.
const MOST_DATAGRAMS: u32 = 1 << 16;
/// So near to the wrap of the buffer id, (0, 0) is the wrap; else it is a restart.
const NEAR_WRAP: u16 = 64;
/// So many datagrams in a row behind the expected place are a board that began anew unseen.
const RUN_BEHIND: u32 = 16;
/// The same for a place far ahead.
const RUN_AHEAD: u32 = 2;
/// Gaps that are remembered, to tell a late datagram from a repeated one.
const GAPS: usize = 64;

/// The sequence of one board's datagrams.
#[derive(Debug)]
pub(super) struct Sequence {
    expected: Place,
    /// Something was accepted before.
    attached: bool,
    /// The buffer may have ended with the datagram before, although that did not say so: it was empty.
    closed: bool,
    /// Hash of datagram (0, 0) of this epoch, when it had data.
    first: Option<u32>,
    /// Missing datagrams: buffer, first, one beyond the last.
    gaps: VecDeque<(u16, u32, u32)>,
    /// Of refused datagrams that follow each other: the next, and how many there were.
    stray: Option<(Place, u32)>,
}

impl Sequence {
    pub fn new() -> Sequence {
        Sequence {
            expected: Place::START,
            attached: false,
            closed: false,
            first: None,
            gaps: VecDeque::with_capacity(GAPS),
            stray: None,
        }
    }

    /// Places a datagram; `follower` is the one that arrived behind it, where known.
    pub fn see(&mut self, seen: Seen, follower: Option<Place>) -> Verdict {
        let verdict = self.judge(seen, follower);
        match verdict {
            Verdict::Refused(_) => {}
            Verdict::Next | Verdict::Gap { .. } => self.accept(seen),
            Verdict::Restart => {
                self.gaps.clear();
                self.first = None;
                self.accept(seen);
            }
        }
        verdict
    }

    fn accept(&mut self, seen: Seen) {
        if seen.place == Place::START {
            self.first = (!seen.empty).then_some(seen.hash);
        }
        self.expected = seen.place.next(seen.last);
        self.closed = seen.empty;
        self.attached = true;
        self.stray = None;
    }

    fn judge(&mut self, seen: Seen, follower: Option<Place>) -> Verdict {
        let Place { buffer, datagram } = seen.place;
        if seen.place == self.expected {
            return Verdict::Next;
        }
        if !self.attached && buffer != 0 {
            return Verdict::Restart;
        }
        if seen.place == Place::START && self.attached {
            let near_wrap = self.expected.buffer.wrapping_neg() <= NEAR_WRAP && self.expected.buffer != 0;
            if seen.empty || (!near_wrap && self.first != Some(seen.hash)) {
                return Verdict::Restart;
            }
        }
        let buffers = buffer.wrapping_sub(self.expected.buffer);
        let datagrams = datagram.wrapping_sub(self.expected.datagram) & COUNTER_MASK;
        match buffers {
            0 if datagrams <= MOST_DATAGRAMS => self.inside_gap(seen.place, datagrams),
            0 if datagrams > COUNTER_MASK - MOST_DATAGRAMS => self.behind(seen),
            1..=MOST_BUFFERS if datagram <= MOST_DATAGRAMS => self.buffer_gap(seen, buffers, follower),
            _ if buffers.wrapping_neg() <= MOST_BUFFERS => self.behind(seen),
            _ => self.stray(seen, RUN_AHEAD, LossReason::BadHash),
        }
    }

    fn inside_gap(&mut self, place: Place, datagrams: u32) -> Verdict {
        self.remember(place.buffer, self.expected.datagram, place.datagram);
        Verdict::Gap { datagrams: u64::from(datagrams), buffers: 0 }
    }

    fn buffer_gap(&mut self, seen: Seen, buffers: u16, follower: Option<Place>) -> Verdict {
        // A damaged buffer id: the datagram behind goes on where this one should have been.
        let follows = |before: Place, place: Place| {
            place.buffer == before.buffer
                && (place.datagram.wrapping_sub(before.datagram) & COUNTER_MASK) <= 2
        };
        if let Some(follower) = follower
            && follows(self.expected, follower)
            && follower != seen.place.next(seen.last)
        {
            return Verdict::Refused(LossReason::BadHash);
        }
        if seen.place.datagram > 0 {
            self.remember(seen.place.buffer, 0, seen.place.datagram);
        }
        let buffers = u64::from(buffers) - u64::from(self.closed);
        match (seen.place.datagram, buffers) {
            (0, 0) => Verdict::Next,
            (datagrams, buffers) => Verdict::Gap { datagrams: u64::from(datagrams), buffers },
        }
    }

    fn remember(&mut self, buffer: u16, first: u32, end: u32) {
        if self.gaps.len() == GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back((buffer, first, end));
    }

    /// A datagram from before the expected place: late when it was missed, else a repetition.
    fn behind(&mut self, seen: Seen) -> Verdict {
        let Place { buffer, datagram } = seen.place;
        let missed = |gap: &&mut (u16, u32, u32)| gap.0 == buffer && (gap.1..gap.2).contains(&datagram);
        let reason = match self.gaps.iter_mut().find(missed) {
            None => LossReason::DuplicateDatagram,
            Some(gap) => {
                // What comes twice is late once; the longer part of the gap stays known.
                let (before, behind) = ((gap.1, datagram), (datagram + 1, gap.2));
                let longer = if before.1 - before.0 > behind.1 - behind.0 { before } else { behind };
                (gap.1, gap.2) = longer;
                LossReason::Late
            }
        };
        self.stray(seen, RUN_BEHIND, reason)
    }

    fn stray(&mut self, seen: Seen, run: u32, reason: LossReason) -> Verdict {
        let count = match self.stray {
            Some((place, count)) if place == seen.place => count + 1,
            _ => 1,
        };
        self.stray = Some((seen.place.next(seen.last), count));
        if count >= run { Verdict::Restart } else { Verdict::Refused(reason) }
    }
}
