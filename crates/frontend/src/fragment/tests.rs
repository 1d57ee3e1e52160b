use std::sync::Arc;

use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

use thalweg_data::ledger::{Entries, LossReport};
use thalweg_data::{
    AnswerFates, BoardId, FragmentRecord, Framing as _, LossReason, SourceId, Stage, StageRole, Unit,
};

use super::wire::{HEADER_BYTES, Header};
use super::*;
use crate::check::{FragmentsOutcome, Host, fragments_of_datagrams, fragments_of_stream};
use crate::trigger::{self, Answer, Trigger};

fn splitter(settings: &Settings) -> Splitter {
    Splitter::new(SourceId(0), settings).expect("possible")
}

fn header(board: u16, trigger: u64) -> Header {
    Header { board: BoardId(board), trigger, ticks: 10 * trigger, run: 7, ..Header::default() }
}

/// The datagrams of one fragment.
fn cut(header: &Header, payload: &[u8], datagram_bytes: usize, with_checksum: bool) -> Vec<Vec<u8>> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    emit::datagrams(header, payload, datagram_bytes, with_checksum, &mut bytes, &mut ends);
    let starts = std::iter::once(&0).chain(&ends);
    starts.zip(&ends).map(|(start, end)| bytes[*start..*end].to_vec()).collect()
}

fn split_all(settings: &Settings, datagrams: &[Vec<u8>]) -> FragmentsOutcome {
    let outcome = fragments_of_datagrams(splitter(settings), datagrams.iter().map(Vec::as_slice));
    outcome.assert_closed();
    outcome
}

fn lost(outcome: &FragmentsOutcome, reason: LossReason) -> (u64, u64) {
    (outcome.link().total_lost(reason, Unit::Datagrams), outcome.link().total_lost(reason, Unit::Bytes))
}

/// A fragment, byte by byte, by the table of `wire`.
const GOLDEN: &str = "7457 01 01 0003 00 01  00000007 00000005  0000000000000010  00000000000000a0 483551ed 0000 efc4 68656c6c6f";

fn golden() -> Vec<u8> {
    let digits: Vec<u8> = GOLDEN.bytes().filter(|byte| *byte != b' ').collect();
    let byte =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("digits");
    digits.chunks(2).map(byte).collect()
}

#[test]
fn golden_bytes_are_emitted_and_split() {
    assert_eq!(cut(&header(3, 16), b"hello", 1472, true), [golden()]);
    let settings = Settings { boards: 2, first_board: 2, run: Some(7), ..Settings::default() };
    let outcome = split_all(&settings, &[golden()]);
    let (fragment, bytes) = &outcome.fragments[0];
    assert_eq!((fragment.trigger, fragment.ticks, fragment.source), (16, 160, SourceId(1)));
    assert_eq!(*bytes, golden());
    let stream = StreamSplitter::new(SourceId(0), &settings).expect("possible");
    let outcome = fragments_of_stream(stream, &[golden(), golden()].concat(), &[13]);
    outcome.assert_closed();
    assert_eq!(outcome.fragments.len(), 2);
    assert_eq!(outcome.fragments[1], (*fragment, golden()));
}

