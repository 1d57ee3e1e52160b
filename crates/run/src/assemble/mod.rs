//! Starts the threads that a configuration describes, and joins them at a balanced ledger.
//!
//! ```text
//!  Configuration ─► open sources ─► rings and threads ─► watch ─► join ─► snapshot, run.json, Summary
//! ```

mod claims;
mod devices;
mod event_filter;
mod event_readers;
mod events;
mod hits;
mod leading;
mod loss_list;
mod paths;
mod range_lists;
mod raw;
mod replay;
mod unit_threads;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use thalweg_analysis::normalise::{Corrected, corrected_events};
use thalweg_analysis::spectrum::Info;
use thalweg_data::ledger::{LossKind, LossReport, LossTotal};
use thalweg_data::record_join::JoinCounts;
use thalweg_data::topology::{Marker, Topology};
use thalweg_data::{Busy, Ledger, LedgerSnapshot, Mark, Noted, RunState, SourceId, StageRole, Unit};
use thalweg_monitor::state::LiveRun;
use thalweg_qualify::host::{Counter, HostFiles, LossCounters};
use thalweg_readout::RunClock;
use thalweg_record::ipc::file::TableSummary;
use thalweg_record::{
    ChannelsRecord, CoincidenceRecord, Compression, CutRecord, Note, RecordError, RunDirectory, RunRecord,
    RunRecordState,
};

use crate::boards::{self, BoardReports};
use crate::config::{Configuration, SourceSettings};
use crate::error::RunError;
use crate::gauges::{BuildGauges, GaugesOf, RefusedGauges, add_drop_counters};
use crate::observed::{CutReport, Observed};
use crate::open::Origin;
use crate::pipeline::{Ledgered, Signals, joined};
use crate::plan::thread_names;
use crate::plan::{Placement, Plan};
use crate::preview::preview;
use crate::slow_control::{self, Devices, Enable, Keeper, Shared, Values};
use crate::source_table::{Entry, SourceTable};
use crate::supervise::{
    ChannelSummary, EndWhen, EventSummary, LiveState, MOST_SPECTRA_BYTES, Rates, RefusedUnit, RunHandle,
    ScopeJoins, SnapshotAudit, SourceSummary, SpectraLeftOut, Summary, Watch, Watched, WatchedPaths,
    corrected_rate, dead_time, no_data, unplaced_loss,
};
use crate::units::identity_record;
use claims::Claims;
use devices::SlowControl;
use loss_list::{ListedLosses, LossKeeper};
use paths::Paths;
use raw::RawLinks;
pub use replay::{Replay, replay};

/// Takes data as configured until the end is reached, everything in flight is written, and the ledger is closed.
///
/// # Errors
/// When the run cannot be started. What goes wrong later is in the summary, and what was written verifies.
pub fn run(configuration: &Configuration, end: EndWhen, watch: &mut Watch<'_>) -> Result<Summary, RunError> {
    run_planned(configuration, Plan::of(configuration)?, end, watch)
}

/// Like [`run`], for a configuration whose plan is known already.
///
/// # Errors
/// As of [`run`].
pub fn run_planned(
    configuration: &Configuration,
    plan: Plan,
    end: EndWhen,
    watch: &mut Watch<'_>,
) -> Result<Summary, RunError> {
    configuration.check_end(&end)?;
    let (configuration, board_reports) = boards::ask(configuration)?;
    // The boards' reports change what the run needs, such as the number of channels.
    let plan = if configuration.asks_boards() { Plan::of(&configuration)? } else { plan };
    plan.file_limits.check_directories()?;
    let (configuration, Plan { source_table, placement, topology, .. }) = (&configuration, plan);
    placement.try_out().map_err(|message| configuration.invalid(format!("[threads]: {message}")))?;
    let planned = Planned { source_table, placement, topology };
    take_data(configuration, (&Origin::Configured, &board_reports), planned, end, watch)
}

/// A run with its plan.
struct Planned {
    source_table: SourceTable,
    placement: Placement,
    topology: Topology,
}

