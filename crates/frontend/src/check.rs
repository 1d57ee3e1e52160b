//! Runs a front end as the host does and checks that its ledger balances: for its tests and for fuzzing.
//!
//! ```text
//!  bytes ─► pieces or datagrams ─► Unpack ─► Decode ─► Outcome { hits, extras, samples, …, snapshot }
//! ```
//! Not part of the data path: it copies everything out.

use std::cell::RefCell;

use thalweg_data::ledger::CounterSnapshot;
use thalweg_data::pool::BlockWriter;
use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::waveform::Samples;
use thalweg_data::{
    Counters, Decode, Extra, Flags, Frames, Framing, Hit, Hits, LedgerSnapshot, LossReason, Mark, Pool,
    Signal, SourceId, Stage, Statistics, Unit,
};

use crate::format::{FramingInput, HitFormat, SelfTriggeredSettings};
use crate::self_triggered::Outgoing;

/// Enough for units of a megabyte in small datagrams.
const BLOCKS: usize = 64;
/// Bytes of a block: what a stream's unit must fit into.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Datagrams of a receive call.
const PER_BATCH: usize = 5;
/// Between two receive calls.
const MARK_STEP_NS: u64 = 100_000;

thread_local! {
    /// One pool per thread: a process can name a limited number, and a fuzzer calls without end.
    static POOL: RefCell<Pool> = RefCell::new(Pool::new(BLOCKS, BLOCK_BYTES).expect("the sizes are possible"));
}

/// The outcome of a run.
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
    pub snapshot: LedgerSnapshot,
}

impl Outcome {
    /// One stage's counters.
    ///
    /// # Panics
    /// When the run had no such stage.
    pub fn counters(&self, stage: Stage) -> &Counters {
        &self.snapshot.slot(stage, SourceId(0)).expect("the run has this stage").counters
    }

    /// Everything lost for one reason, over all stages.
    pub fn lost(&self, reason: LossReason, unit: Unit) -> u64 {
        self.snapshot.slots.iter().map(|counts| counts.counters.total_lost(reason, unit)).sum()
    }

    /// Panics when the ledger does not balance or does not agree with the hits that came out.
    ///
    /// # Panics
    /// As said.
    pub fn assert_closed(&self) {
        let discrepancies = self.snapshot.discrepancies();
        assert!(discrepancies.is_empty(), "the ledger does not balance: {discrepancies:?}");
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
    unpack: impl Framing<Output = Frames> + 'static,
    decode: impl Decode + 'static,
    bytes: &[u8],
    pieces: &[usize],
) -> Outcome {
    let mut run = Run::new(Box::new(unpack), Box::new(decode));
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

/// Datagrams one behind the other, each with its length before it: what fuzzers of datagrams change.
pub fn joined<'a>(datagrams: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let with_length = |datagram: &[u8]| [&(datagram.len() as u16).to_be_bytes()[..], datagram].concat();
    datagrams.into_iter().flat_map(with_length).collect()
}

/// The datagrams that were joined, whatever the bytes are.
pub fn split(mut joined: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = joined.split_first_chunk()?;
        let (datagram, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        joined = rest;
        Some(datagram)
    })
}

/// What an emulated board sends in its first `run_ms`, and the hits in it.
///
/// # Panics
/// When there can be no such board.
pub fn sent(settings: &dyn SelfTriggeredSettings, run_ms: u64) -> (Vec<Vec<u8>>, Vec<Hit>) {
    let mut board = settings.board().expect("the settings are possible");
    let (mut out, mut datagrams, mut hits) = (Outgoing::new(BLOCK_BYTES), Vec::new(), Vec::new());
    board.record_truth(true);
    board.arm().and_then(|()| board.start(0)).expect("it was idle");
    board.stop(run_ms * 1_000_000);
    while board.produce(run_ms * 1_000_000, &mut out) || !out.is_empty() {
        datagrams.extend(out.datagrams().map(<[u8]>::to_vec));
        out.clear();
    }
    board.take_truth(&mut hits);
    (datagrams, hits)
}

