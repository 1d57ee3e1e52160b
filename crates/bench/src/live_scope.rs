//! `live-scope`: an emulated board sends waveforms over loopback UDP at more than 10 Gb/s Ethernet carries; they are received,
//! decoded, recorded.
//!
//! ```text
//!  emulated board (prepared data) ─ UDP 8972 B ─► receive, find events     "received": decoding is off
//!                                              ─► decode ─► time order     "decoded"
//!                                              ─► hits, waveforms ─► files "recorded"
//! ```
//! The baseline is what the board sent: the ratio is the fraction that arrived. Two cores: the sender takes one of them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Measurement, median, range};
use thalweg_data::{Busy, Frames, Framing, Received, SourceId, Unit};
use thalweg_frontend::digitizer2::emulate::settings::Firmware;
use thalweg_frontend::digitizer2::{UdpUnpack, emulate};
use thalweg_readout::host::HostedBoard;
use thalweg_readout::{RunClock, Settings, SourceUrl, open};
use thalweg_run::plot::Series;

use super::live_board::{LINK_BYTES_PER_S, LiveBoard, LiveTurn, NO_SPECTRA};
use super::record::disk_rate;
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

const BENCH: &str = "live-scope";
/// What the board is asked for: a little more.
const OFFERED_BYTES_PER_S: f64 = 1.17e9;
/// Buffer of the socket, and memory of the source: a second's data would be more.
const RECEIVE_BUFFER_BYTES: u32 = 256 << 20;
/// An external trigger at which records of any length follow each other.
const GAPLESS_HZ: f64 = 1e9;
const WAIT: Duration = Duration::from_millis(1);

/// How far the data go.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Received,
    Decoded,
    Recorded,
}

impl Stage {
    const ALL: [Stage; 3] = [Stage::Received, Stage::Decoded, Stage::Recorded];

    fn name(self) -> &'static str {
        match self {
            Stage::Received => "received",
            Stage::Decoded => "decoded",
            Stage::Recorded => "recorded",
        }
    }
}

/// What a board sends.
#[derive(Clone, Copy)]
struct Content {
    name: &'static str,
    firmware: Firmware,
    channels: u16,
    samples: u32,
    /// At an external trigger whose rate leaves no gap between records.
    is_gapless: bool,
}

/// The board of the published figure in three ways, and one channel without any gap.
const CONTENTS: [Content; 4] = [
    Content {
        name: "hits of 2064 B",
        firmware: Firmware::Psd,
        channels: 64,
        samples: 508,
        is_gapless: false,
    },
    Content {
        name: "64 channels × 64 samples",
        firmware: Firmware::Scope,
        channels: 64,
        samples: 64,
        is_gapless: false,
    },
    Content {
        name: "1 channel at 500 MS/s, no gap",
        firmware: Firmware::Scope,
        channels: 1,
        samples: 32_768,
        is_gapless: true,
    },
    Content {
        name: "64 channels × 1024 samples",
        firmware: Firmware::Scope,
        channels: 64,
        samples: 1024,
        is_gapless: false,
    },
];

impl Content {
    fn board(self) -> emulate::Settings {
        let mut board = emulate::Settings {
            firmware: self.firmware,
            channels: self.channels,
            waveform_samples: self.samples,
            external_trigger_hz: self.is_gapless.then_some(GAPLESS_HZ),
            sampling_mhz: 500,
            prepared: true,
            prepared_mib: 8,
            aligned_datagrams: false,
            ..emulate::Settings::default()
        };
        board.total_rate_hz = Some(OFFERED_BYTES_PER_S / board.event_bytes());
        board
    }

    /// Bytes of one hit on the wire: a scope event has one for each channel.
    fn hit_bytes(self) -> f64 {
        let board = self.board();
        board.event_bytes() / board.hits_per_event()
    }
}

/// All stages of all contents.
pub(super) fn live_scope(conditions: &Conditions) -> Result<Measured, BenchError> {
    let fail = |message: String| BenchError::Room { bench: BENCH, message };
    let disk_bytes_per_s = disk_rate(&conditions.folder()).map_err(|error| fail(error.to_string()))?;
    let mut points = Vec::new();
    for stage in Stage::ALL {
        for content in CONTENTS {
            let point = measure(stage, content, conditions).map_err(fail)?;
            let to_raw_write = point.value / disk_bytes_per_s;
            points.push(match stage {
                Stage::Received | Stage::Decoded => point,
                Stage::Recorded => point
                    .with("directory", conditions.folder().display().to_string())
                    .with("raw_write_bytes_per_s", disk_bytes_per_s)
                    .with("to_raw_write", to_raw_write),
            });
        }
    }
    let ends = [2e3, 2e5].map(|bytes| (bytes, LINK_BYTES_PER_S));
    let sweep = Sweep {
        bench: BENCH,
        title: "Waveforms of one board over loopback UDP".to_owned(),
        along: "event_bytes",
        x_title: "bytes of an event",
        lines: Some("stage"),
        points,
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: vec![Series { name: "10 Gb/s Ethernet".to_owned(), points: ends.to_vec() }],
    };
    Ok(sweep.measured())
}

