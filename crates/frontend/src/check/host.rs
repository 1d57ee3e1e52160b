//! The host of a checked run: it receives into the blocks of a pool and calls the framing for each batch.
//!
//! ```text
//!  datagram_from ─► a block, a slice each ─┐
//!                                          ├► step: framing.frame ─► Collect      … finish: framing.finish ─► Collect
//!  connection ─► StreamBuffer, in chunks ──┘        │ left over
//!                     ▲                             │
//!                     └──────── carry ──────────────┘
//! ```

use std::cell::RefCell;

use thalweg_data::pool::BlockWriter;
use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::{
    Counters, Decode, Fragments, Framed, Frames, Framing, LedgerSnapshot, Mark, Pool, SourceId, Unit,
};

use super::fragments::FragmentsOutcome;
use super::hits::DecodedHits;
use super::ledger::{self, Counted};

/// Enough for units of a megabyte in small datagrams, and for the fragments that a splitter holds with the settings of
/// the checks.
pub(super) const BLOCKS: usize = 64;
/// Bytes of a block, which a unit of a stream must fit.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Most blocks that a stream may use at once: the current one, and those of the batch before.
const BLOCKS_OF_A_STREAM: usize = 4;
/// A stream takes a new block if the current one has fewer bytes left.
const SMALLEST_TAIL: usize = 256;
/// Datagrams per receive call.
const PER_BATCH: usize = 5;

thread_local! {
    /// One pool per thread, since the number of pools of a process is limited, and a fuzzer calls endlessly.
    static POOL: RefCell<Pool> = RefCell::new(Pool::new(BLOCKS, BLOCK_BYTES).expect("the sizes are valid"));
}

/// Collects the units that a framing finds, up to the outcome of the run.
pub trait Collect {
    /// The units of the framing.
    type Units: Framed;
    /// The outcome of a run.
    type Outcome;
    /// Time between two receive calls, in nanoseconds.
    const MARK_STEP_NS: u64;

    /// Copies the content of a batch.
    fn collect(&mut self, units: &Self::Units);

    /// The counters of the run's stages.
    fn counted(&self) -> Counted<'_>;

    /// Sets the current ledger, and how often a unit was given up because it did not fit a block.
    fn close(&mut self, snapshot: LedgerSnapshot, given_up: u64);

    /// The outcome at the last [`Collect::close`].
    fn outcome(&self) -> &Self::Outcome;

    /// The outcome.
    fn into_outcome(self) -> Self::Outcome;
}

/// A host with its framing.
#[derive(Debug)]
pub struct Host<F: Framing + ?Sized, C> {
    framing: Box<F>,
    collect: C,
    first_source: SourceId,
    receive: Counters,
    received: Frames,
    units: F::Output,
    writer: Option<BlockWriter>,
    per_batch: usize,
    connections: u32,
    given_up: u64,
    /// Nothing was received since the framing was finished.
    finished: bool,
    /// The arrival of the last batch; the next arrives [`Collect::MARK_STEP_NS`] later.
    pub mark: Mark,
}

impl<F: Framing<Output = Frames> + ?Sized> Host<F, DecodedHits> {
    /// Creates a host of source 0, whose units are decoded.
    pub fn of_hits(framing: Box<F>, decode: Box<dyn Decode>) -> Host<F, DecodedHits> {
        Host::new(SourceId(0), framing, DecodedHits::new(decode))
    }
}

impl<F: Framing<Output = Fragments>> Host<F, FragmentsOutcome> {
    /// Creates a host of triggered boards, the first of which is `first_source`.
    pub fn of_fragments(first_source: SourceId, splitter: F) -> Host<F, FragmentsOutcome> {
        Host::new(first_source, Box::new(splitter), FragmentsOutcome::default())
    }
}

impl<F: Framing + ?Sized, C: Collect<Units = F::Output>> Host<F, C> {
    fn new(first_source: SourceId, framing: Box<F>, collect: C) -> Host<F, C> {
        Host {
            framing,
            collect,
            first_source,
            receive: Counters::default(),
            received: Frames::default(),
            units: F::Output::default(),
            writer: None,
            per_batch: PER_BATCH,
            connections: 0,
            given_up: 0,
            finished: false,
            mark: Mark(0),
        }
    }

    /// Sets the number of datagrams per receive call.
    pub fn in_batches_of(self, per_batch: usize) -> Host<F, C> {
        Host { per_batch, ..self }
    }

    /// The framing.
    pub fn framing(&self) -> &F {
        &self.framing
    }

