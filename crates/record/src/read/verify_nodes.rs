//! Whether the nodes of one run are together what they say: what readout units gave away is on file at builder units, on whatever host.
//!
//! ```text
//!  ledgers of the nodes ─► each readout unit: acknowledged ┐
//!  event files of all  ──► triggers, fragments by board    ┴─► acknowledged ≤ on file ≤ acknowledged + of unknown fate
//! ```
//! A node that was killed and started again has two directories; both belong to the run. Its books end where they were last written, so
//! what is on file may be more than they know, and is never less.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;
use thalweg_data::ledger::{AccountBook, Books};
use thalweg_data::topology::{ControlKind, SubjectKind, Topology};
use thalweg_data::{Ledger, LossReason, SourceId, StageRole, Unit};

use super::events::RecordedEvent;
use super::merged_events::MergedEvents;
use super::verify::{VerifyReport, verify};
use crate::directory::{EventFiles, RunDirectory};
use crate::error::RecordError;
use crate::run_record::RunRecordState;

/// What [`verify_nodes`] found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodesReport {
    /// Whether nothing is wrong, at any node or between them.
    pub ok: bool,
    /// What is wrong between them, in words.
    pub problems: Vec<String>,
    /// Each node for itself.
    pub nodes: Vec<VerifyReport>,
    /// Events on file, at whichever builder unit and however often; not known where one keeps no table of events.
    pub events: Option<u64>,
    /// Rows beyond the first of an event, which readers join.
    pub superseded: u64,
    /// What became of the fragments of each readout unit.
    pub units: Vec<ShippedReport>,
}

/// The fragments of one readout unit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ShippedReport {
    /// Its name.
    pub unit: String,
    /// Fragments that it had to give away.
    pub given: u64,
    /// Of these, those that a builder unit has said to be on file.
    pub acknowledged: u64,
    /// Those of which it never heard whether they are: a builder unit was lost, or the run ended first.
    pub unknown: u64,
    /// Whether a node of it did not end by itself: then there may be more of each.
    pub at_least: bool,
    /// Fragments of its boards on file; not known where a builder unit keeps no table of fragments, or has none any more.
    pub on_file: Option<u64>,
}

/// One node's directory.
struct Node {
    path: PathBuf,
    books: Books,
    topology: Topology,
    is_cut_short: bool,
}

/// Checks the directories of all nodes of one run, each for itself and against each other.
///
/// # Errors
/// When one is no run's directory. What is wrong inside is in the report.
pub fn verify_nodes(paths: &[PathBuf]) -> Result<NodesReport, RecordError> {
    let mut report = NodesReport { ok: true, ..NodesReport::default() };
    let (mut nodes, mut files): (Vec<Node>, Vec<EventFiles>) = (Vec::new(), Vec::new());
    let mut named = BTreeSet::new();
    for path in paths {
        if !named.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            report.problem(format!("{} is named twice", path.display()));
            continue;
        }
        let found = verify(path)?;
        report.ok &= found.ok;
        let directory = RunDirectory::open(path)?;
        match node(&directory, &found) {
            Ok(node) => nodes.push(node),
            Err(words) => report.problem(format!("{}: {words}", path.display())),
        }
        files.extend(directory.event_files()?);
        report.nodes.push(found);
    }
    if check_nodes(&mut report, &nodes) {
        let boards = count_on_file(&mut report, &files)?;
        compare(&mut report, &nodes, boards.as_deref());
    }
    Ok(report)
}

fn node(directory: &RunDirectory, found: &VerifyReport) -> Result<Node, String> {
    let books = Ledger::read_file(&directory.ledger()).map_err(|error| error.to_string())?;
    let topology = books.topology.clone().ok_or("its books are of a time before they knew who feeds whom")?;
    if !topology.subjects.iter().any(|subject| subject.kind == SubjectKind::Unit) {
        return Err("it is no node of a run with units; verify it alone".to_owned());
    }
    let is_cut_short = found.state != RunRecordState::Stopped;
    Ok(Node { path: directory.path().to_owned(), books, topology: topology.as_ref().clone(), is_cut_short })
}

/// Whether these are nodes of one run, and every node that counts is among them.
fn check_nodes(report: &mut NodesReport, nodes: &[Node]) -> bool {
    let Some(first) = nodes.first() else { return false };
    for other in &nodes[1..] {
        if other.topology.subjects != first.topology.subjects {
            let (one, other) = (first.path.display(), other.path.display());
            report
                .problem(format!("{one} and {other} are of different configurations, or of different runs"));
        }
    }
    let units = first.topology.subjects.iter().enumerate();
    // The event manager counts nothing: builder units tell it what they can take, and that is all it knows.
    let manages = |name: &str| {
        first.topology.controls.iter().any(|each| each.kind == ControlKind::Credit && each.to == name)
    };
    let units = units.filter(|(_, subject)| subject.kind == SubjectKind::Unit && !manages(&subject.name));
    for (number, unit) in units {
        let number = SourceId(number as u16);
        let is_there = |node: &Node| node.books.accounts.iter().any(|account| account.source == number);
        if !nodes.iter().any(is_there) {
            let name = &unit.name;
            report.problem(format!(
                "\"{name}\" is in none of these directories; name that of its node, too, for nothing is known of its part"
            ));
        }
    }
    report.problems.is_empty()
}

