//! Scope events that are too large to be passed on whole: whatever the network does, the parts that came say which they
//! are, and every byte and frame is counted.

use proptest::prelude::*;
use thalweg_data::record_part::RecordPart;
use thalweg_data::{Flags, LossReason, SourceId, Stage, Unit, ledger::Noted};

use crate::check::HitsOutcome;
use crate::digitizer2::check::{stream_path_within, udp_path_within};
use crate::digitizer2::emit::{self, Datagrams, ScopeFields};
use crate::digitizer2::{Decoder, Firmware, Settings};

/// Larger events come in parts; a part has a quarter of it.
const LARGEST_BYTES: usize = 4096;
const DECIMATION: u32 = 4;

fn decoder() -> Decoder {
    let settings = Settings {
        firmware: Some(Firmware::Scope),
        tick_ps: Some(2000.0),
        decimation: Some(DECIMATION),
        ..Settings::default()
    };
    Decoder::new(SourceId(0), &settings).expect("valid")
}

/// A scope event: every sample is the number of its event, its channel and its place.
#[derive(Clone, Debug)]
struct Record {
    trigger: u32,
    mask: u64,
    samples: usize,
}

impl Record {
    fn channels(&self) -> impl Iterator<Item = u16> + use<> {
        let mask = self.mask;
        (0..64).filter(move |channel| mask >> channel & 1 == 1)
    }

    fn timestamp(&self) -> u64 {
        1 + u64::from(self.trigger) * 1_000_000
    }

    fn samples_of(&self, channel: u16) -> Vec<u16> {
        let first = (self.trigger as u16) << 12 ^ channel << 6;
        (0..self.samples).map(|place| first.wrapping_add(place as u16)).collect()
    }

    fn event(&self) -> Vec<u8> {
        let fields = ScopeFields {
            trigger_id: self.trigger,
            timestamp: self.timestamp(),
            channel_mask: self.mask,
            samples_overlapped: 3,
            ..ScopeFields::default()
        };
        let samples: Vec<Vec<u16>> = self.channels().map(|channel| self.samples_of(channel)).collect();
        let mut out = Vec::new();
        emit::scope_event(&mut out, &fields, &samples.iter().map(Vec::as_slice).collect::<Vec<_>>());
        out
    }
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    // Few channels with many samples, and many with few.
    let record = prop_oneof![(1u64..16, 0usize..3000), (any::<u64>().prop_map(|bits| bits | 1), 0usize..200)];
    proptest::collection::vec(record, 1..6).prop_map(|records| {
        let numbered = (0..).zip(records);
        numbered.map(|(trigger, (mask, rows))| Record { trigger, mask, samples: 4 * rows }).collect()
    })
}

/// The samples that came of a record's channel, and whether the record was whole; every part is checked.
fn received(outcome: &HitsOutcome, record: &Record, channel: u16) -> (Vec<u16>, bool) {
    let (mut samples, mut count, mut next) = (Vec::new(), 1, 0);
    let rows = outcome.hits.iter().zip(outcome.extras.iter().zip(&outcome.samples));
    for (hit, (extra, own)) in
        rows.filter(|(hit, (extra, _))| hit.channel == channel && extra.number == record.trigger)
    {
        let part = extra.part().unwrap_or(RecordPart { index: 0, count: 1, log2_rows: 0 });
        assert_eq!((part.index, part.first_sample()), (next, samples.len() as u64));
        let counts = record.timestamp() + part.first_sample() * u64::from(DECIMATION);
        assert_eq!(hit.time_ps, counts as i64 * 2000);
        assert_eq!(hit.flags.has(Flags::FAKE), part.index > 0);
        assert_eq!(extra.raw_flags >> 13, if part.index > 0 { 0 } else { 3 });
        assert!(own.analog_1.len() * 2 <= LARGEST_BYTES);
        samples.extend(own.analog_1.iter().map(|sample| *sample as u16));
        (next, count) = (part.index + 1, part.count);
    }
    (samples, next == count)
}

fn assert_all_came(outcome: &HitsOutcome, records: &[Record]) {
    outcome.assert_closed();
    assert_eq!(outcome.snapshot.losses(), []);
    for record in records {
        for channel in record.channels() {
            assert_eq!(received(outcome, record, channel), (record.samples_of(channel), true));
        }
    }
    let decode = &outcome.snapshot.slot(Stage::Decode, SourceId(0)).expect("counted").counters;
    assert_eq!(decode.total_output(Unit::Frames), records.len() as u64);
    let channels: u64 = records.iter().map(|record| u64::from(record.mask.count_ones())).sum();
    assert_eq!(decode.total_output(Unit::Hits) - decode.total_noted(Noted::Continued, Unit::Hits), channels);
}

/// Each event in a network buffer of its own.
fn datagrams(records: &[Record], words: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (buffer, record) in (0..).zip(records) {
        let event = record.event();
        let (mut cutter, mut out) = (Datagrams::new(&event, words, buffer), Vec::new());
        while cutter.append_next(&mut out) {
            all.push(std::mem::take(&mut out));
        }
    }
    all
}

