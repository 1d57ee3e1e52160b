//! From a configuration to running threads, and from their end to closed books.
//!
//! ```text
//!  Configuration ─► open sources ─► rings and threads ─► watch ─► join ─► books, run.json, Summary
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use thalweg_data::ring::{Upstream, circuit};
use thalweg_data::{Books, Frames, Ledger, LossReason, SourceId, Stage, Tally, Unit};
use thalweg_order::TimeOrder;
use thalweg_record::{HitWriter, RawSource, RawWriter, RunDirectory, RunRecord, RunRecordState, Table};

use thalweg_readout::RunClock;
use thalweg_readout::host::HostedBoard;

use crate::config::Configuration;
use crate::emulate::TruthFile;
use crate::error::RunError;
use crate::open::{Opened, OpenedAll, Origin, open_all};
use crate::pipeline::{
    Collector, Inlet, Ledgered, OUTPUT_HITS, RawRecorder, Reader, ReaderAccounts, Signals, lanes,
};
use crate::plan::{HITS_PER_BATCH, Plan};
use crate::supervise::{
    EndWhen, Gauges, SnapshotAudit, SourceSummary, Summary, Watch, Watched, unplaced_loss,
};

/// Receive calls that may wait for the raw writer.
const RAW_BATCHES: usize = 64;

/// Takes data as configured until the end is reached, everything in flight is written, and the books are closed.
///
/// # Errors
/// When the run cannot be started. What goes wrong later is in the summary, and what was written verifies.
pub fn run(configuration: &Configuration, end: EndWhen, watch: &mut Watch<'_>) -> Result<Summary, RunError> {
    Plan::of(configuration)?;
    take_data(configuration, &Origin::Configured, end, watch)
}

/// Runs a raw recording again through the same path, into a new run in `parent`.
///
/// # Errors
/// When `recorded` holds no raw recording, or the new run cannot be started.
pub fn replay(recorded: &Path, parent: &Path, watch: &mut Watch<'_>) -> Result<Summary, RunError> {
    let record = RunRecord::read(&RunDirectory::open(recorded)?.run_record())?;
    let mut configuration = Configuration::parse(&recorded.join("run.json"), record.configuration)?;
    configuration.record.directory = parent.to_owned();
    configuration.record.tables.retain(|table| *table != Table::Raw);
    configuration.run.title = format!("replay of {}", record.title);
    take_data(&configuration, &Origin::Recorded(recorded.to_owned()), EndWhen::default(), watch)
}

/// Everything of a run that is under way.
struct Threads {
    readers: Vec<JoinHandle<()>>,
    collector: JoinHandle<Collector>,
    raw: Option<JoinHandle<RawRecorder>>,
}

/// A run's files.
struct Files {
    directory: RunDirectory,
    record: RunRecord,
}

fn take_data(
    configuration: &Configuration,
    origin: &Origin,
    end: EndWhen,
    watch: &mut Watch<'_>,
) -> Result<Summary, RunError> {
    let names: Vec<String> = configuration.sources.iter().map(|source| source.head.name.clone()).collect();
    let title = &configuration.run.title;
    let directory = RunDirectory::create(&configuration.record.directory, title)?;
    let record = RunRecord::start(&directory, title, &configuration.text, &names);
    record.write(&directory)?;
    let mut files = Files { directory, record };
    let result = take_data_into(configuration, origin, end, watch, &names, &mut files);
    if let Err(error) = &result {
        files.record.remarks.push(error.to_string());
        files.record.stop(RunRecordState::Failed, Vec::new(), None);
        files.record.write(&files.directory)?;
    }
    result
}

fn take_data_into(
    configuration: &Configuration,
    origin: &Origin,
    end: EndWhen,
    watch: &mut Watch<'_>,
    names: &[String],
    files: &mut Files,
) -> Result<Summary, RunError> {
    let ledger = Ledger::create(Some(&files.directory.ledger()), names)?;
    let OpenedAll { sources: mut opened, truth } = open_all(configuration, origin, RunClock::start())?;
    let descriptions: Vec<String> = opened.iter().map(|source| source.source.description()).collect();
    let gauges: Vec<Arc<Gauges>> =
        opened.iter().map(|source| Arc::new(Gauges::new(Some(source.pool.clone())))).collect();
    let mut controls: Vec<_> = opened.iter_mut().filter_map(|source| source.control.take()).collect();
    let mut boards: Vec<_> = opened.iter_mut().map(|source| source.board.take()).collect();
    let signals = Arc::new(Signals::default());
    let threads = start_threads(configuration, opened, &ledger, &gauges, &signals, files)?;
    let started = Instant::now();
    if let Err(error) =
        controls.iter_mut().try_for_each(|control| control.arm().and_then(|()| control.start()))
    {
        signals.fail(error.to_string());
    }
    boards.iter().flatten().for_each(HostedBoard::start);
    let watched = Watched {
        signals: signals.clone(),
        ledger: ledger.clone(),
        gauges: gauges.clone(),
        directory: files.directory.clone(),
        started,
    };
    let audit = watched.until_end(end, watch);
    let elapsed_seconds = started.elapsed().as_secs_f64();
    for control in &mut controls {
        if let Err(error) = control.stop().and_then(|()| control.disarm()) {
            signals.fail(error.to_string());
        }
    }
    boards.iter_mut().flatten().for_each(HostedBoard::end);
    signals.request_stop();
    let (collector, raw) = threads.join(&signals);
    let sent = close_sender_books(&ledger, &boards, &signals);
    boards.clear();
    truth.map(TruthFile::finish).transpose()?;
    let books = ledger.books();
    let mut tables = collector.as_ref().map(|collector| collector.sink.summaries()).unwrap_or_default();
    tables.extend(raw.iter().flat_map(|raw| raw.writer.summaries()));
    let outcome = Outcome {
        books,
        sent,
        audit,
        elapsed_seconds,
        first_hit_ms: collector.and_then(|c| c.first_hit_ms(started)),
    };
    let summary = outcome.summary(&files.directory, &descriptions, &gauges, signals.failures());
    let state = if summary.is_good() { RunRecordState::Stopped } else { RunRecordState::Failed };
    files.record.remarks.clone_from(&summary.failures);
    files.record.details = details(&summary);
    files.record.stop(state, tables, Some(&outcome.books));
    files.record.write(&files.directory)?;
    Ok(summary)
}

