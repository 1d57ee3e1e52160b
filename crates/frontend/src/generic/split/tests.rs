//! A lab's own board, byte by byte, and its packets when some are lost, duplicated, late or damaged.

use proptest::prelude::*;
use thalweg_data::{Fragments, Frames, Framing, LossReason, Pool, SourceId, Stage, Unit};

use super::super::emulate::{self, Board};
use super::super::{GenericSplitter, NamedBy, PacketFragments, Settings};
use crate::check::{FragmentsOutcome, Host, fragments_of_datagrams, fragments_of_stream};
use crate::trigger::{Answer, Trigger};

/// 12 bytes: mark CA FE, module, status, trigger (16 bits), packet counter (16 bits), time (32 bits of 10 ns); then the
/// payload.
const CAMERA: &str = r#"
    byte_order   = "big"
    header_bytes = 12
    check        = [{ field = "mark", equals = 0xCAFE }]
    part         = { fields = ["module"] }
    trigger      = { field = "trigger" }
    sequence     = { field = "sent" }
    timestamp    = { field = "time", tick_ps = 10000.0 }
    [field]
    mark    = { offset = 0, width = 2 }
    module  = { offset = 2, width = 1 }
    status  = { offset = 3, width = 1 }
    trigger = { offset = 4, width = 2 }
    sent    = { offset = 6, width = 2 }
    time    = { offset = 8, width = 4 }
    [fragments]
    boards      = 3
    named_by    = "header"
    first_board = 17
"#;

/// 4 bytes: event, packet of the event (0 to 3), 16 bits of time; four packets are one fragment.
const FRAMES: &str = r#"
    byte_order   = "little"
    header_bytes = 4
    trigger      = { field = "event" }
    timestamp    = { field = "time", tick_ps = 1e6 }
    sequence     = { field = "packet", scope = "frame", packets_per_frame = 4, window = 8 }
    [field]
    event  = { offset = 0, width = 1 }
    packet = { offset = 1, width = 1 }
    time   = { offset = 2, width = 2 }
    [fragments]
"#;

fn settings(text: &str) -> Settings {
    toml::from_str(text).expect("the description can be read")
}

fn with(text: &str, change: impl FnOnce(&mut PacketFragments)) -> Settings {
    let mut settings = settings(text);
    change(settings.fragments.as_mut().expect("a description of triggered boards"));
    settings
}

fn splitter(settings: &Settings) -> GenericSplitter {
    GenericSplitter::new(SourceId(5), settings).expect("possible")
}

fn datagrams<'a>(settings: &Settings, datagrams: impl IntoIterator<Item = &'a [u8]>) -> FragmentsOutcome {
    let splitter = GenericSplitter::new(SourceId(0), settings).expect("possible");
    let outcome = fragments_of_datagrams(splitter, datagrams);
    outcome.assert_closed();
    outcome
}

#[test]
fn a_packet_is_a_fragment_of_the_board_in_its_header() {
    let mut host = Host::of_fragments(SourceId(5), splitter(&settings(CAMERA)));
    host.datagram(&[0xCA, 0xFE, 18, 0, 0x12, 0x34, 0, 1, 0, 0, 1, 0, b'a', b'b']);
    host.datagram(&[0xCA, 0xFE, 17, 0, 0x12, 0x35, 0, 9, 0, 0, 2, 0]);
    host.datagram(&[0xCA, 0xFE, 20, 0, 0x12, 0x35, 0, 9, 0, 0, 2, 0, b'c']);
    host.datagram(&[0xCA, 0xFF, 19, 0, 0x12, 0x35, 0, 9, 0, 0, 2, 0, b'd']);
    host.datagram(&[0xCA, 0xFE, 19]);
    let outcome = host.finish();
    let found: Vec<_> =
        outcome.fragments.iter().map(|(own, _)| (own.source.0, own.trigger, own.ticks)).collect();
    assert_eq!(found, [(6, 0x1234, 256), (5, 0x1235, 512)]);
    assert_eq!(outcome.fragments[0].1[12..], *b"ab", "the header is included");
    for reason in [LossReason::UnknownSource, LossReason::WrongConstant, LossReason::BadLength] {
        assert_eq!(outcome.link().total_lost(reason, Unit::Datagrams), 1, "{reason}");
    }
}

