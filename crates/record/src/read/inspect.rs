//! What is in a run or a file, at a glance.
//!
//! ```text
//!  run directory or *.arrows ──► counts, rates per channel, first hits, time span, losses
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thalweg_data::ledger::LossReport;
use thalweg_data::{Flags, Hit};

use super::hits::hits_of;
use super::inspect_coincidences::CoincidencesContent;
use super::inspect_events::EventsContent;
use super::losses::rows_of;
use super::raw::{RawContent, raw_sources};
use super::table_reader::TableReader;
use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::event_writer::FILTER_KEY;
use crate::ipc::END_OF_STREAM;
use crate::ipc::file::TableSummary;
use crate::loss_row::LossRow;
use crate::notes::Note;
use crate::recorded_tables::RecordedTables;
use crate::removed::RemovedTables;
use crate::run_record::{CutRecord, LedgerRecord, RunRecord, RunRecordState};
use crate::table::Table;

/// Picoseconds per second.
const PS_PER_S: f64 = 1e12;
/// Most missing files that are listed.
const MOST_MISSING_FILES: usize = 100;

/// What is in a run or a file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Inspection {
    /// What was looked at.
    pub path: PathBuf,
    /// Title of the run.
    pub title: String,
    /// Where the run stands; absent for a file alone.
    pub state: Option<RunRecordState>,
    /// Names of the sources, by number.
    pub sources: Vec<String>,
    /// When it started, UTC.
    pub started: String,
    /// When it ended.
    pub stopped: String,
    /// The files.
    pub tables: Vec<TableSummary>,
    /// Tables that the policy on old runs has removed, and that are not there.
    pub removed: Option<RemovedTables>,
    /// Hits.
    pub hits: u64,
    /// Time of the first hit in time, picoseconds since run start.
    pub first_time_ps: Option<i64>,
    /// Time of the last one.
    pub last_time_ps: Option<i64>,
    /// Time between them, seconds.
    pub span_s: f64,
    /// Hits per second over that time.
    pub rate_hz: f64,
    /// Channel by channel.
    pub channels: Vec<ChannelCount>,
    /// How many hits have each flag.
    pub flags: BTreeMap<&'static str, u64>,
    /// The first hits of the file.
    pub first_hits: Vec<HitRow>,
    /// Events, where there are any tables of them.
    pub events: Option<EventsContent>,
    /// Events of hits, where there is a table of them.
    pub coincidences: Option<CoincidencesContent>,
    /// The first rows of the list of losses.
    pub first_losses: Vec<LossRow>,
    /// Sources of raw bytes.
    pub raw: Vec<RawContent>,
    /// What each cut was given and kept, as in `run.json`.
    pub cuts: Vec<CutRecord>,
    /// Hits that came to the recording and were left out of it on request, as the ledger says.
    pub hits_left_out: Option<u64>,
    /// Whether the ledger balances.
    pub ledger_closed: Option<bool>,
    /// What there is to say of this, behind "the ledger".
    pub ledger_verdict: Option<&'static str>,
    /// Losses, as in `run.json`.
    pub losses: serde_json::Value,
    /// Losses as people read them, of a run that is over.
    pub loss: Option<LossReport>,
    /// Losses that are not in the ledger, in words: late hits, triggers unseen, unread bytes.
    pub beside: Vec<String>,
    /// What the operator has written down, oldest first.
    pub notes: Vec<Note>,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

/// One channel's hits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChannelCount {
    /// Channel of the experiment.
    pub channel: u16,
    /// Its hits.
    pub hits: u64,
    /// Per second, over the time of all hits.
    pub rate_hz: f64,
    /// Mean of the energies that were sent.
    pub mean_energy: Option<f64>,
}

/// One hit, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HitRow {
    /// Picoseconds since run start.
    pub time_ps: i64,
    /// Channel of the experiment.
    pub channel: u16,
    /// Absent when it was not sent.
    pub energy: Option<u16>,
    /// Absent when it was not sent.
    pub energy_short: Option<u16>,
    /// The flags' names.
    pub flags: String,
}

