//! `build-record`: what recording costs beside building, and the four lines of a detector's readout: received, built, recorded,
//! recorded with compression; and between them what it costs to write as many bytes as they are.
//!
//! ```text
//!  105 boards ─ TCP ─► Group ─► fragments, let go                                      receive
//!  105 boards ─ TCP ─► Group ─► Builder ─► events, let go                              build      (baseline of the rest)
//!  105 boards ─ TCP ─► Group ─► Builder ─► events ══► as many bytes out of one buffer   build, raw write
//!  105 boards ─ TCP ─► Group ─► Builder ─► events ══► files                            record · record, lz4
//! ```
//! The payload can be compressed to 30 %. Bytes per second are those of the clock on the wall, boards and recording included,
//! from the first trigger to the last byte given to the file system (of a disk: on the disk); all take turns, each on memory
//! that has just been touched. With fewer cores than the three busy threads (boards, reader, recorder) they share them, and
//! recording seems the slower for it: `ratio_to_raw_write` is against a thread that writes as many bytes and does nothing
//! else, and `reader_ratio` compares the processor time of the reading thread alone.
//!
//! `build-record-paced` offers triggers at 0.8 of what the disk takes, measured just before: what is compared is the rate at
//! which events were built without and with recording.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::boards::{Over, Subject, Work};
use thalweg_data::SourceError;
use thalweg_data::measure::{Measurement, median, range, warm_memory};
use thalweg_readout::RunClock;
use thalweg_record::{Compression, Settings};

use super::build::FRAGMENT_BYTES;
use super::building::Building;
use super::record::disk_rate;
use super::recorder::{Keeping, Recorder};
use super::spent::Spent;
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

const BOARDS: u16 = 105;
/// Fraction of the payload that a compressor leaves.
const RANDOM_FRACTION: f64 = 0.3;
/// A batch of events has about so much payload, as in a run.
const BATCH_BYTES: usize = 1 << 20;
/// Fraction of what the disk takes that is offered.
const PACE: f64 = 0.8;
/// Fragment size at the disk's pace: a raw one of a wire chamber board.
const PACED_BYTES: usize = 6144;

