//! A row group: the rows that enter all tables of a sink at once, and the sink that makes, compresses and writes them.
//!
//! ```text
//!  append ──► open row group ── full or old ──► [ workers compress ] ──► ready ──► [ a thread writes ] ──► files
//!             └────────────── held ──────────────────────────────────────────────────────────────────┘ └── out, per source
//! ```
//! Every amount is counted per source where it happens: in when a batch comes, held from the row groups in memory, lost when the disk is
//! full at the end or fails, or when somebody removes a file. Out means *written*, that is visible on file, with
//! `sync = "none"`; with any other it means *durable*: what is visible is held until the file was forced to the disk. A disk that
//! fails then takes back nothing that was counted as out.

use std::collections::VecDeque;

use thalweg_data::{Counters, LossReason, Mark, SinkError, SourceId, Unit};

use crate::amounts::Amounts;
use crate::early_losses::EarlyLosses;
use crate::error::RecordError;
use crate::group_files::{GroupFiles, WriteFailure};
use crate::ipc::columns::Batch;
use crate::ipc::compress::{Compressed, Compressor};
use crate::ipc::file::{TableFile, TableSummary};
use crate::ipc::workers::Workers;
use crate::settings::{Compression, Settings, Sync};
use crate::table::Table;
use outlet::{Outlet, Returned, Written};

pub(crate) use outlet::MOST_GROUPS;

mod outlet;

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

/// A row group on its way to the files, and when it was begun.
struct Begun<C> {
    sealed: Sealed<C>,
    begun: Mark,
}

/// Turns appended rows into batches on file, and keeps their counters.
pub(crate) struct RowGroupSink<C: RowGroup> {
    units: &'static [Unit],
    counters: Vec<Counters>,
    events: Counters,
    early_losses: EarlyLosses,
    untouched: Counters,
    outlet: Outlet<C>,
    open: C,
    opened_at: Option<Mark>,
    /// Whether a first row group has been made: that one is made early, so that whoever starts a run soon sees that it works.
    has_closed_group: bool,
    workers: Option<Workers<Sealed<C>, Sealed<C>>>,
    /// Whose rows are with the threads that compress, group by group, and when the group was begun.
    handed: VecDeque<(Amounts, Mark)>,
    /// Complete, and not written: it waits for its turn, or a full disk has refused it.
    ready: VecDeque<Begun<C>>,
    /// The disk was full at the last try.
    is_refused: bool,
    /// Visible on file, and not yet forced to the disk where that is asked for.
    written: Amounts,
    spare: Vec<Sealed<C>>,
    make: Box<dyn Fn(&Settings) -> C + Send>,
    settings: Settings,
    /// No table takes rows, and none has the bytes that they were made of.
    keeps_nothing: bool,
    failure: Option<Failure>,
}

