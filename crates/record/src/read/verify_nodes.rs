//! Whether the nodes of one run are together what they say: what readout units gave away is on file at builder units, on whatever host.
//!
//! ```text
//!  identities of the nodes ────► one run, each node once
//!  lists of ranges ────────────► each connection: acknowledged = on file, on file ≤ sent (`verify_ranges`)
//!  ledgers of the nodes ───────► each readout unit: acknowledged ┐
//!  tables of events of all ────► fragments by board ─────────────┴─► acknowledged ≤ on file ≤ acknowledged + of unknown fate
//! ```
//! A node that was killed and started again has two directories; both belong to the run. Its ledger ends where they were last written, so
//! what is on file may be more than they know, and is never less. Each directory is opened, and each table read, once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use thalweg_data::ledger::{CounterSnapshot, LedgerSnapshot};
use thalweg_data::topology::{ControlKind, SubjectKind, Topology};
use thalweg_data::{LossReason, SourceId, StageRole, Unit};

use super::verify::{Verified, VerifyReport, Verifying};
use super::verify_events::Triggers;
use super::verify_ranges::{EdgeReport, RangeCheck};
use crate::directory::EventFiles;
use crate::error::RecordError;
use crate::run_record::{IdentityRecord, RunRecordState};

/// What [`verify_nodes`] found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodesReport {
    /// Whether nothing is wrong, at any node or between them.
    pub ok: bool,
    /// What is wrong between them, in words.
    pub problems: Vec<String>,
    /// What is not known of them, in words.
    pub remarks: Vec<String>,
    /// Each node for itself.
    pub nodes: Vec<VerifyReport>,
    /// Events on file, at whichever builder unit and however often; not known where one keeps no table of events.
    pub events: Option<u64>,
    /// Rows beyond the first of an event, which readers join.
    pub superseded: u64,
    /// What became of the fragments of each readout unit.
    pub units: Vec<ShippedReport>,
    /// What went from each readout unit to each builder unit, range by range. Older recordings do not say.
    pub edges: Vec<EdgeReport>,
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
    /// Those of which it never learned whether they are: a builder unit was lost, or the run ended first.
    pub unknown: u64,
    /// Whether a node of it did not end by itself: then there may be more of each.
    pub at_least: bool,
    /// Fragments of its boards on file; not known where a builder unit keeps no table of fragments, or has none any more.
    pub on_file: Option<u64>,
}

/// One node's directory.
struct Node {
    path: PathBuf,
    snapshot: LedgerSnapshot,
    topology: Arc<Topology>,
    is_cut_short: bool,
}

/// Checks the directories of all nodes of one run, each for itself and against each other.
///
/// # Errors
/// When one is no run's directory. What is wrong inside is in the report.
pub fn verify_nodes(paths: &[PathBuf]) -> Result<NodesReport, RecordError> {
    let mut report = NodesReport { ok: true, ..NodesReport::default() };
    let mut ranges = RangeCheck::default();
    let mut opened = Vec::new();
    for path in once_each(paths, &mut report) {
        opened.push(Verifying::open(path, &mut ranges)?);
    }
    ranges.complete();
    let (mut nodes, mut files): (Vec<Node>, Vec<EventFiles>) = (Vec::new(), Vec::new());
    let mut triggers = Triggers::new();
    for opened in opened {
        let verified = opened.check(&mut ranges)?;
        let own = verified.directory.event_files()?.into_iter();
        files.extend(own.filter(|files| !were_being_made(files, &verified.report)));
        triggers.append(report.take(verified, &mut nodes));
    }
    if !check_runs(&mut report) {
        return Ok(report);
    }
    // Of several runs, or of one node twice, sums would say nothing.
    let in_themselves = ranges.problems_of_files();
    if check_nodes(&mut report, &nodes) {
        let boards = count_on_file(&mut report, &files, triggers, nodes[0].topology.subjects.len());
        compare(&mut report, &nodes, boards.as_deref());
        let (edges, problems) = ranges.edges();
        report.edges = edges;
        problems.into_iter().for_each(|text| report.problem(text));
    }
    in_themselves.into_iter().for_each(|text| report.problem(text));
    Ok(report)
}

/// The directories, each once, whatever it is called.
fn once_each<'p>(paths: &'p [PathBuf], report: &mut NodesReport) -> Vec<&'p Path> {
    let mut named = BTreeSet::new();
    let mut once = Vec::new();
    for path in paths {
        match named.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            true => once.push(path.as_path()),
            false => report.problem(format!("{} is named twice", path.display())),
        }
    }
    once
}

