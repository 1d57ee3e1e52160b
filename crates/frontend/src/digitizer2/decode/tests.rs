use thalweg_data::hit::Layout;
use thalweg_data::waveform::Samples;
use thalweg_data::{Extra, Hit, Mark, Pool, Signal, Statistics};

use super::block::{BlockPlan, Decoded, NOT_PLAIN};
use super::*;

const SOURCE: SourceId = SourceId(3);

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Decodes one unit, as a chain of slices of `slice_bytes`.
fn decode_in(decoder: &mut Decoder, unit: &[u8], slice_bytes: usize, mark: Mark) -> Hits {
    let pool = Pool::new(2, 1 << 20).expect("small");
    let mut frames = Frames::default();
    frames.header.mark = mark;
    let mut writer = pool.take().expect("free");
    for part in unit.chunks(slice_bytes) {
        let slice = writer.append(part).expect("fits");
        frames.slices.push(slice.tagged(Slice::CONTINUES));
    }
    if let Some(last) = frames.slices.last_mut() {
        last.tag = 0;
    }
    frames.leases.add(writer.lease());
    let mut hits = Hits::default();
    decoder.decode(&frames, &mut hits);
    hits
}

fn decoder(firmware: Firmware) -> Decoder {
    let settings = Settings { firmware: Some(firmware), first_channel: 100, ..Settings::default() };
    Decoder::new(SOURCE, &settings).expect("valid")
}

fn closes(decoder: &Decoder) {
    for unit in [Unit::Bytes, Unit::Frames] {
        let counters = decoder.counters();
        assert_eq!(
            counters.total_input(unit),
            counters.total_output(unit) + counters.total_lost_any(unit),
            "{unit}"
        );
    }
}

const TWO_HITS: [u64; 4] =
    [0x2000_0007_0000_0004, 0x0500_0000_075b_cd15, 0x8101_000c_8200_03e8, 0xbf01_ffff_ffff_ffff];

#[test]
fn the_worked_aggregate_is_decoded_from_slices_of_any_size() {
    for slice_bytes in [1, 3, 8, 16, 20, 4096] {
        let mut decoder = decoder(Firmware::Psd);
        let hits = decode_in(&mut decoder, &bytes(&TWO_HITS), slice_bytes, Mark(0));
        let first = Hit {
            time_ps: 123_456_789 * 8000 + 4000,
            channel: 105,
            energy: 1000,
            energy_short: 800,
            flags: Flags::FINE_TIME | Flags::SELF_TRIGGER,
        };
        // 2^32 - 1 is nearer to the first hit's time one wrap below, but that would be below 0.
        let second = Hit {
            time_ps: -8000,
            channel: 163,
            energy: 65535,
            energy_short: 0,
            flags: Flags::PILE_UP | Flags::NO_ENERGY_SHORT,
        };
        assert_eq!(hits.hits, [first, second]);
        assert!(hits.extras.is_empty());
        closes(&decoder);
    }
}

#[test]
fn statistics_count_from_the_start_that_was_seen_and_dead_time_wraps_and_goes_back() {
    let mut board = decoder(Firmware::Psd);
    let start =
        bytes(&[0x3000_0003_0000_0004, 0x0200_0000_0400_0040, 0x0100_0000_ffff_ffff, 0x0100_0000_ffff_ffff]);
    let record = |board: &mut Decoder, timestamp: u64, dead_time: u64| {
        let words =
            [0x0280_0000_0000_0000 | timestamp, 0, 0x1000_0000_0000_0000 | dead_time, 0xa000_0013_8800_137e];
        let unit = bytes(&[&[0x2000_0000_0000_0005][..], &words].concat());
        decode_in(board, &unit, 4096, Mark(0)).statistics[0]
    };
    assert_eq!(record(&mut board, 1000, 10).start, 0, "it ran before");
    for count in 1..=2 {
        decode_in(&mut board, &start, 4096, Mark(0));
        let first = record(&mut board, 125_000_000, 10);
        assert_eq!((first.start, first.since_start_ps), (count, 1_000_000_000_000));
    }
    let counts =
        [1 << 46, TIME_MASK - 1, 5, TIME_MASK - 100].map(|sent| record(&mut board, 125_000_000, sent));
    let counts = counts.map(|record| record.dead_time_ps / 8000);
    let wrap = TIME_MASK as i64 + 1;
    assert_eq!(counts, [1 << 46, wrap - 2, wrap + 5, wrap - 101]);
}

