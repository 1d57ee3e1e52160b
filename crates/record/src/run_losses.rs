//! What a recorded run has lost: what its ledger says, and what its files lack since.
//!
//! ```text
//!  ledger · tables that it keeps ─► totals of the run as it ended ─┐
//!  rows and payload on file, of a recovered run ───────────────────┴─► totals of what is there
//! ```
//! Every reader of recordings takes its statement on losses from here: verify, inspect, the list of runs, plots and the page.

use thalweg_data::ledger::{CounterSnapshot, LossReport, LossTotal, SLICED_HIT_BYTES, UnitCounts};
use thalweg_data::topology::FlowPath;
use thalweg_data::{DataKept, Ledger, LedgerSnapshot, Noted, StageRole, Unit};

use crate::advice;
use crate::directory::RunDirectory;
use crate::run_record::{EntriesRecord, LedgerRecord, RunRecord, RunRecordState};
use crate::table::{Table, data_kept};

impl RunRecord {
    /// What was lost, as people read it; `None` of a run that has no ledger yet.
    pub fn loss_report(&self) -> Option<LossReport> {
        let ledger = self.ledger.as_ref()?;
        let mut snapshot = ledger.snapshot();
        self.enter_unseen(&mut snapshot);
        let raw_bytes_missing = self.payload_missing(ledger, Table::Raw);
        let kept = DataKept { raw_bytes_missing, ..self.data_kept(&snapshot) };
        let report = advice::loss_report(&snapshot, kept);
        let uncounted = |total: &LossTotal| match total.known.unit {
            Unit::Hits if kept.are_in_slices() => {
                self.payload_missing(ledger, Table::Fragments) / SLICED_HIT_BYTES
            }
            _ => self.uncounted(ledger, total),
        };
        let of_killed_run = self.replay.as_ref().is_some_and(|replay| replay.was_killed);
        Some(match (self.state == RunRecordState::Recovered, of_killed_run || self.was_killed()) {
            (false, false) => report,
            (false, true) => report.of_killed_run(|_| 0),
            (true, false) => report.of_damaged_run(uncounted),
            (true, true) => report.of_killed_run(uncounted),
        })
    }

    /// Whether its program was killed and it was recovered since. Its ledger, if there is one, is of a moment before that: what came later was
    /// counted by nobody.
    pub fn was_killed(&self) -> bool {
        self.state == RunRecordState::Recovered && self.ledger.as_ref().is_none_or(|ledger| !ledger.closed)
    }

    /// Takes the ledger from its file where the record has none: of a run that is being written, or whose program was killed.
    pub(crate) fn take_ledger_of(&mut self, directory: &RunDirectory) {
        if self.ledger.is_none() {
            let snapshot = Ledger::read_file(&directory.ledger()).ok();
            self.ledger = snapshot.map(|snapshot| LedgerRecord::of(&snapshot));
        }
    }

    /// What it keeps of its data, by its tables and by the ledger.
    pub(crate) fn data_kept(&self, snapshot: &LedgerSnapshot) -> DataKept {
        let are_sliced = snapshot.at(StageRole::Slices).any(|own| own.counts(Unit::Hits));
        match self.kept_tables.is_empty() && self.missing.is_empty() && self.keeps_no_data() {
            true => DataKept::default(),
            false => data_kept(|table| self.keeps(table), are_sliced),
        }
    }

    /// Whether it keeps a table: it says so from its start on, or has a file of it, or had one.
    fn keeps(&self, table: Table) -> bool {
        let was_removed = || self.removed.as_ref().is_some_and(|removed| removed.has(table));
        match self.kept_tables.is_empty() {
            true => self.on_file(table).is_some() || was_removed(),
            false => self.kept_tables.iter().any(|word| word == table.word()),
        }
    }

    /// Whether it keeps a table, for all that it says: runs that do not say may have had each.
    pub(crate) fn may_keep(&self, table: Table) -> bool {
        self.kept_tables.is_empty() || self.keeps(table)
    }

    /// Payload bytes of a table, `raw` or `fragments`, that had come to the recording of a recovered run and are not on file, beside those
    /// that were counted as lost there; 0 where nobody has counted those on file.
    fn payload_missing(&self, ledger: &LedgerRecord, table: Table) -> u64 {
        let files = self.tables.iter().filter(|found| found.table == table.word());
        let on_file: Option<u64> = files.map(|found| found.payload_bytes).sum();
        let was_removed = self.removed.as_ref().is_some_and(|removed| removed.has(table));
        let is_counted = self.state == RunRecordState::Recovered && !was_removed;
        let missing = |on_file: u64| ledger.payload_not_on_file(table, on_file).unwrap_or(0);
        on_file.filter(|_| is_counted).map_or(0, missing).saturating_sub(ledger.payload_lost(table))
    }

