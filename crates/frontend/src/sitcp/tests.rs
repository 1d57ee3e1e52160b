//! Golden bytes of every profile, damage, segmentation, and emulated boards, each with a balanced ledger.

use proptest::prelude::*;
use thalweg_data::{BoardId, Counters, LossReason, SourceId, Stage, Unit};

use super::check::{check_registers, check_stream};
use super::emit::{self, BlockFields, FrameEnd};
use super::emulate::{self, Board};
use super::wire::recbe::{ChannelRecords, Mode, RawBody, drift};
use super::wire::str_tdc::{Kind, Word};
use super::wire::{adc_sitcp, recbe};
use super::{NamedBy, Profile, Settings, SettingsError, Splitter, seeds};
use crate::check::{FragmentsOutcome, Host, fragments_of_stream};
use crate::trigger::{Answer, Trigger};

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |digit: u8| (digit as char).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn of(profile: Profile) -> Settings {
    Settings { profile, ..Settings::default() }
}

fn board(profile: Profile, first_board: u16) -> Settings {
    Settings { first_board, ..of(profile) }
}

fn split(settings: &Settings, bytes: &[u8], chunk_sizes: &[usize]) -> FragmentsOutcome {
    let splitter = Splitter::new(SourceId(0), settings).expect("valid settings");
    let outcome = fragments_of_stream(splitter, bytes, chunk_sizes);
    outcome.assert_closed();
    outcome
}

/// The host of a splitter whose first board is `first_source`.
fn host(first_source: SourceId, settings: &Settings) -> Host<Splitter, FragmentsOutcome> {
    Host::of_fragments(first_source, Splitter::new(first_source, settings).expect("possible"))
}

const WHOLE: &[usize] = &[usize::MAX];

const SUPPRESSED: &str =
    "20 07 01 02 12 34 00 12 00 00 03 e8  03 08 00 05 03 2c 00 28  11 0a 00 09 05 dd 00 21 00 3d";
const PADDED: &str =
    "20 07 01 03 12 50 00 14 00 00 03 e9  03 08 00 05 03 2c 00 28  11 0a 00 09 05 dd 00 21 80 3d  ff 02";
const EMPTY: &str = "20 07 01 04 12 60 00 00 00 00 03 ea";
const TWELVE: &str = "20 07 01 05 12 70 00 0c 00 00 03 eb  15 0c 00 07 02 80 00 0c 00 14 00 1f";
const RAW_HEAD: &str = "22 07 01 06 12 34 18 00 00 00 03 ec  00 c8 00 c9 00 ca 00 cb 00 cc 00 cd 00 ce 00 cf";

fn fields(sent_number: u16, trigger_time: u16, trigger: u32) -> BlockFields {
    BlockFields { mode: Mode::Suppressed, board: BoardId(7), sent_number, trigger_time, trigger }
}

/// The raw block of the worked example: rising ADC values in the first sample, a hit of channel 5 at sample 10.
fn raw_block() -> Vec<u8> {
    let mut body = Vec::new();
    for at in 0..32u16 {
        let mut adc: [u16; 48] = std::array::from_fn(|channel| 200 + channel as u16);
        let mut tdc = [0; 48];
        if at == 10 {
            (adc[5], tdc[5]) = (0x2db, 0x9200);
        }
        emit::raw_sample(&adc, &tdc, &mut body);
    }
    let mut block = Vec::new();
    BlockFields { mode: Mode::Raw, ..fields(0x106, 0x1234, 0x3ec) }.recbe(&body, &mut block);
    block
}

#[test]
fn golden_recbe_blocks() {
    let mut body = Vec::new();
    emit::channel_record(3, 5, 812, &[40], &mut body);
    emit::channel_record(17, 9, 1501, &[33, 61], &mut body);
    let mut written = Vec::new();
    fields(0x102, 0x1234, 1000).recbe(&body, &mut written);
    assert_eq!(written, bytes(SUPPRESSED));

    let mut flagged = Vec::new();
    emit::channel_record(3, 5, 812, &[40], &mut flagged);
    emit::channel_record(17, 9, 1501, &[33, 0x803d], &mut flagged);
    emit::pad(&mut flagged);
    written.clear();
    fields(0x103, 0x1250, 1001).recbe(&flagged, &mut written);
    assert_eq!(written, bytes(PADDED));

    written.clear();
    fields(0x104, 0x1260, 1002).recbe(&[], &mut written);
    assert_eq!(written, bytes(EMPTY));

    body.clear();
    emit::channel_record(21, 7, 640, &[12, 20, 31], &mut body);
    written.clear();
    fields(0x105, 0x1270, 1003).recbe(&body, &mut written);
    assert_eq!(written, bytes(TWELVE));
}

