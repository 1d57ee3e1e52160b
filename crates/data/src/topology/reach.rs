//! Queries of a topology by readers of the ledger: which nodes make a unit, which are upstream of a node, and which take its output.
//!
//! ```text
//!   node that makes hits ──────────────┐
//!   [ receive ] ─► [ unpack ] ─► [ decode ] ─► [ order ] ─► [ record ]     leading to the node that makes hits: the first three
//!                                      └────► [ time slice ]               leading to the recording: all but the time slice
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Counts, Edge, Fan, FlowPath, Marker, Node, Subject, Subjects, Topology, Via};
use crate::id::SourceId;
use crate::ledger::{Stage, Unit};

impl Counts {
    /// Whether the node makes this unit of these subjects.
    pub fn makes(&self, unit: Unit) -> bool {
        self.made.contains(&unit)
    }
}

impl Node {
    /// Whether the node makes this unit of any subject.
    pub fn makes(&self, unit: Unit) -> bool {
        self.counts.iter().any(|counts| counts.makes(unit))
    }
}

impl Topology {
    /// The nodes that make a unit.
    pub fn makers(&self, unit: Unit) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.makes(unit))
    }

    /// Whether a stage makes this unit of a subject.
    pub fn is_made(&self, unit: Unit, stage: Stage, subject: SourceId) -> bool {
        self.counting(stage, subject).is_some_and(|(_, counts)| counts.makes(unit))
    }

    /// The path of the node that counts at a stage for a subject; `None` if there is no such node.
    pub fn flow_path_of(&self, stage: Stage, subject: SourceId) -> Option<FlowPath> {
        self.counting(stage, subject).map(|(node, _)| node.flow_path)
    }

    /// A sort key for path order: listed stages in the order of the list, added ones after the stage that feeds them.
    pub fn position_of(&self, stage: Stage) -> (usize, usize) {
        let (mut at, mut steps) = (stage, 0);
        while let Stage::Added(_) = at {
            let is_at = |id: &String| self.node(id).is_some_and(|node| node.stage == at);
            let giver = self.edges.iter().find(|edge| edge.to.iter().any(is_at));
            let giver = giver.and_then(|edge| self.node(&edge.from)).filter(|_| steps < self.nodes.len());
            let Some(giver) = giver else { return (Stage::COUNT, stage.index()) };
            (at, steps) = (giver.stage, steps + 1);
        }
        (at.index(), steps)
    }

    /// The nodes to which one of these passes a unit.
    pub fn takers<'t>(&'t self, from: &[&Node], unit: Unit) -> Vec<&'t Node> {
        let is_from = |edge: &&Edge| from.iter().any(|node| node.id == edge.from);
        let edges = self.edges.iter().filter(|edge| edge.units.contains(&unit)).filter(is_from);
        let takers: BTreeSet<&str> = edges.flat_map(|edge| edge.to.iter().map(String::as_str)).collect();
        self.nodes.iter().filter(|node| takers.contains(&node.id[..])).collect()
    }

    /// The links that several boards share, each with its boards.
    pub fn shared_links(&self) -> Vec<Vec<SourceId>> {
        let mut links: BTreeMap<u16, Vec<SourceId>> = BTreeMap::new();
        for (index, subject) in self.subjects.iter().enumerate() {
            if let Some(link) = subject.parent {
                links.entry(link).or_insert_with(|| vec![SourceId(link)]).push(SourceId(index as u16));
            }
        }
        links.into_values().collect()
    }

    /// Names of these nodes and of all nodes upstream.
    pub fn leading_to<'t>(&'t self, ends: impl Iterator<Item = &'t Node>) -> BTreeSet<&'t str> {
        let mut givers: HashMap<&str, Vec<&str>> = HashMap::new();
        for edge in &self.edges {
            edge.to.iter().for_each(|to| givers.entry(to).or_default().push(&edge.from));
        }
        let mut next: Vec<&str> = ends.map(|node| node.id.as_str()).collect();
        let mut found = BTreeSet::new();
        while let Some(id) = next.pop() {
            if found.insert(id) {
                next.extend(givers.get(id).into_iter().flatten());
            }
        }
        found
    }

    /// The topology of groups of subjects, as if each group were one subject, for a snapshot that is grouped likewise: one node per group
    /// and stage.
    pub(crate) fn grouped(&self, groups: &[(&str, &[SourceId])]) -> Topology {
        let mut grouped = Topology::default();
        let mut group_of: HashMap<SourceId, u16> = HashMap::new();
        for (number, (name, subjects)) in groups.iter().enumerate() {
            group_of.extend(subjects.iter().map(|subject| (*subject, number as u16)));
            let kind = subjects.first().and_then(|first| self.subjects.get(first.index()));
            let kind = kind.map_or(super::SubjectKind::Source, |subject| subject.kind);
            grouped.subjects.push(Subject { name: (*name).to_owned(), kind, parent: None });
        }
        let mut groups_at: HashMap<&str, BTreeSet<u16>> = HashMap::new();
        let mut node_of: BTreeMap<(u16, Stage), usize> = BTreeMap::new();
        for node in &self.nodes {
            let counted = node.counts.iter().flat_map(|counts| {
                counts.each().filter_map(|subject| group_of.get(&subject)).map(move |group| (*group, counts))
            });
            for (group, counts) in counted {
                groups_at.entry(&node.id).or_default().insert(group);
                let index = *node_of.entry((group, node.stage)).or_insert_with(|| {
                    grouped.nodes.push(node_of_group(node, group));
                    grouped.nodes.len() - 1
                });
                let own = &mut grouped.nodes[index].counts[0];
                add(&mut own.units, &counts.units);
                add(&mut own.made, &counts.made);
            }
        }
        let stages: HashMap<&str, Stage> = self.nodes.iter().map(|node| (&node.id[..], node.stage)).collect();
        for (edge, to) in self.edges.iter().flat_map(|edge| edge.to.iter().map(move |to| (edge, to))) {
            let (Some(givers), Some(takers)) = (groups_at.get(&edge.from[..]), groups_at.get(&to[..])) else {
                continue;
            };
            let (from, to) = (stages[&edge.from[..]], stages[&to[..]]);
            grouped.edges.extend(givers.intersection(takers).filter(|_| from != to).map(|group| Edge {
                from: id_of_group(from, *group),
                to: vec![id_of_group(to, *group)],
                units: edge.units.clone(),
                fan: Fan::Copy,
                via: Via::Call,
                subjects: Subjects::Same,
            }));
        }
        grouped
    }
}

fn id_of_group(stage: Stage, group: u16) -> String {
    format!("{stage} {group}")
}

fn node_of_group(node: &Node, group: u16) -> Node {
    Node {
        id: id_of_group(node.stage, group),
        stage: node.stage,
        flow_path: node.flow_path,
        thread: None,
        counts: vec![Counts::of(SourceId(group), &[])],
        marker: Marker::PerSubject,
    }
}

fn add(units: &mut Vec<Unit>, more: &[Unit]) {
    more.iter().for_each(|unit| {
        if !units.contains(unit) {
            units.push(*unit);
        }
    });
}
