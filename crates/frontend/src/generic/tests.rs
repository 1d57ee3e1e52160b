//! The shipped descriptions with worked bytes of their formats, damage, and the balance of the ledger.

use proptest::prelude::*;
use thalweg_data::{Flags, LossReason, SourceId, Stage, Unit};

use super::emit::Encoder;
use super::{GenericDecode, GenericUnpack, Settings, seeds};
use crate::check::{HitsOutcome, hits_of_datagrams, hits_of_stream};
use std::sync::LazyLock;

static SLSDETECTOR: LazyLock<String> =
    LazyLock::new(|| seeds::description(include_str!("../../descriptions/slsdetector.toml")));
static MCPD: LazyLock<String> =
    LazyLock::new(|| seeds::description(include_str!("../../descriptions/mcpd.toml")));
static RECBE: LazyLock<String> =
    LazyLock::new(|| seeds::description(include_str!("../../descriptions/recbe.toml")));

fn settings(text: &str) -> Settings {
    toml::from_str(text).expect("the description can be read")
}

#[test]
fn the_examples_contain_only_a_source() {
    let examples = [
        (include_str!("../../descriptions/slsdetector.toml"), &SLSDETECTOR),
        (include_str!("../../descriptions/mcpd.toml"), &MCPD),
        (include_str!("../../descriptions/recbe.toml"), &RECBE),
    ];
    for (example, description) in examples {
        let mut table: toml::Table = example.parse().expect("TOML");
        let mut source =
            table["source"].as_array().expect("a list of sources")[0].as_table().expect("a table").clone();
        assert_eq!(table.remove("source").map(|_| table.len()), Some(0));
        for key in ["name", "format", "url"] {
            source.remove(key).expect("a key of every source");
        }
        assert_eq!(source.try_into::<Settings>().expect("the keys of the format"), settings(description));
    }
}

fn with_hits(text: &str) -> Settings {
    settings(&format!("{text}\n[hits]\nper = \"packet\"\n"))
}

fn front_end(settings: &Settings) -> (GenericUnpack, GenericDecode) {
    (
        GenericUnpack::new(SourceId(0), settings).expect("possible"),
        GenericDecode::new(SourceId(0), settings).expect("possible"),
    )
}

fn datagrams(settings: &Settings, datagrams: &[Vec<u8>]) -> HitsOutcome {
    let (unpack, decode) = front_end(settings);
    let outcome = hits_of_datagrams(unpack, decode, datagrams.iter().map(Vec::as_slice));
    outcome.assert_closed();
    outcome
}

fn stream(settings: &Settings, bytes: &[u8], chunk_sizes: &[usize]) -> HitsOutcome {
    let (unpack, decode) = front_end(settings);
    let outcome = hits_of_stream(unpack, decode, bytes, chunk_sizes);
    outcome.assert_closed();
    outcome
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal")).collect()
}

