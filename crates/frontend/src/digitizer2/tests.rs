//! Emitted streams are decoded to the input; damaged ones to the rest, with every byte counted.

use std::collections::BTreeSet;

use proptest::prelude::*;
use thalweg_data::{Flags, Hit, LossReason, SourceId, Stage, Unit};

use super::check;
use super::emit::{
    self, Datagrams, HitFields, ScopeFields, StartFields, StatisticsFields, StopFields, ZleFields,
};
use super::wire::{COUNTER_MASK, WaveInfo};
use super::{Decoder, Firmware, Settings};
use crate::check::HitsOutcome;

/// SplitMix64: one seed determines a whole stream.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A stream of events and the expected output.
#[derive(Default)]
struct Stream {
    events: Vec<Vec<u8>>,
    hits: Vec<Hit>,
    samples: Vec<Vec<u8>>,
    statistics: usize,
    signals: usize,
    time: i64,
    aggregates: u32,
}

impl Stream {
    fn new(start: i64) -> Stream {
        Stream { time: start, ..Stream::default() }
    }

    fn expect_hit(&mut self, fields: &HitFields, one_word: bool, common: Flags, always_extra: bool) {
        let high = u16::from(fields.flags_high);
        let mut flags = high & 0b0111_1101;
        let low = fields.flags_low;
        flags |= (low & 1) << 8 | (low >> 6 & 1) << 9;
        flags |= u16::from(low & 0b0111_1011_1000 != 0) << 10 | u16::from(low & 0b110 != 0) << 2;
        let mut extra = high & 0b1000_0010 != 0 || low & 0b1111_1011_0110 != 0 || always_extra;
        let mut fine = i128::from(fields.fine);
        if one_word {
            extra = high & 0b1100_0010 != 0;
            flags = high & 0b0011_1101 | Flags::NO_ENERGY_SHORT.0;
            fine = 0;
        }
        self.hits.push(Hit {
            time_ps: ((i128::from(self.time) * 1024 + fine) * 8000).div_euclid(1024) as i64,
            channel: u16::from(fields.channel),
            energy: fields.energy,
            energy_short: if one_word { 0 } else { fields.energy_short },
            flags: Flags(flags | if extra { Flags::EXTRA.0 } else { 0 }) | common,
        });
        if extra {
            self.samples.push(Vec::new());
        }
    }

    fn aggregate(&mut self, random: &mut Random) {
        let mut out = Vec::new();
        let (flush, fail) = (random.below(4) == 0, random.below(8) == 0);
        let common = if fail { Flags::BOARD_FAIL } else { Flags::NONE };
        let start = emit::begin_aggregate(&mut out, self.aggregates, flush, fail);
        self.aggregates = (self.aggregates + 1) & 0xFF_FFFF;
        for _ in 0..random.below(5) {
            let kind = random.below(5);
            let lossy = random.below(3) == 0;
            for _ in 0..1 + random.below(80) {
                self.record(&mut out, kind, lossy, common, random);
            }
        }
        emit::end_aggregate(&mut out, start);
        self.events.push(out);
    }

    fn record(&mut self, out: &mut Vec<u8>, kind: u64, lossy: bool, common: Flags, random: &mut Random) {
        self.time += random.below(100_000) as i64 - 1000;
        let bits = random.next();
        let fields = HitFields {
            channel: bits as u8 & 63,
            timestamp: self.time as u64,
            fine: (bits >> 8) as u16 & 0x3FF,
            energy: (bits >> 18) as u16,
            energy_short: (bits >> 34) as u16,
            flags_low: if lossy { (bits >> 50) as u16 & 0xFFF } else { (bits >> 50) as u16 & 0x049 },
            flags_high: if lossy { (bits >> 20) as u8 } else { (bits >> 20) as u8 & 0x3D },
        };
        match kind {
            0 | 1 => {
                emit::hit(out, &fields);
                self.expect_hit(&fields, false, common, false);
            }
            2 => {
                emit::one_word_hit(out, &fields);
                self.expect_hit(&fields, true, common, false);
            }
            3 if random.below(8) == 0 => {
                let samples: Vec<u32> = (0..random.below(30) * 2).map(|_| random.next() as u32).collect();
                emit::wave_hit(out, &fields, &WaveInfo::default(), &samples, false);
                self.expect_hit(&fields, false, common, true);
                let words = samples.chunks(2).flat_map(|pair| [pair[1].to_be_bytes(), pair[0].to_be_bytes()]);
                *self.samples.last_mut().expect("just pushed") = words.flatten().collect();
            }
            _ => {
                let fields = StatisticsFields { channel: fields.channel, ..StatisticsFields::default() };
                emit::statistics(out, &fields);
                self.statistics += 1;
            }
        }
    }

