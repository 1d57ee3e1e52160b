use std::thread::JoinHandle;
use std::time::Instant;

use thalweg_data::ring::Downstream;
use thalweg_data::{
    BlockWriter, Counters, Decode, Framing, Hit, Hits, Ledger, Pool, Received, Source, SourceError, Stage,
    Unit,
};
use thalweg_readout::RunClock;
use thalweg_readout::group::{GroupSettings, Link};

use super::super::decode_workers::decode_stage;
use super::*;

/// Datagrams, of which 64 are a batch, as fast as they are taken.
const DATAGRAM_BYTES: usize = 4096;
const DATAGRAMS: u64 = 640;
const LONGEST: Duration = Duration::from_secs(60);

struct Datagrams {
    pool: Pool,
    writer: Option<BlockWriter>,
    left: u64,
    clock: RunClock,
    counters: Counters,
}

impl Source for Datagrams {
    fn receive(&mut self, frames: &mut Frames, _wait: Duration) -> Result<Received, SourceError> {
        frames.header.mark = self.clock.mark();
        if self.left == 0 {
            return Ok(Received::End);
        }
        if self.writer.as_ref().is_none_or(|writer| writer.remaining() < DATAGRAM_BYTES) {
            self.writer = self.pool.take();
        }
        let Some(writer) = &mut self.writer else { return Ok(Received::Full) };
        frames.slices.push(writer.append(&[1; DATAGRAM_BYTES]).expect("room for one"));
        frames.leases.add(writer.lease());
        self.left -= 1;
        Ok(Received::Data)
    }

    fn carry(&mut self, _bytes: usize) {}

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn waiting_bytes(&self) -> u64 {
        self.left * DATAGRAM_BYTES as u64
    }

    fn description(&self) -> String {
        "datagrams".to_owned()
    }

    fn is_stream(&self) -> bool {
        false
    }
}

/// Every datagram is a unit, and every unit a hit.
#[derive(Clone, Default)]
struct Plain(Counters);

impl Framing for Plain {
    type Output = Frames;

    fn frame(&mut self, received: &Frames, units: &mut Frames) -> usize {
        units.slices.extend_from_slice(&received.slices);
        units.leases.add_all(&received.leases);
        0
    }

    fn counters(&self) -> &Counters {
        &self.0
    }
}

impl Decode for Plain {
    fn decode(&mut self, units: &Frames, hits: &mut Hits) {
        hits.hits.extend(units.slices.iter().map(|_| Hit::default()));
    }

    fn counters(&self) -> &Counters {
        &self.0
    }
}

fn link(number: u16, ledger: &Ledger, clock: RunClock) -> (Link<Frames>, HitLink, Downstream<Hits>) {
    let id = SourceId(number);
    let pool = Pool::new(128, 64 << 10).expect("small");
    let slot = |stage| Ledgered::new(ledger.open(stage, id, &[Unit::Bytes]));
    let slots = ReaderSlots { receive: slot(Stage::Receive), unpack: slot(Stage::Unpack), wire: None };
    let (decode, _, mut outlets) = decode_stage(vec![Box::new(Plain::default())], 0, (2, 64));
    let of_link = HitLink {
        id,
        name: format!("board {number}"),
        waits: false,
        decode,
        slots,
        gauges: Arc::new(Gauges::new(Some(pool.clone()))),
    };
    let live =
        Box::new(Datagrams { pool, writer: None, left: DATAGRAMS, clock, counters: Counters::default() });
    let link = Link { source: id, live, framing: Box::new(Plain::default()), reopen: None };
    (link, of_link, outlets.remove(0))
}

/// Two links, and the thread that reads them.
fn two_links(signals: &Arc<Signals>) -> ([Downstream<Hits>; 2], JoinHandle<()>) {
    let clock = RunClock::start();
    let ledger = Ledger::create(None, &["board 0".to_owned(), "board 1".to_owned()]).expect("memory");
    let (first, of_first, first_outlet) = link(0, &ledger, clock);
    let (second, of_second, second_outlet) = link(1, &ledger, clock);
    let group = Group::new(vec![first, second], GroupSettings::default(), clock).expect("a descriptor");
    let (reader, signals) = (Decoding::readout(group, vec![of_first, of_second], None), signals.clone());
    ([first_outlet, second_outlet], std::thread::spawn(move || reader.run(&signals)))
}

