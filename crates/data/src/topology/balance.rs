//! The balance equations of a run, by its topology. Without an edge there is no equation.
//!
//! ```text
//!  node:            in = out + overhead + filtered + lost + held        for units made there, `in` counts the units made; for gaps on the
//!                                                                       wire, lost = opened − filled
//!  edge, copied:    out of the giver = into each taker                  per subject
//!  edge, split:     out of the giver = into all takers together
//!  edge, network:   out of the giver = into each taker + noted as unseen − noted as cut off
//!  edge, children:  out of the giver's subject = into the taker's subjects that are its children
//!  sum:             out of all givers = into all takers                 all subjects together; acknowledged: ≤ out of all takers
//!  audit:           out of the auditor = out of the audited + gaps that were filled
//!  builder:         Σ boards (fragments out + lost with events + missing) = boards × (events out + lost)
//!                   numbers from the first trigger to the last = events + triggers unseen
//! ```

use super::{Audit, Builder, Edge, Fan, Node, Subjects, Sum, Topology, Via};
use crate::id::SourceId;
use crate::ledger::{CounterSnapshot, Discrepancy, LedgerSnapshot, LossReason, Noted, Stage, Unit};

/// Which count of a counter slot is read.
#[derive(Clone, Copy)]
enum Side {
    In,
    Out,
}

/// One node's counts of one unit in the ledger.
struct Counted<'t> {
    node: &'t Node,
    unit: Unit,
}

impl Topology {
    /// Every balance equation that does not hold.
    pub fn discrepancies(&self, snapshot: &LedgerSnapshot) -> Vec<Discrepancy> {
        let mut found = Vec::new();
        for slot in &snapshot.slots {
            self.check_node(snapshot, slot, &mut found);
        }
        for edge in &self.edges {
            match edge.via {
                // Units count what they lose, and what they build again, for all subjects together: in sums.
                Via::Peer => {}
                // Missing data are noted as unseen only when later ones arrive.
                Via::Network if snapshot.at_a_marker => {}
                Via::Call | Via::Ring | Via::Network => self.check_edge(snapshot, edge, &mut found),
            }
        }
        for sum in self.sums.iter().filter(|_| !snapshot.at_a_marker) {
            self.check_sum(snapshot, sum, &mut found);
        }
        for audit in &self.audits {
            self.check_audit(snapshot, audit, &mut found);
        }
        for builder in self.builders.iter().filter(|_| !snapshot.at_a_marker) {
            self.check_builder(snapshot, builder, &mut found);
        }
        found
    }

    fn check_node(&self, snapshot: &LedgerSnapshot, slot: &CounterSnapshot, found: &mut Vec<Discrepancy>) {
        let counting = self.counting(slot.stage, slot.source).filter(|_| snapshot.legacy);
        let uncounted = counting.map_or(&[][..], |(_, counts)| &counts.made);
        for unit in Unit::ALL.iter().copied().filter(|unit| slot.counts(*unit) && !uncounted.contains(unit)) {
            let (left, right) = (slot.counters.total_input(unit), slot.became(unit));
            if left != right {
                let equation =
                    format!("{unit} in {}: in = out + overhead + filtered + lost + held", slot.stage);
                found.push(Discrepancy { source: snapshot.name(slot.source), equation, left, right });
            }
        }
    }

