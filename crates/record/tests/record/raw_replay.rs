//! Raw bytes come back in the same slices, with the same marks, as they came live.

use std::time::Duration;

use crate::example_run::{folder, stock_read};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use thalweg_data::batch::Header;
use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::{Frames, LossReason, Mark, Pool, Received, Slice, Source, SourceId, Unit};
use thalweg_record::{Compression, RawReplay, RawSource, RawWriter, Settings, check, raw_sources};

/// What a stage downstream sees of a batch.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    mark: Mark,
    end: bool,
    carried: u32,
    payload: Vec<(u32, Vec<u8>)>,
}

fn seen(frames: &Frames) -> Seen {
    Seen {
        mark: frames.header.mark,
        end: frames.header.end,
        carried: frames.carried,
        payload: frames.slices.iter().map(|slice| (slice.tag, frames.bytes(*slice).to_vec())).collect(),
    }
}

/// A repeatable number of small size.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as usize
}

fn sources() -> Vec<RawSource> {
    let source =
        |source, name: &str, stream| RawSource { source, name: name.to_owned(), stream, block_bytes: 4096 };
    vec![source(0, "stream", true), source(1, "datagrams", false)]
}

/// Units are seven bytes: what is left is carried.
fn carried_over(frames: &Frames) -> usize {
    frames.slices.iter().map(|slice| slice.length as usize).sum::<usize>() % 7
}

/// A live stream of 400 receive calls, some of them idle.
fn live_stream(writer: &mut RawWriter, state: &mut u64) -> Vec<Seen> {
    let mut buffer = StreamBuffer::new(Pool::new(64, 4096).expect("small"), 1000);
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    for call in 0..400u64 {
        frames.clear();
        frames.header.mark = Mark(call * 1000);
        frames.header.end = call == 399;
        if call % 5 != 0 {
            let Room::Tail(tail) = buffer.room() else { panic!("a block is free") };
            let length = (random(state) % 1000 + 1).min(tail.len());
            tail[..length].iter_mut().for_each(|byte| *byte = random(state) as u8);
            buffer.publish(length, &mut frames);
        }
        if call % 5 != 0 {
            buffer.carry(carried_over(&frames));
        }
        writer.write(&frames).expect("written");
        all.push(seen(&frames));
    }
    all
}

/// Live datagrams in batches, in slots of a block, with gaps between them.
fn live_datagrams(writer: &mut RawWriter, state: &mut u64) -> Vec<Seen> {
    let pool = Pool::new(64, 4096).expect("small");
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    let mut block = pool.take().expect("free");
    for call in 0..300u64 {
        frames.clear();
        frames.header.source = SourceId(1);
        frames.header.mark = Mark(call * 1000 + 7);
        for number in 0..random(state) % 5 {
            let length = random(state) % 300;
            if block.remaining() < 1024 {
                block = pool.take().expect("free");
            }
            let bytes: Vec<u8> = (0..length).map(|_| random(state) as u8).collect();
            let slice = block.append(&bytes).expect("space");
            block.align(if call % 2 == 0 { 64 } else { 512 });
            frames.slices.push(slice.tagged(number as u32 * 3));
            frames.leases.add(block.lease());
        }
        writer.write(&frames).expect("written");
        all.push(seen(&frames));
    }
    all
}

fn replayed(source: &mut RawReplay) -> Vec<Seen> {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    loop {
        frames.clear();
        match source.receive(&mut frames, Duration::ZERO).expect("readable") {
            Received::End => return all,
            Received::Full => panic!("blocks are free"),
            Received::Idle | Received::Data => all.push(seen(&frames)),
        }
        if source.is_stream() && !frames.slices.is_empty() {
            source.carry(carried_over(&frames));
        }
    }
}

