//! Compares the counter slots that were opened with those that the topology declares.

use std::collections::BTreeSet;

use super::vocabulary::{Stage, Unit};
use crate::id::SourceId;
use crate::topology::Topology;

/// The counter slots that were opened so far, and the faults found.
#[derive(Default)]
pub(super) struct Claims {
    pub opened: BTreeSet<(Stage, SourceId)>,
    pub faults: Vec<String>,
}

impl Claims {
    /// Notes that a counter slot was opened with these units.
    pub fn open(&mut self, topology: &Topology, (stage, source): (Stage, SourceId), units: &[Unit]) {
        let name = topology.subjects.get(source.index()).map_or("?", |subject| &subject.name);
        let Some((node, counts)) = topology.counting(stage, source) else {
            return self.faults.push(format!("{stage} of {name}: opened and not declared"));
        };
        if !self.opened.insert((stage, source)) {
            self.faults.push(format!("{}: the counter slot of {name} is opened twice", node.id));
        }
        let undeclared = units.iter().filter(|unit| !counts.units.contains(unit));
        let uncounted =
            counts.units.iter().filter(|unit| !units.contains(unit) && !counts.may.contains(unit));
        let id = &node.id;
        self.faults
            .extend(undeclared.map(|unit| format!("{id}: counts {unit} of {name}, which are not declared")));
        self.faults.extend(
            uncounted.map(|unit| format!("{id}: does not count {unit} of {name}, which are declared")),
        );
    }
}
