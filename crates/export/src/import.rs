//! MIDAS files as recordings, so that everything that reads a recording reads them.
//!
//! ```text
//!  run00007.mid.lz4 ─┬► survey: sources, tables, dumps of the database, damage
//!                    └► events ─► Content ─► ImportTables ─► RUN/*.arrows, begin-of-run.json, end-of-run.json, run.json
//! ```
//! A file is read twice: the first time for its sources, which the schemas name. Memory holds one event, and what the tables collect.
//! What is damaged is counted as lost, with its place; what is whole before it is imported.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};
use thalweg_data::{Counters, Ledger, LossReason, SourceId, Stage, Unit};
use thalweg_record::{ChannelsRecord, RunDirectory, RunRecord, RunRecordState, utc_text};

use crate::error::ImportError;
use crate::import_tables::ImportTables;
use crate::mid_content::{Content, Place, Sources, content};
use crate::mid_file::{Damage, MidFile};
use crate::midas::BEGIN_OF_RUN;
use crate::midas_view::{HEADER_BYTES, Header, MESSAGE};
use crate::run_source::seconds_of;

/// Most bytes of messages that are kept.
const MOST_MESSAGES: usize = 1 << 20;

/// What is to be imported, and where to.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The file.
    pub file: PathBuf,
    /// The directory of runs, in which the recording gets the next number.
    pub directory: PathBuf,
    /// Its title; without one, that of the file.
    pub title: Option<String>,
}

/// A finished import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// The recording.
    pub run_directory: PathBuf,
    /// Events that were recorded.
    pub events: u64,
    /// Their fragments.
    pub fragments: u64,
    /// Hits that were recorded.
    pub hits: u64,
    /// Events of hits.
    pub coincidences: u64,
    /// Names of the sources.
    pub sources: Vec<String>,
    /// What a reader must know: what is damaged, and where.
    pub remarks: Vec<String>,
}

/// What the first pass has found.
#[derive(Debug, Default)]
struct Survey {
    database: Option<Value>,
    dumps: [Option<Dump>; 2],
    sources: Sources,
    has_events: bool,
    has_hits: bool,
    has_coincidences: bool,
    /// Whether triggers never decrease.
    is_unordered: bool,
    last_trigger: Option<u64>,
    first_s: Option<u32>,
    last_s: u32,
    messages: String,
    message_count: u64,
    data_events: u64,
    bytes: u64,
    /// Damaged events behind which the file goes on, and what is wrong with the first.
    damaged: u64,
    first_damaged: Option<Damage>,
    end: Option<Damage>,
}

/// A dump of the database.
#[derive(Debug)]
struct Dump {
    header: Header,
    text: Vec<u8>,
}

