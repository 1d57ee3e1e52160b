//! Keeps datagrams that arrived ahead of the sequence until they are next, or their predecessors are given up.
//!
//! ```text
//!  7 is expected:  8, 9, 7 arrive ─► 8 and 9 wait ─► 7, 8, 9: nothing is missing
//!                  8, 9, … arrive ─► 8 and 9 wait ─► eight more, or a millisecond: 7 is missing; 8, 9, …
//! ```
//! A gap becomes a loss only when it leaves this window. The number of arrivals for which a datagram waits bounds the
//! window. Each datagram has its own lease, so that constant reordering holds no block for longer than its datagrams
//! wait.

use std::collections::VecDeque;

use thalweg_data::{Lease, Mark, Slice};

use super::sequence::{DatagramId, Evidence, Sequence};
use crate::digitizer2::wire::Footer;

/// Number of arrivals behind a waiting datagram after which its missing predecessors are given up.
const MOST_ARRIVALS: u64 = 8;
/// Age of a waiting datagram after which they are given up, too.
const MOST_AGE_NS: u64 = 1_000_000;
/// The same for a datagram with an unexpected id: the datagram that would confirm it arrives when the board sends more.
const MOST_AGE_ASTRAY_NS: u64 = 1_000_000_000;

/// A received datagram with a known id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    pub slice: Slice,
    pub footer: Footer,
    pub id: DatagramId,
}

/// A waiting datagram.
#[derive(Debug)]
pub(super) struct Waiting {
    pub datagram: Datagram,
    pub lease: Lease,
    mark: Mark,
    /// The age at which it is released.
    most_age_ns: u64,
    /// The number of its arrival, and the id that was expected then.
    arrival: u64,
    expected: DatagramId,
}

/// The waiting datagrams, in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct ReorderWindow {
    waiting: VecDeque<Waiting>,
    arrivals: u64,
    bytes: u64,
}

impl ReorderWindow {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of waiting datagrams.
    pub fn datagrams(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Number of their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts the arrival of any datagram.
    pub fn count_arrival(&mut self) {
        self.arrivals += 1;
    }

    /// Puts a datagram that is ahead into the window; returns false if it is already waiting.
    pub fn put(&mut self, datagram: Datagram, lease: &Lease, mark: Mark, sequence: &Sequence) -> bool {
        self.insert(datagram, lease, (mark, MOST_AGE_NS), sequence)
    }

    /// The same for a datagram with an unexpected id, until the one that follows it arrives.
    pub fn put_astray(&mut self, datagram: Datagram, lease: &Lease, mark: Mark, sequence: &Sequence) -> bool {
        let is_new = self.insert(datagram, lease, (mark, MOST_AGE_ASTRAY_NS), sequence);
        let id = datagram.id;
        let before = self.waiting.iter_mut().find(|waiting| waiting.next() == id);
        if let Some(before) = before.filter(|_| is_new) {
            before.most_age_ns = 0;
        }
        is_new
    }

    fn insert(
        &mut self,
        datagram: Datagram,
        lease: &Lease,
        (mark, most_age_ns): (Mark, u64),
        sequence: &Sequence,
    ) -> bool {
        let lead = |waiting: &Waiting| sequence.lead(waiting.datagram.id);
        let Err(index) = self.waiting.binary_search_by_key(&sequence.lead(datagram.id), lead) else {
            return false;
        };
        let (arrival, expected) = (self.arrivals, sequence.expected());
        self.bytes += u64::from(datagram.slice.length);
        self.waiting
            .insert(index, Waiting { datagram, lease: lease.clone(), mark, most_age_ns, arrival, expected });
        true
    }

    /// Whether a datagram has waited long enough.
    pub fn is_due(&self, now: Mark) -> bool {
        let due = |waiting: &Waiting| {
            self.arrivals - waiting.arrival >= MOST_ARRIVALS
                || now.since_ns(waiting.mark) >= waiting.most_age_ns
        };
        self.waiting.iter().any(due)
    }

    /// Removes the first in order if it is next.
    pub fn take_next(&mut self, sequence: &Sequence) -> Option<Waiting> {
        let first = self.waiting.front()?;
        if sequence.is_next(first.datagram.id) { self.take_first() } else { None }
    }

    /// Removes the first in order.
    pub fn take_first(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.bytes -= u64::from(first.datagram.slice.length);
        Some(first)
    }

    /// What the others say about a removed datagram that was not next. If the sequence continued without it, and
    /// nothing follows it, its buffer id is probably damaged. The length of a buffer is not known, so the first
    /// datagram of the next buffer is always possible.
    pub fn evidence(&self, first: &Waiting, sequence: &Sequence) -> Evidence {
        let went_on = sequence.expected() != first.expected;
        if self.waiting.front().is_some_and(|next| next.datagram.id == first.next()) {
            Evidence::Followed
        } else if went_on && first.datagram.id != sequence.expected().next(true) {
            Evidence::Contradicted
        } else {
            Evidence::None
        }
    }
}

impl Waiting {
    /// The id of the datagram that follows it.
    fn next(&self) -> DatagramId {
        self.datagram.id.next(self.datagram.footer.last())
    }
}