#[test]
fn bad_datagrams_are_refused_by_reason() {
    let settings =
        Settings { boards: 4, run: Some(7), longest_fragment_bytes: Some(1000), ..Settings::default() };
    let good = |header: &Header| cut(header, b"hello", 1472, true).remove(0);
    let mut flipped = golden();
    flipped[44] ^= 0x10;
    let mut version = golden();
    version[2] = 2;
    let mut check = golden();
    check[20] ^= 1;
    let none = Header { parts: 0, ..header(3, 1) }.to_bytes().to_vec();
    for (datagram, reason, of_board) in [
        (golden()[..39].to_vec(), LossReason::BadLength, 0),
        (Vec::new(), LossReason::BadLength, 0),
        (golden()[..44].to_vec(), LossReason::BadLength, 1),
        ([golden(), vec![0]].concat(), LossReason::BadLength, 1),
        (version, LossReason::WrongConstant, 0),
        (check, LossReason::BadHash, 0),
        (flipped, LossReason::BadHash, 1),
        (none, LossReason::BadFraming, 0),
        (good(&header(4, 1)), LossReason::UnknownSource, 0),
        (good(&Header { run: 8, ..header(3, 1) }), LossReason::WrongRun, 0),
        (cut(&header(3, 1), &[0; 1001], 1472, false).remove(0), LossReason::TooLarge, 0),
    ] {
        let outcome = split_all(&settings, &[datagram.clone(), golden()]);
        assert_eq!(lost(&outcome, reason), (1, datagram.len() as u64), "{reason}");
        assert_eq!(outcome.unpacked(SourceId(3)).total_lost(reason, Unit::Fragments), of_board, "{reason}");
        assert_eq!(outcome.fragments.len(), 1, "the next one is found");
    }
    let required = Settings { checksum: Checksum::Required, ..settings.clone() };
    let bare = cut(&header(3, 1), b"hello", 1472, false);
    assert_eq!(lost(&split_all(&required, &bare), LossReason::BadHash), (1, 45));
    let mut flipped = golden();
    flipped[44] ^= 0x10;
    let ignored = Settings { checksum: Checksum::Ignored, ..settings };
    assert_eq!(split_all(&ignored, &[flipped]).fragments.len(), 1);
}

#[test]
fn the_first_refused_fragments_are_kept() {
    let mut run = splitter(&Settings::default());
    let mut feed = |datagrams: &[Vec<u8>]| {
        let mut received = thalweg_data::Frames::default();
        let mut writer = thalweg_data::Pool::new(1, 4096).expect("small").take().expect("free");
        for datagram in datagrams {
            received.slices.push(writer.append(datagram).expect("fits"));
        }
        received.leases.add(writer.lease());
        thalweg_data::Framing::frame(&mut run, &received, &mut thalweg_data::Fragments::default());
    };
    feed(&vec![vec![0xAB; 300]; 9]);
    feed(&[cut(&header(9, 1), b"somebody", 1472, false).remove(0)]);
    let kept = thalweg_data::Framing::first_refused(&run);
    assert_eq!(kept.len(), 5);
    assert_eq!((kept[0].reason, kept[0].bytes, kept[0].head.len()), (LossReason::WrongConstant, 300, 128));
    let text = kept[4].to_string();
    assert!(text.starts_with("unknown_source at 0 ns, 48 bytes: 7457010000090001"), "{text}");
    assert!(text.ends_with("expected: board 0 to 0; this is board 9"), "{text}");
    assert_eq!((kept[4].source, kept[4].trigger), (None, Some(header(9, 1).trigger)));
}

