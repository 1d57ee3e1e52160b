//! Rows of the table `raw`: what came, when, from whom.
//!
//! ```text
//!  raw.arrows ──► LoadedBatch { rows, each with its view } ──► payload bytes, read where they are wanted
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thalweg_data::{StageRole, Unit};

use super::events::open_table;
use super::payload::{Payloads, View};
use super::raw_gaps::{MarkedBatch, RawGap, gaps_of, missing_rows};
use super::salvage::WholeBatch;
use super::table_reader::{BatchHead, ReadAt, TableReader};
use crate::directory::RunDirectory;
use crate::error::RecordError;
use crate::raw_writer::{RawSource, kind};
use crate::recorded_tables::RecordedTables;
use crate::removed::RemovedTables;
use crate::run_record::{RunRecord, RunRecordState};
use crate::table::Table;

/// Place of the column `payload`.
const PAYLOAD_COLUMN: usize = 5;

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawRow {
    /// The source.
    pub source: u16,
    /// When it arrived.
    pub mark_ns: u64,
    /// Mark alone, chunk of a stream, datagram.
    pub kind: u8,
    /// First of its batch, last of its source.
    pub flags: u8,
    /// The slice's tag.
    pub tag: u32,
    view: View,
}

impl RawRow {
    /// Bytes of payload, as promised; [`LoadedBatch::load`] has checked that they are there.
    pub fn length(&self) -> usize {
        self.view.length()
    }
}

/// A batch's rows, and its payload: in the file, or unpacked when it is compressed.
#[derive(Debug)]
pub(crate) struct LoadedBatch {
    rows: Vec<RawRow>,
    payloads: Payloads,
}

impl LoadedBatch {
    /// Reads the rows of a batch and checks where their payload lies.
    pub fn load<R: ReadAt>(reader: &TableReader<R>, head: BatchHead) -> Result<LoadedBatch, RecordError> {
        let rows = rows_of(reader, &head)?;
        let views = rows.iter().map(|row| row.view);
        let payloads = Payloads::load(reader, head, PAYLOAD_COLUMN, views, false)?;
        Ok(LoadedBatch { rows, payloads })
    }

    /// The rows.
    pub fn rows(&self) -> &[RawRow] {
        &self.rows
    }

    /// Copies a row's payload, from byte `from` on, into `into`.
    pub fn payload<R: ReadAt>(
        &self,
        reader: &TableReader<R>,
        row: &RawRow,
        from: usize,
        into: &mut [u8],
    ) -> Result<(), RecordError> {
        self.payloads.copy(reader, row.view, from, into)
    }
}

fn rows_of<R: ReadAt>(reader: &TableReader<R>, head: &BatchHead) -> Result<Vec<RawRow>, RecordError> {
    let source = reader.numbers::<2>(head, 0)?;
    let mark_ns = reader.numbers::<8>(head, 1)?;
    let kind = reader.numbers::<1>(head, 2)?;
    let flags = reader.numbers::<1>(head, 3)?;
    let tag = reader.numbers::<4>(head, 4)?;
    let view = reader.numbers::<16>(head, PAYLOAD_COLUMN)?;
    let row = |index: usize| RawRow {
        source: u16::from_le_bytes(source[index]),
        mark_ns: u64::from_le_bytes(mark_ns[index]),
        kind: kind[index][0],
        flags: flags[index][0],
        tag: u32::from_le_bytes(tag[index]),
        view: View(view[index]),
    };
    Ok((0..head.rows()).map(row).collect())
}

/// What a recording holds of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RawContent {
    /// The source.
    #[serde(flatten)]
    pub source: RawSource,
    /// Rows: receive calls, datagrams, marks.
    pub rows: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Rows without payload: times at which nothing had come.
    pub idle_marks: u64,
    /// First arrival mark, nanoseconds since run start.
    pub first_mark_ns: u64,
    /// Last arrival mark.
    pub last_mark_ns: u64,
    /// Longest payload.
    pub largest_bytes: u64,
    /// Payload bytes that the run received and could not write, as its ledger says: its disk was full, or failed, or it was killed.
    /// Of one that was killed there may be more.
    pub not_written_bytes: u64,
    /// Batches that hold rows of it: file and offset.
    #[serde(skip)]
    pub(crate) places: Vec<(PathBuf, u64)>,
    /// Where rows are missing that may have been its own, with its share of their bytes.
    #[serde(skip)]
    pub(crate) gaps: Vec<RawGap>,
}

