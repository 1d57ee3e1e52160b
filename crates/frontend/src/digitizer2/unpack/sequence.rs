//! Where a datagram belongs, and how many are missing before it.
//!
//! ```text
//!  (buffer id, datagram id) ─► next | gap of n datagrams, m buffers | restart | refused: duplicate, late, not believed
//! ```
//! Datagram ids count from 0 in each buffer, so a gap inside a buffer is exact; the length of a buffer is not sent, so of a
//! buffer whose end was missed, or that was missed whole, one datagram at least is counted.
//!
//! The hash vouches for the data and the datagram id but not for the buffer id. A jump to another buffer is therefore refused
//! when what arrived behind it went on before it, and a place nobody expects is a gap only when others follow it. A receiver
//! that was held up for half a second misses thousands of buffers, so that such a gap is as good as any other.

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

    /// The place behind this one, whose datagram may be the last of its buffer.
    pub fn next(self, last: bool) -> Place {
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

/// Where a datagram stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// At the expected place.
    Next,
    /// Beyond it: others are missing, or were overtaken.
    Ahead,
    /// Before it.
    Behind,
    /// At a new beginning.
    Anew,
    /// Where nobody would expect one.
    Astray,
}

/// What the arrivals behind a datagram say of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Nothing.
    None,
    /// The one that follows it has arrived, too.
    Followed,
    /// The sequence went on at the expected place.
    Contradicted,
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

/// Buffers that can be missed at once; beyond that a buffer id is not believed until another datagram follows.
const MOST_BUFFERS: u16 = 1024;
/// Datagrams that can be missed at once inside a buffer; beyond that the same.
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
    /// Something was accepted before, or waits.
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

    /// The place that is expected.
    pub fn expected(&self) -> Place {
        self.expected
    }

    /// Whether the datagram here is the one that follows.
    #[inline]
    pub fn is_next(&self, place: Place) -> bool {
        place == self.expected || self.closed && place == self.expected.next(true)
    }

    /// Where a datagram stands, before anything is made of it.
    pub fn position(&self, seen: Seen) -> Position {
        if seen.place == self.expected {
            return Position::Next;
        }
        if self.begins_anew(seen) {
            return Position::Anew;
        }
        match self.lead(seen.place) {
            _ if self.is_next(seen.place) => Position::Next,
            (0..=MOST_BUFFERS, 0..=MOST_DATAGRAMS) => Position::Ahead,
            (0, datagrams) if datagrams > COUNTER_MASK / 2 => Position::Behind,
            (buffers @ 1.., _) if buffers.wrapping_neg() <= MOST_BUFFERS => Position::Behind,
            _ => Position::Astray,
        }
    }

    fn begins_anew(&self, seen: Seen) -> bool {
        if !self.attached {
            return seen.place.buffer != 0;
        }
        let near_wrap = self.expected.buffer.wrapping_neg() <= NEAR_WRAP && self.expected.buffer != 0;
        seen.place == Place::START && (seen.empty || (!near_wrap && self.first != Some(seen.hash)))
    }

    /// How far a place is ahead of the expected one, in buffers and then in datagrams: what orders places that are ahead.
    pub fn lead(&self, place: Place) -> (u16, u32) {
        let first = if place.buffer == self.expected.buffer { self.expected.datagram } else { 0 };
        (place.buffer.wrapping_sub(self.expected.buffer), place.datagram.wrapping_sub(first) & COUNTER_MASK)
    }

    /// A datagram ahead is put aside: what strayed before it and what strays behind it do not follow each other.
    pub fn wait(&mut self) {
        self.attached = true;
        self.stray = None;
    }

    /// Places a datagram, with what is known from those that arrived behind it.
    pub fn see(&mut self, seen: Seen, evidence: Evidence) -> Verdict {
        let verdict = match self.position(seen) {
            Position::Next => Verdict::Next,
            Position::Ahead if seen.place.buffer == self.expected.buffer => self.inside_gap(seen.place),
            Position::Ahead if evidence == Evidence::Contradicted => Verdict::Refused(LossReason::BadHash),
            Position::Ahead => self.buffer_gap(seen.place),
            Position::Behind => self.behind(seen),
            Position::Anew => Verdict::Restart,
            Position::Astray if evidence == Evidence::Followed => self.far_gap(seen.place),
            Position::Astray => match self.stray(seen, RUN_AHEAD, LossReason::BadHash) {
                Verdict::Restart => self.far_gap(seen.place),
                refused => refused,
            },
        };
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

    fn inside_gap(&mut self, place: Place) -> Verdict {
        let (_, datagrams) = self.lead(place);
        self.remember(place.buffer, self.expected.datagram, place.datagram);
        Verdict::Gap { datagrams: u64::from(datagrams), buffers: 0 }
    }

    fn buffer_gap(&mut self, place: Place) -> Verdict {
        let (buffers, datagrams) = self.lead(place);
        if datagrams > 0 {
            self.remember(place.buffer, 0, datagrams);
        }
        Verdict::Gap { datagrams: u64::from(datagrams), buffers: u64::from(buffers - u16::from(self.closed)) }
    }

    /// A place that nobody expects, and that others follow. One far behind may also be a board that began anew unseen: of the
    /// two numbers of missed buffers the smaller is certain.
    fn far_gap(&mut self, place: Place) -> Verdict {
        let (buffers, _) = self.lead(place);
        match buffers {
            0 => self.inside_gap(place),
            _ if place.buffer >= buffers => self.buffer_gap(place),
            _ => Verdict::Gap { datagrams: u64::from(place.datagram), buffers: u64::from(place.buffer) },
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