    fn check_edge(&self, snapshot: &LedgerSnapshot, edge: &Edge, found: &mut Vec<Discrepancy>) {
        let Some(from) = self.node(&edge.from) else { return };
        let takers: Vec<&Node> = edge.to.iter().filter_map(|id| self.node(id)).collect();
        for unit in edge.units.iter().copied() {
            let giver = Counted { node: from, unit };
            for subject in giver.subjects() {
                let known = giver.of(snapshot, subject, Side::Out);
                let Some(left) = known.filter(|_| !giver.is_uncounted(snapshot, subject)) else { continue };
                let into = |taker: &&Node| {
                    let taker = Counted { node: taker, unit };
                    let came = match edge.subjects {
                        Subjects::Same => taker.of(snapshot, subject, Side::In),
                        Subjects::Children => taker.of_children(self, snapshot, subject),
                        Subjects::Whole => taker.of_all(snapshot, Side::In),
                    };
                    match edge.via {
                        Via::Network => {
                            let of = (edge.subjects == Subjects::Same).then_some(subject);
                            let noted = |what| taker.noted(snapshot, of, what);
                            let not_sent = noted(Noted::CutOff) + noted(Noted::Continued);
                            Some((came? + noted(Noted::Unseen)).saturating_sub(not_sent))
                        }
                        _ => came,
                    }
                };
                let each: Vec<(Stage, u64)> =
                    takers.iter().filter_map(|taker| Some((taker.stage, into(taker)?))).collect();
                let sums = match (edge.fan, takers.first()) {
                    (Fan::Copy, _) => each,
                    (Fan::Split, Some(first)) if each.len() == edge.to.len() => {
                        vec![(first.stage, each.iter().map(|(_, count)| count).sum())]
                    }
                    // The parts of takers in other processes are not known here.
                    (Fan::Split, _) => Vec::new(),
                };
                for (to, right) in sums.into_iter().filter(|(_, right)| *right != left) {
                    let has = |what| {
                        let is_noted =
                            |taker: &&Node| Counted { node: taker, unit }.noted(snapshot, None, what) > 0;
                        edge.via == Via::Network && takers.iter().any(is_noted)
                    };
                    let unseen = if edge.via == Via::Network { " + unseen" } else { "" };
                    let cut_off = if has(Noted::CutOff) { " − cut off" } else { "" };
                    let continued = if has(Noted::Continued) { " − continued" } else { "" };
                    let equation =
                        format!("{unit} out of {} = into {to}{unseen}{cut_off}{continued}", from.stage);
                    found.push(Discrepancy { source: snapshot.name(subject), equation, left, right });
                }
            }
        }
    }

    fn check_sum(&self, snapshot: &LedgerSnapshot, sum: &Sum, found: &mut Vec<Discrepancy>) {
        for unit in sum.units.iter().copied() {
            let nodes =
                |ids: &[String]| -> Vec<&Node> { ids.iter().filter_map(|id| self.node(id)).collect() };
            let (from, to) = (nodes(&sum.from), nodes(&sum.to));
            if from.is_empty() || to.is_empty() {
                continue;
            }
            let of_all = |nodes: &[&Node], side| -> Option<u64> {
                nodes.iter().map(|node| Counted { node, unit }.of_all(snapshot, side)).sum()
            };
            let (side, words, holds): (_, _, fn(&u64, &u64) -> bool) = match sum.is_acknowledged {
                true => (Side::Out, "≤ out of", u64::le),
                false => (Side::In, "= into", u64::eq),
            };
            if let (Some(left), Some(right)) = (of_all(&from, Side::Out), of_all(&to, side))
                && !holds(&left, &right)
            {
                let (giver, taker) = (from[0].stage, to[0].stage);
                let equation = format!("{unit} out of {giver} {words} {taker}, all together");
                let source = from.iter().map(|node| node.of()).collect::<Vec<_>>().join(", ");
                found.push(Discrepancy { source, equation, left, right });
            }
        }
    }

    fn check_audit(&self, snapshot: &LedgerSnapshot, audit: &Audit, found: &mut Vec<Discrepancy>) {
        let (Some(one), Some(other)) = (self.node(&audit.auditor), self.node(&audit.audited)) else { return };
        for unit in audit.units.iter().copied() {
            let (auditor, audited) = (Counted { node: one, unit }, Counted { node: other, unit });
            for subject in auditor.subjects() {
                let of = |counted: &Counted<'_>| counted.of(snapshot, subject, Side::Out);
                // Data that filled a gap arrived late or damaged and were refused.
                let used =
                    of(&auditor).map(|came| came.saturating_sub(auditor.gap_filled(snapshot, subject)));
                if let (Some(left), Some(right)) = (used, of(&audited))
                    && left != right
                {
                    let equation = format!("{unit} of {} = {unit} of {}", one.stage, other.stage);
                    found.push(Discrepancy { source: snapshot.name(subject), equation, left, right });
                }
            }
        }
    }

