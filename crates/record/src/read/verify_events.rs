//! Whether the two tables of events agree, row by row.
//!
//! ```text
//!  events ────► row: trigger, fragments, missing, bytes ┐
//!  fragments ─► as many rows: trigger, source, view ────┴─► same trigger, sources in order, none missing, same bytes
//!  marks of an event filter ─► counted by word ─► as many as the ledger has noted
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use thalweg_data::{Closing, Noted, Selected, SourceId, Unit, UnitId};

use super::events::{EventRow, EventRows, FragmentRow, fragment_payloads, fragment_rows, open_table};
use super::table_reader::{BatchHead, TableReader};
use super::verify::{TableReport, VerifyReport, check_number, check_rest};
use super::verify_ranges::RangeCheck;
use crate::directory::EventFiles;
use crate::error::RecordError;
use crate::event_writer::FILTER_KEY;
use crate::run_record::{EntriesRecord, LedgerRecord};
use crate::table::Table;

/// Most events whose triggers are held against each other; beyond that memory would grow with the file.
const MOST_TRIGGERS: usize = 1 << 26;

/// What [`verify`](super::verify()) found of events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventsReport {
    /// Rows of the table `events`.
    pub events: u64,
    /// Those to which every source has answered.
    pub complete: u64,
    /// Rows beyond the first of a trigger, of other attempts: readers join them.
    pub superseded: u64,
    /// Rows of one trigger and attempt that are more than one.
    pub doubled: u64,
    /// Events before the one in front of them, in a file that promises their order.
    pub out_of_order: u64,
    /// Rows of the table `fragments`.
    pub fragments: u64,
    /// Their bytes.
    pub payload_bytes: u64,
    /// Fragments and bytes of each source, by number.
    pub sources: Vec<[u64; 2]>,
    /// By what an event filter has selected these events among those that were built; `None`: they are all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// How many of these events the filter has kept, are recorded for monitoring although it has rejected them, or were not decided; empty
    /// where the table does not say it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub selected: BTreeMap<&'static str, u64>,
}

/// Triggers and attempts of all files, and which boards are missing in each.
#[derive(Default)]
pub(super) struct Triggers {
    seen: Vec<(u64, u8)>,
    missing: Vec<(u64, u8, SourceId)>,
    complete: bool,
}

/// What several attempts of one trigger have of it together.
#[derive(Debug, Default)]
pub(super) struct Joined {
    /// Triggers, each once.
    pub(super) events: u64,
    /// Rows beyond the first of a trigger, of other attempts.
    pub(super) superseded: u64,
    /// Rows of one trigger and attempt beyond the first.
    pub(super) doubled: u64,
    /// Fragments of each board that are on file more than once, by number.
    pub(super) repeated: Vec<u64>,
}

/// A table's file, batch by batch, with what was found.
pub(super) struct Walk {
    pub(super) reader: TableReader,
    pub(super) found: TableReport,
}

impl Walk {
    pub(super) fn open(report: &mut VerifyReport, path: &Path, table: Table) -> Option<Walk> {
        match open_table(path, table) {
            Ok(reader) => Some(Walk { reader, found: TableReport::new(table, path) }),
            Err(error) => {
                report.problem(error.to_string());
                None
            }
        }
    }

    /// The next batch whose checksum is right.
    pub(super) fn next(&mut self, report: &mut VerifyReport) -> Result<Option<BatchHead>, RecordError> {
        let Some(head) = self.reader.next_batch()? else { return Ok(None) };
        self.reader.verify_checksum(&head)?;
        check_number(report, &self.found, &head);
        self.found.batches += 1;
        self.found.rows += head.rows() as u64;
        Ok(Some(head))
    }
}

/// The rows of `fragments`, one after the other.
struct FragmentWalk {
    walk: Walk,
    rows: Vec<FragmentRow>,
    next: usize,
    taken: u64,
}

impl FragmentWalk {
    fn next(&mut self, report: &mut VerifyReport) -> Result<Option<FragmentRow>, RecordError> {
        while self.next == self.rows.len() {
            let Some(head) = self.walk.next(report)? else { return Ok(None) };
            self.rows = fragment_rows(&self.walk.reader, &head)?;
            fragment_payloads(&self.walk.reader, head, &self.rows, false)?;
            self.next = 0;
        }
        self.next += 1;
        self.taken += 1;
        let row = self.rows[self.next - 1];
        let bytes = row.view.length() as u64;
        self.walk.found.payload_bytes += bytes;
        report.events.fragments += 1;
        report.events.payload_bytes += bytes;
        let sources = &mut report.events.sources;
        if sources.len() <= row.source.index() {
            sources.resize(row.source.index() + 1, [0; 2]);
        }
        let [fragments, source_bytes] = &mut sources[row.source.index()];
        *fragments += 1;
        *source_bytes += bytes;
        Ok(Some(row))
    }
}