fn start_threads(
    configuration: &Configuration,
    opened: Vec<Opened>,
    ledger: &Ledger,
    gauges: &[Arc<Gauges>],
    signals: &Arc<Signals>,
    files: &Files,
) -> Result<Threads, RunError> {
    let mut order = TimeOrder::new(&configuration.order, opened.len(), OUTPUT_HITS);
    let (mut raw_uplinks, raw_recorder) = raw_recorder(configuration, &opened, ledger, files)?;
    let names: Vec<String> = configuration.sources.iter().map(|source| source.head.name.clone()).collect();
    let sink = HitWriter::create(files.directory.path(), &configuration.record, &names)?;
    let (mut inlets, mut readers, mut work) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (source, settings)) in opened.into_iter().zip(&configuration.sources).enumerate() {
        let id = SourceId(index as u16);
        if let Some(disorder_ps) = source.disorder_ps {
            order.set_disorder_ps(id, disorder_ps);
        }
        let (lanes, workers, outlets) = lanes(source.decoders, settings.head.workers, HITS_PER_BATCH);
        let open = |stage, units: &[Unit]| Ledgered::new(ledger.open(stage, id, units));
        inlets.push(Inlet::new(
            outlets,
            open(Stage::Decode, &[Unit::Bytes, Unit::Frames, Unit::Hits]),
            open(Stage::Order, &[Unit::Hits]),
            open(Stage::Record, &[Unit::Hits]),
        ));
        let received =
            if source.source.is_stream() { &[Unit::Bytes][..] } else { &[Unit::Datagrams, Unit::Bytes] };
        let unpacked: Vec<Unit> = received.iter().copied().chain([Unit::Frames]).collect();
        let accounts = ReaderAccounts {
            receive: open(Stage::Receive, received),
            unpack: open(Stage::Unpack, &unpacked),
            wire: (!source.wire_units.is_empty()).then(|| open(Stage::Wire, source.wire_units)),
        };
        let reader = Reader {
            id,
            source: source.source,
            unpack: source.unpack,
            lanes,
            raw: raw_uplinks.get_mut(index).and_then(Option::take),
            accounts,
            gauges: gauges[index].clone(),
        };
        work.extend(workers.into_iter().map(|worker| (format!("decode {}", settings.head.name), worker)));
        readers.push((format!("read {}", settings.head.name), reader));
    }
    let collector = Collector::new(inlets, order, sink, configuration.record.on_full);
    let collector = spawn("collect", signals, move |signals| collector.run(signals))?;
    let raw = raw_recorder
        .map(|recorder| spawn("raw", signals, move |signals| recorder.run(signals)))
        .transpose()?;
    let mut handles = Vec::new();
    for (name, worker) in work {
        handles.push(spawn(&name, signals, move |signals| worker.run(signals))?);
    }
    for (name, reader) in readers {
        handles.push(spawn(&name, signals, move |signals| reader.run(signals))?);
    }
    Ok(Threads { readers: handles, collector, raw })
}

type RawUplinks = Vec<Option<Upstream<Frames>>>;

fn raw_recorder(
    configuration: &Configuration,
    opened: &[Opened],
    ledger: &Ledger,
    files: &Files,
) -> Result<(RawUplinks, Option<RawRecorder>), RunError> {
    if !configuration.record.keeps(Table::Raw) {
        return Ok((Vec::new(), None));
    }
    let (mut uplinks, mut inlets, mut described) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (source, settings)) in opened.iter().zip(&configuration.sources).enumerate() {
        let (up, down) = circuit(RAW_BATCHES, Frames::default);
        let stream = source.source.is_stream();
        let units = if stream { &[Unit::Bytes][..] } else { &[Unit::Datagrams, Unit::Bytes] };
        uplinks.push(Some(up));
        inlets.push((down, Ledgered::new(ledger.open(Stage::Raw, SourceId(index as u16), units))));
        let block_bytes = source.pool.block_size() as u64;
        described.push(RawSource {
            source: index as u16,
            name: settings.head.name.clone(),
            stream,
            block_bytes,
        });
    }
    let writer = RawWriter::create(&files.directory.table(Table::Raw), &configuration.record, &described)?;
    Ok((uplinks, Some(RawRecorder { inlets, writer })))
}

