//! Simulation of clients, a device, and a network between them that loses, duplicates, delays and reorders datagrams. It runs from one seed
//! and on a simulated clock.
//!
//! ```text
//!  Exchange ─► Network: faults chosen by the seed ─► Device ─► Network ─► Exchange        a heap of arrivals, no threads
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::exchange::Exchange;
use super::failure::Failure;
use super::job::{Job, Landing, Outcome, Written};
use super::packing::PacketLimits;
use super::session::Session;
use crate::device::{Behaviour, Buffers, BusFault, Device, Registers};
use crate::faults::{BadNetwork, Faults};
use crate::sequence::Numbering;
use crate::wire::{Info, Operation};

const TIMEOUT: Duration = Duration::from_secs(30);
const TRAVEL: Duration = Duration::from_micros(100);

/// Faults in thousandths; a delay is at most a thousand times the travel time.
fn faults(lost: u32, doubled: u32, delayed: u32) -> Faults {
    Faults { lost, doubled, delayed, most_delay: 1000 * TRAVEL }
}

/// The receiver of a datagram: the device (with the index of the sending client), or a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Device(usize),
    Client(usize),
}

/// A datagram in flight: arrival time, a number that breaks ties, receiver, bytes.
type Travelling = (Instant, u64, To, Vec<u8>);

struct World {
    device: Device<Registers>,
    /// The device does not answer.
    is_dead: bool,
    network: BadNetwork,
    now: Instant,
    number: u64,
    travelling: BinaryHeap<Reverse<Travelling>>,
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let mut registers = Registers::new();
        registers.behave(0x900, 0x900, Behaviour::Refusing(BusFault::Error));
        World {
            device: Device::new(registers, Buffers { count: 4, bytes: 400 }),
            is_dead: false,
            network: BadNetwork::new(seed, faults),
            now: Instant::now(),
            number: 0,
            travelling: BinaryHeap::new(),
        }
    }

    fn send(&mut self, to: To, bytes: &[u8]) {
        let copies: Vec<_> = self.network.copies().collect();
        for delay in copies {
            self.number += 1;
            let at = self.now + delay.unwrap_or(TRAVEL);
            self.travelling.push(Reverse((at, self.number, to, bytes.to_vec())));
        }
    }

    /// Runs until every dispatch has ended.
    fn run(&mut self, exchanges: &mut [Exchange<'_, '_>]) {
        let mut reply = Vec::new();
        while exchanges.iter().any(|exchange| !exchange.is_done()) {
            for (client, exchange) in exchanges.iter_mut().enumerate() {
                while let Some(bytes) = exchange.transmit(self.now) {
                    let bytes = bytes.to_vec();
                    self.send(To::Device(client), &bytes);
                }
            }
            let due =
                exchanges.iter().filter(|exchange| !exchange.is_done()).filter_map(Exchange::deadline).min();
            let arrival = self.travelling.peek().map(|Reverse((at, ..))| *at);
            match (arrival, due) {
                (Some(at), due) if due.is_none_or(|due| at <= due) => {
                    let Some(Reverse((at, _, to, bytes))) = self.travelling.pop() else { return };
                    self.now = self.now.max(at);
                    match to {
                        To::Device(_) if self.is_dead => {}
                        To::Device(from) => {
                            if self.device.answer(&bytes, &mut reply) {
                                self.send(To::Client(from), &reply);
                            }
                        }
                        To::Client(client) => exchanges[client].receive(&bytes, self.now),
                    }
                }
                (_, Some(due)) => {
                    self.now = self.now.max(due);
                    exchanges.iter_mut().for_each(|exchange| exchange.expire(self.now));
                }
                (_, None) => panic!("no datagram is in flight and no timeout is set"),
            }
        }
    }

    fn dispatch(&mut self, session: &mut Session, jobs: &mut [Job<'_>]) -> Result<(), Failure> {
        let mut exchanges = [Exchange::new(session, jobs)];
        self.run(&mut exchanges);
        let [exchange] = exchanges;
        exchange.end()
    }
}

