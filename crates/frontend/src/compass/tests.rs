//! Round trips, damage, and the balance of the ledger for CoMPASS files.

use proptest::prelude::*;
use thalweg_data::hit::Layout;
use thalweg_data::{Flags, LossReason, SourceId, Stage, Unit};

use super::emit::{self, Event};
use super::wire::{Fields, Look, Record, RecordLayout};
use super::{CompassDecode, CompassUnpack, Settings, SettingsError};
use crate::check::{HitsOutcome, hits_of_stream};

fn read(settings: &Settings, bytes: &[u8], chunk_sizes: &[usize]) -> HitsOutcome {
    let unpack = CompassUnpack::new(SourceId(0), settings).expect("valid settings");
    let decode = CompassDecode::new(SourceId(0), settings).expect("valid settings");
    let outcome = hits_of_stream(unpack, decode, bytes, chunk_sizes);
    outcome.assert_closed();
    outcome
}

fn file(fields: Fields, events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit::header(fields, &mut bytes);
    events.iter().for_each(|event| emit::record(fields, event, &mut bytes));
    bytes
}

fn events(count: u64, samples: usize) -> Vec<Event> {
    (0..count)
        .map(|index| Event {
            board: (index % 2) as u16,
            channel: (index % 5) as u16,
            time_ps: 1000 * index,
            energy: 7 * index as u16,
            energy_short: index as u16,
            calibrated: index as f64 / 4.0,
            flags: 0x4000,
            probe: 1,
            samples: vec![index as u16; samples],
        })
        .collect()
}

const ENERGIES: Fields = Fields::ENERGY.with(Fields::ENERGY_SHORT);

#[test]
fn the_worked_example() {
    let mut bytes = vec![0xed, 0xca, 0, 0, 0, 0, 0x40, 0x4a, 0xe0, 0xc9, 0x16, 0, 0, 0, 0x1e, 3, 0x87, 0];
    bytes.extend([0, 0x40, 0, 0, 1, 2, 0, 0, 0, 0xb9, 0x0a, 0xba, 0x0a]);
    let outcome = read(&Settings::default(), &bytes, &[7]);
    let hit = outcome.hits[0];
    assert_eq!((hit.time_ps, hit.channel, hit.energy, hit.energy_short), (97_876_200_000, 0, 798, 135));
    assert_eq!(hit.flags, Flags::FINE_TIME | Flags::EXTRA);
    assert_eq!((outcome.extras[0].number, outcome.extras[0].layout), (1, Layout::Plain));
    assert_eq!(outcome.samples[0].analog_1, [0x0ab9, 0x0aba]);
}

#[test]
fn event_flags_are_mapped_to_hit_flags() {
    use super::flags;
    assert_eq!(flags(0x4060), Flags::FINE_TIME | Flags::TRIGGER_LOST);
    assert_eq!(flags(0x8480), Flags::PILE_UP | Flags::SATURATION);
    assert_eq!(flags(0x8), Flags::FAKE);
    assert_eq!(flags(0x10_0000), Flags::FAKE | Flags::EXTRA);
    assert_eq!(flags(0x2), Flags::EXTRA);
    assert_eq!(flags(0), Flags::NONE);
}

#[test]
fn continuation_files_are_read_with_the_configured_header_or_after_the_first() {
    let all = file(ENERGIES, &events(40, 0));
    let settings = Settings { header: Some(0xCAE5), ..Settings::default() };
    assert_eq!(read(&settings, &all[2..], &[33]).hits.len(), 40);
    // A later file that repeats the header.
    let twice = [all.clone(), all.clone()].concat();
    let outcome = read(&Settings::default(), &twice, &[31, 5]);
    assert_eq!(outcome.hits.len(), 80);
    assert_eq!(outcome.snapshot.losses(), []);
    // Without a header and without the setting, nothing can be read.
    let refused = read(&Settings::default(), &all[2..], &[33]);
    assert_eq!((refused.hits.len(), refused.lost(LossReason::WrongConstant, Unit::Bytes)), (0, 800));
}

