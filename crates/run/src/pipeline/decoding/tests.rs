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
    let account = |stage| Ledgered::new(ledger.open(stage, id, &[Unit::Bytes]));
    let accounts =
        ReaderAccounts { receive: account(Stage::Receive), unpack: account(Stage::Unpack), wire: None };
    let (decode, _, mut outlets) = decode_stage(vec![Box::new(Plain::default())], 0, (2, 64));
    let of_link = HitLink {
        id,
        name: format!("board {number}"),
        waits: false,
        decode,
        accounts,
        gauges: Arc::new(Gauges::new(Some(pool.clone()))),
    };
    let live =
        Box::new(Datagrams { pool, writer: None, left: DATAGRAMS, clock, counters: Counters::default() });
    let link = Link { source: id, live, framing: Box::new(Plain::default()), reopen: None };
    (link, of_link, outlets.remove(0))
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
    let clock = RunClock::start();
    let ledger = Ledger::create(None, &["board 0".to_owned(), "board 1".to_owned()]).expect("memory");
    let (held, of_held, mut held_outlet) = link(0, &ledger, clock);
    let (other, of_other, mut other_outlet) = link(1, &ledger, clock);
    let group = Group::new(vec![held, other], GroupSettings::default(), clock).expect("a descriptor");
    let reader = Decoding::readout(group, vec![of_held, of_other], None);
    let thread = std::thread::spawn(move || reader.run(&Arc::default()));
    assert_eq!(take_all(&mut other_outlet), DATAGRAMS, "while nobody takes those of the first");
    assert_eq!(held_outlet.waiting(), 2, "every batch that its ring has");
    assert_eq!(take_all(&mut held_outlet), DATAGRAMS);
    thread.join().expect("no panic");
}