#[test]
fn fragments_without_headers_are_payload_alone() {
    let settings = with(CAMERA, |fragments| fragments.keep_header = false);
    let packet = [&[0xCA, 0xFE, 17, 0, 0, 7, 0, 0, 0, 0, 0, 0][..], b"payload"].concat();
    let empty = [0xCA, 0xFE, 18, 0, 0, 7, 0, 0, 0, 0, 0, 0];
    let outcome = datagrams(&settings, [&packet[..], &empty]);
    assert_eq!(outcome.fragments[0].1, b"payload");
    assert_eq!((outcome.fragments[1].0.bytes, outcome.fragments[1].0.slices), (0, 0));
    assert_eq!(outcome.link().total_overhead(Unit::Bytes), 24);
}

#[test]
fn boards_are_numbered_by_their_senders() {
    let settings = with(CAMERA, |fragments| fragments.named_by = NamedBy::Sender);
    let mut host =
        Host::of_fragments(SourceId(0), GenericSplitter::new(SourceId(0), &settings).expect("possible"));
    for sender in [2, 0, 1, 3] {
        host.datagram_from(sender, &[0xCA, 0xFE, 99, 0, 0, 7, 0, 0, 0, 0, 0, 0, sender as u8]);
    }
    let outcome = host.finish();
    outcome.assert_closed();
    let found: Vec<_> = outcome.fragments.iter().map(|(own, bytes)| (own.source.0, bytes[12])).collect();
    assert_eq!(found, [(2, 2), (0, 0), (1, 1)]);
    assert_eq!(outcome.link().total_lost(LossReason::UnexpectedSender, Unit::Datagrams), 1);
}

#[test]
fn gaps_in_a_boards_packet_counter_are_counted_at_its_wire() {
    let packet = |module: u8, sent: u16| {
        let [high, low] = sent.to_be_bytes();
        vec![0xCA, 0xFE, module, 0, 0, low, high, low, 0, 0, 0, 0, 1]
    };
    let sent: Vec<Vec<u8>> = (0..100)
        .flat_map(|number| [packet(17, number), packet(18, number)])
        .enumerate()
        .filter(|(index, _)| index % 20 != 8)
        .map(|(_, packet)| packet)
        .collect();
    let outcome = datagrams(&settings(CAMERA), sent.iter().map(Vec::as_slice));
    let lost = |board| outcome.wire(SourceId(board)).total_lost(LossReason::FrameGap, Unit::Frames);
    assert_eq!([0, 1, 2].map(lost), [10, 0, 0]);
    assert_eq!(outcome.snapshot.slot(Stage::Wire, SourceId(3)), None, "there are three boards");
    assert_eq!(outcome.wire(SourceId(0)).total_output(Unit::Frames), 90);
    assert_eq!(outcome.unpacked(SourceId(0)).total_output(Unit::Fragments), 90);
}

#[test]
fn packets_of_a_frame_become_one_fragment() {
    let packet = |event: u8, index: u8| vec![event, index, 10 + index, 0, b'a' + index, event];
    let order = [2, 0, 3, 1];
    let mut sent: Vec<Vec<u8>> = order.iter().map(|index| packet(7, *index)).collect();
    sent.push(packet(7, 1));
    sent.extend([0, 1, 3].map(|index| packet(8, index)));
    sent.extend([0, 1, 2, 3].map(|index| packet(9, index)));
    sent.push(packet(9, 4));
    let outcome = datagrams(&settings(FRAMES), sent.iter().map(Vec::as_slice));
    let found: Vec<_> =
        outcome.fragments.iter().map(|(own, bytes)| (own.trigger, own.slices, bytes.clone())).collect();
    assert_eq!(found[0], (7, 4, [&[7, 0, 10, 0][..], b"a\x07b\x07c\x07d\x07"].concat()));
    assert_eq!(found[1].0, 9);
    let lost = |reason| outcome.link().total_lost(reason, Unit::Datagrams);
    assert_eq!(lost(LossReason::DuplicateDatagram), 1);
    assert_eq!(lost(LossReason::BadFraming), 1, "a position beyond the frame");
    assert_eq!(lost(LossReason::Unfinished), 3);
    assert_eq!(outcome.link().total_lost(LossReason::Unfinished, Unit::Fragments), 1);
    assert_eq!(outcome.wire(SourceId(0)).total_lost(LossReason::FrameGap, Unit::Frames), 1);
}

