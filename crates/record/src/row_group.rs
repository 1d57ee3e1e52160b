//! A row group: the rows that enter all tables of a sink at once, and the sink that makes, compresses and writes them.
//!
//! ```text
//!  append ──► open row group ── full or old ──► [ workers compress ] ──► ready ── stage all, commit all ──► files
//!             └────────────── held ────────────────────────────────┘        └── out, per source
//! ```
//! Every amount is counted per source where it happens: in when a batch comes, held from the row groups in memory, lost when the disk is
//! full at the end or fails, or when somebody removes a file. Out means *written*, that is visible on file, with
//! `sync = "none"`; with any other it means *durable*: what is visible is held until the file was forced to the disk. A disk that
//! fails then takes back nothing that was counted as out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use thalweg_data::{Counters, LossReason, Mark, SinkError, SourceId, Unit};

use crate::amounts::Amounts;
use crate::error::RecordError;
use crate::ipc::columns::Batch;
use crate::ipc::compress::{Compressed, Compressor};
use crate::ipc::file::{TableFile, TableSummary};
use crate::ipc::workers::Workers;
use crate::settings::{Compression, Settings, Sync};
use crate::table::Table;
use crate::written_log::WrittenLog;

/// Rows for all tables of a sink.
pub(crate) trait RowGroup: Send + 'static {
    /// The rows of a table, or `None` when there are none.
    fn batch(&self, table: Table) -> Option<&dyn Batch>;
    /// Whose they are.
    fn amounts(&self) -> &Amounts;
    /// Whether it is time to write it.
    fn is_full(&self) -> bool;
    /// Whether no table has rows.
    fn is_empty(&self) -> bool;
    /// Completes what is made once, at the end.
    fn seal(&mut self);
    /// Gives back what only its plain buffers need: it has been compressed.
    fn release(&mut self) {}
    /// Empties it, keeps its memory.
    fn clear(&mut self);
}

/// The first row group of a run is made at this age.
const FIRST_AGE_NS: u64 = 20_000_000;

/// A complete row group, compressed if that is configured; of one that is to be compressed, memory for that.
struct Sealed<C> {
    group: C,
    compressed: Vec<(Table, Compressed)>,
}

/// Where the present files of a sink begin.
#[derive(Clone, Copy, Debug, Default)]
struct PartBegin {
    /// 0 for the first files.
    number: u32,
    /// When their first row group was begun.
    first_mark: Option<Mark>,
    /// Rows of the table of the sink that are in earlier files.
    first_row: u64,
}

/// Turns appended rows into batches on file, and keeps their counters.
pub(crate) struct RowGroupSink<C: RowGroup> {
    units: &'static [Unit],
    counters: Vec<Counters>,
    events: Counters,
    untouched: Counters,
    files: Vec<TableFile>,
    open: C,
    opened_at: Option<Mark>,
    /// Whether a first row group has been made: that one is made early, so that whoever starts a run soon sees that it works.
    has_closed_group: bool,
    workers: Option<Workers<Sealed<C>, Sealed<C>>>,
    /// Whose rows are in the workers' hands, group by group, and when the group was begun.
    handed: VecDeque<(Amounts, Mark)>,
    ready: Option<Sealed<C>>,
    /// When the group that is ready was begun.
    ready_begun: Mark,
    part: PartBegin,
    /// Visible on file, and not yet forced to the disk where that is asked for.
    written: Amounts,
    /// The directory that names the files is on the disk.
    is_named: bool,
    log: WrittenLog,
    spare: Vec<Sealed<C>>,
    make: Box<dyn Fn(&Settings) -> C + Send>,
    settings: Settings,
    /// No table takes rows, and none has the bytes that they were made of.
    keeps_nothing: bool,
    failure: Option<(String, String)>,
    synchronised: Instant,
}