/// Checks one builder's pair of files. Either may be missing where the run did not keep it.
pub(super) fn verify_pair(
    report: &mut VerifyReport,
    files: &EventFiles,
    triggers: &mut Triggers,
    ranges: &mut RangeCheck,
) {
    let events = files.events.exists().then(|| Walk::open(report, &files.events, Table::Events));
    let fragments = files.fragments.exists().then(|| Walk::open(report, &files.fragments, Table::Fragments));
    if matches!((&events, &fragments), (Some(None), _) | (_, Some(None))) {
        return;
    }
    let mut opened = events.iter().flatten().chain(fragments.iter().flatten());
    if let Some(filter) = opened.find_map(|walk| walk.reader.metadata().get(FILTER_KEY)) {
        report.events.filter = Some(filter.clone());
        ranges.are_selected(files);
    }
    let mut events = events.flatten();
    let mut fragments =
        fragments.flatten().map(|walk| FragmentWalk { walk, rows: Vec::new(), next: 0, taken: 0 });
    let mut onward = Onward { triggers, builder: ranges.builder_of(files), ranges };
    if let Err(error) = compare(report, events.as_mut(), fragments.as_mut(), &mut onward) {
        report.problem(error.with_advice());
    }
    for walk in events.into_iter().chain(fragments.map(|fragments| fragments.walk)) {
        let Walk { reader, mut found } = walk;
        check_rest(report, &reader, &mut found);
        report.tables.push(found);
    }
}

/// What receives each event that is read.
struct Onward<'r> {
    triggers: &'r mut Triggers,
    ranges: &'r mut RangeCheck,
    /// The builder unit that wrote it, of a run whose units have noted ranges.
    builder: Option<UnitId>,
}

fn compare(
    report: &mut VerifyReport,
    events: Option<&mut Walk>,
    mut fragments: Option<&mut FragmentWalk>,
    onward: &mut Onward<'_>,
) -> Result<(), RecordError> {
    let has_events = events.is_some();
    if let Some(walk) = events {
        let ordered = walk.reader.metadata().get("ordered").is_some_and(|word| word == "true");
        let mut last = None;
        while let Some(head) = walk.next(report)? {
            let batch = EventRows::load(&walk.reader, &head)?;
            for row in &batch.rows {
                let check = EventCheck { file: walk.found.file.clone(), row, missing: batch.missing_of(row) };
                check.alone(report, ordered, &mut last);
                onward.triggers.add(row, check.missing);
                if let Some(fragments) = &mut fragments {
                    check.fragments(report, fragments, onward)?;
                }
                if let Some(builder) = onward.builder {
                    onward.ranges.event(builder, (row.trigger, row.attempt), row.fragments, row.bytes);
                }
            }
        }
    }
    if let Some(fragments) = fragments {
        let owned = fragments.taken;
        while fragments.next(report)?.is_some() {}
        let orphans = fragments.taken - owned;
        if has_events && orphans > 0 && !report.may_be_written() {
            let file = &fragments.walk.found.file;
            report.problem(format!("{file}: {orphans} fragments whose events are missing"));
        }
    }
    Ok(())
}

struct EventCheck<'a> {
    file: String,
    row: &'a EventRow,
    missing: &'a [SourceId],
}

impl EventCheck<'_> {
    fn problem(&self, report: &mut VerifyReport, text: &str) {
        report.row_problem(&self.file, format_args!("trigger {}: {text}", self.row.trigger));
    }

    fn alone(&self, report: &mut VerifyReport, ordered: bool, last: &mut Option<u64>) {
        report.events.events += 1;
        if let Some(selected) = self.row.selected {
            *report.events.selected.entry(selected.word()).or_default() += 1;
        }
        if self.row.closing == Closing::Complete {
            report.events.complete += 1;
            if !self.missing.is_empty() {
                self.problem(report, "complete, and sources are missing");
            }
        }
        if !self.missing.is_sorted_by(|one, next| one < next) {
            self.problem(report, "its missing sources are not in order");
        }
        // What was built again comes when its builder has died, behind newer triggers.
        if self.row.attempt > 0 || !ordered {
            return;
        }
        if last.is_some_and(|last| self.row.trigger <= last) {
            report.events.out_of_order += 1;
            self.problem(report, &format!("comes behind trigger {}", last.unwrap_or(0)));
        } else {
            *last = Some(self.row.trigger);
        }
    }

    fn fragments(
        &self,
        report: &mut VerifyReport,
        fragments: &mut FragmentWalk,
        onward: &mut Onward<'_>,
    ) -> Result<(), RecordError> {
        if self.row.first_fragment != fragments.taken {
            let (said, found) = (self.row.first_fragment, fragments.taken);
            self.problem(report, &format!("its fragments begin in row {said}, and row {found} is next"));
        }
        let (mut bytes, mut last) = (0, None);
        for number in 0..self.row.fragments {
            let Some(row) = fragments.next(report)? else {
                let wanted = self.row.fragments;
                self.problem(report, &format!("{number} of its {wanted} fragments are on file"));
                return Ok(());
            };
            if row.trigger != self.row.trigger {
                let (place, other) = (fragments.taken - 1, row.trigger);
                self.problem(report, &format!("fragment {place} is of trigger {other}"));
            }
            if last.is_some_and(|last| row.source < last) {
                self.problem(report, "its fragments are not in the order of their sources");
            }
            if self.missing.binary_search(&row.source).is_ok() {
                self.problem(report, &format!("{} is missing, and its fragment is there", row.source));
            }
            last = Some(row.source);
            bytes += row.view.length() as u64;
            if onward.builder.is_some() {
                onward.ranges.fragment(row.source, row.view.length() as u64);
            }
        }
        if bytes != self.row.bytes {
            let said = self.row.bytes;
            self.problem(report, &format!("{bytes} bytes of fragments where {said} are said"));
        }
        Ok(())
    }
}