    /// Whether it names no table of data: of a run that began without, and of one that has not ended.
    pub(crate) fn keeps_no_data(&self) -> bool {
        let is_list = |table: &str| Table::LISTS.iter().any(|list| list.word() == table);
        self.tables.iter().all(|found| is_list(&found.table))
    }

    /// What there is to say of its ledger, behind "the ledger"; `None` of a run that has none yet.
    pub fn ledger_verdict(&self) -> Option<&'static str> {
        let ledger = self.ledger.as_ref()?;
        Some(match (ledger.closed, self.state) {
            (true, _) => "balances",
            (false, RunRecordState::Recovered) => "is of a moment before the program was killed",
            (false, _) => "DOES NOT BALANCE",
        })
    }

    /// How many of what a total counts had come to the recording of a recovered run, are not in its table, and were not counted as lost
    /// there; 0 of other units, and without such a table.
    fn uncounted(&self, ledger: &LedgerRecord, total: &LossTotal) -> u64 {
        let table = match total.known.unit {
            _ if total.of_coincidences => Table::Coincidences,
            Unit::Hits => Table::Hits,
            Unit::Events => Table::Events,
            Unit::Fragments => Table::Fragments,
            _ => return 0,
        };
        let Some(on_file) = self.on_file(table) else { return 0 };
        let missing = ledger.not_on_file(table, on_file, self.removed.as_ref()).unwrap_or(0);
        missing.saturating_sub(ledger.at_recording(table, EntriesRecord::all_lost).unwrap_or(0))
    }

    /// Older runs have the number of unseen triggers beside their ledger.
    fn enter_unseen(&self, snapshot: &mut LedgerSnapshot) {
        let unseen = self.detail_count("triggers_unseen");
        if unseen > 0 && snapshot.triggers_unseen() == 0 {
            let path = snapshot.path();
            let is_of_events =
                |own: &CounterSnapshot| path.flow_path_of(own.stage, own.source) == Some(FlowPath::Events);
            let builds = |own: &&mut CounterSnapshot| {
                own.counts(Unit::Events)
                    && path.is_made(Unit::Events, own.stage, own.source)
                    && is_of_events(own)
            };
            let noted = UnitCounts { noted: vec![(Noted::Unseen, unseen)], ..UnitCounts::default() };
            snapshot
                .slots
                .iter_mut()
                .filter(builds)
                .take(1)
                .for_each(|own| own.counters.restore(Unit::Events, &noted));
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::{Counters, LossReason, SourceId, Stage};

    use super::*;
    use crate::ipc::file::TableSummary;
    use crate::missing::MissingRows;
    use crate::replay_record::ReplayRecord;

    #[test]
    fn what_a_killed_run_counted_as_lost_at_its_recording_is_in_the_bound_once() {
        let slot = |stage, count: fn(&mut Counters)| {
            let mut counters = Counters::default();
            count(&mut counters);
            CounterSnapshot { stage, source: SourceId(0), units: 1 << Unit::Hits as u64, counters }
        };
        let slots = vec![
            slot(Stage::Decode, |counters| counters.output(Unit::Hits, 200)),
            slot(Stage::Record, |counters| {
                counters.input(Unit::Hits, 180);
                counters.output(Unit::Hits, 150);
                counters.lost(LossReason::DiskFull, Unit::Hits, 30);
            }),
        ];
        let ledger = LedgerRecord::of(&LedgerSnapshot::of(vec!["left".to_owned()], slots));
        let table =
            TableSummary { table: Table::Hits.word().to_owned(), rows: 120, ..TableSummary::default() };
        let mut record = RunRecord { tables: vec![table], ledger: Some(ledger), ..RunRecord::default() };
        record.state = RunRecordState::Recovered;
        record.ledger.as_mut().expect("set").closed = false;
        let report = record.loss_report().expect("a ledger");
        assert_eq!(report.text(), "hits lost: unknown, ≥ 60 hits (≥ 30.0 %)");
    }

    #[test]
    fn a_run_of_raw_bytes_alone_has_lost_those_that_are_not_on_file() {
        let units = 1 << Unit::Bytes as u64 | 1 << Unit::Hits as u64;
        let slot = |stage, count: fn(&mut Counters)| {
            let mut counters = Counters::default();
            count(&mut counters);
            CounterSnapshot { stage, source: SourceId(0), units, counters }
        };
        let slots = vec![
            slot(Stage::Raw, |counters| {
                counters.input(Unit::Bytes, 1000);
                counters.output(Unit::Bytes, 900);
                counters.lost(LossReason::DiskFull, Unit::Bytes, 100);
            }),
            slot(Stage::Decode, |counters| counters.output(Unit::Hits, 200)),
            slot(Stage::Record, |counters| counters.output(Unit::Hits, 200)),
        ];
        let ledger = LedgerRecord::of(&LedgerSnapshot::of(vec!["left".to_owned()], slots));
        let of_tables = |tables: &[Table], state, payload_bytes| {
            let table = |table: &Table| {
                let (table, rows) = (table.word().to_owned(), 10);
                TableSummary { table, rows, payload_bytes, ..TableSummary::default() }
            };
            let (tables, ledger) = (tables.iter().map(table).collect(), Some(ledger.clone()));
            RunRecord { state, tables, ledger, ..RunRecord::default() }
                .loss_report()
                .expect("a ledger")
                .text()
        };
        let (raw, ended) = ([Table::Raw], RunRecordState::Failed);
        assert_eq!(of_tables(&raw, ended, None), "hits lost: unknown, ≥ 100 bytes (≥ 10.0 %)");
        assert_eq!(of_tables(&[Table::Raw, Table::Hits], ended, None), "no hits lost");
        let damaged_since = of_tables(&raw, RunRecordState::Recovered, Some(700));
        assert_eq!(damaged_since, "hits lost: unknown, ≥ 300 bytes (≥ 30.0 %)");
    }

    #[test]
    fn hits_in_time_slices_that_are_gone_are_lost() {
        let slot = |stage, source, units: &[Unit], count: &dyn Fn(&mut Counters)| {
            let mut counters = Counters::default();
            count(&mut counters);
            let units = units.iter().fold(0, |bits, unit| bits | 1 << *unit as u64);
            CounterSnapshot { stage, source: SourceId(source), units, counters }
        };
        let slices = |counters: &mut Counters| {
            for (unit, count) in [(Unit::Fragments, 10), (Unit::Bytes, 1000 * SLICED_HIT_BYTES)] {
                counters.input(unit, count);
                counters.output(unit, count);
            }
        };
        let hits = |counters: &mut Counters| counters.output(Unit::Hits, 1000);
        let slots = vec![
            slot(Stage::Decode, 0, &[Unit::Hits], &hits),
            slot(Stage::TimeSlice, 0, &[Unit::Hits], &hits),
            slot(Stage::Record, 1, &[Unit::Fragments, Unit::Bytes], &slices),
        ];
        let names = vec!["left".to_owned(), "left/slices".to_owned()];
        let ledger = LedgerRecord::of(&LedgerSnapshot::of(names, slots));
        let table = |table: Table, payload_bytes| {
            let table = table.word().to_owned();
            TableSummary { table, rows: 7, payload_bytes, ..TableSummary::default() }
        };
        let mut record = RunRecord {
            state: RunRecordState::Recovered,
            tables: vec![table(Table::Events, None), table(Table::Fragments, Some(700 * SLICED_HIT_BYTES))],
            ledger: Some(ledger),
            ..RunRecord::default()
        };
        let text = |record: &RunRecord, closed| {
            let mut record = record.clone();
            record.ledger.as_mut().expect("set").closed = closed;
            record.loss_report().expect("a ledger").total(Unit::Hits).expect("hits").text.clone()
        };
        assert_eq!(text(&record, true), "hits lost: 300 (30.0 %)");
        assert_eq!(text(&record, false), "hits lost: unknown, ≥ 300 hits (≥ 30.0 %)");
        record.tables.clear();
        let gone = |table: Table| MissingRows { table: table.word().to_owned(), ..MissingRows::default() };
        record.missing = vec![gone(Table::Events), gone(Table::Fragments)];
        assert_eq!(text(&record, true), "hits lost: 1000 (100.0 %)");
    }

    #[test]
    fn a_replay_of_a_killed_run_does_not_know_what_was_lost() {
        let mut counters = Counters::default();
        counters.output(Unit::Hits, 200);
        let slot = |stage| CounterSnapshot {
            stage,
            source: SourceId(0),
            units: 1 << Unit::Hits as u64,
            counters: counters.clone(),
        };
        let snapshot =
            LedgerSnapshot::of(vec!["left".to_owned()], vec![slot(Stage::Decode), slot(Stage::Record)]);
        let table = TableSummary { table: "hits".to_owned(), rows: 200, ..TableSummary::default() };
        let text = |state, was_killed| {
            let replay = Some(ReplayRecord { was_killed, ..ReplayRecord::default() });
            let (tables, ledger) = (vec![table.clone()], Some(LedgerRecord::of(&snapshot)));
            RunRecord { state, replay, tables, ledger, ..RunRecord::default() }
                .loss_report()
                .expect("set")
                .text()
        };
        assert_eq!(text(RunRecordState::Stopped, false), "no hits lost");
        assert_eq!(text(RunRecordState::Stopped, true), "hits lost: unknown");
        assert_eq!(text(RunRecordState::Recovered, true), "hits lost: unknown");
        let without_ledger = RunRecord { state: RunRecordState::Recovered, ..RunRecord::default() };
        assert!(without_ledger.was_killed(), "a run that ended has a ledger");
    }
}