#[test]
fn a_replay_gives_what_the_live_source_gave() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let folder = folder();
        let path = folder.path().join("raw.arrows");
        let settings = Settings { compression, batch_bytes: 16 * 1024, ..Settings::default() };
        let mut writer = RawWriter::create(&path, &settings, &sources()).expect("made");
        let mut state = 17;
        let live = [live_stream(&mut writer, &mut state), live_datagrams(&mut writer, &mut state)];
        writer.finish().expect("written");
        for (index, live) in live.iter().enumerate() {
            let source = SourceId(index as u16);
            let pool = Pool::new(4, 4096).expect("small");
            let mut replay = RawReplay::open(folder.path(), source, pool).expect("recorded");
            let again = replayed(&mut replay);
            assert_eq!(again.len(), live.len());
            again.iter().zip(live).for_each(|(again, live)| assert_eq!(again, live));
            let (raw, counters) = (writer.counters(source), replay.counters());
            for unit in [Unit::Bytes, Unit::Datagrams] {
                assert_eq!(counters.total_output(unit), raw.total_output(unit), "{unit}");
                assert_eq!(raw.total_input(unit), raw.total_output(unit), "{unit}");
            }
        }
        assert_eq!(
            check(&std::fs::read(&path).expect("a file")).expect("whole").rows,
            writer.summaries()[0].rows
        );
    }
}

#[test]
fn a_stock_reader_sees_the_payload() {
    for compression in [Compression::None, Compression::Zstd] {
        let folder = folder();
        let path = folder.path().join("raw.arrows");
        let settings = Settings { compression, ..Settings::default() };
        let mut writer = RawWriter::create(&path, &settings, &sources()).expect("made");
        let live = live_datagrams(&mut writer, &mut 5);
        writer.finish().expect("written");
        let mut wanted = live.iter().flat_map(|seen| seen.payload.iter().map(|(_, bytes)| bytes));
        for batch in stock_read(&path).expect("a stock reader reads it") {
            let payload = batch.column_by_name("payload").expect("a column").as_binary_view();
            for bytes in (0..payload.len()).map(|row| payload.value(row)).filter(|bytes| !bytes.is_empty()) {
                assert_eq!(Some(bytes), wanted.find(|bytes| !bytes.is_empty()).map(|bytes| &bytes[..]));
            }
        }
        assert!(!wanted.any(|bytes| !bytes.is_empty()));
    }
}

#[test]
fn a_recording_says_what_it_holds() {
    let folder = folder();
    let settings = Settings::default();
    let mut writer =
        RawWriter::create(&folder.path().join("raw.arrows"), &settings, &sources()).expect("made");
    let live = live_stream(&mut writer, &mut 3);
    writer.finish().expect("written");
    let contents = raw_sources(folder.path()).expect("recorded");
    assert_eq!(contents.len(), 2);
    assert_eq!((contents[0].rows, contents[0].idle_marks), (400, 80));
    assert_eq!(contents[0].last_mark_ns, live[399].mark.0);
    assert_eq!(contents[1].rows, 0);
    let pool = || Pool::new(1, 4096).expect("small");
    assert!(RawReplay::open(folder.path(), SourceId(9), pool()).is_err());
    let mut nothing = RawReplay::open(folder.path(), SourceId(1), pool()).expect("named");
    assert_eq!(replayed(&mut nothing), []);
}

#[test]
fn blocks_smaller_than_the_chunks_split_them_and_keep_the_bytes() {
    let folder = folder();
    let path = folder.path().join("raw.arrows");
    let mut writer = RawWriter::create(&path, &Settings::default(), &sources()).expect("made");
    let live = live_stream(&mut writer, &mut 11);
    live_datagrams(&mut writer, &mut 11);
    writer.finish().expect("written");
    let fresh = |all: &[Seen]| -> Vec<u8> {
        all.iter()
            .flat_map(|seen| seen.payload.iter().flat_map(|(_, bytes)| &bytes[seen.carried as usize..]))
            .copied()
            .collect()
    };
    let mut replay =
        RawReplay::open(&path, SourceId(0), Pool::new(2, 256).expect("small")).expect("recorded");
    assert_eq!(fresh(&replayed(&mut replay)), fresh(&live));
    let error = RawReplay::open(&path, SourceId(1), Pool::new(2, 128).expect("small"));
    assert!(error.err().expect("too small").to_string().contains("raise `block_bytes`"));
}

#[test]
fn a_replay_without_a_block_waits() {
    let folder = folder();
    let path = folder.path().join("raw.arrows");
    let mut writer = RawWriter::create(&path, &Settings::default(), &sources()).expect("made");
    let live = live_datagrams(&mut writer, &mut 23);
    writer.finish().expect("written");
    let pool = Pool::new(1, 4096).expect("small");
    let taken = pool.take();
    let mut replay = RawReplay::open(&path, SourceId(1), pool).expect("recorded");
    let mut frames = Frames::default();
    while replay.receive(&mut frames, Duration::ZERO).expect("readable") == Received::Idle {}
    assert!(frames.slices.is_empty());
    drop(taken);
    assert_eq!(replay.receive(&mut frames, Duration::ZERO).expect("readable"), Received::Data);
    assert_eq!(Some(&seen(&frames)), live.iter().find(|seen| !seen.payload.is_empty()));
    assert!(frames.slices.iter().all(|slice: &Slice| !slice.continues()));
}

