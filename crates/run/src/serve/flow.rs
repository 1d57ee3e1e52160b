//! The path as the page draws it: each stage with what goes in and comes out, and every loss where it happened.
//!
//! ```text
//!  topology ─► places of the path ─┐
//!  ledger by source ───────────────┴─► a line per place, in path order, with rates and losses          hits │ events
//! ```
//! Hits and triggered events go two ways and are counted in different units, so each has lines of its own: in one sum, the losses of
//! one are hidden by the unit of the other.

use std::collections::BTreeMap;

use thalweg_data::ledger::{Entries, Loss, Quality};
use thalweg_data::topology::FlowPath;
use thalweg_data::{Stage, StageRole, Unit};
use thalweg_monitor::state::{FlowPlace, FlowStage, LostIn};

use crate::supervise::LiveState;

/// Sums of one stage in one unit.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    input: u64,
    output: u64,
    filtered: u64,
    held: u64,
    lost: u64,
}

impl Sums {
    /// Returns what has left a stage, for its rate. Data on file grow by whole batches, and their rate beats with them: for the recorder it
    /// is what was taken and not lost.
    fn passed_on(&self, stage: Stage) -> u64 {
        match stage.role() {
            StageRole::Recording => self.output + self.held,
            _ => self.output,
        }
    }
}

/// A stage is drawn in the first of these units that it counts.
const OF_HITS: &[Unit] = &[Unit::Hits, Unit::Events, Unit::Frames, Unit::Datagrams, Unit::Bytes];
const OF_EVENTS: &[Unit] =
    &[Unit::Events, Unit::Fragments, Unit::Datagrams, Unit::Frames, Unit::Bytes, Unit::Hits];

fn units_of(flow_path: FlowPath) -> &'static [Unit] {
    match flow_path {
        FlowPath::Hits => OF_HITS,
        FlowPath::Events => OF_EVENTS,
    }
}

/// Adds up what is counted at a place, by unit.
fn sums(place: &FlowPlace, ledger: &[Entries]) -> BTreeMap<Unit, Sums> {
    let mut found: BTreeMap<Unit, Sums> = BTreeMap::new();
    let is_here = |entry: &&Entries| entry.stage == place.stage && has(place, &entry.source, entry.unit);
    for entry in ledger.iter().filter(is_here) {
        let sums = found.entry(entry.unit).or_default();
        sums.input += entry.input;
        sums.output += entry.output;
        sums.filtered += entry.filtered;
        sums.held += entry.held;
        sums.lost += entry.lost.values().sum::<u64>();
    }
    found
}

fn has(place: &FlowPlace, source: &str, unit: Unit) -> bool {
    place.counted.iter().any(|(name, of)| name == source && *of == unit)
}

/// The lines of the picture. Counts are those of now, rates those over the state's whole snapshots.
pub(super) fn lines(state: &LiveState) -> Vec<FlowStage> {
    state.flow_places.iter().filter_map(|place| line(state, place)).collect()
}

fn line(state: &LiveState, place: &FlowPlace) -> Option<FlowStage> {
    let window = &state.rate_window;
    let now = sums(place, state.ledger.as_deref().unwrap_or_default());
    let (later, before) = (sums(place, &window.now), sums(place, &window.before));
    let unit = units_of(place.path).iter().copied().find(|unit| now.contains_key(unit))?;
    let at = |sums: &BTreeMap<Unit, Sums>, unit| sums.get(&unit).copied().unwrap_or_default();
    let (sums, recent, earlier) = (at(&now, unit), at(&later, unit), at(&before, unit));
    let losses = losses(state, place);
    Some(FlowStage {
        path: place.path,
        stage: place.stage,
        stands_apart: place.stage.description().stands_apart,
        heading: place.stage.heading(),
        filtered_as: place.stage.description().filtered_as.to_owned(),
        unit,
        input: sums.input,
        output: sums.output,
        filtered: sums.filtered,
        held: sums.held,
        lost: sums.lost,
        in_rate_hz: window.per_second(recent.input, earlier.input),
        out_rate_hz: window.per_second(recent.passed_on(place.stage), earlier.passed_on(place.stage)),
        filtered_rate_hz: window.per_second(recent.filtered, earlier.filtered),
        lost_in: lost_in(&losses, |unit| [at(&now, unit), at(&later, unit), at(&before, unit)]),
        losses,
        ring_fill: ring_fill(state, place),
    })
}

/// The losses of one line. One that is seen as a gap and counted where it was refused is reported there only.
fn losses(state: &LiveState, place: &FlowPlace) -> Vec<Loss> {
    let is_here =
        |loss: &&Loss| loss.stage == place.stage && has(place, &loss.source, loss.unit) && !loss.is_echo();
    state.losses.iter().filter(is_here).cloned().collect()
}

