//! What must balance in a run, by its topology: no list of exceptions, for an edge that is not there says nothing.
//!
//! ```text
//!  node:            in = out + overhead + filtered + lost + held        of what comes into being there, `in` counts that; of gaps on the
//!                                                                       wire, lost is what was opened less what was filled
//!  edge, copied:    out of the giver = into each taker                  per subject
//!  edge, split:     out of the giver = into all takers together
//!  edge, network:   out of the giver = into each taker + what it has noted as unseen − as cut off
//!  edge, children:  out of the giver's subject = into the taker's subjects that are its children
//!  audit:           out of the one = out of the other + gaps that were filled
//!  builder:         Σ boards (fragments out + lost with events + missing) = boards × (events out + lost)
//!                   numbers from the first trigger to the last = events + triggers unseen
//! ```

use super::{Audit, Builder, Edge, Fan, Node, Subjects, Topology, Via};
use crate::batch::SourceId;
use crate::ledger::{AccountBook, Books, Discrepancy, LossReason, Noted, Stage, Unit};

/// Which side of an account is looked at.
#[derive(Clone, Copy)]
enum Side {
    In,
    Out,
}

/// One node's counts of one unit, as the books have them.
struct Counted<'t> {
    node: &'t Node,
    unit: Unit,
}

impl Topology {
    /// Every place where the books do not balance.
    pub fn discrepancies(&self, books: &Books) -> Vec<Discrepancy> {
        let mut found = Vec::new();
        for account in &books.accounts {
            self.check_node(books, account, &mut found);
        }
        for edge in &self.edges {
            match edge.via {
                Via::Peer => {}
                // What is unseen shows behind it only.
                Via::Network if books.at_a_marker => {}
                Via::Call | Via::Ring | Via::Network => self.check_edge(books, edge, &mut found),
            }
        }
        for audit in &self.audits {
            self.check_audit(books, audit, &mut found);
        }
        for builder in self.builders.iter().filter(|_| !books.at_a_marker) {
            self.check_builder(books, builder, &mut found);
        }
        found
    }

    fn check_node(&self, books: &Books, account: &AccountBook, found: &mut Vec<Discrepancy>) {
        let counting = self.counting(account.stage, account.source).filter(|_| books.legacy);
        let uncounted = counting.map_or(&[][..], |(_, counts)| &counts.made);
        for unit in
            Unit::ALL.iter().copied().filter(|unit| account.counts(*unit) && !uncounted.contains(unit))
        {
            let (left, right) = (account.counters.total_input(unit), account.became(unit));
            if left != right {
                let law =
                    format!("{unit} in {}: in = out + overhead + filtered + lost + held", account.stage);
                found.push(Discrepancy { source: books.name(account.source), law, left, right });
            }
        }
    }

    fn check_edge(&self, books: &Books, edge: &Edge, found: &mut Vec<Discrepancy>) {
        let Some(from) = self.node(&edge.from) else { return };
        let takers: Vec<&Node> = edge.to.iter().filter_map(|id| self.node(id)).collect();
        for unit in edge.units.iter().copied() {
            let giver = Counted { node: from, unit };
            for subject in giver.subjects() {
                let known = giver.of(books, subject, Side::Out);
                let Some(left) = known.filter(|_| !giver.is_uncounted(books, subject)) else { continue };
                let into = |taker: &&Node| {
                    let taker = Counted { node: taker, unit };
                    let came = match edge.subjects {
                        Subjects::Same => taker.of(books, subject, Side::In),
                        Subjects::Children => taker.of_children(self, books, subject),
                        Subjects::Whole => taker.of_all(books, Side::In),
                    };
                    match edge.via {
                        Via::Network => {
                            let of = (edge.subjects == Subjects::Same).then_some(subject);
                            let noted = |what| taker.noted(books, of, what);
                            Some((came? + noted(Noted::Unseen)).saturating_sub(noted(Noted::CutOff)))
                        }
                        _ => came,
                    }
                };
                let each: Vec<(Stage, u64)> =
                    takers.iter().filter_map(|taker| Some((taker.stage, into(taker)?))).collect();
                let sums = match edge.fan {
                    Fan::Copy => each,
                    // Where some are elsewhere, their part is not known here.
                    Fan::Split if each.len() < takers.len() => Vec::new(),
                    Fan::Split => vec![(takers[0].stage, each.iter().map(|(_, count)| count).sum())],
                };
                for (to, right) in sums.into_iter().filter(|(_, right)| *right != left) {
                    let cut_off = takers
                        .iter()
                        .any(|taker| Counted { node: taker, unit }.noted(books, None, Noted::CutOff) > 0);
                    let beside = match (edge.via, cut_off) {
                        (Via::Network, true) => " + unseen − cut off",
                        (Via::Network, false) => " + unseen",
                        _ => "",
                    };
                    let law = format!("{unit} out of {} = into {to}{beside}", from.stage);
                    found.push(Discrepancy { source: books.name(subject), law, left, right });
                }
            }
        }
    }

