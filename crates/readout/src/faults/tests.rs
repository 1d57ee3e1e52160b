//! Each fault alone, all together, in datagrams and streams; the ledger balances behind every batch.

use serde_json::json;
use thalweg_data::ledger::CounterSnapshot;
use thalweg_data::{Framing, LedgerSnapshot, SourceId, Stage};
use thalweg_frontend::generic::emit::Encoder;
use thalweg_frontend::generic::{GenericUnpack, Settings};

use super::*;

/// A source that gives what it was given: datagrams in batches, or chunks of a stream.
struct Given {
    pool: Pool,
    chunks: std::vec::IntoIter<Vec<u8>>,
    per_batch: usize,
    stream: Option<StreamBuffer>,
    counters: Counters,
    batch: u64,
}

impl Given {
    fn datagrams(chunks: Vec<Vec<u8>>, per_batch: usize) -> Given {
        let pool = Pool::new(64, 64 << 10).expect("small");
        let (chunks, counters) = (chunks.into_iter(), Counters::default());
        Given { pool, chunks, per_batch, stream: None, counters, batch: 0 }
    }

    fn stream(chunks: Vec<Vec<u8>>) -> Given {
        let mut given = Given::datagrams(chunks, 1);
        given.stream = Some(StreamBuffer::new(given.pool.clone(), 4096));
        given
    }

    fn give(&mut self, chunk: &[u8], frames: &mut Frames) {
        match &mut self.stream {
            Some(buffer) => {
                let Room::Tail(tail) = buffer.room() else { panic!("a block is free") };
                tail[..chunk.len()].copy_from_slice(chunk);
                buffer.publish(chunk.len(), frames);
            }
            None => {
                let mut writer = self.pool.take().expect("a block is free");
                frames.slices.push(writer.append(chunk).expect("small"));
                frames.leases.add(writer.lease());
            }
        }
        for (unit, count) in [(Unit::Datagrams, 1), (Unit::Bytes, chunk.len() as u64)] {
            self.counters.input(unit, count);
            self.counters.output(unit, count);
        }
    }
}

impl Source for Given {
    fn receive(&mut self, frames: &mut Frames, _: Duration) -> Result<Received, SourceError> {
        self.batch += 1;
        frames.header.mark = Mark(self.batch);
        // Datagrams of unexpected senders come, too, and are lost in the receive stage.
        self.counters.input(Unit::Datagrams, 1);
        self.counters.lost(LossReason::UnexpectedSender, Unit::Datagrams, 1);
        for _ in 0..self.per_batch {
            let Some(chunk) = self.chunks.next() else { break };
            self.give(&chunk, frames);
        }
        Ok(if frames.slices.is_empty() { Received::End } else { Received::Data })
    }

    fn carry(&mut self, bytes: usize) {
        assert_eq!(bytes, 0, "a decorator carries what it has changed itself");
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn description(&self) -> String {
        "given".to_owned()
    }

    fn is_stream(&self) -> bool {
        self.stream.is_some()
    }
}

fn slot(stage: Stage, units: &[Unit], counters: &Counters) -> CounterSnapshot {
    let units = units.iter().fold(0, |mask, unit| mask | 1 << *unit as u64);
    CounterSnapshot { stage, source: SourceId(0), units, counters: counters.clone() }
}

/// Everything that comes out, with the balance equations checked behind every batch.
fn all(faulty: &mut Faulty, mut each: impl FnMut(&Frames, &Counters) -> usize) -> Vec<Vec<u8>> {
    let (mut frames, mut out, mut mark) = (Frames::default(), Vec::new(), Mark(0));
    loop {
        frames.clear();
        let received = faulty.receive(&mut frames, Duration::ZERO).expect("no fault is an error");
        assert!(frames.header.mark >= mark, "marks never go back");
        mark = frames.header.mark;
        assert_eq!(received == Received::Data, !frames.slices.is_empty());
        let slots = vec![slot(Stage::Receive, &[Unit::Datagrams, Unit::Bytes], faulty.counters())];
        assert_eq!(LedgerSnapshot::of(vec!["given".to_owned()], slots).discrepancies(), []);
        let carried = frames.carried as usize;
        out.extend(frames.slices.iter().map(|slice| frames.bytes(*slice)[carried..].to_vec()));
        let left_over = each(&frames, faulty.counters());
        faulty.carry(left_over);
        if received == Received::End {
            return out;
        }
    }
}

fn numbered(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| number.to_le_bytes().repeat(25)).collect()
}