    fn scope(&mut self, random: &mut Random) {
        let mut out = Vec::new();
        self.time += random.below(1000) as i64;
        let mask = random.next() & random.next() & random.next();
        let wave: Vec<u16> = (0..4 * random.below(9)).map(|_| random.next() as u16).collect();
        let fields = ScopeFields {
            trigger_id: 5,
            timestamp: self.time as u64,
            channel_mask: mask,
            ..ScopeFields::default()
        };
        let waves = vec![wave.as_slice(); mask.count_ones() as usize];
        emit::scope_event(&mut out, &fields, &waves);
        for channel in (0..64u16).filter(|channel| mask >> channel & 1 == 1) {
            self.hits.push(Hit {
                time_ps: self.time * 8000,
                channel,
                flags: Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA,
                ..Hit::default()
            });
            self.samples.push(out[24..].to_vec());
        }
        self.events.push(out);
    }

    fn any(seed: u64, start: i64) -> Stream {
        let mut random = Random(seed);
        let mut stream = Stream::new(start);
        // A first hit of two words gives the board's time in the 2^48 counts.
        let mut out = Vec::new();
        let aggregate = emit::begin_aggregate(&mut out, 0xFF_FFFE, false, false);
        stream.aggregates = 0xFF_FFFF;
        stream.record(&mut out, 0, false, Flags::NONE, &mut random);
        emit::end_aggregate(&mut out, aggregate);
        stream.events.push(out);
        for _ in 0..random.below(12) {
            match random.below(8) {
                0 => stream.scope(&mut random),
                1 => {
                    let mut out = Vec::new();
                    emit::stop(&mut out, &StopFields::default());
                    stream.events.push(out);
                    stream.signals += 1;
                }
                _ => stream.aggregate(&mut random),
            }
        }
        stream
    }

    fn blob(&self) -> Vec<u8> {
        self.events.concat()
    }

    fn expect(&self, outcome: &HitsOutcome) {
        assert_eq!(outcome.hits, self.hits);
        assert_eq!(outcome.sample_bytes, self.samples);
        assert_eq!((outcome.statistics.len(), outcome.signals.len()), (self.statistics, self.signals));
        outcome.assert_closed();
        assert_eq!(outcome.snapshot.losses(), []);
    }
}

fn decoder() -> Decoder {
    Decoder::new(SourceId(0), &Settings::default()).expect("valid")
}

/// The events in buffers of one to four events, divided into datagrams.
fn datagrams(stream: &Stream, words: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut rest = stream.events.as_slice();
    let mut buffer_id = 0;
    while !rest.is_empty() {
        let (events, others) = rest.split_at(rest.len().min(1 + random.below(4) as usize));
        rest = others;
        let buffer = events.concat();
        let mut cutter = Datagrams::new(&buffer, words, buffer_id);
        let mut out = Vec::new();
        while cutter.append_next(&mut out) {
            all.push(std::mem::take(&mut out));
        }
        buffer_id += 1;
    }
    all
}

/// Faults of a bad network, in percent of the datagrams.
#[derive(Default)]
struct BadNetwork {
    drop: u64,
    duplicate: u64,
    reorder: u64,
}

/// The datagrams that arrive over a bad network.
#[derive(Default)]
struct Arrived {
    datagrams: Vec<Vec<u8>>,
    dropped: BTreeSet<usize>,
    duplicated: u64,
}

