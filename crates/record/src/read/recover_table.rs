//! One table of a run that is recovered: which batches stay, and how the file gets there.
//!
//! ```text
//!  Salvage ──► stays? (its own checksum, the rows of another table that it names)
//!     all that stays comes first, as it was  ──►  the file is cut behind it, and what was damaged is kept beside it
//!     anything else                          ──►  written beside the file, and put in its place
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::events::EventRows;
use super::raw::described;
use super::recover::RecoveredTable;
use super::rewrite::{KeptRows, Replacement, free_name, name_of, no_space, write_beside};
use super::salvage::{Salvage, WholeBatch};
use crate::error::RecordError;
use crate::ipc::END_OF_STREAM;
use crate::ipc::file::TableSummary;
use crate::missing::MissingRows;
use crate::recorded_tables::RecordedTables;
use crate::table::{Kind, Table, first_part_of};

/// Where the number of a hit lies in `extras` and `waveforms`.
const HIT_COLUMN: usize = 0;
/// Where the number of an event's first fragment lies in `events`.
const FIRST_FRAGMENT_COLUMN: usize = 8;

/// A table whose file may be damaged.
#[derive(Debug)]
pub(super) struct DamagedTable {
    path: PathBuf,
    table: Table,
    salvage: Salvage,
    /// By whole batch, why it goes; empty when it stays.
    goes: Vec<&'static str>,
    /// The column that names rows of another table, and what is left of these.
    references: Option<(usize, KeptRows)>,
    /// What the run's record says of it, of a run that had ended.
    said: Option<TableSummary>,
    /// What of this is not there; empty when all is.
    shortfall: String,
    /// What the new file beside it holds, and the name that the damaged one gets.
    beside: Option<(TableSummary, String)>,
}

impl DamagedTable {
    /// Takes the file of `table` apart.
    ///
    /// # Errors
    /// When it cannot be read, or holds something else.
    pub fn of(path: &Path, table: Table) -> Result<DamagedTable, RecordError> {
        let salvage = Salvage::of(path, table)?;
        let goes = vec![""; salvage.batches.len()];
        let path = path.to_owned();
        Ok(DamagedTable {
            path,
            table,
            salvage,
            goes,
            references: None,
            said: None,
            shortfall: String::new(),
            beside: None,
        })
    }

    /// The rows that stay.
    pub fn kept_rows(&self) -> KeptRows {
        KeptRows::of(self.staying())
    }

    fn staying(&self) -> impl Iterator<Item = &WholeBatch> {
        self.salvage
            .batches
            .iter()
            .zip(&self.goes)
            .filter(|(_, goes)| goes.is_empty())
            .map(|(batch, _)| batch)
    }