impl<C: RowGroup> RowGroupSink<C> {
    /// A sink into `files`, which are committed in this order. `make` makes empty row groups.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(
        files: Vec<TableFile>,
        units: &'static [Unit],
        sources: usize,
        settings: &Settings,
        make: impl Fn(&Settings) -> C + Send + 'static,
    ) -> Result<RowGroupSink<C>, RecordError> {
        let tables: Vec<Table> = files.iter().map(TableFile::table).collect();
        let keeps_nothing = files.is_empty() && !settings.keeps(Table::Raw);
        let compression = settings.compression;
        let workers = match compression {
            Compression::None => None,
            _ => Some(start_workers(tables, settings).map_err(|cause| {
                let path = files.first().map(TableFile::path).unwrap_or(&settings.directory);
                RecordError::io(path, "starting threads that compress", cause)
            })?),
        };
        Ok(RowGroupSink {
            units,
            counters: vec![Counters::default(); sources],
            events: Counters::default(),
            untouched: Counters::default(),
            files,
            open: make(settings),
            opened_at: None,
            has_closed_group: false,
            workers,
            handed: VecDeque::new(),
            ready: None,
            ready_begun: Mark::default(),
            part: PartBegin::default(),
            written: Amounts::default(),
            is_named: false,
            log: WrittenLog::default(),
            spare: Vec::new(),
            make: Box::new(make),
            settings: settings.clone(),
            keeps_nothing,
            failure: None,
            synchronised: Instant::now(),
        })
    }

    /// Takes rows: `append` puts them into the open row group. They are refused, and counted as lost, when the disk has been
    /// full for so long that the open row group is, too, or has failed. Where no table is kept they are left out.
    pub fn take(
        &mut self,
        mark: Mark,
        amounts: &Amounts,
        append: impl FnOnce(&mut C),
    ) -> Result<(), SinkError> {
        if self.keeps_nothing {
            self.leave_out(amounts);
            return Ok(());
        }
        self.count(amounts, |counters, unit, count| counters.input(unit, count));
        // Before they come: so a row group has the same rows whether or not anybody looked at the clock while nothing came, and a replay, in
        // which nobody does, makes the same.
        let aged = if self.is_old(mark) { self.close_group() } else { Ok(()) };
        if let Err(refusal) = self.free_group() {
            let reason = self.reason();
            self.count_lost(amounts, reason);
            return Err(refusal);
        }
        if self.open.is_empty() {
            self.opened_at = Some(mark);
        }
        append(&mut self.open);
        let result = if self.open.is_full() { self.close_group() } else { aged };
        self.count_held();
        // The rows are held, so a full disk is reported with the next call. A failed one has lost them.
        if self.failure.is_some() { result } else { Ok(()) }
    }

    /// Counts rows that came and are not taken, whatever room there is.
    pub fn turn_away(&mut self, amounts: &Amounts, reason: LossReason) {
        self.count(amounts, |counters, unit, count| counters.input(unit, count));
        self.count_lost(amounts, reason);
    }

    /// Counts rows that came and are not recorded, as asked.
    pub fn leave_out(&mut self, amounts: &Amounts) {
        self.count(amounts, |counters, unit, count| counters.input(unit, count));
        self.count(amounts, |counters, unit, count| counters.filtered(unit, count));
    }

    /// The rows that are not yet in a complete row group.
    pub fn open_group(&self) -> &C {
        &self.open
    }

    /// Writes what has waited long enough, and what the workers have done.
    pub fn advance(&mut self, mark: Mark) -> Result<(), SinkError> {
        self.alive()?;
        let mut result = self.drain(false);
        if result.is_ok() && self.is_old(mark) {
            result = self.close_group();
        }
        // Also when nothing comes any more.
        result = result.and_then(|()| self.synchronise_if_due());
        self.count_held();
        result
    }

    /// Hands the open row group to the files although it is neither full nor old.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.alive()?;
        let result = self.close_group();
        self.count_held();
        result
    }

    /// As [`RowGroupSink::flush`], and forces to the disk what is not out before that, although it is not due.
    pub fn force(&mut self) -> Result<(), SinkError> {
        let mut result = self.flush();
        if result.is_ok() && !self.written.is_zero() {
            result = self.synchronise();
            self.count_held();
        }
        result
    }

    /// Writes everything. What a full disk refuses stays here, for another try.
    pub fn complete(&mut self) -> Result<(), SinkError> {
        self.alive()?;
        let result = self.close_group().and_then(|()| self.drain(true));
        self.count_held();
        result
    }

    /// Writes everything and forces it to the disk. What cannot be written is lost.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        let mut result = self.complete();
        if result.is_ok() {
            result = self.synchronise().and_then(|()| self.expect_no_file_loss());
        }
        if result.is_err() && self.failure.is_none() {
            self.give_up(LossReason::DiskFull);
        }
        self.count_held();
        result
    }

    /// The counters of one source.
    pub fn counters(&self, source: SourceId) -> &Counters {
        self.counters.get(source.index()).unwrap_or(&self.untouched)
    }

    /// The counters of events.
    pub fn events_counters(&self) -> &Counters {
        &self.events
    }

    /// Returns a summary of what the files hold.
    pub fn summaries(&self) -> Vec<TableSummary> {
        self.files.iter().map(TableFile::summary).collect()
    }

    /// Rows of one table that are visible on file.
    pub fn rows_on_file(&self, table: Table) -> u64 {
        self.files.iter().filter(|file| file.table() == table).map(TableFile::rows).sum()
    }

    fn alive(&self) -> Result<(), SinkError> {
        match &self.failure {
            Some((place, message)) => {
                Err(SinkError::Failed { place: place.clone(), message: message.clone() })
            }
            None => Ok(()),
        }
    }

    fn is_old(&self, mark: Mark) -> bool {
        let age_ns = match self.has_closed_group {
            true => self.settings.batch_age_ns(),
            false => self.settings.batch_age_ns().min(FIRST_AGE_NS),
        };
        self.opened_at.is_some_and(|opened| !self.open.is_empty() && mark.since_ns(opened) >= age_ns)
    }

    fn free_group(&mut self) -> Result<(), SinkError> {
        self.alive()?;
        if self.open.is_full() { self.close_group() } else { Ok(()) }
    }

    /// Hands the open row group on. An error leaves it open: there is no space for another.
    fn close_group(&mut self) -> Result<(), SinkError> {
        let has_capacity = |sink: &RowGroupSink<C>| match &sink.workers {
            Some(workers) => !workers.is_full(),
            None => sink.ready.is_none(),
        };
        self.drain(false)?;
        while !has_capacity(self) {
            self.drain_one(true)?;
        }
        if self.open.is_empty() {
            return Ok(());
        }
        let begun = self.opened_at.take().unwrap_or_default();
        self.has_closed_group = true;
        if self.workers.is_none() {
            return self.write_open(begun);
        }
        let sealed = self.replace_open();
        if let Some(workers) = &mut self.workers {
            self.handed.push_back((sealed.group.amounts().clone(), begun));
            workers.submit(sealed);
        }
        Ok(())
    }

    /// Writes the open row group from where it was filled, so that the same memory stays in the cache. Only what a full disk refuses
    /// makes way for another.
    fn write_open(&mut self, begun: Mark) -> Result<(), SinkError> {
        self.expect_no_file_loss()?;
        self.open.seal();
        let turned = self.turn_over_if_due(begun);
        if let Err(error) =
            turned.and_then(|()| write(&mut self.files, &self.open, &[], self.settings.compression))
        {
            self.ready = Some(self.replace_open());
            self.ready_begun = begun;
            return Err(self.refuse(error));
        }
        let amounts = self.open.amounts().clone();
        self.open.clear();
        self.enter_written(&amounts);
        self.synchronise_if_due()
    }

    /// Goes on in new files, where the present ones are complete: before the row group that begins with `begun`.
    fn turn_over_if_due(&mut self, begun: Mark) -> Result<(), RecordError> {
        let Some(last) = self.files.last() else { return Ok(()) };
        let rows = last.rows() - self.part.first_row;
        let first = *self.part.first_mark.get_or_insert(begun);
        let most_bytes = self.files.iter().map(TableFile::file_bytes).max().unwrap_or(0);
        let are_complete = self.settings.files.are_reached(most_bytes, begun.since_ns(first), rows);
        if rows == 0 || !are_complete {
            return Ok(());
        }
        // Those that have gone on in an earlier try, when the disk was full, are left.
        for file in self.files.iter_mut().filter(|file| file.part() == self.part.number) {
            file.turn_over(&self.settings.files.directories)?;
        }
        let first_row = self.files.last().map_or(0, TableFile::rows);
        self.part = PartBegin { number: self.part.number + 1, first_mark: Some(begun), first_row };
        self.log = WrittenLog::default();
        self.is_named = false;
        Ok(())
    }

    /// Takes the open row group away, and puts an empty one there.
    fn replace_open(&mut self) -> Sealed<C> {
        let fresh = || Sealed { group: (self.make)(&self.settings), compressed: Vec::new() };
        let Sealed { group: next, compressed } = self.spare.pop().unwrap_or_else(fresh);
        Sealed { group: std::mem::replace(&mut self.open, next), compressed }
    }

    /// Counts what is visible on file.
    fn enter_written(&mut self, amounts: &Amounts) {
        self.log.add(&self.files, amounts);
        match self.settings.sync {
            Sync::None => self.count(amounts, |counters, unit, count| counters.output(unit, count)),
            Sync::Batch | Sync::Seconds(_) => self.written.add_all(amounts),
        }
    }

    fn drain(&mut self, wait: bool) -> Result<(), SinkError> {
        while self.drain_one(wait)? {}
        Ok(())
    }

    /// Writes the oldest complete row group; `false` when there is none.
    fn drain_one(&mut self, wait: bool) -> Result<bool, SinkError> {
        if self.ready.is_none() {
            match self.workers.as_mut().and_then(|workers| workers.next(wait)) {
                None => return Ok(false),
                Some(Ok(sealed)) => {
                    self.ready_begun = self.handed.pop_front().map_or(self.ready_begun, |(_, begun)| begun);
                    self.ready = Some(sealed);
                }
                Some(Err(_)) => {
                    let place = self.place();
                    return Err(self.fail(place, "a thread that compresses has ended early".to_owned()));
                }
            }
        }
        if self.ready.is_some() {
            self.expect_no_file_loss()?;
        }
        let Some(sealed) = self.ready.take() else { return Ok(false) };
        let Sealed { group, compressed } = &sealed;
        let turned = self.turn_over_if_due(self.ready_begun);
        if let Err(error) =
            turned.and_then(|()| write(&mut self.files, group, compressed, self.settings.compression))
        {
            self.ready = Some(sealed);
            return Err(self.refuse(error));
        }
        let mut sealed = sealed;
        self.enter_written(sealed.group.amounts());
        sealed.group.clear();
        self.spare.push(sealed);
        self.synchronise_if_due()?;
        Ok(true)
    }

    fn synchronise_if_due(&mut self) -> Result<(), SinkError> {
        let due = match self.settings.sync {
            _ if self.written.is_zero() => false,
            Sync::None => false,
            Sync::Batch => true,
            Sync::Seconds(seconds) => {
                let interval = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
                self.synchronised.elapsed() >= interval
            }
        };
        if due { self.synchronise() } else { Ok(()) }
    }

    fn synchronise(&mut self) -> Result<(), SinkError> {
        self.synchronised = Instant::now();
        let result = self.files.iter_mut().try_for_each(TableFile::sync).and_then(|()| self.name_files());
        // Whatever the disk says, another try would not write what it has thrown away: it has failed.
        result.map_err(|error| match error {
            RecordError::Full { path } => {
                self.fail(path.display().to_string(), "no space left while forcing to the disk".to_owned())
            }
            other => self.refuse(other),
        })?;
        let written = std::mem::take(&mut self.written);
        self.count(&written, |counters, unit, count| counters.output(unit, count));
        Ok(())
    }

    /// Forces the directory to the disk once: without it a power cut takes the names of the files.
    fn name_files(&mut self) -> Result<(), RecordError> {
        if let (false, Some(file)) = (self.is_named, self.files.first()) {
            for directory in file.directories() {
                let synced = std::fs::File::open(directory).and_then(|opened| opened.sync_all());
                synced.map_err(|cause| RecordError::io(directory, "forcing to the disk", cause))?;
            }
            self.is_named = true;
        }
        Ok(())
    }

    /// Ends the recording when somebody has removed, replaced or cut one of its files: what was on file there is lost.
    fn expect_no_file_loss(&mut self) -> Result<(), SinkError> {
        let loss = self.files.iter().find_map(|file| Some((file, file.loss()?)));
        let Some((file, loss)) = loss else { return Ok(()) };
        let (place, message) = (file.path().display().to_string(), loss.message(file));
        let gone = self.log.gone(file, loss);
        // Of these, what was not out is lost as held.
        let mut out = gone;
        out.take_away(&self.written);
        self.count(&out, |counters, unit, amount| counters.destroyed(LossReason::WriteFailed, unit, amount));
        Err(self.fail(place, message))
    }

    fn refuse(&mut self, error: RecordError) -> SinkError {
        match error {
            full @ RecordError::Full { .. } => SinkError::Full { message: full.to_string() },
            RecordError::Io { path, action, cause } => {
                self.fail(path.display().to_string(), format!("{action}: {cause}; check the disk"))
            }
            other => self.fail(self.place(), other.to_string()),
        }
    }

    /// The sink is of no further use: what it holds is lost.
    fn fail(&mut self, place: String, message: String) -> SinkError {
        self.failure = Some((place.clone(), message.clone()));
        self.give_up(LossReason::WriteFailed);
        self.count_held();
        SinkError::Failed { place, message }
    }

    /// Counts everything held as lost, and forgets it.
    fn give_up(&mut self, reason: LossReason) {
        let mut held = self.open.amounts().clone();
        self.handed.drain(..).for_each(|(amounts, _)| held.add_all(&amounts));
        if let Some(sealed) = self.ready.take() {
            held.add_all(sealed.group.amounts());
        }
        held.add_all(&std::mem::take(&mut self.written));
        self.workers = None;
        self.open.clear();
        self.count_lost(&held, reason);
    }

    fn reason(&self) -> LossReason {
        if self.failure.is_some() { LossReason::WriteFailed } else { LossReason::DiskFull }
    }

    fn place(&self) -> String {
        self.files.first().map(|file| file.path().display().to_string()).unwrap_or_default()
    }

    fn count_lost(&mut self, amounts: &Amounts, reason: LossReason) {
        self.count(amounts, |counters, unit, amount| counters.lost(reason, unit, amount));
    }

    fn count(&mut self, amounts: &Amounts, mut entry: impl FnMut(&mut Counters, Unit, u64)) {
        if self.counters.len() < amounts.of_sources().len() {
            self.counters.resize(amounts.of_sources().len(), Counters::default());
        }
        for (counters, amounts) in self.counters.iter_mut().zip(amounts.of_sources()) {
            for (unit, amount) in self.units.iter().zip(amounts).filter(|(_, amount)| **amount > 0) {
                entry(counters, *unit, *amount);
            }
        }
        if amounts.events() > 0 {
            entry(&mut self.events, Unit::Events, amounts.events());
        }
    }

    /// What is held, counted from the row groups in memory.
    fn count_held(&mut self) {
        let ready = self.ready.as_ref().map(|sealed| sealed.group.amounts());
        let containers = [Some(self.open.amounts()), ready, Some(&self.written)];
        let containers: Vec<&Amounts> =
            containers.into_iter().flatten().chain(self.handed.iter().map(|(amounts, _)| amounts)).collect();
        for (index, counters) in self.counters.iter_mut().enumerate() {
            for (place, unit) in self.units.iter().enumerate() {
                let in_one = |held: &&Amounts| held.of_sources().get(index).map_or(0, |held| held[place]);
                counters.set_held(*unit, containers.iter().map(in_one).sum());
            }
        }
        self.events.set_held(Unit::Events, containers.iter().map(|held| held.events()).sum());
    }
}

