//! Whether readout and builder units agree on each range of triggers, and with the tables of events.
//!
//! ```text
//!  ranges of readout units ─► sent: (readout, builder, attempt) ─ range ┐
//!  tables of events ────────► events by builder, trigger, attempt ──────┼─► acknowledged = on file, on file ≤ sent
//!  ranges of builder units ─► filed: likewise, and of whole events ─────┘   filed = on file
//! ```
//! Of a unit that was killed, or whose list is full, the list says less than the unit did: then there may be more on file, and never less.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use thalweg_data::{EventSum, RangeFate, RangeRecord, SourceId, StageRole, Unit, UnitId};

use super::ranges::{RangeRows, rows_of, units_of};
use super::verify::{VerifyReport, check_rest};
use super::verify_events::Walk;
use crate::directory::{EventFiles, RunDirectory};
use crate::error::RecordError;
use crate::range_list::UnitNames;
use crate::run_record::{EntriesRecord, LedgerRecord, RunRecord, RunRecordState, utc_text};
use crate::table::Table;

/// Most ranges of one connection that are named one by one.
const MOST_NAMED: u64 = 3;

/// What went over one connection, from a readout unit to a builder unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EdgeReport {
    /// The readout unit.
    pub readout: String,
    /// The builder unit.
    pub builder: String,
    /// Ranges of which the readout unit has noted what became of its events.
    pub ranges: u64,
    /// Fragments that were confirmed to be on file.
    pub acknowledged: u64,
    /// Fragments that it gave away, and does not know where they are, or knows to have been too late, or has given to another one, too.
    pub unacknowledged: u64,
    /// Fragments of these ranges on file at the builder unit; not known where it keeps no such table.
    pub on_file: Option<u64>,
    /// Ranges that do not balance.
    pub unbalanced: u64,
    /// Whether the readout unit may have sent more than it had time or room to note.
    pub at_least: bool,
}

/// A readout unit and a builder unit, and the attempt. Of whole events there is no readout unit.
type Key = (Option<UnitId>, UnitId, u8);

/// A range, and what tables of events have of it.
#[derive(Clone, Copy, Debug)]
struct Span {
    record: RangeRecord,
    found: EventSum,
}

/// The ranges of one key in the order of their first triggers.
#[derive(Clone, Debug, Default)]
struct Spans {
    all: Vec<Span>,
    /// The highest trigger of each one and of those before it.
    reach: Vec<u64>,
}

impl Spans {
    fn sort(&mut self) {
        self.all.sort_by_key(|span| (span.record.first, span.record.last));
        let mut reach = 0;
        self.reach = self
            .all
            .iter()
            .map(|span| {
                reach = span.record.last.max(reach);
                reach
            })
            .collect();
    }

    /// Adds an event to each range that it lies in; whether there is one.
    fn add(&mut self, trigger: u64, sum: EventSum) -> bool {
        let mut is_in_one = false;
        let mut place = self.all.partition_point(|span| span.record.first <= trigger);
        while let Some(before) = place.checked_sub(1).filter(|before| self.reach[*before] >= trigger) {
            place = before;
            let span = &mut self.all[place];
            if span.record.last >= trigger {
                span.found.add(sum);
                is_in_one = true;
            }
        }
        is_in_one
    }
}

/// Ranges of all keys.
#[derive(Clone, Debug, Default)]
struct Side(BTreeMap<Key, Spans>);

impl Side {
    fn enter(&mut self, record: RangeRecord) {
        let spans = self.0.entry((record.readout, record.builder, record.attempt)).or_default();
        spans.all.push(Span { record, found: EventSum::default() });
    }

    fn add(&mut self, key: Key, trigger: u64, sum: EventSum) -> bool {
        self.0.get_mut(&key).is_some_and(|spans| spans.add(trigger, sum))
    }

    fn each(&self) -> impl Iterator<Item = &Span> {
        self.0.values().flat_map(|spans| &spans.all)
    }
}

/// Events on file that are in no range of a list.
#[derive(Clone, Copy, Debug, Default)]
struct Outside {
    events: u64,
    first: u64,
}

impl Outside {
    fn add(&mut self, trigger: u64) {
        self.first = if self.events == 0 { trigger } else { self.first.min(trigger) };
        self.events += 1;
    }
}