/// The surroundings of a run: what both paths need to open.
struct Site<'c> {
    configuration: &'c Configuration,
    origin: &'c Origin,
    directory: &'c RunDirectory,
    ledger: &'c Ledger,
    signals: &'c Arc<Signals>,
    source_table: &'c SourceTable,
    /// BUSY, raised by any stage that cannot take more.
    busy: &'c Arc<Busy>,
    /// The units that readers refused first.
    refused: &'c Arc<RefusedGauges>,
    clock: RunClock,
    /// The time at which this process began the run, nanoseconds since 1970.
    started_ns: u64,
    placement: &'c Placement,
    /// The values that slow control reads.
    values: &'c Arc<Values>,
    /// What assembly has taken so far of the topology's declarations.
    claims: Claims,
}

impl Site<'_> {
    /// Makes a writer of the recording, whose threads of compression stand where `[threads]` has them.
    fn writer<W>(&self, create: impl FnOnce() -> Result<W, RecordError>) -> Result<W, RunError> {
        let record = &self.configuration.record;
        if record.compression != Compression::None {
            self.claims.threads(thread_names::COMPRESS, record.compression_workers);
        }
        Ok(self.placement.near(thread_names::COMPRESS, create)??)
    }

    /// The counter slot that a node of the topology declares for a subject.
    fn slot(&self, node: &str, subject: SourceId) -> Ledgered {
        Ledgered::new(self.ledger.claim(node, subject))
    }

    /// The same where only the opened source says which of the declared units it has.
    fn slot_of(&self, node: &str, subject: SourceId, units: &[Unit]) -> Ledgered {
        Ledgered::new(self.ledger.claim_of(node, subject, units))
    }

    /// Returns true if a pause leaves this source unread: a source that is no board, and loses nothing.
    fn waits_in_a_pause(&self, settings: &SourceSettings) -> bool {
        let is_file = matches!(settings.endpoint.url.scheme(), "file" | "pcap");
        is_file || matches!(self.origin, Origin::Recorded(_))
    }

    /// Starts the keeper of a device.
    fn keeper(&self, name: &str, control: &Shared) -> Result<Keeper, RunError> {
        let series = &self.configuration.series;
        Keeper::start((name, control.clone()), series, self.values, self.clock, self.placement)
    }

    /// Starts a thread where `[threads]` has one of this name.
    fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Arc<Signals>) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, RunError> {
        self.spawn_one_of(name, name, work)
    }

    /// Starts a thread of its own `name`, one of several that stand where `[threads]` has `group`, for which nobody waits: it may hang, and
    /// the run ends without it.
    fn spawn_apart(
        &self,
        group: &str,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), RunError> {
        self.claims.threads(group, 1);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let started = self.placement.at(group, || thread.spawn(work))?;
        started.map(drop).map_err(|cause| RunError::Thread { name: name.to_owned(), cause })
    }

    /// Starts a thread of its own `name`, one of several that stand where `[threads]` has `group`.
    fn spawn_one_of<R: Send + 'static>(
        &self,
        group: &str,
        name: &str,
        work: impl FnOnce(&Arc<Signals>) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, RunError> {
        self.claims.threads(group, 1);
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

/// Bytes of a run's record in addition to its configuration and sources, and of a spectrum file in addition to its bins.
const RECORD_BYTES: usize = 256 << 10;
/// Bytes of a source in a run's record: its lines of the ledger, its losses and gauges.
const RECORD_BYTES_OF_SOURCE: usize = 16 << 10;
/// Bytes of a channel in it: its live time and its rate.
const RECORD_BYTES_OF_CHANNEL: usize = 1 << 10;

/// A run's files.
struct Files {
    directory: RunDirectory,
    record: RunRecord,
    /// True if data taking has begun: a failure before that leaves no run behind.
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

    /// Reserves space for the record of the run as it will be in the end.
    fn reserve_record(&self, sources: usize) -> Result<(), RunError> {
        let text = 2 * self.record.configuration.len();
        let channels: usize = self.record.channels.values().map(|range| usize::from(range.count)).sum();
        let rows = sources * RECORD_BYTES_OF_SOURCE + channels * RECORD_BYTES_OF_CHANNEL;
        Ok(self.directory.reserve_record(RECORD_BYTES + text + rows)?)
    }

    /// The run begins: from now on its directory stays, and its losses are listed. Reserves space for the spectra that it will have.
    fn begin(
        &mut self,
        site: &Site<'_>,
        observed: Option<&Observed>,
        build: Option<Arc<BuildGauges>>,
    ) -> Result<LossKeeper, RunError> {
        self.has_begun = true;
        if let Some(observed) = observed {
            let bytes = observed.spectra.spectra().iter().map(typical_bytes).sum::<usize>();
            self.directory.reserve_spectra(RECORD_BYTES + bytes.min(MOST_SPECTRA_BYTES));
        }
        LossKeeper::start(site, &self.record.sources, build)
    }

    /// Slow control begins: its devices are read, and what was set at them is noted.
    fn begin_slow_control(&mut self, site: &Site<'_>, devices: Devices) -> Result<SlowControl, RunError> {
        self.note_controls(site.values);
        self.record.write(&self.directory)?;
        SlowControl::start(site, &devices)
    }

    /// Notes what was set at devices and boards.
    fn note_controls(&mut self, values: &Values) {
        if let Some(records) = values.records() {
            self.record.details.insert(slow_control::DETAIL.to_owned(), records);
        }
    }

    /// Writes what was set at boards as soon as they run, so that also a run that is killed has it.
    fn write_controls(&mut self, values: &Values) {
        self.note_controls(values);
        if let Err(error) = self.record.write(&self.directory) {
            tracing::warn!("{error}; what the boards were set to is written at the end of the run");
        }
    }

    /// Notes the event managers that reached a unit here.
    fn note_managers(&mut self, managers: &[u64]) {
        if let Some(identity) = &mut self.record.identity {
            identity.add_managers(managers.iter().copied());
        }
    }

    /// Keeps the spectra, and what cuts and coincidence did. Returns which spectra are not kept.
    fn keep(&mut self, observed: &Observed) -> Result<SpectraLeftOut, RecordError> {
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
        let spectra = observed.spectra.all_uhi(MOST_SPECTRA_BYTES).map_err(|cause| RecordError::Io {
            path: self.directory.path().to_owned(),
            action: "saying the spectra in JSON",
            cause: cause.into(),
        })?;
        self.record.documents.push(self.directory.write_spectra(&spectra.text)?);
        Ok(SpectraLeftOut { beyond_memory: observed.spectra.beyond_memory(), beyond_file: spectra.left_out })
    }

    /// Writes why the run failed, or removes a run that has not begun. The caller reports the reason of the failure, not an error in
    /// writing it down.
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

    /// Writes how the run ended. What cannot be written is a failure of the run, which its summary reports in any case.
    fn close(
        &mut self,
        summary: &mut Summary,
        (mut tables, losses): (Vec<TableSummary>, Option<ListedLosses>),
        snapshot: &LedgerSnapshot,
        observed: Option<&Observed>,
    ) {
        match observed.map(|observed| self.keep(observed)) {
            Some(Ok(left_out)) => summary.spectra_left_out = Some(left_out).filter(SpectraLeftOut::is_any),
            Some(Err(error)) => fail(summary, &error),
            None => {}
        }
        if let Some((table, written)) = losses {
            tables.push(table);
            written.unwrap_or_else(|error| fail(summary, &error));
        }
        let state = if summary.is_good() { RunRecordState::Stopped } else { RunRecordState::Failed };
        self.record.remarks = summary.remarks();
        self.record.details.extend(details(summary));
        let applied = observed.map(|observed| observed.view.history()).filter(|applied| !applied.is_empty());
        if let Some(applied) = applied {
            // The spectra of the run are those that were shown.
            let applied = serde_json::to_value(applied).unwrap_or_default();
            self.record.details.insert("applied".to_owned(), applied);
        }
        if let Some(preview) = observed.and_then(|observed| preview(&observed.spectra)) {
            self.record.details.insert("preview".to_owned(), preview.into());
        }
        self.record.stop(state, tables, Some(snapshot));
        // The advice that fits each source is added here, as the ledger alone does not know it.
        if let Some(ledger) = &mut self.record.ledger {
            ledger.losses = serde_json::to_value(&summary.losses).unwrap_or_default();
        }
        if let Err(error) = self.record.write(&self.directory) {
            fail(summary, &error);
        }
        self.directory.release_reserved();
    }
}

/// Typical bytes of a spectrum as text: counts of five digits with commas, and in planes mostly zeros.
fn typical_bytes(info: &Info) -> usize {
    let of_bin = if info.axes.len() == 1 { 6 } else { 2 };
    info.bins() * of_bin
}

fn nanoseconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Enters what went wrong when the run had ended already.
fn fail(summary: &mut Summary, error: &RecordError) {
    tracing::error!("{error}");
    summary.state = "failed";
    summary.failures.push(error.to_string());
}

/// Returns the channels of each source, where they are known: in older recordings, sources may share some.
fn channels_of(configuration: &Configuration) -> BTreeMap<String, ChannelsRecord> {
    let ranges = configuration.channel_ranges().filter(|_| configuration.shared_channels().is_none());
    ranges
        .map(|(name, range)| (name.to_owned(), ChannelsRecord { first: range.first, count: range.count }))
        .collect()
}

fn take_data(
    configuration: &Configuration,
    (origin, board_reports): (&Origin, &BoardReports),
    planned: Planned,
    end: EndWhen,
    watch: &mut Watch<'_>,
) -> Result<Summary, RunError> {
    // Threads that are not named share one placement: this thread first, then every thread that it makes.
    let _standing = planned.placement.begin()?;
    let title = &configuration.run.title;
    let changes = match origin {
        Origin::Configured => boards::changes(&configuration.record.directory, board_reports),
        Origin::Recorded(_) => Vec::new(),
    };
    changes.iter().for_each(|change| tracing::warn!("{change}; check that its parameters still fit"));
    let directory = RunDirectory::create(&configuration.record.directory, title)?;
    let comment = configuration.run.comment.clone();
    let started_ns = nanoseconds_since_1970();
    let (identity, replay) = match origin {
        Origin::Configured => (identity_record(configuration, &planned.source_table, started_ns)?, None),
        // Events recorded by units are built without units again.
        Origin::Recorded(recording) => (None, Some(recording.replay.clone())),
    };
    let mut record = RunRecord {
        comment,
        identity,
        replay,
        channels: channels_of(configuration),
        kept_tables: configuration.record.tables.iter().map(|table| table.word().to_owned()).collect(),
        ..RunRecord::start(&directory, title, &configuration.text, &planned.source_table.names)
    };
    if !board_reports.is_empty() {
        record
            .details
            .insert(boards::DETAIL.to_owned(), serde_json::to_value(board_reports).unwrap_or_default());
    }
    if !changes.is_empty() {
        record.details.insert(boards::CHANGES.to_owned(), changes.into());
    }
    record.write(&directory)?;
    // A replay is no run that people have prepared.
    if matches!(origin, Origin::Configured)
        && let Err(error) = Note::take_waiting(&directory)
    {
        tracing::warn!("{error}; the notes for this run wait for the next one");
    }
    let mut files = Files { directory, record, has_begun: false };
    let result = files
        .keep_channels(configuration)
        .and_then(|()| files.reserve_record(planned.source_table.names.len()))
        .and_then(|()| take_data_into(configuration, origin, (planned, started_ns), end, watch, &mut files));
    if let Err(error) = &result {
        watch.handle.publish(LiveState {
            state: RunState::Failed,
            run: LiveRun {
                number: if files.has_begun { files.directory.number() } else { 0 },
                title: title.clone(),
                ..LiveRun::default()
            },
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
    (Planned { source_table, placement, topology }, started_ns): (Planned, u64),
    end: EndWhen,
    watch: &mut Watch<'_>,
    files: &mut Files,
) -> Result<Summary, RunError> {
    let (ledger, source_table) = (ledger(&files.directory, topology)?, Arc::new(source_table));
    let (signals, busy, refused): (Arc<Signals>, Arc<Busy>, Arc<RefusedGauges>) = Default::default();
    let values = Arc::new(Values::of(&configuration.series));
    let (devices, _busy_output) = devices::open(configuration, (origin, &source_table), &values, &busy)?;
    let (directory, clock) = (files.directory.clone(), RunClock::start());
    let site = Site {
        configuration,
        origin,
        directory: &directory,
        ledger: &ledger,
        signals: &signals,
        source_table: &source_table,
        busy: &busy,
        refused: &refused,
        clock,
        started_ns,
        placement: &placement,
        values: &values,
        claims: Claims::of(ledger.topology().cloned().unwrap_or_default()),
    };
    let enable = devices.as_ref().and_then(|devices| Enable::of(configuration, devices));
    let paths = Paths::open(&site, enable)?;
    let_triggers_come(&site);
    let descriptions = paths.descriptions(configuration);
    paths.observed().into_iter().for_each(|observed| watch.handle.set_observed(observed));
    let started = Instant::now();
    let loss_list = files.begin(&site, watch.handle.observed(), paths.build_gauges())?;
    let slow_control = devices.map(|devices| files.begin_slow_control(&site, devices)).transpose()?;
    let host_before = LossCounters::read(&HostFiles::of_host());
    let paths = start_as_declared(&site, paths, files)?;
    let watched = as_watched(&site, &source_table, &paths, started, watch.handle.clone());
    let audit = watched.until_end(end, &paths, watch);
    let elapsed_seconds = watched.elapsed_seconds();
    let taken = watched.while_stopping((end, &audit, paths.trigger()), || paths.finish(&site))?;
    say_claim_faults(&site);
    let ended = EndedRun {
        snapshot: ledger.snapshot(),
        sent: taken.hits_sent(),
        events: taken.events_summary(&site, elapsed_seconds),
        audit,
        elapsed_seconds,
        first_hit_ms: taken.first_hit_ms(started),
        joins: taken.joins(),
        refused: watched.refused.all(),
        observed: watch.handle.observed().cloned(),
        host_counters: LossCounters::read(&HostFiles::of_host()).since(&host_before),
    };
    files.note_managers(taken.managers());
    files.note_controls(&values);
    let series = slow_control.and_then(|slow_control| slow_control.finish(&signals));
    let listed = loss_list.finish(&ended.snapshot, &signals);
    let mut summary =
        ended.summary(&files.directory, &source_table, &descriptions, &watched.gauges, signals.failures());
    files.close(
        &mut summary,
        (taken.tables().into_iter().chain(series).collect(), listed),
        &ended.snapshot,
        watch.handle.observed(),
    );
    watched.publish_last(&summary, end, taken.trigger());
    Ok(summary)
}

/// Lowers the BUSY of a run that is being opened; from now on, it counts how long it is raised.
fn let_triggers_come(site: &Site<'_>) {
    // Marks of a replay are those of its recording.
    let mark = if matches!(site.origin, Origin::Recorded(_)) { Mark(0) } else { site.clock.mark() };
    site.busy.begin(mark);
    site.busy.lower(mark);
}

/// Collects what the supervisor samples while the run goes on.
fn as_watched(
    site: &Site<'_>,
    source_table: &Arc<SourceTable>,
    paths: &Paths,
    started: Instant,
    handle: RunHandle,
) -> Watched {
    Watched {
        signals: site.signals.clone(),
        ledger: site.ledger.clone(),
        source_table: source_table.clone(),
        gauges: paths.gauges(),
        build: paths.build_gauges(),
        refused: site.refused.clone(),
        busy: site.busy.clone(),
        directory: site.directory.clone(),
        title: site.configuration.run.title.clone(),
        keeps_data: !site.configuration.record.tables.is_empty(),
        is_replay: matches!(site.origin, Origin::Recorded(_)),
        started,
        took_seconds: OnceLock::new(),
        clock: site.clock,
        handle,
        values: site.values.clone(),
        rates: Mutex::new(Rates::new(site.configuration.record.batch_age_s)),
    }
}

/// The ledger of a run, if counters can be claimed from its topology.
fn ledger(directory: &RunDirectory, topology: Topology) -> Result<Ledger, RunError> {
    match topology.faults() {
        faults if faults.is_empty() => Ok(Ledger::of(Some(&directory.ledger()), Arc::new(topology))?),
        faults => Err(RunError::Claims(faults)),
    }
}

/// Lets data flow through what was assembled, which must be what the topology declares, no more and no less; and writes what the boards
/// were set to.
fn start_as_declared(site: &Site<'_>, mut paths: Paths, files: &mut Files) -> Result<Paths, RunError> {
    let faults = [site.claims.faults(), site.ledger.claim_faults(&[Marker::PerSubject])].concat();
    let started = match faults.is_empty() {
        true => paths.start(site),
        false => Err(RunError::Claims(faults)),
    };
    if let Err(error) = started {
        paths.finish(site)?;
        return Err(error);
    }
    files.write_controls(site.values);
    Ok(paths)
}

/// Says what was opened in the end otherwise than declared.
fn say_claim_faults(site: &Site<'_>) {
    for fault in site.ledger.claim_faults(&[Marker::PerSubject, Marker::End]) {
        site.signals
            .fail(format!("the ledger is not as the topology says, a defect, please report it: {fault}"));
    }
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

/// A run that is over, before it is reported.
struct EndedRun {
    snapshot: LedgerSnapshot,
    sent: Option<u64>,
    events: Option<EventSummary>,
    audit: SnapshotAudit,
    elapsed_seconds: f64,
    first_hit_ms: Option<f64>,
    joins: JoinCounts,
    refused: Vec<RefusedUnit>,
    observed: Option<Observed>,
    host_counters: Vec<Counter>,
}

impl EndedRun {
    /// Lists where the ledger does not balance, at the end and in the snapshots on the way.
    fn discrepancies(&self, hits_decoded: u64) -> Vec<String> {
        let found = self.snapshot.discrepancies().into_iter().map(|found| found.to_string());
        let never_received = self.sent.map(|sent| sent.saturating_sub(hits_decoded));
        let unplaced = never_received.and_then(|hits| unplaced_loss(&self.snapshot, hits));
        found.chain(self.audit.open.iter().cloned()).chain(unplaced).collect()
    }

    /// Sums up what each source gave.
    fn sources(
        &self,
        source_table: &SourceTable,
        descriptions: &[String],
        gauges: &GaugesOf,
    ) -> Vec<SourceSummary> {
        let snapshot = &self.snapshot;
        let made = |unit, entry: &Entry| -> u64 {
            entry.all.iter().map(|source| snapshot.made_of(*source, unit)).sum()
        };
        let received = |entry: &Entry| -> u64 {
            let slots = entry.all.iter().filter_map(|source| snapshot.slot_at(StageRole::Intake, *source));
            slots.map(|slot| slot.counters.total_output(Unit::Bytes)).sum()
        };
        let entries = source_table.entries.iter().zip(descriptions).enumerate();
        let sources = entries.map(|(index, (entry, description))| SourceSummary {
            name: entry.name.clone(),
            description: description.clone(),
            hits: made(Unit::Hits, entry),
            fragments: made(Unit::Fragments, entry),
            bytes: received(entry),
            dead_time: dead_time(self.observed.as_ref(), source_table, index),
            corrected_rate_hz: corrected_rate(self.observed.as_ref(), source_table, index),
            drop_counters: add_drop_counters(entry.all.iter().filter_map(|source| gauges.get(source))),
        });
        sources.collect()
    }

    fn summary(
        &self,
        directory: &RunDirectory,
        source_table: &SourceTable,
        descriptions: &[String],
        gauges: &GaugesOf,
        failures: Vec<String>,
    ) -> Summary {
        let snapshot = &self.snapshot;
        let hits_made = snapshot.making(Unit::Hits);
        let decoded: u64 = hits_made.iter().map(|own| own.counters.total_output(Unit::Hits)).sum();
        let discrepancies = self.discrepancies(decoded);
        self.observed.iter().for_each(|observed| observed.take_losses(snapshot));
        let sources = self.sources(source_table, descriptions, gauges);
        let hit_source = |source: SourceId| source_table.names.get(source.index()).map_or("", String::as_str);
        let channels = self.observed.as_ref().map(|observed| ChannelSummary::all_of(observed, hit_source));
        let coincidences = source_table.coincidences.map(|_| source_table.coincidences_recorded(snapshot));
        let bytes_unread = sources.iter().flat_map(|source| &source.drop_counters);
        let bytes_unread =
            bytes_unread.filter(|(name, _)| name.ends_with("unread_bytes")).map(|(_, count)| count).sum();
        let losses = source_table.placed(snapshot);
        let loss = LossReport {
            kinds: LossKind::all_of(&losses, &snapshot.path()),
            ..source_table.loss_report(snapshot)
        };
        Summary {
            no_data: no_data(snapshot, &sources, self.elapsed_seconds),
            state: if failures.is_empty() && discrepancies.is_empty() { "stopped" } else { "failed" },
            run_directory: Some(PathBuf::from(directory.path())),
            elapsed_seconds: self.elapsed_seconds,
            hits_sent: self.sent,
            hits_recorded: source_table.kept.hits_recorded(snapshot).unwrap_or(0),
            hits_kept: source_table.kept.hits,
            hits_left_out: source_table.kept.hits_left_out(snapshot).unwrap_or(0),
            hits_lost: loss.total(Unit::Hits).map_or(Some(0), LossTotal::known_lost),
            hits_late: (!hits_made.is_empty()).then(|| snapshot.total_noted(Noted::Late, Unit::Hits)),
            hits_continued: snapshot.total_noted(Noted::Continued, Unit::Hits),
            coincidences_recorded: coincidences,
            coincidences_corrected: coincidences.zip(self.observed.as_ref()).map(|(count, observed)| {
                corrected_coincidences(count, snapshot.lost_coincidences().unwrap_or(0), observed)
            }),
            bytes_unread,
            loss,
            events: self.events.clone(),
            ledger_closed: discrepancies.is_empty(),
            discrepancies,
            snapshots: self.audit.taken,
            first_hit_ms: self.first_hit_ms,
            scope_joins: ScopeJoins::of(self.joins),
            sources,
            channels: channels.unwrap_or_default(),
            losses,
            refused: self.refused.clone(),
            ledger: snapshot.entries(),
            host_counters: self.host_counters.clone(),
            failures,
            // Known when the spectra are written.
            spectra_left_out: None,
        }
    }
}

/// What recorded coincidences of the channels of a run stand for, if so many others could not be recorded.
fn corrected_coincidences(count: u64, lost: u64, observed: &Observed) -> Corrected {
    corrected_events(count, observed.spectra.history().normalised().into_iter()).with_lost(count, lost)
}

fn details(summary: &Summary) -> BTreeMap<String, serde_json::Value> {
    let sources = serde_json::to_value(&summary.sources).unwrap_or_default();
    let channels = serde_json::to_value(&summary.channels).unwrap_or_default();
    let refused = serde_json::to_value(&summary.refused).unwrap_or_default();
    let host_counters = serde_json::to_value(&summary.host_counters).unwrap_or_default();
    let events = summary.events.as_ref();
    let busy_time = serde_json::to_value(events.and_then(|events| events.busy_time)).unwrap_or_default();
    let normalised = serde_json::to_value(events.and_then(|events| events.normalised)).unwrap_or_default();
    let scope_joins = serde_json::to_value(summary.scope_joins).unwrap_or_default();
    let spectra_left_out = serde_json::to_value(&summary.spectra_left_out).unwrap_or_default();
    BTreeMap::from([
        ("sources".to_owned(), sources),
        ("channels".to_owned(), channels),
        ("events".to_owned(), normalised),
        ("scope_joins".to_owned(), scope_joins),
        ("spectra_left_out".to_owned(), spectra_left_out),
        ("refused".to_owned(), refused),
        ("host_counters".to_owned(), host_counters),
        ("hits_sent".to_owned(), summary.hits_sent.into()),
        ("hits_lost".to_owned(), summary.hits_lost.into()),
        ("hits_late".to_owned(), summary.hits_late.into()),
        ("hits_continued".to_owned(), summary.hits_continued.into()),
        ("bytes_unread".to_owned(), summary.bytes_unread.into()),
        (
            "event_selection".to_owned(),
            serde_json::to_value(events.and_then(|events| events.selection)).unwrap_or_default(),
        ),
        ("triggers_unseen".to_owned(), events.map(|events| events.triggers_unseen).into()),
        ("dead_time_fraction".to_owned(), events.and_then(|events| events.dead_time_fraction).into()),
        ("busy_time".to_owned(), busy_time),
        ("elapsed_seconds".to_owned(), summary.elapsed_seconds.into()),
    ])
}
