//! From a configuration to running threads, and from their end to closed books.
//!
//! ```text
//!  Configuration ─► open sources ─► rings and threads ─► watch ─► join ─► books, run.json, Summary
//! ```

mod event_readers;
mod events;
mod hits;
pub(crate) mod leading;
mod paths;
mod raw;
mod unit_threads;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use thalweg_data::ledger::{LossKind, LossReport};
use thalweg_data::{Books, Busy, Ledger, RunState, SourceId, Stage, Unit};
use thalweg_readout::RunClock;
use thalweg_readout::busy::BusyOutput;
use thalweg_record::ipc::file::TableSummary;
use thalweg_record::{
    ChannelsRecord, CoincidenceRecord, CutRecord, RecordError, RunDirectory, RunRecord, RunRecordState, Table,
};

use crate::boards::{self, BoardsTold};
use crate::config::{Configuration, SourceSettings};
use crate::error::RunError;
use crate::observed::{CutReport, Observed};
use crate::open::Origin;
use crate::pipeline::Signals;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::preview::preview;
use crate::roster::{Entry, Roster};
use crate::supervise::{
    EndWhen, EventSummary, GaugesOf, LiveState, Rates, RefusedGauges, RefusedUnit, SnapshotAudit,
    SourceSummary, Summary, Watch, Watched, add_witnesses, dead_time, no_data, unplaced_loss,
};
use crate::units::busy_told;
pub(crate) use events::spread_us;
use paths::Paths;
pub(crate) use raw::RAW_BATCHES;
use raw::RawLinks;

/// Takes data as configured until the end is reached, everything in flight is written, and the books are closed.
///
/// # Errors
/// When the run cannot be started. What goes wrong later is in the summary, and what was written verifies.
pub fn run(configuration: &Configuration, end: EndWhen, watch: &mut Watch<'_>) -> Result<Summary, RunError> {
    run_planned(configuration, Plan::of(configuration)?, end, watch)
}

/// As [`run`], where the plan of the configuration is known already.
///
/// # Errors
/// As of [`run`].
pub fn run_planned(
    configuration: &Configuration,
    plan: Plan,
    end: EndWhen,
    watch: &mut Watch<'_>,
) -> Result<Summary, RunError> {
    let (configuration, told) = boards::ask(configuration)?;
    // What boards say changes what the run needs, as the number of channels does.
    let plan = if configuration.asks_boards() { Plan::of(&configuration)? } else { plan };
    let (configuration, Plan { roster, placement, .. }) = (&configuration, plan);
    placement.try_out().map_err(|message| configuration.invalid(format!("[threads]: {message}")))?;
    take_data(configuration, (&Origin::Configured, &told), (roster, placement), end, watch)
}

/// Runs a raw recording again through the same path, into a new run in `parent`.
///
/// # Errors
/// When `recorded` holds no raw recording, or the new run cannot be started.
pub fn replay(recorded: &Path, parent: &Path, watch: &mut Watch<'_>) -> Result<Summary, RunError> {
    let directory = RunDirectory::open(recorded)?;
    let recorded = directory.path();
    let record = RunRecord::read(&directory.run_record())?;
    let mut configuration = boards::recorded(&recorded.join("run.json"), &record)?;
    let told = boards::told(&record);
    configuration.record.directory = parent.to_owned();
    configuration.record.tables.retain(|table| *table != Table::Raw);
    configuration.run.title = format!("replay of {}", record.title);
    // What the channels were when it was recorded: the table itself may have changed or gone since.
    if let (Some(file), copy) = (&mut configuration.channels.file, directory.channels())
        && copy.exists()
    {
        *file = std::path::absolute(&copy).unwrap_or(copy);
    }
    // The cores and nodes are those of the machine that recorded.
    for source in &mut configuration.sources {
        (source.endpoint.numa_node, source.endpoint.huge_pages) = Default::default();
    }
    let everyone = (Roster::of(&configuration)?, Placement::default());
    let origin = Origin::Recorded(recorded.to_owned());
    take_data(&configuration, (&origin, &told), everyone, EndWhen::default(), watch)
}