fn session(numbering: Numbering) -> Session {
    Session::new(numbering, PacketLimits::both(1400), TIMEOUT, 100)
}

fn adds(count: usize) -> Vec<Job<'static>> {
    (0..count).map(|_| Job::writing(Operation::Add, 0x10, Written::Word(1))).collect()
}

fn outcomes(jobs: &[Job<'_>], wanted: Outcome) -> u32 {
    jobs.iter().filter(|job| job.outcome == wanted).count() as u32
}

#[test]
fn blocks_are_read_as_they_were_written() {
    let mut world = World::new(1, Faults::default());
    let mut session = session(Numbering::Numbered);
    let written: Vec<u32> = (0..5000).map(|word| word * 3).collect();
    world
        .dispatch(&mut session, &mut [Job::writing(Operation::Write, 0x1000, Written::Block(&written))])
        .expect("it is done");
    let mut read = vec![0; 5000];
    let mut jobs = [
        Job::reading(Operation::Read, 0x1000, Landing::Block(&mut read)),
        Job::writing(Operation::ChangeBits, 0x1001, Written::Bits(0xF0, 0x0F)),
        Job::reading(Operation::Read, 0x1001, Landing::Word(0)),
    ];
    world.dispatch(&mut session, &mut jobs).expect("it is done");
    assert_eq!((jobs[1].word(), jobs[2].word()), (Some(3), Some(0x0F)));
    assert_eq!(read, written);
    let counts = session.sequence.counts();
    assert_eq!((counts.statuses, counts.requests_repeated + counts.replies_repeated), (1, 0), "{counts:?}");
    assert_eq!(session.limits().request_bytes, 400, "limited by the device's buffers");
}

#[test]
fn a_bus_error_is_reported_with_its_address_and_the_words_done() {
    let mut world = World::new(1, Faults::default());
    let mut session = session(Numbering::Numbered);
    let block = [1, 2, 3, 4];
    let mut jobs = [
        Job::writing(Operation::Add, 0x10, Written::Word(5)),
        Job::writing(Operation::Write, 0x8FE, Written::Block(&block)),
        Job::writing(Operation::Add, 0x10, Written::Word(7)),
    ];
    let failure = world.dispatch(&mut session, &mut jobs).expect_err("refused");
    let expected = Failure::Refused {
        job: 1,
        operation: Operation::Write,
        address: 0x8FE,
        words: 4,
        done: 2,
        info: Info::ErrorOnWrite,
    };
    assert_eq!(failure, expected);
    let found = jobs.each_ref().map(|job| job.outcome);
    assert_eq!(
        found,
        [Outcome::Done, Outcome::Failed { words: 2, info: Info::ErrorOnWrite }, Outcome::NotDone]
    );
    assert_eq!(world.device.bus_mut().memory(0x10), 5);
    let mut again = adds(1);
    world.dispatch(&mut session, &mut again).expect("the target still works");
}

#[test]
fn a_dead_target_times_out_and_jobs_in_flight_may_have_happened() {
    let mut world = World::new(1, Faults::default());
    let mut session = session(Numbering::Numbered);
    world.is_dead = true;
    let mut jobs = adds(1);
    assert_eq!(world.dispatch(&mut session, &mut jobs), Err(Failure::NoAnswer(TIMEOUT)));
    assert_eq!(jobs[0].outcome, Outcome::NotDone, "it was never sent");
    world.is_dead = false;
    world.dispatch(&mut session, &mut adds(3)).expect("it is there");
    world.is_dead = true;
    let mut jobs = adds(200);
    jobs.push(Job::reading(Operation::Read, 0, Landing::Word(0)));
    assert_eq!(world.dispatch(&mut session, &mut jobs), Err(Failure::NoAnswer(TIMEOUT)));
    assert_eq!(outcomes(&jobs, Outcome::MayHaveHappened), 4 * 33, "four packets were in flight");
    assert_eq!(jobs[200].outcome, Outcome::NotDone);
    world.is_dead = false;
    world.dispatch(&mut session, &mut adds(1)).expect("it is there again");
    assert_eq!(world.device.bus_mut().memory(0x10), 4);
}

#[test]
fn a_reset_is_reported_and_the_next_dispatch_succeeds() {
    let mut world = World::new(1, Faults::default());
    let mut session = session(Numbering::Numbered);
    world.dispatch(&mut session, &mut adds(300)).expect("it is there");
    world.device.reboot();
    let mut jobs = adds(3);
    let failure = world.dispatch(&mut session, &mut jobs).expect_err("it expects packet 1");
    assert!(matches!(failure, Failure::Restarted { .. }), "{failure}");
    world.dispatch(&mut session, &mut adds(1)).expect("the next dispatch asks for the status");
    assert_eq!(world.device.bus_mut().memory(0x10), 301);
}

#[test]
fn two_clients_that_number_packets_on_one_target_report_a_conflict() {
    let mut found = 0;
    for seed in 0..50 {
        let mut world = World::new(seed, Faults::default());
        let mut sessions = [session(Numbering::Numbered), session(Numbering::Numbered)];
        sessions[1].transaction = 2000;
        let mut jobs = [adds(100), adds(100 + seed as usize)];
        let mut exchanges: Vec<_> = (sessions.iter_mut().zip(&mut jobs))
            .map(|(session, jobs)| Exchange::new(session, jobs))
            .collect();
        world.run(&mut exchanges);
        for exchange in exchanges {
            match exchange.end() {
                Err(Failure::Conflict { .. }) => found += 1,
                Err(other) => panic!("{other}"),
                Ok(()) => {}
            }
        }
        let all = || jobs.iter().flatten();
        let done = all().filter(|job| job.outcome == Outcome::Done).count() as u32;
        let maybe = all().filter(|job| job.outcome == Outcome::MayHaveHappened).count() as u32;
        let there = world.device.bus_mut().memory(0x10);
        assert!((done..=done + maybe).contains(&there), "{done} done, {maybe} perhaps, {there} there");
    }
    assert!(found >= 50, "{found}");
}

#[test]
fn after_a_fall_back_reads_complete_in_the_same_dispatch_and_no_change_is_done_twice() {
    let (mut fell_back, mut failed) = (0, 0);
    for seed in 0..50 {
        let mut world = World::new(seed, faults(20, 20, 20));
        let mut sessions =
            [session(Numbering::Numbered), session(Numbering::Numbered), session(Numbering::Numbered)];
        for (session, first) in sessions.iter_mut().zip([100, 1400, 2700]) {
            (session.falls_back, session.transaction) = (true, first);
        }
        let (mut blocks, mut adds) = ([[7; 4000]; 2], adds(100 + seed as usize));
        let mut reads: Vec<Vec<Job<'_>>> = Vec::new();
        for block in &mut blocks {
            let word = Job::reading(Operation::Read, 0x2000, Landing::Word(9));
            reads.push(vec![Job::reading(Operation::Read, 0x1000, Landing::Block(block)), word]);
        }
        let jobs = reads.iter_mut().chain([&mut adds]);
        let mut exchanges: Vec<_> =
            sessions.iter_mut().zip(jobs).map(|(session, jobs)| Exchange::new(session, jobs)).collect();
        world.run(&mut exchanges);
        let mut ends = exchanges.into_iter().map(Exchange::end);
        assert_eq!(
            (ends.next(), ends.next()),
            (Some(Ok(())), Some(Ok(()))),
            "both readers complete, seed {seed}"
        );
        failed += u32::from(ends.next().is_some_and(|end| end.is_err()));
        drop(ends);
        let readers = sessions[..2].iter();
        fell_back += readers.filter(|session| session.sequence.numbering() == Numbering::Unnumbered).count();
        for jobs in &reads {
            assert_eq!((jobs[1].word(), outcomes(jobs, Outcome::Done)), (Some(0), 2), "seed {seed}");
        }
        let (done, maybe) = (outcomes(&adds, Outcome::Done), outcomes(&adds, Outcome::MayHaveHappened));
        let there = world.device.bus_mut().memory(0x10);
        assert!((done..=done + maybe).contains(&there), "{done} done, {maybe} perhaps, {there} there");
        drop((reads, adds));
        assert_eq!(blocks, [[0; 4000]; 2]);
    }
    assert!(fell_back > 10 && failed > 10, "{fell_back} {failed}");
}

/// A write must not be done before a lost read that precedes it: the repeated read gives the words from before the write.
#[test]
fn unnumbered_writes_wait_for_the_reads_before_them() {
    let mut read_again = 0;
    for seed in 0..200 {
        let mut world = World::new(seed, faults(100, 0, 0));
        let mut session = Session::new(Numbering::Unnumbered, PacketLimits::both(400), TIMEOUT, 100);
        // Three packets of reads; the last one also has the start of the write.
        let (mut before, ones) = ([7; 300], [1; 300]);
        let mut jobs = [
            Job::reading(Operation::Read, 0x1000, Landing::Block(&mut before)),
            Job::writing(Operation::Write, 0x1000, Written::Block(&ones)),
        ];
        let _ = world.dispatch(&mut session, &mut jobs);
        let was_read = jobs[0].outcome == Outcome::Done;
        read_again += session.sequence.counts().requests_repeated;
        assert!(!was_read || before == [0; 300], "seed {seed}: {before:?}");
    }
    assert!(read_again > 50, "{read_again}");
}

#[test]
fn unnumbered_reads_are_repeated_and_changes_are_not() {
    let mut world = World::new(3, faults(300, 0, 0));
    let mut session = Session::new(Numbering::Unnumbered, PacketLimits::both(400), TIMEOUT, 100);
    let mut read = vec![1; 3000];
    world
        .dispatch(&mut session, &mut [Job::reading(Operation::Read, 0x1000, Landing::Block(&mut read))])
        .expect("all words are read");
    assert!(session.sequence.counts().requests_repeated > 5, "{:?}", session.sequence.counts());
    assert_eq!(read, [0; 3000]);
    let mut jobs = adds(2000);
    assert_eq!(world.dispatch(&mut session, &mut jobs), Err(Failure::NoAnswer(TIMEOUT)));
    let (done, maybe) = (outcomes(&jobs, Outcome::Done), outcomes(&jobs, Outcome::MayHaveHappened));
    let there = world.device.bus_mut().memory(0x10);
    assert!(
        maybe > 0 && (done..=done + maybe).contains(&there),
        "{done} done, {maybe} perhaps, {there} there"
    );
}

/// Whatever the network does, each change is done once, and each read gives the current word.
fn does_every_change_once(seed: u64, faults: Faults, count: usize) -> Result<(), TestCaseError> {
    let mut world = World::new(seed, faults);
    let mut session = session(Numbering::Numbered);
    let mut expected = 0;
    for _ in 0..3 {
        let mut jobs = adds(count);
        jobs.push(Job::reading(Operation::Read, 0x10, Landing::Word(0)));
        prop_assert_eq!(world.dispatch(&mut session, &mut jobs), Ok(()));
        for job in &jobs[..count] {
            prop_assert_eq!(job.word(), Some(expected), "the word before the change");
            expected += 1;
        }
        prop_assert_eq!(jobs[count].word(), Some(expected));
    }
    prop_assert_eq!(world.device.bus_mut().memory(0x10), expected);
    Ok(())
}

#[test]
fn a_burst_of_late_statuses_is_not_taken_for_a_reset() {
    does_every_change_once(16_526_471_711_979_707_605, faults(122, 94, 182), 429).expect("nothing was reset");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_change_is_done_once(seed: u64, lost in 0..200u32, doubled in 0..100u32, delayed in 0..200u32, count in 1..600usize) {
        does_every_change_once(seed, faults(lost, doubled, delayed), count)?;
    }
}