/// Whether the directories are of one run, as far as they say, and none of them is a copy of another one.
fn check_runs(report: &mut NodesReport) -> bool {
    let mut problems = Vec::new();
    let all: Vec<(&Path, Option<&IdentityRecord>)> =
        report.nodes.iter().map(|node| (node.run_directory.as_path(), node.identity.as_ref())).collect();
    for (place, (path, identity)) in all.iter().enumerate() {
        let is_copy = |other: &&(&Path, Option<&IdentityRecord>)| {
            identity.zip(other.1).is_some_and(|(one, other)| one.is_copy_of(other))
        };
        if let Some((first, _)) = all[..place].iter().find(is_copy) {
            let (first, path) = (first.display(), path.display());
            problems.push(format!("{path} is a copy of {first}; name one of them"));
        }
    }
    let known = |(path, identity): &(&'_ Path, Option<&IdentityRecord>)| {
        identity.filter(|identity| identity.is_known()).map(|identity| (path.to_path_buf(), identity.clone()))
    };
    let mut apart: Vec<(PathBuf, IdentityRecord)> = all.iter().filter_map(known).collect();
    let unknown = all.iter().filter(|node| known(node).is_none());
    let unknown: Vec<String> = unknown.map(|(path, _)| path.display().to_string()).collect();
    // One is of the run of the first if it has an event manager in common with any that is.
    if !apart.is_empty() {
        let (first, run) = apart.remove(0);
        let mut run = run;
        while let Some(place) = apart.iter().position(|(_, other)| run.is_of_run_of(other)) {
            run.add_managers(apart.remove(place).1.managers);
        }
        for (path, other) in &apart {
            let (first, path) = (first.display(), path.display());
            problems.push(format!("{first} is of {run}, and {path} of {other}: name the nodes of one run"));
        }
    }
    if !unknown.is_empty() {
        report.remarks.push(format!(
            "not known of which run these are, so that nodes of another run of this configuration would not be noticed: {}",
            unknown.join(", ")
        ));
    }
    let are_of_one = problems.is_empty();
    problems.into_iter().for_each(|text| report.problem(text));
    are_of_one
}

/// Whether these are nodes of one configuration, and every node that counts is among them.
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
    // The event manager counts nothing: builder units report to it what they can take, and that is all it knows.
    let manages = |name: &str| {
        first.topology.controls.iter().any(|each| each.kind == ControlKind::Credit && each.to == name)
    };
    let units = units.filter(|(_, subject)| subject.kind == SubjectKind::Unit && !manages(&subject.name));
    for (number, unit) in units {
        let number = SourceId(number as u16);
        if !nodes
            .iter()
            .any(|node| node.counts(StageRole::HandOver, number) || node.counts(StageRole::Work, number))
        {
            let name = &unit.name;
            report.problem(format!(
                "\"{name}\" is in none of these directories; name that of its node, too, for nothing is known of its part"
            ));
        }
    }
    report.problems.is_empty()
}

/// Whether a node was killed while it made these files: that of fragments is made first, and nothing is in it.
fn were_being_made(files: &EventFiles, of: &VerifyReport) -> bool {
    let is_of_fragments = |name: &str| files.fragments.file_name().is_some_and(|own| own == name);
    let mut rows = of.tables.iter().filter(|table| is_of_fragments(&table.file)).map(|table| table.rows);
    of.state != RunRecordState::Stopped && !files.events.exists() && rows.all(|rows| rows == 0)
}

/// Counts events, and the fragments of each board, each once; `None` where these are not all on file.
fn count_on_file(
    report: &mut NodesReport,
    files: &[EventFiles],
    triggers: Triggers,
    boards: usize,
) -> Option<Vec<u64>> {
    let is_gone = report.nodes.iter().any(|node| node.removed.is_some());
    if is_gone || files.is_empty() || files.iter().any(|pair| !pair.events.exists()) {
        return None;
    }
    let joined = triggers.join(boards)?;
    (report.events, report.superseded) = (Some(joined.events), joined.superseded);
    if joined.doubled > 0 {
        report.problem(format!("{} events are on file twice with one attempt", joined.doubled));
    }
    // Of events that a filter has selected, fewer are on file than were acknowledged.
    if files.iter().any(|pair| !pair.fragments.exists())
        || report.nodes.iter().any(|node| node.events.filter.is_some())
    {
        return None;
    }
    let on_file = |board: usize| -> u64 {
        let rows = report.nodes.iter().filter_map(|node| node.events.sources.get(board));
        rows.map(|[fragments, _]| *fragments).sum()
    };
    Some(
        joined
            .repeated
            .iter()
            .enumerate()
            .map(|(board, again)| on_file(board).saturating_sub(*again))
            .collect(),
    )
}

