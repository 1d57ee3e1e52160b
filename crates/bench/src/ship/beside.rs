//! Recording while another run is shipped on the same host, against recording alone.
//!
//! ```text
//!  events in memory ─► EventWriter ─► files        value: speed beside a shipper ÷ speed alone, in turn
//!  another run ─ thalweg_ship, 4 streams ─► mounted path, again and again
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Comparison, Measurement, compare};
use thalweg_ship::Settings;
use thalweg_ship::shipper::{Order, ship as ship_order};

use crate::record::events::{EventShape, Example, Noise};
use crate::{BenchError, Conditions, Measured};

use super::Folders;
use super::example_run::write_events;

/// Bytes and files of the run that is shipped.
const SHIPPED: (u64, u64) = (256 << 20, 16);
/// Bytes that are recorded at a turn.
const RECORDED_BYTES: u64 = 512 << 20;
const STREAMS: usize = 4;
const BENCH: &str = "record-while-shipping";

/// Recording beside a shipper that yields, and beside one that does not.
pub(crate) fn record_while_shipping(conditions: &Conditions) -> Result<Measured, BenchError> {
    let folders = Folders::new(conditions, SHIPPED);
    let example = Example::new(EventShape::FEW_LARGE, Noise::Half);
    let record = || {
        let folder = folders.root.join("recorded");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the directory of a bench can be written");
        let start = Instant::now();
        write_events(&folder, &example, RECORDED_BYTES, 1);
        start.elapsed()
    };
    let with = |yields: bool| {
        let shipped = AtomicU64::new(0);
        let beside = || beside_a_shipper(&folders, yields, &shipped, record);
        let comparison = compare(Clock::Wall, conditions.repeats, beside, record);
        let turns = (conditions.repeats.max(1) + 1) as f64;
        (comparison, shipped.load(Ordering::Relaxed) as f64 / turns / comparison.subject_s)
    };
    let (yielding, shipped_bytes_per_s) = with(true);
    let (greedy, greedy_bytes_per_s) = with(false);
    let rate = |seconds: f64| RECORDED_BYTES as f64 / seconds;
    let measurement = of_ratio(yielding, conditions)
        .with("recorded_alone_bytes_per_s", rate(yielding.baseline_s))
        .with("recorded_beside_bytes_per_s", rate(yielding.subject_s))
        .with("shipped_bytes_per_s", shipped_bytes_per_s)
        .with("ratio_without_yielding", greedy.speed_ratio)
        .with("shipped_without_yielding_bytes_per_s", greedy_bytes_per_s)
        .with("streams", STREAMS)
        .with("directory", conditions.folder().display().to_string());
    Ok(measurement.into())
}

fn of_ratio(comparison: Comparison, conditions: &Conditions) -> Measurement {
    let Comparison { speed_ratio, ratio_range, clock, .. } = comparison;
    Measurement {
        bench: BENCH.to_owned(),
        value: speed_ratio,
        unit: "of the speed alone".to_owned(),
        baseline: "the same events recorded while nothing is shipped".to_owned(),
        baseline_value: 1.0,
        ratio: speed_ratio,
        ratio_range: Some(ratio_range),
        clock,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        parameters: BTreeMap::new(),
        repeats: conditions.repeats,
    }
}

/// Records while the run is shipped again and again.
fn beside_a_shipper(
    folders: &Folders,
    yields: bool,
    shipped: &AtomicU64,
    record: impl FnOnce() -> Duration,
) -> Duration {
    let (stop, has_begun) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                shipped.fetch_add(ship(folders, yields, &stop, &has_begun), Ordering::Relaxed);
            }
        });
        while !has_begun.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let took = record();
        stop.store(true, Ordering::Release);
        took
    })
}

/// Ships the run to an empty directory; returns the bytes that were proved.
fn ship(folders: &Folders, yields: bool, stop: &Arc<AtomicBool>, has_begun: &AtomicBool) -> u64 {
    folders.run.forget_copies();
    let _ = fs::remove_dir_all(folders.far.join(folders.run.name()));
    fs::create_dir_all(&folders.far).expect("the directory of a bench can be written");
    let settings = Settings {
        to: vec![format!("file://{}", folders.far.display())],
        streams: STREAMS,
        yields,
        ..Settings::default()
    };
    let order = Order {
        runs: vec![folders.run.path().to_owned()],
        settings,
        key: None,
        follow: false,
        give_up_after: Duration::from_secs(10),
    };
    let mut report = |_: &_| has_begun.store(true, Ordering::Release);
    let progress = ship_order(&order, stop, &mut report).expect("a run that can be shipped");
    progress.destinations.iter().map(|route| route.bytes_proved).sum()
}