impl BadNetwork {
    /// Drops datagrams, duplicates them, or lets one to three others overtake them.
    fn pass(&self, sent: &[Vec<u8>], random: &mut Random) -> Arrived {
        let mut arrived = Arrived::default();
        let mut overtaken: Option<(Vec<Vec<u8>>, u64)> = None;
        for (index, datagram) in sent.iter().enumerate() {
            let [drop, double, reorder] =
                [self.drop, self.duplicate, self.reorder].map(|percent| random.below(100) < percent);
            if drop && index > 0 {
                arrived.dropped.insert(index);
                continue;
            }
            arrived.duplicated += u64::from(double);
            let copies = vec![datagram.clone(); 1 + usize::from(double)];
            // The first datagram defines the start of the sequence.
            if reorder && overtaken.is_none() && index > 0 {
                overtaken = Some((copies, 1 + random.below(3)));
                continue;
            }
            arrived.datagrams.extend(copies);
            if let Some((_, others)) = &mut overtaken {
                *others -= 1;
            }
            if let Some((copies, _)) = overtaken.take_if(|(_, others)| *others == 0) {
                arrived.datagrams.extend(copies);
            }
        }
        arrived.datagrams.extend(overtaken.into_iter().flat_map(|(copies, _)| copies));
        arrived
    }
}

/// The events as packets divided at any byte.
fn packets(stream: &Stream, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    emit::clear_marker(&mut out);
    let mut rest = stream.events.as_slice();
    while !rest.is_empty() {
        let (events, others) = rest.split_at(rest.len().min(1 + random.below(6) as usize));
        rest = others;
        let blob = events.concat();
        let mut ends: Vec<usize> =
            (0..random.below(6)).map(|_| random.below(blob.len() as u64) as usize).collect();
        ends.extend([0, blob.len()]);
        ends.sort_unstable();
        ends.dedup();
        for pair in ends.windows(2) {
            let last = pair[1] == blob.len();
            let count = if last { events.len() as u32 } else { 0 };
            emit::packet(&mut out, &blob[pair[0]..pair[1]], count, last);
        }
    }
    out
}