fn udp(datagrams: &[Vec<u8>], per_batch: usize) -> HitsOutcome {
    udp_path_within(LARGEST_BYTES as u64, decoder(), datagrams.iter().map(Vec::as_slice), per_batch)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_of_datagrams_are_the_record(records in records(), words in 1usize..300, per_batch in 1usize..40) {
        let words = if records.iter().any(|record| record.samples > 400) { words.max(20) } else { words };
        assert_all_came(&udp(&datagrams(&records, words), per_batch), &records);
    }

    #[test]
    fn parts_of_a_stream_are_the_record(records in records(), payload in 1usize..5000, chunk in 1usize..9000) {
        let (mut stream, mut blob) = (Vec::new(), Vec::new());
        emit::clear_marker(&mut stream);
        for record in &records {
            let event = record.event();
            let last = event.len().div_ceil(payload.max(100)) - 1;
            for (index, part) in event.chunks(payload.max(100)).enumerate() {
                emit::packet(&mut stream, part, u32::from(index == last), index == last);
            }
            blob.extend_from_slice(&event);
        }
        assert_all_came(&stream_path_within(LARGEST_BYTES, decoder(), &stream, &[chunk], false), &records);
        assert_all_came(&stream_path_within(LARGEST_BYTES, decoder(), &blob, &[chunk], true), &records);
    }

    #[test]
    fn of_a_record_with_a_gap_the_parts_before_it_are_there(records in records(), drop: u32, per_batch in 1usize..40) {
        let mut sent = datagrams(&records, 40);
        let dropped = drop as usize % sent.len();
        sent.remove(dropped);
        let outcome = udp(&sent, per_batch);
        outcome.assert_closed();
        for record in &records {
            let came: Vec<bool> = record.channels().map(|channel| {
                let (samples, is_whole) = received(&outcome, record, channel);
                assert!(record.samples_of(channel).starts_with(&samples));
                is_whole && samples.len() == record.samples
            }).collect();
            assert!(came.windows(2).all(|pair| pair[0] == pair[1]), "all channels or none");
        }
    }
}

/// Packet headers are held with the event: of 3992 bytes in packets of 100, they make it larger than a block.
#[test]
fn an_event_that_does_not_fit_with_its_packet_headers_comes_in_parts() {
    let records = [0, 1].map(|trigger| Record { trigger, mask: u64::from(u32::MAX >> 1), samples: 64 });
    let mut stream = Vec::new();
    emit::clear_marker(&mut stream);
    for event in records.each_ref().map(Record::event) {
        assert!(event.len() < LARGEST_BYTES && event.len().div_ceil(100) * 8 + event.len() > LARGEST_BYTES);
        let packets = event.chunks(100);
        let last = packets.len() - 1;
        for (index, payload) in packets.enumerate() {
            emit::packet(&mut stream, payload, u32::from(index == last), index == last);
        }
    }
    for chunk in [1, 100, 4096] {
        assert_all_came(&stream_path_within(LARGEST_BYTES, decoder(), &stream, &[chunk], false), &records);
    }
}

/// Of an event that broke off, the frame is lost, and the hits that its sender counts are not there.
#[test]
fn an_event_that_breaks_off_is_a_lost_frame_and_no_hit() {
    let whole = Record { trigger: 0, mask: 0b11, samples: 4000 };
    let broken = Record { trigger: 1, ..whole.clone() };
    let next = Record { trigger: 2, ..whole.clone() };
    let records = [whole, broken, next];
    let mut sent = datagrams(&records, 50);
    let each = sent.len() / 3;
    sent.remove(each + each / 2);
    let outcome = udp(&sent, 7);
    outcome.assert_closed();
    let unpack = &outcome.snapshot.slot(Stage::Unpack, SourceId(0)).expect("counted").counters;
    assert_eq!(
        (unpack.total_output(Unit::Frames), unpack.total_lost(LossReason::Resynchronised, Unit::Frames)),
        (2, 1)
    );
    let decode = &outcome.snapshot.slot(Stage::Decode, SourceId(0)).expect("counted").counters;
    assert_eq!(decode.total_output(Unit::Hits) - decode.total_noted(Noted::Continued, Unit::Hits), 4);
    let (samples, is_whole) = received(&outcome, &records[1], 1);
    assert!(!is_whole && (1000..3000).contains(&samples.len()), "{}", samples.len());
}

/// A header that cannot be divided costs its event, not those behind it.
#[test]
fn an_event_that_cannot_be_divided_is_too_large() {
    let records = [0, 1, 2].map(|trigger| Record { trigger, mask: 0b111, samples: 4004 });
    let mut events = records.each_ref().map(Record::event);
    // Its mask says four channels, and 3003 words are not those of four.
    events[1][23] |= 0b1000;
    let outcome = stream_path_within(LARGEST_BYTES, decoder(), &events.concat(), &[5000], true);
    outcome.assert_closed();
    let unpack = &outcome.snapshot.slot(Stage::Unpack, SourceId(0)).expect("counted").counters;
    assert_eq!(unpack.total_output(Unit::Frames), 2);
    assert_eq!(unpack.total_lost(LossReason::TooLarge, Unit::Bytes), events[1].len() as u64);
    for record in [&records[0], &records[2]] {
        assert_eq!(received(&outcome, record, 2), (record.samples_of(2), true));
    }
}