/// What is known of a unit's lists, in however many directories.
#[derive(Clone, Debug, Default)]
struct Lists {
    /// How many there are.
    count: usize,
    /// They may say less than the unit did.
    at_least: bool,
    /// Of a builder unit: the directories in which its tables of events are, and those of fragments, too.
    with_events: usize,
    with_fragments: usize,
    /// There may be fewer events on file than were noted: a filter has selected among them, or a full disk has lost some, which are in the
    /// ledger.
    may_lack: bool,
}

impl Lists {
    /// Whether every list has the events beside it that it lists.
    fn has_events(&self) -> bool {
        self.count > 0 && self.with_events == self.count
    }

    fn has_fragments(&self) -> bool {
        self.has_events() && self.with_fragments == self.count
    }
}

/// The lists of all directories, and what their tables of events have.
#[derive(Debug, Default)]
pub(super) struct RangeCheck {
    names: UnitNames,
    /// The readout unit of each board.
    readout_of: Vec<Option<UnitId>>,
    readouts: Vec<Lists>,
    builders: Vec<Lists>,
    /// What readout units say, and what builder units say.
    sent: Side,
    filed: Side,
    /// On file and in no range that was sent, by readout and builder unit; in none that was filed, by builder unit.
    unsent: BTreeMap<(UnitId, UnitId), Outside>,
    unfiled: BTreeMap<UnitId, Outside>,
    /// Of the event that is being read, what each readout unit has in it.
    parts: Vec<EventSum>,
}

impl RangeCheck {
    /// Takes the lists of a directory, and checks each in itself and against the ledger. Returns the epochs in it.
    pub(super) fn enter(
        &mut self,
        report: &mut VerifyReport,
        directory: &RunDirectory,
        record: Option<&RunRecord>,
    ) -> Result<Vec<u64>, RecordError> {
        let mut epochs = Vec::new();
        for path in directory.range_files()? {
            let Some((unit, names, rows)) = verify_file(report, &path) else { continue };
            epochs.extend(rows.records.iter().map(|record| record.epoch).filter(|epoch| *epoch > 0));
            epochs.sort_unstable();
            epochs.dedup();
            if self.names == UnitNames::default() {
                self.take_names(names.clone());
            }
            if self.names != names {
                report.problem(format!("{}: it is of other units than the lists before it", path.display()));
                continue;
            }
            compare_with_ledger(report, record, &unit, &rows);
            let has_ended = record.is_some_and(|record| record.state == RunRecordState::Stopped);
            let is_partial = rows.is_full || !has_ended;
            self.take_list(directory, &unit, rows, is_partial);
            let ledger = record.and_then(|record| record.ledger.as_ref());
            if let Some(builder) = self.builder_of(&directory.events_of(Some(&unit))) {
                self.builders[builder.index()].may_lack |=
                    ledger.is_some_and(|ledger| has_lost(ledger, &unit));
            }
        }
        Ok(epochs)
    }

    /// All lists are there.
    pub(super) fn complete(&mut self) {
        self.sent.0.values_mut().chain(self.filed.0.values_mut()).for_each(Spans::sort);
        self.parts = vec![EventSum::default(); self.names.readouts.len()];
    }

    fn take_names(&mut self, names: UnitNames) {
        self.readouts = vec![Lists::default(); names.readouts.len()];
        self.builders = vec![Lists::default(); names.builders.len()];
        for (number, readout) in (0..).zip(&names.readouts) {
            let end = usize::from(readout.boards.end);
            self.readout_of.resize(self.readout_of.len().max(end), None);
            readout
                .boards
                .clone()
                .for_each(|board| self.readout_of[usize::from(board)] = Some(UnitId(number)));
        }
        self.names = names;
    }

    fn take_list(&mut self, directory: &RunDirectory, unit: &str, rows: RangeRows, is_partial: bool) {
        let readout = self.names.readouts.iter().position(|readout| readout.name == unit);
        let builder = self.names.builders.iter().position(|builder| builder == unit);
        let (lists, side) = match (readout, builder) {
            (Some(number), _) => (&mut self.readouts[number], &mut self.sent),
            (None, Some(number)) => (&mut self.builders[number], &mut self.filed),
            (None, None) => return,
        };
        let files = directory.events_of(Some(unit));
        lists.count += 1;
        // A readout unit that was started again sends what it has of a range that the start before it had a part of.
        lists.at_least |= is_partial || readout.is_some() && lists.count > 1;
        lists.with_events += usize::from(files.events.exists());
        lists.with_fragments += usize::from(files.fragments.exists());
        rows.records.into_iter().filter(|record| record.ranges == 1).for_each(|record| side.enter(record));
    }

