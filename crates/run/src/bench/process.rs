//! `process`: from received bytes in memory to spectra, events and a file, on one core.
//!
//! ```text
//!  datagrams of 8 boards × 64 channels ─► unpack ─► decode ─► time order ─► cuts ─► coincidence ─► spectra ─► Arrow file
//!  yardstick: a copy of the same bytes
//! ```
//! The figure is that of all stages; beside it stands one for each stage added. What is counted is the processor time of the thread, so
//! that others on the machine decide less.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thalweg_data::measure::{Measurement, compare};
use thalweg_data::{Decode, Frames, HitEvents, Hits, Sink, SourceId, Unit, Unpack};
use thalweg_frontend::digitizer2::{Decoder, Settings as DecodeSettings, UdpUnpack};
use thalweg_order::channels::{ChannelMap, ChannelSettings, SourceChannels};
use thalweg_order::process::{Processor, Settings};
use thalweg_order::{Pushed, TimeOrder, coincide, cut};
use thalweg_record::HitWriter;
use thalweg_transport::thread_cpu_time;

use super::path::{Input, LARGEST_UNIT_BYTES, Shape};
use super::{BenchError, Conditions, Measured};
use crate::pipeline::OUTPUT_HITS;

const CHANNELS: u16 = 64;
/// Long enough that the first touch of the spectra's memory, which a run has once, weighs little.
const SHAPE: Shape = Shape { boards: 8, board_rate_hz: 5e6, seconds: 0.5, prepared: false };
/// The stages, each with all before it.
const STAGES: [&str; 6] = ["decode", "order", "cuts", "coincidence", "spectra", "record"];

/// Runs the bench.
pub(super) fn process(conditions: &Conditions) -> Result<Measured, BenchError> {
    let fail = |message: String| BenchError::Room { bench: "process", message };
    let input = Input::new(SHAPE).map_err(fail)?;
    let folder = conditions.folder();
    let mut copied = vec![0u8; input.bytes];
    let mut failure = None;
    let mut compared = |run: &mut dyn FnMut() -> Result<Duration, String>| {
        let subject = || {
            run().unwrap_or_else(|message| {
                failure = Some(message);
                Duration::from_secs(1)
            })
        };
        let yardstick = || {
            let start = thread_cpu_time();
            input.copy(&mut copied);
            thread_cpu_time() - start
        };
        compare(conditions.repeats, subject, yardstick)
    };
    let rate = |comparison: &thalweg_data::measure::Comparison| input.hits as f64 / comparison.subject_s;
    let mut rows = serde_json::Map::new();
    let mut last = None;
    for (stage, name) in STAGES.iter().enumerate() {
        let comparison = compared(&mut || one_core(&input, stage, &folder));
        rows.insert((*name).to_owned(), rate(&comparison).into());
        last = Some(comparison);
    }
    if let Some(message) = failure {
        return Err(fail(message));
    }
    let comparison = last.ok_or_else(|| fail("there are no stages".to_owned()))?;
    Ok(Measurement::of_rate("process", "hits/s", input.hits as f64, "copy of the received bytes", comparison)
        .repeated(conditions.repeats)
        .with("hits", input.hits)
        .with("bytes", input.bytes)
        .with("up_to_stage", rows)
        .with("directory", folder.display().to_string())
        .into())
}

/// The channels of all boards, calibrated in keV.
fn map() -> Result<Arc<ChannelMap>, String> {
    let board = |number: u16| SourceChannels {
        source: SourceId(number),
        name: format!("board-{number}"),
        channels: number * CHANNELS..=(number + 1) * CHANNELS - 1,
    };
    let boards: Vec<SourceChannels> = (0..SHAPE.boards).map(board).collect();
    let calibrated =
        |number| ChannelSettings { number, energy_kev: Some(vec![0.5, 0.1]), ..ChannelSettings::default() };
    let described: Vec<ChannelSettings> = (0..SHAPE.boards * CHANNELS).map(calibrated).collect();
    ChannelMap::new(&boards, &described, &[]).map(Arc::new).map_err(|error| error.to_string())
}