/// Measures all sizes.
pub(super) fn build_record(conditions: &Conditions) -> Result<Measured, BenchError> {
    const BENCH: &str = "build-record";
    let mut points = Vec::new();
    for bytes in FRAGMENT_BYTES {
        let work = Work::new(Over::Tcp, BOARDS, bytes).with_random_fraction(RANDOM_FRACTION);
        let measured = all_lines(BENCH, &work, &conditions.folder(), conditions.repeats)
            .map_err(|error| BenchError::Room { bench: BENCH, message: error.to_string() })?;
        points.extend(measured);
    }
    let sweep = Sweep {
        bench: BENCH,
        title: format!("{BOARDS} boards over TCP, 70 % compressible: received, built, recorded"),
        along: "fragment_bytes",
        x_title: "fragment / B",
        lines: Some("line"),
        points,
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}

/// Measures recording at the pace of the disk below the folder asked for.
pub(super) fn build_record_paced(conditions: &Conditions) -> Result<Measured, BenchError> {
    let folder = conditions.directory.clone().unwrap_or_else(std::env::temp_dir);
    let measured = paced(&folder, conditions.repeats)
        .map_err(|error| BenchError::Room { bench: "build-record-paced", message: error.to_string() })?;
    Ok(measured.into())
}

/// Boards, the thread that reads them, and what it does with their events.
struct Line {
    name: &'static str,
    subject: Subject,
    building: Option<Building>,
    keeping: Option<Keeping>,
    turns: Vec<Spent>,
}

impl Line {
    fn open(name: &'static str, work: &Work, keeping: Option<Keeping>) -> Result<Line, SourceError> {
        let subject = Subject::open(work, RunClock::start())?;
        let event_bytes = work.fragment_bytes() * usize::from(work.boards());
        let mut building = if name == "receive" { None } else { Some(Building::new(work.boards())?) };
        if let Some(building) = &mut building {
            building.events_per_batch = (BATCH_BYTES / event_bytes).clamp(1, 256);
        }
        Ok(Line { name, subject, building, keeping, turns: Vec::new() })
    }

    /// One turn of the boards, to the last byte on file.
    fn turn(&mut self, work: &Work, folder: &Path) -> Result<Spent, SourceError> {
        let Line { subject, building, keeping, .. } = self;
        warm_memory(work.bytes());
        let Some(building) = building else {
            let start = Instant::now();
            let processor = subject.turn(work)?;
            return Ok(Spent { processor, wall: start.elapsed() });
        };
        let Some(keeping) = keeping else {
            let start = Instant::now();
            let processor = subject.turn_with(work, &mut |group| building.turn(group))?;
            return Ok(Spent { processor, wall: start.elapsed() });
        };
        let mut recorder = Recorder::begin(folder, keeping, work.boards())?;
        let (start, before) = (Instant::now(), building.built);
        let read = subject
            .turn_with(work, &mut |group| building.turn_with(group, &mut |events| recorder.take(events)));
        let (on_file, files) = recorder.finish()?;
        let spent = Spent { processor: read?, wall: start.elapsed() };
        Recorder::remove(&files)?;
        match building.built - before {
            built if built == on_file => Ok(spent),
            built => {
                let message = format!("{on_file} of {built} events are on file");
                Err(SourceError { place: files.display().to_string(), message })
            }
        }
    }

    fn median(&self, of: impl Fn(&Spent) -> Duration) -> f64 {
        median(&mut self.turns.iter().map(|spent| of(spent).as_secs_f64()).collect::<Vec<_>>())
    }

    /// Returns how many times faster this is than `other`: the median over adjacent turns.
    fn speed_against(&self, other: &Line, of: impl Fn(&Spent) -> Duration) -> f64 {
        median(&mut self.speeds_against(other, of))
    }

    fn speeds_against(&self, other: &Line, of: impl Fn(&Spent) -> Duration) -> Vec<f64> {
        let pairs = self.turns.iter().zip(&other.turns);
        pairs.map(|(own, other)| of(other).as_secs_f64() / of(own).as_secs_f64()).collect()
    }

    fn measured(&self, bench: &str, build: &Line, work: &Work, folder: &Path) -> Measurement {
        let bytes = work.bytes() as f64;
        let wall = |spent: &Spent| spent.wall;
        Measurement {
            bench: bench.to_owned(),
            value: bytes / self.median(wall),
            unit: "B/s".to_owned(),
            baseline: "building alone".to_owned(),
            baseline_value: bytes / build.median(wall),
            ratio: self.speed_against(build, wall),
            ratio_range: Some(range(&self.speeds_against(build, wall))),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            repeats: self.turns.len(),
            ..Measurement::default()
        }
        .with("boards", work.boards())
        .with("line", self.name)
        .with("fragment_bytes", work.fragment_bytes())
        .with("reader_ratio", self.speed_against(build, |spent| spent.processor))
        .with("time", "wall clock, until everything is on file")
        .with("directory", folder.display().to_string())
    }
}

/// Makes the lines take turns, one more than is counted.
fn take_turns(lines: &mut [Line], work: &Work, folder: &Path, repeats: usize) -> Result<(), SourceError> {
    for turn in 0..=repeats.max(1) {
        for line in &mut *lines {
            let spent = line.turn(work, folder)?;
            if turn > 0 {
                line.turns.push(spent);
            }
        }
    }
    Ok(())
}

/// The lines of some work, each with its ratio to building alone.
pub(super) fn all_lines(
    bench: &str,
    work: &Work,
    folder: &Path,
    repeats: usize,
) -> Result<Vec<Measurement>, SourceError> {
    let lz4 = Settings { compression: Compression::Lz4, ..Settings::default() };
    let mut lines = [
        Line::open("receive", work, None)?,
        Line::open("build", work, None)?,
        Line::open("build, raw write", work, Some(Keeping::RawWrite))?,
        Line::open("record", work, Some(Keeping::Tables(Box::default())))?,
        Line::open("record, lz4", work, Some(Keeping::Tables(Box::new(lz4))))?,
    ];
    take_turns(&mut lines, work, folder, repeats)?;
    let [_, build, raw_write, ..] = &lines;
    let measured = |line: &Line| {
        let to_raw_write = line.speed_against(raw_write, |spent| spent.wall);
        line.measured(bench, build, work, folder).with("ratio_to_raw_write", to_raw_write)
    };
    Ok(lines.iter().map(measured).collect())
}

fn paced(folder: &Path, repeats: usize) -> Result<Measurement, SourceError> {
    let failed = |cause: std::io::Error| SourceError {
        place: folder.display().to_string(),
        message: format!("its disk cannot be measured: {cause}"),
    };
    let disk_bytes_per_second = disk_rate(folder).map_err(failed)?;
    let event_bytes = (usize::from(BOARDS) * PACED_BYTES) as f64;
    let rate_hz = PACE * disk_bytes_per_second / event_bytes;
    let work =
        Work::new(Over::Tcp, BOARDS, PACED_BYTES).with_random_fraction(RANDOM_FRACTION).at_rate(rate_hz);
    // The end of a recording puts it on the disk, whatever is set.
    let mut lines = [
        Line::open("build", &work, None)?,
        Line::open("record", &work, Some(Keeping::Tables(Box::default())))?,
    ];
    take_turns(&mut lines, &work, folder, repeats)?;
    let [build, record] = &lines;
    Ok(record
        .measured("build-record-paced", build, &work, folder)
        .with("disk_bytes_per_second", disk_bytes_per_second)
        .with("offered_hz", rate_hz)
        .with("offered_share_of_disk", PACE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_on_file_in_every_line() {
        let folder = std::env::temp_dir();
        let work = Work::new(Over::Tcp, 4, 64 << 10).with_random_fraction(RANDOM_FRACTION);
        let lines = all_lines("build-record", &work, &folder, 1).expect("loopback and a disk are there");
        let names: Vec<_> = lines.iter().map(|line| line.parameters["line"].as_str()).collect();
        assert_eq!(names, ["receive", "build", "build, raw write", "record", "record, lz4"].map(Some));
        assert!(lines.iter().all(|line| line.value > 0.0 && line.ratio > 0.0));
    }
}
