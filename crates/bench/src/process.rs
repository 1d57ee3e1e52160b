//! `process`: from received bytes in memory to spectra, events and a file, on one core and on two.
//!
//! ```text
//!  datagrams of 8 boards × 64 channels ─► unpack ─► decode ─► time order ─► cuts ─► coincidence ─► Arrow file ─► spectra
//!  on two cores, split as in a run: either  unpack ─► decode ══╗                            ╔══► spectra     core 1
//!                                   core 0                     ╚══► order ─► cuts ─► coinc. ─╬══► Arrow file  either
//!  baseline: a copy of the same bytes
//! ```
//! The figure is that of all stages on one core; beside it stands one for each stage added. What is counted of one core is the processor
//! time of the thread, so that others on the machine decide less. Two cores take turns with one by the clock on the wall. The two threads with
//! the most to do have a core each: in half a second the system finds no better place for a thread than beside the one that wakes it. Those
//! that decode and write run where there is time, as in a run: which core has more of it depends on the processor.

use std::path::Path;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use thalweg_analysis::channels::{ChannelMap, ChannelSettings, SourceChannels};
use thalweg_analysis::coincide;
use thalweg_analysis::cut;
use thalweg_analysis::process::{Processor, Selected, Settings, Stages, stages};
use thalweg_data::measure::{Clock, Comparison, Measurement, compare, warm_memory};
use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{Frames, Hit, HitEvents, Hits, Sink, SourceId, Unit};
use thalweg_order::{Pushed, TimeOrder};
use thalweg_record::HitWriter;
use thalweg_transport::placement::{Machine, Place, Standing};
use thalweg_transport::thread_cpu_time;

use super::path::{Input, Shape};
use super::reader::{CHANNELS, DECODED_BATCHES, Reader, WAIT};
use super::spent::Spent;
use super::{BenchError, Conditions, Measured};
use thalweg_run::bench::{OUTPUT_HITS, SELECTED_BATCHES};

/// Long enough that the first touch of the spectra's memory, which a run has once, weighs little.
const SHAPE: Shape = Shape { boards: 8, board_rate_hz: 5e6, seconds: 0.5, prepared: false };
/// Decoded batches of all boards together, a quarter of what a run has for as many: with half of these, threads on one core wait for each other.
const SHARED_BATCHES: usize = 2 * DECODED_BATCHES;
/// The stages, each with all before it.
const STAGES: [&str; 6] = ["decode", "order", "cuts", "coincidence", "spectra", "record"];