#[test]
fn the_worked_statistics_waveform_scope_start_and_stop() {
    let mut psd = decoder(Firmware::Psd);
    let unit = bytes(&[
        0x2000_0000_0000_0005,
        0x0280_0000_000f_4240,
        0,
        0x1000_0000_0000_04d2,
        0xa000_0013_8800_137e,
    ]);
    let expected = Statistics {
        source: SOURCE,
        channel: 102,
        real_time_ps: 8_000_000_000,
        dead_time_ps: 1234 * 8000,
        triggers: 5000,
        saved: 4990,
        since_start_ps: 8_000_000_000,
        start: 0,
        counter_bits: 24,
    };
    assert_eq!(decode_in(&mut psd, &unit, 12, Mark(0)).statistics, [expected]);

    let unit = bytes(&[
        0x2000_0000_0000_0007,
        0x0000_0000_0000_000a,
        0x4000_0000_2800_0014,
        0x8000_1003_2321_0488,
        0x0000_0000_0000_0002,
        0x0002_0002_0001_7fff,
        0x8004_0004_0003_3ffd,
    ]);
    for slice_bytes in [8, 56, 5000] {
        let hits = decode_in(&mut psd, &unit, slice_bytes, Mark(0));
        let extra = hits.extras[0];
        assert_eq!((extra.layout, extra.info, extra.truncated), (Layout::DualProbe, 0x1003_2321_0488, false));
        let mut samples = Samples::default();
        samples.read(&extra, &hits.slices, &hits.leases);
        assert_eq!(samples.analog_1, [-1, 2, -3, 4]);
        assert_eq!(samples.analog_2, [4, 8, 12, 16]);
        assert_eq!(samples.digital, [1, 0, 0, 8]);
    }

    let unit = bytes(&[0x1000_0003_0000_0005, 0x1000, 5, 0x0004_0003_0002_0001, 0x0040_0030_0020_0010]);
    let hits = decode_in(&mut psd, &unit, 4096, Mark(0));
    assert_eq!(hits.hits.iter().map(|hit| hit.channel).collect::<Vec<_>>(), [100, 102]);
    assert_eq!(hits.extras.iter().map(|extra| extra.number).collect::<Vec<_>>(), [3, 3]);
    let mut samples = Samples::default();
    samples.read(&hits.extras[1], &hits.slices, &hits.leases);
    assert_eq!(samples.analog_1, [16, 32, 48, 64]);

    let start =
        bytes(&[0x3000_0003_0000_0004, 0x0200_0000_0400_0040, 0x0100_0000_ffff_ffff, 0x0100_0000_ffff_ffff]);
    let expected =
        Signal::Start { acquisition_width: 64, traces: 2, log2_decimation: 0, channel_mask: u64::MAX };
    assert_eq!(decode_in(&mut psd, &start, 9, Mark(0)).signals, [(SOURCE, expected)]);
    let stop = bytes(&[0x3200_0002_0000_0003, 0x0000_0000_0001_e240, 0x0100_0000_0000_004d]);
    let expected = Signal::Stop { time_ps: 123_456 * 8000, dead_time_counts: 77 };
    assert_eq!(decode_in(&mut psd, &stop, 9, Mark(0)).signals, [(SOURCE, expected)]);
    closes(&psd);
}

