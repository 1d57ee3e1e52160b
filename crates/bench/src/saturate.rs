//! `saturate`, `saturate-list`: the trigger rate up to which everything that a board sends is received and decoded.
//!
//! ```text
//!  external trigger at a rate ─► emulated board ─ UDP 8972 B ─► receive ─► decode ─► time order
//!        ▲                                                        └ lost, or late: the rate was too high
//!        └─ halving what is left between a rate that went through and one that did not
//! ```
//! The baseline is what 10 Gb/s Ethernet carries of such events, calculated. What bounds a point is in its parameters: the board, whose
//! records touch or whose hits are as many as it makes; the link, which is only calculated; or this receiver.

use std::path::Path;

use serde_json::json;
use thalweg_data::measure::Measurement;
use thalweg_frontend::digitizer2::emulate::settings::{Firmware, Settings};

use super::live_board::{LINK_BYTES_PER_S, LiveBoard, LiveTurn, NO_SPECTRA};
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

/// The highest rate that is tried, as a multiple of what the link carries.
const ABOVE_LINK: f64 = 3.0;
/// Turns of a search: the rate is found to 1 in 60 of the highest.
const TURNS: u32 = 6;
/// A board that falls behind has sent less than it was asked for.
const ON_TIME: f64 = 0.9;
/// Most seconds of a turn.
const TURN_S: f64 = 0.5;
/// Hits that a board makes, per second, of one channel and of all: as published.
const CHANNEL_HITS_HZ: f64 = 8e6;
const BOARD_HITS_HZ: f64 = 40e6;

