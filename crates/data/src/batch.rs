//! The batches that travel between rooms: [`Frames`] before `decode`, [`Hits`] after it.
//!
//! Batches are allocated once and recycled: a batch is filled, read and cleared, and its vectors keep their capacity. An empty batch
//! still carries its [`Mark`], from which the stages downstream know the time.

use crate::hit::{Extra, Flags, Hit, Signal, Statistics};
use crate::id::SourceId;
use crate::ledger::Counters;
use crate::pool::Leases;
use crate::slice::Slice;

/// When a batch arrived: nanoseconds since run start on the receiver's monotonic clock. It is the only clock of the stages
/// behind the receiver, and is recorded, so that a replay makes the same decisions as the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Mark(pub u64);

impl Mark {
    /// Nanoseconds since `earlier`; 0 if `earlier` is the later one.
    pub fn since_ns(self, earlier: Mark) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The number of a snapshot of the ledger. Its marker travels behind the data that the snapshot covers.
pub type SnapshotNumber = u32;

/// The header of a batch: its source, its time of arrival, and markers that take effect after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The source of everything in the batch.
    pub source: SourceId,
    /// When it arrived.
    pub mark: Mark,
    /// After this batch, every stage copies its counters under this number.
    pub snapshot: Option<SnapshotNumber>,
    /// This is the last batch of the source in this run.
    pub end: bool,
}

/// How often a board was started before a batch of its units, as its framing counts the starts. Decode workers take a source's
/// batches in turn; from this, each knows of the starts in the batches of the others.
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
    /// Updates the counts after the batch that arrived at `mark`; `count` is the number of starts up to its end.
    pub fn pass(&mut self, count: u32, mark: Mark) {
        if count != self.count {
            let first = if self.count == 0 { mark } else { self.first };
            *self = BoardStarts { count, first, latest: mark };
        }
    }
}

/// Slices of received bytes with the right to read them: datagrams or stream chunks from `readout`, whole
/// units (an aggregate, a scope event, a packet) from a front end's framing.
#[derive(Debug, Default)]
pub struct Frames {
    /// Source and time of arrival.
    pub header: Header,
    /// The bytes, in order. A unit of several slices is a chain ([`Slice::CONTINUES`]).
    pub slices: Vec<Slice>,
    /// The right to read them.
    pub leases: Leases,
    /// For a stream: how many bytes at the start of the first slice were already in an earlier batch
    /// ([`crate::Source::carry`]). They were counted there, and are recorded once.
    pub carried: u32,
    /// The recording that these bytes are read from lacks what the source sent before them: they may begin in the middle of a unit
    /// and do not continue the bytes of the batch before.
    pub interrupted: bool,
    /// The connection of the source was opened again. With bytes, these are the first of the new connection. Without, the connection before
    /// has ended here, and what is carried waits for nothing more.
    pub begins_anew: bool,
    /// For units: the starts of the board before them.
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
        self.begins_anew = false;
        self.starts = BoardStarts::default();
    }

    /// The bytes of one slice of this batch.
    ///
    /// # Panics
    /// If the batch holds no lease on the slice's block. Every stage must pass a slice on together with its lease.
    #[inline]
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        self.leases.bytes(slice)
    }

    /// Number of bytes without those carried over from an earlier batch.
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

/// Decoded hits: of one source before time order, of all sources after it.
#[derive(Debug, Default)]
pub struct Hits {
    /// Source and time of arrival. After time order, the source is that of the batch that advanced the order.
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
    /// What the board reported about the run.
    pub signals: Vec<(SourceId, Signal)>,
    /// After time order: how many of the hits came from which source, at most one entry per source.
    pub shares: Vec<Share>,
    /// Before time order: the decoder's counters as of this batch. The thread that merges the batches of several decode workers
    /// publishes their sum, so that snapshots match the data.
    pub decoded: Box<Counters>,
}

impl Hits {
    /// An empty batch with capacity for `capacity` hits.
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

    /// Removes every hit for whose index `keeps` returns `false`, with its row of extras. The caller updates [`Hits::shares`].
    pub fn keep_where(&mut self, keeps: impl Fn(usize) -> bool) {
        let (mut hits, mut row) = (0, 0);
        let mut rows = 0;
        for index in 0..self.hits.len() {
            let hit = self.hits[index];
            let has_row = hit.flags.has(Flags::EXTRA);
            if keeps(index) {
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

    /// Size of the batch's hits, extras and slices in memory, bytes.
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
        fn keep_where_keeps_the_order_and_the_extras_of_hits(fates in proptest::collection::vec(any::<(bool, bool)>(), 0..50)) {
            let mut batch = Hits::default();
            for (number, (has_row, _)) in fates.iter().enumerate() {
                let flags = if *has_row { Flags::EXTRA } else { Flags::default() };
                let hit = Hit { time_ps: number as i64, flags, ..Hit::default() };
                batch.hits.push(hit);
                batch.extras.extend(has_row.then(|| Extra::of(&hit, SourceId(0))));
            }
            batch.keep_where(|index| fates[index].1);
            let stayed = || (0i64..).zip(&fates).filter(|(_, (_, stays))| *stays);
            prop_assert!(batch.hits.iter().map(|hit| hit.time_ps).eq(stayed().map(|(time_ps, _)| time_ps)));
            let rows = stayed().filter(|(_, (has_row, _))| *has_row).map(|(time_ps, _)| time_ps);
            prop_assert!(batch.extras.iter().map(|row| row.time_ps).eq(rows));
        }
    }
}
