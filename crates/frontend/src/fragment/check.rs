//! Runs a splitter as the host does and checks that its ledger balances: for its tests and for fuzzing.
//!
//! ```text
//!  bytes ─► datagrams · pieces of a stream ─► Splitter ─► Outcome { fragments and their bytes, snapshot }
//! ```
//! Not part of the data path: it copies every fragment out.

use std::cell::RefCell;

use thalweg_data::ledger::CounterSnapshot;
use thalweg_data::pool::BlockWriter;
use thalweg_data::{
    Counters, Fragment, Fragments, Frames, Framing, LedgerSnapshot, Mark, Pool, SourceId, Stage, Unit,
};

use super::{Checksum, Settings, Splitter, StreamSplitter, seeds};
use crate::check::feed_stream;
use crate::format::FuzzTarget;

/// What the family's parsers are tried with.
pub(super) static FUZZ: &[FuzzTarget] = &[FuzzTarget { name: "fragment", seeds: seeds::fragments, check }];

/// More than a splitter may hold on to with the settings used here, and those of a batch.
const BLOCKS: usize = 64;
const BLOCK_BYTES: usize = 64 << 10;
/// Datagrams of one receive call.
const BATCH: usize = 5;

thread_local! {
    /// One pool per thread: a process can name a limited number, and a fuzzer calls without end.
    static POOL: RefCell<Pool> = RefCell::new(Pool::new(BLOCKS, BLOCK_BYTES).expect("the sizes are possible"));
}

/// What came out of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The fragments, each with a copy of its bytes.
    pub fragments: Vec<(Fragment, Vec<u8>)>,
    /// What came in.
    pub receive: Counters,
    /// The splitter's counters of the link.
    pub link: Counters,
    /// Those of its boards, when there are several.
    pub boards: Vec<Counters>,
    /// What the boards' own numbers say was sent, of boards that count.
    pub wire: Vec<Counters>,
}

impl Outcome {
    /// The counters in which the fragments of the board with this index are counted.
    pub fn board(&self, index: usize) -> &Counters {
        self.boards.get(index).unwrap_or(&self.link)
    }

    /// Panics when the ledger does not balance or does not agree with the fragments that came out.
    ///
    /// # Panics
    /// As said.
    pub fn assert_closed(&self) {
        let slot = |stage, source, units: &[Unit], counters: &Counters| CounterSnapshot {
            stage,
            source: SourceId(source),
            units: units.iter().fold(0, |mask, unit| mask | 1 << *unit as u64),
            counters: counters.clone(),
        };
        let units = [Unit::Datagrams, Unit::Bytes];
        let framed = [Unit::Datagrams, Unit::Bytes, Unit::Fragments];
        let counted = if self.boards.is_empty() { &framed[..] } else { &units };
        let mut slots =
            vec![slot(Stage::Receive, 0, &units, &self.receive), slot(Stage::Unpack, 0, counted, &self.link)];
        for (board, counters) in (1..).zip(&self.boards) {
            slots.push(slot(Stage::Unpack, board, &[Unit::Fragments], counters));
        }
        for (board, counters) in (1..).zip(&self.wire) {
            slots.push(slot(Stage::Wire, board, &[Unit::Frames], counters));
        }
        let names = vec!["checked".to_owned(); self.boards.len().max(self.wire.len()) + 1];
        let discrepancies = LedgerSnapshot::of(names, slots).discrepancies();
        assert!(discrepancies.is_empty(), "the ledger does not balance: {discrepancies:?}");
        let boards = if self.boards.is_empty() { std::slice::from_ref(&self.link) } else { &self.boards };
        for (index, counters) in boards.iter().enumerate() {
            let own = self.fragments.iter().filter(|(fragment, _)| fragment.source.index() == index);
            assert_eq!(
                counters.total_output(Unit::Fragments),
                own.count() as u64,
                "fragments of board {index}"
            );
        }
        let bytes: usize = self.fragments.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(self.link.total_output(Unit::Bytes), bytes as u64);
        for (fragment, bytes) in &self.fragments {
            assert_eq!(fragment.bytes as usize, bytes.len(), "a fragment says how long it is");
        }
    }
}

/// A splitter in the hands of a host.
pub struct Run<S> {
    splitter: S,
    received: Frames,
    fragments: Fragments,
    outcome: Outcome,
    writer: Option<BlockWriter>,
    /// When the next batch comes; each is a millisecond behind the one before.
    pub mark: Mark,
}

impl<S: Framing<Output = Fragments>> Run<S> {
    /// Nothing has come yet.
    pub fn new(splitter: S) -> Run<S> {
        Run {
            splitter,
            received: Frames::default(),
            fragments: Fragments::default(),
            outcome: Outcome::default(),
            writer: None,
            mark: Mark(0),
        }
    }

    /// Gives the splitter what was received; returns what it leaves over.
    pub fn step(&mut self) -> usize {
        self.mark.0 += 1_000_000;
        self.received.header.mark = self.mark;
        let (calls, bytes) = (self.received.slices.len() as u64, self.received.byte_count());
        for (unit, count) in [(Unit::Datagrams, calls), (Unit::Bytes, bytes)] {
            self.outcome.receive.input(unit, count);
            self.outcome.receive.output(unit, count);
        }
        let left_over = self.splitter.frame(&self.received, &mut self.fragments);
        self.take_fragments();
        self.received.clear();
        left_over
    }