    fn check_builder(&self, snapshot: &LedgerSnapshot, builder: &Builder, found: &mut Vec<Discrepancy>) {
        let slots = |id: &String, unit| -> Vec<&CounterSnapshot> {
            let Some(node) = self.node(id) else { return Vec::new() };
            Counted { node, unit }
                .subjects()
                .filter_map(|subject| snapshot.slot(node.stage, subject))
                .collect()
        };
        let incomplete =
            |slot: &&CounterSnapshot, unit| slot.counters.total_lost(LossReason::Incomplete, unit);
        let left_with =
            |slot: &&CounterSnapshot, unit| slot.counters.total_output(unit) + incomplete(slot, unit);
        let boards = slots(&builder.fragments, Unit::Fragments);
        let there: u64 = boards.iter().map(|slot| left_with(slot, Unit::Fragments)).sum();
        let missing: u64 = builder
            .wires
            .iter()
            .flat_map(|wire| slots(wire, Unit::Fragments))
            .map(|slot| {
                slot.counters.total_lost_any(Unit::Fragments)
                    + slot.counters.total_gap_filled(Unit::Fragments)
            })
            .sum();
        let events = slots(&builder.events, Unit::Events);
        let left: u64 = events.iter().map(|slot| left_with(slot, Unit::Events)).sum();
        let source = || events.first().map_or_else(String::new, |slot| snapshot.name(slot.source));
        let (left, right) = (boards.len() as u64 * left, there + missing);
        if left != right {
            let equation = "boards × events = fragments in events + fragments missing".to_owned();
            found.push(Discrepancy { source: source(), equation, left, right });
        }
        let noted = |what| events.iter().map(|slot| slot.counters.total_noted(what, Unit::Events)).sum();
        let (left, unseen): (u64, u64) = (noted(Noted::Numbers), noted(Noted::Unseen));
        let right = unseen + events.iter().map(|slot| slot.counters.total_input(Unit::Events)).sum::<u64>();
        if builder.notes_numbers && left != right {
            let equation = "trigger numbers from the first to the last = events + triggers unseen".to_owned();
            found.push(Discrepancy { source: source(), equation, left, right });
        }
    }

    fn parent(&self, subject: SourceId) -> Option<SourceId> {
        self.subjects.get(subject.index())?.parent.map(SourceId)
    }
}

impl Counted<'_> {
    fn subjects(&self) -> impl Iterator<Item = SourceId> {
        let counts = self.node.counts.iter().filter(|counts| counts.units.contains(&self.unit));
        counts.flat_map(super::Counts::each)
    }

    /// The count of one subject; `None` if it is counted in another process, or not yet.
    fn of(&self, snapshot: &LedgerSnapshot, subject: SourceId, side: Side) -> Option<u64> {
        if !self.node.counts.iter().any(|counts| counts.has(subject) && counts.units.contains(&self.unit)) {
            return None;
        }
        let slot = snapshot.slot(self.node.stage, subject).filter(|slot| slot.counts(self.unit))?;
        Some(match side {
            Side::In => slot.counters.total_input(self.unit),
            Side::Out => slot.counters.total_output(self.unit),
        })
    }

    fn gap_filled(&self, snapshot: &LedgerSnapshot, subject: SourceId) -> u64 {
        let slot = snapshot.slot(self.node.stage, subject);
        slot.map_or(0, |slot| slot.counters.total_gap_filled(self.unit))
    }

    /// The sum of the counts of all subjects.
    fn of_all(&self, snapshot: &LedgerSnapshot, side: Side) -> Option<u64> {
        self.subjects().map(|subject| self.of(snapshot, subject, side)).sum()
    }

    /// The sum of a note, for one subject or for all.
    fn noted(&self, snapshot: &LedgerSnapshot, of: Option<SourceId>, what: Noted) -> u64 {
        let subjects = self.subjects().filter(|subject| of.is_none_or(|only| only == *subject));
        let slots = subjects.filter_map(|subject| snapshot.slot(self.node.stage, subject));
        slots.map(|slot| slot.counters.total_noted(what, self.unit)).sum()
    }

    /// Whether the node has noted frames with an unknown number of hits.
    fn is_uncounted(&self, snapshot: &LedgerSnapshot, subject: SourceId) -> bool {
        let slot = snapshot.slot(self.node.stage, subject).filter(|_| self.unit == Unit::Hits);
        slot.is_some_and(|slot| slot.counters.total_noted(Noted::Uncounted, Unit::Frames) > 0)
    }

    /// The sum of `in` over all children of a subject.
    fn of_children(&self, topology: &Topology, snapshot: &LedgerSnapshot, parent: SourceId) -> Option<u64> {
        let children = self.subjects().filter(|subject| topology.parent(*subject) == Some(parent));
        children.map(|subject| self.of(snapshot, subject, Side::In)).sum()
    }
}