#[test]
fn packets_without_payload_are_parts_of_a_frame() {
    for keeps_header in [true, false] {
        let frames = with(FRAMES, |own| own.keep_header = keeps_header);
        let packets = [&b"a"[..], b"", b"bc", b""].into_iter().zip(0u8..);
        let packets = packets.map(|(payload, number)| [&[1, number, 0, 0], payload].concat());
        let empty = (0..4).map(|number| vec![2, number, 0, 0]);
        let packets: Vec<Vec<u8>> = packets.chain(empty).collect();
        let outcome = datagrams(&frames, packets.iter().map(Vec::as_slice));
        let found: Vec<&[u8]> = outcome.fragments.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        let expected =
            [&b"\x01\0\0\0abc"[..], b"\x02\0\0\0"].map(|bytes| &bytes[4 * usize::from(!keeps_header)..]);
        assert_eq!(found, expected);
        assert_eq!(outcome.snapshot.losses(), []);
    }
}

#[test]
fn a_time_is_extended_over_its_wraps_unless_it_wraps_too_soon() {
    // 32 bits of 10 ns wrap after 42.9 s; batches are 1 ms apart.
    let at = |time: u32| [&[0xCA, 0xFE, 17, 0, 0, 0, 0, 0][..], &time.to_be_bytes()].concat();
    let mut host =
        Host::of_fragments(SourceId(5), splitter(&Settings { sequence: None, ..settings(CAMERA) }));
    host.mark.0 = 42_000_000_000;
    for time in [4_290_000_000, 4_294_967_295, 100] {
        host.datagram(&at(time));
        host.step();
    }
    let ticks: Vec<u64> = host.finish().fragments.iter().map(|(own, _)| own.ticks).collect();
    assert_eq!(ticks, [4_290_000_000, 4_294_967_295, (1 << 32) + 100]);
    let mut brief = settings(FRAMES);
    brief.sequence = None;
    let outcome = datagrams(&brief, [&[1, 0, 0xFF, 0xFF, 1][..], &[2, 0, 3, 0, 1]]);
    let ticks: Vec<u64> = outcome.fragments.iter().map(|(own, _)| own.ticks).collect();
    assert_eq!(ticks, [0xFFFF, 3], "16 bits of 1 µs wrap after 66 ms");
}

#[test]
fn the_counters_of_a_board_restart_when_it_reconnects() {
    let (mut splitter, mut fragments) = (splitter(&settings(CAMERA)), Fragments::default());
    let mut writer = Pool::new(1, 1024).expect("small").take().expect("free");
    for sent in [500, 501, 0, 1u16] {
        if sent == 0 {
            splitter.finish(&Frames::default(), &mut fragments);
            splitter.begin_anew();
        }
        let [high, low] = sent.to_be_bytes();
        let packet = [0xCA, 0xFE, 17, 0, 0, 1, high, low, 0, 0, 0, 0, 9];
        let mut frames = Frames::default();
        frames.slices.push(writer.append(&packet).expect("fits"));
        frames.leases.add(writer.lease());
        splitter.frame(&frames, &mut fragments);
    }
    assert_eq!(fragments.fragments.len(), 4, "its first packet is not a jump");
    assert_eq!(splitter.counters().total_lost_any(Unit::Datagrams), 0);
}

#[test]
fn the_error_of_invalid_fragment_settings_says_what_to_write() {
    let message =
        |settings: Settings| GenericSplitter::new(SourceId(0), &settings).expect_err("no").to_string();
    let change = |change: fn(&mut PacketFragments)| message(with(CAMERA, change));
    assert!(change(|own| own.boards = 0).contains("`fragments.boards`: is 0; write 1 to 1024"));
    assert!(change(|own| own.named_by = NamedBy::Connection).contains("nothing distinguishes their packets"));
    assert!(
        change(|own| own.open_fragments = 65).contains("`fragments.open_fragments`: is 65; write 1 to 64")
    );
    assert!(change(|own| own.reassembly_ms = 0).contains("`fragments.reassembly_ms`: is 0"));
    let without_trigger = Settings { trigger: None, ..settings(CAMERA) };
    assert!(message(without_trigger).contains("`trigger`: is missing: fragments are built into events by"));
    let without_part = Settings { part: None, ..settings(CAMERA) };
    assert!(message(without_part).contains("`part`: is missing: `named_by = \"header\"` reads"));
    let mut long = settings(FRAMES);
    long.sequence.as_mut().expect("it has one").packets_per_frame = Some(129);
    assert!(message(long.clone()).contains("is 129; a fragment has at most 128 packets"));
    let last = GenericSplitter::new(SourceId(65_534), &settings(CAMERA)).expect_err("too many");
    assert!(last.to_string().contains("there are 65536 sources"));
}