/// Where a run takes place: what both paths need to open.
struct Site<'c> {
    configuration: &'c Configuration,
    origin: &'c Origin,
    directory: &'c RunDirectory,
    ledger: &'c Ledger,
    signals: &'c Arc<Signals>,
    roster: &'c Roster,
    /// Raised by whoever cannot take more.
    busy: &'c Arc<Busy>,
    /// Where readers show what was refused first.
    refused: &'c Arc<RefusedGauges>,
    clock: RunClock,
    placement: &'c Placement,
}

impl Site<'_> {
    /// Whether a pause leaves this source unread: one that is no board, and loses nothing.
    fn waits_in_a_pause(&self, settings: &SourceSettings) -> bool {
        let is_file = matches!(settings.endpoint.url.scheme(), "file" | "pcap");
        is_file || matches!(self.origin, Origin::Recorded(_))
    }

    /// Starts a thread where `[threads]` has one of this name.
    fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Arc<Signals>) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, RunError> {
        self.spawn_one_of(name, name, work)
    }

    /// Starts a thread of its own `name`, one of several that stand where `[threads]` has `group`.
    fn spawn_one_of<R: Send + 'static>(
        &self,
        group: &str,
        name: &str,
        work: impl FnOnce(&Arc<Signals>) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, RunError> {
        let signals = self.signals;
        signals.thread_starts();
        let counted = Counted(signals.clone());
        let run = move || work(&counted.0);
        let thread = std::thread::Builder::new().name(name.to_owned());
        self.placement.at(group, || thread.spawn(run))?.map_err(|cause| {
            signals.request_stop();
            RunError::Thread { name: name.to_owned(), cause }
        })
    }
}

/// The number of the run, for machines that refuse what belongs to another: each process is for one.
const RUN: u32 = 1;

/// A run's files.
/// Bins of spectra that are saved with a run, at most: some ten megabytes of text.
const MOST_BINS_SAVED: usize = 1 << 21;
/// Bytes of a bin in words, as a rule: a count of five digits and a comma.
const BYTES_OF_BIN: usize = 6;
/// Bytes of a run's record beside its configuration and sources; of a spectrum file beside its bins.
const RECORD_BYTES: usize = 256 << 10;
/// Bytes of a source in a run's record: its lines of the ledger, its losses and gauges.
const RECORD_BYTES_OF_SOURCE: usize = 16 << 10;

struct Files {
    directory: RunDirectory,
    record: RunRecord,
    /// Whether data taking has begun: what happened before leaves no run behind.
    has_begun: bool,
}

impl Files {
    /// Keeps a copy of the table of channels, for replays. One that cannot be read is refused where the channels are looked up.
    fn keep_channels(&mut self, configuration: &Configuration) -> Result<(), RunError> {
        let Some(file) = configuration.channels.file.as_ref() else {
            return Ok(());
        };
        let Ok(text) = std::fs::read(configuration.beside(file)) else { return Ok(()) };
        self.record.documents.push(self.directory.write_channels(&text)?);
        Ok(self.record.write(&self.directory)?)
    }

    /// Reserves room for the record of the run as it will be in the end.
    fn reserve_record(&self, sources: usize) -> Result<(), RunError> {
        let text = 2 * self.record.configuration.len();
        Ok(self.directory.reserve_record(RECORD_BYTES + text + sources * RECORD_BYTES_OF_SOURCE)?)
    }

    /// The run begins: from now on its directory stays. Reserves room for the spectra that it will have.
    fn begin(&mut self, observed: Option<&Observed>) {
        self.has_begun = true;
        let Some(observed) = observed else { return };
        let bins = observed.spectra.spectra().iter().map(|info| info.bins()).sum::<usize>();
        self.directory.reserve_spectra(RECORD_BYTES + bins.min(MOST_BINS_SAVED) * BYTES_OF_BIN);
    }

