//! `build`: the cost of building events on top of receiving their fragments, for few boards and many, small fragments and large.
//!
//! ```text
//!  N emulated boards ─ TCP ─► Group: receive, split ─► Builder ─► events, let go         the subject
//!  N emulated boards ─ TCP ─► Group: receive, split ─► kept until all have come as far   our receive, keeping
//!  N emulated boards ─ TCP ─► Group: receive, split ─► let go at once                    our receive
//!  N emulated boards ─ TCP ─► epoll, recv                                                the bare loop
//! ```
//! They are read in turn by one thread, each from boards of its own that answer the same triggers, as fast as they are read; the boards share one
//! other thread. What is compared is
//! - the processor time of the reading thread: `value`, `ratio` (to the bare loop), `ratio_to_receive_keeping`, `ratio_to_receive`. It
//!   leaves out what the boards do and waiting for them, and is what more boards, or faster ones, would meet;
//! - the time on the wall, `wall_…`: what went through, boards included. On loopback the boards are the slower half.
//!
//! Fragments that are let go at once lie in one block per link, which is written over and over while it is in the cache. Those that wait
//! for the other boards' answers lie in more: `blocks_kept` per link at the fullest moment of a turn before the counted ones. How many
//! that are is decided by how far the boards are out of step, not by who keeps them. So the bare loop writes through as many, and one
//! of the two receives keeps each block as long as building has to: `ratio_to_receive_keeping` contains the cost of building alone,
//! `ratio_to_receive` also that of the memory.

use std::time::{Duration, Instant};

use crate::boards::{Bare, Over, Subject, Work};
use thalweg_data::SourceError;
use thalweg_data::measure::{Clock, Measurement, median, range};
use thalweg_readout::RunClock;

use super::building::Building;
use super::spent::Spent;
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

/// Each board can keep half a MiB, in its FIFO and in the kernel's send buffer.
const BUILD: Shape = Shape { bench: "build", held_bytes: None };
/// 128 KiB instead. Less than 64 KiB in the kernel is less than a segment on loopback, and waits for acknowledgements.
const IN_STEP: Shape = Shape { bench: "build-in-step", held_bytes: Some(64 << 10) };
/// Bytes of a fragment, header included: a zero-suppressed wire chamber board's, a camera's, a raw one's, waveforms.
pub(super) const FRAGMENT_BYTES: [usize; 5] = [380, 1 << 10, 6 << 10, 16 << 10, 64 << 10];
const BOARDS: [u16; 5] = [2, 8, 105, 265, 512];

/// The distance by which one board may be ahead of another.
#[derive(Clone, Copy)]
struct Shape {
    bench: &'static str,
    held_bytes: Option<usize>,
}

/// Measures all numbers of boards and sizes.
pub(super) fn build(conditions: &Conditions) -> Result<Measured, BenchError> {
    sweep(BUILD, conditions)
}

/// The same from boards that hold little, so that they stay in step.
pub(super) fn build_in_step(conditions: &Conditions) -> Result<Measured, BenchError> {
    sweep(IN_STEP, conditions)
}

fn sweep(shape: Shape, conditions: &Conditions) -> Result<Measured, BenchError> {
    let mut points = Vec::new();
    for boards in BOARDS {
        for bytes in FRAGMENT_BYTES {
            let measured = build_of(shape, (boards, bytes), conditions.repeats)
                .map_err(|error| BenchError::Room { bench: shape.bench, message: error.to_string() })?;
            points.push(measured);
        }
    }
    let sweep = Sweep {
        bench: shape.bench,
        title: "Building events over TCP, processor time of one thread".to_owned(),
        along: "fragment_bytes",
        x_title: "fragment / B",
        lines: Some("links"),
        points,
        shows_ratio: true,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}

/// What a turn costs that says its processor time.
fn spent(turn: impl FnOnce() -> Result<Duration, SourceError>) -> Result<Spent, SourceError> {
    let start = Instant::now();
    let processor = turn()?;
    Ok(Spent { processor, wall: start.elapsed() })
}

/// The turns of one of them.
struct Turns(Vec<Spent>);

impl Turns {
    fn median(&self, of: impl Fn(&Spent) -> Duration) -> f64 {
        median(&mut self.0.iter().map(|spent| of(spent).as_secs_f64()).collect::<Vec<_>>())
    }

    /// Returns how many times faster these are than `other`: the median over pairs of adjacent turns.
    fn speed_against(&self, other: &Turns, of: impl Fn(&Spent) -> Duration) -> f64 {
        median(&mut self.speeds_against(other, of))
    }

    fn speeds_against(&self, other: &Turns, of: impl Fn(&Spent) -> Duration) -> Vec<f64> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.map(|(own, other)| of(other).as_secs_f64() / of(own).as_secs_f64()).collect()
    }
}

