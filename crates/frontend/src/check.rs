//! Runs a front end as the host does and holds its books to the laws: for its tests and for fuzzing.
//!
//! ```text
//!  bytes ─► pieces or datagrams ─► Unpack ─► Decode ─► Outcome { hits, extras, samples, …, books }
//! ```
//! Not part of the data path: it copies everything out.

use std::cell::RefCell;

use thalweg_data::ledger::AccountBook;
use thalweg_data::pool::BlockWriter;
use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::waveform::Samples;
use thalweg_data::{
    Books, Counters, Decode, Extra, Flags, Frames, Framing, Hit, Hits, LossReason, Mark, Pool, Signal,
    SourceId, Stage, Statistics, Unit,
};

/// Enough for units of a megabyte in small datagrams.
const BLOCKS: usize = 64;
/// Bytes of a block: what a stream's unit must fit into.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Between two receive calls.
const MARK_STEP_NS: u64 = 100_000;

thread_local! {
    /// One pool per thread: a process can name a limited number, and a fuzzer calls without end.
    static POOL: RefCell<Pool> = RefCell::new(Pool::new(BLOCKS, BLOCK_BYTES).expect("the sizes are possible"));
}

/// What came out of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The hits, in the order of decoding.
    pub hits: Vec<Hit>,
    /// Their extras. Slices are not valid behind the run.
    pub extras: Vec<Extra>,
    /// The samples of each extra; empty where it has none.
    pub samples: Vec<Samples>,
    /// The bytes of each extra's samples, as received.
    pub sample_bytes: Vec<Vec<u8>>,
    /// The bytes of each extra's user words.
    pub words: Vec<Vec<u8>>,
    /// The bytes of each slice of a unit.
    pub units: Vec<Vec<u8>>,
    /// The board's own counters.
    pub statistics: Vec<Statistics>,
    /// What the board said about the run.
    pub signals: Vec<Signal>,
    /// How often a framing wanted to carry a whole block, and the receiver gave the bytes up.
    pub given_up: u64,
    /// Receive, unpack, decode and wire.
    pub books: Books,
}

impl Outcome {
    /// One stage's counters.
    ///
    /// # Panics
    /// When the run had no such stage.
    pub fn counters(&self, stage: Stage) -> &Counters {
        &self.books.account(stage, SourceId(0)).expect("the run has this stage").counters
    }

    /// Everything lost for one reason, over all stages.
    pub fn lost(&self, reason: LossReason, unit: Unit) -> u64 {
        self.books.accounts.iter().map(|account| account.counters.total_lost(reason, unit)).sum()
    }

    /// Panics when the books do not close or do not agree with the hits that came out.
    ///
    /// # Panics
    /// As said.
    pub fn assert_closed(&self) {
        let discrepancies = self.books.discrepancies();
        assert!(discrepancies.is_empty(), "the books do not close: {discrepancies:?}");
        assert_eq!(self.counters(Stage::Decode).total_output(Unit::Hits), self.hits.len() as u64);
        let with_extra = self.hits.iter().filter(|hit| hit.flags.has(Flags::EXTRA));
        let times = with_extra.map(|hit| hit.time_ps);
        assert!(
            times.eq(self.extras.iter().map(|extra| extra.time_ps)),
            "the k-th hit with an extra owns row k"
        );
    }
}

/// Feeds `bytes` as a stream, in pieces of the given sizes over and over, each a receive call.
///
/// # Panics
/// When the front end does, or asks to carry more than it was given.
pub fn stream(
    unpack: impl Framing<Output = Frames>,
    decode: impl Decode,
    bytes: &[u8],
    pieces: &[usize],
) -> Outcome {
    let mut run = Run::new(unpack, decode);
    let (given_up, mut buffer) =
        feed_stream(POOL.with_borrow(Clone::clone), bytes, pieces, |buffer, length| {
            run.received.clear();
            buffer.publish(length, &mut run.received);
            let given = run.received.slices[0].length as usize;
            (run.step(), given)
        });
    run.outcome.given_up += given_up;
    run.received.clear();
    buffer.give_carried(&mut run.received);
    run.finish()
}

/// Feeds `bytes` into the blocks of a pool as receive calls would, in pieces of the given sizes over and over. `step` publishes
/// what a call received and returns how much of it is left over, and how much it was given. Returns how often a unit that no
/// block can hold was given up, and the buffer with what is left over at the end.
///
/// # Panics
/// When `step` does, asks to carry more than it was given, or holds every block.
pub(crate) fn feed_stream(
    pool: Pool,
    bytes: &[u8],
    pieces: &[usize],
    mut step: impl FnMut(&mut StreamBuffer, usize) -> (usize, usize),
) -> (u64, StreamBuffer) {
    let mut buffer = StreamBuffer::new(pool, 256);
    let (mut rest, mut sizes, mut given_up) = (bytes, pieces.iter().copied().cycle(), 0);
    while !rest.is_empty() {
        let tail = match buffer.room() {
            Room::Tail(tail) => tail,
            Room::UnitTooLarge => {
                buffer.carry(0);
                given_up += 1;
                continue;
            }
            Room::NoBlock => panic!("the run holds no block beyond its batches"),
        };
        let length = sizes.next().unwrap_or(usize::MAX).max(1).min(rest.len()).min(tail.len());
        let (now, later) = rest.split_at(length);
        tail[..length].copy_from_slice(now);
        rest = later;
        let (left_over, given) = step(&mut buffer, length);
        assert!(left_over <= given, "no more is carried than was given");
        buffer.carry(left_over);
    }
    (given_up, buffer)
}

