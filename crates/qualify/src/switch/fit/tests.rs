//! Simulated maps of devices that are known, searched and fitted.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::switch::burst::even_times;
use crate::switch::search::{Search, Settings as SearchSettings};
use crate::switch::simulate::{self, Buffers, Device, Stalls};

/// What a fit of one simulated map came to.
struct Map {
    depth_error: f64,
    rate_error: f64,
    covers_depth: bool,
    covers_rate: bool,
    seconds: f64,
}

/// A map of ten columns of a device drawn by the seed: stalls as seen on a busy machine of two cores.
fn map(seed: u64) -> Map {
    let mut random = Pcg64::seed_from_u64(seed);
    let depth_bytes = 10_f64.powf(random.random_range(5.7..6.9));
    let sources = random.random_range(8..=44_u32);
    let (frame_bytes, rate_bytes_per_s) = match random.random::<bool>() {
        true => (1066.0, random.random_range(4e6..12.5e6)),
        false => (9014.0, random.random_range(50e6..100e6)),
    };
    let drain_s = depth_bytes / rate_bytes_per_s;
    let stalls = Stalls {
        rate_hz: random.random_range(0.0..0.2) / drain_s,
        mean_s: drain_s * random.random_range(0.005..0.03),
        noticed_s: drain_s * 0.05,
    };
    let settings = simulate::Settings {
        buffers: Buffers::Shared { depth_bytes },
        rate_bytes_per_s,
        burst_bytes: 20e3,
        stalls: Some(stalls),
        seed,
    };
    let mut device = Device::new(settings);
    let saturation_s = f64::from(sources) * frame_bytes / rate_bytes_per_s;
    // The static search says the saturation separation within some percent.
    let saturation_s = saturation_s * random.random_range(0.98..1.0);
    let mut search = Search::new(SearchSettings::spread(10, saturation_s));
    let trials = device.explore(&mut search, sources, frame_bytes);
    let seconds = trials.iter().filter_map(|trial| trial.times_s.last()).sum();
    let fit = fit(&trials).unwrap_or_else(|error| panic!("map {seed}: {error}: {:?}", search.columns()));
    let truth_bytes = device.effective_depth_bytes(sources);
    let holds = |interval: [f64; 2], truth: f64| interval[0] <= truth && truth <= interval[1];
    if std::env::var_os("THALWEG_MAPS_SHOWN").is_some() {
        println!(
            "{seed} KF/B {:.4} stalls {:.3}x{:.4} {fit:?} truth {truth_bytes} {rate_bytes_per_s} errors {:.4} {:.4}",
            f64::from(sources) * frame_bytes / depth_bytes,
            stalls.rate_hz * drain_s,
            stalls.mean_s / drain_s,
            fit.depth_bytes / truth_bytes - 1.0,
            fit.rate_bytes_per_s / rate_bytes_per_s - 1.0
        );
    }
    Map {
        depth_error: (fit.depth_bytes / truth_bytes - 1.0).abs(),
        rate_error: (fit.rate_bytes_per_s / rate_bytes_per_s - 1.0).abs(),
        covers_depth: holds(fit.depth_interval_bytes, truth_bytes),
        covers_rate: holds(fit.rate_interval_bytes_per_s, rate_bytes_per_s),
        seconds,
    }
}

fn quantile(mut values: Vec<f64>, fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * fraction).round() as usize]
}

#[test]
fn intervals_cover_depth_and_rate_of_simulated_maps_with_stalls() {
    let asked = std::env::var("THALWEG_MAPS").ok().and_then(|count| count.parse().ok());
    let count: u64 = asked.unwrap_or(60);
    let maps: Vec<Map> = (0..count).map(map).collect();
    let part =
        |holds: &dyn Fn(&Map) -> bool| maps.iter().filter(|map| holds(map)).count() as f64 / count as f64;
    let (depth, rate) = (part(&|map| map.covers_depth), part(&|map| map.covers_rate));
    let within = (part(&|map| map.depth_error <= 0.02), part(&|map| map.rate_error <= 0.01));
    let of = |value: &dyn Fn(&Map) -> f64, fraction| quantile(maps.iter().map(value).collect(), fraction);
    let depth_error = (of(&|map| map.depth_error, 0.5), of(&|map| map.depth_error, 0.95));
    let rate_error = (of(&|map| map.rate_error, 0.5), of(&|map| map.rate_error, 0.95));
    println!(
        "{count} maps: depth covered {depth:.3}, p50 and p95 of its error {depth_error:.4?}, within 2 %: {:.3}\n\
         rate covered {rate:.3}, p50 and p95 of its error {rate_error:.4?}, within 1 %: {:.3}\n\
         seconds of sending per map, p50: {:.1}",
        within.0,
        within.1,
        of(&|map| map.seconds, 0.5)
    );
    assert!(depth >= 0.95 && rate >= 0.95, "coverage {depth} {rate}");
    assert!(depth_error.1 <= 0.02 && rate_error.1 <= 0.01, "{depth_error:?} {rate_error:?}");
}