    /// The builder unit whose tables these are, if it has a list.
    pub(super) fn builder_of(&self, files: &EventFiles) -> Option<UnitId> {
        let folder = files.events.parent()?;
        let is_of = |name: &String| EventFiles::in_directory(folder, Some(name)) == *files;
        let number = self.names.builders.iter().position(is_of)?;
        (self.builders[number].count > 0).then_some(UnitId::from_index(number))
    }

    /// The tables of a builder unit have those events that a filter has selected.
    pub(super) fn are_selected(&mut self, files: &EventFiles) {
        if let Some(builder) = self.builder_of(files) {
            self.builders[builder.index()].may_lack = true;
        }
    }

    /// A fragment of an event that is being read.
    pub(super) fn fragment(&mut self, source: SourceId, bytes: u64) {
        if let Some(Some(readout)) = self.readout_of.get(source.index()) {
            let part = &mut self.parts[readout.index()];
            part.fragments += 1;
            part.bytes = part.bytes.saturating_add(bytes);
        }
    }

    /// An event was read, of these files, behind its fragments.
    pub(super) fn event(
        &mut self,
        builder: UnitId,
        (trigger, attempt): (u64, u8),
        fragments: u32,
        bytes: u64,
    ) {
        let whole = EventSum::of(trigger, fragments.into(), bytes);
        if !self.filed.add((None, builder, attempt), trigger, whole) {
            self.unfiled.entry(builder).or_default().add(trigger);
        }
        for readout in 0..self.parts.len() {
            let part = std::mem::take(&mut self.parts[readout]);
            if part.fragments == 0 {
                continue;
            }
            let (readout, sum) =
                (UnitId::from_index(readout), EventSum::of(trigger, part.fragments, part.bytes));
            let key = (Some(readout), builder, attempt);
            self.filed.add(key, trigger, sum);
            if !self.sent.add(key, trigger, sum) {
                self.unsent.entry((readout, builder)).or_default().add(trigger);
            }
        }
    }

    /// What builder units say against their own tables, in words.
    pub(super) fn problems_of_files(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (number, (name, lists)) in (0..).map(UnitId).zip(self.names.builders.iter().zip(&self.builders)) {
            let mut faults = Faults::default();
            for span in self.filed.each().filter(|span| span.record.builder == number) {
                let Span { record, found } = span;
                let is_known =
                    if record.readout.is_some() { lists.has_fragments() } else { lists.has_events() };
                let holds = match record.fate {
                    RangeFate::OnFile if !lists.may_lack => *found == record.sum,
                    _ => found.is_within(record.sum),
                };
                if is_known && !holds {
                    let of = record
                        .readout
                        .map_or(String::new(), |readout| format!(" of {}", self.readout(readout)));
                    let place = place(record);
                    let (noted, is) = (amount(record.sum), difference(record.sum, *found));
                    faults.add(|| {
                        format!("{name}: {place}: it noted {noted}{of} {}, and {is}", record.fate.word())
                    });
                }
            }
            faults.finish(&format!("{name}: "), &mut problems);
            let outside = self.unfiled.get(&number).filter(|_| !lists.at_least && lists.count > 0);
            if let Some(Outside { events, first }) = outside {
                problems.push(format!(
                    "{name}: {events} events are on file in ranges that it has not noted, the first of trigger {first}"
                ));
            }
        }
        problems
    }

    /// What went over each connection, and what does not balance, in words.
    pub(super) fn edges(&self) -> (Vec<EdgeReport>, Vec<String>) {
        let (mut edges, mut problems) = (Vec::new(), Vec::new());
        for readout in (0..)
            .map(UnitId)
            .zip(&self.readouts)
            .filter(|(_, lists)| lists.count > 0)
            .map(|(number, _)| number)
        {
            for builder in (0..self.builders.len()).map(UnitId::from_index) {
                let edge = self.edge(readout, builder, &mut problems);
                edges.extend(edge.filter(|edge| edge.ranges > 0 || edge.unbalanced > 0));
            }
        }
        (edges, problems)
    }