/// What a source with these settings makes of datagrams.
///
/// # Panics
/// When the settings cannot be used, or the front end panics.
pub fn received<'a>(format: &dyn HitFormat, datagrams: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let input = FramingInput {
        source: SourceId(0),
        is_stream: false,
        scheme: "udp",
        asked: None,
        blocks: BLOCKS,
        block_bytes: BLOCK_BYTES,
    };
    let (unpack, mut decoders) = format.framing(input, 1).expect("the settings are possible");
    Run::new(unpack, decoders.remove(0)).datagrams(datagrams, PER_BATCH)
}

/// Feeds datagrams, five to a batch.
///
/// # Panics
/// As [`datagrams_in_batches`].
pub fn datagrams<'a>(
    unpack: impl Framing<Output = Frames> + 'static,
    decode: impl Decode + 'static,
    datagrams: impl IntoIterator<Item = &'a [u8]>,
) -> Outcome {
    datagrams_in_batches(unpack, decode, datagrams, PER_BATCH)
}

/// Feeds datagrams, so many to a batch.
///
/// # Panics
/// When the front end does, or a datagram is longer than a block.
pub fn datagrams_in_batches<'a>(
    unpack: impl Framing<Output = Frames> + 'static,
    decode: impl Decode + 'static,
    datagrams: impl IntoIterator<Item = &'a [u8]>,
    per_batch: usize,
) -> Outcome {
    Run::new(Box::new(unpack), Box::new(decode)).datagrams(datagrams, per_batch)
}

struct Run {
    unpack: Box<dyn Framing<Output = Frames>>,
    decode: Box<dyn Decode>,
    receive: Counters,
    received: Frames,
    units: Frames,
    hits: Hits,
    outcome: Outcome,
    mark: Mark,
}

impl Run {
    fn new(unpack: Box<dyn Framing<Output = Frames>>, decode: Box<dyn Decode>) -> Run {
        let (received, units, hits) = (Frames::default(), Frames::default(), Hits::default());
        let (receive, outcome) = (Counters::default(), Outcome::default());
        Run { unpack, decode, receive, received, units, hits, outcome, mark: Mark(0) }
    }

    fn datagrams<'a>(mut self, datagrams: impl IntoIterator<Item = &'a [u8]>, per_batch: usize) -> Outcome {
        let pool = POOL.with_borrow(Clone::clone);
        let mut writer: Option<BlockWriter> = None;
        for datagram in datagrams {
            if writer.as_ref().is_none_or(|writer| writer.remaining() < datagram.len()) {
                self.step();
                self.received.clear();
                writer = pool.take();
            }
            let writer = writer.as_mut().expect("the run holds no block beyond its batches");
            let slice = writer.append(datagram).expect("a datagram fits a block");
            self.received.slices.push(slice);
            self.received.leases.add(writer.lease());
            if self.received.slices.len() >= per_batch {
                self.step();
                self.received.clear();
            }
        }
        self.step();
        self.received.clear();
        self.finish()
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
        let slot = |stage, units: &[Unit], counters: &Counters| CounterSnapshot {
            stage,
            source: SourceId(0),
            units: units.iter().fold(0, |mask, unit| mask | 1 << *unit as u64),
            counters: counters.clone(),
        };
        let slots = vec![
            slot(Stage::Wire, &[Unit::Datagrams, Unit::Frames], &self.unpack.wire_counters()[0]),
            slot(Stage::Receive, &[Unit::Datagrams, Unit::Bytes], &self.receive),
            slot(Stage::Unpack, &[Unit::Datagrams, Unit::Bytes, Unit::Frames], self.unpack.counters()),
            slot(Stage::Decode, &[Unit::Bytes, Unit::Frames, Unit::Hits], self.decode.counters()),
        ];
        self.outcome.snapshot = LedgerSnapshot::of(vec!["checked".to_owned()], slots);
        self.outcome
    }
}
