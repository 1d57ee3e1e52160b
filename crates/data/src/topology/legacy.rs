//! Derives the topology of a snapshot that has none: ledgers of version 1, and snapshots that tests make.
//!
//! ```text
//!  slots ─► a node per slot, and the edges between their stages in version 1
//! ```
//! New recordings contain their topology, so nothing is to be added here.

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

/// Unit, auditor, audited.
const AUDITS: [(Unit, Stage, Stage); 5] = [
    (Unit::Datagrams, Stage::Wire, Stage::Unpack),
    (Unit::Frames, Stage::Wire, Stage::Unpack),
    (Unit::Hits, Stage::Sender, Stage::Decode),
    (Unit::Fragments, Stage::Wire, Stage::Build),
    (Unit::Fragments, Stage::Sender, Stage::Unpack),
];

/// Unit, and the stage that made it.
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
            let has = |stage| snapshot.slot(stage, source).is_some();
            for (unit, from, to) in EDGES.into_iter().filter(|(_, from, to)| has(*from) && has(*to)) {
                let is_bypassed = match (unit, from, to) {
                    // With time slices, the builder takes their fragments instead.
                    (Unit::Fragments, Stage::Unpack, Stage::Build) => has(Stage::TimeSlice),
                    // With cuts, the coincidence takes the hits that they keep.
                    (Unit::Hits, Stage::Order, Stage::Coincide) => has(Stage::Cut),
                    _ => false,
                };
                if !is_bypassed {
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
            for (unit, one, other) in AUDITS.into_iter().filter(|(_, one, other)| has(*one) && has(*other)) {
                let (auditor, audited) = (id(one, source), id(other, source));
                topology.audits.push(Audit { auditor, audited, units: vec![unit] });
            }
        }
        topology
    }
}

/// The path that a counter slot was on. Events of hits also have a slot at the coincidence; time slices were built as events.
fn flow_path(snapshot: &LedgerSnapshot, slot: &CounterSnapshot) -> FlowPath {
    let is_of_hits = || snapshot.slot(Stage::Coincide, slot.source).is_some();
    let is_of_events = slot.counts(Unit::Fragments) || slot.counts(Unit::Events) && !is_of_hits();
    if is_of_events || slot.stage == Stage::TimeSlice { FlowPath::Events } else { FlowPath::Hits }
}

fn id(stage: Stage, source: SourceId) -> String {
    format!("{stage} {}", source.0)
}
