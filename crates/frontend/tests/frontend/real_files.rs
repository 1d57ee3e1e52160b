//! Reads public recorded data through stream buffer, framing and decoder, in chunks of odd sizes.

use std::collections::BTreeSet;

use thalweg_data::{Flags, SourceId, Stage, Unit};
use thalweg_frontend::{abcd, check, compass};

fn recorded(name: &str) -> Option<Vec<u8>> {
    thalweg_prerequisite::recorded(name).map(|path| std::fs::read(path).expect("readable"))
}

const CHUNK_SIZES: [&[usize]; 3] = [&[65_536], &[4096, 1, 333], &[61]];

#[test]
fn compass_with_waveforms() {
    let Some(bytes) = recorded("compass_test_data.BIN") else { return };
    let settings = compass::Settings::default();
    for chunk_sizes in CHUNK_SIZES {
        let unpack = compass::CompassUnpack::new(SourceId(0), &settings).expect("defaults");
        let decode = compass::CompassDecode::new(SourceId(0), &settings).expect("defaults");
        let outcome = check::hits_of_stream(unpack, decode, &bytes, chunk_sizes);
        outcome.assert_closed();
        assert_eq!(outcome.snapshot.losses(), []);
        assert_eq!(outcome.hits.len(), 102);
        let channels: BTreeSet<u16> = outcome.hits.iter().map(|hit| hit.channel).collect();
        assert_eq!(channels.len(), 2);
        let first = outcome.hits[0];
        assert_eq!((first.time_ps, first.channel), (97_876_200_000, 0));
        assert_eq!((first.energy, first.energy_short), (798, 135));
        assert_eq!(first.flags, Flags::FINE_TIME | Flags::EXTRA);
        assert_eq!(outcome.extras[0].raw_flags, 0x4000);
        assert_eq!(outcome.extras[0].number, 1);
        assert_eq!(outcome.samples[0].analog_1.len(), 1000);
        assert_eq!(outcome.samples[0].analog_1[0], 0x0ab9);
    }
}

fn abcd_file(name: &str, tick_ps: f64, hits: usize, channels: &[u16]) {
    let Some(bytes) = recorded(name) else { return };
    let settings = abcd::Settings::with_tick_ps(tick_ps);
    for chunk_sizes in CHUNK_SIZES {
        let unpack = abcd::AbcdUnpack::new(SourceId(0), &settings).expect("possible");
        let decode = abcd::AbcdDecode::new(SourceId(0), &settings).expect("possible");
        let outcome = check::hits_of_stream(unpack, decode, &bytes, chunk_sizes);
        outcome.assert_closed();
        assert_eq!(outcome.snapshot.losses(), []);
        assert_eq!(outcome.hits.len(), hits);
        assert_eq!(outcome.counters(Stage::Unpack).total_output(Unit::Frames), hits as u64);
        let seen: BTreeSet<u16> = outcome.hits.iter().map(|hit| hit.channel).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), channels);
    }
}

#[test]
fn abcd_plastic_scintillator() {
    abcd_file("example_data_DT5725_Ch0_Plastic_Cf-252_source_events.ade", 3.90625, 91_952, &[0]);
}

#[test]
fn abcd_three_scintillators() {
    abcd_file("example_data_DT5730_Ch2_LaBr3_Ch4_LYSO_Ch6_YAP_events.ade", 1.953125, 101_746, &[2, 4, 6]);
}