    /// Keeps the spectra, and what cuts and coincidence did.
    fn keep(&mut self, observed: &Observed) -> Result<(), RecordError> {
        let report = observed.report();
        let cut = |cut: &CutReport| CutRecord {
            name: cut.name.clone(),
            on: cut.on.word().to_owned(),
            input: cut.input,
            kept: cut.kept,
        };
        self.record.cuts = report.cuts.iter().map(cut).collect();
        self.record.coincidences = report.coincidences.as_ref().map(|made| CoincidenceRecord {
            made: made.made,
            kept: made.kept,
            cut_short: made.cut_short,
            multiplicity: made.multiplicity.to_vec(),
        });
        let spectra = observed.spectra.all_uhi(MOST_BINS_SAVED).to_string();
        self.record.documents.push(self.directory.write_spectra(spectra.as_bytes())?);
        Ok(())
    }

    /// Writes why the run failed; one that has not begun leaves nothing behind. The reason why it failed is what is told, not that
    /// this could not be written down.
    fn fail(&mut self, error: &RunError) {
        let written = if self.has_begun {
            self.record.remarks.push(error.to_string());
            self.record.stop(RunRecordState::Failed, Vec::new(), None);
            let written = self.record.write(&self.directory);
            self.directory.release_reserved();
            written
        } else {
            self.directory.discard()
        };
        if let Err(unwritten) = written {
            tracing::error!("{unwritten}");
        }
    }

    /// Writes how the run ended. What cannot be written is a failure of the run, which its summary tells whatever happens.
    fn close(
        &mut self,
        summary: &mut Summary,
        tables: Vec<TableSummary>,
        books: &Books,
        observed: Option<&Observed>,
    ) {
        if let Some(Err(error)) = observed.map(|observed| self.keep(observed)) {
            fail(summary, &error);
        }
        let state = if summary.is_good() { RunRecordState::Stopped } else { RunRecordState::Failed };
        self.record.remarks = summary.remarks();
        self.record.details.extend(details(summary));
        if let Some(preview) = observed.and_then(|observed| preview(&observed.spectra)) {
            self.record.details.insert("preview".to_owned(), preview.into());
        }
        self.record.stop(state, tables, Some(books));
        // With the advice that fits each source, which the books alone do not know.
        if let Some(ledger) = &mut self.record.ledger {
            ledger.losses = serde_json::to_value(&summary.losses).unwrap_or_default();
        }
        if let Err(error) = self.record.write(&self.directory) {
            fail(summary, &error);
        }
        self.directory.release_reserved();
    }
}

/// Enters what went wrong when the run had ended already.
fn fail(summary: &mut Summary, error: &RecordError) {
    tracing::error!("{error}");
    summary.state = "failed";
    summary.failures.push(error.to_string());
}

/// Which source has which channels, where that can be told: older recordings may have sources that share some.
fn channels_of(configuration: &Configuration) -> BTreeMap<String, ChannelsRecord> {
    let ranges = configuration.channel_ranges().filter(|_| configuration.shared_channels().is_none());
    ranges
        .map(|(name, range)| (name.to_owned(), ChannelsRecord { first: range.first, count: range.count }))
        .collect()
}

fn take_data(
    configuration: &Configuration,
    (origin, told): (&Origin, &BoardsTold),
    (roster, placement): (Roster, Placement),
    end: EndWhen,
    watch: &mut Watch<'_>,
) -> Result<Summary, RunError> {
    // What is not named stands with the others: this thread first, then whatever it makes.
    let _standing = placement.begin()?;
    let title = &configuration.run.title;
    let directory = RunDirectory::create(&configuration.record.directory, title)?;
    let comment = configuration.run.comment.clone();
    let mut record = RunRecord {
        comment,
        channels: channels_of(configuration),
        ..RunRecord::start(&directory, title, &configuration.text, &roster.names)
    };
    if !told.is_empty() {
        record.details.insert(boards::DETAIL.to_owned(), serde_json::to_value(told).unwrap_or_default());
    }
    record.write(&directory)?;
    let mut files = Files { directory, record, has_begun: false };
    let result = files
        .keep_channels(configuration)
        .and_then(|()| files.reserve_record(roster.names.len()))
        .and_then(|()| take_data_into(configuration, origin, (roster, &placement), end, watch, &mut files));
    if let Err(error) = &result {
        watch.handle.publish(LiveState {
            state: RunState::Failed,
            run: if files.has_begun { files.directory.number() } else { 0 },
            title: title.clone(),
            failures: vec![error.to_string()],
            ..LiveState::default()
        });
        files.fail(error);
    }
    result
}

