//! What is whole in a table's file, however much of it is damaged.
//!
//! ```text
//!  schema ┊ batch 0 ┊ ▒▒▒▒▒ ┊ batch 2 ┊ batch 3 ┊ ▒▒▒   ──►   batches 0, 2, 3; gaps between and behind them
//!                       └ searched for the next message whose checksum is right
//! ```
//! Every message begins at a multiple of [`ALIGNMENT`] in its file, so the search looks at one prefix in 64 bytes. A batch behind a gap
//! carries its own number and that of its first row, under its checksum: so the rows that are missing are counted.

use std::path::Path;

use super::table_reader::{BatchHead, TableReader};
use crate::error::RecordError;
use crate::ipc::message::opening;
use crate::ipc::{ALIGNMENT, CONTINUATION, END_OF_STREAM, MOST_METADATA_BYTES};
use crate::table::Table;

/// Bytes read at a time while a message is searched for.
const CHUNK_BYTES: usize = 64 * 1024;

/// A batch whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeBatch {
    /// Where it begins in the file.
    pub offset: u64,
    /// Where the next message begins.
    pub end: u64,
    /// Its number, as the writer counted.
    pub number: u64,
    /// Number of its first row, as the writer counted.
    pub first_row: u64,
    /// Its rows.
    pub rows: u64,
}

impl WholeBatch {
    /// Number of the row behind its last, as the writer counted.
    pub fn end_row(&self) -> u64 {
        self.first_row + self.rows
    }
}

/// A table's file, taken apart.
#[derive(Debug)]
pub(super) struct Salvage {
    /// Reads the batches.
    pub reader: TableReader,
    /// Why the schema has to be written again; empty when it is as it should be.
    pub schema_damage: String,
    /// Every whole batch, in the order of the file.
    pub batches: Vec<WholeBatch>,
    /// By batch, why it does not follow the one before it; empty where it does.
    pub damage: Vec<String>,
    /// What is wrong behind the last whole batch; `None` where the stream ends as it should.
    pub tail: Option<String>,
    /// Bytes behind the end-of-stream marker that no reader ever saw: a batch that was being written.
    pub is_unfinished: bool,
}

impl Salvage {
    /// Takes the file of `table` apart.
    ///
    /// # Errors
    /// When it cannot be read, or holds something else.
    pub fn of(path: &Path, table: Table) -> Result<Salvage, RecordError> {
        let (reader, schema_damage) = open(path, table)?;
        let mut salvage = Salvage {
            reader,
            schema_damage,
            batches: Vec::new(),
            damage: Vec::new(),
            tail: None,
            is_unfinished: false,
        };
        salvage.find_schema_end(path, table)?;
        salvage.find_columns(table)?;
        salvage.walk()?;
        // Bytes of another program's table are left alone; what a crash makes of ours without any whole batch is short.
        let most = opening(table, salvage.reader.columns(), &[]).len() as u64 + 4096;
        if !salvage.schema_damage.is_empty() && salvage.batches.is_empty() && salvage.reader.length() > most {
            return Err(salvage.reader.damaged(0, salvage.schema_damage));
        }
        Ok(salvage)
    }

    /// Where the first batch lies, or would.
    pub fn start(&self) -> u64 {
        self.reader.position()
    }

    /// A damaged length of the schema's message reads as a schema that goes on into the first batch: that batch says where it ends.
    fn find_schema_end(&mut self, path: &Path, table: Table) -> Result<(), RecordError> {
        let end = self.start();
        let is_inside = |first: u64| first < end;
        if self.schema_damage.is_empty() && self.next_whole(0)?.is_some_and(is_inside) {
            self.schema_damage =
                self.reader.damaged(0, "a schema of another length than its own").to_string();
            self.reader = TableReader::without_schema(path, table)?;
        }
        Ok(())
    }

    /// Behind a damaged schema, the batches say by their buffers which of the table's columns they have.
    fn find_columns(&mut self, table: Table) -> Result<(), RecordError> {
        if self.schema_damage.is_empty() {
            return Ok(());
        }
        for columns in table.shapes() {
            self.reader.set_columns(columns);
            if self.next_whole(self.start())?.is_some() {
                return Ok(());
            }
        }
        self.reader.set_columns(table.columns());
        Ok(())
    }

    fn walk(&mut self) -> Result<(), RecordError> {
        let (mut at, length) = (self.reader.position(), self.reader.length());
        let mut wrong = String::new();
        loop {
            let found = self.whole_at(at)?;
            match found {
                Ok(batch) => {
                    if wrong.is_empty() {
                        wrong = self.missing_before(&batch);
                    }
                    self.batches.push(batch);
                    self.damage.push(std::mem::take(&mut wrong));
                    at = batch.end;
                    continue;
                }
                Err(None) if at + END_OF_STREAM.len() as u64 == length => {
                    self.tail = (!wrong.is_empty()).then_some(wrong);
                    return Ok(());
                }
                Err(None) => {
                    self.is_unfinished = wrong.is_empty();
                    wrong = "bytes behind the end of the stream: a batch that was being written".to_owned();
                }
                Err(Some(damage)) => wrong = damage,
            }
            match self.next_whole(at)? {
                Some(next) => {
                    if self.is_unfinished {
                        wrong = self.reader.damaged(at, "the end of a stream in the midst of it").to_string();
                        self.is_unfinished = false;
                    }
                    at = next;
                }
                None => {
                    self.tail = Some(wrong);
                    return Ok(());
                }
            }
        }
    }

