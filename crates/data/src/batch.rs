//! The batches that travel between rooms: [`Frames`] before `decode`, [`Hits`] after it.
//!
//! A batch is made once and goes round for ever: it is filled, read and cleared, and its vectors keep
//! their capacity. An empty batch still carries its [`Mark`]: that is how time passes downstream.

use crate::hit::{Extra, Flags, Hit, Signal, Statistics};
use crate::id::SourceId;
use crate::ledger::Counters;
use crate::pool::Leases;
use crate::slice::Slice;

/// When a batch arrived: nanoseconds since run start on the receiver's monotonic clock. The only clock
/// that stages behind the receiver know; recorded, so that a replay decides as the run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Mark(pub u64);

impl Mark {
    /// Nanoseconds since `earlier`; 0 when that is later.
    pub fn since_ns(self, earlier: Mark) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The number of a snapshot of the ledger. The marker follows the data that it covers.
pub type SnapshotNumber = u32;

/// The head of a batch: its source, its time of arrival, and what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The source of everything in the batch.
    pub source: SourceId,
    /// When it arrived.
    pub mark: Mark,
    /// After this batch, every stage copies its counters under this number.
    pub snapshot: Option<SnapshotNumber>,
    /// Nothing follows from this source in this run.
    pub end: bool,
}

/// How often a board was started before a batch of its units, as its framing has seen. Decode workers take a source's batches in
/// turn: so each learns of the starts that lay in the batches of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoardStarts {
    /// Starts in all earlier batches.
    pub count: u32,
    /// Mark of the batch with the first of them.
    pub first: Mark,
    /// Mark of the batch with the latest of them.
    pub latest: Mark,
}

impl BoardStarts {
    /// The batch that arrived at `mark` is passed on, and `count` starts were seen up to its end.
    pub fn pass(&mut self, count: u32, mark: Mark) {
        if count != self.count {
            let first = if self.count == 0 { mark } else { self.first };
            *self = BoardStarts { count, first, latest: mark };
        }
    }
}

/// Slices of received bytes with the right to read them: datagrams or stream pieces from `readout`, whole
/// units (an aggregate, a scope event, a packet) from a front end's framing.
#[derive(Debug, Default)]
pub struct Frames {
    /// Whence and when.
    pub header: Header,
    /// The bytes, in order. A unit of several slices is a chain ([`Slice::CONTINUES`]).
    pub slices: Vec<Slice>,
    /// The right to read them.
    pub leases: Leases,
    /// Of a stream: how many bytes at the start of the first slice an earlier batch already held
    /// ([`crate::Source::carry`]). They were counted then, and are recorded once.
    pub carried: u32,
    /// What the source had sent before these bytes is missing in the recording that they are read from: they may begin in
    /// the middle of a unit, and go on from nothing.
    pub interrupted: bool,
    /// Of units: the starts of the board before them.
    pub starts: BoardStarts,
}

impl Frames {
    /// Empties the batch, returns its leases, keeps its memory.
    pub fn clear(&mut self) {
        self.header = Header::default();
        self.slices.clear();
        self.leases.clear();
        self.carried = 0;
        self.interrupted = false;
        self.starts = BoardStarts::default();
    }

    /// The bytes of one slice of this batch.
    ///
    /// # Panics
    /// When the batch holds no lease on the slice's block: a stage has broken the rule that a slice
    /// travels with its lease.
    #[inline]
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        self.leases.bytes(slice)
    }

    /// Number of bytes that this batch is the first to hold.
    pub fn byte_count(&self) -> u64 {
        self.slices.iter().map(|slice| u64::from(slice.length)).sum::<u64>() - u64::from(self.carried)
    }
}

/// How many of a merged batch's hits came from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The source.
    pub source: SourceId,
    /// Its hits in this batch.
    pub hits: u32,
}

/// Decoded hits, of one source before time order, of all sources behind it.
#[derive(Debug, Default)]
pub struct Hits {
    /// Whence and when; behind time order the source is that of the batch which moved the order on.
    pub header: Header,
    /// The hits.
    pub hits: Vec<Hit>,
    /// Row k belongs to the k-th hit with [`crate::Flags::EXTRA`].
    pub extras: Vec<Extra>,
    /// Chains of samples and user words, referred to by the extras.
    pub slices: Vec<Slice>,
    /// The right to read them.
    pub leases: Leases,
    /// The board's own counters.
    pub statistics: Vec<Statistics>,
    /// What the board said about the run.
    pub signals: Vec<(SourceId, Signal)>,
    /// Behind time order: whose hits these are, one entry per source at most.
    pub shares: Vec<Share>,
    /// Before time order: the decoder's running set of counters as of this batch, so that the thread which collects from
    /// several decode workers publishes their sum and snapshots stay in step.
    pub decoded: Box<Counters>,
}

impl Hits {
    /// Room for `capacity` hits, made once.
    pub fn with_capacity(capacity: usize) -> Hits {
        Hits { hits: Vec::with_capacity(capacity), ..Hits::default() }
    }

    /// Empties the batch, returns its leases, keeps its memory.
    pub fn clear(&mut self) {
        self.header = Header::default();
        self.hits.clear();
        self.extras.clear();
        self.slices.clear();
        self.leases.clear();
        self.statistics.clear();
        self.signals.clear();
        self.shares.clear();
    }

    /// Takes out every hit for whose place `keeps` says no, with its row of extras. Whose hits are left is for the caller to say, in
    /// [`Hits::shares`].
    pub fn keep_where(&mut self, keeps: impl Fn(usize) -> bool) {
        let (mut hits, mut row) = (0, 0);
        let mut rows = 0;
        for place in 0..self.hits.len() {
            let hit = self.hits[place];
            let has_row = hit.flags.has(Flags::EXTRA);
            if keeps(place) {
                self.hits[hits] = hit;
                hits += 1;
                if has_row {
                    self.extras.swap(rows, row);
                    rows += 1;
                }
            }
            row += usize::from(has_row);
        }
        self.hits.truncate(hits);
        self.extras.truncate(rows);
    }

    /// Whether the batch carries nothing but its header.
    pub fn is_empty(&self) -> bool {
        self.hits.is_empty() && self.statistics.is_empty() && self.signals.is_empty()
    }

    /// Bytes of memory that the batch's content takes.
    pub fn byte_size(&self) -> usize {
        size_of_val(self.hits.as_slice())
            + size_of_val(self.extras.as_slice())
            + size_of_val(self.slices.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn hits_that_stay_keep_their_order_and_their_rows(fates in proptest::collection::vec(any::<(bool, bool)>(), 0..50)) {
            let mut batch = Hits::default();
            for (number, (has_row, _)) in fates.iter().enumerate() {
                let flags = if *has_row { Flags::EXTRA } else { Flags::default() };
                let hit = Hit { time_ps: number as i64, flags, ..Hit::default() };
                batch.hits.push(hit);
                batch.extras.extend(has_row.then(|| Extra::of(&hit, SourceId(0))));
            }
            batch.keep_where(|place| fates[place].1);
            let stayed = || (0i64..).zip(&fates).filter(|(_, (_, stays))| *stays);
            prop_assert!(batch.hits.iter().map(|hit| hit.time_ps).eq(stayed().map(|(time_ps, _)| time_ps)));
            let rows = stayed().filter(|(_, (has_row, _))| *has_row).map(|(time_ps, _)| time_ps);
            prop_assert!(batch.extras.iter().map(|row| row.time_ps).eq(rows));
        }
    }
}
