//! Runs a splitter as the host does and checks that its ledger balances: for its tests and for fuzzing.
//!
//! ```text
//!  bytes ─► pieces ─► StreamBuffer ─► Splitter ─► Outcome { fragments and their bytes, snapshot }
//! ```

use std::cell::RefCell;

use thalweg_data::ledger::CounterSnapshot;
use thalweg_data::{
    Counters, Fragment, Fragments, Frames, Framing, LedgerSnapshot, LossReason, Mark, Pool, SourceId, Stage,
    Unit,
};

use super::rbcp::{self, Client, Faults, Operation, Registers};
use super::seeds;
use super::settings::{NamedBy, Profile, Settings};
use super::split::Splitter;
use crate::check::feed_stream;
use crate::format::FuzzTarget;

/// Fuzz targets of the family's parsers.
pub(super) static FUZZ: &[FuzzTarget] = &[
    FuzzTarget { name: "sitcp", seeds: seeds::streams, check: check_stream },
    FuzzTarget { name: "sitcp_registers", seeds: seeds::requests, check: check_registers },
];

const BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 64 << 10;

thread_local! {
    /// One pool per thread: a process can name a limited number, and a fuzzer calls without end.
    static POOL: RefCell<Pool> = RefCell::new(Pool::new(BLOCKS, BLOCK_BYTES).expect("the sizes are possible"));
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The fragments, each with a copy of its bytes.
    pub fragments: Vec<(Fragment, Vec<u8>)>,
    /// Receive and split of the connection, the boards' fragments, the wire. The connection is source 0, the boards of
    /// several begin at 1.
    pub snapshot: LedgerSnapshot,
}

impl Outcome {
    /// Everything lost for one reason, over all counters.
    pub fn lost(&self, reason: LossReason, unit: Unit) -> u64 {
        self.snapshot.slots.iter().map(|counts| counts.counters.total_lost(reason, unit)).sum()
    }

    /// The trigger numbers, in the order of the fragments.
    pub fn triggers(&self) -> Vec<u64> {
        self.fragments.iter().map(|(fragment, _)| fragment.trigger).collect()
    }

    /// # Panics
    /// When the ledger does not balance or does not agree with the fragments that came out.
    pub fn assert_closed(&self) {
        let discrepancies = self.snapshot.discrepancies();
        assert!(discrepancies.is_empty(), "the ledger does not balance: {discrepancies:?}");
        let counted = self.snapshot.total_output(Stage::Unpack, Unit::Fragments);
        assert_eq!(counted, self.fragments.len() as u64, "each fragment is counted once");
        let bytes: usize = self.fragments.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(self.snapshot.total_output(Stage::Unpack, Unit::Bytes), bytes as u64);
        for (fragment, bytes) in &self.fragments {
            assert_eq!(fragment.bytes as usize, bytes.len(), "a fragment has the bytes it says");
        }
    }
}

/// Feeds connections one after the other, each in pieces of the given sizes over and over, each a receive call.
///
/// # Panics
/// When the splitter does, or asks to carry more than it was given.
pub fn connections(splitter: &mut Splitter, connections: &[&[u8]], pieces: &[usize]) -> Outcome {
    let mut run = Run::default();
    for bytes in connections {
        let (_, mut buffer) = feed_stream(POOL.with_borrow(Clone::clone), bytes, pieces, |buffer, length| {
            run.received.clear();
            buffer.publish(length, &mut run.received);
            let given = run.received.slices[0].length as usize;
            (run.step(splitter), given)
        });
        run.received.clear();
        run.fragments.clear();
        buffer.give_carried(&mut run.received);
        splitter.finish(&run.received, &mut run.fragments);
        run.collect();
    }
    run.close(splitter)
}

/// Feeds one connection.
///
/// # Panics
/// As for [`connections`].
pub fn stream(splitter: &mut Splitter, bytes: &[u8], pieces: &[usize]) -> Outcome {
    connections(splitter, &[bytes], pieces)
}

#[derive(Default)]
struct Run {
    receive: Counters,
    received: Frames,
    fragments: Fragments,
    outcome: Outcome,
    mark: Mark,
}