/// Appends a record of Open DPP, or else of zero-length encoding, of at most 500 bytes.
fn any_record(out: &mut Vec<u8>, packed: bool, random: &mut Random) {
    let (channel, timestamp) = (random.below(64) as u8, random.below(1 << 20));
    let samples: Vec<u16> = (0..random.below(200)).map(|_| random.next() as u16).collect();
    if packed {
        let fields = HitFields { channel, timestamp, ..HitFields::default() };
        let words: Vec<u64> = (0..random.below(4)).map(|_| random.next()).collect();
        let samples = Some(samples.as_slice()).filter(|_| random.below(2) == 0);
        match random.below(4) {
            0 => emit::one_word_hit(out, &fields),
            _ => emit::packed_hit(out, &fields, 3, random.below(2) == 0, &words, samples),
        }
    } else {
        let fields = ZleFields { channel, timestamp, ..ZleFields::default() };
        let runs: Vec<u32> = (0..random.below(6)).map(|_| random.below(1000) as u32).collect();
        emit::zle_record(out, &fields, &runs, &samples);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn emitted_datagrams_are_decoded_to_the_input(seed: u64, words in 1usize..1100, per_batch in 1usize..40, wrap: bool) {
        let start = if wrap { (1i64 << 48) - 500_000 } else { 5000 };
        let stream = Stream::any(seed, start);
        let datagrams = datagrams(&stream, words.max(if seed & 3 == 0 { 1 } else { 40 }), &mut Random(seed));
        stream.expect(&check::udp_path(decoder(), datagrams.iter().map(Vec::as_slice), per_batch));
    }

    #[test]
    fn duplicated_and_reordered_datagrams_are_put_in_order(seed: u64, words in 1usize..300, per_batch in 1usize..40) {
        let stream = Stream::any(seed, 5000);
        let sent = datagrams(&stream, words.max(if seed & 3 == 0 { 1 } else { 40 }), &mut Random(seed));
        let arrived = BadNetwork { duplicate: 20, reorder: 30, drop: 0 }.pass(&sent, &mut Random(!seed));
        let outcome = check::udp_path(decoder(), arrived.datagrams.iter().map(Vec::as_slice), per_batch);
        outcome.assert_closed();
        assert_eq!(outcome.hits, stream.hits);
        let losses = outcome.snapshot.losses();
        let doubled = losses.iter().filter(|loss| loss.reason == LossReason::DuplicateDatagram);
        assert_eq!(doubled.count(), losses.len(), "{losses:?}");
        let doubled = lost(&outcome, Stage::Unpack, LossReason::DuplicateDatagram, Unit::Datagrams);
        assert_eq!(doubled, arrived.duplicated);
    }

    #[test]
    fn only_dropped_datagrams_are_missing(seed: u64, drop in 0u64..60, per_batch in 1usize..40) {
        let sent = simple_datagrams(300);
        let arrived = BadNetwork { drop, duplicate: 10, reorder: 20 }.pass(&sent, &mut Random(seed));
        let outcome = check::udp_path(decoder(), arrived.datagrams.iter().map(Vec::as_slice), per_batch);
        outcome.assert_closed();
        let kept: Vec<i64> = (0..300).filter(|index| !arrived.dropped.contains(index)).map(|index| index as i64).collect();
        let times: Vec<i64> = outcome.hits.iter().map(|hit| hit.time_ps / 8000).collect();
        assert_eq!(&times, &kept);
        // Datagrams missing behind the last received one cannot be detected.
        let missing = kept.last().map_or(0, |last| last + 1 - kept.len() as i64) as u64;
        let found = |stage, reason| lost(&outcome, stage, reason, Unit::Datagrams);
        assert_eq!(found(Stage::Wire, LossReason::DatagramGap), missing);
        assert_eq!(found(Stage::Unpack, LossReason::DuplicateDatagram), arrived.duplicated);
        assert_eq!(outcome.snapshot.total_lost(Unit::Datagrams, |_| true), missing + arrived.duplicated);
    }

    #[test]
    fn a_bad_network_over_many_buffers_keeps_the_ledger_balanced(seed: u64, buffers in 1u16..80, count in 1u32..20, per_batch in 1usize..40) {
        let sent = simple_buffers(buffers, count);
        let arrived = BadNetwork { drop: 5, duplicate: 10, reorder: 20 }.pass(&sent, &mut Random(seed));
        let outcome = check::udp_path(decoder(), arrived.datagrams.iter().map(Vec::as_slice), per_batch);
        outcome.assert_closed();
        assert!(outcome.hits.is_sorted_by(|one, next| one.time_ps < next.time_ps), "no duplicates, all in order");
        let refused = lost(&outcome, Stage::Unpack, LossReason::BadHash, Unit::Datagrams)
            + lost(&outcome, Stage::Unpack, LossReason::Late, Unit::Datagrams)
            + lost(&outcome, Stage::Unpack, LossReason::DuplicateDatagram, Unit::Datagrams);
        assert_eq!(outcome.hits.len() as u64 + refused, arrived.datagrams.len() as u64);
        let kept = sent.len() - arrived.dropped.len();
        // If the end of a buffer is missing, a datagram ahead of it may seem to have a damaged buffer id.
        assert!(kept - outcome.hits.len() <= 3 + kept / 50, "{} of {kept}", outcome.hits.len());
    }

    #[test]
    fn emitted_packets_are_decoded_to_the_input(seed: u64, chunk_size in 1usize..3000, wrap: bool) {
        let start = if wrap { (1i64 << 32) - 500_000 } else { 5000 };
        let stream = Stream::any(seed, start);
        let bytes = packets(&stream, &mut Random(seed ^ 1));
        stream.expect(&check::stream_path(decoder(), &bytes, &[chunk_size], false));
        stream.expect(&check::stream_path(decoder(), &stream.blob(), &[chunk_size], true));
    }

    #[test]
    fn aggregates_that_are_too_large_come_in_parts_with_every_hit(seed: u64, chunk_size in 1usize..3000) {
        // Every scope event is passed on whole.
        const LARGEST: usize = 4608;
        let stream = Stream::any(seed, 5000);
        let bytes = packets(&stream, &mut Random(seed ^ 1));
        for outcome in [
            check::stream_path_within(LARGEST, decoder(), &bytes, &[chunk_size], false),
            check::stream_path_within(LARGEST, decoder(), &stream.blob(), &[chunk_size], true),
        ] {
            stream.expect(&outcome);
            prop_assert_eq!(outcome.counters(Stage::Decode).total_output(Unit::Frames), stream.events.len() as u64);
        }
    }

    #[test]
    fn aggregates_of_every_firmware_are_the_same_whole_and_in_parts(seed: u64, packed: bool, chunk_size in 1usize..3000) {
        let (mut random, mut blob) = (Random(seed), Vec::new());
        for number in 0..1 + random.below(4) as u32 {
            let start = emit::begin_aggregate(&mut blob, number, false, number == 1);
            for _ in 0..random.below(100) {
                any_record(&mut blob, packed, &mut random);
            }
            emit::end_aggregate(&mut blob, start);
        }
        let firmware = Some(if packed { Firmware::OpenDpp } else { Firmware::Zle });
        let decoder = Decoder::new(SourceId(0), &Settings { firmware, ..Settings::default() }).expect("valid");
        let whole = check::stream_path(decoder.clone(), &blob, &[chunk_size], true);
        let divided = check::stream_path_within(2048, decoder, &blob, &[chunk_size], true);
        divided.assert_closed();
        prop_assert_eq!(divided.snapshot.losses(), []);
        prop_assert_eq!((&divided.hits, &divided.words), (&whole.hits, &whole.words));
        prop_assert_eq!(&divided.sample_bytes, &whole.sample_bytes);
    }

    #[test]
    fn any_bytes_keep_the_ledger_balanced(input in proptest::collection::vec(any::<u8>(), 0..4000)) {
        check::udp_stream(&input);
        check::tcp_stream(&input);
        check::aggregate(&input);
    }

    #[test]
    fn damaged_streams_keep_the_ledger_balanced(seed: u64, damages in proptest::collection::vec(any::<(u32, u8)>(), 1..20)) {
        let stream = Stream::any(seed, 5000);
        let damage = |bytes: &mut Vec<u8>| for (position, bit) in &damages {
            let position = *position as usize % bytes.len();
            bytes[position] ^= 1 << (bit & 7);
        };
        let mut tcp = packets(&stream, &mut Random(seed));
        damage(&mut tcp);
        check::stream_path(decoder(), &tcp, &[1400], false).assert_closed();
        let mut blob = stream.blob();
        damage(&mut blob);
        check::stream_path(decoder(), &blob, &[1400], true).assert_closed();
        let mut udp = datagrams(&stream, 100, &mut Random(seed));
        udp.iter_mut().filter(|datagram| datagram[7] & 1 == 1).for_each(&damage);
        check::udp_path(decoder(), udp.iter().map(Vec::as_slice), 7).assert_closed();
    }

    #[test]
    fn lost_doubled_and_swapped_datagrams_keep_the_ledger_balanced(seed: u64, faults in proptest::collection::vec(any::<(u16, u8)>(), 1..30)) {
        let stream = Stream::any(seed, 5000);
        let mut udp = datagrams(&stream, 60, &mut Random(seed));
        for (position, fault) in faults {
            let position = usize::from(position) % udp.len();
            match fault % 3 {
                0 if udp.len() > 1 => { udp.remove(position); }
                1 => udp.insert(position, udp[position].clone()),
                _ => { let other = (position + 1) % udp.len(); udp.swap(position, other); }
            }
        }
        check::udp_path(decoder(), udp.iter().map(Vec::as_slice), 5).assert_closed();
    }
}

/// One buffer of `count` aggregates of one hit each, a datagram per aggregate.
fn simple_datagrams(count: u32) -> Vec<Vec<u8>> {
    simple_buffers(1, count)
}

fn simple_buffers(buffers: u16, count: u32) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for buffer in 0..buffers {
        for index in 0..count {
            let mut data = Vec::new();
            let number = u32::from(buffer) * count + index;
            let start = emit::begin_aggregate(&mut data, number, false, false);
            emit::hit(&mut data, &HitFields { timestamp: u64::from(number), ..HitFields::default() });
            emit::end_aggregate(&mut data, start);
            let mut datagram = Vec::new();
            emit::datagram(&mut datagram, &data, buffer, index, true, index + 1 == count);
            all.push(datagram);
        }
    }
    all
}