/// A board at external triggers.
struct Point {
    board: Settings,
    /// The highest rate of the board itself.
    board_hz: f64,
    parameters: Vec<(&'static str, serde_json::Value)>,
}

/// Scope firmware: record length, decimation, channels.
pub(super) fn saturate(conditions: &Conditions) -> Result<Measured, BenchError> {
    let mut points = Vec::new();
    for (channels, decimation) in [(1u16, 1u32), (8, 1), (64, 1), (64, 8)] {
        for record_samples in [64u32, 256, 1024, 4096] {
            let board = Settings {
                firmware: Firmware::Scope,
                channels,
                decimation,
                waveform_samples: record_samples / decimation,
                aligned_datagrams: false,
                ..prepared()
            };
            let line = match (channels, decimation) {
                (1, 1) => "1 channel".to_owned(),
                (_, 1) => format!("{channels} channels"),
                _ => format!("{channels}, decimation {decimation}"),
            };
            points.push(Point {
                board_hz: f64::from(board.sampling_mhz) * 1e6 / f64::from(record_samples),
                parameters: vec![
                    ("line", json!(line)),
                    ("record_samples", json!(record_samples)),
                    ("channels", json!(channels)),
                    ("decimation", json!(decimation)),
                ],
                board,
            });
        }
    }
    sweep("saturate", points, conditions, |measured| Sweep {
        bench: "saturate",
        title: "Highest trigger rate of scope events without loss, one board at 125 MS/s".to_owned(),
        along: "record_samples",
        x_title: "record length, sampling periods",
        ..shape(measured)
    })
}

/// List mode: hits of all channels at one trigger.
pub(super) fn saturate_list(conditions: &Conditions) -> Result<Measured, BenchError> {
    let mut points = Vec::new();
    for (line, waveform_samples) in [("hits of 16 B", 0), ("hits of 2064 B", 508)] {
        for channels in [1u16, 2, 4, 8, 16, 32, 64] {
            points.push(Point {
                board: Settings { channels, waveform_samples, ..prepared() },
                board_hz: CHANNEL_HITS_HZ.min(BOARD_HITS_HZ / f64::from(channels)),
                parameters: vec![("line", json!(line)), ("channels", json!(channels))],
            });
        }
    }
    sweep("saturate-list", points, conditions, |measured| Sweep {
        bench: "saturate-list",
        title: "Highest external trigger rate of hits without loss, one board".to_owned(),
        along: "channels",
        x_title: "channels that have a hit at each trigger",
        ..shape(measured)
    })
}

fn prepared() -> Settings {
    Settings { prepared: true, prepared_mib: 8, ..Settings::default() }
}

fn shape(points: Vec<Measurement>) -> Sweep {
    Sweep {
        bench: "",
        title: String::new(),
        along: "",
        x_title: "",
        lines: Some("line"),
        points,
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: true,
        guides: Vec::new(),
    }
}

fn sweep(
    bench: &'static str,
    points: Vec<Point>,
    conditions: &Conditions,
    drawn: impl FnOnce(Vec<Measurement>) -> Sweep,
) -> Result<Measured, BenchError> {
    let fail = |message: String| BenchError::Room { bench, message };
    let measured: Result<Vec<Measurement>, String> =
        points.into_iter().map(|point| search(bench, point, conditions)).collect();
    Ok(drawn(measured.map_err(fail)?).measured())
}

/// Whether everything went through at a rate, and the rate of triggers that the board reached.
struct Trial {
    went_through: bool,
    board_was_late: bool,
    sent_hz: f64,
}

fn search(bench: &'static str, point: Point, conditions: &Conditions) -> Result<Measurement, String> {
    let Point { board, board_hz, parameters } = point;
    let hits = if board.firmware == Firmware::Scope { 1.0 } else { f64::from(board.channels) };
    let event_bytes = board.event_bytes() * hits;
    let link_hz = LINK_BYTES_PER_S / event_bytes;
    let highest_hz = board_hz.min(ABOVE_LINK * link_hz);
    let folder = conditions.folder();
    let seconds = conditions.seconds.min(TURN_S);
    let at = |rate_hz: f64| trial(bench, &board, rate_hz, &folder, seconds);
    let (mut reached_hz, mut too_high_hz, mut rate_hz) = (0.0, highest_hz, highest_hz);
    let mut bound = "board";
    for _ in 0..=TURNS {
        let trial = at(rate_hz)?;
        if trial.went_through {
            reached_hz = trial.sent_hz;
            if rate_hz == highest_hz {
                break;
            }
        } else {
            too_high_hz = rate_hz;
            bound = if trial.board_was_late { "emulated board" } else { "receiver" };
        }
        rate_hz = (reached_hz + too_high_hz) / 2.0;
    }
    if reached_hz > link_hz {
        bound = "link, calculated";
    }
    let figure = Measurement {
        bench: bench.to_owned(),
        value: reached_hz,
        unit: "triggers/s".to_owned(),
        baseline: "what 10 Gb/s Ethernet carries, or the board makes, whichever is less".to_owned(),
        baseline_value: link_hz.min(board_hz),
        ratio: reached_hz / link_hz.min(board_hz),
        cores: 2,
        repeats: 1,
        ..Measurement::default()
    };
    let figure = figure
        .with("event_bytes", event_bytes)
        .with("bytes_per_s", reached_hz * event_bytes)
        .with("bound_by", bound);
    Ok(parameters.into_iter().fold(figure, |figure, (name, value)| figure.with(name, value)))
}

fn trial(bench: &str, board: &Settings, rate_hz: f64, folder: &Path, seconds: f64) -> Result<Trial, String> {
    let board = Settings { external_trigger_hz: Some(rate_hz), ..board.clone() };
    let (asked_hz, hits) = (board.event_rate_hz(), board.hits_per_event());
    let live = LiveBoard { bench, board: &board, source: "", processing: NO_SPECTRA, tables: "[]", folder };
    let LiveTurn { hits_sent, hits_lost, elapsed_s, .. } = live.run(seconds)?;
    let sent_hz = hits_sent as f64 / hits / elapsed_s;
    let board_was_late = sent_hz < ON_TIME * asked_hz;
    // Hits at one trigger are one event of list mode.
    let triggers_hz =
        if board.firmware == Firmware::Scope { sent_hz } else { sent_hz / f64::from(board.channels) };
    Ok(Trial { went_through: hits_lost == 0 && !board_was_late, board_was_late, sent_hz: triggers_hz })
}