#[test]
fn boards_left_out_are_filtered_and_the_others_get_consecutive_sources() {
    let settings = Settings { boards: 4, without: vec![1, 2], ..Settings::default() };
    let of = |board| cut(&header(board, 1), b"hello", 1472, false).remove(0);
    let outcome = split_all(&settings, &[of(0), of(1), of(3), of(4)]);
    let sources: Vec<u16> = outcome.fragments.iter().map(|(fragment, _)| fragment.source.0).collect();
    assert_eq!(sources[1], sources[0] + 1);
    assert_eq!(outcome.link().total_filtered(Unit::Datagrams), 1);
    assert_eq!(lost(&outcome, LossReason::UnknownSource), (1, 45));
    for (without, word) in
        [(vec![4], "0 to 3"), (vec![1, 1], "once"), (vec![0, 1, 2, 3], "at least one board")]
    {
        let error =
            Settings { without, ..settings.clone() }.check(thalweg_data::SourceId(0)).expect_err("invalid");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_run_can_be_expected_later() {
    let mut splitter = splitter(&Settings { boards: 4, ..Settings::default() });
    splitter.expect_run(Some(8));
    let golden = golden();
    let outcome = fragments_of_datagrams(splitter, [golden.as_slice()]);
    assert_eq!(lost(&outcome, LossReason::WrongRun), (1, 45));
}

#[test]
fn parts_are_assembled_in_any_order() {
    let payload: Vec<u8> = (0..250u8).collect();
    let mut datagrams = cut(&header(0, 5), &payload, HEADER_BYTES + 100, true);
    assert_eq!(datagrams.len(), 3);
    datagrams.rotate_left(1);
    let outcome = split_all(&Settings::default(), &datagrams);
    let (fragment, bytes) = &outcome.fragments[0];
    assert_eq!((fragment.slices, fragment.bytes, fragment.trigger), (3, 290, 5));
    assert_eq!(bytes[HEADER_BYTES..], payload);
    assert_eq!(Header::read(bytes).map(|header| (header.part, header.parts)), Ok((0, 3)));
    assert_eq!(outcome.link().total_overhead(Unit::Bytes), 80);
    assert_eq!(outcome.link().total_output(Unit::Datagrams), 3);
}

#[test]
fn incomplete_fragments_are_given_up_in_time_or_for_newer_ones() {
    let part = |trigger| cut(&header(0, trigger), &[1; 150], HEADER_BYTES + 100, false).remove(0);
    let settings = Settings { open_fragments: 2, reassembly_ms: 50, ..Settings::default() };
    let mut host = Host::of_fragments(SourceId(0), splitter(&settings));
    for trigger in 0..3 {
        host.datagram(&part(trigger));
    }
    host.step();
    let outcome = host.outcome();
    assert_eq!(lost(outcome, LossReason::Unfinished), (1, 140));
    assert_eq!((outcome.link().held(Unit::Datagrams), outcome.link().held(Unit::Bytes)), (2, 280));
    outcome.assert_closed();
    host.mark.0 += 50_000_000;
    host.step();
    let outcome = host.outcome();
    assert_eq!((lost(outcome, LossReason::Unfinished), outcome.link().held(Unit::Bytes)), ((3, 420), 0));
    assert_eq!(outcome.link().total_lost(LossReason::Unfinished, Unit::Fragments), 3);
    host.finish().assert_closed();
}

#[test]
fn a_fragment_whose_datagrams_come_late_is_lost_once() {
    let settings = Settings { open_fragments: 2, reassembly_ms: 100, ..Settings::default() };
    let parts = cut(&header(0, 1), &[1; 350], HEADER_BYTES + 100, false);
    let mut host = Host::of_fragments(SourceId(0), splitter(&settings));
    for datagram in [&parts[0], &parts[1], &parts[1], &parts[2]] {
        host.datagram(datagram);
        // Others come and go meanwhile.
        for trigger in 10..15 {
            cut(&header(0, trigger), &[2; 150], HEADER_BYTES + 100, false)
                .iter()
                .for_each(|datagram| host.datagram(datagram));
        }
        host.step();
        host.mark.0 += 150_000_000;
    }
    let outcome = host.outcome();
    let of_fragments = |reason| outcome.link().total_lost(reason, Unit::Fragments);
    assert_eq!(lost(outcome, LossReason::Unfinished), (1, 140));
    assert_eq!((of_fragments(LossReason::Unfinished), of_fragments(LossReason::Late)), (1, 0));
    assert_eq!(lost(outcome, LossReason::Late), (3, 3 * 140));
    // The number comes again, as that of a counter does.
    parts.iter().for_each(|datagram| host.datagram(datagram));
    host.step();
    let outcome = host.outcome();
    assert_eq!(outcome.link().total_output(Unit::Fragments), 4 * 5 + 1);
    assert_eq!(outcome.link().total_lost(LossReason::Unfinished, Unit::Fragments), 1);
    host.finish().assert_closed();
}

#[test]
fn a_fragment_that_makes_room_for_others_is_lost_once() {
    let settings = Settings { open_fragments: 4, ..Settings::default() };
    let cut_of = |trigger| cut(&header(0, trigger), &[1; 350], HEADER_BYTES + 100, false);
    let mut host = Host::of_fragments(SourceId(0), splitter(&settings));
    // Eight at once, part by part: the newest four stay open.
    for part in 0..4 {
        (0..8).for_each(|trigger| host.datagram(&cut_of(trigger)[part]));
    }
    host.step();
    let outcome = host.outcome();
    assert_eq!(lost(outcome, LossReason::Unfinished), (4, 4 * 140));
    assert_eq!(outcome.link().total_lost(LossReason::Unfinished, Unit::Fragments), 4);
    assert_eq!(lost(outcome, LossReason::Late).0, 3 * 4);
    assert_eq!(outcome.link().total_output(Unit::Fragments), 4);
    host.finish().assert_closed();
}

#[test]
fn a_datagram_without_payload_is_a_part_like_any_other() {
    let datagram = |part, payload: &[u8]| {
        let header = Header { part, parts: 3, length: 8, ..header(0, 1) };
        [header.to_bytes().to_vec(), payload.to_vec()].concat()
    };
    let divided = [[&b""[..], b"12345678", b""], [b"1234", b"", b"5678"], [b"1234", b"5678", b""]];
    for (index, payloads) in divided.into_iter().enumerate() {
        let mut datagrams = [0, 1, 2].map(|part| datagram(part, payloads[usize::from(part)]));
        datagrams.rotate_left(index);
        let outcome = split_all(&Settings::default(), &datagrams);
        let (fragment, bytes) = &outcome.fragments[0];
        assert_eq!(&bytes[HEADER_BYTES..], b"12345678", "{payloads:?}");
        // The first has its header, and others that are empty have nothing.
        let kept = 1 + payloads[1..].iter().filter(|payload| !payload.is_empty()).count();
        assert_eq!(usize::from(fragment.slices), kept, "{payloads:?}");
        assert_eq!(outcome.link().total_output(Unit::Datagrams), 3);
        assert_eq!(outcome.snapshot.losses(), []);
    }
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let first = || cut(&header(0, 1), &[1; 250], HEADER_BYTES + 100, false);
    let other = |header: Header, payload: &[u8]| [header.to_bytes().to_vec(), payload.to_vec()].concat();
    let with = |part, parts, length| Header { part, parts, length, ..header(0, 1) };
    for (second, reason) in [
        (first()[0].clone(), LossReason::DuplicateDatagram),
        (other(with(1, 4, 250), &[1; 100]), LossReason::BadFraming),
        (other(with(1, 3, 251), &[1; 100]), LossReason::BadFraming),
        (other(with(1, 3, 250), &[1; 151]), LossReason::BadLength),
    ] {
        let (good, length) = (first(), second.len() as u64);
        let outcome =
            split_all(&Settings::default(), &[good[0].clone(), second, good[1].clone(), good[2].clone()]);
        assert_eq!(lost(&outcome, reason), (1, length), "{reason}");
        assert_eq!(outcome.fragments.len(), 1, "{reason}");
    }
    // All parts are received, but the payload is too short.
    let short = [other(with(0, 2, 250), &[1; 100]), other(with(1, 2, 250), &[1; 100])];
    let outcome = split_all(&Settings::default(), &short);
    assert_eq!(lost(&outcome, LossReason::BadLength), (2, 280));
    // A datagram of a fragment that is already complete.
    let whole = [first(), first()].concat();
    let outcome = split_all(&Settings::default(), &whole);
    assert_eq!(lost(&outcome, LossReason::DuplicateDatagram), (3, 370));
}

#[test]
fn a_stream_resumes_behind_damage() {
    let fragment = |trigger: u64| {
        let mut bytes = Vec::new();
        emit::stream(&header(0, trigger), &[trigger as u8; 60], true, &mut bytes);
        bytes
    };
    let mut bytes: Vec<u8> = (0..10).flat_map(fragment).collect();
    bytes[300] ^= 1; // the header of fragment 3
    bytes[550] ^= 1; // the payload of fragment 5
    bytes.splice(700..700, [0x74, 0x57, 0x01, 0x00]); // something between 6 and 7
    for chunk_sizes in [&[7][..], &[4096], &[100, 1]] {
        let splitter = StreamSplitter::new(SourceId(0), &Settings::default()).expect("possible");
        let outcome = fragments_of_stream(splitter, &bytes, chunk_sizes);
        outcome.assert_closed();
        let found: Vec<u64> = outcome.fragments.iter().map(|(fragment, _)| fragment.trigger).collect();
        assert_eq!(found, [0, 1, 2, 4, 6, 7, 8, 9]);
        let lost = |reason| outcome.link().total_lost(reason, Unit::Bytes);
        assert_eq!(lost(LossReason::Resynchronised), 99 + 3);
        assert_eq!(lost(LossReason::WrongConstant) + lost(LossReason::BadHash), 2 + 100);
        assert_eq!(outcome.link().total_lost(LossReason::BadHash, Unit::Fragments), 1);
    }
}

#[test]
fn a_connection_that_ends_inside_a_fragment_loses_one_of_all() {
    for boards in [1, 2] {
        let settings = Settings { boards, ..Settings::default() };
        let splitter = StreamSplitter::new(SourceId(0), &settings).expect("possible");
        let mut host = Host::of_fragments(SourceId(0), splitter);
        for connection in 0..4 {
            let mut bytes = Vec::new();
            for trigger in 0..51 {
                emit::stream(&header(0, 51 * connection + trigger), &[1; 60], false, &mut bytes);
            }
            host.connection(&bytes[..bytes.len() - 20], &[1000, 7]);
        }
        let outcome = host.finish();
        outcome.assert_closed();
        let found = outcome.unpacked(SourceId(0)).total_output(Unit::Fragments);
        let lost = outcome.link().total_lost(LossReason::Unfinished, Unit::Frames);
        assert_eq!((found, lost, outcome.link().total_input(Unit::Frames)), (200, 4, 204));
        let report = LossReport::of(&outcome.snapshot, StageRole::Recording);
        let frames = report.kinds.iter().find(|kind| kind.lost.unit == Unit::Frames).expect("4 are lost");
        assert_eq!((frames.lost.count, frames.lost.of), (4, 204));
        let read = |entries: &Entries| entries.stage == Stage::Unpack && entries.unit == Unit::Frames;
        let frames = outcome.snapshot.entries().into_iter().find(read).expect("they are in the record");
        assert_eq!((frames.output, frames.lost["unfinished"]), (200, 4));
    }
}

#[test]
fn a_stream_refuses_parts_and_fragments_that_are_too_large() {
    let settings = Settings { longest_fragment_bytes: Some(100), ..Settings::default() };
    for (bad, reason) in [
        (Header { parts: 2, length: 5, ..header(0, 1) }, LossReason::BadFraming),
        (Header { parts: 1, length: 101, ..header(0, 1) }, LossReason::TooLarge),
    ] {
        let splitter = StreamSplitter::new(SourceId(0), &settings).expect("possible");
        let bytes = [bad.to_bytes().to_vec(), cut(&header(0, 2), b"next", 1472, false).concat()].concat();
        let outcome = fragments_of_stream(splitter, &bytes, &[4096]);
        outcome.assert_closed();
        assert_eq!(outcome.link().total_lost(reason, Unit::Bytes), 1);
        assert_eq!(outcome.fragments.len(), 1);
    }
    // A header alone, and then the end.
    let splitter = StreamSplitter::new(SourceId(0), &settings).expect("valid");
    let outcome = fragments_of_stream(splitter, &golden()[..43], &[4096]);
    outcome.assert_closed();
    assert_eq!(outcome.link().total_lost(LossReason::UnknownSource, Unit::Bytes), 0);
    assert_eq!(outcome.link().total_lost(LossReason::Unfinished, Unit::Bytes), 43);
}

/// Many kinds of garbage for a long time: the splitter holds no more than the pool of the check has.
#[test]
fn endless_garbage_takes_no_memory() {
    let settings = Settings { boards: 8, open_fragments: 2, reassembly_ms: 10, ..Settings::default() };
    let mut host = Host::of_fragments(SourceId(0), splitter(&settings));
    let mut random = Pcg64::seed_from_u64(5);
    for trigger in 0..60_000u64 {
        let mut datagram = vec![0; random.random_range(0..200)];
        random.fill_bytes(&mut datagram);
        if random.random_bool(0.7) {
            let parts = random.random_range(1..=128);
            let bad = Header { part: parts - 1, parts, length: 900, ..header(trigger as u16 % 9, trigger) };
            datagram.splice(0..0, bad.to_bytes());
        }
        host.datagram(&datagram);
    }
    let held = host.outcome().link().held(Unit::Datagrams);
    assert!(held <= 16, "{held}");
    host.finish().assert_closed();
    let garbage: Vec<u8> = (0..3_000_000).map(|_| random.random()).collect();
    let stream = StreamSplitter::new(SourceId(0), &settings).expect("possible");
    fragments_of_stream(stream, &garbage, &[65_536]).assert_closed();
}

#[test]
fn the_error_of_invalid_settings_names_the_key() {
    let key =
        |settings: Settings| Splitter::new(SourceId(10), &settings).map(drop).map_err(|error| error.key);
    let usual = Settings::default;
    assert_eq!(key(usual()), Ok(()));
    assert_eq!(key(Settings { boards: 0, ..usual() }), Err("boards"));
    assert_eq!(key(Settings { boards: 2, first_board: 65_535, ..usual() }), Err("first_board"));
    assert_eq!(key(Settings { open_fragments: 0, ..usual() }), Err("open_fragments"));
    assert_eq!(key(Settings { reassembly_ms: 0, ..usual() }), Err("reassembly_ms"));
    assert_eq!(
        key(Settings { longest_fragment_bytes: Some(1 << 30), ..usual() }),
        Err("longest_fragment_bytes")
    );
    let late = Splitter::new(SourceId(65_535), &Settings { boards: 2, ..usual() }).map(drop);
    let message = late.expect_err("beyond the sources").to_string();
    assert!(message.contains("`boards = 2`") && message.contains("at most 1"), "{message}");
    let read: Settings = toml::from_str("boards = 265\nchecksum = \"required\"").expect("settings");
    assert_eq!((read.boards, read.checksum), (265, Checksum::Required));
    assert!(toml::from_str::<Settings>("bords = 4").is_err());
}

#[test]
fn the_error_of_invalid_boards_names_the_key() {
    let key = |settings: emulate::Settings| {
        emulate::Board::new(BoardId(0), &settings).map(drop).map_err(|error| error.key)
    };
    let usual = emulate::Settings::default;
    assert_eq!(key(usual()), Ok(()));
    assert_eq!(key(emulate::Settings { datagram_bytes: 47, ..usual() }), Err("datagram_bytes"));
    let long = emulate::Settings { payload_bytes: 200_000, datagram_bytes: 1472, ..usual() };
    assert_eq!(key(long.clone()), Err("payload_bytes"));
    assert_eq!(key(emulate::Settings { stream: true, ..long }), Ok(()));
    assert_eq!(
        key(emulate::Settings { shortest_payload_bytes: Some(2000), ..usual() }),
        Err("shortest_payload_bytes")
    );
    assert_eq!(key(emulate::Settings { random_share: f64::NAN, ..usual() }), Err("random_share"));
    assert_eq!(key(emulate::Settings { trigger_bits: 0, ..usual() }), Err("trigger_bits"));
    assert_eq!(key(emulate::Settings { tick_ps: 0, ..usual() }), Err("tick_ps"));
    assert_eq!(key(emulate::Settings { prepared_kib: 0, ..usual() }), Err("prepared_kib"));
}

/// Boards are triggered by a program, through either splitter, and every byte is checked.
#[test]
fn emulated_boards_are_received_whole_and_checked_by_their_content() {
    let program = trigger::Settings { rate_hz: 2000.0, triggers: Some(50), ..trigger::Settings::default() };
    for (stream, datagram_bytes) in [(false, 8972), (false, 700), (true, 8972)] {
        let settings = emulate::Settings {
            shortest_payload_bytes: Some(380),
            payload_bytes: 3000,
            datagram_bytes,
            stream,
            checksum: true,
            trigger_bits: 5,
            tick_ps: 4000,
            ..emulate::Settings::default()
        };
        let mut boards = emulate::boards(BoardId(20), 4, &settings).expect("possible");
        let content = emulate::Content::new(&settings).expect("possible");
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for trigger in trigger::Program::new(&program).expect("possible") {
            boards.iter_mut().for_each(|board| board.answer(trigger, &mut bytes, &mut ends));
        }
        let link =
            Settings { boards: 4, first_board: 20, checksum: Checksum::Required, ..Settings::default() };
        let outcome = if stream {
            fragments_of_stream(
                StreamSplitter::new(SourceId(0), &link).expect("possible"),
                &bytes,
                &[5000, 333],
            )
        } else {
            let starts = std::iter::once(&0).chain(&ends);
            fragments_of_datagrams(
                splitter(&link),
                starts.zip(&ends).map(|(start, end)| &bytes[*start..*end]),
            )
        };
        outcome.assert_closed();
        assert_eq!(outcome.fragments.len(), 200);
        assert!(boards.iter().all(|board| board.sent() == 50));
        for (fragment, bytes) in &outcome.fragments {
            let (board, payload) = (BoardId(fragment.source.0 + 20), &bytes[HEADER_BYTES..]);
            assert!(content.is_payload(board, fragment.trigger, payload));
            assert!(!content.is_payload(board, fragment.trigger + 1, payload));
            assert!((380..=3000).contains(&payload.len()));
            // 500 us between triggers are 125000 counts of 4 ns.
            assert_eq!(fragment.ticks / 125_000 % 32, fragment.trigger);
        }
    }
}

#[test]
fn content_has_the_configured_random_fraction() {
    let settings = emulate::Settings { random_share: 0.7, ..emulate::Settings::default() };
    let content = emulate::Content::new(&settings).expect("possible");
    let zeros: usize =
        (0..200).flat_map(|trigger| content.payload(BoardId(1), trigger)).filter(|byte| **byte == 0).count();
    let fraction = zeros as f64 / (200.0 * 1024.0);
    assert!((fraction - 0.3).abs() < 0.01, "{fraction}");
}

#[test]
fn an_answer_is_appended() {
    let mut board = emulate::Board::new(BoardId(3), &emulate::Settings::default()).expect("possible");
    board.start_run(9);
    let (mut bytes, mut ends) = (vec![1, 2, 3], vec![3]);
    board.answer(Trigger { number: 4, time_ns: 5 }, &mut bytes, &mut ends);
    assert_eq!((bytes.len(), ends), (3 + 40 + 1024, vec![3, 3 + 40 + 1024]));
    let header = Header::read(&bytes[3..]).expect("a header");
    assert_eq!((header.run, header.trigger, header.ticks, header.board), (9, 4, 5, board.number()));
}

/// What happens to one datagram on the network.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Doubled,
    Dropped,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let one = prop_oneof![8 => Just(Fate::Arrives), 1 => Just(Fate::Doubled), 1 => Just(Fate::Dropped)];
    prop::collection::vec(one, 64)
}

proptest! {
    #[test]
    fn written_headers_are_read_back(
        board: u16, part in 0..128u8, more in 0..128u8, run: u32, length: u32, trigger: u64, ticks: u64,
        checksum: Option<u32>, status: u16,
    ) {
        let parts = part.saturating_add(more).saturating_add(1).min(128);
        let header = Header { board: BoardId(board), part, parts, run, length, trigger, ticks, checksum, status };
        prop_assert_eq!(Header::read(&header.to_bytes()), Ok(header));
    }

    /// The ledger counts every datagram, and the output is the input.
    #[test]
    fn shuffled_doubled_and_dropped_parts_are_counted(
        sizes in prop::collection::vec(0..1000usize, 1..12), payload_bytes in 64..400usize, with_checksum: bool,
        fates in fates(), swaps in prop::collection::vec((0..64usize, 0..64usize), 0..20),
    ) {
        let settings = Settings { boards: 2, open_fragments: 16, ..Settings::default() };
        let mut sent = Vec::new();
        let mut arriving = Vec::new();
        let mut fates = fates.iter().cycle();
        for (trigger, size) in sizes.iter().enumerate() {
            let payload: Vec<u8> = (0..*size).map(|index| (index * 7 + trigger) as u8).collect();
            let datagrams = cut(&header(trigger as u16 % 2, trigger as u64), &payload, HEADER_BYTES + payload_bytes, with_checksum);
            let (mut whole, parts) = (true, datagrams.len());
            for datagram in datagrams {
                let copies = match fates.next().expect("endless") {
                    Fate::Arrives => 1,
                    Fate::Doubled => 2,
                    Fate::Dropped => 0,
                };
                whole &= copies > 0;
                arriving.extend(std::iter::repeat_n((parts, datagram), copies));
            }
            sent.push((payload, whole, parts));
        }
        if !arriving.is_empty() {
            let count = arriving.len();
            swaps.iter().for_each(|(one, other)| arriving.swap(one % count, other % count));
        }
        let singles = arriving.iter().filter(|(parts, _)| *parts == 1).count();
        let list: Vec<Vec<u8>> = arriving.into_iter().map(|(_, datagram)| datagram).collect();
        let outcome = split_all(&settings, &list);
        let whole = sent.iter().filter(|(_, whole, parts)| *whole && *parts > 1).count();
        // Duplicate fragments in one datagram are detected by the builder.
        prop_assert_eq!(outcome.fragments.len(), singles + whole);
        for (fragment, bytes) in &outcome.fragments {
            let (payload, whole, parts) = &sent[fragment.trigger as usize];
            prop_assert!(*whole);
            prop_assert_eq!(&bytes[HEADER_BYTES..], &payload[..]);
            prop_assert_eq!(usize::from(fragment.slices), *parts);
        }
        prop_assert_eq!(outcome.link().total_input(Unit::Datagrams), list.len() as u64);
        prop_assert_eq!(outcome.link().held(Unit::Bytes), 0);
    }

    /// A fragment with at least one received datagram is found; a fragment without any is missing.
    #[test]
    fn records_of_boards_show_which_fragments_did_not_arrive(
        sizes in prop::collection::vec(0..1000usize, 1..40), payload_bytes in 64..400usize, fates in fates(),
    ) {
        let settings = Settings { boards: 2, open_fragments: 16, ..Settings::default() };
        let records = [0, 1].map(|_| Arc::new(FragmentRecord::new(0.0)));
        let mut splitter = splitter(&settings);
        splitter.ask(records.to_vec());
        let (mut arriving, mut expected) = (Vec::new(), [AnswerFates::default(); 2]);
        let mut fates = fates.iter().cycle();
        for (trigger, size) in sizes.iter().enumerate() {
            let board = trigger % 2;
            records[board].answer(trigger as u64, true);
            let datagrams = cut(&header(board as u16, trigger as u64), &vec![0; *size], HEADER_BYTES + payload_bytes, false);
            let before = arriving.len();
            arriving.extend(datagrams.into_iter().filter(|_| !matches!(fates.next(), Some(Fate::Dropped))));
            let some = arriving.len() > before;
            expected[board].found += u64::from(some);
            expected[board].never_received += u64::from(!some);
        }
        let outcome = fragments_of_datagrams(splitter, arriving.iter().map(Vec::as_slice));
        outcome.assert_closed();
        for board in [0, 1] {
            prop_assert_eq!(records[board].fates(), Some(expected[board]));
            prop_assert_eq!(outcome.unpacked(SourceId(board as u16)).total_input(Unit::Fragments), expected[board].found);
        }
    }

    #[test]
    fn any_chunks_of_a_stream_give_the_same_fragments(sizes in prop::collection::vec(0..3000usize, 1..20), cuts in prop::collection::vec(1..5000usize, 1..5)) {
        let mut bytes = Vec::new();
        for (trigger, size) in sizes.iter().enumerate() {
            emit::stream(&header(0, trigger as u64), &vec![trigger as u8; *size], trigger % 2 == 0, &mut bytes);
        }
        let splitter = StreamSplitter::new(SourceId(0), &Settings::default()).expect("possible");
        let outcome = fragments_of_stream(splitter, &bytes, &cuts);
        outcome.assert_closed();
        let found: Vec<usize> = outcome.fragments.iter().map(|(_, bytes)| bytes.len() - HEADER_BYTES).collect();
        prop_assert_eq!(found, sizes);
        prop_assert_eq!(outcome.link().total_output(Unit::Bytes), bytes.len() as u64);
    }

    #[test]
    fn arbitrary_bytes_only_count(input in prop::collection::vec(any::<u8>(), 0..600)) {
        super::check::check(&input);
    }
}
