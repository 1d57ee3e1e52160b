//! Datagrams that came before their turn, until it comes or is given up.
//!
//! ```text
//!  7 is expected:  8, 9, 7 arrive ─► 8 and 9 wait ─► 7, 8, 9: nothing is missing
//!                  8, 9, … arrive ─► 8 and 9 wait ─► eight more, or a millisecond: 7 is missing; 8, 9, …
//! ```
//! A gap is so a loss only when it leaves this window. What waits is bounded by the number of arrivals that it waits for, and
//! each keeps a lease of its own, so that steady disorder holds no block for longer than its datagrams wait.

use std::collections::VecDeque;

use thalweg_data::{Lease, Mark, Slice};

use super::sequence::{Evidence, Place, Sequence};
use crate::digitizer2::wire::Footer;

/// So many arrivals behind a datagram that waits, what is missing before it is given up.
const MOST_ARRIVALS: u64 = 8;
/// So long after its arrival, too.
const MOST_AGE_NS: u64 = 1_000_000;
/// So long, where nobody expects a datagram: the one that would confirm it comes when the board has more to say.
const MOST_AGE_ASTRAY_NS: u64 = 1_000_000_000;

/// A received datagram that has a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    pub slice: Slice,
    pub footer: Footer,
    pub place: Place,
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub datagram: Datagram,
    pub lease: Lease,
    mark: Mark,
    /// At this age it waits no longer.
    most_age_ns: u64,
    /// Its number among the arrivals, and the place that was expected then.
    arrival: u64,
    expected: Place,
}

/// What waits, in the order of places.
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

    /// Datagrams that wait.
    pub fn datagrams(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One more datagram has arrived, whichever.
    pub fn count_arrival(&mut self) {
        self.arrivals += 1;
    }

    /// Lets a datagram wait that is ahead; returns whether it did not wait already.
    pub fn put(&mut self, datagram: Datagram, lease: &Lease, mark: Mark, sequence: &Sequence) -> bool {
        self.insert(datagram, lease, (mark, MOST_AGE_NS), sequence)
    }

    /// The same of a datagram at a place that nobody expects, until the one arrives that follows it.
    pub fn put_astray(&mut self, datagram: Datagram, lease: &Lease, mark: Mark, sequence: &Sequence) -> bool {
        let is_new = self.insert(datagram, lease, (mark, MOST_AGE_ASTRAY_NS), sequence);
        let place = datagram.place;
        let before = self.waiting.iter_mut().find(|waiting| waiting.next() == place);
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
        let lead = |waiting: &Waiting| sequence.lead(waiting.datagram.place);
        let Err(index) = self.waiting.binary_search_by_key(&sequence.lead(datagram.place), lead) else {
            return false;
        };
        let (arrival, expected) = (self.arrivals, sequence.expected());
        self.bytes += u64::from(datagram.slice.length);
        self.waiting
            .insert(index, Waiting { datagram, lease: lease.clone(), mark, most_age_ns, arrival, expected });
        true
    }

    /// Whether something has waited for long enough.
    pub fn is_due(&self, now: Mark) -> bool {
        let due = |waiting: &Waiting| {
            self.arrivals - waiting.arrival >= MOST_ARRIVALS
                || now.since_ns(waiting.mark) >= waiting.most_age_ns
        };
        self.waiting.iter().any(due)
    }

    /// Takes out the first in order when it is its turn.
    pub fn take_next(&mut self, sequence: &Sequence) -> Option<Waiting> {
        let first = self.waiting.front()?;
        if sequence.is_next(first.datagram.place) { self.take_first() } else { None }
    }

    /// Takes out the first in order.
    pub fn take_first(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.bytes -= u64::from(first.datagram.slice.length);
        Some(first)
    }

    /// What the others say of a datagram that was taken out, and for which nothing made room. Where the sequence went on without
    /// it, and nothing follows it, its buffer id is rather damaged. How long a buffer is, nobody knows, so the first datagram of
    /// the next one always has a place.
    pub fn evidence(&self, first: &Waiting, sequence: &Sequence) -> Evidence {
        let went_on = sequence.expected() != first.expected;
        if self.waiting.front().is_some_and(|next| next.datagram.place == first.next()) {
            Evidence::Followed
        } else if went_on && first.datagram.place != sequence.expected().next(true) {
            Evidence::Contradicted
        } else {
            Evidence::None
        }
    }
}

impl Waiting {
    /// The place behind it.
    fn next(&self) -> Place {
        self.datagram.place.next(self.datagram.footer.last())
    }
}