fn spawn<R: Send + 'static>(
    name: &str,
    signals: &Arc<Signals>,
    work: impl FnOnce(&Arc<Signals>) -> R + Send + 'static,
) -> Result<JoinHandle<R>, RunError> {
    signals.thread_starts();
    let counted = Counted(signals.clone());
    let run = move || work(&counted.0);
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|cause| {
        signals.request_stop();
        RunError::Thread { name: name.to_owned(), cause }
    })
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

impl Threads {
    /// Waits until every thread has ended; a panic is a failure of the run, told by name.
    fn join(self, signals: &Signals) -> (Option<Collector>, Option<RawRecorder>) {
        let told =
            |name: &str| signals.fail(format!("the thread \"{name}\" panicked: a defect, please report it"));
        for reader in self.readers {
            let name = reader.thread().name().unwrap_or("reader").to_owned();
            if reader.join().is_err() {
                told(&name);
            }
        }
        let collector = self.collector.join().map_err(|_| told("collect")).ok();
        let raw = self.raw.and_then(|raw| raw.join().map_err(|_| told("raw")).ok());
        (collector, raw)
    }
}

/// Enters what the senders count, where they tell: the first page of the hits' book. Returns the sum of hits sent, if
/// every source's sender tells.
fn close_sender_books(ledger: &Ledger, boards: &[Option<HostedBoard>], signals: &Signals) -> Option<u64> {
    let books = ledger.books();
    let mut sum = Some(0);
    for (index, board) in boards.iter().enumerate() {
        let source = SourceId(index as u16);
        let hits = board.as_ref().map(|board| board.totals().sent.hits);
        sum = sum.zip(hits).map(|(sum, hits)| sum + hits);
        let (Some(board), Some(hits)) = (board, hits) else { continue };
        let decoded =
            books.account(Stage::Decode, source).map_or(0, |account| account.tally.total_output(Unit::Hits));
        let mut tally = Tally::default();
        tally.input(Unit::Hits, hits);
        tally.output(Unit::Hits, decoded.min(hits));
        tally.lost(LossReason::NeverReceived, Unit::Hits, hits.saturating_sub(decoded));
        ledger.open(Stage::Sender, source, &[Unit::Hits]).publish(&tally);
        board.failures().into_iter().for_each(|message| signals.fail(message));
    }
    sum
}

/// A run that is over, before it is told.
struct Outcome {
    books: Books,
    sent: Option<u64>,
    audit: SnapshotAudit,
    elapsed_seconds: f64,
    first_hit_ms: Option<f64>,
}

impl Outcome {
    fn summary(
        &self,
        directory: &RunDirectory,
        descriptions: &[String],
        gauges: &[Arc<Gauges>],
        failures: Vec<String>,
    ) -> Summary {
        let books = &self.books;
        let decoded = books.total_output(Stage::Decode, Unit::Hits);
        let mut discrepancies: Vec<String> = books.discrepancies().iter().map(ToString::to_string).collect();
        discrepancies.extend(self.audit.open.iter().cloned());
        discrepancies.extend(self.sent.and_then(|sent| unplaced_loss(books, sent.saturating_sub(decoded))));
        let output = |stage, unit, source| {
            books.account(stage, source).map_or(0, |account| account.tally.total_output(unit))
        };
        let sources = books.sources.iter().enumerate().map(|(index, name)| SourceSummary {
            name: name.clone(),
            description: descriptions[index].clone(),
            hits: output(Stage::Decode, Unit::Hits, SourceId(index as u16)),
            bytes: output(Stage::Receive, Unit::Bytes, SourceId(index as u16)),
            witnesses: gauges[index].witnesses().into_iter().collect(),
        });
        Summary {
            state: if failures.is_empty() { "stopped" } else { "failed" },
            run_directory: Some(PathBuf::from(directory.path())),
            elapsed_seconds: self.elapsed_seconds,
            hits_sent: self.sent,
            hits_recorded: books.total_output(Stage::Record, Unit::Hits),
            hits_lost: books.total_lost(Unit::Hits),
            ledger_closed: discrepancies.is_empty(),
            discrepancies,
            snapshots: self.audit.taken,
            first_hit_ms: self.first_hit_ms,
            sources: sources.collect(),
            losses: books.losses(),
            ledger: books.entries(),
            failures,
        }
    }
}

fn details(summary: &Summary) -> BTreeMap<String, serde_json::Value> {
    let sources = serde_json::to_value(&summary.sources).unwrap_or_default();
    BTreeMap::from([
        ("sources".to_owned(), sources),
        ("hits_sent".to_owned(), summary.hits_sent.into()),
        ("hits_lost".to_owned(), summary.hits_lost.into()),
        ("elapsed_seconds".to_owned(), summary.elapsed_seconds.into()),
    ])
}
