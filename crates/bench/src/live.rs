//! `live`: an emulated board at its hardware limit over loopback UDP, received, decoded and ordered; `live-record` writes
//! the hits to a file besides; `live-process` has coincidence and all default spectra, at half the rate.
//!
//! ```text
//!  emulated board (prepared data) ─ UDP 8972 B ─► receive ─► decode ─► time order (─► record)
//! ```
//! The baseline is the rate that the board was asked for: the ratio is the share of its hits that arrived. Two cores:
//! the sender takes one of them.

use thalweg_data::measure::{Measurement, median};

use super::{BenchError, Conditions};
use thalweg_run::config::Configuration;
use thalweg_run::supervise::{EndWhen, Watch};

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
    let processing = "[spectra]\nenabled = false\n";
    measure(Shape { bench: "live", rate_hz: BOARD_LIMIT_HZ, tables: "[]", processing }, conditions)
}

/// Recorded, too.
pub(super) fn live_record(conditions: &Conditions) -> Result<Measurement, BenchError> {
    let processing = "[spectra]\nenabled = false\n";
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
    let folder = conditions.folder().join(format!("thalweg-live-{}", std::process::id()));
    let (mut rates, mut asked) = (Vec::new(), Vec::new());
    let mut worst_loss = 0.0f64;
    for _ in 0..conditions.repeats.max(1) {
        let result = once(&folder, shape, conditions.seconds);
        let cleaned = std::fs::remove_dir_all(&folder);
        let (taken_hz, sent_hz, lost) = result.map_err(fail)?;
        cleaned.map_err(|error| fail(format!("{}: {error}", folder.display())))?;
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

/// One run: hits taken and sent per second, and the share lost.
fn once(folder: &std::path::Path, shape: Shape, seconds: f64) -> Result<(f64, f64, f64), String> {
    let Shape { rate_hz, tables, processing, .. } = shape;
    let text = format!(
        "[run]\ntitle = \"live\"\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
         [source.emulate]\nprepared = true\ntotal_rate_hz = {rate_hz:?}\n\
         {processing}[record]\ndirectory = {folder:?}\ntables = {tables}\n"
    );
    let configuration =
        Configuration::parse(std::path::Path::new("(live)"), text).map_err(|error| error.to_string())?;
    let end = EndWhen { seconds: Some(seconds), ..EndWhen::default() };
    let summary =
        thalweg_run::run(&configuration, end, &mut Watch::nobody()).map_err(|error| error.to_string())?;
    if !summary.is_good() {
        return Err(format!("the run failed: {:?} {:?}", summary.failures, summary.discrepancies));
    }
    let sent = summary.hits_sent.unwrap_or(0);
    let elapsed = summary.elapsed_seconds;
    Ok((
        (summary.hits_recorded + summary.hits_left_out) as f64 / elapsed,
        sent as f64 / elapsed,
        summary.hits_lost as f64 / sent.max(1) as f64,
    ))
}
