//! From a configuration to running threads, and from their end to closed books.
//!
//! ```text
//!  Configuration ─► open sources ─► rings and threads ─► watch ─► join ─► books, run.json, Summary
//! ```

mod events;
mod hits;
mod raw;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use thalweg_data::{Books, Ledger, SourceId, Stage, Unit};
use thalweg_readout::RunClock;
use thalweg_record::{RunDirectory, RunRecord, RunRecordState, Table};

use crate::config::Configuration;
use crate::error::RunError;
use crate::open::Origin;
use crate::pipeline::Signals;
use crate::plan::Plan;
use crate::roster::{Entry, Roster};
use crate::supervise::{
    EndWhen, EventSummary, Gauges, SnapshotAudit, SourceSummary, Summary, Watch, Watched, unplaced_loss,
};
use events::EventPath;
use hits::HitPath;
use raw::RawLinks;

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

/// Where a run takes place: what both paths need to open.
struct Site<'c> {
    configuration: &'c Configuration,
    origin: &'c Origin,
    directory: &'c RunDirectory,
    ledger: &'c Ledger,
    signals: &'c Arc<Signals>,
    roster: &'c Roster,
    clock: RunClock,
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
    let roster = Roster::of(configuration)?;
    let title = &configuration.run.title;
    let directory = RunDirectory::create(&configuration.record.directory, title)?;
    let record = RunRecord::start(&directory, title, &configuration.text, &roster.names);
    record.write(&directory)?;
    let mut files = Files { directory, record };
    let result = take_data_into(configuration, origin, end, watch, roster, &mut files);
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
    roster: Roster,
    files: &mut Files,
) -> Result<Summary, RunError> {
    let ledger = Ledger::create(Some(&files.directory.ledger()), &roster.names)?;
    let roster = Arc::new(roster);
    let signals = Arc::new(Signals::default());
    let clock = RunClock::start();
    let site = Site {
        configuration,
        origin,
        directory: &files.directory,
        ledger: &ledger,
        signals: &signals,
        roster: &roster,
        clock,
    };
    let mut raw = RawLinks::new(configuration.record.keeps(Table::Raw));
    let mut hits = HitPath::open(&site, &mut raw)?;
    let mut events = EventPath::open(&site, &mut raw)?;
    let raw = raw
        .recorder(&site)?
        .map(|recorder| spawn("raw", &signals, move |signals| recorder.run(signals)))
        .transpose()?;
    let gauges = hits.as_ref().map(|hits| hits.gauges.clone()).unwrap_or_default();
    let descriptions = descriptions(configuration, hits.as_ref(), events.as_ref());
    let started = Instant::now();
    if let Some(hits) = &mut hits {
        hits.start(&signals);
    }
    if let Some(events) = &mut events {
        events.start(&site);
    }
    let watched = Watched {
        signals: signals.clone(),
        ledger: ledger.clone(),
        roster: roster.clone(),
        gauges: gauges.clone(),
        build: events.as_ref().map(|events| events.gauges.clone()),
        directory: files.directory.clone(),
        started,
    };
    // Emulated boards that have come to the end of their program end the run, unless hits go on.
    let silent = || hits.is_none() && events.as_ref().is_some_and(EventPath::is_silent);
    let audit = watched.until_end(end, &silent, watch);
    let elapsed_seconds = started.elapsed().as_secs_f64();
    if let Some(hits) = &mut hits {
        hits.stop(&signals);
    }
    if let Some(events) = &mut events {
        events.stop(&signals);
    }
    signals.request_stop();
    let hits = hits.map(|hits| hits.finish(&site)).transpose()?;
    let events = events.map(|events| events.finish(&site));
    let raw = raw.and_then(|raw| joined(raw, &signals));
    let mut tables = Vec::new();
    let collector = hits.as_ref().and_then(|hits| hits.collector.as_ref());
    tables.extend(collector.iter().flat_map(|collector| collector.sink.summaries()));
    let recorder = events.as_ref().and_then(|events| events.recorder.as_ref());
    tables.extend(recorder.iter().flat_map(|recorder| recorder.sink.summaries()));
    tables.extend(raw.iter().flat_map(|raw| raw.writer.summaries()));
    let outcome = Outcome {
        books: ledger.books(),
        sent: hits.as_ref().and_then(|hits| hits.sent),
        events: events.as_ref().map(|events| events.summary(&site)),
        audit,
        elapsed_seconds,
        first_hit_ms: collector.and_then(|collector| collector.first_hit_ms(started)),
    };
    let summary = outcome.summary(&files.directory, &roster, &descriptions, &gauges, signals.failures());
    let state = if summary.is_good() { RunRecordState::Stopped } else { RunRecordState::Failed };
    files.record.remarks.clone_from(&summary.failures);
    files.record.details = details(&summary);
    files.record.stop(state, tables, Some(&outcome.books));
    files.record.write(&files.directory)?;
    Ok(summary)
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
}

impl Outcome {
    fn summary(
        &self,
        directory: &RunDirectory,
        roster: &Roster,
        descriptions: &[String],
        gauges: &[Arc<Gauges>],
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
        let sources = roster.entries.iter().zip(descriptions).map(|(entry, description)| SourceSummary {
            name: entry.name.clone(),
            description: description.clone(),
            hits: output(Stage::Decode, Unit::Hits, entry),
            fragments: output(Stage::Unpack, Unit::Fragments, entry),
            bytes: output(Stage::Receive, Unit::Bytes, entry),
            witnesses: (entry.all.iter().filter_map(|source| gauges.get(source.index())))
                .flat_map(|gauges| gauges.witnesses())
                .collect(),
        });
        Summary {
            state: if failures.is_empty() { "stopped" } else { "failed" },
            run_directory: Some(PathBuf::from(directory.path())),
            elapsed_seconds: self.elapsed_seconds,
            hits_sent: self.sent,
            hits_recorded: books.total_output(Stage::Record, Unit::Hits),
            hits_lost: books.total_lost(Unit::Hits),
            events: self.events.clone(),
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

/// One line on how each `[[source]]` was set up, in the order of the configuration.
fn descriptions(
    configuration: &Configuration,
    hits: Option<&HitPath>,
    events: Option<&EventPath>,
) -> Vec<String> {
    let mut lines = vec![String::new(); configuration.sources.len()];
    for (index, line) in events.iter().flat_map(|events| &events.descriptions) {
        lines[*index].clone_from(line);
    }
    let mut of_hits = hits.iter().flat_map(|hits| hits.descriptions.iter().cloned());
    lines
        .iter_mut()
        .filter(|line| line.is_empty())
        .for_each(|line| *line = of_hits.next().unwrap_or_default());
    lines
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