/// Runs the bench.
pub(super) fn process(conditions: &Conditions) -> Result<Measured, BenchError> {
    let fail = |message: String| BenchError::Room { bench: "process", message };
    let input = Input::new(SHAPE).map_err(fail)?;
    let folder = conditions.folder();
    let mut copied = input.room_for_copy();
    let mut failure = None;
    let mut turn = |stage: usize, cores: usize| {
        turn_in(&input, (stage, cores), &folder).unwrap_or_else(|message| {
            failure = Some(message);
            Spent { processor: Duration::from_secs(1), wall: Duration::from_secs(1) }
        })
    };
    let mut baseline = || {
        let start = thread_cpu_time();
        input.copy(&mut copied);
        thread_cpu_time() - start
    };
    let rate = |comparison: &Comparison| input.hits as f64 / comparison.subject_s;
    let mut rows = serde_json::Map::new();
    let mut last = None;
    for (stage, name) in STAGES.iter().enumerate() {
        let comparison =
            compare(Clock::Processor, conditions.repeats, || turn(stage, 1).processor, &mut baseline);
        rows.insert((*name).to_owned(), rate(&comparison).into());
        last = Some(comparison);
    }
    let everything = STAGES.len() - 1;
    let turn = std::cell::RefCell::new(turn);
    let wall = |cores| turn.borrow_mut()(everything, cores).wall;
    let two_cores = compare(Clock::Wall, conditions.repeats, || wall(2), || wall(1));
    if let Some(message) = failure {
        return Err(fail(message));
    }
    let comparison = last.ok_or_else(|| fail("there are no stages".to_owned()))?;
    Ok(Measurement::of_rate("process", "hits/s", input.hits as f64, "copy of the received bytes", comparison)
        .repeated(conditions.repeats)
        .with("hits", input.hits)
        .with("bytes", input.bytes)
        .with("up_to_stage", rows)
        .with("two_cores", rate(&two_cores))
        .with("two_cores_to_one", two_cores.speed_ratio)
        .with("two_cores_to_one_range", two_cores.ratio_range.to_vec())
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

/// Returns the settings of the stages up to one stage.
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
fn turn_in(input: &Input, how: (usize, usize), folder: &Path) -> Result<Spent, String> {
    let folder = folder.join(format!("thalweg-process-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    warm_memory(input.hits as usize * size_of::<Hit>());
    let result = std::thread::scope(|scope| turn_on(input, how, &folder, scope));
    let cleaned = std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()));
    result.and_then(|time| cleaned.map(|()| time))
}

/// The place where received bytes are decoded: on the same core, or on another.
enum Ahead<'i> {
    Here(std::slice::Iter<'i, Frames>, Reader),
    There(Downstream<Hits>),
}

impl Ahead<'_> {
    /// Replaces `hits` by those of the next batch; `false` at the end.
    fn next(&mut self, hits: &mut Hits) -> bool {
        match self {
            Ahead::Here(batches, reader) => {
                let next = batches.next();
                next.into_iter().for_each(|frames| reader.read(frames, hits));
                next.is_some()
            }
            Ahead::There(inlet) => loop {
                if let Some(batch) = inlet.receive_wait(WAIT) {
                    inlet.give_back(std::mem::replace(hits, batch));
                    return true;
                }
                if inlet.is_finished() {
                    return false;
                }
            },
        }
    }
}

/// The place where hits are processed after the recording: on the same core, or on another.
enum Behind<'s> {
    Here(Box<Processor>),
    There(Upstream<Selected>, ScopedJoinHandle<'s, Result<(), String>>),
}

impl Behind<'_> {
    fn take(&mut self, batch: &mut Selected) -> Result<(), String> {
        match self {
            Behind::Here(processor) => {
                processor.process(batch, look)?;
                batch.clear();
            }
            Behind::There(outlet, _) => {
                if !outlet.exchange(batch) {
                    return Err("the second thread has ended early".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Ends the processing; what still waits to be counted belongs to the cost.
    fn finish(self) -> Result<(), String> {
        match self {
            Behind::Here(mut processor) => {
                processor.settle();
                Ok(())
            }
            Behind::There(outlet, thread) => {
                drop(outlet);
                thread.join().unwrap_or_else(|_| Err("the second thread panicked".to_owned()))
            }
        }
    }
}

/// The calling thread, and those that it makes, on one of the cores of this process.
fn on_core(number: usize) -> Result<Standing, String> {
    let machine = Machine::this().map_err(|cause| cause.to_string())?;
    let core = machine.allowed.get(number).ok_or("two cores are needed")?;
    Place { cores: vec![*core], priority: None }.stand_here().map_err(|error| error.to_string())
}

fn look(made: &HitEvents) -> Result<(), String> {
    std::hint::black_box(made.events.len());
    Ok(())
}

fn process_all(mut inlet: Downstream<Selected>, mut processor: Processor) -> Result<(), String> {
    while !inlet.is_finished() {
        let Some(mut batch) = inlet.receive_wait(WAIT) else { continue };
        processor.process(&mut batch, look)?;
        batch.clear();
        inlet.give_back(batch);
    }
    processor.settle();
    Ok(())
}

fn turn_on<'s, 'e: 's>(
    input: &'e Input,
    (stage, cores): (usize, usize),
    folder: &Path,
    scope: &'s Scope<'s, 'e>,
) -> Result<Spent, String> {
    let names: Vec<String> = (0..SHAPE.boards).map(|board| format!("board-{board}")).collect();
    let (reader, map) = (Reader::new(0..SHAPE.boards)?, map()?);
    let mut order = TimeOrder::new(&thalweg_order::Settings::default(), names.len(), OUTPUT_HITS);
    // The spectra are kept to the end: giving their memory back is no part of the path.
    let Stages { mut selector, processor, spectra: _spectra, .. } =
        stages(&settings(stage), &map, &names).map_err(|error| error.to_string())?;
    let writer = HitWriter::create(folder, &thalweg_record::Settings::default(), &names);
    let writer = writer.and_then(|writer| if cores == 1 { Ok(writer) } else { writer.write_beside() });
    let mut writer = writer.map_err(|error| error.to_string())?;
    let (mut ahead, mut behind, _standing) = match cores {
        1 => (Ahead::Here(input.batches.iter(), reader), Behind::Here(Box::new(processor)), None),
        _ => {
            let (to_order, decoded) = circuit(SHARED_BATCHES, Hits::default);
            let (outlet, inlet) = circuit(SELECTED_BATCHES, || Selected::with_capacity(OUTPUT_HITS));
            scope.spawn(move || reader.read_all(&input.batches, to_order));
            let standing = on_core(1)?;
            let thread = scope.spawn(move || process_all(inlet, processor));
            drop(standing);
            (Ahead::There(decoded), Behind::There(outlet, thread), Some(on_core(0)?))
        }
    };
    let (mut hits, mut merged) = (Hits::default(), Selected::with_capacity(OUTPUT_HITS));
    let (mut seen, mut is_crowded) = (0, false);
    let (start, start_wall) = (thread_cpu_time(), Instant::now());
    while ahead.next(&mut hits) {
        if stage == 0 {
            seen += hits.hits.len() as u64;
            hits.clear();
            continue;
        }
        if order.push(&mut hits).map_err(|error| error.to_string())? == Pushed::Full {
            return Err("the memory for ordering is too small for this bench".to_owned());
        }
        hits.clear();
        while order.pull(&mut merged.hits) {
            seen += merged.hits.hits.len() as u64;
            if stage >= 2 {
                selector.select(&mut merged, |_| is_crowded = true);
            }
            if stage >= 5 {
                writer
                    .write_passing(&merged.hits, merged.kept().map(|kept| kept.pass))
                    .map_err(|error| error.to_string())?;
            }
            match stage >= 3 {
                true => behind.take(&mut merged)?,
                false => merged.clear(),
            }
        }
    }
    writer.finish().map_err(|error| error.to_string())?;
    behind.finish()?;
    let spent = Spent { processor: thread_cpu_time() - start, wall: start_wall.elapsed() };
    let recorded: u64 =
        (0..SHAPE.boards).map(|board| writer.counters(SourceId(board)).total_output(Unit::Hits)).sum();
    if is_crowded {
        return Err("more events were made than belong to a batch".to_owned());
    }
    match seen == input.hits && (stage < 5 || recorded == seen) {
        true => Ok(spent),
        false => Err(format!("{seen} of {} hits came through, {recorded} were recorded", input.hits)),
    }
}