#[test]
fn golden_raw_block() {
    let block = raw_block();
    assert_eq!(block.len(), 6156);
    assert!(block.starts_with(&bytes(RAW_HEAD)));
    assert_eq!((&block[1942..1944], &block[2038..2040]), (&[0x02, 0xdb][..], &[0x92, 0x00][..]));
    let body = RawBody::check(&block[12..]).expect("whole samples");
    assert_eq!((body.samples(), body.adc(5, 10), body.hit_time(5, 10)), (32, Some(0x2db), Some(0x1200)));
    assert_eq!((body.hit_time(4, 10), body.adc(48, 0), body.adc(0, 32)), (None, None, None));
    assert_eq!(body.adc(47, 31), Some(247), "the last ADC word is at byte 6058");
    let header = recbe::Header::check(&block).expect("a header");
    assert_eq!(drift(body.hit_time(5, 10).expect("a hit"), header.trigger_time()), -52);
    assert_eq!(drift(100, 10), 90 - 32_768);
    assert!(RawBody::check(&block[13..]).is_err());
}

#[test]
fn golden_channel_records() {
    let body = bytes(PADDED);
    let read: Vec<_> = ChannelRecords::new(&body[12..])
        .map(|record| record.expect("whole"))
        .map(|record| {
            (record.channel(), record.over_threshold(), record.adc_sum(), record.times().collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(read, [(3, 5, 812, vec![40]), (17, 9, 1501, vec![33, 0x803d])]);
    let twelve = bytes(TWELVE);
    let times: Vec<_> =
        ChannelRecords::new(&twelve[12..]).flat_map(|record| record.expect("whole").times()).collect();
    assert_eq!(times, [12, 20, 31]);
}

#[test]
fn broken_channel_records_end_the_body() {
    for (body, reason) in [
        ("30 08 00 05 03 2c 00 28", LossReason::BadChannel),
        ("03 00 00 05 03 2c 00 28", LossReason::BadLength),
        ("03 07 00 05 03 2c 00 28", LossReason::BadLength),
        ("03 0a 00 05 03 2c 00 28", LossReason::TruncatedHit),
        ("03", LossReason::BadLength),
    ] {
        let read: Vec<_> = ChannelRecords::new(&bytes(body)).map(|record| record.map(|_| ())).collect();
        assert_eq!(read, [Err(reason)], "{body}");
    }
}

#[test]
fn all_kinds_of_bodies_become_fragments() {
    let mut input = [SUPPRESSED, PADDED, EMPTY, TWELVE].map(bytes).concat();
    input.extend(raw_block());
    input.extend(bytes(EMPTY));
    for chunk_sizes in [WHOLE, &[1], &[11, 13], &[12]] {
        let outcome = split(&board(Profile::Recbe, 7), &input, chunk_sizes);
        assert_eq!(outcome.triggers(), [1000, 1001, 1002, 1003, 1004, 1002]);
        let ticks: Vec<u64> = outcome.fragments.iter().map(|(fragment, _)| fragment.ticks).collect();
        assert_eq!(ticks, [0x1234, 0x1250, 0x1260, 0x1270, 0x1234, 0x1260]);
        let lengths: Vec<usize> = outcome.fragments.iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(lengths, [30, 32, 12, 24, 6156, 12]);
        assert_eq!(outcome.snapshot.losses(), []);
    }
}

#[test]
fn golden_belle2_blocks() {
    let mut input = Vec::new();
    for (board, trigger) in [(0x102, 1), (0x103, 1), (0x102, 2)] {
        BlockFields { board: BoardId(board), ..fields(0, 0x9234, trigger) }
            .belle2(&bytes("11 08 00 09 05 dd 00 21"), &mut input);
    }
    let settings = Settings { boards: 2, first_board: 0x102, ..of(Profile::Belle2) };
    let mut host = host(SourceId(1), &settings);
    host.connection(&input, &[5]);
    let outcome = host.finish();
    outcome.assert_closed();
    let seen: Vec<_> =
        outcome.fragments.iter().map(|(one, _)| (one.source.0, one.trigger, one.ticks)).collect();
    assert_eq!(seen, [(1, 1, 0x1234), (2, 1, 0x1234), (1, 2, 0x1234)]);
    let is_counted = outcome.snapshot.slots.iter().any(|slot| slot.stage == Stage::Wire);
    assert!(!is_counted, "Belle II blocks are not counted");
}

#[test]
fn golden_adc_sitcp_event() {
    let body: Vec<u8> = (0..16u16).flat_map(|channel| (0x870 + channel).to_be_bytes()).collect();
    let mut event = Vec::new();
    emit::adc_sitcp(2, 77, &body, &mut event);
    assert!(event.starts_with(&bytes("01 00 00 02 00 00 00 20 00 00 00 4d  08 70 08 71")));
    let outcome = split(&board(Profile::AdcSitcp, 2), &event, &[7]);
    assert_eq!(outcome.triggers(), [77]);
    let samples = adc_sitcp::Body::check(&event[12..]).expect("whole");
    assert_eq!((samples.samples(), samples.adc(1, 0), samples.adc(0, 1)), (1, Some(0x871), None));
}

#[test]
fn golden_streaming_words() {
    let first = emit::low_resolution_edge(Kind::Leading, 5, 120, 300_000);
    let second = emit::low_resolution_edge(Kind::Leading, 64, 37, 300_012);
    let end = FrameEnd {
        number: 0xabcd,
        user_register: 0x42,
        generated_bytes: 16,
        sent_bytes: 16,
        ..FrameEnd::default()
    };
    let mut frame = Vec::new();
    emit::frame(&[first, second], &end, &mut frame);
    let golden =
        "00 00 f0 49 e2 01 14 2c  00 00 f6 49 96 00 00 2d  cd ab 00 00 00 00 00 70  10 00 00 01 00 42 00 78";
    assert_eq!(frame, bytes(golden));
    assert_eq!((first.low_resolution(), second.low_resolution()), ((5, 120, 300_000), (64, 37, 300_012)));
    let fine = emit::high_resolution_edge(Kind::Trailing, 99, 0x3A_BCDE, 0x1234_5678);
    assert_eq!((fine.kind(), fine.high_resolution()), (Some(Kind::Trailing), (99, 0x3A_BCDE, 0x1234_5678)));
    let last = Word::at(&frame, 24).expect("a word");
    assert_eq!((last.kind(), last.user_register()), (Some(Kind::Delimiter2), 0x42));

    let outcome = split(&of(Profile::StrTdc), &[frame.clone(), frame[16..].to_vec()].concat(), &[3]);
    assert_eq!(outcome.triggers(), [0xabcd, 0xabcd]);
    assert_eq!(outcome.fragments[1].1.len(), 16, "an empty frame is a fragment, too");
}

fn recording() -> Option<Vec<u8>> {
    let path = thalweg_prerequisite::recorded("20140604T140414_000002_000.dat")?;
    Some(std::fs::read(path).expect("readable"))
}

#[test]
fn the_recording_of_a_board_is_split_to_its_last_byte() {
    let Some(bytes) = recording() else { return };
    for chunk_sizes in [WHOLE, &[1460], &[1], &[267, 269], &[4096, 11, 1]] {
        let outcome = split(&of(Profile::AdcSitcp), &bytes, chunk_sizes);
        assert_eq!(outcome.triggers(), (0..395).collect::<Vec<u64>>());
        assert!(outcome.fragments.iter().all(|(fragment, _)| fragment.bytes == 268));
        assert_eq!(outcome.snapshot.losses(), []);
    }
}

#[test]
fn the_recording_cut_at_any_byte_gives_the_same_fragments() {
    let Some(bytes) = recording() else { return };
    let head = &bytes[..3 * 268];
    for cut in 1..head.len() {
        assert_eq!(split(&of(Profile::AdcSitcp), head, &[cut]).triggers(), [0, 1, 2]);
    }
}

#[test]
fn gaps_in_the_block_counter_are_losses_at_the_wire() {
    let mut input = Vec::new();
    for sent in [10, 11, 14, 0xFFFE, 0xFFFF, 0, 2] {
        fields(sent, 0, u32::from(sent)).recbe(&[], &mut input);
    }
    let settings = board(Profile::Recbe, 7);
    let mut host = host(SourceId(0), &settings);
    host.connection(&input, &[17]);
    let outcome = host.outcome();
    outcome.assert_closed();
    // 12 and 13 are missing, then there is a restart at 0xFFFE, then 1 is missing.
    assert_eq!(outcome.lost(LossReason::FrameGap, Unit::Frames), 3);
    assert!(host.framing().drop_counters().contains(&("sent_number_restarts", 1)));
    let ignored = split(&Settings { sent_number: false, ..settings }, &input, WHOLE);
    assert_eq!(ignored.snapshot.losses(), []);
}

/// Frames of the streaming TDC without hits: two delimiters, little-endian, with the 24-bit number at the start.
#[test]
fn frame_numbers_of_a_streaming_tdc_are_extended_over_their_wrap() {
    let frame = |[low, middle, high]: [u8; 3]| {
        [[low, middle, high, 0, 0, 0, 0, 0x70], [0, 0, 0, 0, 0, 0, 0, 0x78]].concat()
    };
    // The counter starts past half of its range and wraps; two numbers are missing behind the wrap.
    let numbers = [[0xFE, 0xFF, 0xFF], [0xFF, 0xFF, 0xFF], [0, 0, 0], [1, 0, 0], [4, 0, 0], [5, 0, 0]]
        .map(frame)
        .concat();
    for chunk_sizes in [WHOLE, &[1], &[13, 40]] {
        let mut host = host(SourceId(0), &of(Profile::StrTdc));
        host.connection(&numbers, chunk_sizes);
        let outcome = host.outcome();
        outcome.assert_closed();
        assert_eq!(outcome.triggers(), [0xFF_FFFE, 0xFF_FFFF, 0, 1, 4, 5]);
        assert_eq!(outcome.lost(LossReason::FrameGap, Unit::Frames), 2);
        assert!(host.framing().drop_counters().contains(&("sent_number_restarts", 0)));
    }
    // Numbers are missing across the wrap.
    let over = [[0xFD, 0xFF, 0xFF], [2, 0, 0]].map(frame).concat();
    assert_eq!(split(&of(Profile::StrTdc), &over, WHOLE).lost(LossReason::FrameGap, Unit::Frames), 4);
}

#[test]
fn a_new_connection_does_not_continue_the_old_one() {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    (0..3).for_each(|sent| fields(sent, 0, 100 + u32::from(sent)).recbe(&[], &mut first));
    first.extend(&bytes(SUPPRESSED)[..20]);
    (50..53).for_each(|sent| fields(sent, 0, u32::from(sent)).recbe(&[], &mut second));
    let mut host = host(SourceId(0), &board(Profile::Recbe, 7));
    host.connection(&first, &[9]);
    host.connection(&second, &[9]);
    let outcome = host.finish();
    outcome.assert_closed();
    assert_eq!(outcome.triggers(), [100, 101, 102, 50, 51, 52]);
    assert_eq!(outcome.lost(LossReason::Unfinished, Unit::Bytes), 20);
    let frames = |count: fn(&Counters, Unit) -> u64| count(outcome.link(), Unit::Frames);
    assert_eq!(frames(|link, unit| link.total_lost(LossReason::Unfinished, unit)), 1);
    assert_eq!(frames(Counters::total_input), 7);
    assert_eq!(outcome.lost(LossReason::Unfinished, Unit::Fragments), 1);
    assert_eq!(outcome.lost(LossReason::FrameGap, Unit::Frames), 0);
}

/// Of a connection that boards share, nobody knows whose block it was.
#[test]
fn what_a_shared_connection_loses_is_in_its_ledger() {
    let settings = Settings { boards: 2, ..board(Profile::Recbe, 7) };
    let whole: Vec<Vec<u8>> = (0..3)
        .map(|sent| {
            let mut block = Vec::new();
            fields(sent, 0, u32::from(sent)).recbe(&[], &mut block);
            block
        })
        .collect();
    let cut = [&whole.concat()[..], &bytes(SUPPRESSED)[..20]].concat();
    let damaged = [&whole[0][..], &[0x99; 16], &whole[1..].concat()].concat();
    for (input, reason) in [(cut, LossReason::Unfinished), (damaged, LossReason::BadFraming)] {
        let outcome = split(&settings, &input, WHOLE);
        assert_eq!(outcome.triggers(), [0, 1, 2]);
        let losses = outcome.snapshot.losses();
        let lost = losses.iter().find(|loss| loss.unit == Unit::Fragments).expect("a block is lost");
        assert_eq!((lost.stage, lost.reason, lost.count), (Stage::Unpack, reason, 1));
    }
}

#[test]
fn blocks_of_unknown_boards_are_counted_and_skipped() {
    let mut input = Vec::new();
    for board in [6, 7, 8, 9, 10, 7] {
        BlockFields { board: BoardId(board), ..fields(0, 0, 5) }.recbe(&[0x05, 0x06, 0, 0, 0, 0], &mut input);
    }
    let settings = Settings { boards: 3, ..board(Profile::Recbe, 7) };
    let mut host = host(SourceId(1), &settings);
    host.connection(&input, &[40]);
    let outcome = host.finish();
    outcome.assert_closed();
    let sources: Vec<u16> = outcome.fragments.iter().map(|(fragment, _)| fragment.source.0).collect();
    assert_eq!(sources, [1, 2, 3, 1]);
    assert_eq!(outcome.lost(LossReason::UnknownSource, Unit::Bytes), 36);
    assert_eq!(outcome.lost(LossReason::UnknownSource, Unit::Fragments), 2);

    let by_connection = Settings { named_by: NamedBy::Connection, ..of(Profile::Recbe) };
    let outcome = split(&by_connection, &input, WHOLE);
    assert!(outcome.fragments.iter().all(|(fragment, _)| fragment.source == SourceId(0)));
    assert_eq!(outcome.fragments.len(), 6);
}

#[test]
fn a_damaged_header_costs_its_block_and_untrusted_bytes() {
    let block = bytes(SUPPRESSED);
    for (at, value) in [(0, 0x21), (7, 0x13), (6, 0xFF)] {
        let mut input = block.repeat(6);
        input[2 * block.len() + at] = value;
        // The length of 0xFF12 is even, and longer than the settings allow.
        let settings = Settings { longest_block_bytes: Some(1000), ..board(Profile::Recbe, 7) };
        for chunk_sizes in [WHOLE, &[1], &[29, 3]] {
            let mut outcome = split(&settings, &input, chunk_sizes);
            assert_eq!(outcome.fragments.len(), 5, "byte {at}");
            assert!(outcome.fragments.drain(..).all(|(_, bytes)| bytes == block));
            assert_eq!(outcome.lost(LossReason::Resynchronised, Unit::Bytes), 30);
            assert_eq!(outcome.lost(LossReason::BadFraming, Unit::Fragments), 1);
        }
    }
}

#[test]
fn the_last_block_of_a_stream_needs_no_confirmation() {
    for (at, value) in [(0, 0x21), (7, 0x13), (6, 0x01)] {
        let mut input = Vec::new();
        (0..12).for_each(|sent| {
            fields(sent, 0, u32::from(sent)).recbe(&bytes("15 08 00 07 02 80 00 0c"), &mut input)
        });
        input[10 * 20 + at] = value;
        for chunk_sizes in [WHOLE, &[1], &[29, 3]] {
            let outcome = split(&board(Profile::Recbe, 7), &input, chunk_sizes);
            assert_eq!(outcome.triggers(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11], "byte {at}, {chunk_sizes:?}");
            assert_eq!(outcome.lost(LossReason::Resynchronised, Unit::Bytes), 20);
            assert_eq!(outcome.lost(LossReason::Unfinished, Unit::Bytes), 0);
        }
    }
    let words = [emit::low_resolution_edge(Kind::Leading, 5, 120, 300_000); 4];
    let mut input = Vec::new();
    for number in 0..6 {
        emit::frame(&words, &FrameEnd { number, ..FrameEnd::default() }, &mut input);
    }
    // Damage in the last frame: no whole frame is there, and nothing is unfinished.
    let last = input.len() / 6 * 5;
    input[last + 15] = 0xFC;
    let outcome = split(&of(Profile::StrTdc), &input, WHOLE);
    assert_eq!(outcome.triggers(), [0, 1, 2, 3, 4]);
    assert_eq!(outcome.lost(LossReason::Resynchronised, Unit::Bytes), 48);
    assert_eq!(outcome.lost(LossReason::Unfinished, Unit::Fragments), 0);
}

#[test]
fn a_length_that_swallows_other_blocks_is_detected() {
    let mut input = Vec::new();
    (0..40).for_each(|sent| {
        fields(sent, 0, u32::from(sent)).recbe(&bytes("15 08 00 07 02 80 00 0c"), &mut input)
    });
    // Block 5 claims 256 bytes more, and ends in the middle of another.
    input[5 * 20 + 6] = 0x01;
    let outcome = split(&board(Profile::Recbe, 7), &input, WHOLE);
    let expected: Vec<u64> = (0..40).filter(|trigger| *trigger != 5).collect();
    assert_eq!(outcome.triggers(), expected);
    assert_eq!(outcome.lost(LossReason::Resynchronised, Unit::Bytes), 20);
    assert_eq!(outcome.lost(LossReason::FrameGap, Unit::Frames), 1);
    // In chunks shorter than the wrong length, the block is passed on before the damage can be detected, and swallows
    // the others.
    let outcome = split(&board(Profile::Recbe, 7), &input, &[276, 100]);
    assert!(outcome.fragments.len() >= 25);
}

#[test]
fn a_block_longer_than_the_memory_for_it_does_not_stop_the_stream() {
    let mut input = Vec::new();
    (0..3).for_each(|trigger| emit::adc_sitcp(0, trigger, &[0x55; 320], &mut input));
    emit::adc_sitcp(0, 3, &[0x55; 100 << 10], &mut input);
    (4..8).for_each(|trigger| emit::adc_sitcp(0, trigger, &[0x55; 320], &mut input));
    let outcome = split(&of(Profile::AdcSitcp), &input, &[1460]);
    assert_eq!(outcome.triggers(), [0, 1, 2, 4, 5, 6, 7]);
    assert_eq!(outcome.lost(LossReason::TooLarge, Unit::Fragments), 1);
}

#[test]
fn a_damaged_word_costs_its_frame() {
    let words = [emit::low_resolution_edge(Kind::Leading, 5, 120, 300_000); 4];
    let mut input = Vec::new();
    for number in 0xFF_FFFD..0x100_0003 {
        let end = FrameEnd { number, generated_bytes: 40, sent_bytes: 32, ..FrameEnd::default() };
        emit::frame(&words, &end, &mut input);
    }
    let mut host = host(SourceId(0), &of(Profile::StrTdc));
    host.connection(&input, &[31]);
    let outcome = host.outcome();
    outcome.assert_closed();
    assert_eq!(outcome.triggers(), [0xFF_FFFD, 0xFF_FFFE, 0xFF_FFFF, 0, 1, 2]);
    assert_eq!(outcome.snapshot.losses(), []);
    assert!(host.framing().drop_counters().contains(&("board_unsent_bytes", 48)));

    // An unknown type, a word between the delimiters, and a missing byte.
    let damages: [fn(&mut Vec<u8>); 3] = [
        |input| input[48 + 15] = 0xFC,
        |input| input.splice(48 + 40..48 + 40, [0u8, 0, 0, 0, 0, 0, 0, 0x2C]).for_each(drop),
        |input| input.drain(48 + 3..48 + 4).for_each(drop),
    ];
    for (damage, lost) in damages.into_iter().zip([48, 104, 47]) {
        let mut damaged = input.clone();
        damage(&mut damaged);
        for chunk_sizes in [WHOLE, &[1], &[31]] {
            let outcome = split(&of(Profile::StrTdc), &damaged, chunk_sizes);
            assert_eq!(outcome.lost(LossReason::BadFraming, Unit::Fragments), 1);
            assert_eq!(outcome.lost(LossReason::Resynchronised, Unit::Bytes), lost);
            assert_eq!(outcome.fragments.len(), if lost == 104 { 4 } else { 5 });
        }
    }
}

#[test]
fn the_error_of_invalid_settings_says_why() {
    let refused = |settings: Settings| Splitter::new(SourceId(0), &settings).expect_err("refused");
    let boards = |boards, first_board, profile| Settings { boards, first_board, ..of(profile) };
    assert!(matches!(refused(boards(0, 0, Profile::Recbe)), SettingsError::Boards { .. }));
    assert!(matches!(refused(boards(2, 255, Profile::Recbe)), SettingsError::Boards { .. }));
    assert!(matches!(refused(boards(2, 0, Profile::StrTdc)), SettingsError::Nameless { .. }));
    let short = Settings { longest_block_bytes: Some(11), ..Settings::default() };
    assert!(matches!(refused(short), SettingsError::LongestBlock { found: 11, .. }));
    assert!(boards(2, 65_534, Profile::Belle2).validate().is_ok());
    let text = "profile = \"str_tdc\"\nnamed_by = \"connection\"";
    assert_eq!(toml::from_str::<Settings>(text).expect("readable").profile, Profile::StrTdc);
    assert!(toml::from_str::<Settings>("profle = \"recbe\"").is_err());
}

fn emulated(settings: &emulate::Settings, triggers: u64) -> Vec<u8> {
    let mut board = Board::new(BoardId(7), settings).expect("valid settings");
    board.connect();
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for number in 0..triggers {
        board.answer(Trigger { number, time_ns: number * 100_003 }, &mut bytes, &mut ends);
    }
    assert_eq!((board.totals().1, ends), (bytes.len() as u64, vec![]));
    bytes
}

#[test]
fn the_splitter_reads_the_blocks_of_an_emulated_board() {
    for profile in [Profile::Recbe, Profile::Belle2, Profile::AdcSitcp, Profile::StrTdc] {
        for mode in [emulate::Mode::Raw, emulate::Mode::Suppressed] {
            let settings = emulate::Settings { profile, mode, pads: true, ..Default::default() };
            let outcome = split(&board(profile, 7), &emulated(&settings, 200), &[1460]);
            assert_eq!(outcome.triggers(), (0..200).collect::<Vec<u64>>());
            assert_eq!(outcome.snapshot.losses(), []);
            if matches!(profile, Profile::Recbe | Profile::Belle2) {
                let ticks = |number: usize| (number as u64 * 100_003) & 0x7FFF;
                assert!(outcome.fragments.iter().enumerate().all(|(n, (one, _))| one.ticks == ticks(n)));
            }
        }
    }
}

#[test]
fn emulated_bodies_are_plausible() {
    let suppressed = split(&board(Profile::Recbe, 7), &emulated(&emulate::Settings::default(), 320), WHOLE);
    let mean = suppressed.fragments.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() / 320;
    assert!((365..400).contains(&mean), "suppressed blocks have about 380 bytes, these {mean}");
    for (_, bytes) in &suppressed.fragments {
        assert!(ChannelRecords::new(&bytes[12..]).all(|record| record.is_ok()));
    }
    let raw = emulate::Settings { mode: emulate::Mode::Raw, ..Default::default() };
    let outcome = split(&board(Profile::Recbe, 7), &emulated(&raw, 64), WHOLE);
    let mut hits = 0;
    for (fragment, bytes) in &outcome.fragments {
        assert_eq!(bytes.len(), 6156);
        let body = RawBody::check(&bytes[12..]).expect("whole samples");
        for (channel, sample) in (0..48).flat_map(|channel| (0..32).map(move |sample| (channel, sample))) {
            assert!(body.adc(channel, sample).expect("inside") < 1024);
            let Some(time) = body.hit_time(channel, sample) else { continue };
            hits += 1;
            let drift = drift(time, fragment.ticks as u16);
            assert!((-1100..=0).contains(&drift), "a hit is in the window before its trigger: {drift}");
        }
    }
    assert!((35..47).contains(&(hits / 64)));
}

#[test]
fn settings_of_an_emulated_board_have_their_effect() {
    let faults = emulate::Faults { lose_every: 10, double_every: 7, empty_every: 3, twelve_every: 4 };
    let settings = emulate::Settings { faults, first_trigger: u32::MAX - 20, ..Default::default() };
    let outcome = split(&board(Profile::Recbe, 7), &emulated(&settings, 40), &[333]);
    assert_eq!(outcome.fragments.len(), 40 - 4 + 5);
    assert_eq!(outcome.lost(LossReason::FrameGap, Unit::Frames), 3, "the last one has no successor");
    let triggers = outcome.triggers();
    assert_eq!(
        (triggers[0], triggers.contains(&u64::from(u32::MAX)), triggers.contains(&5)),
        (0xFFFF_FFEB, true, true)
    );
    assert!(outcome.fragments.iter().filter(|(_, bytes)| bytes.len() == 24).count() >= 5);

    let mut board_closing = Board::new(BoardId(7), &settings).expect("possible").like(BoardId(9));
    let mut bytes = Vec::new();
    board_closing.answer_unfinished(Trigger::default(), &mut bytes);
    let outcome = split(&board(Profile::Recbe, 9), &bytes, WHOLE);
    assert_eq!(outcome.lost(LossReason::Unfinished, Unit::Bytes), bytes.len() as u64);
}

#[test]
fn every_seed_of_the_fuzzers_is_valid() {
    seeds::streams().iter().for_each(|seed| check_stream(seed));
    seeds::requests().iter().for_each(|seed| check_registers(seed));
}

fn any_profile() -> impl Strategy<Value = Profile> {
    prop_oneof![Just(Profile::Recbe), Just(Profile::Belle2), Just(Profile::AdcSitcp), Just(Profile::StrTdc)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_segmentation_gives_the_same_fragments(
        profile in any_profile(),
        raw in any::<bool>(),
        chunk_sizes in proptest::collection::vec(1..5000usize, 1..40),
    ) {
        let mode = if raw { emulate::Mode::Raw } else { emulate::Mode::Suppressed };
        let faults = emulate::Faults { empty_every: 5, twelve_every: 3, ..Default::default() };
        let settings = emulate::Settings { profile, mode, hits: Some(10.0), window: 8, faults, ..Default::default() };
        let bytes = emulated(&settings, 60);
        let whole = split(&board(profile, 7), &bytes, WHOLE);
        let cut = split(&board(profile, 7), &bytes, &chunk_sizes);
        prop_assert_eq!(whole.fragments, cut.fragments);
    }

    #[test]
    fn written_blocks_are_read_back(
        board_number in 0..=255u16,
        sent_number in any::<u16>(),
        trigger_time in any::<u16>(),
        trigger in any::<u32>(),
        records in proptest::collection::vec((0..48u8, any::<u16>(), any::<u16>(),
            proptest::collection::vec(any::<u16>(), 0..9)), 0..48),
    ) {
        let mut body = Vec::new();
        for (channel, over, sum, times) in &records {
            emit::channel_record(*channel, *over, *sum, times, &mut body);
        }
        let fields = BlockFields { mode: Mode::Suppressed, board: BoardId(board_number), sent_number, trigger_time, trigger };
        let mut block = Vec::new();
        fields.recbe(&body, &mut block);
        let header = recbe::Header::check(&block).expect("a header");
        prop_assert_eq!((header.board(), header.sent_number()), (board_number as u8, sent_number));
        prop_assert_eq!((header.trigger(), header.trigger_time()), (trigger, trigger_time & 0x7FFF));
        let read: Vec<_> = ChannelRecords::new(&block[12..]).map(|record| record.expect("whole")).map(|record|
            (record.channel(), record.over_threshold(), record.adc_sum(), record.times().collect())).collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn arbitrary_bytes_between_blocks_are_skipped(
        noise in proptest::collection::vec(any::<u8>(), 1..300),
        chunk_size in 1..100usize,
    ) {
        let block = bytes(SUPPRESSED);
        let input = [block.repeat(2), noise, block.repeat(4)].concat();
        let settings = Settings { longest_block_bytes: Some(400), ..board(Profile::Recbe, 7) };
        let outcome = split(&settings, &input, &[chunk_size]);
        // The noise may look like a header and swallow blocks behind it; the first two blocks are found, and the ledger
        // balances.
        prop_assert!(outcome.fragments.len() >= 2);
    }
}