#[test]
fn times_beyond_64_bits_of_picoseconds_are_counted_as_time_range() {
    let mut bytes = vec![0xE5, 0xCA];
    let last = i64::MAX as u64;
    for time_ps in [last - 7, last, last + 1, u64::MAX, 12] {
        bytes.extend([1, 0, 2, 0]);
        bytes.extend(time_ps.to_le_bytes());
        bytes.extend([0x1E, 3, 0x87, 0, 0, 0x40, 0, 0]);
    }
    for (offset_ps, found) in
        [(0, vec![i64::MAX - 7, i64::MAX, 12]), (-1, vec![i64::MAX - 8, i64::MAX - 1, i64::MAX, 11])]
    {
        let settings = Settings { time_offset_ps: offset_ps, ..Settings::default() };
        for chunk_sizes in [&[4096][..], &[1], &[23, 5]] {
            let outcome = read(&settings, &bytes, chunk_sizes);
            assert_eq!(outcome.hits.iter().map(|hit| hit.time_ps).collect::<Vec<_>>(), found);
            assert_eq!(outcome.lost(LossReason::TimeRange, Unit::Frames), 5 - found.len() as u64);
            assert_eq!(outcome.lost(LossReason::TimeRange, Unit::Bytes), 20 * (5 - found.len() as u64));
            // The record is whole, and the records behind it are found.
            assert_eq!(outcome.snapshot.losses().len(), 2, "{:?}", outcome.snapshot.losses());
        }
    }
}

#[test]
fn a_cut_file_loses_only_its_last_record() {
    let all = file(ENERGIES, &events(10, 0));
    let outcome = read(&Settings::default(), &all[..all.len() - 3], &[64]);
    assert_eq!((outcome.hits.len(), outcome.lost(LossReason::Unfinished, Unit::Bytes)), (9, 17));
}

#[test]
fn damage_costs_only_the_damaged_records() {
    for chunk_sizes in [&[4096][..], &[1], &[19, 3]] {
        let mut all = file(ENERGIES.with(Fields::WAVEFORM), &events(30, 20));
        let record = 25 + 40;
        // The board number and the sample count of two records.
        all[2 + 5 * record + 1] = 0xFF;
        all[2 + 15 * record + 24] = 0x7F;
        let outcome = read(&Settings::default(), &all, chunk_sizes);
        assert_eq!(outcome.hits.len(), 28, "chunks of {chunk_sizes:?}");
        assert_eq!(outcome.lost(LossReason::Resynchronised, Unit::Bytes), 2 * record as u64);
        assert_eq!(outcome.lost(LossReason::BadChannel, Unit::Frames), 1);
        assert_eq!(outcome.lost(LossReason::BadSamples, Unit::Frames), 1);
    }
}

#[test]
fn the_last_record_of_a_file_needs_no_confirmation() {
    for (samples, at, reason) in [
        (0, 1, LossReason::BadChannel),
        (20, 1, LossReason::BadChannel),
        // A sample count that is too large, and a valid one that goes beyond the end.
        (20, 24, LossReason::BadSamples),
        (20, 22, LossReason::BadSamples),
    ] {
        let fields = if samples == 0 { ENERGIES } else { ENERGIES.with(Fields::WAVEFORM) };
        let mut all = file(fields, &events(12, samples));
        let record = (all.len() - 2) / 12;
        all[2 + 10 * record + at] = 0x7F;
        for chunk_sizes in [&[4096][..], &[1], &[29, 3]] {
            let outcome = read(&Settings::default(), &all, chunk_sizes);
            assert_eq!(outcome.hits.len(), 11, "{samples} samples, byte {at}, chunks of {chunk_sizes:?}");
            assert_eq!(outcome.hits.last().map(|hit| hit.time_ps), Some(11_000));
            assert_eq!(outcome.lost(LossReason::Resynchronised, Unit::Bytes), record as u64);
            assert_eq!(outcome.lost(reason, Unit::Frames), 1);
            assert_eq!(outcome.lost(LossReason::Unfinished, Unit::Bytes), 0);
        }
    }
}

#[test]
fn a_record_larger_than_a_block_is_counted_and_skipped() {
    let fields = ENERGIES.with(Fields::WAVEFORM);
    let mut all = file(fields, &events(3, 10));
    emit::record(fields, &Event { samples: vec![0xFFFF; 40_000], ..Event::default() }, &mut all);
    events(5, 10).iter().for_each(|event| emit::record(fields, event, &mut all));
    let outcome = read(&Settings::default(), &all, &[1500]);
    assert_eq!(outcome.hits.len(), 8);
    assert_eq!(outcome.lost(LossReason::TooLarge, Unit::Frames), 1);
}

