//! Finds the position of a datagram in the sequence, and the number of datagrams missing before it.
//!
//! ```text
//!  (buffer id, datagram id) ─► next | gap of n datagrams, m buffers | restart | refused: duplicate, late, not confirmed
//! ```
//! Datagram ids count from 0 in each buffer, so the size of a gap inside a buffer is exact. The length of a buffer is
//! not sent: a buffer whose end is missing, or all of which is missing, counts as one missing datagram, which is the
//! minimum.
//!
//! The hash covers the data and the datagram id but not the buffer id. A jump to another buffer is therefore refused if
//! the datagrams that arrived behind it continue those before it. An unexpected id is a gap only if others follow it. A
//! receiver that was blocked for half a second misses thousands of buffers, so such a gap is as likely as any other.

use std::collections::VecDeque;

use thalweg_data::LossReason;

use crate::digitizer2::wire::COUNTER_MASK;

/// The two numbers of a datagram: that of its buffer, and its own in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramId {
    pub buffer: u16,
    pub datagram: u32,
}

impl DatagramId {
    const START: DatagramId = DatagramId { buffer: 0, datagram: 0 };

    /// The id of the next datagram; `last` says whether this one is the last of its buffer.
    pub fn next(self, last: bool) -> DatagramId {
        match last {
            true => DatagramId { buffer: self.buffer.wrapping_add(1), datagram: 0 },
            false => DatagramId { datagram: (self.datagram + 1) & COUNTER_MASK, ..self },
        }
    }
}

/// The sequence information of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub id: DatagramId,
    /// Whether it ends its buffer.
    pub last: bool,
    /// Whether it has no data: the board is idle, or has cleared its memory.
    pub empty: bool,
    /// Its hash, which distinguishes a repeated first datagram from a restart.
    pub hash: u32,
}

/// The position of a datagram in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// It has the expected id.
    Next,
    /// Its id is beyond the expected one: others are missing, or were overtaken.
    Ahead,
    /// Its id is before the expected one.
    Behind,
    /// The board restarts with it.
    Anew,
    /// Its id is not plausible.
    Astray,
}

/// What the datagrams behind one say about its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Nothing.
    None,
    /// The datagram that follows it has also arrived.
    Followed,
    /// The sequence continued with the expected id.
    Contradicted,
}

/// What to do with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It follows the one before.
    Next,
    /// It is used. `datagrams` are missing before it, and `buffers` of unknown length, at least one datagram each.
    Gap { datagrams: u64, buffers: u64 },
    /// The board has restarted.
    Restart {
        /// Whether it is used. Otherwise it is lost, to show that those before it, which were refused as duplicates, were data.
        is_used: bool,
    },
    /// It is not used.
    Refused(LossReason),
}

/// Most buffers in a gap; a buffer id beyond must be confirmed by another datagram.
const MOST_BUFFERS: u16 = 1024;
/// Most datagrams in a gap inside a buffer; ids beyond must be confirmed, too.
const MOST_DATAGRAMS: u32 = 1 << 16;
/// Within this distance of the wrap of the buffer id, (0, 0) is the wrap; elsewhere, it is a restart.
const NEAR_WRAP: u16 = 64;
/// This many datagrams in a row with ids before the expected one mean that the board has restarted unnoticed.
const RUN_BEHIND: u32 = 16;
/// The same for ids far ahead.
const RUN_AHEAD: u32 = 2;
/// Number of gaps that are remembered, to distinguish late datagrams from duplicates.
const GAPS: usize = 64;

/// The sequence of one board's datagrams.
#[derive(Debug)]
pub(super) struct Sequence {
    expected: DatagramId,
    /// A datagram was accepted, or is waiting.
    attached: bool,
    /// The previous datagram was empty: the buffer may have ended with it, although it is not marked as the last.
    closed: bool,
    /// Hash of datagram (0, 0) since the last restart, if it had data.
    first: Option<u32>,
    /// Missing datagrams: buffer, first, one after the last.
    gaps: VecDeque<(u16, u32, u32)>,
    /// Refused consecutive datagrams.
    stray: Option<Stray>,
}

/// Refused datagrams that follow each other.
#[derive(Clone, Copy, Debug)]
struct Stray {
    /// The id that would be next.
    next: DatagramId,
    count: u32,
    /// Some of them were refused as duplicates.
    has_duplicates: bool,
}

impl Sequence {
    pub fn new() -> Sequence {
        Sequence {
            expected: DatagramId::START,
            attached: false,
            closed: false,
            first: None,
            gaps: VecDeque::with_capacity(GAPS),
            stray: None,
        }
    }

    /// The expected id.
    pub fn expected(&self) -> DatagramId {
        self.expected
    }

    /// Whether a datagram with this id is the expected one.
    #[inline]
    pub fn is_next(&self, id: DatagramId) -> bool {
        id == self.expected || self.closed && id == self.expected.next(true)
    }

    /// The position of a datagram; changes nothing.
    pub fn position(&self, seen: Seen) -> Position {
        if seen.id == self.expected {
            return Position::Next;
        }
        if self.begins_anew(seen) {
            return Position::Anew;
        }
        match self.lead(seen.id) {
            _ if self.is_next(seen.id) => Position::Next,
            (0..=MOST_BUFFERS, 0..=MOST_DATAGRAMS) => Position::Ahead,
            (0, datagrams) if datagrams > COUNTER_MASK / 2 => Position::Behind,
            (buffers @ 1.., _) if buffers.wrapping_neg() <= MOST_BUFFERS => Position::Behind,
            _ => Position::Astray,
        }
    }