/// Holds the marks of a filter on the events on file against what it has noted. What was lost behind it may have had any mark.
pub(super) fn compare_selected(report: &mut VerifyReport, ledger: &LedgerRecord) {
    let is_removed = report.removed.as_ref().is_some_and(|removed| removed.has(Table::Events));
    let Some(came) = ledger.at_recording(Table::Events, |row| row.input) else { return };
    if is_removed || report.events.selected.is_empty() {
        return;
    }
    let of_word = |row: &EntriesRecord, noted: Noted| row.noted.get(noted.word()).copied().unwrap_or(0);
    let noted = |noted| {
        let events = ledger.entries.iter().filter(|row| row.unit == Unit::Events.word());
        events.map(|row| of_word(row, noted)).sum::<u64>()
    };
    let (prescaled, undecided) = (noted(Noted::Prescaled), noted(Noted::Undecided));
    let kept = came.saturating_sub(prescaled).saturating_sub(undecided);
    let not_on_file = came.saturating_sub(report.events.events);
    for (selected, said) in
        [(Selected::Kept, kept), (Selected::Prescaled, prescaled), (Selected::Undecided, undecided)]
    {
        let word = selected.word();
        let found = report.events.selected.get(word).copied().unwrap_or(0);
        if !(said.saturating_sub(not_on_file)..=said).contains(&found) {
            report.problem(format!(
                "{found} events on file are marked as {word}, and the event filter has passed on {said} of them"
            ));
        }
    }
}

impl Triggers {
    pub(super) fn new() -> Triggers {
        Triggers { complete: true, ..Triggers::default() }
    }

    fn add(&mut self, row: &EventRow, missing: &[SourceId]) {
        if self.seen.len() < MOST_TRIGGERS && self.missing.len() < MOST_TRIGGERS {
            self.seen.push((row.trigger, row.attempt));
            self.missing.extend(missing.iter().map(|source| (row.trigger, row.attempt, *source)));
        } else {
            self.complete = false;
        }
    }

    /// Adds those of another directory.
    pub(super) fn append(&mut self, mut other: Triggers) {
        self.complete &= other.complete && self.seen.len() + other.seen.len() <= MOST_TRIGGERS;
        if self.complete {
            self.seen.append(&mut other.seen);
            self.missing.append(&mut other.missing);
        }
    }

    /// Joins the attempts of each trigger, of which these boards may have fragments; `None` when there are too many triggers.
    pub(super) fn join(mut self, boards: usize) -> Option<Joined> {
        if !self.complete {
            return None;
        }
        self.seen.sort_unstable();
        self.missing.sort_unstable();
        let mut joined = Joined { repeated: vec![0; boards], ..Joined::default() };
        for rows in self.seen.chunk_by(|one, next| one.0 == next.0) {
            joined.events += 1;
            let doubled = rows.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
            joined.doubled += doubled;
            joined.superseded += rows.len() as u64 - 1 - doubled;
            if rows.len() > 1 {
                self.count_repeated(rows, &mut joined.repeated);
            }
        }
        Some(joined)
    }

    /// Counts, of each board, in how many rows beyond the first its fragment is. In rows that stand twice alike it is missing twice.
    fn count_repeated(&self, rows: &[(u64, u8)], repeated: &mut [u64]) {
        let trigger = rows[0].0;
        let start = self.missing.partition_point(|(of, ..)| *of < trigger);
        let missing = self.missing[start..].iter().take_while(|(of, ..)| *of == trigger);
        let mut present = vec![rows.len() as u64; repeated.len()];
        for (.., source) in missing {
            if let Some(present) = present.get_mut(source.index()) {
                *present = present.saturating_sub(1);
            }
        }
        for (repeated, present) in repeated.iter_mut().zip(present) {
            *repeated += present.saturating_sub(1);
        }
    }

    /// Holds the triggers of all files against each other.
    pub(super) fn compare(&mut self, report: &mut VerifyReport) {
        if !self.complete {
            return;
        }
        self.seen.sort_unstable();
        for pair in self.seen.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            if pair[0].1 == pair[1].1 {
                report.events.doubled += 1;
                report.problem(format!("trigger {}: two events of one attempt", pair[0].0));
            } else {
                report.events.superseded += 1;
            }
        }
    }
}