#[test]
fn open_dpp_and_zle_keep_their_user_words() {
    use crate::digitizer2::emit::{self, HitFields, ZleFields};
    let mut unit = Vec::new();
    let start = emit::begin_aggregate(&mut unit, 0, false, false);
    let fields = HitFields { channel: 1, timestamp: 5, energy: 6, energy_short: 7, ..HitFields::default() };
    emit::packed_hit(&mut unit, &fields, 9, true, &[11, 12], Some(&[1, 2, 3, 4, 5]));
    emit::packed_hit(&mut unit, &fields, 0, false, &[], None);
    emit::end_aggregate(&mut unit, start);
    let mut open = decoder(Firmware::OpenDpp);
    let hits = decode_in(&mut open, &unit, 4096, Mark(0));
    assert_eq!((hits.hits.len(), hits.extras.len()), (2, 1));
    let extra: Extra = hits.extras[0];
    assert_eq!((extra.number, extra.layout), (9 | 1 << 7, Layout::Packed));
    assert_eq!(hits.leases.bytes(hits.slices[extra.words_first as usize]), bytes(&[11, 12 | 1 << 63]));
    let mut samples = Samples::default();
    samples.read(&extra, &hits.slices, &hits.leases);
    assert_eq!(samples.analog_1, [1, 2, 3, 4, 5, 0, 0, 0]);
    closes(&open);

    let mut unit = Vec::new();
    let start = emit::begin_aggregate(&mut unit, 0, false, false);
    let zle =
        ZleFields { channel: 2, timestamp: 9, last_channel: true, default_value: 700, even_are_good: true };
    emit::zle_record(&mut unit, &zle, &[4, 100, 2, 50], &[1, 2, 3, 4, 5, 6]);
    emit::end_aggregate(&mut unit, start);
    let mut zle = decoder(Firmware::Zle);
    let hits = decode_in(&mut zle, &unit, 24, Mark(0));
    let extra = hits.extras[0];
    assert_eq!(extra.number, 700 | 1 << 16 | 1 << 17);
    assert!(hits.hits[0].flags.has(Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA));
    samples.read(&extra, &hits.slices, &hits.leases);
    assert_eq!(samples.analog_1, [1, 2, 3, 4, 5, 6, 0, 0]);
    let words: usize = hits.slices[extra.words_first as usize..][..usize::from(extra.words_count)]
        .iter()
        .map(|slice| slice.length as usize)
        .sum();
    assert_eq!(words, 3 * 8);
    closes(&zle);
}

#[test]
fn each_damage_has_its_reason_and_its_bytes() {
    let cases: [(&[u64], LossReason, u64); 8] = [
        (&[0x2000_0000_0000_0000], LossReason::ZeroWords, 8),
        (&[0x2000_0000_0000_0009, 1], LossReason::WordCount, 16),
        (&[0x7000_0000_0000_0002, 1], LossReason::UnknownFormat, 16),
        (&[0x2000_0000_0000_0002, 0x0100_0000_0000_0000], LossReason::TruncatedHit, 8),
        (&[0x2000_0000_0000_0003, 0x4000_0000_0000_0000, 1 << 63], LossReason::BadChannel, 16),
        (&[0x2000_0000_0000_0004, 0, 1 << 62, 1 << 63], LossReason::TruncatedHit, 24),
        (&[0x2000_0000_0000_0005, 0, 1 << 62, 1 << 63, 7], LossReason::BadSamples, 32),
        (&[0x1000_0000_0000_0004, 0, 0b11, 0], LossReason::BadSamples, 32),
    ];
    for (words, reason, lost) in cases {
        let mut decoder = decoder(Firmware::Psd);
        decode_in(&mut decoder, &bytes(words), 4096, Mark(0));
        assert_eq!(decoder.counters().total_lost(reason, Unit::Bytes), lost, "{reason}");
        closes(&decoder);
    }
}

#[test]
fn hits_before_damage_are_kept() {
    let mut words = TWO_HITS.to_vec();
    words[0] = 0x2000_0000_0000_0005;
    words.push(0);
    let mut decoder = decoder(Firmware::Psd);
    assert_eq!(decode_in(&mut decoder, &bytes(&words), 4096, Mark(0)).hits.len(), 2);
    assert_eq!(decoder.counters().total_lost(LossReason::TruncatedHit, Unit::Bytes), 8);
    closes(&decoder);
}