impl HitRow {
    fn of(hit: &Hit) -> HitRow {
        let sent = |value, absent| (!hit.flags.has(absent)).then_some(value);
        HitRow {
            time_ps: hit.time_ps,
            channel: hit.channel,
            energy: sent(hit.energy, Flags::NO_ENERGY),
            energy_short: sent(hit.energy_short, Flags::NO_ENERGY_SHORT),
            flags: hit.flags.to_string(),
        }
    }
}

/// Sums over all hits. One row per channel number, so that counting is an addition.
struct Sums {
    channels: Vec<[u64; 3]>,
    flags: [u64; 16],
    first_time_ps: i64,
    last_time_ps: i64,
}

/// Looks into a run's directory or one file; `first` is how many hits are listed. Also while it is being written.
///
/// # Errors
/// When there is nothing to read. What is damaged inside is reported in the result.
pub fn inspect(path: &Path, first: usize) -> Result<Inspection, RecordError> {
    let mut found = Inspection { path: path.to_owned(), ..Inspection::default() };
    if !path.is_dir() {
        look_into(&mut found, path, first)?;
        found.finish_events();
        return Ok(found);
    }
    let directory = RunDirectory::open(path)?;
    directory.check_has_run()?;
    let mut said = RecordedTables::default();
    match RunRecord::read(&directory.run_record()) {
        Ok(record) => {
            said = RecordedTables::of(&record, &directory)?;
            found.removed = super::verify::removed(Some(&record), &directory)?;
            found.take_record(record);
        }
        Err(error) => found.problems.push(error.to_string()),
    }
    match Note::all_of(&directory) {
        Ok(notes) => found.notes = notes,
        Err(error) => found.problems.push(error.to_string()),
    }
    let of_hits = Table::OF_HITS
        .iter()
        .chain(&[Table::Coincidences, Table::Losses, Table::Series])
        .map(|table| directory.table(*table));
    let of_events = directory.event_files()?.into_iter().flat_map(|files| [files.events, files.fragments]);
    let files = of_hits.chain(of_events).filter(|file| file.exists());
    for file in files.chain(directory.range_files()?).chain(directory.raw_files()?) {
        match look_into(&mut found, &file, first) {
            Ok(()) => {
                let looked = found.tables.last();
                let too_few = looked.and_then(|table| said.too_few_rows(&table.file, table.rows));
                found.problems.extend(too_few);
            }
            Err(error) => found.problems.push(error.to_string()),
        }
    }
    let missing = said.missing_files().take(MOST_MISSING_FILES).map(|missing| missing.to_string());
    found.problems.extend(missing);
    found.finish_events();
    Ok(found)
}

impl Inspection {
    fn take_record(&mut self, record: RunRecord) {
        let counts = record.ledger.as_ref().map(LedgerRecord::snapshot);
        self.hits_left_out = counts.and_then(|counts| record.data_kept(&counts).hits_left_out(&counts));
        self.loss = record.loss_report();
        self.beside = record.beside_the_ledger();
        self.ledger_verdict = record.ledger_verdict();
        self.title = record.title;
        self.state = Some(record.state);
        self.sources = record.sources;
        self.started = record.started;
        self.stopped = record.stopped;
        self.cuts = record.cuts;
        if let Some(ledger) = record.ledger {
            self.ledger_closed = Some(ledger.closed);
            self.losses = ledger.losses;
        }
    }

    fn finish_events(&mut self) {
        if let Some(events) = &mut self.events {
            events.finish(&self.sources);
        }
    }