/// Imports a file. `progress` is asked again and again whether to go on, with the uncompressed bytes of the pass so far.
///
/// # Errors
/// When the file cannot be read, is none of MIDAS, or has no whole event, the disk is full, or `progress` says no. No recording is
/// left then.
pub fn import(
    request: &ImportRequest,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<ImportReport, ImportError> {
    let survey = Survey::of(&request.file, progress)?;
    let title = request.title.clone().unwrap_or_else(|| survey.title(&request.file));
    let directory = RunDirectory::create(&request.directory, &title)?;
    let imported = survey.import(request, &title, &directory, progress);
    if imported.is_err() {
        // The cause says more than that something is left.
        let _ = directory.discard();
    }
    imported
}

impl Survey {
    fn of(path: &Path, progress: &mut dyn FnMut(u64) -> bool) -> Result<Survey, ImportError> {
        let mut file = MidFile::open(path)?;
        let mut survey = Survey::default();
        let mut is_first = true;
        while let Some(event) = file.next_event()? {
            let header = match event {
                Ok(header) => header,
                Err(damage) => {
                    survey.end = Some(damage);
                    break;
                }
            };
            if std::mem::take(&mut is_first) {
                survey.begin(&header, file.body());
            }
            survey.event(&header, &file);
            if survey.data_events.is_multiple_of(4096) && !progress(file.at()) {
                return Err(ImportError::Interrupted { path: path.to_owned() });
            }
        }
        survey.bytes = file.at();
        if !survey.has_events && !survey.has_hits && !survey.has_coincidences {
            let damage = survey.end.as_ref().or(survey.first_damaged.as_ref());
            let found = damage.map_or("there is none".to_owned(), Damage::to_string);
            return Err(ImportError::Nothing { path: path.to_owned(), found });
        }
        Ok(survey)
    }

    /// The first event of the file says who has written it.
    fn begin(&mut self, header: &Header, body: &[u8]) {
        if header.is_of_run() {
            self.database = database_of(body);
        }
        self.sources = Sources::of(self.database.as_ref());
    }

    fn event(&mut self, header: &Header, file: &MidFile) {
        let (body, order) = (file.body(), file.order());
        self.first_s.get_or_insert(header.seconds);
        self.last_s = self.last_s.max(header.seconds);
        if header.is_of_run() {
            let place = usize::from(header.id != BEGIN_OF_RUN);
            // Of files that were joined, the first beginning and the last end.
            if place == 1 || self.dumps[0].is_none() {
                self.dumps[place] = Some(Dump { header: *header, text: body.to_vec() });
            }
            return;
        }
        if header.id == MESSAGE {
            self.message(header, body);
            return;
        }
        let place = Place { number: self.data_events, zero_s: 0, order };
        self.data_events += 1;
        match content(header, body, place, &mut self.sources) {
            Ok(Content::Event(event)) => {
                self.has_events = true;
                self.is_unordered |= self.last_trigger.is_some_and(|last| event.trigger < last);
                self.last_trigger = Some(event.trigger);
            }
            Ok(Content::Hits(_)) => self.has_hits = true,
            Ok(Content::Coincidence(_)) => self.has_coincidences = true,
            Err(found) => {
                self.damaged += 1;
                let at = file.at() - (HEADER_BYTES + body.len()) as u64;
                let event = file.events() - 1;
                self.first_damaged.get_or_insert(Damage { at, event, bytes: body.len() as u64, found });
            }
        }
    }

    fn message(&mut self, header: &Header, body: &[u8]) {
        self.message_count += 1;
        let text = String::from_utf8_lossy(body);
        let line = format!("{} {}\n", header.seconds, text.trim_end_matches(['\0', '\n']));
        if self.messages.len() + line.len() <= MOST_MESSAGES {
            self.messages.push_str(&line);
        }
    }

    fn own(&self) -> Option<&Value> {
        self.database.as_ref().filter(|_| self.sources.is_ours)
    }

    fn title(&self, path: &Path) -> String {
        let own = self.database.as_ref().and_then(|database| {
            database["Experiment"]["Run Parameters"]["Comment"].as_str().map(str::to_owned)
        });
        let name = || path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        own.filter(|title| !title.is_empty() || self.sources.is_ours).unwrap_or_else(name)
    }

    /// Seconds since 1970 at which the run's times are zero.
    fn zero_s(&self) -> i64 {
        let said = self.own().and_then(|database| database["Thalweg"]["Zero UTC"].as_str());
        said.map_or_else(|| i64::from(self.started_s()), seconds_of)
    }

    fn started_s(&self) -> u32 {
        self.dumps[0].as_ref().map(|dump| dump.header.seconds).or(self.first_s).unwrap_or(0)
    }

    fn stopped_s(&self) -> u32 {
        self.dumps[1].as_ref().map_or(self.last_s, |dump| dump.header.seconds)
    }

    /// The record of the run as far as it is known from the file.
    fn record(&self, request: &ImportRequest, title: &str, directory: &RunDirectory) -> RunRecord {
        let configuration = self.own().and_then(|database| database["Thalweg"]["Configuration"].as_str());
        let name = request.file.display();
        let configuration = configuration.map_or_else(|| format!("# imported from {name}\n"), str::to_owned);
        let mut record = RunRecord::start(directory, title, &configuration, self.sources.names());
        let said = |dump: Option<Value>, key: &str| Some(dump?["Runinfo"][key].as_str()?.to_owned());
        let end = || self.dumps[1].as_ref().and_then(|dump| database_of(&dump.text));
        record.started = said(self.own().cloned(), "Start time").unwrap_or_else(|| utc_of(self.started_s()));
        record.stopped =
            said(self.own().and_then(|_| end()), "Stop time").unwrap_or_else(|| utc_of(self.stopped_s()));
        if let Some(channels) = self.own().and_then(|database| database["Thalweg"]["Channels"].as_object()) {
            let known = channels.iter().filter_map(|(source, channels)| {
                Some((source.clone(), serde_json::from_value::<ChannelsRecord>(channels.clone()).ok()?))
            });
            record.channels = known.collect();
        }
        let run_number = self.dumps[0].as_ref().map(|dump| dump.header.serial);
        record.details.insert(
            "imported".to_owned(),
            json!({
                "file": request.file,
                "run_number": run_number,
                "banks": self.sources.types(),
                "messages": self.message_count,
            }),
        );
        let seconds = self.stopped_s().saturating_sub(self.started_s());
        record.details.insert("elapsed_seconds".to_owned(), f64::from(seconds).into());
        record.remarks = self.remarks(&request.file);
        record
    }

    /// What is damaged or missing, in words.
    fn remarks(&self, path: &Path) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(end) = &self.end {
            let path = path.display();
            remarks.push(format!(
                "{path}: damaged {end}; the {} data events before it are imported, and what follows is lost",
                self.data_events
            ));
        }
        if let (None, [Some(_), None]) = (&self.end, &self.dumps) {
            remarks.push(format!(
                "{}: it ends at byte {}, behind {} data events, without the event that ends a run: it was cut there, or its writer has \
                 not closed it; what would follow is unknown",
                path.display(),
                self.bytes,
                self.data_events
            ));
        }
        if let Some(first) = &self.first_damaged {
            remarks.push(format!(
                "{}: {} data events are damaged and left out, the first {first}",
                path.display(),
                self.damaged
            ));
        }
        remarks
    }

    fn import(
        &self,
        request: &ImportRequest,
        title: &str,
        directory: &RunDirectory,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<ImportReport, ImportError> {
        let mut record = self.record(request, title, directory);
        record.write(directory)?;
        self.keep_documents(directory, &mut record)?;
        let kinds = [self.has_events, self.has_hits, self.has_coincidences];
        let mut sources = Sources::of(self.database.as_ref());
        let how = (!self.is_unordered, sources.event_filter.as_deref());
        let mut tables = ImportTables::create(directory, &record, kinds, how)?;
        let mut read = Counters::default();
        let mut file = MidFile::open(&request.file)?;
        let (order, mut number) = (file.order(), 0);
        while let Some(event) = file.next_event()? {
            let header = match event {
                Ok(header) => header,
                Err(damage) => {
                    read.input(Unit::Bytes, damage.bytes);
                    read.lost(LossReason::Unfinished, Unit::Bytes, damage.bytes);
                    read.input(Unit::Frames, 1);
                    read.lost(LossReason::Unfinished, Unit::Frames, 1);
                    break;
                }
            };
            let bytes = file.body().len() as u64;
            read.input(Unit::Bytes, HEADER_BYTES as u64 + bytes);
            read.input(Unit::Frames, 1);
            read.overhead(Unit::Bytes, HEADER_BYTES as u64);
            if header.is_of_run() || header.id == MESSAGE {
                read.overhead(Unit::Bytes, bytes);
                read.overhead(Unit::Frames, 1);
                continue;
            }
            let place = Place { number, zero_s: self.zero_s(), order };
            number += 1;
            match content(&header, file.body(), place, &mut sources) {
                Ok(content) => {
                    tables.write(content)?;
                    read.output(Unit::Bytes, bytes);
                    read.output(Unit::Frames, 1);
                }
                Err(_) => {
                    read.lost(LossReason::BadLength, Unit::Bytes, bytes);
                    read.lost(LossReason::BadLength, Unit::Frames, 1);
                }
            }
            if number % 4096 == 0 && !progress(file.at()) {
                return Err(ImportError::Interrupted { path: request.file.clone() });
            }
        }
        tables.finish()?;
        self.settle(directory, record, &tables, &read)
    }

    /// Keeps the dumps of the database and the messages beside the tables.
    fn keep_documents(&self, directory: &RunDirectory, record: &mut RunRecord) -> Result<(), ImportError> {
        for (dump, name) in self.dumps.iter().zip(["begin-of-run", "end-of-run"]) {
            let Some(dump) = dump else { continue };
            let text = dump.text.trim_ascii_end();
            let ending = match text.trim_ascii_start().first() {
                Some(b'{') => "json",
                Some(b'<') => "xml",
                _ => "odb",
            };
            record.documents.push(directory.write_document(&format!("{name}.{ending}"), text)?);
        }
        if !self.messages.is_empty() {
            record.documents.push(directory.write_document("messages.txt", self.messages.as_bytes())?);
        }
        Ok(())
    }

    /// Writes ledger and record.
    fn settle(
        &self,
        directory: &RunDirectory,
        mut record: RunRecord,
        tables: &ImportTables,
        read: &Counters,
    ) -> Result<ImportReport, ImportError> {
        let own = ["imported file", "imported events", "imported coincidences"].map(str::to_owned);
        let names: Vec<String> = record.sources.iter().cloned().chain(own).collect();
        let failed = |cause: thalweg_data::ledger::LedgerError| {
            ImportError::io(&directory.ledger(), "writing the ledger", std::io::Error::other(cause))
        };
        let ledger = Ledger::create(Some(&directory.ledger()), &names).map_err(failed)?;
        let first = record.sources.len() as u16;
        ledger.open(Stage::Unpack, SourceId(first), &[Unit::Bytes, Unit::Frames]).publish(read);
        tables.publish(&ledger, first);
        let (started, stopped) = (record.started.clone(), record.stopped.clone());
        record.stop(RunRecordState::Stopped, tables.summaries(), Some(&ledger.snapshot()));
        (record.started, record.stopped) = (started, stopped);
        record.write(directory)?;
        Ok(ImportReport {
            run_directory: directory.path().to_owned(),
            sources: record.sources,
            remarks: record.remarks,
            ..tables.report()
        })
    }
}

/// A dump as JSON; `None` of one in XML or in the old form of MIDAS.
fn database_of(text: &[u8]) -> Option<Value> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    serde_json::from_slice(text).ok()
}

/// Seconds since 1970 as records write times.
fn utc_of(seconds: u32) -> String {
    utc_text(UNIX_EPOCH + Duration::from_secs(seconds.into()))
}