#[test]
fn every_instruction_set_decodes_the_same() {
    let mut words: Vec<[u8; 8]> = Vec::new();
    for index in 0..101u64 {
        let random = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // The times lie in the quarter of a wrap from the middle of the window on.
        words.push((random & !(1 << 63 | 1 << 62 | 1 << 55 | 0b11 << 46)).to_be_bytes());
        words.push((random.rotate_left(23) & !(1 << 62) | 1 << 63).to_be_bytes());
    }
    let plan_from = |base| BlockPlan {
        base,
        tick: 2000,
        offset_ps: 77,
        highest_channel: 63,
        first_channel: 1000,
        flags: Flags::BOARD_FAIL,
        not_plain: NOT_PLAIN,
        short: true,
    };
    for one_word in [false, true] {
        let mut all: Vec<(Vec<Hit>, Decoded)> = Vec::new();
        for level in Level::all() {
            let mut hits = Vec::new();
            let decoded = match one_word {
                true => {
                    let ones: Vec<[u8; 8]> = words
                        .iter()
                        .map(|word| {
                            [
                                word[0] & 0x3F | 0x80,
                                word[1],
                                word[2] & 0x3F,
                                word[3],
                                word[4],
                                word[5],
                                word[6],
                                word[7],
                            ]
                        })
                        .collect();
                    level.one_word_hits(&plan_from(-(1 << 31)), &ones, &mut hits)
                }
                false => level.two_word_hits(&plan_from(-(1 << 47)), &words, &mut hits),
            };
            assert!(decoded.hits >= 8);
            all.push((hits, decoded));
        }
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

/// Times of the hits of an aggregate whose counts these are, with as many bits as one or two words have for them.
fn times(decoder: &mut Decoder, counts: &[i64], one_word: bool) -> Vec<i64> {
    let word = |count: &i64| match one_word {
        true => vec![1 << 63 | (*count as u64 & 0xFFFF_FFFF) << 16],
        false => vec![*count as u64 & 0xFFFF_FFFF_FFFF, 1 << 63],
    };
    let words: Vec<u64> = counts.iter().flat_map(word).collect();
    let aggregate = [vec![0x2000_0000_0000_0001 + words.len() as u64], words].concat();
    let hits = decode_in(decoder, &bytes(&aggregate), 4096, Mark(0));
    hits.hits.iter().map(|hit| hit.time_ps).collect()
}

#[test]
fn times_do_not_depend_on_how_many_hits_stand_in_a_row() {
    for (one_word, bits) in [(true, 32), (false, 48)] {
        let most = (1i64 << (bits - 1)) - 1;
        for step in [1 << (bits - 5), 1 << (bits - 3), most, -most] {
            // Up and down again: the time wraps in both directions, and its picoseconds fit 64 bits.
            let counts: Vec<i64> =
                (0..100).map(|index| 1000 + (7 - (7 - index % 14i64).abs()) * step).collect();
            let expected: Vec<i64> = counts.iter().map(|count| count * 8000).collect();
            let mut all = decoder(Firmware::Psd);
            assert_eq!(times(&mut all, &counts, one_word), expected, "{bits} bits, steps of {step}");
            let mut single = decoder(Firmware::Psd);
            let singly: Vec<i64> =
                counts.iter().flat_map(|count| times(&mut single, &[*count], one_word)).collect();
            assert_eq!(singly, expected, "{bits} bits, steps of {step}");
            closes(&all);
        }
    }
}

#[test]
fn a_board_started_again_in_the_run_continues_in_the_time_of_the_run() {
    let start =
        bytes(&[0x3000_0003_0000_0004, 0x0200_0000_0400_0040, 0x0100_0000_ffff_ffff, 0x0100_0000_ffff_ffff]);
    let settings = Settings::default();
    let armed = Decoder::of_armed_board(SOURCE, &settings).expect("valid");
    let plain = Decoder::new(SOURCE, &settings).expect("valid");
    for (mut decoder, later_ps) in [(armed, 60_000_000_000_000), (plain, 0)] {
        let mut first_hit = |start_mark| {
            decode_in(&mut decoder, &start, 4096, Mark(start_mark));
            let aggregate = [0x2000_0000_0000_0003, TWO_HITS[1], TWO_HITS[2]];
            decode_in(&mut decoder, &bytes(&aggregate), 4096, Mark(start_mark + 1_000_000_000)).hits[0]
                .time_ps
        };
        let first = first_hit(500_000_000);
        assert_eq!(first, 123_456_789 * 8000 + 4000);
        // It was disconnected for a while, and its clock restarts at 0.
        assert_eq!(first_hit(60_500_000_000) - first, later_ps);
    }
}