fn measure(stage: Stage, content: Content, conditions: &Conditions) -> Result<Measurement, String> {
    let (mut taken, mut sent, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lost, mut joined) = (0, None);
    for _ in 0..conditions.repeats.max(1) {
        let turn = match stage {
            Stage::Received => received(content, conditions.seconds)?,
            Stage::Decoded => run(content, "[]", &conditions.folder(), conditions.seconds)?,
            Stage::Recorded => {
                run(content, "[\"hits\", \"waveforms\"]", &conditions.folder(), conditions.seconds)?
            }
        };
        let bytes_per_s = |hits: u64| hits as f64 * content.hit_bytes() / turn.elapsed_s;
        taken.push(bytes_per_s(turn.hits_taken));
        sent.push(bytes_per_s(turn.hits_sent));
        ratios.push(turn.hits_taken as f64 / turn.hits_sent as f64);
        lost += turn.hits_lost;
        joined = turn.records_joined;
    }
    let figure = Measurement {
        bench: BENCH.to_owned(),
        value: median(&mut taken),
        unit: "B/s".to_owned(),
        baseline: "bytes of waveforms sent by the emulated board".to_owned(),
        baseline_value: median(&mut sent),
        ratio_range: Some(range(&ratios)),
        ratio: median(&mut ratios),
        cores: 2,
        repeats: conditions.repeats.max(1),
        ..Measurement::default()
    };
    let figure = figure
        .with("stage", stage.name())
        .with("content", content.name)
        .with("event_bytes", content.board().event_bytes())
        .with("offered_bytes_per_s", OFFERED_BYTES_PER_S)
        .with("seconds", conditions.seconds)
        .with("hits_lost", lost);
    Ok(match joined {
        Some(joined) if content.is_gapless => figure.with("records_joined", joined),
        _ => figure,
    })
}

/// Receives, and finds events without decoding them.
fn received(content: Content, seconds: f64) -> Result<LiveTurn, String> {
    let clock = RunClock::start();
    let url = SourceUrl::parse("emulate://").map_err(|error| error.to_string())?;
    let settings = Settings {
        receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
        memory_bytes: Some(RECEIVE_BUFFER_BYTES.into()),
        ..Settings::new(url)
    };
    let mut opened = open(&settings, clock, &Arc::<Busy>::default()).map_err(|error| error.to_string())?;
    let to = opened.address.ok_or("an emulated board needs an address")?;
    let board = HostedBoard::streaming(content.board(), to).map_err(|error| error.to_string())?;
    let record = board.sent_record().cloned().ok_or("a streaming board records what it sends")?;
    let mut unpack = UdpUnpack::of_armed_board(SourceId(0), 64 << 20).asking(record);
    let (mut frames, mut units) = (Frames::default(), Frames::default());
    let begun = Instant::now();
    board.start();
    let mut is_stopped = false;
    loop {
        frames.clear();
        let got = opened.source.receive(&mut frames, WAIT).map_err(|error| error.to_string())?;
        units.clear();
        unpack.frame(&frames, &mut units);
        if !is_stopped && begun.elapsed().as_secs_f64() >= seconds {
            board.stop();
            is_stopped = true;
        }
        if is_stopped && board.is_silent() && got == Received::Idle {
            break;
        }
    }
    let elapsed_s = begun.elapsed().as_secs_f64();
    if let Some(failure) = board.failures().into_iter().next() {
        return Err(failure);
    }
    let wire = &unpack.wire_counters()[0];
    Ok(LiveTurn {
        hits_sent: board.totals().sent.hits,
        hits_taken: wire.total_output(Unit::Hits),
        hits_lost: wire.total_lost_any(Unit::Hits),
        elapsed_s,
        records_joined: None,
    })
}

/// A run that keeps these tables.
fn run(content: Content, tables: &str, folder: &Path, seconds: f64) -> Result<LiveTurn, String> {
    let source =
        format!("receive_buffer_bytes = {RECEIVE_BUFFER_BYTES}\nmemory_bytes = {RECEIVE_BUFFER_BYTES}\n");
    let board = content.board();
    LiveBoard { bench: BENCH, board: &board, source: &source, processing: NO_SPECTRA, tables, folder }
        .run(seconds)
}