fn run(datagrams: &[Vec<u8>]) -> HitsOutcome {
    let outcome = check::udp_path(decoder(), datagrams.iter().map(Vec::as_slice), 3);
    outcome.assert_closed();
    outcome
}

fn lost(outcome: &HitsOutcome, stage: Stage, reason: LossReason, unit: Unit) -> u64 {
    outcome.snapshot.slot(stage, SourceId(0)).map_or(0, |counts| counts.counters.total_lost(reason, unit))
}

#[test]
fn a_gap_inside_a_buffer_is_counted_exactly() {
    let mut all = simple_datagrams(1000);
    all.drain(100..417);
    let outcome = run(&all);
    assert_eq!(lost(&outcome, Stage::Wire, LossReason::DatagramGap, Unit::Datagrams), 317);
    assert_eq!(lost(&outcome, Stage::Wire, LossReason::FrameGap, Unit::Frames), 317);
    // Every datagram contains whole events, so that only the missing ones are lost.
    assert_eq!(outcome.hits.len(), 1000 - 317);
    assert_eq!(lost(&outcome, Stage::Unpack, LossReason::Resynchronised, Unit::Bytes), 0);
}

#[test]
fn only_an_event_cut_by_a_gap_is_lost() {
    // Three events of 24 bytes per two datagrams of 40 and 32 bytes: the second event is in both.
    let mut all = Vec::new();
    for group in 0..10u32 {
        let data: Vec<u8> = (0..3)
            .flat_map(|index| {
                let mut event = Vec::new();
                let start = emit::begin_aggregate(&mut event, 3 * group + index, false, false);
                emit::hit(&mut event, &HitFields::default());
                emit::end_aggregate(&mut event, start);
                event
            })
            .collect();
        for (half, part) in [&data[..40], &data[40..]].into_iter().enumerate() {
            let mut datagram = Vec::new();
            emit::datagram(
                &mut datagram,
                part,
                0,
                2 * group + half as u32,
                half == 1,
                group == 9 && half == 1,
            );
            all.push(datagram);
        }
    }
    all.remove(6); // the first event of group 3 and the head of its second
    // The end of the second event of group 5, and its third; the data up to the next aligned datagram may not start on
    // a boundary.
    all.remove(10);
    let outcome = run(&all);
    assert_eq!(outcome.hits.len(), 30 - 3 - 2 - 3);
    assert_eq!(lost(&outcome, Stage::Wire, LossReason::FrameGap, Unit::Frames), 8);
    assert_eq!(lost(&outcome, Stage::Unpack, LossReason::Resynchronised, Unit::Bytes), 32 + 16 + 40 + 32);
}