fn through(settings: FaultSettings, per_batch: usize) -> (Vec<Vec<u8>>, Faults) {
    let source = Box::new(Given::datagrams(numbered(1000), per_batch));
    let mut faulty = Faulty::new(source, settings).expect("possible");
    let out = all(&mut faulty, |_, _| 0);
    let (counters, faults) = (faulty.counters(), faulty.faults());
    let datagrams = 1000 - faults.dropped_datagrams + faults.duplicated;
    assert_eq!(counters.total_output(Unit::Datagrams), datagrams);
    let bytes = 100_000 - faults.dropped_bytes - faults.truncated_bytes + faults.duplicated_bytes;
    assert_eq!(counters.total_output(Unit::Bytes), bytes);
    assert_eq!(out.iter().map(|each| each.len() as u64).sum::<u64>(), bytes);
    (out, faults)
}

fn flipped_bits(one: &[u8], other: &[u8]) -> u32 {
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

#[test]
fn without_faults_everything_passes_unchanged() {
    let (out, faults) = through(FaultSettings::default(), 7);
    assert_eq!(out, numbered(1000));
    assert_eq!(faults, Faults::default());
    assert!(!FaultSettings::default().any());
}

#[test]
fn dropped_datagrams_are_never_seen() {
    let (out, faults) = through(FaultSettings { drop: 0.1, seed: 1, ..Default::default() }, 7);
    assert!((60..140).contains(&faults.dropped_datagrams), "{faults:?}");
    assert_eq!(out.len() as u64, 1000 - faults.dropped_datagrams);
    assert!(out.is_sorted_by_key(|each| u32::from_le_bytes(each[..4].try_into().expect("four"))));
    let (out, faults) = through(FaultSettings { drop: 1.0, ..Default::default() }, 7);
    assert_eq!((out.len(), faults.dropped_bytes), (0, 100_000));
}

#[test]
fn duplicated_datagrams_come_twice() {
    let (out, faults) = through(FaultSettings { duplicate: 0.1, seed: 2, ..Default::default() }, 7);
    let twice = out.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    assert_eq!(twice, faults.duplicated);
    assert!(twice > 50);
}

#[test]
fn reordered_datagrams_come_behind_the_next_one_even_of_the_next_batch() {
    for per_batch in [1, 7] {
        let settings = FaultSettings { reorder: 1.0, ..Default::default() };
        let (out, faults) = through(settings, per_batch);
        let expected =
            numbered(1000).chunks(2).flat_map(|pair| pair.iter().rev().cloned()).collect::<Vec<_>>();
        assert_eq!(out, expected);
        assert_eq!(faults.reordered, 500);
    }
}

#[test]
fn the_last_datagram_is_not_held_for_ever() {
    let source = Box::new(Given::datagrams(numbered(3), 3));
    let settings = FaultSettings { reorder: 1.0, ..Default::default() };
    let mut faulty = Faulty::new(source, settings).expect("possible");
    let numbers = all(&mut faulty, |_, _| 0).iter().map(|each| each[0]).collect::<Vec<_>>();
    assert_eq!(numbers, [1, 0, 2]);
}

#[test]
fn truncated_datagrams_lose_their_end() {
    let (out, faults) = through(FaultSettings { truncate: 0.2, seed: 3, ..Default::default() }, 7);
    let whole = numbered(1000);
    assert!(out.iter().zip(&whole).all(|(out, whole)| whole.starts_with(out)));
    let short = out.iter().filter(|each| each.len() < 100).count() as u64;
    assert_eq!(short, faults.truncated);
    assert!(short > 100);
}

#[test]
fn flipped_bits_change_a_copy_by_one_bit() {
    let (out, faults) = through(FaultSettings { bit_flip: 0.3, seed: 4, ..Default::default() }, 7);
    let whole = numbered(1000);
    let bits = out.iter().zip(&whole).map(|(out, whole)| flipped_bits(out, whole)).collect::<Vec<_>>();
    assert!(bits.iter().all(|bits| *bits <= 1));
    assert_eq!(bits.iter().map(|bits| u64::from(*bits)).sum::<u64>(), faults.flipped_bits);
    assert!(faults.flipped_bits > 200);
}

#[test]
fn a_seed_does_the_same_damage_however_datagrams_fall_into_batches() {
    let settings = FaultSettings {
        drop: 0.05,
        duplicate: 0.05,
        reorder: 0.05,
        truncate: 0.05,
        bit_flip: 0.05,
        seed: 99,
    };
    let (once, faults) = through(settings.clone(), 1);
    assert_eq!(through(settings.clone(), 13), (once.clone(), faults));
    assert_ne!(through(FaultSettings { seed: 100, ..settings }, 13).0, once);
}

#[test]
fn without_a_block_for_the_copy_it_waits_and_loses_nothing() {
    let mut source = Given::datagrams(vec![vec![7; 60_000]; 100], 1);
    source.pool = Pool::new(100, 64 << 10).expect("small");
    let settings = FaultSettings { bit_flip: 1.0, ..Default::default() };
    let mut faulty = Faulty::new(Box::new(source), settings).expect("possible");
    let (mut kept, mut full, mut count) = (Vec::new(), 0, 0);
    loop {
        let mut frames = Frames::default();
        match faulty.receive(&mut frames, Duration::ZERO).expect("no error") {
            Received::Full => {
                full += 1;
                kept.clear();
            }
            Received::End => break,
            _ => count += frames.slices.len(),
        }
        kept.push(frames);
    }
    assert_eq!((count, faulty.faults().flipped_bits), (100, 100));
    assert!(full > 0);
}

/// A counter of two bytes, big-endian, and a length: as a datagram, or in a stream.
fn description(stream: bool) -> Settings {
    serde_json::from_value(json!({
        "byte_order": "big", "stream": stream, "header_bytes": 4,
        "field": { "count": { "offset": 0, "width": 2 }, "bytes": { "offset": 2, "width": 2 } },
        "sequence": { "field": "count", "window": 16 },
        "length": { "field": "bytes", "limit_bytes": 1000 },
    }))
    .expect("a description")
}

fn packets(description: &Settings, count: u64) -> Vec<Vec<u8>> {
    let encoder = Encoder::new(description).expect("possible");
    let packet = |number: u64| {
        let mut packet = Vec::new();
        encoder.packet(&[("count", number)], &[number as u8; 60], &mut packet).expect("described");
        packet
    };
    (0..count).map(packet).collect()
}

/// The ledger of receive and unpack behind a bad network.
fn snapshot(source: Given, description: &Settings, settings: FaultSettings) -> (LedgerSnapshot, Faults) {
    let mut unpack = GenericUnpack::new(SourceId(0), description).expect("possible");
    let mut faulty = Faulty::new(Box::new(source), settings).expect("possible");
    let mut units = Frames::default();
    all(&mut faulty, |frames, _| {
        units.clear();
        unpack.frame(frames, &mut units)
    });
    units.clear();
    let mut carried = Frames::default();
    faulty.give_carried(&mut carried);
    unpack.finish(&carried, &mut units);
    let slots = vec![
        slot(Stage::Wire, &[Unit::Datagrams, Unit::Frames], &unpack.wire_counters()[0]),
        slot(Stage::Receive, &[Unit::Datagrams, Unit::Bytes], faulty.counters()),
        slot(Stage::Unpack, &[Unit::Datagrams, Unit::Bytes, Unit::Frames], unpack.counters()),
    ];
    let snapshot = LedgerSnapshot::of(vec!["given".to_owned()], slots);
    assert_eq!(snapshot.discrepancies(), []);
    (snapshot, faulty.faults())
}

#[test]
fn the_path_finds_exactly_what_was_dropped_and_doubled() {
    let description = description(false);
    let source = Given::datagrams(packets(&description, 5000), 16);
    // A loss before the first or behind the last datagram would show in no sequence number: not with this seed.
    let settings =
        FaultSettings { drop: 0.01, duplicate: 0.02, reorder: 0.03, seed: 2, ..Default::default() };
    let (snapshot, faults) = snapshot(source, &description, settings);
    let lost = |reason| {
        let of = |stage| snapshot.slot(stage, SourceId(0)).expect("open").counters.clone();
        of(Stage::Wire).total_lost(reason, Unit::Datagrams)
            + of(Stage::Unpack).total_lost(reason, Unit::Datagrams)
    };
    assert!(faults.dropped_datagrams > 20 && faults.duplicated > 50 && faults.reordered > 50);
    assert_eq!(lost(LossReason::DatagramGap), faults.dropped_datagrams);
    assert_eq!(lost(LossReason::DuplicateDatagram), faults.duplicated);
}

#[test]
fn the_ledger_balances_over_every_fault_in_datagrams_and_streams() {
    for seed in 0..20 {
        let every =
            FaultSettings { drop: 0.1, duplicate: 0.1, reorder: 0.1, truncate: 0.1, bit_flip: 0.1, seed };
        let generic = description(false);
        snapshot(Given::datagrams(packets(&generic, 500), 16), &generic, every.clone());
        let generic = description(true);
        let stream = packets(&generic, 500).concat().chunks(1001).map(<[u8]>::to_vec).collect();
        let settings = FaultSettings { drop: 0.0, duplicate: 0.0, reorder: 0.0, ..every };
        let (_, faults) = snapshot(Given::stream(stream), &generic, settings);
        assert!(faults.truncated + faults.flipped_bits > 0);
    }
}

#[test]
fn settings_that_cannot_be_are_refused_with_a_word() {
    let refusal = |settings| {
        let source = Box::new(Given::stream(Vec::new()));
        Faulty::new(source, settings).err().expect("refused").to_string()
    };
    let text = refusal(FaultSettings { truncate: 1.5, ..Default::default() });
    assert!(text.contains("truncate = 1.5 is not a probability"), "{text}");
    let text = refusal(FaultSettings { drop: 0.5, ..Default::default() });
    assert!(text.contains("drop is for datagrams, and given is a stream"), "{text}");
    let text = refusal(FaultSettings { bit_flip: f64::NAN, ..Default::default() });
    assert!(text.contains("NaN"), "{text}");
    assert!(serde_json::from_value::<FaultSettings>(json!({ "dorp": 1 })).is_err());
    let read = serde_json::from_value::<FaultSettings>(json!({ "drop": 0.25, "seed": 3 }));
    let expected = FaultSettings { drop: 0.25, seed: 3, ..Default::default() };
    assert_eq!(read.expect("the rest is 0"), expected);
}

#[test]
fn what_was_done_is_counted_beside_the_source_s_own_drops() {
    let settings = FaultSettings { drop: 1.0, seed: 8, ..Default::default() };
    let source = Box::new(Given::datagrams(numbered(10), 5));
    let mut faulty = Faulty::new(source, settings).expect("possible");
    all(&mut faulty, |_, _| 0);
    assert!(faulty.drop_counters().contains(&("faults_dropped_datagrams", 10)));
    assert_eq!(faulty.description(), "given; behind a bad network by seed 8: drop 1");
}

#[test]
fn what_the_source_itself_filtered_and_lost_stays_in_the_ledger() {
    let mut writer = crate::pcap::CaptureWriter::new(Vec::new()).expect("memory");
    let from = "10.0.0.7:4000".parse().expect("an address");
    for number in 0..1000 {
        let port = if number % 10 == 0 { 53 } else { 51940 };
        let to = std::net::SocketAddr::new([10, 0, 0, 1].into(), port);
        writer.datagram(number * 1000, from, to, &[7; 50]).expect("memory");
    }
    let mut file = writer.finish().expect("memory");
    file.truncate(file.len() - 10);
    let filter = crate::pcap::PcapFilter { port: Some(51940), ..Default::default() };
    let pool = Pool::new(8, 16 << 10).expect("small");
    let input = Box::new(std::io::Cursor::new(file));
    let source = crate::pcap::PcapSource::read("test".to_owned(), input, filter, pool).expect("a capture");
    let settings = FaultSettings { drop: 0.1, seed: 5, ..Default::default() };
    let mut faulty = Faulty::new(Box::new(source), settings).expect("possible");
    all(&mut faulty, |_, _| 0);
    let (counters, dropped) = (faulty.counters(), faulty.faults().dropped_datagrams);
    assert_eq!(counters.total_filtered(Unit::Datagrams), 100);
    assert_eq!(counters.total_lost(LossReason::CaptureTruncated, Unit::Datagrams), 1);
    assert_eq!(counters.total_output(Unit::Datagrams), 899 - dropped);
    assert_eq!(counters.total_input(Unit::Datagrams), 1000 - dropped);
}