/// The sources whose raw bytes are in `path`: a run's directory or one file.
///
/// # Errors
/// When there are none, some were removed, or a file is damaged (`recover` mends those of a killed run).
pub fn raw_sources(path: &Path) -> Result<Vec<RawContent>, RecordError> {
    let (mut files, mut said) = (vec![path.to_owned()], RecordedTables::default());
    let record = if path.is_dir() {
        RemovedTables::refuse(path, Table::Raw)?;
        let directory = RunDirectory::open(path)?;
        files = directory.raw_files()?;
        let mut record = RunRecord::read(&directory.run_record()).ok();
        if let Some(record) = &mut record {
            record.take_ledger_of(&directory);
            said = expect_raw_files(&directory, record)?;
        }
        record
    } else {
        path.parent().and_then(|folder| RunRecord::read(&folder.join("run.json")).ok())
    };
    if files.is_empty() {
        let found = "no raw bytes were recorded; add \"raw\" to `[record] tables`".to_owned();
        return Err(RecordError::Missing { path: path.to_owned(), found });
    }
    let mut contents = BTreeMap::new();
    for file in &files {
        let rows = scan(file, record.as_ref(), &mut contents)?;
        let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        said.refuse_too_few(path, &name, rows)?;
    }
    note_not_written(record.as_ref(), &mut contents);
    Ok(contents.into_values().collect())
}

/// Refuses a run that has recorded raw bytes and lacks a file of them, or all that `recover` has left; returns what its record says of
/// its tables.
///
/// # Errors
/// When files are missing, with which.
pub fn expect_raw_files(directory: &RunDirectory, record: &RunRecord) -> Result<RecordedTables, RecordError> {
    let said = RecordedTables::of(record, directory)?;
    said.refuse_missing(directory.path(), |missing| missing.is_of(Table::Raw))?;
    let noted = record.missing.iter().rev().find(|missing| missing.table == Table::Raw.word());
    match noted {
        Some(missing) if directory.raw_files()?.is_empty() => Err(RecordError::Missing {
            path: directory.path().to_owned(),
            found: format!("the table `raw` is gone: {missing}"),
        }),
        _ => Ok(said),
    }
}

/// Something that was received and recorded raw: a datagram, or what one receive call of a stream gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawArrival {
    /// Whose: the number in [`RawContent::source`].
    pub source: u16,
    /// When it arrived, nanoseconds since run start.
    pub mark_ns: u64,
    /// Its length.
    pub bytes: u64,
}

/// Calls `each` with everything in one file of raw bytes, in the order in which it was recorded. Payloads are not read.
///
/// # Errors
/// When the file cannot be read, is damaged or is another table.
pub fn raw_arrivals(path: &Path, mut each: impl FnMut(RawArrival)) -> Result<(), RecordError> {
    let mut reader = open_table(path, Table::Raw)?;
    while let Some(head) = reader.next_batch()? {
        for row in rows_of(&reader, &head)?.iter().filter(|row| row.kind != kind::MARK) {
            each(RawArrival { source: row.source, mark_ns: row.mark_ns, bytes: row.length() as u64 });
        }
    }
    Ok(())
}

/// Enters what one file of this run has of each source; returns its rows.
fn scan(
    path: &Path,
    record: Option<&RunRecord>,
    contents: &mut BTreeMap<u16, RawContent>,
) -> Result<u64, RecordError> {
    let mut reader = open_table(path, Table::Raw)?;
    let described = reader.metadata().get("sources").map(String::as_str).unwrap_or("[]");
    let sources: Vec<RawSource> = serde_json::from_str(described).unwrap_or_default();
    for source in sources {
        contents.entry(source.source).or_insert_with(|| RawContent::of(source));
    }
    let missing = record.map_or_else(Vec::new, |record| missing_rows(path, record));
    let (mut batches, mut count) = (Vec::new(), 0);
    while let Some(head) = reader.next_batch()? {
        let offset = head.offset();
        let rows = rows_of(&reader, &head)?;
        count += rows.len() as u64;
        if let ([first, ..], [.., last], false) = (&rows[..], &rows[..], missing.is_empty()) {
            batches.push(MarkedBatch { offset, first_ns: first.mark_ns, last_ns: last.mark_ns });
        }
        for row in rows {
            let content = contents.entry(row.source).or_insert_with(|| RawContent::of(undescribed(&row)));
            content.add(&row);
            if content.places.last().is_none_or(|(file, place)| *place != offset || file != path) {
                content.places.push((path.to_owned(), offset));
            }
        }
    }
    spread_gaps(&gaps_of(path, &batches, &missing), path, contents);
    Ok(count)
}