    /// Of extras, waveforms and events: only batches stay whose rows name rows that stay; without a table of these, all.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn keep_those_of(&mut self, rows: Option<&KeptRows>) -> Result<(), RecordError> {
        let Some(rows) = rows else { return Ok(()) };
        let (column, text) = match self.table {
            Table::Events => (FIRST_FRAGMENT_COLUMN, "events whose fragments are not there"),
            _ => (HIT_COLUMN, "rows whose hits are not there"),
        };
        for index in 0..self.goes.len() {
            let named = self.named_by(index)?;
            if self.goes[index].is_empty() && !named.iter().all(|(first, end)| rows.has_all(*first, *end)) {
                self.goes[index] = text;
            }
        }
        self.references = Some((column, rows.clone()));
        Ok(())
    }

    /// Of fragments: only batches stay whose rows are named by events.
    pub fn keep_named(&mut self, named: &[(u64, u64)]) {
        for (batch, goes) in self.salvage.batches.iter().zip(&mut self.goes) {
            let first_behind = named.partition_point(|(_, end)| *end <= batch.first_row);
            let is_named = named.get(first_behind).is_some_and(|(first, _)| *first < batch.end_row());
            if goes.is_empty() && batch.rows > 0 && !is_named {
                *goes = "fragments whose events are not there";
            }
        }
    }

    /// Of events: the fragments that those name that stay, in their order.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn named_rows(&self) -> Result<Vec<(u64, u64)>, RecordError> {
        let mut named: Vec<(u64, u64)> = Vec::new();
        for index in (0..self.goes.len()).filter(|index| self.goes[*index].is_empty()) {
            for (first, end) in self.named_by(index)? {
                match named.last_mut() {
                    Some(last) if last.1 == first => last.1 = end,
                    _ => named.push((first, end)),
                }
            }
        }
        named.sort_unstable();
        Ok(named)
    }

    /// The rows of another table that a batch's rows name, as stretches.
    fn named_by(&self, index: usize) -> Result<Vec<(u64, u64)>, RecordError> {
        let reader = &self.salvage.reader;
        let offset = self.salvage.batches[index].offset;
        let gone = || reader.damaged(offset, "no batch where there was one");
        let head = reader.batch_at(offset)?.ok_or_else(gone)?;
        if self.table == Table::Events {
            let rows = EventRows::load(reader, &head)?.rows;
            let named = rows.iter().filter(|row| row.fragments > 0);
            let ends = named
                .map(|row| (row.first_fragment, row.first_fragment.saturating_add(u64::from(row.fragments))));
            return Ok(merged(ends));
        }
        let rows = reader.numbers::<8>(&head, HIT_COLUMN)?;
        Ok(merged(rows.iter().map(|row| {
            let row = u64::from_le_bytes(*row);
            (row, row.saturating_add(1))
        })))
    }

    /// Whether what stays is not the beginning of the file as it is.
    fn has_to_be_written_again(&self) -> bool {
        let kept: Vec<&WholeBatch> = self.staying().collect();
        let mut end = self.salvage.start();
        let follow = kept.iter().enumerate().all(|(index, batch)| {
            let follows = batch.offset == end && batch.number == index as u64;
            end = batch.end;
            follows
        });
        let moved = self.references.as_ref().is_some_and(|(_, rows)| !rows.has_no_gap());
        !self.salvage.schema_damage.is_empty()
            || !follow
            || !self.kept_rows().has_no_gap()
            || moved && !kept.is_empty()
    }

    /// Takes what the run's record says of its tables. Files that are missing at the end leave no other trace; those before that are
    /// the reason why batches are.
    pub fn compare(&mut self, said: &RecordedTables) {
        let name = name_of(&self.path);
        let batches = &self.salvage.batches;
        let end_row = batches.last().map_or(0, WholeBatch::end_row);
        let mut named = None;
        for missing in said.missing_files().filter(|missing| missing.table.file == name) {
            let Some((_, number)) = first_part_of(&missing.name) else { continue };
            let bytes = self.salvage.reader.bytes();
            let behind = batches.partition_point(|batch| bytes.file_number(batch.offset) < number);
            if self.has_gap_before(behind) {
                if named != Some(behind) {
                    self.salvage.damage[behind] = missing.to_string();
                }
                named = Some(behind);
            } else if self.shortfall.is_empty() {
                self.shortfall = missing.to_string();
            }
        }
        if self.shortfall.is_empty() {
            self.shortfall = said.too_few_rows(&name, end_row).unwrap_or_default();
        }
        self.said = said.find(&name).cloned();
    }

    /// Whether batches are missing before this one, and no bytes.
    fn has_gap_before(&self, index: usize) -> bool {
        let batches = &self.salvage.batches;
        let before = index.checked_sub(1).map(|before| &batches[before]);
        let (next, end) = before.map_or((0, self.salvage.start()), |before| (before.number + 1, before.end));
        batches.get(index).is_some_and(|batch| batch.number > next && batch.offset == end)
    }

    /// Writes what stays beside the file, where it cannot stay as it is.
    ///
    /// # Errors
    /// When there is no space, or the disk fails; nothing has changed then.
    pub fn write_beside(
        &mut self,
        sources: &[String],
        replacement: &mut Replacement,
    ) -> Result<(), RecordError> {
        if !self.has_to_be_written_again() {
            return Ok(());
        }
        let kept: Vec<WholeBatch> = self.staying().copied().collect();
        let names = match self.table {
            Table::Raw => described(&self.salvage.reader, &kept, sources)?,
            _ => serde_json::to_string(sources).unwrap_or_default(),
        };
        let reader = &self.salvage.reader;
        let found = reader.metadata().iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut metadata: Vec<(&str, &str)> =
            found.filter(|(key, _)| !matches!(*key, "table" | "format")).collect();
        if metadata.is_empty() {
            metadata.push(("sources", &names));
        }
        let summary = write_beside(&self.path, &self.salvage, &kept, self.references.as_ref(), &metadata)?;
        let mut backups = vec![replacement.add(&self.path)];
        backups.extend(reader.bytes().later().map(|later| replacement.retire(later)));
        self.beside = Some((summary, backups.join(", ")));
        replacement.missing.extend(self.missing()?);
        Ok(())
    }

    /// Cuts the file behind what stays, where it is the beginning of it; returns what the file holds then.
    ///
    /// # Errors
    /// When the disk refuses, or has no space for what was damaged.
    pub fn settle(mut self, missing: &mut Vec<MissingRows>) -> Result<RecoveredTable, RecordError> {
        let (length, reason) = (self.salvage.reader.length(), self.reason());
        if let Some((summary, backup)) = self.beside.take() {
            let bytes_removed = length.saturating_sub(summary.bytes);
            return Ok(RecoveredTable { summary, bytes_removed, reason, backup });
        }
        let end = self.staying().last().map_or(self.salvage.start(), |batch| batch.end);
        let bytes = self.salvage.reader.bytes();
        let cut = bytes.cut_at(end);
        // Where nothing is wrong, a last file without a batch stays as well.
        let (file_bytes, files) = match reason.is_empty() {
            true => (length + bytes.bytes_left_out(), bytes.files()),
            false => (cut.file_bytes, cut.files),
        };
        let summary = TableSummary {
            table: self.table.word().to_owned(),
            file: name_of(&self.path),
            rows: self.staying().map(|batch| batch.rows).sum(),
            batches: self.staying().count() as u64,
            bytes: file_bytes,
            files,
            ..TableSummary::default()
        };
        let mut backups = Vec::new();
        if !reason.is_empty() {
            let is_damaged = self.salvage.tail.is_some() && !self.salvage.is_unfinished;
            if is_damaged && end < length {
                backups.extend(keep_tail(cut.path, cut.offset)?);
            }
            for later in &cut.later {
                backups.push(put_away(later)?);
            }
            if is_damaged || self.said.is_some() {
                missing.extend(self.missing()?);
            }
            let file = OpenOptions::new().write(true).open(cut.path);
            file.and_then(|file| finish_at(&file, cut.offset))
                .map_err(|cause| RecordError::io(cut.path, "repairing", cause))?;
        }
        let bytes_removed = length.saturating_sub(end + END_OF_STREAM.len() as u64);
        Ok(RecoveredTable { bytes_removed, summary, reason, backup: backups.join(", ") })
    }

    /// What is wrong with the file, at the first place where something is.
    fn reason(&self) -> String {
        let inside = self.salvage.damage.iter().zip(&self.goes).zip(&self.salvage.batches);
        let first = inside.filter_map(|((damage, goes), batch)| match (damage.is_empty(), goes.is_empty()) {
            (false, _) => Some(damage.clone()),
            (true, false) => Some(self.salvage.reader.damaged(batch.offset, *goes).to_string()),
            (true, true) => None,
        });
        let schema = Some(&self.salvage.schema_damage).filter(|damage| !damage.is_empty()).cloned();
        let moved = || {
            let names_others = self.beside.is_some();
            names_others.then(|| "rows that it names have other numbers now".to_owned())
        };
        schema
            .into_iter()
            .chain(first)
            .chain(self.salvage.tail.clone())
            .chain(Some(&self.shortfall).filter(|shortfall| !shortfall.is_empty()).cloned())
            .next()
            .or_else(moved)
            .unwrap_or_default()
    }

    /// Rows that do not stay, place by place.
    fn missing(&self) -> Result<Vec<MissingRows>, RecordError> {
        let mut places = Vec::new();
        let (mut last, mut why) = (None::<&WholeBatch>, String::new());
        let start = self.salvage.start();
        let length = self.salvage.reader.length();
        let file_bytes = length + self.salvage.reader.bytes().bytes_left_out();
        // Of files that are missing: the record has the bytes of all, and they are entered at the first place.
        let mut gone = self.said.as_ref().map_or(0, |said| said.bytes.saturating_sub(file_bytes));
        let batches = self.salvage.batches.iter().zip(&self.goes).zip(&self.salvage.damage);
        for ((batch, goes), damage) in batches {
            if why.is_empty() {
                why.clone_from(damage);
            }
            if !goes.is_empty() {
                if why.is_empty() {
                    (*goes).clone_into(&mut why);
                }
                continue;
            }
            let rows = batch.first_row - last.map_or(0, WholeBatch::end_row);
            if rows > 0 {
                let bytes = match batch.offset - last.map_or(start, |last| last.end).min(batch.offset) {
                    0 => std::mem::take(&mut gone),
                    bytes => bytes,
                };
                self.place(last, Some(batch), (Some(rows), bytes), &why)?.add_to(&mut places);
            }
            (last, why) = (Some(batch), String::new());
        }
        let (end_row, end) = last.map_or((0, start), |last| (last.end_row(), last.end));
        // Whole batches that go are counted; of a run that had ended its record says how many rows there were.
        let known = self.salvage.batches.last().map_or(end_row, WholeBatch::end_row);
        let is_damaged = self.salvage.tail.is_some() && !self.salvage.is_unfinished;
        let rows = match &self.said {
            Some(said) => Some(said.rows.max(known).saturating_sub(end_row)),
            None if is_damaged => None,
            None => Some(known - end_row),
        };
        if rows != Some(0) {
            let why = self.salvage.tail.clone().filter(|_| why.is_empty()).unwrap_or(why);
            let (why, damaged) = match why.is_empty() {
                true => (self.shortfall.clone(), 0),
                false => (why, length.saturating_sub(end)),
            };
            let bytes = damaged.saturating_add(gone);
            self.place(last, None, (rows, bytes), &why)?.add_to(&mut places);
        }
        Ok(places)
    }

    fn place(
        &self,
        before: Option<&WholeBatch>,
        behind: Option<&WholeBatch>,
        (rows, bytes): (Option<u64>, u64),
        why: &str,
    ) -> Result<MissingRows, RecordError> {
        let times = |batch: Option<&WholeBatch>| batch.map_or(Ok(None), |batch| self.times_of(batch));
        Ok(MissingRows {
            table: self.table.word().to_owned(),
            file: name_of(&self.path),
            rows,
            bytes,
            column: time_column(self.table).map_or("", |(_, name)| name).to_owned(),
            after: times(before)?.map(|(_, last)| last),
            before: times(behind)?.map(|(first, _)| first),
            reason: why.to_owned(),
        })
    }

    /// The first and the last time of a batch.
    fn times_of(&self, batch: &WholeBatch) -> Result<Option<(i64, i64)>, RecordError> {
        let Some((column, _)) = time_column(self.table) else { return Ok(None) };
        let Some(head) = self.salvage.reader.batch_at(batch.offset)? else { return Ok(None) };
        let times = self.salvage.reader.numbers::<8>(&head, column)?;
        let time = |bytes: &[u8; 8]| i64::from_le_bytes(*bytes);
        Ok(times.first().map(time).zip(times.last().map(time)))
    }
}

