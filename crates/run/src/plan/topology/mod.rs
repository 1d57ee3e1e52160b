//! The topology of a run: the one place where the path is described. Everything else reads it.
//!
//! ```text
//!  Resolved ─► hits:   sender · wire · receive ─► unpack ─► decode ─► order ─┬─► record
//!         │                               └─► raw                            └─► cut ─► coincide ─► cut ─► record
//!         └─► events: trigger · sender · wire · receive ─► unpack ─► (time slice) ─► build ─► (ship ─► build) ─► (filter) ─► record
//! ```

mod events;
mod hits;

use std::ops::Range;

use thalweg_data::topology::{
    Audit, BlockPool, Counts, Edge, Fan, FlowPath, Marker, Node, Subject, SubjectKind, Subjects, Sum, Thread,
    Topology, Via,
};
use thalweg_data::{SourceId, Stage, Unit};

use super::{Resolved, check, memory, threads};
use crate::config::{ConfigError, Configuration};
use crate::plan::Placement;
use crate::processing::Processing;
use crate::source_table::SourceTable;

/// The topology of a run.
pub(super) fn of(
    resolved: &Resolved<'_>,
    processing: Option<&Processing>,
    threads: Vec<Thread>,
    pools: Vec<BlockPool>,
) -> Topology {
    let mut making = Making {
        resolved,
        topology: Topology {
            subjects: subjects(&resolved.source_table),
            rings: threads::rings(resolved),
            threads,
            pools,
            ..Topology::default()
        },
    };
    making.hits(processing);
    making.events();
    making.real_trigger();
    making.topology
}

/// The topology of the replay of a recording.
///
/// # Errors
/// When the recorded configuration does not fit together.
pub(crate) fn of_recording(configuration: &Configuration) -> Result<Topology, ConfigError> {
    let resolved = Resolved::of_recording(configuration)?;
    check::hits(&resolved)?;
    let processing = Processing::of(configuration).map_err(|message| configuration.invalid(message))?;
    let pools = memory::pools(&resolved, &Placement::default(), &super::this_machine(configuration)?);
    Ok(of(&resolved, processing.as_ref(), threads::threads(&resolved), pools))
}

fn subjects(source_table: &SourceTable) -> Vec<Subject> {
    let subject = |name: &String| Subject { name: name.clone(), kind: SubjectKind::Source, parent: None };
    let mut subjects: Vec<Subject> = source_table.names.iter().map(subject).collect();
    for board in source_table.boards.clone() {
        subjects[usize::from(board)].kind = SubjectKind::Slices;
    }
    for place in source_table.entries.iter().flat_map(|entry| &entry.links) {
        let is_shared = !place.boards.contains(&place.link.0);
        for board in place.boards.clone() {
            let subject = &mut subjects[usize::from(board)];
            (subject.kind, subject.parent) = (SubjectKind::Board, is_shared.then_some(place.link.0));
        }
        if is_shared {
            subjects[place.link.index()].kind = SubjectKind::Link;
        }
    }
    let units = source_table.units.iter().map(|(_, unit)| (*unit, SubjectKind::Unit));
    let events = source_table.events.map(|events| (events, SubjectKind::Events));
    let coincidences = source_table.coincidences.map(|slot| (slot, SubjectKind::Coincidences));
    for (source, kind) in units.chain(events).chain(coincidences) {
        subjects[source.index()].kind = kind;
    }
    subjects
}

/// A topology that is being made.
struct Making<'r, 'c> {
    resolved: &'r Resolved<'c>,
    topology: Topology,
}

/// The place of a node.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// The name of a source or unit, or a word for all of them.
    of: &'p str,
    flow_path: FlowPath,
    thread: &'p str,
}

impl Making<'_, '_> {
    /// Adds a node; returns its name.
    fn node(&mut self, stage: Stage, place: Place<'_>, counts: Vec<Counts>) -> String {
        self.push(stage, place, (Some(place.thread), Marker::PerSubject), counts)
    }