#[test]
fn missed_buffers_count_as_at_least_one_datagram() {
    let all = simple_buffers(10, 4);
    // The end of buffer 2, all of 3 and 4, and the first datagram of 5.
    let left: Vec<_> = all
        .iter()
        .enumerate()
        .filter(|(index, _)| !(10..21).contains(index))
        .map(|(_, d)| d.clone())
        .collect();
    let outcome = run(&left);
    assert_eq!(lost(&outcome, Stage::Wire, LossReason::BufferGap, Unit::Datagrams), 3);
    assert_eq!(lost(&outcome, Stage::Wire, LossReason::DatagramGap, Unit::Datagrams), 1);
    assert_eq!(lost(&outcome, Stage::Wire, LossReason::FrameGap, Unit::Frames), 11);
}

#[test]
fn repeated_and_late_datagrams_are_distinguished() {
    let mut all = simple_datagrams(20);
    all.insert(5, all[3].clone());
    // Overtaken by one, and by more than the window has.
    all.swap(10, 11);
    let late = all.remove(7);
    all.insert(18, late);
    let outcome = run(&all);
    let refused = |reason| lost(&outcome, Stage::Unpack, reason, Unit::Datagrams);
    assert_eq!(refused(LossReason::DuplicateDatagram), 1);
    assert_eq!(refused(LossReason::Late), 1);
    assert_eq!(lost(&outcome, Stage::Wire, LossReason::DatagramGap, Unit::Datagrams), 0, "it has arrived");
}