/// The packets with which emulated boards of a description answer triggers.
fn answers(description: &Settings, boards: usize, triggers: u64) -> Vec<Vec<u8>> {
    let emulated = emulate::Settings { payload_bytes: 60, shortest_payload_bytes: Some(3), seed: 7 };
    let mut boards: Vec<Board> = emulate::boards(boards, description, &emulated).expect("possible");
    let mut packets = Vec::new();
    for number in 0..triggers {
        for board in &mut boards {
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            board.answer(Trigger { number, time_ns: number * 1000 }, &mut bytes, &mut ends);
            let mut start = 0;
            for end in ends {
                packets.push(bytes[start..end].to_vec());
                start = end;
            }
            if description.stream {
                packets.push(bytes);
            }
        }
    }
    packets
}

#[test]
fn packets_of_emulated_boards_are_found_behind_damage() {
    let mut description = settings(CAMERA);
    description.stream = true;
    description.length = toml::from_str("payload_bytes = 60").expect("a length");
    let emulated = emulate::Settings { payload_bytes: 60, ..emulate::Settings::default() };
    let mut board = emulate::boards(1, &description, &emulated).expect("possible").remove(0);
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for number in 0..50 {
        board.answer(Trigger { number, time_ns: number * 1000 }, &mut bytes, &mut ends);
    }
    assert!(ends.is_empty() && bytes.len() == 50 * 72);
    bytes[10 * 72] ^= 0xFF;
    let splitter = GenericSplitter::new(SourceId(0), &description).expect("possible");
    let outcome = fragments_of_stream(splitter, &bytes, &[1000, 7]);
    outcome.assert_closed();
    let triggers: Vec<u64> = outcome.fragments.iter().map(|(own, _)| own.trigger).collect();
    assert_eq!(triggers, (0..50).filter(|number| *number != 10).collect::<Vec<_>>());
    assert_eq!(outcome.wire(SourceId(0)).total_lost(LossReason::FrameGap, Unit::Frames), 1);
}

proptest! {
    #[test]
    fn packets_of_emulated_boards_are_found_or_counted_as_lost(
        lost in prop::collection::vec(any::<bool>(), 300),
        keep_header in any::<bool>(),
    ) {
        let description = with(CAMERA, |fragments| fragments.keep_header = keep_header);
        let sent = answers(&description, 3, 100);
        // Always keep the last packet of each board, which shows how many there were.
        let kept = sent.iter().enumerate().filter(|(index, _)| *index >= 297 || !lost[*index]).map(|(_, packet)| packet.as_slice());
        let first_lost = (0..3).map(|board| (board..297).step_by(3).take_while(|index| lost[*index]).count() as u64);
        let first_lost: Vec<u64> = first_lost.collect();
        let outcome = datagrams(&description, kept);
        for (board, first_lost) in first_lost.into_iter().enumerate() {
            let source = SourceId(board as u16);
            let (wire, own) = (outcome.wire(source), outcome.unpacked(source));
            let missing = wire.total_lost(LossReason::FrameGap, Unit::Frames);
            // Losses before the first received packet are not detected.
            prop_assert_eq!(own.total_output(Unit::Fragments) + missing + first_lost, 100);
        }
        for (own, bytes) in &outcome.fragments {
            let whole = &sent[own.trigger as usize * 3 + own.source.index()];
            prop_assert_eq!(bytes.as_slice(), if keep_header { &whole[..] } else { &whole[12..] });
            prop_assert_eq!(own.ticks, own.trigger * 100);
        }
    }
}