#[test]
fn the_error_of_invalid_settings_says_what_to_write() {
    let header = Settings { header: Some(0x1234), ..Settings::default() };
    assert!(matches!(header.validate(), Err(SettingsError::Header { .. })));
    let channels = Settings { boards: 2000, ..Settings::default() };
    assert!(channels.validate().expect_err("too many").to_string().contains("128000"));
}

fn event() -> impl Strategy<Value = Event> {
    let numbers = (0..4u16, 0..16u16, 0..i64::MAX as u64, any::<u16>(), any::<f64>());
    let rest = (any::<u16>(), any::<u32>(), any::<u8>(), proptest::collection::vec(any::<u16>(), 0..30));
    (numbers, rest).prop_map(
        |((board, channel, time_ps, energy, calibrated), (energy_short, flags, probe, samples))| Event {
            board,
            channel,
            time_ps,
            energy,
            calibrated,
            energy_short,
            flags,
            probe,
            samples,
        },
    )
}

proptest! {
    #[test]
    fn written_files_are_read_back(bits in 0..16u32, events in proptest::collection::vec(event(), 0..40), size in 1..300usize) {
        let fields = Fields::from_bits(bits);
        let settings = Settings { first_channel: 100, channels_per_board: 16, ..Settings::default() };
        let outcome = read(&settings, &file(fields, &events), &[size, 7]);
        prop_assert_eq!(outcome.hits.len(), events.len());
        prop_assert_eq!(outcome.snapshot.losses(), vec![]);
        let mut extras = outcome.extras.iter().zip(&outcome.samples).zip(&outcome.words);
        for (hit, event) in outcome.hits.iter().zip(&events) {
            prop_assert_eq!(hit.time_ps, event.time_ps as i64);
            prop_assert_eq!(hit.channel, 100 + 16 * event.board + event.channel);
            prop_assert_eq!(hit.energy, if fields.has(Fields::ENERGY) { event.energy } else { 0 });
            prop_assert_eq!(hit.flags.has(Flags::NO_ENERGY), !fields.has(Fields::ENERGY));
            prop_assert_eq!(hit.energy_short, if fields.has(Fields::ENERGY_SHORT) { event.energy_short } else { 0 });
            if hit.flags.has(Flags::EXTRA) {
                let ((extra, samples), words) = extras.next().expect("a row for each");
                prop_assert_eq!(extra.raw_flags, event.flags);
                if fields.has(Fields::WAVEFORM) {
                    let expected: Vec<i32> = event.samples.iter().map(|sample| i32::from(*sample)).collect();
                    prop_assert_eq!(&samples.analog_1, &expected);
                    prop_assert_eq!(extra.number, u32::from(event.probe));
                }
                if fields.has(Fields::CALIBRATED) {
                    prop_assert_eq!(&words[..], &event.calibrated.to_le_bytes()[..]);
                }
            } else {
                prop_assert!(!fields.has(Fields::CALIBRATED));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_only_count(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        super::check::check(&bytes);
    }

    #[test]
    fn the_ledger_of_damaged_files_balances(bits in 0..16u8, count in 0..60u64, damages in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8), cut in 0..200usize) {
        let mut bytes = vec![bits];
        bytes.extend(file(Fields::from_bits(u32::from(bits)), &events(count, 12)));
        for (position, value) in damages {
            let length = bytes.len();
            bytes[usize::from(position) % length] = value;
        }
        bytes.drain(bytes.len() / 2..(bytes.len() / 2 + cut).min(bytes.len()));
        super::check::check(&bytes);
    }

    #[test]
    fn a_view_never_leaves_its_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100), bits in 0..16u32) {
        let limits = Settings { boards: 0xC000, channels_per_board: 1, ..Settings::default() }.limits();
        let layout = RecordLayout::of(Fields::from_bits(bits));
        if let Look::Record(record) = Record::look(&bytes, layout, &limits) {
            prop_assert!(record.bytes().len() <= bytes.len());
            let _ = (record.energy(), record.energy_short(), record.calibrated(), record.probe());
        }
    }
}

#[test]
fn every_frame_is_a_hit() {
    let outcome = read(&Settings::default(), &file(ENERGIES, &events(1000, 0)), &[4000]);
    let decode = outcome.counters(Stage::Decode);
    assert_eq!(decode.total_input(Unit::Frames), 1000);
    assert_eq!(decode.total_output(Unit::Hits), 1000);
}