/// Adds up losses by unit, each in its finest; `sums` are those of a unit now, and at the late and the early end of the window.
fn lost_in(losses: &[Loss], sums: impl Fn(Unit) -> [Sums; 3]) -> Vec<LostIn> {
    let place = |unit: Unit| Unit::FINEST_FIRST.iter().position(|of| *of == unit);
    // Missing datagrams by sequence number, and the missing frames that were in them, have reasons of their own.
    let is_same = |one: &Loss, other: &Loss| {
        let by_numbers = one.stage.role() == StageRole::SequenceNumbers;
        one.source == other.source && (by_numbers || one.reason == other.reason)
    };
    let is_finest = |loss: &&Loss| {
        losses.iter().filter(|other| is_same(loss, other)).all(|other| place(loss.unit) <= place(other.unit))
    };
    let is_lost =
        |loss: &&Loss| !loss.reason.is_dead_time() && (loss.count > 0 || loss.quality == Quality::Unknown);
    let lost = |loss: &Loss| LostIn {
        unit: loss.unit,
        count: loss.count,
        quality: loss.quality,
        share: None,
        share_now: None,
    };
    let mut found = LostIn::by_unit(losses.iter().filter(is_lost).filter(is_finest).map(lost));
    let share = |lost: u64, input: u64| (input > 0).then(|| (lost as f64 / input as f64).min(1.0));
    for lost in &mut found {
        let [now, later, before] = sums(lost.unit);
        let grown = |of: fn(&Sums) -> u64| of(&later).saturating_sub(of(&before));
        if lost.quality == Quality::Unknown {
            continue;
        }
        lost.share = share(lost.count, now.input);
        lost.share_now = share(grown(|sums| sums.lost), grown(|sums| sums.input));
    }
    found.sort_by_key(|lost| place(lost.unit));
    found
}

