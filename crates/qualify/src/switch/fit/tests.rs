//! Simulated maps of devices that are known, searched and fitted.

use rand::{RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_pcg::Pcg64;
use thalweg_data::measure::quantile;

use super::*;
use crate::switch::burst::{Edge, Queue, even_times, peak_bytes};
use crate::switch::search::{Search, Settings as SearchSettings};
use crate::switch::simulate::{self, Buffers, Device, Stalls};

const DEPTH_BYTES: f64 = 1e6;
const RATE_BYTES_PER_S: f64 = 12.5e6;
const FRAME_BYTES: f64 = 1066.0;
const SOURCES: u32 = 16;
const SATURATION_S: f64 = SOURCES as f64 * FRAME_BYTES / RATE_BYTES_PER_S;

/// The fit of one simulated map.
struct Map {
    depth_error: f64,
    rate_error: f64,
    covers_depth: bool,
    covers_rate: bool,
}

/// A map of ten columns of a device drawn by the seed. Short frames at a low rate, or jumbo frames at a high one, as a shaped bridge
/// on a shared machine can do both; and its stalls: at most two in five times the buffer takes to drain, up to 6 % of that long.
fn map(seed: u64) -> Map {
    let mut random = Pcg64::seed_from_u64(seed);
    let depth_bytes = 10_f64.powf(random.random_range(5.7..6.9));
    let sources = random.random_range(8..=44_u32);
    let (frame_bytes, rate_bytes_per_s) = match random.random::<bool>() {
        true => (FRAME_BYTES, random.random_range(4e6..12.5e6)),
        false => (9014.0, random.random_range(50e6..100e6)),
    };
    let drain_s = depth_bytes / rate_bytes_per_s;
    let stalls = Stalls {
        rate_hz: random.random_range(0.0..0.4) / drain_s,
        mean_s: drain_s * random.random_range(0.005..0.06),
        noticed_s: drain_s * 0.1,
    };
    let buffers = Buffers::Shared { depth_bytes };
    let mut device = Device::new(simulate::Settings {
        buffers,
        rate_bytes_per_s,
        burst_bytes: 20e3,
        stalls: Some(stalls),
        seed,
    });
    // The static search says the saturation separation within two percent.
    let known_s = f64::from(sources) * frame_bytes / rate_bytes_per_s * random.random_range(0.98..1.0);
    let mut search = Search::new(SearchSettings::spread(10, known_s));
    let trials = device.explore(&mut search, sources, frame_bytes);
    let fit = fit(&trials).unwrap_or_else(|error| panic!("map {seed}: {error}: {:?}", search.columns()));
    let truth_bytes = device.effective_depth_bytes(sources);
    Map {
        depth_error: (fit.depth_bytes / truth_bytes - 1.0).abs(),
        rate_error: (fit.rate_bytes_per_s / rate_bytes_per_s - 1.0).abs(),
        covers_depth: holds(fit.depth_interval_bytes, truth_bytes),
        covers_rate: holds(fit.rate_interval_bytes_per_s, rate_bytes_per_s),
    }
}

fn holds(interval: [f64; 2], truth: f64) -> bool {
    interval[0] <= truth && truth <= interval[1]
}

/// `THALWEG_SIMULATED_MAPS=400 cargo test -p thalweg-qualify maps -- --nocapture` for more of them.
#[test]
fn intervals_cover_depth_and_rate_of_simulated_maps_with_stalls() {
    let asked = std::env::var("THALWEG_SIMULATED_MAPS").ok().and_then(|count| count.parse().ok());
    let count: u64 = asked.unwrap_or(8);
    let maps: Vec<Map> = (0..count).map(map).collect();
    let fraction =
        |holds: &dyn Fn(&Map) -> bool| maps.iter().filter(|map| holds(map)).count() as f64 / count as f64;
    let (depth, rate) = (fraction(&|map| map.covers_depth), fraction(&|map| map.covers_rate));
    let within = (fraction(&|map| map.depth_error <= 0.02), fraction(&|map| map.rate_error <= 0.01));
    let of = |value: &dyn Fn(&Map) -> f64, at| quantile(&mut maps.iter().map(value).collect::<Vec<_>>(), at);
    let depth_error = (of(&|map| map.depth_error, 0.5), of(&|map| map.depth_error, 0.95));
    let rate_error = (of(&|map| map.rate_error, 0.5), of(&|map| map.rate_error, 0.95));
    println!(
        "{count} maps: depth covered {depth:.3}, error p50 and p95 {depth_error:.4?}, within 2 %: {:.3}\n\
         rate covered {rate:.3}, error p50 and p95 {rate_error:.4?}, within 1 %: {:.3}",
        within.0, within.1,
    );
    assert!(depth >= 0.95 && rate >= 0.95, "coverage of depth {depth}, of rate {rate}");
    assert!(depth_error.1 <= 0.02 && rate_error.1 <= 0.01, "{depth_error:?} {rate_error:?}");
}

/// Returns trials of a known queue: at these fractions of its edge in each column, emitted at `times`.
fn trials(columns: &[f64], times: &mut dyn FnMut(u64, f64) -> Vec<f64>) -> Vec<Trial> {
    let queue = Queue { depth_bytes: DEPTH_BYTES, rate_bytes_per_s: RATE_BYTES_PER_S };
    let edge = Edge { queue, event_bytes: f64::from(SOURCES) * FRAME_BYTES };
    let mut trials = Vec::new();
    for fraction in columns {
        let separation_s = fraction * SATURATION_S;
        let largest = edge.largest_burst(separation_s).expect("below saturation") as f64;
        for events in
            [0.7, 0.9, 0.98, 1.0, 1.01, 1.02, 1.05, 1.2].map(|of_edge| (of_edge * largest).ceil() as u64)
        {
            let times_s = times(events, separation_s);
            let lossy = peak_bytes(&times_s, edge.event_bytes, RATE_BYTES_PER_S) > DEPTH_BYTES;
            let (sources, frame_bytes) = (SOURCES, FRAME_BYTES);
            trials.push(Trial {
                separation_s,
                times_s,
                sources,
                sources_per_input: 1,
                frame_bytes,
                lossy,
                valid: true,
            });
        }
    }
    trials
}

const COLUMNS: [f64; 8] = [0.1, 0.22, 0.34, 0.46, 0.58, 0.7, 0.82, 0.95];

fn assert_true(fit: &Fit) {
    assert!((fit.depth_bytes / DEPTH_BYTES - 1.0).abs() < 0.02, "{fit:?}");
    assert!((fit.rate_bytes_per_s / RATE_BYTES_PER_S - 1.0).abs() < 0.01, "{fit:?}");
    assert!(holds(fit.depth_interval_bytes, DEPTH_BYTES), "{fit:?}");
    assert!(holds(fit.rate_interval_bytes_per_s, RATE_BYTES_PER_S), "{fit:?}");
}

#[test]
fn a_clean_map_gives_depth_rate_and_a_sharp_edge() {
    let fit =
        fit(&trials(&COLUMNS, &mut |events, separation_s| even_times(events, separation_s))).expect("fits");
    assert_true(&fit);
    assert!(fit.width_bytes < 0.002 * DEPTH_BYTES && fit.wrong_side_fraction == 0.0, "{fit:?}");
    assert_eq!((fit.columns, fit.trials, fit.invalid), (8, 64, 0));
}

#[test]
fn times_of_emission_count_and_not_the_separation_that_was_asked_for() {
    let mut random = Pcg64::seed_from_u64(11);
    // The burst is 5 % longer than asked for, which moves the edge by up to 8 % of events.
    let mut late = |events: u64, separation_s: f64| {
        let mut at_s = 0.0;
        (0..events)
            .map(|_| {
                at_s += separation_s * (0.95 + 0.1 * random.sample::<f64, _>(Exp1));
                at_s
            })
            .collect()
    };
    let columns = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
    // Every burst is late in its own way, so that several maps put trials closer to the edge than one.
    let mut trials: Vec<Trial> = (0..6).flat_map(|_| trials(&columns, &mut late)).collect();
    assert_true(&fit(&trials).expect("fits"));
    for trial in &mut trials {
        trial.times_s = even_times(trial.times_s.len() as u64, trial.separation_s);
    }
    let nominal = fit(&trials).expect("fits");
    assert!(!holds(nominal.rate_interval_bytes_per_s, RATE_BYTES_PER_S), "{nominal:?}");
}

#[test]
fn a_column_that_is_lossy_at_nine_tenths_of_its_edge_spoils_nothing() {
    for spoilt in [0, 4, 7] {
        let mut trials = trials(&COLUMNS, &mut |events, separation_s| even_times(events, separation_s));
        let most = trials[spoilt * 8 + 1].times_s.len();
        for trial in &mut trials[spoilt * 8..spoilt * 8 + 8] {
            trial.lossy |= trial.times_s.len() >= most;
        }
        let fit = fit(&trials).expect("fits");
        assert!((fit.depth_bytes / DEPTH_BYTES - 1.0).abs() < 0.02, "column {spoilt}: {fit:?}");
        assert!((fit.rate_bytes_per_s / RATE_BYTES_PER_S - 1.0).abs() < 0.01, "column {spoilt}: {fit:?}");
        assert!(fit.residual_rms > 0.01, "the spoilt column shows: {fit:?}");
    }
}

#[test]
fn the_line_through_the_edges_leaves_out_a_column_that_is_nine_percent_off() {
    let mut trials = trials(&COLUMNS, &mut |events, separation_s| even_times(events, separation_s));
    let spoilt = &mut trials[0..8];
    let least = spoilt[1].times_s.len();
    spoilt.iter_mut().for_each(|trial| trial.lossy |= trial.times_s.len() >= least);
    let start = Start::new(&bursts(&trials, Buffering::Shared)).expect("a line");
    assert!((start.depth_bytes / DEPTH_BYTES - 1.0).abs() < 0.02, "{start:?}");
    assert!((start.rate_bytes_per_s / RATE_BYTES_PER_S - 1.0).abs() < 0.01, "{start:?}");
}

#[test]
fn invalid_trials_count_for_nothing() {
    let mut trials = trials(&COLUMNS, &mut |events, separation_s| even_times(events, separation_s));
    let mut false_ones = trials.clone();
    for trial in &mut false_ones {
        (trial.valid, trial.lossy) = (false, !trial.lossy);
    }
    let without = fit(&trials).expect("fits");
    trials.append(&mut false_ones);
    let with = fit(&trials).expect("fits");
    assert_eq!(with.invalid, 64);
    assert_eq!(Fit { invalid: 0, ..with }, without);
}

#[test]
fn trials_that_no_sender_can_have_made_are_refused_by_index() {
    let good = trials(&COLUMNS, &mut |events, separation_s| even_times(events, separation_s));
    type Spoil = fn(&mut Trial);
    let spoil: [(&str, Spoil); 5] = [
        ("no number", |trial| trial.times_s[1] = f64::NAN),
        ("no number", |trial| trial.separation_s = f64::INFINITY),
        ("do not ascend", |trial| trial.times_s.swap(2, 3)),
        ("no sources", |trial| trial.sources = 0),
        ("no bytes", |trial| trial.frame_bytes = -1.0),
    ];
    for (words, spoil) in spoil {
        let mut trials = good.clone();
        spoil(&mut trials[9]);
        let error = fit(&trials).expect_err(words).to_string();
        assert!(error.contains(words) && error.contains("trial 9"), "{error}");
        trials[9].valid = false;
        assert!(fit(&trials).is_ok(), "an invalid trial may be anything");
    }
}

#[test]
fn trials_far_from_the_edge_leave_depth_and_rate_open_or_an_interval_that_says_so() {
    let mut trials = trials(&COLUMNS, &mut |events, separation_s| even_times(events, separation_s));
    trials.retain(|trial| {
        let peak_bytes = peak_bytes(&trial.times_s, f64::from(SOURCES) * FRAME_BYTES, RATE_BYTES_PER_S);
        (peak_bytes / DEPTH_BYTES - 1.0).abs() > 0.15
    });
    match fit(&trials) {
        Err(error) => assert!(matches!(error, FitError::Open { .. }), "{error}"),
        Ok(fit) => {
            let [from, to] = fit.depth_interval_bytes;
            assert!(from < 0.95 * DEPTH_BYTES && to > 1.05 * DEPTH_BYTES, "{fit:?}");
        }
    }
}

#[test]
fn maps_that_cannot_say_depth_and_rate_are_refused_with_what_was_seen() {
    let even = &mut |events, separation_s| even_times(events, separation_s);
    assert_eq!(fit(&[]), Err(FitError::NoValidTrial(0)));
    assert_eq!(fit(&trials(&COLUMNS[..5], even)), Err(FitError::TooFewColumns { seen: 5 }));
    for (lossy, error, words) in [
        (false, FitError::AllLossless(64), "send more events"),
        (true, FitError::AllLossy(64), "a switch that loses at any rate"),
    ] {
        let mut trials = trials(&COLUMNS, even);
        trials.iter_mut().for_each(|trial| trial.lossy = lossy);
        assert!(error.to_string().contains(words));
        assert_eq!(fit(&trials), Err(error));
    }
    // The longer the burst, the fewer bytes fit: no queue drains backwards.
    let mut trials = trials(&COLUMNS, even);
    for (column, chunk) in trials.chunks_mut(8).enumerate() {
        for (index, trial) in chunk.iter_mut().enumerate() {
            trial.times_s = even_times(20 + index as u64 - column as u64, trial.separation_s);
            trial.lossy = index > 3;
        }
    }
    assert!(matches!(fit(&trials), Err(FitError::NoQueue { .. })), "{:?}", fit(&trials));
}
