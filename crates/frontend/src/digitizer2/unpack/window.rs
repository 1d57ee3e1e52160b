//! Keeps datagrams that came before their turn, until it comes or is given up.
//!
//! ```text
//!  7 is expected:  8, 9, 7 arrive ─► 8 and 9 wait ─► 7, 8, 9: nothing is missing
//!                  8, 9, … arrive ─► 8 and 9 wait ─► eight more, or a millisecond: 7 is missing; 8, 9, …
//! ```
//! A gap becomes a loss only when it leaves this window. The number of arrivals for which a datagram waits bounds the window. Each
//! datagram has its own lease, so that steady disorder holds no block for longer than its datagrams wait.

use std::collections::VecDeque;

use thalweg_data::{Lease, Mark, Slice};

use super::sequence::{DatagramId, Evidence, Sequence};
use crate::digitizer2::wire::Footer;

/// Arrivals behind a waiting datagram after which the datagrams missing before it are given up.
const MOST_ARRIVALS: u64 = 8;
/// Time after its arrival when they are given up, too.
const MOST_AGE_NS: u64 = 1_000_000;
/// The same time for a datagram with an id that nobody expects: the datagram that would confirm it comes when the board sends more.
const MOST_AGE_ASTRAY_NS: u64 = 1_000_000_000;

/// A received datagram whose id is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    pub slice: Slice,
    pub footer: Footer,
    pub id: DatagramId,
}

/// A datagram that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub datagram: Datagram,
    pub lease: Lease,
    mark: Mark,
    /// The age at which it waits no longer.
    most_age_ns: u64,
    /// Its number among the arrivals, and the id that was expected then.
    arrival: u64,
    expected: DatagramId,
}

/// The datagrams that wait, in the order of their ids.
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

    /// Number of datagrams that wait.
    pub fn datagrams(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts the arrival of any datagram.
    pub fn count_arrival(&mut self) {
        self.arrivals += 1;
    }

    /// Lets a datagram that is ahead wait; returns false if it waits already.
    pub fn put(&mut self, datagram: Datagram, lease: &Lease, mark: Mark, sequence: &Sequence) -> bool {
        self.insert(datagram, lease, (mark, MOST_AGE_NS), sequence)
    }

    /// The same for a datagram with an id that nobody expects, until the one that follows it arrives.
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

    /// Whether a datagram has waited for long enough.
    pub fn is_due(&self, now: Mark) -> bool {
        let due = |waiting: &Waiting| {
            self.arrivals - waiting.arrival >= MOST_ARRIVALS
                || now.since_ns(waiting.mark) >= waiting.most_age_ns
        };
        self.waiting.iter().any(due)
    }

    /// Takes out the first in order if it is its turn.
    pub fn take_next(&mut self, sequence: &Sequence) -> Option<Waiting> {
        let first = self.waiting.front()?;
        if sequence.is_next(first.datagram.id) { self.take_first() } else { None }
    }

    /// Takes out the first in order.
    pub fn take_first(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.bytes -= u64::from(first.datagram.slice.length);
        Some(first)
    }

    /// What the others say of a datagram that was taken out although it was not its turn. If the sequence went on without it, and
    /// nothing follows it, its buffer id is probably damaged. The length of a buffer is not known, so the first datagram of the
    /// next buffer is always possible.
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
    /// The id of the datagram behind it.
    fn next(&self) -> DatagramId {
        self.datagram.id.next(self.datagram.footer.last())
    }
}