/// Counts events, and the fragments of each board; `None` where these are not all on file.
fn count_on_file(report: &mut NodesReport, files: &[EventFiles]) -> Result<Option<Vec<u64>>, RecordError> {
    let is_gone = report.nodes.iter().any(|node| node.removed.is_some());
    if is_gone || files.is_empty() || files.iter().any(|pair| !pair.events.exists()) {
        return Ok(None);
    }
    let mut merged = MergedEvents::open(files)?;
    (report.events, report.superseded) = (Some(merged.count()), merged.superseded());
    let doubled = merged.doubled();
    if doubled > 0 {
        report.problem(format!("{doubled} events are on file twice with one attempt"));
    }
    if files.iter().any(|pair| !pair.fragments.exists()) {
        return Ok(None);
    }
    let (mut boards, mut event) = (Vec::new(), RecordedEvent::default());
    while merged.next_event(&mut event)? {
        for fragment in &event.fragments {
            let board = fragment.source.index();
            boards.resize(boards.len().max(board + 1), 0);
            boards[board] += 1;
        }
    }
    Ok(Some(boards))
}

/// Holds what was acknowledged to each readout unit against what is on file.
fn compare(report: &mut NodesReport, nodes: &[Node], boards: Option<&[u64]>) {
    let shipping: BTreeSet<SourceId> = nodes.iter().flat_map(|node| node.shipping()).collect();
    for unit in shipping {
        let mut shipped = ShippedReport::default();
        let mut own: BTreeSet<SourceId> = BTreeSet::new();
        for node in nodes {
            let Some(account) = node.books.account_at(StageRole::HandOver, unit) else { continue };
            shipped.unit = node.topology.subjects[unit.index()].name.clone();
            shipped.add(account, node.is_cut_short);
            own.extend(node.boards_of(unit));
        }
        let on_file = |boards: &[u64]| own.iter().filter_map(|board| boards.get(board.index())).sum();
        shipped.on_file = boards.map(on_file);
        let ShippedReport { unit, acknowledged, unknown, .. } = &shipped;
        let on_file = shipped.on_file.unwrap_or(*acknowledged);
        if on_file < *acknowledged {
            report.problem(format!(
                "{unit}: builder units have acknowledged {acknowledged} of its fragments, and {on_file} are on file"
            ));
        }
        if on_file > acknowledged + unknown && !shipped.at_least {
            report.problem(format!(
                "{unit}: {on_file} of its fragments are on file, and builder units have acknowledged {acknowledged}; the \
                 fate of {unknown} is not known to it"
            ));
        }
        report.units.push(shipped);
    }
}

impl NodesReport {
    fn problem(&mut self, words: String) {
        self.problems.push(words);
        self.ok = false;
    }
}

impl ShippedReport {
    fn add(&mut self, account: &AccountBook, is_cut_short: bool) {
        let tally = &account.tally;
        self.given += tally.total_input(Unit::Fragments);
        self.acknowledged += tally.total_output(Unit::Fragments);
        self.unknown += tally.total_lost(LossReason::UnitLost, Unit::Fragments) + tally.held(Unit::Fragments);
        self.at_least |= is_cut_short;
    }
}

impl Node {
    /// The readout units of which this node has books.
    fn shipping(&self) -> impl Iterator<Item = SourceId> {
        self.books.at(StageRole::HandOver).map(|account| account.source)
    }

    /// The boards of a readout unit: those of which the builder in front of its way out counts fragments.
    fn boards_of(&self, unit: SourceId) -> Vec<SourceId> {
        let account = self.books.account_at(StageRole::HandOver, unit);
        let ship = account.and_then(|account| self.topology.counting(account.stage, unit));
        let Some((ship, _)) = ship else { return Vec::new() };
        let givers: Vec<&String> = self
            .topology
            .edges
            .iter()
            .filter(|edge| edge.to.contains(&ship.id))
            .map(|edge| &edge.from)
            .collect();
        let builders = self.topology.builders.iter().filter(|builder| givers.contains(&&builder.events));
        let counts = builders.filter_map(|builder| self.topology.node(&builder.fragments));
        counts.flat_map(|node| node.counts.iter().flat_map(|counts| counts.each())).collect()
    }
}