fn start_workers<C: RowGroup>(
    tables: Vec<Table>,
    settings: &Settings,
) -> std::io::Result<Workers<Sealed<C>, Sealed<C>>> {
    let compression = settings.compression;
    Workers::start(
        settings.compression_workers.clamp(1, 64),
        settings.row_groups_in_flight(),
        move || Compressor::new(compression),
        move |compressor, Sealed { mut group, compressed: mut spent }: Sealed<C>| {
            group.seal();
            let compressed = tables.iter().filter_map(|table| {
                let batch = group.batch(*table)?;
                let spent =
                    spent.iter().position(|(of, _)| of == table).map(|place| spent.swap_remove(place).1);
                Some((*table, compressor.batch(batch, spent)))
            });
            let compressed = compressed.collect();
            group.release();
            Sealed { group, compressed }
        },
    )
}

/// Stages all tables, then commits all: a full disk shows before any row is visible.
fn write<C: RowGroup>(
    files: &mut [TableFile],
    group: &C,
    compressed: &[(Table, Compressed)],
    compression: Compression,
) -> Result<(), RecordError> {
    let staged = files.iter_mut().try_for_each(|file| {
        let compressed = compressed.iter().find(|(table, _)| *table == file.table());
        let batch = match compressed {
            Some((_, compressed)) => Some(compressed as &dyn Batch),
            None => group.batch(file.table()),
        };
        batch.map_or(Ok(()), |batch| file.stage(batch, compression))
    });
    let result = staged.and_then(|()| files.iter_mut().try_for_each(TableFile::commit));
    if result.is_err() {
        files.iter_mut().for_each(TableFile::discard);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::columns::Columns;
    use crate::system::faults::fail_forces_after;

    /// Rows of numbers in the table of hits, all of one source.
    struct Rows {
        columns: Columns,
        amounts: Amounts,
    }

    impl Rows {
        fn new(_settings: &Settings) -> Rows {
            Rows { columns: Columns::new(Table::Hits), amounts: Amounts::default() }
        }
    }

    impl RowGroup for Rows {
        fn batch(&self, table: Table) -> Option<&dyn Batch> {
            (table == Table::Hits && self.columns.rows() > 0).then_some(&self.columns as &dyn Batch)
        }

        fn amounts(&self) -> &Amounts {
            &self.amounts
        }

        fn is_full(&self) -> bool {
            self.columns.rows() >= 10
        }

        fn is_empty(&self) -> bool {
            self.columns.rows() == 0
        }

        fn seal(&mut self) {}

        fn clear(&mut self) {
            self.columns.clear();
            self.amounts.clear();
        }
    }

    fn sink(folder: &std::path::Path, sync: Sync) -> RowGroupSink<Rows> {
        let file = TableFile::create(&folder.join("hits.arrows"), Table::Hits, &[]).expect("made");
        let settings = Settings { sync, compression: Compression::None, ..Settings::default() };
        RowGroupSink::new(vec![file], &[Unit::Hits], 1, &settings, Rows::new).expect("no threads are needed")
    }

    /// Gives ten rows: a full row group.
    fn give(sink: &mut RowGroupSink<Rows>) -> Result<(), SinkError> {
        let mut amounts = Amounts::default();
        amounts.add(SourceId(0), [10, 0]);
        sink.take(Mark(0), &amounts, |rows| {
            for _ in 0..10 {
                rows.columns.push(0, 1i64.to_le_bytes());
                (1..5).for_each(|column| rows.columns.push(column, [0; 2]));
                rows.columns.end_row();
            }
            rows.amounts.add_all(&amounts);
        })
    }

    /// Out, held, lost.
    fn slot(sink: &RowGroupSink<Rows>) -> [u64; 3] {
        let counters = sink.counters(SourceId(0));
        assert_eq!(
            counters.total_input(Unit::Hits),
            counters.total_output(Unit::Hits)
                + counters.held(Unit::Hits)
                + counters.total_lost_any(Unit::Hits)
        );
        [counters.total_output(Unit::Hits), counters.held(Unit::Hits), counters.total_lost_any(Unit::Hits)]
    }

    #[test]
    fn rows_are_out_when_they_are_on_the_disk_and_a_failing_disk_takes_none_back() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::Batch);
        give(&mut sink).expect("written and forced");
        assert_eq!(slot(&sink), [10, 0, 0]);
        fail_forces_after(Some(0));
        let error = give(&mut sink).expect_err("the disk fails").to_string();
        fail_forces_after(None);
        assert!(error.contains("forcing to the disk"), "{error}");
        assert_eq!(slot(&sink), [10, 0, 10], "visible, but nobody knows whether it is on the disk");
        assert!(give(&mut sink).is_err() && sink.finish().is_err(), "another try would lie");
        assert_eq!(slot(&sink), [10, 0, 20]);
    }

    #[test]
    fn rows_wait_for_the_disk_that_is_due_by_time() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::Seconds(3600.0));
        give(&mut sink).expect("written");
        assert_eq!((slot(&sink), sink.rows_on_file(Table::Hits)), ([0, 10, 0], 10));
        sink.advance(Mark(1)).expect("not due");
        assert_eq!(slot(&sink), [0, 10, 0]);
        sink.settings.sync = Sync::Seconds(0.0);
        sink.advance(Mark(2)).expect("due, although nothing comes");
        assert_eq!(slot(&sink), [10, 0, 0]);
        sink.settings.sync = Sync::Seconds(3600.0);
        give(&mut sink).expect("written");
        sink.force().expect("somebody waits for it");
        give(&mut sink).expect("written");
        fail_forces_after(Some(0));
        assert!(sink.finish().is_err());
        fail_forces_after(None);
        assert_eq!(slot(&sink), [20, 0, 10]);
    }

    #[test]
    fn rows_are_out_when_they_are_written_where_nobody_asks_for_the_disk() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::None);
        fail_forces_after(Some(0));
        give(&mut sink).expect("written");
        assert_eq!(slot(&sink), [10, 0, 0]);
        assert!(sink.finish().is_err(), "the end forces everything to the disk");
        fail_forces_after(None);
        assert_eq!(slot(&sink), [10, 0, 0]);
    }

    #[test]
    fn a_file_that_is_removed_or_cut_meanwhile_is_noticed_and_its_rows_are_lost() {
        type Damage = fn(&std::path::Path);
        let damages: [(Damage, [u64; 3], &str); 3] = [
            (|file| std::fs::remove_file(file).expect("removed"), [0, 0, 40], "has removed this file"),
            (
                |file| std::fs::rename(file, file.with_extension("away")).expect("moved"),
                [0, 0, 40],
                "has moved",
            ),
            (cut_to_two_batches, [20, 0, 20], "has truncated this file"),
        ];
        for (damage, expected, text) in damages {
            let folder = tempfile::tempdir().expect("temporary folder");
            let mut sink = sink(folder.path(), Sync::None);
            (0..3).for_each(|_| give(&mut sink).expect("written"));
            damage(&folder.path().join("hits.arrows"));
            let error = give(&mut sink).expect_err("noticed").to_string();
            assert!(error.contains(text) && error.contains("hits.arrows"), "{error}");
            assert_eq!(slot(&sink), expected, "{text}");
        }
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::None);
        give(&mut sink).expect("written");
        std::fs::remove_file(folder.path().join("hits.arrows")).expect("removed");
        assert!(sink.finish().is_err(), "noticed at the end at the latest");
        assert_eq!(slot(&sink), [0, 0, 10]);
    }

    fn cut_to_two_batches(path: &std::path::Path) {
        let mut reader = crate::read::TableReader::open(path).expect("opens");
        let ends: Vec<u64> =
            std::iter::from_fn(|| Some(reader.next_batch().expect("whole")?.end())).collect();
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("opens");
        file.set_len(ends[1] + 8).expect("cut");
    }

    #[test]
    fn what_a_cut_file_lost_is_reported_in_larger_steps_of_long_runs() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::None);
        (0..1000).for_each(|_| give(&mut sink).expect("written"));
        cut_to_two_batches(&folder.path().join("hits.arrows"));
        assert!(give(&mut sink).is_err());
        let [out, held, lost] = slot(&sink);
        assert!((out, held) == (0, 0) && lost == 10_010, "{out} out, {held} held, {lost} lost");
    }
}