/// Feeds datagrams, five to a batch.
///
/// # Panics
/// As [`datagrams_in_batches`].
pub fn datagrams<'a>(
    unpack: impl Framing<Output = Frames>,
    decode: impl Decode,
    datagrams: impl IntoIterator<Item = &'a [u8]>,
) -> Outcome {
    datagrams_in_batches(unpack, decode, datagrams, 5)
}

/// Feeds datagrams, so many to a batch.
///
/// # Panics
/// When the front end does, or a datagram is longer than a block.
pub fn datagrams_in_batches<'a>(
    unpack: impl Framing<Output = Frames>,
    decode: impl Decode,
    datagrams: impl IntoIterator<Item = &'a [u8]>,
    per_batch: usize,
) -> Outcome {
    let pool = POOL.with_borrow(Clone::clone);
    let mut run = Run::new(unpack, decode);
    let mut writer: Option<BlockWriter> = None;
    for datagram in datagrams {
        if writer.as_ref().is_none_or(|writer| writer.remaining() < datagram.len()) {
            run.step();
            run.received.clear();
            writer = pool.take();
        }
        let writer = writer.as_mut().expect("the run holds no block beyond its batches");
        let slice = writer.append(datagram).expect("a datagram fits a block");
        run.received.slices.push(slice);
        run.received.leases.add(writer.lease());
        if run.received.slices.len() >= per_batch {
            run.step();
            run.received.clear();
        }
    }
    run.step();
    run.received.clear();
    run.finish()
}

struct Run<U, D> {
    unpack: U,
    decode: D,
    receive: Counters,
    received: Frames,
    units: Frames,
    hits: Hits,
    outcome: Outcome,
    mark: Mark,
}

impl<U: Framing<Output = Frames>, D: Decode> Run<U, D> {
    fn new(unpack: U, decode: D) -> Run<U, D> {
        let (received, units, hits) = (Frames::default(), Frames::default(), Hits::default());
        let (receive, outcome) = (Counters::default(), Outcome::default());
        Run { unpack, decode, receive, received, units, hits, outcome, mark: Mark(0) }
    }

    fn step(&mut self) -> usize {
        self.mark = Mark(self.mark.0 + MARK_STEP_NS);
        self.received.header.mark = self.mark;
        let (calls, bytes) = (self.received.slices.len() as u64, self.received.byte_count());
        for (unit, count) in [(Unit::Datagrams, calls), (Unit::Bytes, bytes)] {
            self.receive.input(unit, count);
            self.receive.output(unit, count);
        }
        self.units.clear();
        let left_over = self.unpack.frame(&self.received, &mut self.units);
        self.decode_units();
        left_over
    }

    fn decode_units(&mut self) {
        let Run { units, hits, outcome, .. } = self;
        hits.clear();
        self.decode.decode(units, hits);
        outcome.units.extend(units.slices.iter().map(|slice| units.bytes(*slice).to_vec()));
        outcome.hits.extend(&hits.hits);
        outcome.statistics.extend_from_slice(&hits.statistics);
        outcome.signals.extend(hits.signals.iter().map(|(_, signal)| *signal));
        let chain = |first: u32, count: u16| {
            let slices = hits.slices.iter().skip(first as usize).take(usize::from(count));
            slices.flat_map(|slice| hits.leases.bytes(*slice)).copied().collect()
        };
        for extra in &hits.extras {
            let mut samples = Samples::default();
            samples.read(extra, &hits.slices, &hits.leases);
            outcome.samples.push(samples);
            outcome.sample_bytes.push(chain(extra.samples_first, extra.samples_count));
            outcome.words.push(chain(extra.words_first, extra.words_count));
            outcome.extras.push(*extra);
        }
    }

    fn finish(mut self) -> Outcome {
        self.units.clear();
        self.unpack.finish(&self.received, &mut self.units);
        self.decode_units();
        let book = |stage, units: &[Unit], counters: &Counters| AccountBook {
            stage,
            source: SourceId(0),
            units: units.iter().fold(0, |mask, unit| mask | 1 << *unit as u64),
            counters: counters.clone(),
        };
        let accounts = vec![
            book(Stage::Wire, &[Unit::Datagrams, Unit::Frames], &self.unpack.wire_counters()[0]),
            book(Stage::Receive, &[Unit::Datagrams, Unit::Bytes], &self.receive),
            book(Stage::Unpack, &[Unit::Datagrams, Unit::Bytes, Unit::Frames], self.unpack.counters()),
            book(Stage::Decode, &[Unit::Bytes, Unit::Frames, Unit::Hits], self.decode.counters()),
        ];
        self.outcome.books = Books::of(vec!["checked".to_owned()], accounts);
        self.outcome
    }
}
