//! The path as the page draws it: each stage with what goes in and comes out, and every loss where it happened.
//!
//! ```text
//!  ledger by source ─ added up by path, stage and unit ─► a line per stage, in path order, with rates and losses
//!                       hits │ events
//! ```
//! Hits and triggered events go two ways and are counted in different units, so each has lines of its own: in one sum, the losses of
//! one are hidden by the unit of the other.

use std::collections::BTreeMap;

use serde::Serialize;
use thalweg_data::ledger::{Entries, Loss, Quality};
use thalweg_data::{Stage, Unit};

use crate::supervise::LiveState;

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Path {
    /// Self-triggered boards: hits, and the coincidences that are made of them.
    Hits,
    /// Triggered boards and time slices: fragments, and the events that are built of them.
    Events,
}

/// Sums of one stage in one unit.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    input: u64,
    output: u64,
    filtered: u64,
    held: u64,
    lost: u64,
}

/// All stages of one moment.
type Flow = BTreeMap<(Path, Stage, Unit), Sums>;

/// One line of the picture: a stage of one path, in one unit.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    path: Path,
    stage: Stage,
    unit: Unit,
    #[serde(rename = "in")]
    input: u64,
    #[serde(rename = "out")]
    output: u64,
    filtered: u64,
    held: u64,
    /// In `unit`; what is lost in other units is in `lost_in`.
    lost: u64,
    in_rate_hz: f64,
    out_rate_hz: f64,
    filtered_rate_hz: f64,
    /// Everything lost here, each source in the finest unit in which it is counted.
    lost_in: Vec<LostIn>,
    /// The same by source and reason, in all units.
    losses: Vec<Loss>,
    ring_fill: Option<f64>,
}

/// What a stage lost in one unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct LostIn {
    unit: Unit,
    count: u64,
    /// The least certain of its losses.
    quality: Quality,
    /// Of what came in since the start, 0 to 1; `None` where the unit comes into being.
    share: Option<f64>,
    /// Of what came in within the window of the rates.
    share_now: Option<f64>,
}