impl Run {
    fn step(&mut self, splitter: &mut Splitter) -> usize {
        self.mark = Mark(self.mark.0 + 1_000_000);
        self.received.header.mark = self.mark;
        let (calls, bytes) = (self.received.slices.len() as u64, self.received.byte_count());
        for (unit, count) in [(Unit::Datagrams, calls), (Unit::Bytes, bytes)] {
            self.receive.input(unit, count);
            self.receive.output(unit, count);
        }
        self.fragments.clear();
        let left_over = splitter.frame(&self.received, &mut self.fragments);
        self.collect();
        left_over
    }

    fn collect(&mut self) {
        for (fragment, slices) in self.fragments.iter() {
            let bytes =
                slices.iter().flat_map(|slice| self.fragments.leases.bytes(*slice).to_vec()).collect();
            self.outcome.fragments.push((*fragment, bytes));
        }
    }

    fn close(mut self, splitter: &Splitter) -> Outcome {
        let slot = |stage, source: usize, units: &[Unit], counters: &Counters| CounterSnapshot {
            stage,
            source: SourceId(source as u16),
            units: units.iter().fold(0, |mask, unit| mask | 1 << *unit as u64),
            counters: counters.clone(),
        };
        let several = !splitter.board_counters().is_empty();
        let link_units = [Unit::Datagrams, Unit::Bytes, Unit::Fragments];
        let units = if several { &link_units[..2] } else { &link_units };
        let mut slots = vec![
            slot(Stage::Receive, 0, &[Unit::Datagrams, Unit::Bytes], &self.receive),
            slot(Stage::Unpack, 0, units, splitter.counters()),
        ];
        let first = usize::from(several);
        for (index, counters) in splitter.board_counters().iter().enumerate() {
            slots.push(slot(Stage::Unpack, first + index, &[Unit::Fragments], counters));
        }
        for (index, counters) in splitter.wire_counters().iter().enumerate() {
            slots.push(slot(Stage::Wire, first + index, &[Unit::Frames], counters));
        }
        let sources = 1 + splitter.board_counters().len();
        self.outcome.snapshot = LedgerSnapshot::of(vec!["checked".to_owned(); sources], slots);
        self.outcome
    }
}

/// The profile that the first byte of a fuzzer's input chooses.
pub fn profile_of(choice: u8) -> Profile {
    [Profile::Recbe, Profile::Belle2, Profile::AdcSitcp, Profile::StrTdc][usize::from(choice & 3)]
}

/// Reads arbitrary bytes as the stream of a board, in pieces, and panics when the ledger does not balance: for fuzzing.
pub fn check_stream(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let profile = profile_of(*choice);
    let named_by = if choice & 4 == 0 { NamedBy::Header } else { NamedBy::Connection };
    let one = profile == Profile::StrTdc || named_by == NamedBy::Connection;
    let boards = if one || choice & 8 == 0 { 1 } else { 5 };
    let settings = Settings { profile, boards, named_by, first_board: 7, ..Settings::default() };
    let pieces: &[usize] = [&[4096, 17][..], &[3, 1]][usize::from(choice >> 4 & 1)];
    let mut splitter = Splitter::new(SourceId(1), &settings).expect("the settings are possible");
    connections(&mut splitter, &[bytes, bytes], pieces).assert_closed();
}

/// Sends arbitrary bytes to an emulated board's register port and to a client that waits for an answer.
///
/// # Panics
/// When one of them does, or an answer of the board is none.
pub fn check_registers(input: &[u8]) {
    let mut registers = Registers::recbe(7, Faults::default());
    let mut answers = Vec::new();
    registers.answer(input, 0, &mut answers);
    for answer in &answers {
        rbcp::wire::Reply::check(&answer.datagram).expect("a board answers with replies");
    }
    let mut client = Client::new(rbcp::Settings::default());
    let begun = client.begin(Operation::Read { address: 5, length: 1 }, 0);
    begun.expect("nothing is under way");
    client.transmit(0);
    client.receive(input);
    answers.iter().for_each(|answer| client.receive(&answer.datagram));
}