fn refusal(text: &str) -> String {
    match toml::from_str::<Settings>(text) {
        Ok(settings) => GenericUnpack::new(SourceId(0), &settings).expect_err("invalid").to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn slsdetector_worked_bytes() {
    let mut packet = bytes(
        "40 e2 01 00 00 00 00 00 10 27 00 00 03 00 00 00 00 00 00 00 00 00 00 00 15 cd 5b 07 00 00 00 00 \
         02 00 01 00 00 00 00 00 00 00 00 00 00 00 03 02",
    );
    packet.extend(vec![0x5A; 8192]);
    let settings = with_hits(&SLSDETECTOR);
    let (mut unpack, _) = front_end(&settings);
    let outcome = datagrams(&settings, std::slice::from_ref(&packet));
    let hit = outcome.hits[0];
    assert_eq!((hit.time_ps, hit.channel), (123_456_789 * 100_000, 2));
    assert_eq!(hit.flags, Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA);
    assert_eq!(outcome.extras[0].info, 123_456);
    assert_eq!(outcome.words[0], vec![0x5A; 8192]);
    assert_eq!(outcome.counters(Stage::Decode).total_output(Unit::Bytes), 8192);
    // Only one of 128 packets arrived, and the frame was the only one.
    assert_eq!(outcome.lost(LossReason::DatagramGap, Unit::Datagrams), 127);
    // Module 2 in row 1, column 0.
    let mut units = thalweg_data::Frames::default();
    let pool = thalweg_data::Pool::new(1, 64 << 10).expect("small");
    let mut writer = pool.take().expect("free");
    let mut received = thalweg_data::Frames::default();
    received.slices.push(writer.append(&packet).expect("fits"));
    received.leases.add(writer.lease());
    thalweg_data::Framing::frame(&mut unpack, &received, &mut units);
    assert_eq!(unpack.parts(), [0x0002_0001_0000]);
    assert_eq!(units.slices[0].length, 48 + 8192);
}

#[test]
fn slsdetector_refuses_other_packets() {
    let settings = settings(&SLSDETECTOR);
    let encoder = Encoder::new(&settings).expect("possible");
    let packet = |values: &[(&str, u64)], payload: usize| {
        let mut packet = Vec::new();
        encoder.packet(values, &vec![0; payload], &mut packet).expect("described");
        packet
    };
    let all = [
        packet(&[("packet_number", 0)], 8192),
        packet(&[("packet_number", 1), ("version", 1)], 8192),
        packet(&[("packet_number", 2)], 8191),
        packet(&[("packet_number", 128)], 8192),
        vec![1, 2, 3],
        vec![],
    ];
    let outcome = datagrams(&settings, &all);
    assert_eq!(outcome.counters(Stage::Unpack).total_output(Unit::Frames), 1);
    assert_eq!(outcome.lost(LossReason::WrongConstant, Unit::Datagrams), 1);
    assert_eq!(outcome.lost(LossReason::BadLength, Unit::Datagrams), 3);
    assert_eq!(outcome.lost(LossReason::BadFraming, Unit::Datagrams), 1);
}

const MCPD_PACKET: &str = "1b 00 01 00 15 00 ef be 11 00 03 04 89 67 45 23 01 00 01 00 00 00 00 00 02 00 00 00 00 00 03 00 \
     00 00 00 00 04 00 00 00 00 00 45 23 51 b5 aa 24 10 00 f8 00 00 d3";
const MDLL_PACKET: &str = "18 00 02 00 15 00 f0 be 11 00 03 05 8a 67 45 23 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 \
     00 00 00 00 00 00 00 00 00 00 77 07 00 10 a0 3f";

#[test]
fn mcpd_worked_bytes() {
    let reply = bytes("0a 00 00 80 0a 00 01 00 00 00 00 04 00 00 00 00 00 00 ff ff");
    let outcome = datagrams(&settings(&MCPD), &[bytes(MCPD_PACKET), reply, bytes(MDLL_PACKET)]);
    let times: Vec<_> = outcome.hits.iter().map(|hit| (hit.time_ps, hit.channel)).collect();
    assert_eq!(times, [(0x0001_2345_6789 * 100_000, 4), (0x0001_2345_678a * 100_000, 5)]);
    let extra = outcome.extras[0];
    assert_eq!((extra.number, extra.raw_flags), (17, 3));
    assert_eq!(outcome.words[0], bytes("45 23 51 b5 aa 24 10 00 f8 00 00 d3"));
    assert_eq!(outcome.words[1], bytes("77 07 00 10 a0 3f"));
    assert_eq!(outcome.snapshot.losses(), []);
    assert_eq!(outcome.counters(Stage::Unpack).total_output(Unit::Datagrams), 2);
}

#[test]
fn mcpd_gaps_per_device_across_the_wrap() {
    let settings = settings(&MCPD);
    let encoder = Encoder::new(&settings).expect("possible");
    let mut all = Vec::new();
    for number in (0xFF00..0x1_0100u64).filter(|number| !(0xFFF0..=0x1_0002).contains(number)) {
        for device in [4, 5] {
            let mut packet = Vec::new();
            let values = [("buffer_number", number), ("device", device), ("time", number)];
            encoder.packet(&values, &[1, 2, 3, 4], &mut packet).expect("described");
            all.push(packet);
        }
    }
    all.push(all[10].clone());
    all.push(all[all.len() - 3].clone());
    let outcome = datagrams(&settings, &all);
    assert_eq!(outcome.lost(LossReason::DatagramGap, Unit::Datagrams), 2 * 19);
    assert_eq!(outcome.lost(LossReason::FrameGap, Unit::Frames), 2 * 19);
    assert_eq!(outcome.lost(LossReason::Late, Unit::Datagrams), 1);
    assert_eq!(outcome.lost(LossReason::DuplicateDatagram, Unit::Datagrams), 1);
    assert_eq!(outcome.counters(Stage::Wire).total_input(Unit::Datagrams), 2 * 512);
}

#[test]
fn parts_beyond_the_limit_are_unexpected_senders() {
    let settings = settings(&MCPD.replace("fields = [\"device\"]", "fields = [\"device\"]\nlimit = 1"));
    let outcome = datagrams(&settings, &[bytes(MCPD_PACKET), bytes(MDLL_PACKET)]);
    assert_eq!(outcome.lost(LossReason::UnexpectedSender, Unit::Datagrams), 1);
    assert_eq!(outcome.hits.len(), 1);
}

/// A block of a board with two suppressed hits, one with a high bit above its time, and one of a trigger without hits.
fn recbe_blocks() -> Vec<u8> {
    let settings = settings(&RECBE);
    let encoder = Encoder::new(&settings).expect("possible");
    let mut all = bytes("22 07 00 05 92 34 00 04 00 00 03 e8 de ad be ef");
    for number in 6..30u64 {
        let values =
            [("board", 7), ("sent_number", number), ("trigger_number", 995 + number), ("trigger_time", 5)];
        let payload: Vec<u8> = (0..number * 8 % 40).map(|byte| byte as u8).collect();
        encoder.packet(&values, &payload, &mut all).expect("described");
    }
    all
}

#[test]
fn recbe_stream() {
    let settings = with_hits(&RECBE);
    for chunk_sizes in [&[1000][..], &[1], &[13, 2]] {
        let outcome = stream(&settings, &recbe_blocks(), chunk_sizes);
        assert_eq!(outcome.hits.len(), 25);
        assert_eq!(outcome.snapshot.losses(), []);
        assert_eq!((outcome.hits[0].channel, outcome.hits[0].time_ps % 32_768_000), (7, 0x1234 * 1000));
        assert_eq!((outcome.extras[0].info, outcome.extras[24].info), (1000, 1024));
        assert_eq!(outcome.words[0], [0xde, 0xad, 0xbe, 0xef]);
    }
}

/// A packet of a part and a time of 32 bits.
fn timed(part: u8, time: u32) -> Vec<u8> {
    [&[part][..], &time.to_be_bytes()].concat()
}

const TIMED: &str = "byte_order = \"big\"\nheader_bytes = 5\n[field]\npart = { offset = 0, width = 1 }\n\
    time = { offset = 1, width = 4 }\n[part]\nfields = [\"part\"]\n[timestamp]\nfield = \"time\"\ntick_ps = 1000.0\n";

#[test]
fn a_counter_that_starts_past_half_its_range_is_extended_over_its_wrap() {
    // Two parts with different counters; each batch is 0.1 ms later than the one before, and a tick is 1 ns.
    let settings = with_hits(TIMED);
    let steps = 100;
    for start in [0u32, 1 << 30, 3 << 30, u32::MAX - 1000] {
        let packets: Vec<_> =
            (0..steps).map(|step: u32| timed(0, start.wrapping_add(step * 20_000))).collect();
        let outcome = datagrams(&settings, &packets);
        let times: Vec<i64> = outcome.hits.iter().map(|hit| hit.time_ps).collect();
        let expected: Vec<i64> =
            (0..steps).map(|step| (i64::from(start) + i64::from(step) * 20_000) * 1000).collect();
        assert_eq!(times, expected, "from {start}");
    }
    // The two parts may start on different sides of a wrap.
    let packets: Vec<_> = (0..steps)
        .flat_map(|step| [timed(0, (u32::MAX - 50).wrapping_add(step)), timed(1, (1 << 31) + step)])
        .collect();
    let outcome = datagrams(&settings, &packets);
    let of = |channel| outcome.hits.iter().filter(move |hit| hit.channel == channel).map(|hit| hit.time_ps);
    assert!(of(0).is_sorted() && of(1).is_sorted());
}

#[test]
fn times_since_1970_are_out_of_range_unless_the_first_hit_is_the_origin() {
    let wide = TIMED.replace("width = 4", "width = 8").replace("header_bytes = 5", "header_bytes = 9");
    let packet = |time: u64| [&[0][..], &time.to_be_bytes()].concat();
    let since_1970 = 1_700_000_000_000_000_000;
    let packets = [packet(since_1970), packet(since_1970 + 5), packet(since_1970 - 2)];
    let outcome = datagrams(&with_hits(&wide), &packets);
    assert_eq!((outcome.hits.len(), outcome.lost(LossReason::TimeRange, Unit::Frames)), (0, 3));
    let outcome = datagrams(&with_hits(&format!("time_origin = \"first_hit\"\n{wide}")), &packets);
    assert_eq!(outcome.hits.iter().map(|hit| hit.time_ps).collect::<Vec<_>>(), [0, 5000, -2000]);
}

#[test]
fn recbe_stream_resumes_behind_damage() {
    let settings = with_hits(&RECBE);
    for chunk_sizes in [&[1000][..], &[1], &[13, 2]] {
        let mut damaged = recbe_blocks();
        damaged.splice(16..16, [0x33; 57]);
        let outcome = stream(&settings, &damaged, chunk_sizes);
        assert_eq!(outcome.hits.len(), 25, "chunks of {chunk_sizes:?}");
        assert_eq!(outcome.lost(LossReason::Resynchronised, Unit::Bytes), 57);
        // A missing block shows as a missing number.
        let mut missing = recbe_blocks();
        missing.drain(16..28 + 8);
        let outcome = stream(&settings, &missing, chunk_sizes);
        assert!(outcome.lost(LossReason::FrameGap, Unit::Frames) >= 1);
    }
}

#[test]
fn the_last_packet_of_a_stream_needs_no_confirmation() {
    let settings = with_hits(&RECBE);
    for chunk_sizes in [&[4096][..], &[1], &[29, 3]] {
        // Damage in the last packet but one: its type, a length beyond the end, and an extra byte.
        type Damage = fn(&mut Vec<u8>);
        let damages: [(Damage, LossReason); 3] = [
            (|bytes| bytes[10 * 20] = 0x77, LossReason::WrongConstant),
            (|bytes| bytes[10 * 20 + 7] = 0xF0, LossReason::BadLength),
            (|bytes| bytes.insert(10 * 20 + 12, 0x55), LossReason::WrongConstant),
        ];
        for (damage, reason) in damages {
            let mut all = Vec::new();
            (0..12u8).for_each(|number| {
                all.extend([0x20, 7, 0, number, 0, 9, 0, 8, 0, 0, 0, number, 1, 2, 3, 4, 5, 6, 7, 8]);
            });
            let bytes_before = all.len();
            damage(&mut all);
            let outcome = stream(&settings, &all, chunk_sizes);
            let last = outcome.extras.last().map(|extra| extra.info);
            assert_eq!(last, Some(11), "chunks of {chunk_sizes:?}, {reason}");
            // An extra byte costs only itself.
            let packets = if all.len() > bytes_before { 12 } else { 11 };
            assert_eq!((outcome.hits.len(), outcome.lost(reason, Unit::Frames)), (packets, 1), "{reason}");
            assert_eq!(outcome.lost(LossReason::Unfinished, Unit::Bytes), 0);
        }
    }
}

#[test]
fn a_length_beyond_the_limit_does_not_stall_a_stream() {
    let settings =
        settings(&RECBE.replace("field = \"data_length\"", "field = \"data_length\"\nlimit_bytes = 100"));
    let mut all = bytes("22 07 00 05 92 34 ff ff 00 00 03 e7");
    all.extend(recbe_blocks());
    let outcome = stream(&settings, &all, &[50]);
    assert_eq!(outcome.counters(Stage::Unpack).total_output(Unit::Frames), 25);
    assert_eq!(outcome.lost(LossReason::BadLength, Unit::Frames), 1);
}

#[test]
fn the_error_of_an_invalid_description_says_what_to_write() {
    let wrong = |from: &str, to: &str| refusal(&MCPD.replace(from, to));
    let unknown = wrong("field = \"buffer_number\"", "field = \"bufer_number\"");
    assert!(unknown.contains("`bufer_number`") && unknown.contains("`buffer_number`"), "{unknown}");
    assert!(wrong("width = 6", "width = 9").contains("1 to 8 bytes"));
    assert!(wrong("tick_ps = 100_000.0", "tick_ps = 0.0").contains("not a positive number"));
    assert!(wrong("[hits]", "[hit]").contains("unknown field"));
    assert!(wrong("unit_bytes      = 2", "unit_bytes = 0").contains("unit_bytes"));
    assert!(wrong("channels = 256", "channels = 0").contains("hits.channels"));
    assert!(wrong("field = \"buffer_number\"", "field = \"buffer_number\"\nwindow = 0").contains("window"));
    assert!(
        wrong("field = \"buffer_number\"", "field = \"buffer_number\"\nlargest_gap = 40000")
            .contains("32767")
    );
    let frames = refusal(&SLSDETECTOR.replace("packets_per_frame = 128", ""));
    assert!(frames.contains("packets_per_frame"), "{frames}");
    assert!(refusal(&RECBE.replace("[length]\nfield = \"data_length\"", "")).contains("`length`"));
    assert!(refusal(&RECBE.replace("header_bytes = 12", "header_bytes = 11")).contains("need 12"));
    let short = "byte_order = \"big\"\n[field]\na = { offset = 0, width = 1 }\n";
    assert!(refusal(short).contains("header_bytes"));
}

#[test]
fn a_stream_of_packets_without_a_byte_is_refused() {
    let empty =
        "byte_order = \"big\"\nstream = true\nheader_bytes = 0\n[field]\n[length]\npayload_bytes = 0\n";
    let refused = refusal(empty);
    assert!(refused.contains("`length.payload_bytes`: is 0"), "{refused}");
    let one = stream(&settings(&empty.replace("payload_bytes = 0", "payload_bytes = 1")), &[1, 2], &[10]);
    assert_eq!(one.units, [[1], [2]]);
}

#[test]
fn a_value_that_its_field_cannot_have_is_refused() {
    let field = "byte_order = \"big\"\nheader_bytes = 2\n[field]\na = { offset = 0, width = 2, mask = 0xF0F0, shift = 4 }\n";
    let accept = |values: &str, ignore: &str| {
        format!("{field}[accept]\nfield = \"a\"\nvalues = {values}\nignore = {ignore}\n")
    };
    let check = |equals: u64| format!("{field}[[check]]\nfield = \"a\"\nequals = {equals}\n");
    for (key, text) in [
        ("accept.values", accept("[1, 0x1000]", "[]")),
        ("accept.ignore", accept("[1]", "[2, 0xF000]")),
        ("check.equals", check(0x1_0000)),
        ("check.equals", check(0x10)),
    ] {
        let refused = refusal(&text);
        assert!(refused.contains(&format!("`{key}`: ")) && refused.contains("0xf0f"), "{refused}");
    }
    for text in [accept("[0xF0F]", "[0xA]"), check(0xF0F)] {
        assert!(GenericUnpack::new(SourceId(0), &settings(&text)).is_ok(), "{text}");
    }
}

#[test]
fn packets_of_a_description_without_roles_are_passed_on_unchanged() {
    let settings = settings("byte_order = \"big\"\nheader_bytes = 0\n[field]\n");
    let outcome = datagrams(&settings, &[vec![1, 2, 3], vec![], vec![4]]);
    assert_eq!(outcome.units, [vec![1, 2, 3], vec![], vec![4]]);
    assert_eq!(outcome.snapshot.losses(), []);
}

/// Bits of a time that fit in picoseconds.
const IN_RANGE: u64 = 0x3FFF_FFFF_FFFF;

proptest! {
    #[test]
    fn arbitrary_bytes_only_count(choice in any::<u8>(), bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        super::check::check(&[vec![choice], bytes].concat());
    }

    #[test]
    fn the_ledger_of_a_damaged_stream_balances(
        damages in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..8),
        cut in 0..100usize,
        size in 1..200usize,
    ) {
        let mut bytes = recbe_blocks();
        for (position, value) in damages {
            let length = bytes.len();
            bytes[usize::from(position) % length] = value;
        }
        bytes.drain(200..200 + cut);
        stream(&with_hits(&RECBE), &bytes, &[size]);
    }

    #[test]
    fn the_ledger_of_damaged_datagrams_balances(
        damages in proptest::collection::vec((0..40usize, 0..60usize, any::<u8>()), 0..40),
    ) {
        let mut all: Vec<_> = (0..40).map(|_| bytes(MCPD_PACKET)).collect();
        all.iter_mut().enumerate().for_each(|(number, packet)| packet[6] = number as u8);
        for (packet, position, value) in damages {
            match all[packet].get_mut(position) {
                Some(byte) => *byte = value,
                None => all[packet].truncate(position / 2),
            }
        }
        datagrams(&settings(&MCPD), &all);
    }

    #[test]
    fn written_packets_are_read_back(
        packets in proptest::collection::vec((0..256u64, any::<u64>(), proptest::collection::vec(any::<u16>(), 0..50)), 0..50),
    ) {
        let description = MCPD.replace("[sequence]\nfield = \"buffer_number\"\n", "").replace("fields = [\"device\"]", "fields = [\"device\"]\nlimit = 256");
        let settings = settings(&description);
        let encoder = Encoder::new(&settings).expect("possible");
        let written: Vec<Vec<u8>> = packets
            .iter()
            .map(|(device, time, payload)| {
                let mut packet = Vec::new();
                let payload: Vec<u8> = payload.iter().flat_map(|word| word.to_le_bytes()).collect();
                encoder.packet(&[("device", *device), ("time", time & IN_RANGE)], &payload, &mut packet).expect("described");
                packet
            })
            .collect();
        let outcome = datagrams(&settings, &written);
        prop_assert_eq!(&outcome.units, &written);
        prop_assert_eq!(outcome.snapshot.losses(), vec![]);
        for (hit, (device, time, _)) in outcome.hits.iter().zip(&packets) {
            prop_assert_eq!(u64::from(hit.channel), *device);
            prop_assert_eq!(hit.time_ps as u64, (time & IN_RANGE) * 100_000);
        }
    }
}