/// A stage of a path, and the units in which it may be drawn: the first that it counts.
type Place = (Stage, &'static [Unit]);

const OF_HITS: &[Unit] = &[Unit::Hits, Unit::Events, Unit::Frames, Unit::Datagrams, Unit::Bytes];
const OF_EVENTS: &[Unit] =
    &[Unit::Events, Unit::Fragments, Unit::Datagrams, Unit::Frames, Unit::Bytes, Unit::Hits];

/// The stages of hits: cuts on hits come before coincidence, those on the events that it makes behind it.
const HITS: &[Place] = &[
    (Stage::Sender, OF_HITS),
    (Stage::Wire, OF_HITS),
    (Stage::Receive, OF_HITS),
    (Stage::Raw, OF_HITS),
    (Stage::Unpack, OF_HITS),
    (Stage::Decode, OF_HITS),
    (Stage::Order, OF_HITS),
    (Stage::Cut, &[Unit::Hits]),
    (Stage::Coincide, OF_HITS),
    (Stage::Cut, &[Unit::Events]),
    (Stage::Record, OF_HITS),
];

const EVENTS: &[Place] = &[
    (Stage::Trigger, OF_EVENTS),
    (Stage::Sender, OF_EVENTS),
    (Stage::Wire, OF_EVENTS),
    (Stage::Receive, OF_EVENTS),
    (Stage::Raw, OF_EVENTS),
    (Stage::Unpack, OF_EVENTS),
    (Stage::TimeSlice, OF_EVENTS),
    (Stage::Build, OF_EVENTS),
    (Stage::Ship, OF_EVENTS),
    (Stage::Record, OF_EVENTS),
];

/// A loss that is counted in several units is shown in the first of these.
const FINEST: [Unit; 6] =
    [Unit::Hits, Unit::Fragments, Unit::Events, Unit::Frames, Unit::Datagrams, Unit::Bytes];

/// Which way what is counted here goes.
fn path(state: &LiveState, source: &str, stage: Stage, unit: Unit) -> Path {
    let is_built = matches!(stage, Stage::Trigger | Stage::TimeSlice | Stage::Build | Stage::Ship);
    let of_hits = |source: &str| state.sources.iter().any(|of| of.links == 0 && of.name == source);
    match source {
        crate::roster::COINCIDENCES => Path::Hits,
        _ if is_built || matches!(unit, Unit::Fragments | Unit::Events) => Path::Events,
        _ if of_hits(source) => Path::Hits,
        _ => Path::Events,
    }
}

/// Adds up a ledger of all sources.
fn sums(state: &LiveState, ledger: &[Entries]) -> Flow {
    let mut flow = Flow::new();
    for entry in ledger {
        let Entries { source, stage, unit, .. } = entry;
        let sums = flow.entry((path(state, source, *stage, *unit), *stage, *unit)).or_default();
        sums.input += entry.input;
        sums.output += entry.output;
        sums.filtered += entry.filtered;
        sums.held += entry.held;
        sums.lost += entry.lost.values().sum::<u64>();
    }
    flow
}

/// The lines of the picture. Counts are those of now, rates those over the state's whole snapshots.
pub(super) fn lines(state: &LiveState) -> Vec<Line> {
    let window = &state.rate_window;
    let flow = |ledger| sums(state, ledger);
    let (now, later, before) = (flow(&state.ledger), flow(&window.now), flow(&window.before));
    let places = [(Path::Hits, HITS), (Path::Events, EVENTS)];
    let places = places.into_iter().flat_map(|(path, places)| places.iter().map(move |place| (path, *place)));
    places
        .filter_map(|(path, (stage, units))| {
            let unit = units.iter().copied().find(|unit| now.contains_key(&(path, stage, *unit)))?;
            let sums = now[&(path, stage, unit)];
            let at = |flow: &Flow, unit| flow.get(&(path, stage, unit)).copied().unwrap_or_default();
            let (recent, earlier) = (at(&later, unit), at(&before, unit));
            let losses = losses(state, path, stage, units);
            Some(Line {
                path,
                stage,
                unit,
                input: sums.input,
                output: sums.output,
                filtered: sums.filtered,
                held: sums.held,
                lost: sums.lost,
                in_rate_hz: window.per_second(recent.input, earlier.input),
                out_rate_hz: window.per_second(recent.output, earlier.output),
                filtered_rate_hz: window.per_second(recent.filtered, earlier.filtered),
                lost_in: lost_in(&losses, |unit| [at(&now, unit), at(&later, unit), at(&before, unit)]),
                losses,
                ring_fill: ring_fill(state, path, stage),
            })
        })
        .collect()
}

/// The losses of one line. One that is seen as a gap and counted where it was refused is told there only.
fn losses(state: &LiveState, of: Path, stage: Stage, units: &[Unit]) -> Vec<Loss> {
    let is_here = |loss: &&Loss| {
        loss.stage == stage
            && units.contains(&loss.unit)
            && path(state, &loss.source, stage, loss.unit) == of
            && !loss.is_echo()
    };
    state.losses.iter().filter(is_here).cloned().collect()
}

/// Adds up losses by unit, each in its finest; `sums` are those of a unit now, and at the late and the early end of the window.
fn lost_in(losses: &[Loss], sums: impl Fn(Unit) -> [Sums; 3]) -> Vec<LostIn> {
    let place = |unit: Unit| FINEST.iter().position(|of| *of == unit);
    // On the wire, missing datagrams and the missing frames that were in them have reasons of their own.
    let is_same = |one: &Loss, other: &Loss| {
        one.source == other.source && (one.stage == Stage::Wire || one.reason == other.reason)
    };
    let is_finest = |loss: &&Loss| {
        losses.iter().filter(|other| is_same(loss, other)).all(|other| place(loss.unit) <= place(other.unit))
    };
    let mut found: Vec<LostIn> = Vec::new();
    for loss in losses.iter().filter(is_finest) {
        match found.iter_mut().find(|found| found.unit == loss.unit) {
            Some(found) => {
                found.count += loss.count;
                found.quality = worse(found.quality, loss.quality);
            }
            None => found.push(LostIn {
                unit: loss.unit,
                count: loss.count,
                quality: loss.quality,
                share: None,
                share_now: None,
            }),
        }
    }
    let share = |lost: u64, input: u64| (input > 0).then(|| (lost as f64 / input as f64).min(1.0));
    for lost in &mut found {
        let [now, later, before] = sums(lost.unit);
        let grown = |of: fn(&Sums) -> u64| of(&later).saturating_sub(of(&before));
        lost.share = share(lost.count, now.input);
        lost.share_now = share(grown(|sums| sums.lost), grown(|sums| sums.input));
    }
    found.sort_by_key(|lost| place(lost.unit));
    found
}

fn worse(one: Quality, other: Quality) -> Quality {
    let certainty = |quality: &Quality| match quality {
        Quality::Exact => 2,
        Quality::AtLeast => 1,
        Quality::Unknown => 0,
    };
    [one, other].into_iter().min_by_key(certainty).unwrap_or(one)
}

/// How full the ring behind a stage is, where there is one.
fn ring_fill(state: &LiveState, path: Path, stage: Stage) -> Option<f64> {
    match (path, stage) {
        (Path::Hits, Stage::Decode) => {
            let of_hits = state.sources.iter().filter(|source| source.links == 0);
            of_hits.map(|source| source.ring_fill).reduce(f64::max)
        }
        (Path::Events, Stage::Build) => state.events.as_ref().map(|events| events.look.ring_fill),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::LossReason;

    use super::*;
    use crate::supervise::SourceState;

    fn entry(source: &str, stage: Stage, unit: Unit, input: u64, lost: u64) -> Entries {
        let lost = if lost > 0 { BTreeMap::from([("frame_gap", lost)]) } else { BTreeMap::new() };
        let output = input - lost.values().sum::<u64>();
        Entries { source: source.into(), stage, unit, input, output, overhead: 0, filtered: 0, held: 0, lost }
    }

    fn loss(source: &str, stage: Stage, reason: LossReason, unit: Unit, count: u64) -> Loss {
        let (quality, advice) = (reason.quality(), "look: there".to_owned());
        Loss { source: source.into(), stage, reason, unit, count, of: 1000, quality, advice }
    }

    fn mixed() -> LiveState {
        let source = |name: &str, links| SourceState { name: name.into(), links, ..SourceState::default() };
        LiveState {
            sources: vec![source("ge", 0), source("tracker", 1)],
            ledger: vec![
                entry("ge", Stage::Wire, Unit::Datagrams, 1000, 20),
                entry("ge", Stage::Wire, Unit::Frames, 2000, 40),
                entry("ge", Stage::Cut, Unit::Hits, 500, 0),
                entry("ge", Stage::Coincide, Unit::Hits, 500, 0),
                entry("tracker", Stage::Wire, Unit::Fragments, 300, 3),
                entry("tracker", Stage::Receive, Unit::Datagrams, 300, 0),
                entry("events", Stage::Build, Unit::Events, 100, 0),
                entry(crate::roster::COINCIDENCES, Stage::Cut, Unit::Events, 50, 0),
            ],
            losses: vec![
                loss("ge", Stage::Wire, LossReason::DatagramGap, Unit::Datagrams, 18),
                loss("ge", Stage::Wire, LossReason::BufferGap, Unit::Datagrams, 2),
                loss("ge", Stage::Wire, LossReason::FrameGap, Unit::Frames, 40),
                loss("tracker", Stage::Wire, LossReason::MissingFragment, Unit::Fragments, 3),
                loss("tracker", Stage::Wire, LossReason::BadHash, Unit::Fragments, 5),
            ],
            ..LiveState::default()
        }
    }

    #[test]
    fn the_flow_of_a_mixed_run_has_the_losses_of_hits_and_of_triggers() {
        let state = mixed();
        let lines = lines(&state);
        let wire = |path| lines.iter().find(|line| line.path == path && line.stage == Stage::Wire);
        let told = |path| {
            let lost = &wire(path).expect("drawn").lost_in;
            lost.iter().map(|lost| (lost.unit, lost.count, lost.share)).collect::<Vec<_>>()
        };
        assert_eq!(told(Path::Hits), [(Unit::Frames, 40, Some(0.02))], "datagrams and frames are one loss");
        assert_eq!(told(Path::Events), [(Unit::Fragments, 3, Some(0.01))], "what was refused is lost there");
    }

    #[test]
    fn the_flow_of_hits_has_cuts_on_hits_before_coincidence_and_cuts_on_events_behind_it() {
        let state = mixed();
        let lines = lines(&state);
        let places: Vec<_> = lines.iter().map(|line| (line.path, line.stage, line.unit)).collect();
        let of_hits = [
            (Path::Hits, Stage::Wire, Unit::Frames),
            (Path::Hits, Stage::Cut, Unit::Hits),
            (Path::Hits, Stage::Coincide, Unit::Hits),
            (Path::Hits, Stage::Cut, Unit::Events),
        ];
        let of_events = [
            (Path::Events, Stage::Wire, Unit::Fragments),
            (Path::Events, Stage::Receive, Unit::Datagrams),
            (Path::Events, Stage::Build, Unit::Events),
        ];
        assert_eq!(places, [&of_hits[..], &of_events[..]].concat());
    }
}
