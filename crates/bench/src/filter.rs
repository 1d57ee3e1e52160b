//! `filter`: built events per second through the event filter, against the same way without it.
//!
//! ```text
//!  events in blocks ══ring══► 1, 2 workers: a number in the bytes of one board ══► let go      ┐ in turn, ratio
//!            the same ══ring══════════════════════════════════════════════════════► let go      ┘ baseline
//! ```
//! Nothing is recorded, so that what the filter costs is not hidden by a disk: rings, threads, the counting of fragments by board. The
//! expression keeps about half of the events.

use std::cell::RefCell;
use std::time::Duration;

use thalweg_analysis::event_filter::{Settings, Undecided};
use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_run::bench::filter::{Passed, pass_events};

use super::record::EventShape;
use super::record::events::{Example, Noise};
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

/// Boards of an event.
const BOARDS: [usize; 4] = [2, 8, 105, 265];
/// Threads that decide.
const WORKERS: [usize; 2] = [1, 2];
const FRAGMENT_BYTES: usize = 380;
/// Fragments per turn.
const TURN_FRAGMENTS: usize = 8_000_000;
/// Even places are noise: half of all bytes are below this.
const KEEP: &str = "u8('board 0', 100) < 128";

/// Measures every number of boards and workers.
pub(super) fn filter(conditions: &Conditions) -> Result<Measured, BenchError> {
    let mut points = Vec::new();
    for boards in BOARDS {
        for workers in WORKERS {
            let point = measure(boards, workers, TURN_FRAGMENTS, conditions.repeats);
            points.push(point.map_err(|message| BenchError::Room { bench: "filter", message })?);
        }
    }
    let sweep = Sweep {
        bench: "filter",
        title: "Built events through an event filter by their content".to_owned(),
        along: "boards",
        x_title: "boards",
        lines: Some("workers"),
        points,
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: true,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}

fn measure(
    boards: usize,
    workers: usize,
    turn_fragments: usize,
    repeats: usize,
) -> Result<Measurement, String> {
    let shape = EventShape { sources: boards, fragment_bytes: FRAGMENT_BYTES };
    let example = Example::new(shape, Noise::Half);
    let names: Vec<String> = (0..boards).map(|board| format!("board {board}")).collect();
    let events_at_once: usize = example.batches.iter().map(|batch| batch.events.len()).sum();
    let turns = (turn_fragments / boards / events_at_once).max(1);
    let settings = Settings {
        keep: KEEP.to_owned(),
        kind: "expression".to_owned(),
        workers,
        deadline_ms: 60_000,
        undecided: Undecided::Keep,
        prescale: 0,
    };
    let failure = RefCell::new(None);
    let kept = RefCell::new(0.0);
    let turn = |filter: Option<&Settings>| match pass_events(&example.batches, turns, &names, filter) {
        Ok(Passed { time, events, kept: own }) => {
            if filter.is_some() {
                *kept.borrow_mut() = own as f64 / events as f64;
            }
            time
        }
        Err(message) => {
            failure.borrow_mut().get_or_insert(message);
            Duration::from_secs(1)
        }
    };
    let compared = compare(Clock::Wall, repeats, || turn(Some(&settings)), || turn(None));
    if let Some(message) = failure.into_inner() {
        return Err(message);
    }
    let events = (turns * events_at_once) as f64;
    Ok(Measurement::of_rate("filter", "events/s", events, "the same way without a filter", compared)
        .with("boards", boards)
        .with("workers", workers)
        .with("fragment_bytes", FRAGMENT_BYTES)
        .with("keep", KEEP)
        .with("kept_share", kept.into_inner())
        .repeated(repeats))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_events_pass_and_all_are_counted() {
        let measured = measure(8, 2, 50_000, 1).expect("threads");
        let kept = measured.parameters["kept_share"].as_f64().expect("a number");
        assert!((0.3..0.7).contains(&kept), "{kept}");
        assert!(measured.value > 0.0 && measured.ratio > 0.0);
    }
}