#[test]
fn a_damaged_datagram_is_refused_without_a_gap() {
    let mut all = simple_datagrams(20);
    all[7][15] ^= 4;
    let mut wrong_buffer = simple_datagrams(20)[9].clone();
    emit::set_buffer_id(&mut wrong_buffer, 77);
    all[9] = wrong_buffer;
    all[12].truncate(16);
    let outcome = run(&all);
    let refused = |reason| lost(&outcome, Stage::Unpack, reason, Unit::Datagrams);
    assert_eq!((refused(LossReason::BadHash), refused(LossReason::BadFraming)), (2, 1));
    assert_eq!(lost(&outcome, Stage::Wire, LossReason::DatagramGap, Unit::Datagrams), 0);
}

#[test]
fn clear_idle_and_wrap_lose_nothing() {
    let empty = |buffer, datagram| {
        let mut out = Vec::new();
        emit::empty_datagram(&mut out, buffer, datagram);
        out
    };
    let mut all = vec![empty(0, 0)];
    all.extend(simple_buffers(3, 2));
    // Idle, then the same buffer continues; idle, then a new one starts; then a clear.
    all.extend([empty(3, 0), empty(3, 1), empty(4, 0), empty(0, 0)]);
    all.extend(simple_buffers(2, 3));
    let outcome = run(&all);
    assert_eq!(outcome.snapshot.losses(), []);
    assert_eq!(outcome.hits.len(), 12);

    let around: Vec<_> = (65530..65546u32)
        .flat_map(|buffer| {
            simple_datagrams(2).into_iter().map(move |mut datagram| {
                emit::set_buffer_id(&mut datagram, buffer as u16);
                emit::set_event_counter(&mut datagram, 0xFF_FFF0 + buffer - 65530);
                datagram
            })
        })
        .collect();
    let outcome = run(&around);
    assert_eq!(lost(&outcome, Stage::Unpack, LossReason::DuplicateDatagram, Unit::Datagrams), 0);
    assert_eq!(outcome.hits.len(), 32);
}

#[test]
fn a_board_that_restarted_unnoticed_is_followed() {
    let mut all = simple_buffers(3, 30);
    all.extend(simple_datagrams(60).drain(5..));
    let outcome = run(&all);
    assert!(outcome.hits.len() > 90 + 30, "{}", outcome.hits.len());
}

/// The aggregate of this number, of so many hits.
fn aggregate_of(number: u32, hits: usize) -> Vec<u8> {
    let mut aggregate = Vec::new();
    let start = emit::begin_aggregate(&mut aggregate, number, false, false);
    (0..hits).for_each(|_| emit::hit(&mut aggregate, &HitFields::default()));
    emit::end_aggregate(&mut aggregate, start);
    aggregate
}