    /// Passes the received data, if any, to the framing; returns the number of bytes left over.
    pub fn step(&mut self) -> usize {
        self.mark.0 += C::MARK_STEP_NS;
        self.received.header.mark = self.mark;
        let (calls, bytes) = (self.received.slices.len() as u64, self.received.byte_count());
        for (unit, count) in [(Unit::Datagrams, calls), (Unit::Bytes, bytes)] {
            self.receive.input(unit, count);
            self.receive.output(unit, count);
        }
        self.finished = false;
        // The units of a batch keep its blocks until the next one, like units that wait for a decoder.
        self.units.clear();
        let left_over = self.framing.frame(&self.received, &mut self.units);
        self.collect.collect(&self.units);
        self.received.clear();
        left_over
    }

    /// Receives one datagram; several make a batch.
    ///
    /// # Panics
    /// When the datagram is longer than a block, or the framing holds more blocks than it may.
    pub fn datagram(&mut self, datagram: &[u8]) {
        self.datagram_from(0, datagram);
    }

    /// Receives one datagram from the sender with this index.
    ///
    /// # Panics
    /// As [`Host::datagram`].
    pub fn datagram_from(&mut self, sender: u32, datagram: &[u8]) {
        if self.writer.as_ref().is_none_or(|writer| writer.remaining() < datagram.len()) {
            self.writer = POOL.with_borrow(Pool::take);
        }
        let writer = self.writer.as_mut().expect("a framing holds a bounded number of blocks");
        let slice = writer.append(datagram).expect("a datagram fits a block");
        self.received.slices.push(slice.tagged(sender));
        self.received.leases.add(writer.lease());
        if self.received.slices.len() >= self.per_batch {
            self.step();
        }
    }

    /// Receives datagrams, after an empty batch.
    ///
    /// # Panics
    /// As [`Host::datagram`].
    pub fn datagrams<'a>(&mut self, datagrams: impl IntoIterator<Item = &'a [u8]>) {
        self.step();
        datagrams.into_iter().for_each(|datagram| self.datagram(datagram));
    }

    /// Receives all bytes of a connection in chunks of the given sizes, used in turn; each is a receive call. Then the
    /// connection ends; another call opens a new one.
    ///
    /// # Panics
    /// When the framing leaves over more than it was given, or holds blocks.
    pub fn connection(&mut self, bytes: &[u8], chunk_sizes: &[usize]) {
        if self.connections > 0 {
            self.framing.begin_anew();
        }
        self.connections += 1;
        let pool = POOL.with_borrow(Clone::clone);
        let mut buffer = StreamBuffer::new(pool.clone(), SMALLEST_TAIL);
        let (mut rest, mut sizes) = (bytes, chunk_sizes.iter().copied().cycle());
        while !rest.is_empty() {
            let tail = match buffer.room() {
                Room::Tail(tail) => tail,
                Room::UnitTooLarge => {
                    buffer.carry(0);
                    self.given_up += 1;
                    continue;
                }
                Room::NoBlock => panic!("the framing holds blocks beyond its batches"),
            };
            let length = sizes.next().unwrap_or(usize::MAX).max(1).min(rest.len()).min(tail.len());
            let (chunk, behind) = rest.split_at(length);
            tail[..length].copy_from_slice(chunk);
            rest = behind;
            buffer.publish(length, &mut self.received);
            let given = self.received.slices[0].length as usize;
            let left_over = self.step();
            assert!(left_over <= given, "the framing left over more than it was given");
            buffer.carry(left_over);
            let used = pool.block_count() - pool.free_count();
            assert!(used <= BLOCKS_OF_A_STREAM, "a stream uses {used} blocks");
        }
        buffer.give_carried(&mut self.received);
        self.end();
    }

    /// The source ends behind the data received last.
    fn end(&mut self) {
        self.units.clear();
        self.framing.finish(&self.received, &mut self.units);
        self.collect.collect(&self.units);
        self.received.clear();
        self.finished = true;
    }

    /// The current outcome: open units are held.
    pub fn outcome(&mut self) -> &C::Outcome {
        let Host { framing, collect, first_source, receive, connections, .. } = self;
        let is_stream = *connections > 0;
        let snapshot = ledger::snapshot(*first_source, receive, &**framing, collect.counted(), is_stream);
        collect.close(snapshot, self.given_up);
        self.collect.outcome()
    }

    /// Ends the run.
    pub fn finish(mut self) -> C::Outcome {
        if !self.finished {
            self.step();
            self.end();
        }
        self.outcome();
        self.collect.into_outcome()
    }
}