/// Returns how full the ring after a stage is, where there is one: after the stage where hits are made, and after event building.
fn ring_fill(state: &LiveState, place: &FlowPlace) -> Option<f64> {
    match place.path {
        FlowPath::Hits if place.made.contains(&Unit::Hits) => {
            let of_hits = state.sources.iter().filter(|source| source.links == 0);
            of_hits.map(|source| source.ring_fill).reduce(f64::max)
        }
        FlowPath::Events if place.made.contains(&Unit::Events) => {
            state.events.as_ref().map(|events| events.sample.ring_fill)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::LossReason;

    use super::*;
    use crate::supervise::SourceState;
    use thalweg_monitor::state::RateWindow;

    fn entry(source: &str, stage: Stage, unit: Unit, input: u64, lost: u64) -> Entries {
        let lost = if lost > 0 { BTreeMap::from([("frame_gap", lost)]) } else { BTreeMap::new() };
        let output = input - lost.values().sum::<u64>();
        let source = source.into();
        let noted = BTreeMap::new();
        Entries {
            source,
            stage,
            unit,
            input,
            output,
            overhead: 0,
            filtered: 0,
            held: 0,
            gap_opened: 0,
            gap_filled: 0,
            lost,
            noted,
        }
    }

    fn loss(source: &str, stage: Stage, reason: LossReason, unit: Unit, count: u64) -> Loss {
        let (quality, advice) = (reason.quality(), "look: there".to_owned());
        Loss { source: source.into(), stage, reason, unit, count, of: 1000, quality, advice }
    }

    /// A run with hits, coincidences, cuts on both, and triggered boards.
    const MIXED: &str = r#"
[[source]]
name = "ge"
format = "digitizer2"
url = "udp://127.0.0.1:51940"

[[source]]
name = "tracker"
format = "fragment"
url = "udp://127.0.0.1:51950"

[coincidence]
window_ps = 100_000

[[cut]]
name = "low"
keep = "energy > 100"

[[cut]]
name = "pairs"
on = "event"
keep = "multiplicity > 2"
"#;

    fn mixed() -> LiveState {
        let path = std::path::Path::new("mixed.toml");
        let configuration = crate::config::Configuration::parse(path, MIXED.to_owned()).expect("it is valid");
        let plan = crate::plan::Plan::of(&configuration).expect("it can be planned");
        let source = |name: &str, links| SourceState { name: name.into(), links, ..SourceState::default() };
        LiveState {
            sources: vec![source("ge", 0), source("tracker", 1)],
            flow_places: crate::supervise::flow_places(&plan.topology, &plan.source_table).into(),
            ledger: Some(vec![
                entry("ge", Stage::Wire, Unit::Datagrams, 1000, 20),
                entry("ge", Stage::Wire, Unit::Frames, 2000, 40),
                entry("ge", Stage::Cut, Unit::Hits, 500, 0),
                entry("ge", Stage::Coincide, Unit::Hits, 500, 0),
                entry("tracker", Stage::Wire, Unit::Fragments, 300, 3),
                entry("tracker", Stage::Receive, Unit::Datagrams, 300, 0),
                entry("events", Stage::Build, Unit::Events, 100, 0),
                entry(crate::source_table::COINCIDENCES, Stage::Cut, Unit::Events, 50, 0),
            ]),
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
    fn a_stage_that_data_pass_twice_is_two_lines() {
        let state = mixed();
        let stages = |flow_path| {
            let own = state.flow_places.iter().filter(move |place| place.path == flow_path);
            own.map(|place| place.stage.word()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(stages(FlowPath::Hits), "wire receive unpack decode order cut coincide cut record");
        assert_eq!(stages(FlowPath::Events), "wire receive unpack build record");
    }

    #[test]
    fn a_line_has_the_heading_of_its_stage_and_what_is_left_out_there_is_called() {
        let state = mixed();
        let words = |stage: Stage| {
            let line = lines(&state).into_iter().find(|line| line.stage == stage).expect("drawn");
            (line.heading, line.filtered_as)
        };
        let said = [Stage::Wire, Stage::Cut, Stage::Coincide].map(words);
        let wanted = [("on the wire", "filtered"), ("cut", "filtered"), ("coincident", "single")];
        assert_eq!(said, wanted.map(|(heading, aside)| (heading.to_owned(), aside.to_owned())));
        let added = Stage::add("dead_time_cut", "takes hits out").expect("a place");
        assert_eq!(added.heading(), "dead time cut", "a stage that says nothing else has its word");
    }

    #[test]
    fn the_flow_of_a_mixed_run_has_the_losses_of_hits_and_of_triggers() {
        let state = mixed();
        let lines = lines(&state);
        let wire = |path| lines.iter().find(|line| line.path == path && line.stage == Stage::Wire);
        let losses = |path| {
            let lost = &wire(path).expect("drawn").lost_in;
            lost.iter().map(|lost| (lost.unit, lost.count, lost.share)).collect::<Vec<_>>()
        };
        assert_eq!(
            losses(FlowPath::Hits),
            [(Unit::Frames, 40, Some(0.02))],
            "datagrams and frames are one loss"
        );
        assert_eq!(
            losses(FlowPath::Events),
            [(Unit::Fragments, 3, Some(0.01))],
            "what was refused is lost there"
        );
    }

    #[test]
    fn an_unknown_number_has_no_share() {
        let sums = |_| [Sums { input: 1000, lost: 1, ..Sums::default() }; 3];
        let lost = |reason| lost_in(&[loss("ge", Stage::Receive, reason, Unit::Datagrams, 1)], sums);
        let gone = lost(LossReason::BoardGone);
        assert_eq!((gone[0].quality, gone[0].share), (Quality::Unknown, None));
        assert_eq!(lost(LossReason::NoBlock)[0].share, Some(0.001));
    }

    #[test]
    fn the_rate_of_what_is_recorded_does_not_beat_with_the_batches_on_file() {
        let at = |taken, on_file| {
            let entry = entry("ge", Stage::Record, Unit::Hits, taken, 0);
            std::sync::Arc::new(vec![Entries { output: on_file, held: taken - on_file, ..entry }])
        };
        let mut state = mixed();
        // A batch of 900 comes to its file between two looks, and none between the next two.
        for (before, now) in [(at(1000, 100), at(2000, 1900)), (at(2000, 1900), at(3000, 1900))] {
            state.ledger = Some(now.to_vec());
            state.rate_window = RateWindow { seconds: 1.0, before, now, ..RateWindow::default() };
            let recorded = lines(&state).into_iter().find(|line| line.stage == Stage::Record).expect("drawn");
            assert_eq!(recorded.out_rate_hz, Some(1000.0));
            assert_eq!(recorded.output, 1900, "the count is of what is on file");
        }
    }

    #[test]
    fn the_flow_of_hits_has_cuts_on_hits_before_coincidence_and_cuts_on_events_behind_it() {
        let state = mixed();
        let lines = lines(&state);
        let places: Vec<_> = lines.iter().map(|line| (line.path, line.stage, line.unit)).collect();
        let of_hits = [
            (FlowPath::Hits, Stage::Wire, Unit::Frames),
            (FlowPath::Hits, Stage::Cut, Unit::Hits),
            (FlowPath::Hits, Stage::Coincide, Unit::Hits),
            (FlowPath::Hits, Stage::Cut, Unit::Events),
        ];
        let of_events = [
            (FlowPath::Events, Stage::Wire, Unit::Fragments),
            (FlowPath::Events, Stage::Receive, Unit::Datagrams),
            (FlowPath::Events, Stage::Build, Unit::Events),
        ];
        assert_eq!(places, [&of_hits[..], &of_events[..]].concat());
    }
}