#[test]
fn an_aggregate_that_exceeds_its_block_comes_in_parts() {
    let mut out = Vec::new();
    // One is missing in front of the last one.
    let blob = [aggregate_of(COUNTER_MASK, 1), aggregate_of(0, 6000), aggregate_of(2, 1)].concat();
    emit::packet(&mut out, &blob, 3, true);
    let outcome = check::stream_path(decoder(), &out, &[5000], false);
    outcome.assert_closed();
    assert_eq!(outcome.hits.len(), 6002);
    assert_eq!(frames_lost(&outcome), [(Stage::Wire, [0, 0, 1]), (Stage::Unpack, [0, 0, 0])]);

    // 24 KiB in packets of 8 bytes take 120 KiB with their headers, more than a block.
    out.clear();
    let blob = [aggregate_of(0, 1500), aggregate_of(1, 1)].concat();
    let count = blob.chunks(8).count();
    for (index, payload) in blob.chunks(8).enumerate() {
        emit::packet(&mut out, payload, u32::from(index == 0 || index + 3 == count), index + 1 == count);
    }
    let outcome = check::stream_path(decoder(), &out, &[5000], false);
    outcome.assert_closed();
    assert_eq!(outcome.hits.len(), 1501);
    assert_eq!(outcome.snapshot.losses(), []);
}

#[test]
fn only_a_record_that_exceeds_its_part_is_left_out_with_what_follows_in_its_aggregate() {
    let mut large = Vec::new();
    let start = emit::begin_aggregate(&mut large, 0, false, false);
    (0..3000).for_each(|_| emit::hit(&mut large, &HitFields::default()));
    // 32 KiB, twice as much as a part.
    emit::wave_hit(&mut large, &HitFields::default(), &WaveInfo::default(), &[0; 8190], false);
    (0..3000).for_each(|_| emit::hit(&mut large, &HitFields::default()));
    emit::end_aggregate(&mut large, start);
    let mut out = Vec::new();
    // One more is missing in front of the last one: that one was never there.
    let blob = [aggregate_of(COUNTER_MASK, 1), large.clone(), aggregate_of(2, 1)].concat();
    emit::packet(&mut out, &blob, 3, true);
    let outcome = check::stream_path(decoder(), &out, &[5000], false);
    outcome.assert_closed();
    assert_eq!(outcome.hits.len(), 1 + 3000 + 1);
    let left_out = large.len() as u64 - 8 - 3000 * 16;
    assert_eq!(lost(&outcome, Stage::Unpack, LossReason::TooLarge, Unit::Bytes), left_out);
    assert_eq!(frames_lost(&outcome), [(Stage::Wire, [1, 0, 1]), (Stage::Unpack, [1, 0, 0])]);
}

#[test]
fn events_that_were_promised_and_cannot_be_found_are_lost_once() {
    let mut out = Vec::new();
    emit::packet(&mut out, &aggregate_of(0, 1), 1, true);
    // An event of no words: nothing behind it in its blob can be found.
    emit::packet(&mut out, &[vec![0; 8], aggregate_of(2, 1)].concat(), 2, true);
    emit::packet(&mut out, &aggregate_of(3, 1), 1, true);
    let outcome = check::stream_path(decoder(), &out, &[5000], false);
    outcome.assert_closed();
    assert_eq!(outcome.hits.len(), 2);
    assert_eq!(frames_lost(&outcome), [(Stage::Wire, [0, 2, 0]), (Stage::Unpack, [0, 2, 0])]);
}

/// Frames lost on the wire and in unpacking: too large, of a bad framing, and in gaps.
fn frames_lost(outcome: &HitsOutcome) -> [(Stage, [u64; 3]); 2] {
    let reasons = [LossReason::TooLarge, LossReason::BadFraming, LossReason::FrameGap];
    [Stage::Wire, Stage::Unpack]
        .map(|stage| (stage, reasons.map(|reason| lost(outcome, stage, reason, Unit::Frames))))
}

#[test]
fn a_run_starts_and_its_signals_arrive() {
    let mut blob = Vec::new();
    emit::start(&mut blob, &StartFields { channel_mask: 5, ..StartFields::default() });
    emit::stop(&mut blob, &StopFields { timestamp: 9, dead_time: 1 });
    let outcome = check::stream_path(decoder(), &blob, &[3], true);
    outcome.assert_closed();
    assert_eq!(outcome.signals.len(), 2);
}