    /// Which batches are missing before one that lies behind no damage, as those of a file that is not there do; empty when none are.
    fn missing_before(&self, batch: &WholeBatch) -> String {
        let next = self.batches.last().map_or(0, |last| last.number + 1);
        let missing = match batch.number.saturating_sub(next) {
            0 => return String::new(),
            1 => format!("batch {next} is"),
            _ => format!("batches {next} to {} are", batch.number - 1),
        };
        self.reader.damaged(batch.offset, format!("{missing} missing before this one")).to_string()
    }

    /// The whole batch at `at`, behind those that are known; or what is there instead: `None` for the end of the stream.
    fn whole_at(&self, at: u64) -> Result<Result<WholeBatch, Option<String>>, RecordError> {
        let checked = || {
            let Some(head) = self.reader.batch_at(at)? else { return Ok(None) };
            self.reader.verify_checksum(&head)?;
            Ok(Some(head))
        };
        match checked() {
            Ok(None) => Ok(Err(None)),
            Ok(Some(head)) => Ok(self.follows(&head).ok_or_else(|| {
                let words = "a batch that does not follow the one before it";
                Some(self.reader.damaged(at, words).to_string())
            })),
            Err(error @ RecordError::Damaged { .. }) => Ok(Err(Some(error.to_string()))),
            Err(error) => Err(error),
        }
    }

    /// The batch, when its numbers can come behind those that are known.
    fn follows(&self, head: &BatchHead) -> Option<WholeBatch> {
        let (next, next_row) = self.batches.last().map_or((0, 0), |last| (last.number + 1, last.end_row()));
        let rows = head.rows() as u64;
        let batch = WholeBatch {
            offset: head.offset(),
            end: head.end(),
            number: head.number().unwrap_or(next),
            first_row: head.first_row().unwrap_or(next_row),
            rows,
        };
        (batch.number >= next && batch.first_row >= next_row && batch.first_row.checked_add(rows).is_some())
            .then_some(batch)
    }

    /// Where the next whole batch behind `at` begins.
    fn next_whole(&self, at: u64) -> Result<Option<u64>, RecordError> {
        let mut from = at + 1;
        while let Some((first, end)) = self.reader.bytes().message_places(from) {
            if let Some(found) = self.first_whole(first, end)? {
                return Ok(Some(found));
            }
            from = end;
        }
        Ok(None)
    }

    /// The first whole batch that begins at `first`, or a multiple of [`ALIGNMENT`] bytes behind it and before `end`.
    fn first_whole(&self, first: u64, end: u64) -> Result<Option<u64>, RecordError> {
        let mut chunk = vec![0; CHUNK_BYTES];
        for chunk_at in (first..end).step_by(CHUNK_BYTES) {
            let bytes = (end - chunk_at).min(CHUNK_BYTES as u64) as usize;
            self.reader.read_into(chunk_at, &mut chunk[..bytes])?;
            for (place, prefix) in chunk[..bytes].chunks(ALIGNMENT).enumerate() {
                let candidate = chunk_at + (place * ALIGNMENT) as u64;
                if is_prefix(prefix) && self.whole_at(candidate)?.is_ok() {
                    return Ok(Some(candidate));
                }
            }
        }
        Ok(None)
    }
}

/// Whether these bytes can begin a batch of ours.
fn is_prefix(bytes: &[u8]) -> bool {
    let Some((prefix, _)) = bytes.split_first_chunk::<8>() else { return false };
    let length = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
    prefix[..4] == CONTINUATION
        && length > 0
        && u64::from(length) <= MOST_METADATA_BYTES
        && (length as usize + prefix.len()).is_multiple_of(ALIGNMENT)
}

/// A reader of the file's batches, and why its schema has to be written again.
fn open(path: &Path, table: Table) -> Result<(TableReader, String), RecordError> {
    let damage = match TableReader::open(path) {
        Ok(reader) if reader.table() != table => {
            let found = format!("the table `{}` where `{}` is wanted", reader.table().word(), table.word());
            reader.damaged(0, found).to_string()
        }
        Ok(reader) => match reader.is_opening_plain()? {
            true => return Ok((reader, String::new())),
            false => reader.damaged(0, "a schema that other programs cannot read").to_string(),
        },
        Err(error @ RecordError::Damaged { .. }) => error.to_string(),
        Err(error) => return Err(error),
    };
    Ok((TableReader::without_schema(path, table)?, damage))
}