/// Whoever is behind a replay decides by batches, such as when to pass one on.
#[test]
fn a_batch_that_finds_too_few_blocks_waits_as_a_whole() {
    let folder = folder();
    let path = folder.path().join("raw.arrows");
    let mut writer = RawWriter::create(&path, &Settings::default(), &sources()).expect("made");
    let source = Pool::new(8, 256).expect("small");
    let mut sent = Frames {
        header: Header { source: SourceId(1), mark: Mark(7), ..Header::default() },
        ..Frames::default()
    };
    for byte in 0..3u8 {
        let mut block = source.take().expect("free");
        sent.slices.push(block.append(&[byte; 200]).expect("space"));
        sent.leases.add(block.lease());
    }
    writer.write(&sent).expect("written");
    writer.finish().expect("written");
    let pool = Pool::new(8, 256).expect("small");
    let mut taken: Vec<_> = (0..6).map(|_| pool.take()).collect();
    let mut replay = RawReplay::open(&path, SourceId(1), pool).expect("recorded");
    let mut frames = Frames::default();
    for _ in 0..3 {
        assert_eq!(replay.receive(&mut frames, Duration::ZERO).expect("readable"), Received::Full);
        assert_eq!((frames.slices.len(), replay.counters().total_output(Unit::Bytes)), (0, 0));
        frames.clear();
    }
    taken.pop();
    assert_eq!(replay.receive(&mut frames, Duration::ZERO).expect("readable"), Received::Data);
    assert_eq!(seen(&frames).payload, seen(&sent).payload);
    assert_eq!(frames.header.mark, Mark(7));
    assert_eq!(replay.counters().total_output(Unit::Bytes), 600);
}

/// A connection that is opened again begins a new stream: what was carried of the one before does not continue in it.
#[test]
fn a_replay_says_where_a_connection_was_opened_again() {
    let folder = folder();
    let path = folder.path().join("raw.arrows");
    let mut writer = RawWriter::create(&path, &Settings::default(), &sources()).expect("made");
    let pool = Pool::new(8, 256).expect("small");
    let mut write = |mark, bytes: &[u8], begins_anew| {
        let header = Header { mark: Mark(mark), ..Header::default() };
        let mut frames = Frames { header, begins_anew, ..Frames::default() };
        if !bytes.is_empty() {
            let mut block = pool.take().expect("free");
            frames.slices.push(block.append(bytes).expect("space"));
            frames.leases.add(block.lease());
        }
        writer.write(&frames).expect("written");
    };
    write(1, &[1; 10], false);
    // The connection has ended and is opened again; later, a board was away, and is back.
    write(2, &[], true);
    write(3, &[3; 10], false);
    write(4, &[4; 10], true);
    writer.finish().expect("written");
    let mut replay =
        RawReplay::open(&path, SourceId(0), Pool::new(4, 256).expect("small")).expect("recorded");
    let mut frames = Frames::default();
    let mut next = |carry: usize, replay: &mut RawReplay| {
        frames.clear();
        let received = replay.receive(&mut frames, Duration::ZERO).expect("readable");
        if received == Received::Data {
            replay.carry(carry);
        }
        (received, frames.begins_anew, frames.carried, frames.header.mark.0)
    };
    assert_eq!(next(3, &mut replay), (Received::Data, false, 0, 1));
    assert_eq!(next(0, &mut replay), (Received::Idle, true, 0, 2));
    let mut carried = Frames::default();
    replay.give_carried(&mut carried);
    assert_eq!(seen(&carried).payload, [(0, vec![1; 3])]);
    assert_eq!(next(3, &mut replay), (Received::Data, false, 0, 3));
    assert_eq!(next(0, &mut replay), (Received::Data, true, 0, 4), "the three bytes are gone with the board");
    assert_eq!(replay.counters().total_lost(LossReason::BoardGone, Unit::Bytes), 1);
}
