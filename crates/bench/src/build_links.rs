//! `build-links`, `build-sizes`: the second level of a readout, a few front-end computers that each send events over a connection of their
//! own: received, built, recorded, recorded with compression.
//!
//! ```text
//!  1 to 8 senders of 16 KiB   ─ TCP ─► receive │ build │ record │ record, lz4      against the number of connections
//!  one sender of 256 B to 256 KiB ─ TCP ─► the same                                against the size of an event
//! ```
//! Beside our lines stand those that were printed for such a level (readout network of COMET Phase-I, 2020: 1 to 8 connections, random data of
//! which LZ4 leaves 70 %). Its computers were others, so only the shape of the curves can be compared: where they bend, and how
//! far recording lies below receiving. What the lines are is in [`build_record`](super::build_record).

use crate::boards::{Over, Work};
use thalweg_run::plot::Series;

use super::build_record::all_lines;
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

const CONNECTIONS: [u16; 4] = [1, 2, 4, 8];
const EVENT_BYTES: usize = 16 << 10;
const SIZES: [usize; 6] = [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Fraction of the payload that a compressor leaves.
const RANDOM_FRACTION: f64 = 0.7;
const GIB: f64 = (1u64 << 30) as f64;
/// What was printed for up to eight connections, in GiB/s.
const PRINTED: [(&str, f64); 4] = [
    ("printed: received", 3.1),
    ("printed: built", 1.2),
    ("printed: recorded", 0.80),
    ("printed: recorded, lz4", 0.53),
];
/// What one connection was printed to carry, plain, and the size of events from which it did.
const PRINTED_OF_ONE: (f64, f64) = (1.1, 4096.0);

/// Measures all numbers of connections.
pub(super) fn build_links(conditions: &Conditions) -> Result<Measured, BenchError> {
    let level = |(name, gib): (&str, f64)| {
        let ends = [1.0, 8.0].map(|connections| (connections, gib * GIB));
        Series { name: name.to_owned(), points: ends.to_vec() }
    };
    let all = CONNECTIONS.map(|connections| (connections, EVENT_BYTES));
    measured("build-links", conditions, &all, |points| Sweep {
        bench: "build-links",
        title: "1 to 8 connections of 16 KiB events, which LZ4 brings to 70 %".to_owned(),
        along: "boards",
        x_title: "connections",
        lines: Some("line"),
        points,
        shows_ratio: false,
        logarithmic_x: false,
        logarithmic_y: false,
        guides: PRINTED.map(level).into(),
    })
}

/// Measures all sizes over one connection.
pub(super) fn build_sizes(conditions: &Conditions) -> Result<Measured, BenchError> {
    let (gib, from) = PRINTED_OF_ONE;
    let ends = [from, SIZES[SIZES.len() - 1] as f64].map(|bytes| (bytes, gib * GIB));
    let all = SIZES.map(|bytes| (1, bytes));
    measured("build-sizes", conditions, &all, |points| Sweep {
        bench: "build-sizes",
        title: "One connection, by the size of events".to_owned(),
        along: "fragment_bytes",
        x_title: "event / B",
        lines: Some("line"),
        points,
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: true,
        guides: vec![Series { name: "printed: received".to_owned(), points: ends.to_vec() }],
    })
}

fn measured(
    bench: &'static str,
    conditions: &Conditions,
    all: &[(u16, usize)],
    sweep: impl FnOnce(Vec<thalweg_data::measure::Measurement>) -> Sweep,
) -> Result<Measured, BenchError> {
    let mut points = Vec::new();
    for (connections, bytes) in all {
        let work = Work::new(Over::Tcp, *connections, *bytes).with_random_fraction(RANDOM_FRACTION);
        let lines = all_lines(bench, &work, &conditions.folder(), conditions.repeats)
            .map_err(|error| BenchError::Room { bench, message: error.to_string() })?;
        // The raw write is in `build-record`.
        points.extend(lines.into_iter().filter(|line| line.parameters["line"] != "build, raw write"));
    }
    Ok(sweep(points).measured())
}