    fn check_audit(&self, books: &Books, audit: &Audit, found: &mut Vec<Discrepancy>) {
        let (Some(one), Some(other)) = (self.node(&audit.auditor), self.node(&audit.audited)) else { return };
        for unit in audit.units.iter().copied() {
            let (auditor, audited) = (Counted { node: one, unit }, Counted { node: other, unit });
            for subject in auditor.subjects() {
                let of = |counted: &Counted<'_>| counted.of(books, subject, Side::Out);
                // What has come too late or damaged has come, and was refused.
                let used = of(&auditor).map(|came| came.saturating_sub(auditor.gap_filled(books, subject)));
                if let (Some(left), Some(right)) = (used, of(&audited))
                    && left != right
                {
                    let law = format!("{unit} of {} = {unit} of {}", one.stage, other.stage);
                    found.push(Discrepancy { source: books.name(subject), law, left, right });
                }
            }
        }
    }

    fn check_builder(&self, books: &Books, builder: &Builder, found: &mut Vec<Discrepancy>) {
        let accounts = |id: &String, unit| -> Vec<&AccountBook> {
            let Some(node) = self.node(id) else { return Vec::new() };
            Counted { node, unit }
                .subjects()
                .filter_map(|subject| books.account(node.stage, subject))
                .collect()
        };
        let incomplete =
            |account: &&AccountBook, unit| account.counters.total_lost(LossReason::Incomplete, unit);
        let left_with =
            |account: &&AccountBook, unit| account.counters.total_output(unit) + incomplete(account, unit);
        let boards = accounts(&builder.fragments, Unit::Fragments);
        let there: u64 = boards.iter().map(|account| left_with(account, Unit::Fragments)).sum();
        let missing: u64 = builder
            .wires
            .iter()
            .flat_map(|wire| accounts(wire, Unit::Fragments))
            .map(|account| {
                account.counters.total_lost_any(Unit::Fragments)
                    + account.counters.total_gap_filled(Unit::Fragments)
            })
            .sum();
        let events = accounts(&builder.events, Unit::Events);
        let left: u64 = events.iter().map(|account| left_with(account, Unit::Events)).sum();
        let source = || events.first().map_or_else(String::new, |account| books.name(account.source));
        let (left, right) = (boards.len() as u64 * left, there + missing);
        if left != right {
            let law = "boards × events = fragments in events + fragments missing".to_owned();
            found.push(Discrepancy { source: source(), law, left, right });
        }
        let noted =
            |what| events.iter().map(|account| account.counters.total_noted(what, Unit::Events)).sum();
        let (left, unseen): (u64, u64) = (noted(Noted::Numbers), noted(Noted::Unseen));
        let right =
            unseen + events.iter().map(|account| account.counters.total_input(Unit::Events)).sum::<u64>();
        if builder.notes_numbers && left != right {
            let law = "trigger numbers from the first to the last = events + triggers unseen".to_owned();
            found.push(Discrepancy { source: source(), law, left, right });
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

    /// `None` where nobody has counted it: in another process, or not yet.
    fn of(&self, books: &Books, subject: SourceId, side: Side) -> Option<u64> {
        if !self.node.counts.iter().any(|counts| counts.has(subject) && counts.units.contains(&self.unit)) {
            return None;
        }
        let account = books.account(self.node.stage, subject).filter(|account| account.counts(self.unit))?;
        Some(match side {
            Side::In => account.counters.total_input(self.unit),
            Side::Out => account.counters.total_output(self.unit),
        })
    }

    fn gap_filled(&self, books: &Books, subject: SourceId) -> u64 {
        let account = books.account(self.node.stage, subject);
        account.map_or(0, |account| account.counters.total_gap_filled(self.unit))
    }

    /// The sum of all that it counts.
    fn of_all(&self, books: &Books, side: Side) -> Option<u64> {
        self.subjects().map(|subject| self.of(books, subject, side)).sum()
    }

    /// What it has noted beside, of one subject or of all that it counts.
    fn noted(&self, books: &Books, of: Option<SourceId>, what: Noted) -> u64 {
        let subjects = self.subjects().filter(|subject| of.is_none_or(|only| only == *subject));
        let accounts = subjects.filter_map(|subject| books.account(self.node.stage, subject));
        accounts.map(|account| account.counters.total_noted(what, self.unit)).sum()
    }

    /// Whether it has noted that it does not know how many hits there were.
    fn is_uncounted(&self, books: &Books, subject: SourceId) -> bool {
        let account = books.account(self.node.stage, subject).filter(|_| self.unit == Unit::Hits);
        account.is_some_and(|account| account.counters.total_noted(Noted::Uncounted, Unit::Frames) > 0)
    }

    /// What came in of all children of a subject.
    fn of_children(&self, topology: &Topology, books: &Books, parent: SourceId) -> Option<u64> {
        let children = self.subjects().filter(|subject| topology.parent(*subject) == Some(parent));
        children.map(|subject| self.of(books, subject, Side::In)).sum()
    }
}
