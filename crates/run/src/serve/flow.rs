//! The path as the page draws it: each stage with what goes in and comes out, and every loss where it happened.
//!
//! ```text
//!  books by source ─ added up by stage and unit ─► lines in path order, with rates
//! ```

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thalweg_data::ledger::Entries;
use thalweg_data::{Stage, Unit};

use crate::supervise::LiveState;

/// Sums of one stage in one unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    input: u64,
    output: u64,
    filtered: u64,
    held: u64,
    lost: u64,
}

/// All stages of one moment.
pub(super) type Flow = BTreeMap<(Stage, Unit), Sums>;

/// The unit that a stage is drawn in: the first of these that it counts.
const DRAWN: [Unit; 6] =
    [Unit::Hits, Unit::Events, Unit::Fragments, Unit::Datagrams, Unit::Frames, Unit::Bytes];

/// Adds up the books of all sources.
pub(super) fn sums(ledger: &[Entries]) -> Flow {
    let mut flow = Flow::new();
    for entry in ledger {
        let sums = flow.entry((entry.stage, entry.unit)).or_default();
        sums.input += entry.input;
        sums.output += entry.output;
        sums.filtered += entry.filtered;
        sums.held += entry.held;
        sums.lost += entry.lost.values().sum::<u64>();
    }
    flow
}

/// The lines of the picture; `before` is the flow `seconds` earlier.
pub(super) fn lines(state: &LiveState, now: &Flow, before: &Flow, seconds: f64) -> Value {
    let drawn = |stage: &Stage| DRAWN.into_iter().find(|unit| now.contains_key(&(*stage, *unit)));
    let line = |stage: &Stage| {
        let unit = drawn(stage)?;
        let sums = now[&(*stage, unit)];
        let earlier = before.get(&(*stage, unit)).copied().unwrap_or_default();
        let rate_hz = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Some(json!({
            "stage": stage, "unit": unit,
            "in": sums.input, "out": sums.output, "filtered": sums.filtered, "held": sums.held, "lost": sums.lost,
            "in_rate_hz": rate_hz(sums.input, earlier.input),
            "out_rate_hz": rate_hz(sums.output, earlier.output),
            "losses": losses(state, *stage, unit),
            "ring_fill": ring_fill(state, *stage),
        }))
    };
    Stage::ALL.iter().filter_map(line).collect()
}

fn losses(state: &LiveState, stage: Stage, unit: Unit) -> Value {
    let of_stage = state.losses.iter().filter(|loss| loss.stage == stage && loss.unit == unit);
    of_stage.map(|loss| serde_json::to_value(loss).unwrap_or_default()).collect()
}

/// How full the ring behind a stage is, where there is one.
fn ring_fill(state: &LiveState, stage: Stage) -> Option<f64> {
    match stage {
        Stage::Decode => state.sources.iter().map(|source| source.ring_fill).reduce(f64::max),
        Stage::Build => state.events.as_ref().map(|events| events.look.ring_fill),
        _ => None,
    }
}