fn take_data_into(
    configuration: &Configuration,
    origin: &Origin,
    (roster, placement): (Roster, &Placement),
    end: EndWhen,
    watch: &mut Watch<'_>,
    files: &mut Files,
) -> Result<Summary, RunError> {
    let ledger = Ledger::create(Some(&files.directory.ledger()), &roster.names)?;
    let roster = Arc::new(roster);
    let (signals, busy) = (Arc::<Signals>::default(), Arc::<Busy>::default());
    // Told to the trigger as long as the run lasts, by one of all nodes; until every link is open, it waits.
    busy.raise();
    let _busy_output = BusyOutput::open(&busy_told(configuration, &roster)?, &busy)?;
    let refused = Arc::new(RefusedGauges::default());
    let (directory, clock) = (files.directory.clone(), RunClock::start());
    let site = Site {
        configuration,
        origin,
        directory: &directory,
        ledger: &ledger,
        signals: &signals,
        roster: &roster,
        busy: &busy,
        refused: &refused,
        clock,
        placement,
    };
    let mut paths = Paths::open(&site)?;
    busy.lower();
    let descriptions = paths.descriptions(configuration);
    paths.observed().into_iter().for_each(|observed| watch.handle.set_observed(observed));
    let started = Instant::now();
    files.begin(watch.handle.observed());
    paths.start(&site);
    let watched = Watched {
        signals: signals.clone(),
        ledger: ledger.clone(),
        roster: roster.clone(),
        gauges: paths.gauges(),
        build: paths.build_gauges(),
        refused: refused.clone(),
        busy: busy.clone(),
        directory: files.directory.clone(),
        title: configuration.run.title.clone(),
        started,
        handle: watch.handle.clone(),
        rates: Mutex::new(Rates::default()),
    };
    let audit = watched.until_end(end, &paths, watch);
    let elapsed_seconds = started.elapsed().as_secs_f64();
    paths.stop(&site);
    let taken = paths.finish(&site)?;
    let outcome = Outcome {
        books: ledger.books(),
        sent: taken.hits_sent(),
        events: taken.events_summary(&site, elapsed_seconds),
        audit,
        elapsed_seconds,
        first_hit_ms: taken.first_hit_ms(started),
        hits_late: taken.hits_late(),
        refused: watched.refused.all(),
        observed: watch.handle.observed().cloned(),
    };
    let mut summary =
        outcome.summary(&files.directory, &roster, &descriptions, &watched.gauges, signals.failures());
    files.close(&mut summary, taken.tables(), &outcome.books, watch.handle.observed());
    watched.tell_last(&summary, end, taken.trigger());
    Ok(summary)
}

/// A thread that is counted while it lives; should it panic, the run ends.
struct Counted(Arc<Signals>);

impl Drop for Counted {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.request_stop();
        }
        self.0.thread_ends();
    }
}

/// Waits for a thread; a panic is a failure of the run, told by name.
fn joined<R>(thread: JoinHandle<R>, signals: &Signals) -> Option<R> {
    let name = thread.thread().name().unwrap_or("unnamed").to_owned();
    let told = |_| signals.fail(format!("the thread \"{name}\" panicked: a defect, please report it"));
    thread.join().map_err(told).ok()
}

/// A run that is over, before it is told.
struct Outcome {
    books: Books,
    sent: Option<u64>,
    events: Option<EventSummary>,
    audit: SnapshotAudit,
    elapsed_seconds: f64,
    first_hit_ms: Option<f64>,
    hits_late: Option<u64>,
    refused: Vec<RefusedUnit>,
    observed: Option<Observed>,
}