    fn take_sums(&mut self, sums: &Sums) {
        if self.hits == 0 {
            return;
        }
        self.first_time_ps = Some(sums.first_time_ps);
        self.last_time_ps = Some(sums.last_time_ps);
        self.span_s = (sums.last_time_ps as f64 - sums.first_time_ps as f64) / PS_PER_S;
        let rate_hz = |hits: u64| if self.span_s > 0.0 { hits as f64 / self.span_s } else { 0.0 };
        let counted = sums.channels.iter().enumerate().filter(|(_, [hits, ..])| *hits > 0);
        let channels = counted.map(|(channel, [hits, energy, with_energy])| ChannelCount {
            channel: channel as u16,
            hits: *hits,
            rate_hz: rate_hz(*hits),
            mean_energy: (*with_energy > 0).then(|| *energy as f64 / *with_energy as f64),
        });
        self.channels = channels.collect();
        self.rate_hz = rate_hz(self.hits);
        let named = Flags::NAMES.iter().zip(sums.flags).filter(|(_, hits)| *hits > 0);
        self.flags = named.map(|((_, name), hits)| (*name, hits)).collect();
    }
}

impl Sums {
    fn new() -> Sums {
        Sums {
            channels: vec![[0; 3]; 1 << 16],
            flags: [0; 16],
            first_time_ps: i64::MAX,
            last_time_ps: i64::MIN,
        }
    }

    fn add(&mut self, hit: &Hit) {
        let [hits, energy, with_energy] = &mut self.channels[usize::from(hit.channel)];
        *hits += 1;
        if !hit.flags.has(Flags::NO_ENERGY) {
            *energy += u64::from(hit.energy);
            *with_energy += 1;
        }
        for (bit, count) in self.flags.iter_mut().enumerate() {
            *count += u64::from(hit.flags.0 >> bit & 1);
        }
        self.first_time_ps = self.first_time_ps.min(hit.time_ps);
        self.last_time_ps = self.last_time_ps.max(hit.time_ps);
    }
}

fn look_into(found: &mut Inspection, path: &Path, first: usize) -> Result<(), RecordError> {
    let mut reader = TableReader::open(path)?;
    let table = reader.table();
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut summary = TableSummary { table: table.word().to_owned(), file, ..TableSummary::default() };
    let (mut sums, mut hits) = (Sums::new(), Vec::new());
    if found.sources.is_empty()
        && table != Table::Raw
        && let Some(names) = reader.metadata().get("sources")
    {
        found.sources = serde_json::from_str(names).unwrap_or_default();
    }
    let mut walk = || -> Result<(), RecordError> {
        while let Some(head) = reader.next_batch()? {
            if table == Table::Hits {
                hits_of(&reader, &head, &mut hits)?;
                found.hits += hits.len() as u64;
                hits.iter().for_each(|hit| sums.add(hit));
                let wanted = first.saturating_sub(found.first_hits.len());
                found.first_hits.extend(hits.iter().take(wanted).map(HitRow::of));
            }
            if matches!(table, Table::Events | Table::Fragments) {
                let events = found.events.get_or_insert_default();
                events.filter = events.filter.take().or_else(|| reader.metadata().get(FILTER_KEY).cloned());
                match table {
                    Table::Events => events.add_events(&reader, &head, first)?,
                    _ => events.add_fragments(&reader, &head)?,
                }
            }
            if table == Table::Coincidences {
                found.coincidences.get_or_insert_default().add(&reader, &head, first)?;
            }
            let wanted = first.saturating_sub(found.first_losses.len());
            if table == Table::Losses && wanted > 0 {
                found.first_losses.extend(rows_of(&reader, &head)?.into_iter().take(wanted));
            }
            summary.batches += 1;
            summary.rows += head.rows() as u64;
        }
        Ok(())
    };
    let walked = walk();
    summary.bytes = reader.position() + END_OF_STREAM.len() as u64 + reader.bytes().bytes_left_out();
    summary.files = reader.bytes().files();
    found.tables.push(summary);
    match table {
        Table::Hits => found.take_sums(&sums),
        Table::Raw if walked.is_ok() => found.raw.extend(raw_sources(path)?),
        _ => {}
    }
    walked
}