    /// Adds a node that counts when the run is over.
    fn node_at_the_end(&mut self, stage: Stage, place: Place<'_>, counts: Vec<Counts>) -> String {
        self.push(stage, place, (None, Marker::End), counts)
    }

    fn push(
        &mut self,
        stage: Stage,
        Place { of, flow_path, .. }: Place<'_>,
        (thread, marker): (Option<&str>, Marker),
        counts: Vec<Counts>,
    ) -> String {
        let id = format!("{stage} {of}");
        let thread = thread.map(str::to_owned);
        self.topology.nodes.push(Node { id: id.clone(), stage, flow_path, thread, counts, marker });
        id
    }

    /// Says that one node hands everything of these units to another.
    fn edge(&mut self, from: &str, to: &str, units: &[Unit]) {
        let via = if self.thread_of(from) == self.thread_of(to) { Via::Call } else { Via::Ring };
        self.edges_to(from, &[to], units, (Fan::Copy, via, Subjects::Same));
    }

    fn edges_to(&mut self, from: &str, to: &[&str], units: &[Unit], how: (Fan, Via, Subjects)) {
        let (fan, via, subjects) = how;
        let to = to.iter().map(|id| (*id).to_owned()).collect();
        self.topology.edges.push(Edge {
            from: from.to_owned(),
            to,
            units: units.to_vec(),
            fan,
            via,
            subjects,
        });
    }

    /// Says that nodes hand everything of these units to others, which count for other subjects; `is_acknowledged` as in [`Sum`].
    fn sum(&mut self, from: &[String], to: &[String], is_acknowledged: bool) {
        let (from, to, units) = (from.to_vec(), to.to_vec(), vec![Unit::Fragments, Unit::Bytes]);
        self.topology.sums.push(Sum { from, to, units, is_acknowledged });
    }

    fn thread_of(&self, id: &str) -> Option<&str> {
        self.topology.node(id)?.thread.as_deref()
    }

    /// Says that one node counts what another puts out, by other means.
    fn audit(&mut self, auditor: &str, audited: &str, units: &[Unit]) {
        let (auditor, audited) = (auditor.to_owned(), audited.to_owned());
        self.topology.audits.push(Audit { auditor, audited, units: units.to_vec() });
    }
}

/// Numbers as ranges, those that follow each other together.
fn ranges(numbers: impl Iterator<Item = u16>) -> Vec<Range<u16>> {
    let mut ranges: Vec<Range<u16>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

fn counts_of(subjects: impl Iterator<Item = SourceId>, units: &[Unit]) -> Vec<Counts> {
    ranges(subjects.map(|subject| subject.0)).into_iter().map(|range| Counts::of_each(range, units)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::Plan;

    #[test]
    fn every_example_has_a_topology_without_faults() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let mut seen = 0;
        for folder in [examples.clone(), examples.join("sources")] {
            for entry in std::fs::read_dir(folder).expect("the examples") {
                let path = entry.expect("readable").path();
                if path.extension().is_none_or(|extension| extension != "toml") {
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("readable");
                let configuration = Configuration::parse(&path, text).expect("an example is valid");
                let Ok(plan) = Plan::of(&configuration) else { continue };
                let Topology { nodes, edges, .. } = &plan.topology;
                assert_eq!(plan.topology.faults(), [""; 0], "{}", path.display());
                assert!(nodes.len() > 3 && edges.len() > 2, "{}: {nodes:?}", path.display());
                let fed = |node: &&Node| edges.iter().any(|edge| edge.to.contains(&node.id));
                let begins = |node: &&Node| {
                    matches!(node.stage, Stage::Receive | Stage::Sender | Stage::Wire | Stage::Trigger)
                        || node.counts.iter().all(|counts| !counts.made.is_empty())
                };
                let alone: Vec<&Node> = nodes.iter().filter(|node| !fed(node) && !begins(node)).collect();
                assert!(
                    alone.iter().all(|node| node.flow_path == FlowPath::Events),
                    "{}: {alone:?}",
                    path.display()
                );
                seen += 1;
            }
        }
        assert!(seen >= 8, "{seen} examples");
    }
}