/// Takes hits until the end of the link; how many there were.
fn take_all(outlet: &mut Downstream<Hits>) -> u64 {
    let (start, mut count) = (Instant::now(), 0);
    loop {
        assert!(start.elapsed() < LONGEST, "{count} hits, and no end");
        let Some(mut hits) = outlet.receive_wait(Duration::from_millis(100)) else { continue };
        count += hits.hits.len() as u64;
        let end = hits.header.end;
        hits.clear();
        outlet.give_back(hits);
        if end {
            return count;
        }
    }
}

#[test]
fn a_link_whose_hits_nobody_takes_holds_no_other_up_and_loses_nothing() {
    let ([mut held, mut other], thread) = two_links(&Arc::default());
    assert_eq!(take_all(&mut other), DATAGRAMS, "while nobody takes those of the first");
    assert_eq!(held.waiting(), 2, "every batch that its ring has");
    assert_eq!(take_all(&mut held), DATAGRAMS);
    thread.join().expect("no panic");
}

#[test]
fn a_link_that_waits_for_its_decoder_is_not_taken_for_silent_after_a_stop() {
    let signals = Arc::new(Signals::default());
    let ([mut held, mut other], thread) = two_links(&signals);
    assert_eq!(take_all(&mut other), DATAGRAMS);
    signals.request_stop();
    // Time to be wrong in: a link that is silent for a tenth of a second after a stop is at its end.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(take_all(&mut held), DATAGRAMS, "what waited in the system is read");
    thread.join().expect("no panic");
}

/// Gives the first link's work a batch that is due, or the end.
fn give(reader: &mut Readout<Decoding>, mark: u64, end: bool, signals: &Signals) {
    let units = reader.work.batch(LinkId(0));
    units.slices.extend((!end).then(|| thalweg_data::Slice { length: 1 << 20, ..Default::default() }));
    let header = Header { mark: Mark(mark), end, ..Header::default() };
    reader.work.take(LinkId(0), &Frames { header, ..Frames::default() }, signals);
}

/// A reader of two links whose first waits: two batches fill its ring, and the third is due. With the ends of both rings.
fn waiting_reader(signals: &Signals) -> (Readout<Decoding>, [Downstream<Hits>; 2]) {
    let clock = RunClock::start();
    let ledger = Ledger::create(None, &["board 0".to_owned()]).expect("memory");
    let (_, of_link, outlet) = link(0, &ledger, clock);
    let (other, of_other, other_outlet) = link(0, &ledger, clock);
    let (first, ..) = link(0, &ledger, clock);
    let group = Group::new(vec![first, other], GroupSettings::default(), clock).expect("a descriptor");
    let mut reader = Decoding::readout(group, vec![of_link, of_other], None);
    for mark in 1..=3 {
        give(&mut reader, mark * 1_000_000, false, signals);
        assert!(reader.pass_on_what_is_due(signals));
    }
    assert!(reader.work.is_waiting());
    (reader, [outlet, other_outlet])
}

#[test]
fn a_link_that_waits_at_the_end_of_the_run_does_not_hold_up_the_end_of_another() {
    // Time order takes nothing of the first link before it knows the time of the second.
    let signals = Signals::default();
    let (mut reader, [mut outlet, mut other]) = waiting_reader(&signals);
    let ordering = std::thread::spawn(move || {
        let ended = other.receive_wait(LONGEST).is_some_and(|hits| hits.header.end);
        for _ in 0..3 {
            let mut hits = outlet.receive_wait(LONGEST).expect("it is due");
            hits.clear();
            outlet.give_back(hits);
        }
        ended
    });
    Decoding::settle(&mut reader, &signals);
    assert!(ordering.join().expect("no panic"), "the second link's end came while the first waited");
}

#[test]
fn what_is_due_when_a_link_ends_keeps_its_own_mark() {
    let signals = Signals::default();
    let (mut reader, [mut outlet, _other]) = waiting_reader(&signals);
    let taking = std::thread::spawn(move || {
        let mut marks = Vec::new();
        while let Some(mut hits) = outlet.receive_wait(LONGEST) {
            marks.push((hits.header.mark.0, hits.header.end));
            let end = hits.header.end;
            hits.clear();
            outlet.give_back(hits);
            if end {
                break;
            }
        }
        marks
    });
    Decoding::settle(&mut reader, &signals);
    give(&mut reader, 9_000_000, true, &signals);
    Decoding::settle(&mut reader, &signals);
    let marks = taking.join().expect("no panic");
    assert_eq!(marks, [(1_000_000, false), (2_000_000, false), (3_000_000, false), (9_000_000, true)]);
}