    fn begins_anew(&self, seen: Seen) -> bool {
        if !self.attached {
            return seen.id.buffer != 0;
        }
        let near_wrap = self.expected.buffer.wrapping_neg() <= NEAR_WRAP && self.expected.buffer != 0;
        seen.id == DatagramId::START && (seen.empty || (!near_wrap && self.first != Some(seen.hash)))
    }

    /// Distance of an id from the expected one, in buffers and then in datagrams, by which ids ahead are ordered.
    pub fn lead(&self, id: DatagramId) -> (u16, u32) {
        let first = if id.buffer == self.expected.buffer { self.expected.datagram } else { 0 };
        (id.buffer.wrapping_sub(self.expected.buffer), id.datagram.wrapping_sub(first) & COUNTER_MASK)
    }

    /// Called when a datagram ahead is put into the window: stray datagrams before and after it are not consecutive.
    pub fn wait(&mut self) {
        self.attached = true;
        self.stray = None;
    }

    /// Decides what to do with a datagram; `evidence` comes from those that arrived behind it.
    pub fn see(&mut self, seen: Seen, evidence: Evidence) -> Verdict {
        let verdict = match self.position(seen) {
            Position::Next => Verdict::Next,
            Position::Ahead if seen.id.buffer == self.expected.buffer => self.inside_gap(seen.id),
            Position::Ahead if evidence == Evidence::Contradicted => Verdict::Refused(LossReason::BadHash),
            Position::Ahead => self.buffer_gap(seen.id),
            Position::Behind => self.behind(seen),
            Position::Anew => Verdict::Restart { is_used: true },
            Position::Astray if evidence == Evidence::Followed => self.far_gap(seen.id),
            Position::Astray => match self.stray(seen, RUN_AHEAD, LossReason::BadHash) {
                Verdict::Restart { .. } => self.far_gap(seen.id),
                refused => refused,
            },
        };
        match verdict {
            Verdict::Refused(_) => {}
            Verdict::Next | Verdict::Gap { .. } => self.accept(seen),
            Verdict::Restart { .. } => {
                self.gaps.clear();
                self.first = None;
                self.accept(seen);
            }
        }
        verdict
    }

    fn accept(&mut self, seen: Seen) {
        if seen.id == DatagramId::START {
            self.first = (!seen.empty).then_some(seen.hash);
        }
        self.expected = seen.id.next(seen.last);
        self.closed = seen.empty;
        self.attached = true;
        self.stray = None;
    }

    fn inside_gap(&mut self, id: DatagramId) -> Verdict {
        let (_, datagrams) = self.lead(id);
        self.remember(id.buffer, self.expected.datagram, id.datagram);
        Verdict::Gap { datagrams: u64::from(datagrams), buffers: 0 }
    }

    fn buffer_gap(&mut self, id: DatagramId) -> Verdict {
        let (buffers, datagrams) = self.lead(id);
        if datagrams > 0 {
            self.remember(id.buffer, 0, datagrams);
        }
        Verdict::Gap { datagrams: u64::from(datagrams), buffers: u64::from(buffers - u16::from(self.closed)) }
    }

    /// Handles an unexpected id that others follow. One far behind may also be a board that has restarted unnoticed: of
    /// the two possible numbers of missed buffers, the smaller is certain.
    fn far_gap(&mut self, id: DatagramId) -> Verdict {
        let (buffers, _) = self.lead(id);
        match buffers {
            0 => self.inside_gap(id),
            _ if id.buffer >= buffers => self.buffer_gap(id),
            _ => Verdict::Gap { datagrams: u64::from(id.datagram), buffers: u64::from(id.buffer) },
        }
    }

    fn remember(&mut self, buffer: u16, first: u32, end: u32) {
        if self.gaps.len() == GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back((buffer, first, end));
    }

    /// Refuses a datagram whose id is before the expected one: as late if it was missed, otherwise as a duplicate.
    fn behind(&mut self, seen: Seen) -> Verdict {
        let DatagramId { buffer, datagram } = seen.id;
        let missed = |gap: &&mut (u16, u32, u32)| gap.0 == buffer && (gap.1..gap.2).contains(&datagram);
        let reason = match self.gaps.iter_mut().find(missed) {
            None => LossReason::DuplicateDatagram,
            Some(gap) => {
                // A datagram that arrives twice is late once; the longer part of the gap is remembered.
                let (before, behind) = ((gap.1, datagram), (datagram + 1, gap.2));
                let longer = if before.1 - before.0 > behind.1 - behind.0 { before } else { behind };
                (gap.1, gap.2) = longer;
                LossReason::Late
            }
        };
        self.stray(seen, RUN_BEHIND, reason)
    }

    fn stray(&mut self, seen: Seen, run: u32, reason: LossReason) -> Verdict {
        let Stray { count, has_duplicates, .. } = match self.stray {
            Some(stray) if stray.next == seen.id => stray,
            _ => Stray { next: seen.id, count: 0, has_duplicates: false },
        };
        if count + 1 >= run {
            return Verdict::Restart { is_used: !has_duplicates };
        }
        self.stray = Some(Stray {
            next: seen.id.next(seen.last),
            count: count + 1,
            has_duplicates: has_duplicates || reason == LossReason::DuplicateDatagram,
        });
        Verdict::Refused(reason)
    }
}
