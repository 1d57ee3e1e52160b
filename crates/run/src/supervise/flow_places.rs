//! The stops of the path, and which lines of the ledger by `[[source]]` belong to each: looked up once in the topology of the run.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_data::topology::{Node, Stop, Topology};
use thalweg_data::{LedgerSnapshot, StageRole};
use thalweg_monitor::state::FlowPlace;

use super::rates::Rates;
use crate::source_table::SourceTable;

impl Rates {
    /// The stops of the path of this ledger.
    pub(super) fn flow_places(
        &mut self,
        snapshot: &LedgerSnapshot,
        source_table: &SourceTable,
    ) -> Arc<Vec<FlowPlace>> {
        let places = |topology: &Topology| Arc::new(of(topology, source_table));
        if let (None, Some(topology)) = (&self.flow_places, &snapshot.topology) {
            self.flow_places = Some(places(topology));
        }
        self.flow_places.clone().unwrap_or_default()
    }
}

/// The stops of a topology.
pub(crate) fn of(topology: &Topology, source_table: &SourceTable) -> Vec<FlowPlace> {
    let mut group_of = vec![None; topology.subjects.len()];
    for (name, subjects) in source_table.groups() {
        for subject in subjects {
            if let Some(place) = group_of.get_mut(subject.index()) {
                *place = Some(name);
            }
        }
    }
    let counted = |node: &Node| {
        let mut counted = BTreeSet::new();
        for counts in &node.counts {
            let groups: BTreeSet<&str> =
                counts.each().filter_map(|subject| *group_of.get(subject.index())?).collect();
            let units = counts.units.iter().flat_map(|unit| groups.iter().map(move |group| (*unit, *group)));
            counted.extend(units.map(|(unit, group)| (group.to_owned(), unit)));
        }
        counted
    };
    let place = |stop: Stop<'_>| FlowPlace {
        path: stop.flow_path,
        stage: stop.stage,
        counted: stop.nodes.iter().flat_map(|node| counted(node)).collect(),
        made: stop
            .nodes
            .iter()
            .flat_map(|node| &node.counts)
            .flat_map(|counts| counts.made.clone())
            .collect(),
    };
    // What is shown is beside the way to the disk, and the page says it with the spectra.
    topology.path().into_iter().filter(|stop| stop.stage.role() != StageRole::Display).map(place).collect()
}
