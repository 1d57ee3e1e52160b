//! The benches of recording: each in memory and at the pace of a disk, with one published figure beside it.
//!
//! ```text
//!  in memory      as fast as data are taken ─┐
//!  on the disk    at 0.8 of what it takes ───┴─► both points, a picture; `paced` repeats the second
//! ```
//! COMET published what one recording thread did to 1.2 GiB/s that came: 0.80 GiB/s were left, and 0.53 with lz4.

use thalweg_data::measure::Measurement;
use thalweg_run::plot::{Bar, BarChart, Series, bars_svg};

use super::record::{self, EventShape, Pace, Way, record_compressed_in};
use super::sweep::{Sweep, point};
use super::{BenchError, Conditions, Measured};
use thalweg_record::Settings;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
/// What COMET recorded with one thread, bytes per second: uncompressed, and with lz4.
const COMET: f64 = 0.80 * GIB;
const COMET_LZ4: f64 = 0.53 * GIB;
/// Bytes of a recorded hit.
const HIT_BYTES: f64 = 16.0;
/// Bytes after which a file ends.
const FILE_BYTES: u64 = 64 << 20;

/// Hits.
pub(super) fn record(conditions: &Conditions) -> Result<Measured, BenchError> {
    in_both_ways("record", "Recording hits", Some(COMET / HIT_BYTES), conditions, record::record_in)
}

/// Events of one shape.
pub(super) fn record_events(
    conditions: &Conditions,
    bench: &'static str,
    shape: EventShape,
) -> Result<Measured, BenchError> {
    let EventShape { sources, fragment_bytes } = shape;
    let title = format!("Recording events of {sources} × {fragment_bytes} B");
    in_both_ways(bench, &title, Some(COMET), conditions, |way| record::record_events_in(way, shape))
}

/// The pause at a change of files.
pub(super) fn record_files(conditions: &Conditions) -> Result<Measured, BenchError> {
    let measure = |way: &Way| record::change_of_files_in(way, FILE_BYTES);
    in_both_ways("record-files", "The longest time between two batches", None, conditions, measure)
}

/// Events with each codec, by the number of threads that compress.
pub(super) fn record_compressed(conditions: &Conditions) -> Result<Measured, BenchError> {
    let guide = Series {
        name: "COMET, lz4 (published)".to_owned(),
        points: vec![(1.0, COMET_LZ4), (2.0, COMET_LZ4)],
    };
    let sweep = Sweep {
        bench: "record-compressed",
        title: "Recording compressed events".to_owned(),
        along: "compression_workers",
        x_title: "threads that compress",
        lines: Some("compression"),
        points: record_compressed_in(&conditions.folder(), conditions.repeats),
        shows_ratio: false,
        logarithmic_x: false,
        logarithmic_y: false,
        guides: vec![guide],
    };
    Ok(sweep.measured())
}

fn in_both_ways(
    bench: &'static str,
    title: &str,
    published: Option<f64>,
    conditions: &Conditions,
    measure: impl Fn(&Way) -> Measurement,
) -> Result<Measured, BenchError> {
    let [free, paced] = both_ways(bench, conditions)?.map(|way| measure(&way));
    let plot = picture(title, published, [&free, &paced]);
    let measurement = Measurement { bench: bench.to_owned(), ..free };
    Ok(Measured { measurement: measurement.with("paced", point(&paced)), plot: Some(plot) })
}

/// Ours and the baseline, in memory and on the disk.
fn picture(title: &str, published: Option<f64>, [free, paced]: [&Measurement; 2]) -> String {
    let bar = |name: &str, values: [f64; 2]| Bar { name: name.to_owned(), values: values.to_vec() };
    let mut bars = vec![
        bar("thalweg", [free.value, paced.value]),
        bar("baseline", [free.baseline_value, paced.baseline_value]),
    ];
    bars.extend(published.map(|published| bar("COMET (published)", [published; 2])));
    let group =
        |place: &str, point: &Measurement| [place.to_owned(), format!("{:.2} of the baseline", point.ratio)];
    bars_svg(&BarChart {
        title: title.to_owned(),
        subtitle: format!("baseline: {}", free.baseline),
        y_title: free.unit.clone(),
        groups: vec![
            group("in memory, as fast as possible", free),
            group("on a disk, offered 0.8 of what it takes", paced),
        ],
        bars,
    })
}

/// In memory as fast as possible, and on a disk at its pace.
fn both_ways(bench: &'static str, conditions: &Conditions) -> Result<[Way; 2], BenchError> {
    let free = Way::free(&conditions.folder(), conditions.repeats, Settings::default());
    let disk = conditions.directory.clone().unwrap_or_else(std::env::temp_dir);
    let pace = Pace::of_disk(&disk).map_err(|cause| BenchError::Room {
        bench,
        message: format!(
            "{}: the disk cannot be measured: {cause}; name another with --directory",
            disk.display()
        ),
    })?;
    let paced = Way { parent: disk, pace, ..free.clone() };
    Ok([free, paced])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_ours_the_baseline_and_what_was_published() {
        let measured = |value, baseline_value| Measurement {
            value,
            baseline_value,
            unit: "B/s".to_owned(),
            baseline: "sequential write of the same bytes".to_owned(),
            ..Measurement::default()
        };
        let (free, paced) = (measured(1.56e9, 2.63e9), measured(9.2e8, 9.5e8));
        let svg = picture("Recording events of 105 × 380 B", Some(COMET), [&free, &paced]);
        for words in ["thalweg", "baseline", "COMET (published)", "B/s", "in memory", "on a disk"] {
            assert!(svg.contains(words), "{words}");
        }
        assert_eq!(point(&paced)["value"], 9.2e8);
    }
}
