//! The topology of a snapshot that carries none: ledgers of version 1, and snapshots that a test has put together.
//!
//! ```text
//!  which slots there are ─► a node per slot, and the edges that such slots had by their stages
//! ```
//! A recording made today has its own; here nothing new is added.

use super::{
    Audit, Counts, Edge, Fan, FlowPath, Marker, Node, Subject, SubjectKind, Subjects, Topology, Via,
};
use crate::id::SourceId;
use crate::ledger::{CounterSnapshot, LedgerSnapshot, Stage, Unit};

/// Unit, giver, taker.
const EDGES: [(Unit, Stage, Stage); 19] = [
    (Unit::Datagrams, Stage::Receive, Stage::Unpack),
    (Unit::Bytes, Stage::Receive, Stage::Unpack),
    (Unit::Bytes, Stage::Receive, Stage::Raw),
    (Unit::Datagrams, Stage::Receive, Stage::Raw),
    (Unit::Bytes, Stage::Unpack, Stage::Decode),
    (Unit::Frames, Stage::Unpack, Stage::Decode),
    (Unit::Hits, Stage::Decode, Stage::Order),
    (Unit::Hits, Stage::Order, Stage::Record),
    (Unit::Hits, Stage::Order, Stage::Cut),
    (Unit::Hits, Stage::Order, Stage::Coincide),
    (Unit::Hits, Stage::Cut, Stage::Coincide),
    (Unit::Events, Stage::Coincide, Stage::Cut),
    (Unit::Events, Stage::Cut, Stage::Record),
    (Unit::Hits, Stage::Decode, Stage::TimeSlice),
    (Unit::Fragments, Stage::Unpack, Stage::TimeSlice),
    (Unit::Fragments, Stage::Unpack, Stage::Build),
    (Unit::Fragments, Stage::Build, Stage::Record),
    (Unit::Events, Stage::Build, Stage::Ship),
    (Unit::Events, Stage::Build, Stage::Record),
];

/// Unit, who counts it by other means, whose it is.
const AUDITS: [(Unit, Stage, Stage); 5] = [
    (Unit::Datagrams, Stage::Wire, Stage::Unpack),
    (Unit::Frames, Stage::Wire, Stage::Unpack),
    (Unit::Hits, Stage::Sender, Stage::Decode),
    (Unit::Fragments, Stage::Wire, Stage::Build),
    (Unit::Fragments, Stage::Sender, Stage::Unpack),
];

/// Where a unit came into being.
const ORIGINS: [(Unit, Stage); 6] = [
    (Unit::Frames, Stage::Unpack),
    (Unit::Hits, Stage::Decode),
    (Unit::Frames, Stage::Receive),
    (Unit::Fragments, Stage::Unpack),
    (Unit::Events, Stage::Build),
    (Unit::Events, Stage::Coincide),
];

impl Topology {
    /// The topology of this snapshot's slots.
    pub fn legacy(snapshot: &LedgerSnapshot) -> Topology {
        let mut topology = Topology::default();
        for name in &snapshot.sources {
            let subject = Subject { name: name.clone(), kind: SubjectKind::Source, parent: None };
            topology.subjects.push(subject);
        }
        for slot in &snapshot.slots {
            let units: Vec<Unit> = Unit::ALL.iter().copied().filter(|unit| slot.counts(*unit)).collect();
            let made: Vec<Unit> =
                units.iter().copied().filter(|unit| ORIGINS.contains(&(*unit, slot.stage))).collect();
            topology.nodes.push(Node {
                id: id(slot.stage, slot.source),
                stage: slot.stage,
                flow_path: flow_path(snapshot, slot),
                thread: None,
                counts: vec![Counts::of(slot.source, &units).making(&made)],
                marker: Marker::PerSubject,
            });
        }
        for source in (0..snapshot.sources.len()).map(|source| SourceId(source as u16)) {
            let is_there = |stage| snapshot.slot(stage, source).is_some();
            for (unit, from, to) in EDGES.into_iter().filter(|(_, from, to)| is_there(*from) && is_there(*to))
            {
                let is_passed_by = match (unit, from, to) {
                    // What is sliced by time is built slice by slice: another kind of fragment.
                    (Unit::Fragments, Stage::Unpack, Stage::Build) => is_there(Stage::TimeSlice),
                    // Where there are cuts, coincidence is given what they keep.
                    (Unit::Hits, Stage::Order, Stage::Coincide) => is_there(Stage::Cut),
                    _ => false,
                };
                if !is_passed_by {
                    topology.edges.push(Edge {
                        from: id(from, source),
                        to: vec![id(to, source)],
                        units: vec![unit],
                        fan: Fan::Copy,
                        via: Via::Call,
                        subjects: Subjects::Same,
                    });
                }
            }
            for (unit, one, other) in
                AUDITS.into_iter().filter(|(_, one, other)| is_there(*one) && is_there(*other))
            {
                let (auditor, audited) = (id(one, source), id(other, source));
                topology.audits.push(Audit { auditor, audited, units: vec![unit] });
            }
        }
        topology
    }
}

/// Which way a counter slot was on: what is made of hits had a counter slot at coincidence, too, and slices of time were built as events.
fn flow_path(snapshot: &LedgerSnapshot, slot: &CounterSnapshot) -> FlowPath {
    let is_of_hits = || snapshot.slot(Stage::Coincide, slot.source).is_some();
    let is_of_events = slot.counts(Unit::Fragments) || slot.counts(Unit::Events) && !is_of_hits();
    if is_of_events || slot.stage == Stage::TimeSlice { FlowPath::Events } else { FlowPath::Hits }
}

fn id(stage: Stage, source: SourceId) -> String {
    format!("{stage} {}", source.0)
}