/// The column that places rows in time. Fragments have none of their own: their events have.
fn time_column(table: Table) -> Option<(usize, &'static str)> {
    let names = ["time_ps", "mark_ns", "closed_ns", "until_ns"];
    let columns = table.columns().iter().enumerate();
    let mut timed = columns
        .filter(|(_, column)| names.contains(&column.name) && matches!(column.kind, Kind::I64 | Kind::U64));
    timed.next().map(|(index, column)| (index, column.name))
}

/// Stretches that follow each other as one.
fn merged(stretches: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (first, end) in stretches {
        match merged.last_mut() {
            Some(last) if last.1 == first => last.1 = end,
            _ => merged.push((first, end)),
        }
    }
    merged
}

/// Gives a file of which nothing stays in the table another name; returns it.
fn put_away(path: &Path) -> Result<String, RecordError> {
    let name = free_name(path, "damaged");
    std::fs::rename(path, path.with_file_name(&name))
        .map_err(|cause| RecordError::io(path, "putting away what was damaged", cause))?;
    Ok(name)
}

/// Copies what is going to be cut off into a file of its own; returns its name, or none where there is nothing behind the end.
fn keep_tail(path: &Path, end: u64) -> Result<Option<String>, RecordError> {
    let length =
        std::fs::metadata(path).map_err(|cause| RecordError::io(path, "asking for its length", cause))?.len();
    if length <= end {
        return Ok(None);
    }
    let name = free_name(path, &format!("damaged-from-{end}"));
    let backup = path.with_file_name(&name);
    let copy = || -> io::Result<()> {
        let (mut from, mut to) = (File::open(path)?, File::create_new(&backup)?);
        from.seek(SeekFrom::Start(end))?;
        io::copy(&mut io::Read::take(&mut from, length - end), &mut to)?;
        to.sync_all()
    };
    copy().map_err(|cause| {
        let _ = std::fs::remove_file(&backup);
        no_space(RecordError::io(path, "keeping what was damaged", cause), path, length - end)
    })?;
    Ok(Some(name))
}

fn finish_at(file: &File, end: u64) -> io::Result<()> {
    // First the marker, then the cut: whenever this stops, the file is a whole stream.
    file.write_all_at(&END_OF_STREAM, end)?;
    file.set_len(end + END_OF_STREAM.len() as u64)?;
    file.sync_all()
}
