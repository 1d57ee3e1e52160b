//! The path of a run for display: each stage once, in the order in which data pass it.
//!
//! ```text
//!  nodes of one subject, in their order ─┐                      hits:   sender · wire · receive · raw · unpack · decode · order · …
//!  edges, audits ────────────────────────┴─► precedence ─► events: trigger · … · build · ship · build · record
//! ```
//! All nodes of one stage are one stop of the path, regardless of the number of sources; a stage that data pass twice is two stops.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{FlowPath, Node, SubjectKind, Topology, Via};
use crate::id::SourceId;
use crate::ledger::Stage;

/// A stage of one flow path, with all of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop<'t> {
    /// The path that it is on.
    pub flow_path: FlowPath,
    /// The stage.
    pub stage: Stage,
    /// Its nodes, in the order of the topology.
    pub nodes: Vec<&'t Node>,
}

/// Which pass of a stage a node is: coincidences pass some stages again, and so do data that come from another unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    First,
    Coincidences,
    BehindPeer,
}

impl Topology {
    /// The stops, first of the path of hits, then of the path of events.
    pub fn path(&self) -> Vec<Stop<'_>> {
        let behind = self.behind_peers();
        let keys: Vec<(FlowPath, Stage, Pass)> =
            self.nodes.iter().map(|node| (node.flow_path, node.stage, self.pass_of(node, &behind))).collect();
        let mut groups: Vec<(FlowPath, Stage, Pass)> = Vec::new();
        let mut number_of = BTreeMap::new();
        for key in &keys {
            number_of.entry(*key).or_insert_with(|| {
                groups.push(*key);
                groups.len() - 1
            });
        }
        let group_of: Vec<usize> = keys.iter().map(|key| number_of[key]).collect();
        let before = self.precedence(&group_of);
        let mut stops: Vec<Stop<'_>> = Vec::new();
        for flow_path in [FlowPath::Hits, FlowPath::Events] {
            let of_path = (0..groups.len()).filter(|group| groups[*group].0 == flow_path).collect();
            for group in in_order(of_path, &before) {
                let nodes = self.nodes.iter().zip(&group_of).filter(|(_, of)| **of == group);
                let nodes = nodes.map(|(node, _)| node);
                let stage = groups[group].1;
                match stops.last_mut().filter(|last| (last.flow_path, last.stage) == (flow_path, stage)) {
                    Some(last) => last.nodes.extend(nodes),
                    None => stops.push(Stop { flow_path, stage, nodes: nodes.collect() }),
                }
            }
        }
        stops
    }

    /// The nodes that take data from other units, and all nodes downstream.
    fn behind_peers(&self) -> BTreeSet<&str> {
        let peers = self.edges.iter().filter(|edge| edge.via == Via::Peer);
        let mut behind: BTreeSet<&str> = peers.flat_map(|edge| edge.to.iter().map(String::as_str)).collect();
        loop {
            let known = behind.len();
            for edge in self.edges.iter().filter(|edge| behind.contains(&edge.from[..])).collect::<Vec<_>>() {
                behind.extend(edge.to.iter().map(String::as_str));
            }
            if behind.len() == known {
                return behind;
            }
        }
    }

    fn pass_of(&self, node: &Node, behind: &BTreeSet<&str>) -> Pass {
        let kind = |subject: SourceId| self.subjects.get(subject.index()).map(|subject| subject.kind);
        let is_made_of_hits = node
            .counts
            .iter()
            .flat_map(super::Counts::each)
            .any(|subject| kind(subject) == Some(SubjectKind::Coincidences));
        match (is_made_of_hits, behind.contains(&node.id[..])) {
            (true, _) => Pass::Coincidences,
            (_, true) => Pass::BehindPeer,
            _ => Pass::First,
        }
    }

    /// Pairs of groups of nodes of which the first is before the second.
    fn precedence(&self, group_of: &[usize]) -> BTreeSet<(usize, usize)> {
        let index_of: HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(index, node)| (&node.id[..], index)).collect();
        let mut before = BTreeSet::new();
        let mut note = |one: usize, other: usize| {
            if group_of[one] != group_of[other] {
                before.insert((group_of[one], group_of[other]));
            }
        };
        let edges = self.edges.iter().flat_map(|edge| edge.to.iter().map(|to| (&edge.from, to)));
        let audits = self.audits.iter().map(|audit| (&audit.auditor, &audit.audited));
        for (one, other) in edges.chain(audits) {
            if let (Some(one), Some(other)) = (index_of.get(&one[..]), index_of.get(&other[..])) {
                note(*one, *other);
            }
        }
        let mut last: HashMap<(FlowPath, SourceId), usize> = HashMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            for subject in node.counts.iter().flat_map(super::Counts::each) {
                if let Some(earlier) = last.insert((node.flow_path, subject), index) {
                    note(earlier, index);
                }
            }
        }
        before
    }
}

/// Sorts groups so that each is after those that precede it; otherwise keeps their order.
fn in_order(mut groups: Vec<usize>, before: &BTreeSet<(usize, usize)>) -> Vec<usize> {
    let mut ordered = Vec::with_capacity(groups.len());
    while !groups.is_empty() {
        let is_free = |group: &usize| !groups.iter().any(|other| before.contains(&(*other, *group)));
        // A valid topology has no cycle of groups. In a cycle, the first group goes first, so that the loop ends.
        let index = groups.iter().position(is_free).unwrap_or(0);
        ordered.push(groups.remove(index));
    }
    ordered
}