/// Why a sink is of no further use.
#[derive(Clone)]
struct Failure {
    place: String,
    message: String,
    /// What becomes of the rows that it holds, and of those that come.
    reason: LossReason,
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
        let place = files.first().map_or(settings.directory.as_path(), TableFile::first).to_owned();
        let keeps_nothing = files.is_empty() && !settings.keeps(Table::Raw);
        let outlet = Outlet::new(GroupFiles::new(files, settings));
        let workers = match settings.compression {
            Compression::None => None,
            _ => {
                let started = start_workers(tables, settings);
                Some(
                    started
                        .map_err(|cause| RecordError::io(&place, "starting threads that compress", cause))?,
                )
            }
        };
        Ok(RowGroupSink {
            units,
            counters: vec![Counters::default(); sources],
            events: Counters::default(),
            early_losses: EarlyLosses::default(),
            untouched: Counters::default(),
            outlet,
            open: make(settings),
            opened_at: None,
            has_closed_group: false,
            workers,
            handed: VecDeque::new(),
            ready: VecDeque::new(),
            is_refused: false,
            written: Amounts::default(),
            spare: Vec::new(),
            make: Box::new(make),
            settings: settings.clone(),
            keeps_nothing,
            failure: None,
        })
    }

    /// Writes on a thread of its own from now on: whoever gives rows waits only for a disk that is several row groups behind.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn write_beside(&mut self) -> Result<(), RecordError> {
        if self.keeps_nothing {
            return Ok(());
        }
        let started = self.outlet.start_thread();
        started.map_err(|cause| {
            RecordError::io(self.outlet.place().as_ref(), "starting the thread that writes", cause)
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
            self.lose_at_once(amounts, reason);
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
        self.lose_at_once(amounts, reason);
    }

    /// Loses rows that came last, whatever is held before them.
    fn lose_at_once(&mut self, amounts: &Amounts, reason: LossReason) {
        if amounts.events() > 0 {
            let before = self.events.total_input(Unit::Events) - amounts.events();
            self.early_losses.add(before, amounts.events(), self.events_settled_in_any_order());
        }
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
        let mut result = self.flush().and_then(|()| self.await_thread());
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
            result = self.lose_unwritten().and(result);
        }
        self.count_held();
        result
    }

    /// Waits no longer for space on a full disk: what it holds is lost, and so is what comes.
    pub fn abandon(&mut self) {
        if self.failure.is_none() && self.lose_unwritten().is_ok() {
            let message = "no space left on the disk, and none is waited for".to_owned();
            let place = self.outlet.place().to_owned();
            self.end(Failure { place, message, reason: LossReason::DiskFull });
        }
    }

    /// What a full disk has no space for is lost, and what is visible there is forced to it, as at any end.
    fn lose_unwritten(&mut self) -> Result<(), SinkError> {
        self.lose_groups(LossReason::DiskFull);
        self.synchronise()
    }

    /// The counters of one source.
    pub fn counters(&self, source: SourceId) -> &Counters {
        self.counters.get(source.index()).unwrap_or(&self.untouched)
    }

    /// The counters of events.
    pub fn events_counters(&self) -> &Counters {
        &self.events
    }

    /// Events that came before the first that is still held.
    pub fn events_settled(&self) -> u64 {
        self.early_losses.in_order(self.events_settled_in_any_order())
    }

    fn events_settled_in_any_order(&self) -> u64 {
        let settled = self.events.total_output(Unit::Events) + self.events.total_filtered(Unit::Events);
        settled + self.events.total_lost_any(Unit::Events)
    }

    /// Returns a summary of what the files hold.
    pub fn summaries(&self) -> Vec<TableSummary> {
        self.outlet.summaries()
    }

    /// Rows of one table that are visible on file.
    pub fn rows_on_file(&self, table: Table) -> u64 {
        self.outlet.rows(table)
    }

    fn alive(&self) -> Result<(), SinkError> {
        match &self.failure {
            Some(Failure { place, message, .. }) => {
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
            None if sink.outlet.has_thread() => sink.ready.len() < MOST_GROUPS,
            None => sink.ready.is_empty(),
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
        if self.workers.is_none() && !self.outlet.has_thread() {
            return self.write_open(begun);
        }
        let mut sealed = self.replace_open();
        match &mut self.workers {
            Some(workers) => {
                self.handed.push_back((sealed.group.amounts().clone(), begun));
                workers.submit(sealed);
                Ok(())
            }
            None => {
                sealed.group.seal();
                self.ready.push_back(Begun { sealed, begun });
                self.drain(false)
            }
        }
    }

    /// Writes the open row group from where it was filled, so that the same memory stays in the cache. Only what a full disk refuses
    /// makes way for another.
    fn write_open(&mut self, begun: Mark) -> Result<(), SinkError> {
        self.open.seal();
        let result = self.outlet.write(&self.open, begun);
        if let Err(WriteFailure::Refused(_)) = result {
            let sealed = self.replace_open();
            return self.settle(vec![(Begun { sealed, begun }, Some(result))]);
        }
        let amounts = self.open.amounts().clone();
        if !matches!(result, Err(WriteFailure::FileLost { .. })) {
            self.open.clear();
        }
        self.enter(&amounts, result)
    }

    /// Takes the open row group away, and puts an empty one there.
    fn replace_open(&mut self) -> Sealed<C> {
        let fresh = || Sealed { group: (self.make)(&self.settings), compressed: Vec::new() };
        let Sealed { group: next, compressed } = self.spare.pop().unwrap_or_else(fresh);
        Sealed { group: std::mem::replace(&mut self.open, next), compressed }
    }

    fn drain(&mut self, wait: bool) -> Result<(), SinkError> {
        while self.drain_one(wait)? {}
        Ok(())
    }

    /// Brings the oldest complete row group a step on; `false` when there is none, or it is not done.
    fn drain_one(&mut self, wait: bool) -> Result<bool, SinkError> {
        // Behind a refusal the caller learns at once whether the disk is still full.
        if self.outlet.away().is_some() {
            return self.take_written(wait || self.is_refused);
        }
        if self.ready.is_empty() && !self.take_compressed(wait)? {
            return Ok(false);
        }
        let most = if self.is_refused { 1 } else { MOST_GROUPS };
        let returned = self.outlet.send(&mut self.ready, most);
        let is_on_its_way = !returned.is_empty() || self.outlet.away().is_some();
        self.settle(returned).map(|()| is_on_its_way)
    }

    /// Takes the row groups back that are with the thread that writes; `false` when it is not done.
    fn take_written(&mut self, wait: bool) -> Result<bool, SinkError> {
        match self.outlet.next(wait) {
            None => Ok(false),
            Some(Ok(returned)) => self.settle(returned).map(|()| true),
            Some(Err(_)) => {
                let place = self.outlet.place().to_owned();
                Err(self.fail(place, "the thread that writes has ended early".to_owned()))
            }
        }
    }

    /// Waits until the thread that writes has nothing left to do.
    fn await_thread(&mut self) -> Result<(), SinkError> {
        let mut result = Ok(true);
        while self.outlet.has_thread() && matches!(result, Ok(true)) {
            result = self.drain_one(true);
        }
        self.count_held();
        result.map(|_| ())
    }

    /// Takes the oldest row group from the threads that compress; `false` when there is none, or it is not done.
    fn take_compressed(&mut self, wait: bool) -> Result<bool, SinkError> {
        let Some(workers) = &mut self.workers else { return Ok(false) };
        match workers.next(wait) {
            None => Ok(false),
            Some(Ok(sealed)) => {
                let begun = self.handed.pop_front().map_or(Mark::default(), |(_, begun)| begun);
                self.ready.push_back(Begun { sealed, begun });
                Ok(true)
            }
            Some(Err(_)) => {
                let place = self.outlet.place().to_owned();
                Err(self.fail(place, "a thread that compresses has ended early".to_owned()))
            }
        }
    }

    /// Counts what became of row groups. Those that are not written are kept, in front of all others.
    fn settle(&mut self, returned: Vec<Returned<C>>) -> Result<(), SinkError> {
        let (mut entries, mut kept) = (Vec::new(), Vec::new());
        for (mut group, written) in returned {
            let amounts = group.sealed.group.amounts().clone();
            match &written {
                None | Some(Err(WriteFailure::Refused(_) | WriteFailure::FileLost { .. })) => {
                    kept.push(group)
                }
                Some(Ok(_) | Err(WriteFailure::Unforced(_))) => {
                    group.sealed.group.clear();
                    self.spare.push(group.sealed);
                }
            }
            entries.extend(written.map(|written| (amounts, written)));
        }
        kept.into_iter().rev().for_each(|group| self.ready.push_front(group));
        entries.into_iter().try_for_each(|(amounts, written)| self.enter(&amounts, written))
    }

    /// Enters what became of these rows.
    fn enter(&mut self, amounts: &Amounts, result: Written) -> Result<(), SinkError> {
        self.is_refused = matches!(result, Err(WriteFailure::Refused(_)));
        if let Ok(_) | Err(WriteFailure::Unforced(_)) = result {
            self.enter_written(amounts);
        }
        match result {
            Ok(true) => self.enter_forced(),
            Ok(false) => {}
            Err(WriteFailure::Refused(error)) => return Err(self.refuse(error)),
            Err(WriteFailure::Unforced(error)) => return Err(self.refuse_forcing(error)),
            Err(WriteFailure::FileLost { place, message, gone }) => {
                return Err(self.lose_file(place, message, gone));
            }
        }
        Ok(())
    }

    /// Counts what is visible on file.
    fn enter_written(&mut self, amounts: &Amounts) {
        match self.settings.sync {
            Sync::None => self.count(amounts, |counters, unit, count| counters.output(unit, count)),
            Sync::Batch | Sync::Seconds(_) => self.written.add_all(amounts),
        }
    }

    /// Counts what is on the disk: all that is visible.
    fn enter_forced(&mut self) {
        let written = std::mem::take(&mut self.written);
        self.count(&written, |counters, unit, count| counters.output(unit, count));
    }

    fn synchronise_if_due(&mut self) -> Result<(), SinkError> {
        if self.written.is_zero() {
            return Ok(());
        }
        // The thread that writes looks itself.
        let Some(files) = self.outlet.files() else { return Ok(()) };
        match files.synchronise_if_due() {
            Ok(true) => self.enter_forced(),
            Ok(false) => {}
            Err(error) => return Err(self.refuse_forcing(error)),
        }
        Ok(())
    }

    fn synchronise(&mut self) -> Result<(), SinkError> {
        let Some(files) = self.outlet.files() else { return Ok(()) };
        match files.synchronise() {
            Ok(()) => self.enter_forced(),
            Err(error) => return Err(self.refuse_forcing(error)),
        }
        Ok(())
    }

    /// Ends the recording when somebody has removed, replaced or cut one of its files: what was on file there is lost.
    fn expect_no_file_loss(&mut self) -> Result<(), SinkError> {
        let Some(files) = self.outlet.files() else { return Ok(()) };
        match files.expect_no_loss() {
            Err(WriteFailure::FileLost { place, message, gone }) => Err(self.lose_file(place, message, gone)),
            _ => Ok(()),
        }
    }

    fn lose_file(&mut self, place: String, message: String, gone: Amounts) -> SinkError {
        // Of these, what was not out is lost as held.
        let mut out = gone;
        out.take_away(&self.written);
        self.count(&out, |counters, unit, amount| counters.destroyed(LossReason::WriteFailed, unit, amount));
        self.fail(place, message)
    }

    fn refuse(&mut self, error: RecordError) -> SinkError {
        match error {
            full @ RecordError::Full { .. } => SinkError::Full { message: full.to_string() },
            RecordError::Io { path, action, cause } => {
                self.fail(path.display().to_string(), format!("{action}: {cause}; check the disk"))
            }
            other => {
                let place = self.outlet.place().to_owned();
                self.fail(place, other.to_string())
            }
        }
    }

    /// Whatever the disk says, another try to force it would not write what it has thrown away: it has failed. What is visible stays so.
    fn refuse_forcing(&mut self, error: RecordError) -> SinkError {
        let visible = std::mem::take(&mut self.written);
        self.count_lost(&visible, LossReason::NotForced);
        match error {
            RecordError::Full { path } => {
                self.fail(path.display().to_string(), "no space left while forcing to the disk".to_owned())
            }
            other => self.refuse(other),
        }
    }

    /// The sink is of no further use: what it holds is lost.
    fn fail(&mut self, place: String, message: String) -> SinkError {
        self.end(Failure { place, message, reason: LossReason::WriteFailed })
    }

    fn end(&mut self, failure: Failure) -> SinkError {
        self.failure = Some(failure.clone());
        self.give_up(failure.reason);
        self.count_held();
        SinkError::Failed { place: failure.place, message: failure.message }
    }

    /// Counts everything held as lost, and forgets it.
    fn give_up(&mut self, reason: LossReason) {
        self.lose_groups(reason);
        let visible = std::mem::take(&mut self.written);
        self.count_lost(&visible, reason);
    }

    /// Counts what is not visible on file as lost, and forgets it.
    fn lose_groups(&mut self, reason: LossReason) {
        let mut held = self.open.amounts().clone();
        held.add_all(&self.recall());
        self.handed.drain(..).for_each(|(amounts, _)| held.add_all(&amounts));
        self.ready.drain(..).for_each(|group| held.add_all(group.sealed.group.amounts()));
        self.workers = None;
        self.open.clear();
        self.count_lost(&held, reason);
    }

    /// Ends the thread that writes. What it has written by then is counted; returned are the rows that it has not.
    fn recall(&mut self) -> Amounts {
        let mut lost = self.outlet.away().cloned().unwrap_or_default();
        let done = self.outlet.next(true);
        self.outlet.forget();
        let Some(Ok(returned)) = done else { return lost };
        for (group, written) in &returned {
            if let Some(Ok(is_forced)) = written {
                let amounts = group.sealed.group.amounts();
                lost.take_away(amounts);
                self.enter_written(amounts);
                if *is_forced {
                    self.enter_forced();
                }
            }
        }
        lost
    }

    fn reason(&self) -> LossReason {
        self.failure.as_ref().map_or(LossReason::DiskFull, |failure| failure.reason)
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
        let ready = self.ready.iter().map(|group| group.sealed.group.amounts());
        let handed = self.handed.iter().map(|(amounts, _)| amounts);
        let singles = [Some(self.open.amounts()), self.outlet.away(), Some(&self.written)];
        let containers: Vec<&Amounts> = singles.into_iter().flatten().chain(ready).chain(handed).collect();
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
        "compress",
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

#[cfg(test)]
mod tests;
