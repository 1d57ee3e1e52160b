//! The path of a run in words: each stage where data pass it, with who works there, on which thread, and where it goes on.

use std::collections::BTreeSet;

use thalweg_data::topology::{ControlEdge, FlowPath, Stop, Topology};

use super::page::{Line, spelled};

/// One table per flow path: its title, and its lines.
pub(super) fn tables(topology: &Topology) -> Vec<(&'static str, Vec<Line>)> {
    let stops = topology.path();
    let of_path = |flow_path: FlowPath, title: &'static str| {
        let own: Vec<&Stop<'_>> = stops.iter().filter(|stop| stop.flow_path == flow_path).collect();
        let heads = ["stage", "of", "on thread", "counts", "hands to"].map(str::to_owned).to_vec();
        let lines = own.iter().map(|stop| line(topology, &stops, stop));
        (!own.is_empty()).then(|| (title, std::iter::once(heads).chain(lines).collect()))
    };
    let paths = [(FlowPath::Hits, "path of hits"), (FlowPath::Events, "path of triggered boards and events")];
    let paths = paths.into_iter().filter_map(|(flow_path, title)| of_path(flow_path, title));
    paths.chain(controls(topology)).collect()
}

/// Returns what flows against the path.
fn controls(topology: &Topology) -> Option<(&'static str, Vec<Line>)> {
    let heads = ["who waits", "for whom", "how"].map(str::to_owned).to_vec();
    let lines = topology.controls.iter().map(|control| {
        let ControlEdge { from, to, kind } = control;
        vec![to.clone(), from.clone(), kind.word().to_owned()]
    });
    let lines: Vec<Line> = std::iter::once(heads).chain(lines).collect();
    (lines.len() > 1).then_some(("what holds back", lines))
}

fn line(topology: &Topology, stops: &[Stop<'_>], stop: &Stop<'_>) -> Line {
    let of: Vec<&str> = stop.nodes.iter().map(|node| node.of()).collect();
    let mut threads: Vec<&str> = stop.nodes.iter().filter_map(|node| node.thread.as_deref()).collect();
    threads.dedup();
    let units: BTreeSet<_> =
        stop.nodes.iter().flat_map(|node| &node.counts).flat_map(|counts| counts.units.clone()).collect();
    let units: Vec<&str> = units.iter().map(|unit| unit.word()).collect();
    let is_from_here = |id: &String| stop.nodes.iter().any(|node| node.id == *id);
    let takers: BTreeSet<&String> =
        topology.edges.iter().filter(|edge| is_from_here(&edge.from)).flat_map(|edge| &edge.to).collect();
    let takes = |other: &&Stop<'_>| other.nodes.iter().any(|node| takers.contains(&node.id));
    let next: Vec<&str> = stops.iter().filter(takes).map(|other| other.stage.word()).collect();
    let threads = if threads.is_empty() { "at the end".to_owned() } else { spelled(&threads) };
    vec![stop.stage.word().to_owned(), spelled(&of), threads, units.join(", "), next.join(", ")]
}