/// Builds fragments of `fragment_bytes` of `boards` boards, `repeats` times.
fn build_of(
    shape: Shape,
    (boards, fragment_bytes): (u16, usize),
    repeats: usize,
) -> Result<Measurement, SourceError> {
    let work = Work::new(Over::Tcp, boards, fragment_bytes).holding(shape.held_bytes);
    let clock = RunClock::start();
    let (mut builds, mut receives) = (Subject::open(&work, clock)?, Subject::open(&work, clock)?);
    let mut keeps = Subject::open(&work, clock)?;
    let block_bytes = builds.block_bytes();
    let mut building = Building::new(boards)?;
    builds.turn_with(&work, &mut |group| building.turn(group))?;
    let blocks_kept = building.most_blocks.div_ceil(usize::from(boards)).max(1);
    let mut build = || spent(|| builds.turn_with(&work, &mut |group| building.turn(group)));
    let mut bare = Bare::open(&work, blocks_kept, block_bytes)?;
    let [mut built, mut kept, mut received, mut read] = [const { Turns(Vec::new()) }; 4];
    for turn in 0..=repeats.max(1) {
        let spent = [
            spent(|| bare.turn(&work))?,
            spent(|| receives.turn(&work))?,
            spent(|| keeps.turn_keeping(&work))?,
            build()?,
        ];
        if turn > 0 {
            [&mut read, &mut received, &mut kept, &mut built]
                .into_iter()
                .zip(spent)
                .for_each(|(all, one)| all.0.push(one));
        }
    }
    let (processor, wall) = (|spent: &Spent| spent.processor, |spent: &Spent| spent.wall);
    let fragments = work.fragments() as f64;
    let wall_rate = fragments / built.median(wall);
    Ok(Measurement {
        bench: shape.bench.to_owned(),
        value: fragments / built.median(processor),
        unit: "fragments/s".to_owned(),
        baseline: "a bare epoll and recv loop over as many connections, as much memory written through"
            .to_owned(),
        baseline_value: fragments / read.median(processor),
        ratio: built.speed_against(&read, processor),
        ratio_range: Some(range(&built.speeds_against(&read, processor))),
        clock: Clock::Processor,
        cores: 1,
        repeats: repeats.max(1),
        ..Measurement::default()
    }
    .with("boards", boards)
    .with("links", format!("{boards} boards"))
    .with("fragment_bytes", fragment_bytes)
    .with("time", "processor time of the reading thread, while the boards send")
    .with("ratio_to_receive_keeping", built.speed_against(&kept, processor))
    .with("ratio_to_receive", built.speed_against(&received, processor))
    .with("receive_keeping_fragments_per_second", fragments / kept.median(processor))
    .with("receive_fragments_per_second", fragments / received.median(processor))
    .with("bytes_per_second", fragments * fragment_bytes as f64 / built.median(processor))
    .with("wall_fragments_per_second", wall_rate)
    .with("wall_bytes_per_second", wall_rate * fragment_bytes as f64)
    .with("wall_ratio", built.speed_against(&read, wall))
    .with("wall_ratio_to_receive", built.speed_against(&received, wall))
    .with("blocks_kept", blocks_kept)
    .with("block_bytes", block_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_is_built_and_held_against_both() {
        let measured = build_of(IN_STEP, (3, 16 << 10), 1).expect("loopback is there");
        for part in
            ["ratio_to_receive_keeping", "ratio_to_receive", "wall_ratio", "wall_fragments_per_second"]
        {
            assert!(measured.parameters[part].as_f64().is_some_and(|value| value > 0.0), "{part}");
        }
        assert!(measured.value > 0.0 && measured.baseline_value > 0.0 && measured.ratio > 0.0);
    }
}