/// What is configured up to a stage.
fn settings(stage: usize) -> Settings {
    let cut = |name: &str, keep: &str| cut::Settings {
        name: name.to_owned(),
        keep: keep.to_owned(),
        on: cut::Scope::Hit,
        members: cut::Quantity::Any,
    };
    let mut settings = Settings {
        cuts: vec![cut("shape", "psd > 0.05"), cut("bright", "keV > 100")],
        ..Settings::default()
    };
    if stage >= 3 {
        settings.coincidence = Some(coincide::Settings { window_ps: 3000, ..coincide::Settings::default() });
    }
    settings.spectra.enabled = stage >= 4;
    settings
}

/// The whole path over all batches; returns its time, the file's closing included.
fn one_core(input: &Input, stage: usize, folder: &Path) -> Result<Duration, String> {
    let folder = folder.join(format!("thalweg-process-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let result = one_core_in(input, stage, &folder);
    let cleaned = std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()));
    result.and_then(|time| cleaned.map(|()| time))
}

fn one_core_in(input: &Input, stage: usize, folder: &Path) -> Result<Duration, String> {
    let names: Vec<String> = (0..SHAPE.boards).map(|board| format!("board-{board}")).collect();
    let mut boards = boards()?;
    let mut order = TimeOrder::new(&thalweg_order::Settings::default(), names.len(), OUTPUT_HITS);
    let (mut processor, _set) =
        Processor::new(&settings(stage), &map()?, &names).map_err(|error| error.to_string())?;
    let mut writer = HitWriter::create(folder, &thalweg_record::Settings::default(), &names)
        .map_err(|error| error.to_string())?;
    let (mut units, mut hits, mut merged) = (Frames::default(), Hits::default(), Hits::default());
    let (mut seen, mut events) = (0, 0);
    let start = thread_cpu_time();
    for frames in &input.batches {
        let (unpack, decode) = &mut boards[frames.header.source.index()];
        unpack.unpack(frames, &mut units);
        (units.header, hits.header) = (frames.header, frames.header);
        decode.decode(&units, &mut hits);
        units.clear();
        if stage == 0 {
            seen += hits.hits.len() as u64;
            hits.clear();
            continue;
        }
        if order.push(&mut hits).map_err(|error| error.to_string())? == Pushed::Full {
            return Err("the memory for ordering is too small for this bench".to_owned());
        }
        hits.clear();
        while order.pull(&mut merged) {
            seen += merged.hits.len() as u64;
            if stage >= 2 {
                let count = |made: &HitEvents| {
                    events += made.events.len();
                    Ok::<(), String>(())
                };
                processor.process(&merged, count).1?;
            }
            if stage >= 5 {
                writer.write(&merged).map_err(|error| error.to_string())?;
            }
            merged.clear();
        }
    }
    // What waits to be counted belongs to the cost.
    processor.settle();
    writer.finish().map_err(|error| error.to_string())?;
    let time = thread_cpu_time() - start;
    let recorded: u64 =
        (0..SHAPE.boards).map(|board| writer.tally(SourceId(board)).total_output(Unit::Hits)).sum();
    match seen == input.hits && (stage < 5 || recorded == seen) {
        true => Ok(time),
        false => Err(format!("{seen} of {} hits came through, {recorded} were recorded", input.hits)),
    }
}

/// What takes each board's bytes apart.
fn boards() -> Result<Vec<(UdpUnpack, Decoder)>, String> {
    let board = |board: u16| {
        let settings = DecodeSettings { first_channel: board * CHANNELS, ..DecodeSettings::default() };
        let decoder = Decoder::new(SourceId(board), &settings).map_err(|error| error.to_string())?;
        Ok((UdpUnpack::new(SourceId(board), LARGEST_UNIT_BYTES), decoder))
    };
    (0..SHAPE.boards).map(board).collect()
}
