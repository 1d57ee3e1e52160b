//! Round trips, damage, and the balance of the ledger for ABCD files.

use proptest::prelude::*;
use thalweg_data::{LossReason, SourceId, Tick, Unit};

use super::emit::{self, Event};
use super::{AbcdDecode, AbcdUnpack, Settings, SettingsError};
use crate::check::{HitsOutcome, hits_of_stream};
use crate::time_origin::TimeOrigin;

fn read(settings: &Settings, bytes: &[u8], chunk_sizes: &[usize]) -> HitsOutcome {
    let unpack = AbcdUnpack::new(SourceId(0), settings).expect("valid settings");
    let decode = AbcdDecode::new(SourceId(0), settings).expect("valid settings");
    let outcome = hits_of_stream(unpack, decode, bytes, chunk_sizes);
    outcome.assert_closed();
    outcome
}

fn file(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    events.iter().for_each(|event| emit::record(event, &mut bytes));
    bytes
}

#[test]
fn a_cut_file_and_a_channel_out_of_range_are_counted() {
    let mut bytes =
        file(&[Event { channel: 3, ..Event::default() }, Event { channel: 8, ..Event::default() }]);
    bytes.extend([0; 5]);
    let settings = Settings { channels: 8, ..Settings::with_tick_ps(2.0) };
    let outcome = read(&settings, &bytes, &[5]);
    assert_eq!(outcome.hits.len(), 1);
    assert_eq!(outcome.lost(LossReason::BadChannel, Unit::Frames), 1);
    assert_eq!(outcome.lost(LossReason::BadChannel, Unit::Bytes), 16);
    assert_eq!(outcome.lost(LossReason::Unfinished, Unit::Bytes), 5);
}

#[test]
fn the_tick_and_the_channels_are_checked() {
    assert!(matches!(Settings::with_tick_ps(0.0).validate(), Err(SettingsError::Tick(_))));
    let high = Settings { channels: 16, first_channel: 65_530, ..Settings::with_tick_ps(1.0) };
    assert!(high.validate().expect_err("too high").to_string().contains("65530"));
}

#[test]
fn baselines_are_kept_on_request() {
    let events = [1u16, 2, 3].map(|baseline| Event { baseline, channel: baseline as u8, ..Event::default() });
    let settings = Settings { keep_baseline: true, channels: 3, ..Settings::with_tick_ps(1.0) };
    let outcome = read(&settings, &file(&events), &[100]);
    assert_eq!(outcome.extras.iter().map(|extra| extra.number).collect::<Vec<_>>(), [1, 2]);
}

/// Nanoseconds since 1970, in counts of 1 ns: 8 million times the range of 64 bits of picoseconds.
const UNIX_NS: u64 = 1_700_000_000_000_000_000;

#[test]
fn times_beyond_64_bits_of_picoseconds_are_counted_as_time_range() {
    let times = [5, UNIX_NS, i64::MAX as u64 / 1000, i64::MAX as u64 / 1000 + 1];
    let events = times.map(|time| Event { time, baseline: (time % 7) as u16, ..Event::default() });
    for keep_baseline in [false, true] {
        let settings = Settings { keep_baseline, ..Settings::with_tick_ps(1000.0) };
        let outcome = read(&settings, &file(&events), &[1000]);
        let found = outcome.hits.iter().map(|hit| hit.time_ps).collect::<Vec<_>>();
        assert_eq!(found, [5000, i64::MAX / 1000 * 1000]);
        assert_eq!(outcome.lost(LossReason::TimeRange, Unit::Frames), 2);
        assert_eq!(outcome.extras.len(), if keep_baseline { 2 } else { 0 });
    }
    // The offset alone can exceed the range.
    let settings = Settings { time_offset_ps: i64::MAX - 4999, ..Settings::with_tick_ps(1000.0) };
    assert_eq!(read(&settings, &file(&events[..1]), &[16]).lost(LossReason::TimeRange, Unit::Frames), 1);
}

#[test]
fn clocks_since_1970_start_at_the_first_hit_on_request() {
    let events = [UNIX_NS, UNIX_NS + 7, UNIX_NS - 3].map(|time| Event { time, ..Event::default() });
    let settings =
        Settings { time_origin: TimeOrigin::FirstHit, time_offset_ps: 20, ..Settings::with_tick_ps(1000.0) };
    let outcome = read(&settings, &file(&events), &[16]);
    assert_eq!(outcome.hits.iter().map(|hit| hit.time_ps).collect::<Vec<_>>(), [20, 7020, -2980]);
    assert_eq!(outcome.snapshot.losses(), []);
}

fn event() -> impl Strategy<Value = Event> {
    (any::<u64>(), any::<u16>(), any::<u16>(), any::<u16>(), any::<u8>(), any::<u8>()).prop_map(
        |(time, q_short, q_long, baseline, channel, group_counter)| Event {
            time: time >> (group_counter % 40),
            q_short,
            q_long,
            baseline,
            channel,
            group_counter,
        },
    )
}

proptest! {
    #[test]
    fn written_files_are_read_back(
        events in proptest::collection::vec(event(), 0..200),
        size in 1..300usize,
        tick_ps in prop_oneof![Just(1.953125), Just(3.90625), Just(2000.0), Just(0.1)],
    ) {
        let outcome = read(&Settings::with_tick_ps(tick_ps), &file(&events), &[size, 7]);
        let tick = Tick::from_ps_f64(tick_ps).expect("possible");
        let exact = |event: &Event| {
            let (numerator, denominator) = tick.parts();
            i64::try_from(u128::from(event.time) * u128::from(numerator) / u128::from(denominator)).ok()
        };
        let events: Vec<_> = events.iter().filter(|event| exact(event).is_some()).collect();
        prop_assert_eq!(outcome.hits.len(), events.len());
        for (hit, event) in outcome.hits.iter().zip(&events) {
            prop_assert_eq!(Some(hit.time_ps), exact(event));
            prop_assert_eq!((hit.energy, hit.energy_short), (event.q_long, event.q_short));
            prop_assert_eq!(hit.channel, u16::from(event.channel));
        }
    }

    #[test]
    fn arbitrary_bytes_only_count(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        super::check::check(&bytes);
    }
}