    fn take_fragments(&mut self) {
        for (fragment, slices) in self.fragments.iter() {
            let bytes = slices.iter().flat_map(|slice| self.fragments.leases.bytes(*slice)).copied();
            self.outcome.fragments.push((*fragment, bytes.collect()));
        }
        self.fragments.clear();
    }

    /// Receives one datagram; a few make a batch.
    ///
    /// # Panics
    /// When the datagram is longer than a block, or the splitter holds on to more than it may.
    pub fn datagram(&mut self, datagram: &[u8]) {
        self.datagram_from(0, datagram);
    }

    /// Receives one datagram from the sender of this position.
    ///
    /// # Panics
    /// As for one from the first.
    pub fn datagram_from(&mut self, sender: u32, datagram: &[u8]) {
        let full = self.writer.as_ref().is_none_or(|writer| writer.remaining() < datagram.len());
        if full {
            self.writer = POOL.with_borrow(Pool::take);
        }
        let writer = self.writer.as_mut().expect("a splitter holds on to a bounded number of blocks");
        let slice = writer.append(datagram).expect("a datagram fits a block");
        self.received.slices.push(slice.tagged(sender));
        self.received.leases.add(writer.lease());
        if self.received.slices.len() == BATCH {
            self.step();
        }
    }

    /// The ledger as it stands: what is open is held.
    pub fn outcome(&mut self) -> &Outcome {
        self.outcome.link = self.splitter.counters().clone();
        self.outcome.boards = self.splitter.board_counters().to_vec();
        self.outcome.wire = self.splitter.wire_counters().to_vec();
        &self.outcome
    }

    /// Ends the run.
    pub fn finish(mut self) -> Outcome {
        if !self.received.slices.is_empty() {
            self.step();
        }
        self.end()
    }

    /// Ends the run behind what is carried.
    fn end(mut self) -> Outcome {
        self.splitter.finish(&self.received, &mut self.fragments);
        self.take_fragments();
        self.outcome();
        self.outcome
    }
}

/// Feeds datagrams, a few to a batch.
///
/// # Panics
/// When the splitter does, or a datagram is longer than a block.
pub fn datagrams<'a>(
    splitter: impl Framing<Output = Fragments>,
    datagrams: impl IntoIterator<Item = &'a [u8]>,
) -> Outcome {
    let mut run = Run::new(splitter);
    datagrams.into_iter().for_each(|datagram| run.datagram(datagram));
    run.finish()
}

/// Feeds `bytes` as a stream, in pieces of the given sizes over and over, each a receive call.
///
/// # Panics
/// When the splitter does, or asks to carry more than it was given.
pub fn stream(splitter: impl Framing<Output = Fragments>, bytes: &[u8], pieces: &[usize]) -> Outcome {
    let mut run = Run::new(splitter);
    let (_, mut buffer) = feed_stream(POOL.with_borrow(Clone::clone), bytes, pieces, |buffer, length| {
        buffer.publish(length, &mut run.received);
        let given = run.received.slices[0].length as usize;
        (run.step(), given)
    });
    buffer.give_carried(&mut run.received);
    run.end()
}

/// Settings that the first byte of a fuzzed input chooses: boards, checksum, run, length.
pub(crate) fn checked_settings(choice: u8) -> Settings {
    Settings {
        tick_ps: None,
        boards: if choice & 2 == 0 { 1 } else { 5 },
        first_board: if choice & 4 == 0 { 0 } else { 700 },
        without: Vec::new(),
        checksum: [Checksum::IfSent, Checksum::Required, Checksum::Ignored, Checksum::IfSent]
            [usize::from(choice >> 3 & 3)],
        longest_fragment_bytes: if choice & 0x20 == 0 { 2000 } else { 100_000 },
        run: (choice & 0x40 != 0).then_some(7),
        open_fragments: 2,
        reassembly_ms: 3,
    }
}

/// Reads arbitrary bytes as the host would, as a stream or as datagrams, and panics when the ledger does not balance: for
/// fuzzing. The first byte chooses; datagrams are separated by two length bytes before each.
pub fn check(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let settings = checked_settings(*choice);
    if choice & 1 == 1 {
        let splitter = StreamSplitter::new(SourceId(0), &settings).expect("the settings are possible");
        let pieces = if choice & 0x80 == 0 { [4096, 17] } else { [3, 1] };
        stream(splitter, bytes, &pieces).assert_closed();
        return;
    }
    let mut rest = bytes;
    let list = std::iter::from_fn(|| {
        let (length, behind) = rest.split_first_chunk::<2>()?;
        let (datagram, behind) = behind.split_at(usize::from(u16::from_be_bytes(*length)).min(behind.len()));
        rest = behind;
        Some(datagram)
    });
    let splitter = Splitter::new(SourceId(0), &settings).expect("the settings are possible");
    datagrams(splitter, list).assert_closed();
}