/// Holds what was acknowledged to each readout unit against what is on file.
fn compare(report: &mut NodesReport, nodes: &[Node], boards: Option<&[u64]>) {
    // Whose the fragments are that a full disk has lost is counted at the end of a run.
    let boards = boards.filter(|_| !nodes.iter().any(Node::has_lost_unknown_fragments));
    let subjects = (0..nodes[0].topology.subjects.len()).map(|number| SourceId(number as u16));
    for unit in subjects.filter(|unit| nodes.iter().any(|node| node.counts(StageRole::HandOver, *unit))) {
        let mut shipped = ShippedReport::default();
        let mut own: BTreeSet<SourceId> = BTreeSet::new();
        for node in nodes {
            let Some(slot) = node.snapshot.slot_at(StageRole::HandOver, unit) else { continue };
            shipped.unit = node.topology.subjects[unit.index()].name.clone();
            shipped.add(slot, node.is_cut_short);
            own.extend(node.boards_of(unit));
        }
        let on_file = |boards: &[u64]| own.iter().filter_map(|board| boards.get(board.index())).sum();
        shipped.on_file = boards.map(on_file);
        let ShippedReport { unit, acknowledged, unknown, .. } = &shipped;
        let on_file = shipped.on_file.unwrap_or(*acknowledged);
        let lost: u64 = nodes.iter().map(|node| node.lost_fragments(&own)).sum();
        if on_file + lost < *acknowledged {
            let lost = if lost > 0 { format!(", and {lost} were lost there") } else { String::new() };
            report.problem(format!(
                "{unit}: builder units have acknowledged {acknowledged} of its fragments, and {on_file} are on file{lost}"
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
    fn problem(&mut self, text: String) {
        self.problems.push(text);
        self.ok = false;
    }

    /// Takes what was found in a directory; gives the triggers of its events.
    fn take(&mut self, verified: Verified, nodes: &mut Vec<Node>) -> Triggers {
        let Verified { directory, mut report, triggers, snapshot } = verified;
        report.name_unlisted();
        self.ok &= report.ok;
        let snapshot = snapshot.map_err(|error| error.to_string());
        match snapshot.and_then(|snapshot| node(directory.path(), snapshot, report.state)) {
            Ok(node) => nodes.push(node),
            Err(text) => self.problem(format!("{}: {text}", directory.path().display())),
        }
        self.nodes.push(report);
        triggers
    }
}

fn node(path: &Path, snapshot: LedgerSnapshot, state: RunRecordState) -> Result<Node, String> {
    let topology =
        snapshot.topology.clone().ok_or("its ledger is of a time before they knew who feeds whom")?;
    if !topology.subjects.iter().any(|subject| subject.kind == SubjectKind::Unit) {
        return Err("it is no node of a run with units; verify it alone".to_owned());
    }
    let is_cut_short = state != RunRecordState::Stopped;
    Ok(Node { path: path.to_owned(), snapshot, topology, is_cut_short })
}

impl ShippedReport {
    fn add(&mut self, slot: &CounterSnapshot, is_cut_short: bool) {
        let counters = &slot.counters;
        self.given += counters.total_input(Unit::Fragments);
        self.acknowledged += counters.total_output(Unit::Fragments);
        self.unknown +=
            counters.total_lost(LossReason::UnitLost, Unit::Fragments) + counters.held(Unit::Fragments);
        self.at_least |= is_cut_short;
    }
}

impl Node {
    /// Whether this node has a counter slot of a unit at the stage that does this.
    fn counts(&self, role: StageRole, unit: SourceId) -> bool {
        self.snapshot.slot_at(role, unit).is_some()
    }

    /// Whether the files of a builder unit here have lost events, and it is not known of which boards.
    fn has_lost_unknown_fragments(&self) -> bool {
        let subjects = (0..self.topology.subjects.len()).map(|number| SourceId(number as u16));
        let files = subjects.filter_map(|subject| self.snapshot.slot_at(StageRole::Recording, subject));
        let [events, fragments] = [Unit::Events, Unit::Fragments]
            .map(|unit| files.clone().any(|slot| slot.counters.total_lost_any(unit) > 0));
        events && !fragments
    }

    /// Fragments of these boards that the files here have lost.
    fn lost_fragments(&self, boards: &BTreeSet<SourceId>) -> u64 {
        let files = boards.iter().filter_map(|board| self.snapshot.slot_at(StageRole::Recording, *board));
        files.map(|slot| slot.counters.total_lost_any(Unit::Fragments)).sum()
    }

    /// The boards of a readout unit: those of which the builder in front of its way out counts fragments.
    fn boards_of(&self, unit: SourceId) -> Vec<SourceId> {
        let slot = self.snapshot.slot_at(StageRole::HandOver, unit);
        let ship = slot.and_then(|slot| self.topology.counting(slot.stage, unit));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;
    use crate::read::verify::TableReport;

    #[test]
    fn files_that_a_killed_node_was_making_are_none_that_are_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = EventFiles::in_directory(folder.path(), Some("bu-0"));
        let report = |state, rows| {
            let fragments = TableReport {
                table: Table::Fragments,
                file: "fragments-bu-0.arrows".to_owned(),
                rows,
                batches: 1,
                bytes: 1000,
                payload_bytes: 0,
            };
            VerifyReport { state, tables: vec![fragments], ..VerifyReport::default() }
        };
        let killed = report(RunRecordState::Recovered, 0);
        assert!(were_being_made(&files, &killed));
        assert!(!were_being_made(&files, &report(RunRecordState::Recovered, 1)), "its events are gone");
        assert!(!were_being_made(&files, &report(RunRecordState::Stopped, 0)), "it had both");
        std::fs::write(&files.events, "").expect("it can be made");
        assert!(!were_being_made(&files, &killed), "both are there");
    }
}