    fn edge(&self, readout: UnitId, builder: UnitId, problems: &mut Vec<String>) -> Option<EdgeReport> {
        let (lists, there) = (self.readouts.get(readout.index())?, self.builders.get(builder.index())?);
        let (name, to) = (self.readout(readout), self.names.builders.get(builder.index())?);
        let mut edge = EdgeReport {
            readout: name.to_owned(),
            builder: to.clone(),
            at_least: lists.at_least,
            on_file: (there.count > 0).then_some(0),
            ..EdgeReport::default()
        };
        let mut faults = Faults::default();
        let of_it = |span: &&Span| (span.record.readout, span.record.builder) == (Some(readout), builder);
        for span in self.sent.each().filter(of_it) {
            let record = &span.record;
            edge.ranges += 1;
            let is_out = record.fate == RangeFate::Acknowledged;
            let noted = if is_out { &mut edge.acknowledged } else { &mut edge.unacknowledged };
            *noted = noted.saturating_add(record.sum.fragments);
            let found = self.found(span, there);
            edge.on_file = edge.on_file.zip(found).map(|(sum, found)| sum.saturating_add(found.fragments));
            let is_known = Known { at_least: lists.at_least, at_most: there.may_lack };
            let Some(found) = found.filter(|found| !holds(record, *found, is_known)) else { continue };
            let (place, sent) = (place(record), amount(record.sum));
            faults.add(|| match is_out {
                true => {
                    let is = difference(record.sum, found);
                    format!("{name} to {to}: {place}: {to} has acknowledged {sent}, and {is}")
                }
                false => {
                    let is = amount(found);
                    format!("{name} to {to}: {place}: {sent} were sent, and {is} are on file")
                }
            });
        }
        edge.unbalanced = faults.count;
        faults.finish(&format!("{name} to {to}: "), problems);
        let outside = self.unsent.get(&(readout, builder)).filter(|_| !lists.at_least);
        if let Some(Outside { events, first }) = outside {
            edge.unbalanced += 1;
            problems.push(format!(
                "{name} to {to}: {events} events are on file that were not sent, the first of trigger {first}"
            ));
        }
        Some(edge)
    }

    /// What is on file of a range that was sent: by the tables of its builder unit, or by what that one has noted where these are gone or
    /// were not kept. `None` where neither is known.
    fn found(&self, span: &Span, builder: &Lists) -> Option<EventSum> {
        if builder.has_fragments() {
            return Some(span.found);
        }
        let RangeRecord { first, last, readout, builder, attempt, .. } = span.record;
        let filed = self.filed.0.get(&(readout, builder, attempt))?;
        let same = |other: &&Span| {
            let RangeRecord { first: from, last: until, fate, .. } = other.record;
            (from, until, fate) == (first, last, RangeFate::OnFile)
        };
        filed.all.iter().find(same).map(|span| span.record.sum)
    }

    fn readout(&self, number: UnitId) -> &str {
        self.names.readouts.get(number.index()).map_or("a readout unit", |readout| &readout.name)
    }
}

/// How well what a readout unit has noted says what is on file.
#[derive(Clone, Copy)]
struct Known {
    /// There may be more.
    at_least: bool,
    /// There may be fewer.
    at_most: bool,
}

/// Whether what is on file is what a readout unit has noted.
fn holds(record: &RangeRecord, found: EventSum, is_known: Known) -> bool {
    match (record.fate, is_known) {
        (_, Known { at_least: true, at_most: true }) => true,
        (RangeFate::Acknowledged, Known { at_least: false, at_most: false }) => found == record.sum,
        (RangeFate::Acknowledged, Known { at_least: true, .. }) => record.sum.is_within(found),
        (_, Known { at_least: false, .. }) => found.is_within(record.sum),
        (_, Known { at_least: true, .. }) => true,
    }
}

/// Ranges that do not balance: the first in words, the others counted.
#[derive(Default)]
struct Faults {
    text: Vec<String>,
    count: u64,
}