/// Notes the gaps of a file with each of its sources: nobody knows whose rows they had.
fn spread_gaps(gaps: &[RawGap], path: &Path, contents: &mut BTreeMap<u16, RawContent>) {
    let is_there = |content: &RawContent| content.places.last().is_some_and(|(file, _)| file == path);
    let sources = contents.values().filter(|content| is_there(content)).count() as u64;
    for content in contents.values_mut().filter(|content| is_there(content)) {
        let own = gaps.iter().map(|gap| RawGap { bytes: gap.bytes / sources, ..gap.clone() });
        content.gaps.extend(own);
    }
}

/// Notes with each source what the ledger of the run says was not written of it.
fn note_not_written(record: Option<&RunRecord>, contents: &mut BTreeMap<u16, RawContent>) {
    let Some((record, ledger)) = record.and_then(|record| Some((record, record.ledger.as_ref()?))) else {
        return;
    };
    for entry in &ledger.entries {
        if entry.is_at(StageRole::Raw)
            && entry.unit == Unit::Bytes.word()
            && let Some(content) = contents.values_mut().find(|content| content.source.name == entry.source)
        {
            content.not_written_bytes = entry.lost.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
            // What a killed run held was lost, unless it was written behind the last moment of the ledger. One that is said to be written is
            // replayed only if its program is gone.
            let may_be_killed = record.was_killed() || record.state == RunRecordState::Running;
            if may_be_killed || entry.held > 0 {
                let came = entry.input.saturating_sub(entry.overhead).saturating_sub(entry.filtered);
                content.not_written_bytes =
                    content.not_written_bytes.max(came.saturating_sub(content.accounted_bytes()));
            }
        }
    }
}

/// The sources whose rows are in these batches, as a schema describes them, for a file that has lost its own. What their
/// blocks were is not known then.
pub(super) fn described(
    reader: &TableReader,
    batches: &[WholeBatch],
    names: &[String],
) -> Result<String, RecordError> {
    let mut sources = BTreeMap::new();
    if reader.metadata().is_empty() {
        for batch in batches {
            let Some(head) = reader.batch_at(batch.offset)? else { continue };
            for row in rows_of(reader, &head)? {
                let name = names.get(usize::from(row.source)).cloned();
                let undescribed = undescribed(&row);
                let described = RawSource { name: name.unwrap_or(undescribed.name.clone()), ..undescribed };
                let known: &mut RawSource = sources.entry(row.source).or_insert_with(|| described);
                known.stream |= row.kind == kind::STREAM;
            }
        }
    }
    Ok(serde_json::to_string(&sources.values().collect::<Vec<_>>()).unwrap_or_default())
}

/// A source that the schema does not name.
fn undescribed(row: &RawRow) -> RawSource {
    RawSource {
        source: row.source,
        name: format!("source {}", row.source),
        stream: row.kind == kind::STREAM,
        block_bytes: 0,
    }
}

impl RawContent {
    /// At how many places rows are missing that may have been its own: its file was damaged, and recovered.
    pub fn gap_count(&self) -> usize {
        self.gaps.len()
    }

    /// Bytes on file, and those of the gaps.
    fn accounted_bytes(&self) -> u64 {
        self.gaps.iter().fold(self.bytes, |sum, gap| sum.saturating_add(gap.bytes))
    }

    fn of(source: RawSource) -> RawContent {
        RawContent {
            source,
            rows: 0,
            bytes: 0,
            idle_marks: 0,
            first_mark_ns: 0,
            last_mark_ns: 0,
            largest_bytes: 0,
            not_written_bytes: 0,
            places: Vec::new(),
            gaps: Vec::new(),
        }
    }

    fn add(&mut self, row: &RawRow) {
        if self.rows == 0 {
            self.first_mark_ns = row.mark_ns;
        }
        self.rows += 1;
        self.bytes += row.length() as u64;
        self.idle_marks += u64::from(row.kind == kind::MARK);
        self.last_mark_ns = row.mark_ns;
        self.largest_bytes = self.largest_bytes.max(row.length() as u64);
    }
}