impl Outcome {
    fn summary(
        &self,
        directory: &RunDirectory,
        roster: &Roster,
        descriptions: &[String],
        gauges: &GaugesOf,
        failures: Vec<String>,
    ) -> Summary {
        let books = &self.books;
        let decoded = books.total_output(Stage::Decode, Unit::Hits);
        let mut discrepancies: Vec<String> = books.discrepancies().iter().map(ToString::to_string).collect();
        discrepancies.extend(self.audit.open.iter().cloned());
        discrepancies.extend(self.sent.and_then(|sent| unplaced_loss(books, sent.saturating_sub(decoded))));
        let output = |stage, unit, entry: &Entry| -> u64 {
            let of = |source: &SourceId| {
                books.account(stage, *source).map_or(0, |account| account.tally.total_output(unit))
            };
            entry.all.iter().map(of).sum()
        };
        let entries = roster.entries.iter().zip(descriptions).enumerate();
        let sources = entries.map(|(index, (entry, description))| SourceSummary {
            name: entry.name.clone(),
            description: description.clone(),
            hits: output(Stage::Decode, Unit::Hits, entry),
            fragments: output(Stage::Unpack, Unit::Fragments, entry),
            bytes: output(Stage::Receive, Unit::Bytes, entry),
            dead_time: dead_time(self.observed.as_ref(), roster, index),
            witnesses: add_witnesses(entry.all.iter().filter_map(|source| gauges.get(&source.0))),
        });
        let sources: Vec<SourceSummary> = sources.collect();
        let bytes_unread = sources.iter().flat_map(|source| &source.witnesses);
        let bytes_unread =
            bytes_unread.filter(|(name, _)| name.ends_with("unread_bytes")).map(|(_, count)| count).sum();
        let losses = roster.placed(books);
        let unseen = self.events.as_ref().map_or(0, |events| events.triggers_unseen);
        let loss = LossReport { kinds: LossKind::all_of(&losses), ..roster.loss_report(books, unseen) };
        Summary {
            no_data: no_data(books, &sources, self.elapsed_seconds),
            state: if failures.is_empty() && discrepancies.is_empty() { "stopped" } else { "failed" },
            run_directory: Some(PathBuf::from(directory.path())),
            elapsed_seconds: self.elapsed_seconds,
            hits_sent: self.sent,
            hits_recorded: books.total_output(roster.hits_end(), Unit::Hits),
            hits_lost: loss.total(Unit::Hits).map_or(0, |total| total.known.count),
            hits_late: self.hits_late,
            coincidences_recorded: roster.coincidences.map(|_| roster.coincidences_recorded(books)),
            bytes_unread,
            loss,
            events: self.events.clone(),
            ledger_closed: discrepancies.is_empty(),
            discrepancies,
            snapshots: self.audit.taken,
            first_hit_ms: self.first_hit_ms,
            sources,
            losses,
            refused: self.refused.clone(),
            ledger: books.entries(),
            failures,
        }
    }
}

fn details(summary: &Summary) -> BTreeMap<String, serde_json::Value> {
    let sources = serde_json::to_value(&summary.sources).unwrap_or_default();
    let refused = serde_json::to_value(&summary.refused).unwrap_or_default();
    let events = summary.events.as_ref();
    let busy_time = serde_json::to_value(events.and_then(|events| events.busy_time)).unwrap_or_default();
    BTreeMap::from([
        ("sources".to_owned(), sources),
        ("refused".to_owned(), refused),
        ("hits_sent".to_owned(), summary.hits_sent.into()),
        ("hits_lost".to_owned(), summary.hits_lost.into()),
        ("hits_late".to_owned(), summary.hits_late.into()),
        ("bytes_unread".to_owned(), summary.bytes_unread.into()),
        ("triggers_unseen".to_owned(), events.map(|events| events.triggers_unseen).into()),
        ("dead_time_fraction".to_owned(), events.and_then(|events| events.dead_time_fraction).into()),
        ("busy_time".to_owned(), busy_time),
        ("elapsed_seconds".to_owned(), summary.elapsed_seconds.into()),
    ])
}