impl Faults {
    fn add(&mut self, text: impl FnOnce() -> String) {
        if self.count < MOST_NAMED {
            self.text.push(text());
        }
        self.count += 1;
    }

    fn finish(self, whose: &str, problems: &mut Vec<String>) {
        problems.extend(self.text);
        if self.count > MOST_NAMED {
            problems.push(format!("{whose}{} more ranges do not balance", self.count - MOST_NAMED));
        }
    }
}

fn place(record: &RangeRecord) -> String {
    let RangeRecord { first, last, attempt, epoch, .. } = record;
    let epoch = utc_text(UNIX_EPOCH + Duration::from_nanos(*epoch));
    format!("triggers {first} to {last}, attempt {attempt}, event manager of {epoch}")
}

fn amount(sum: EventSum) -> String {
    format!("{} events with {} fragments", sum.events, sum.fragments)
}

/// What is on file of something else, in words.
fn difference(noted: EventSum, found: EventSum) -> String {
    let is_as_many =
        (noted.events, noted.fragments, noted.bytes) == (found.events, found.fragments, found.bytes);
    match is_as_many {
        true => "as many are on file, but others: one is missing, and another is there twice or changed"
            .to_owned(),
        false => format!("{} are on file", amount(found)),
    }
}

/// Reads a list, batch by batch; what is wrong is in the report.
fn verify_file(report: &mut VerifyReport, path: &Path) -> Option<(String, UnitNames, RangeRows)> {
    let mut walk = Walk::open(report, path, Table::Ranges)?;
    let mut rows = RangeRows::default();
    let mut read = || -> Result<(), RecordError> {
        while let Some(head) = walk.next(report)? {
            rows_of(&walk.reader, &head, &mut rows)?;
        }
        Ok(())
    };
    if let Err(error) = read() {
        report.problem(error.with_advice());
    }
    let (unit, names) = units_of(&walk.reader);
    let Walk { reader, mut found } = walk;
    check_rest(report, &reader, &mut found);
    report.tables.push(found);
    Some((unit, names, rows))
}

/// Sums over ranges against the ledger of a run that has come to its end.
fn compare_with_ledger(report: &mut VerifyReport, record: Option<&RunRecord>, unit: &str, rows: &RangeRows) {
    let Some(record) = record.filter(|record| record.state == RunRecordState::Stopped) else { return };
    let Some(ledger) = &record.ledger else { return };
    let mut sums: BTreeMap<RangeFate, EventSum> = BTreeMap::new();
    // Of a builder unit whole events are counted, and each readout unit's part of them stands beside.
    let is_builder = rows.records.iter().any(|record| record.readout.is_none());
    for record in rows.records.iter().filter(|record| !is_builder || record.readout.is_none()) {
        sums.entry(record.fate).or_default().add(record.sum);
    }
    let fates = match is_builder {
        true => [RangeFate::OnFile, RangeFate::Given].as_slice(),
        false => [RangeFate::Acknowledged].as_slice(),
    };
    let mut noted = EventSum::default();
    fates.iter().filter_map(|fate| sums.get(fate)).for_each(|sum| noted.add(*sum));
    let role = if is_builder { StageRole::Work } else { StageRole::HandOver };
    for (what, noted) in
        [(Unit::Events, noted.events), (Unit::Fragments, noted.fragments), (Unit::Bytes, noted.bytes)]
    {
        if let Some(counted) =
            row(ledger, unit, role, what).map(|row| row.output).filter(|counted| *counted != noted)
        {
            report.problem(format!(
                "{unit}: {noted} {what} passed on, range by range, and {counted} in the ledger"
            ));
        }
    }
}

/// Whether the files of a builder unit have lost events.
fn has_lost(ledger: &LedgerRecord, unit: &str) -> bool {
    let files = row(ledger, unit, StageRole::Recording, Unit::Events);
    files.is_some_and(|row| row.lost.values().any(|count| *count > 0))
}

/// What a unit has counted at the stage that does this.
fn row<'l>(ledger: &'l LedgerRecord, unit: &str, role: StageRole, what: Unit) -> Option<&'l EntriesRecord> {
    ledger.entries.iter().find(|row| row.source == unit && row.unit == what.word() && row.is_at(role))
}
