//! `live`: an emulated board at its hardware limit over loopback UDP, received, decoded and ordered; `live-record` writes
//! the hits to a file besides; `live-process` has coincidence and all default spectra, at half the rate.
//!
//! ```text
//!  emulated board (prepared data) ─ UDP 8972 B ─► receive ─► decode ─► time order (─► record)
//! ```
//! The baseline is the rate that the board was asked for: the ratio is the share of its hits that arrived. Two cores:
//! the sender takes one of them.

use std::path::Path;

use thalweg_data::measure::{Measurement, median};
use thalweg_frontend::digitizer2::emulate::Settings;

use super::live_board::{LiveBoard, NO_SPECTRA};
use super::{BenchError, Conditions};

/// A little above the 40 M hits/s that one board can send over 10 Gb/s Ethernet: the emulated one, which has dead time,
/// sends half a percent less than it is asked for.
const BOARD_LIMIT_HZ: f64 = 40.5e6;

/// The tables and the processing of hits after time order.
#[derive(Clone, Copy)]
struct Shape {
    bench: &'static str,
    rate_hz: f64,
    tables: &'static str,
    processing: &'static str,
}

/// Received, decoded and ordered.
pub(super) fn live(conditions: &Conditions) -> Result<Measurement, BenchError> {
    let processing = NO_SPECTRA;
    measure(Shape { bench: "live", rate_hz: BOARD_LIMIT_HZ, tables: "[]", processing }, conditions)
}

/// Recorded, too.
pub(super) fn live_record(conditions: &Conditions) -> Result<Measurement, BenchError> {
    let processing = NO_SPECTRA;
    measure(
        Shape { bench: "live-record", rate_hz: BOARD_LIMIT_HZ, tables: "[\"hits\"]", processing },
        conditions,
    )
}

/// Received, decoded, ordered and processed with coincidence and spectra.
pub(super) fn live_process(conditions: &Conditions) -> Result<Measurement, BenchError> {
    let processing = "[coincidence]\nwindow_ps = 3000\n";
    let rate_hz = BOARD_LIMIT_HZ / 2.0;
    measure(Shape { bench: "live-process", rate_hz, tables: "[]", processing }, conditions)
}

fn measure(shape: Shape, conditions: &Conditions) -> Result<Measurement, BenchError> {
    let bench = shape.bench;
    let fail = |message: String| BenchError::Room { bench, message };
    let (mut rates, mut asked) = (Vec::new(), Vec::new());
    let mut worst_loss = 0.0f64;
    for _ in 0..conditions.repeats.max(1) {
        let (taken_hz, sent_hz, lost) =
            once(&conditions.folder(), shape, conditions.seconds).map_err(fail)?;
        rates.push(taken_hz);
        asked.push(sent_hz);
        worst_loss = worst_loss.max(lost);
    }
    let (value, baseline_value) = (median(&mut rates), median(&mut asked));
    Ok(Measurement {
        bench: bench.to_owned(),
        value,
        unit: "hits/s".to_owned(),
        baseline: "hits sent by the emulated board".to_owned(),
        baseline_value,
        ratio: value / baseline_value,
        cores: 2,
        repeats: conditions.repeats.max(1),
        ..Measurement::default()
    }
    .with("asked_hz", shape.rate_hz)
    .with("seconds", conditions.seconds)
    .with("worst_share_lost", worst_loss)
    .with("directory", conditions.folder().display().to_string()))
}

/// One run: hits taken and sent per second, and the fraction lost.
fn once(folder: &Path, shape: Shape, seconds: f64) -> Result<(f64, f64, f64), String> {
    let board = Settings { prepared: true, total_rate_hz: Some(shape.rate_hz), ..Settings::default() };
    let Shape { bench, tables, processing, .. } = shape;
    let turn = LiveBoard { bench, board: &board, source: "", processing, tables, folder }.run(seconds)?;
    Ok((
        turn.hits_taken as f64 / turn.elapsed_s,
        turn.hits_sent as f64 / turn.elapsed_s,
        turn.hits_lost as f64 / turn.hits_sent.max(1) as f64,
    ))
}
