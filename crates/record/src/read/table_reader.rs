//! A table's file, message by message, with every number checked before it is used.
//!
//! ```text
//!  file ──► schema (must be a table's), dictionaries ──► BatchHead, BatchHead, … ──► end-of-stream
//!                                              └ place and length of each buffer ──► columns
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use arrow_ipc::reader::StreamReader;
use arrow_ipc::{CompressionType, Message, MessageHeader, Type};
use thalweg_data::checksum::Crc32c;

use super::dictionary::read_dictionary;
use super::table_bytes::TableBytes;
use crate::error::RecordError;
use crate::ipc::columns::Shape;
use crate::ipc::compress::decompress;
use crate::ipc::message::{BATCH_KEY, CHECKSUM_BLANK, CHECKSUM_KEY, FIRST_ROW_KEY, checksum_place, opening};
use crate::ipc::{CONTINUATION, END_OF_STREAM, MOST_BUFFER_BYTES, MOST_METADATA_BYTES, MOST_ROWS};
use crate::settings::Compression;
use crate::table::{Column, Kind, Table, dictionaries, dictionary_of};

/// Bytes read at a time while a checksum is computed.
const CHUNK_BYTES: usize = 256 * 1024;

/// Bytes at known places: a file, or memory.
pub trait ReadAt {
    /// Number of bytes.
    ///
    /// # Errors
    /// When the system does not say.
    fn length(&self) -> io::Result<u64>;

    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// When there are not that many bytes, or the system fails.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// The file in which a byte lies, and its place there; `None` where all lie in the one that messages name.
    fn locate(&self, _offset: u64) -> Option<(&Path, u64)> {
        None
    }

    /// The same bytes as they are by now; `None` where nothing is appended to them.
    fn reopened(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

impl ReadAt for &File {
    fn length(&self) -> io::Result<u64> {
        (**self).length()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

impl ReadAt for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let from = self.get(start..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The reader of a table.
#[derive(Debug)]
pub struct TableReader<R = TableBytes> {
    bytes: R,
    path: PathBuf,
    length: u64,
    table: Table,
    columns: &'static [Column],
    metadata: BTreeMap<String, String>,
    /// How many words each of its dictionaries has.
    words: Vec<usize>,
    position: u64,
    ended: bool,
}

/// What a batch's metadata says, checked against the file and the table.
#[derive(Clone, Debug)]
pub struct BatchHead {
    offset: u64,
    metadata: Vec<u8>,
    body_at: u64,
    body_length: u64,
    rows: usize,
    buffers: Vec<(u64, u64)>,
    compression: Compression,
    number: Option<u64>,
    first_row: Option<u64>,
}

impl BatchHead {
    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Where the batch begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the next message begins.
    pub fn end(&self) -> u64 {
        self.body_at + self.body_length
    }

    /// Number of the batch's first row in its table, as the writer counted.
    pub fn first_row(&self) -> Option<u64> {
        self.first_row
    }

    /// Number of the batch in its table, as the writer counted.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Bytes of all its buffers on file.
    pub(crate) fn body_length(&self) -> u64 {
        self.body_length
    }

    /// How the batch's buffers are compressed.
    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// Number of buffers.
    pub(crate) fn buffer_count(&self) -> usize {
        self.buffers.len()
    }

    /// What the batch's metadata says of its columns.
    pub(crate) fn shape(&self) -> Shape {
        let message = arrow_ipc::root_as_message(&self.metadata).ok();
        let batch = message.and_then(|message| message.header_as_record_batch());
        let nodes = batch.and_then(|batch| batch.nodes()).into_iter().flatten();
        let nodes = nodes.map(|node| (node.length().max(0) as usize, node.null_count().max(0) as usize));
        let variadic = batch.and_then(|batch| batch.variadicBufferCounts()).into_iter().flatten();
        Shape { rows: self.rows, nodes: nodes.collect(), variadic: variadic.collect() }
    }

    /// Place in the file, and length, of a buffer.
    pub(crate) fn buffer_place(&self, index: usize) -> Option<(u64, u64)> {
        self.buffers.get(index).map(|(offset, length)| (self.body_at + offset, *length))
    }
}

impl TableReader {
    /// Opens a table by its first file, with the parts that follow it.
    ///
    /// # Errors
    /// When it cannot be read or its schema is not that of a table.
    pub fn open(path: &Path) -> Result<TableReader, RecordError> {
        TableReader::over(TableBytes::open(path)?, path)
    }

    /// A reader of the batches of a table's file whose schema is damaged. Positions begin at 0.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn without_schema(path: &Path, table: Table) -> Result<TableReader, RecordError> {
        let mut reader = TableReader::unread(TableBytes::open(path)?, path)?;
        reader.table = table;
        reader.set_columns(table.columns());
        Ok(reader)
    }

    /// Whether what comes before the first batch is as this program writes it, or at least says the same to other readers.
    pub(super) fn is_opening_plain(&self) -> Result<bool, RecordError> {
        if self.position > self.length {
            return Ok(false);
        }
        let found = self.read(0, self.position as usize)?;
        let metadata: Vec<(&str, &str)> = self
            .metadata
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "table" | "format"))
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let stream = [&found[..], &END_OF_STREAM].concat();
        let says_the_same = || {
            let mut stock = StreamReader::try_new(io::Cursor::new(stream), None).ok()?;
            Some(*stock.schema() == self.table.schema(self.columns, &metadata) && stock.next().is_none())
        };
        Ok(found == opening(self.table, self.columns, &metadata) || says_the_same() == Some(true))
    }
}

impl<R: ReadAt> TableReader<R> {
    /// A reader over bytes that messages call `path`.
    ///
    /// # Errors
    /// When the schema is not that of a table.
    pub fn over(bytes: R, path: &Path) -> Result<TableReader<R>, RecordError> {
        let mut reader = TableReader::unread(bytes, path)?;
        reader.read_schema()?;
        Ok(reader)
    }

    fn unread(bytes: R, path: &Path) -> Result<TableReader<R>, RecordError> {
        let length = bytes.length().map_err(|cause| RecordError::io(path, "asking for its length", cause))?;
        Ok(TableReader {
            bytes,
            path: path.to_owned(),
            length,
            table: Table::Hits,
            columns: Table::Hits.columns(),
            metadata: BTreeMap::new(),
            words: Vec::new(),
            position: 0,
            ended: false,
        })
    }

    /// The table.
    pub fn table(&self) -> Table {
        self.table
    }

    /// Its columns, which earlier versions wrote otherwise.
    pub(crate) fn columns(&self) -> &'static [Column] {
        self.columns
    }

    /// Reads batches as of these columns, with all the words that this version knows.
    pub(super) fn set_columns(&mut self, columns: &'static [Column]) {
        self.columns = columns;
        self.words = dictionaries(columns).map(|words| words.len()).collect();
    }

    /// The place of a column among them; `None` in a file that does not have it.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The schema's metadata, keys without `thalweg.`.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Where the next message is looked for.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the end-of-stream marker was reached.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes of the file when it was opened.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where the bytes lie.
    pub(super) fn bytes(&self) -> &R {
        &self.bytes
    }

    pub(crate) fn damaged(&self, offset: u64, found: impl Into<String>) -> RecordError {
        let (path, offset) = self.bytes.locate(offset).unwrap_or((&self.path, offset));
        RecordError::Damaged { path: path.to_owned(), offset, found: found.into() }
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, RecordError> {
        if offset.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(self.damaged(offset, format!("{length} bytes that lie beyond the end of the file")));
        }
        let mut bytes = vec![0; length];
        self.read_into(offset, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn read_into(&self, offset: u64, into: &mut [u8]) -> Result<(), RecordError> {
        self.bytes.read_at(into, offset).map_err(|cause| RecordError::io(&self.path, "reading", cause))
    }

    /// Metadata of the message at `offset`, or `None` at the end of the stream.
    fn read_metadata(&self, offset: u64) -> Result<Option<Vec<u8>>, RecordError> {
        if offset == self.length {
            return Err(self.damaged(offset, "the file ends without an end-of-stream marker"));
        }
        let prefix = self.read(offset, 8)?;
        if prefix[..4] != CONTINUATION {
            return Err(self.damaged(offset, "not the beginning of a message"));
        }
        let length = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
        if u64::from(length) > MOST_METADATA_BYTES {
            return Err(self.damaged(offset, format!("{length} bytes of metadata")));
        }
        if length == 0 { Ok(None) } else { self.read(offset + 8, length as usize).map(Some) }
    }

    fn read_schema(&mut self) -> Result<(), RecordError> {
        let metadata = self.read_metadata(0)?;
        let metadata = metadata.ok_or_else(|| self.damaged(0, "a stream without a schema"))?;
        let message = self.parse(&metadata, 0)?;
        let schema =
            message.header_as_schema().ok_or_else(|| self.damaged(0, "a stream without a schema"))?;
        let pairs = schema.custom_metadata().into_iter().flatten();
        let pairs = pairs.filter_map(|pair| {
            let key = pair.key()?.strip_prefix("thalweg.")?;
            Some((key.to_owned(), pair.value().unwrap_or_default().to_owned()))
        });
        let pairs: BTreeMap<String, String> = pairs.collect();
        let table = pairs.get("table").and_then(|word| Table::from_word(word));
        let table = table.ok_or_else(|| self.damaged(0, "an Arrow stream that thalweg did not write"))?;
        let fields = schema.fields();
        let matches = |columns: &&&'static [Column]| {
            fields.is_some_and(|fields| {
                let mut each = fields.iter().enumerate();
                fields.len() == columns.len()
                    && each.all(|(place, field)| {
                        field_matches(&field, &columns[place], dictionary_of(columns, place))
                    })
            })
        };
        let columns = table.shapes().iter().find(matches);
        if columns.is_none() || pairs.get("format").map(String::as_str) != Some(crate::table::FORMAT) {
            let found = format!("columns of `{}` that this version does not know", table.word());
            return Err(self.damaged(0, found));
        }
        self.position = 8 + metadata.len() as u64;
        self.table = table;
        self.columns = columns.copied().unwrap_or(table.columns());
        self.metadata = pairs;
        self.words.clear();
        for (number, known) in (0..).zip(dictionaries(self.columns)) {
            let offset = self.position;
            let metadata = self.read_metadata(offset)?;
            let metadata = metadata.ok_or_else(|| self.damaged(offset, "a table without its dictionary"))?;
            let (words, end) = read_dictionary(self, offset, &metadata, (number, &known))?;
            self.words.push(words);
            self.position = end;
        }
        Ok(())
    }

    fn parse<'a>(&self, metadata: &'a [u8], offset: u64) -> Result<Message<'a>, RecordError> {
        arrow_ipc::root_as_message(metadata)
            .map_err(|cause| self.damaged(offset, format!("metadata that cannot be read: {cause}")))
    }

    /// The next batch, or `None` at the end-of-stream marker. Of a run that is being written, those that were whole when the file was
    /// opened.
    ///
    /// # Errors
    /// When what comes is no whole batch of this table.
    pub fn next_batch(&mut self) -> Result<Option<BatchHead>, RecordError> {
        if self.ended {
            return Ok(None);
        }
        let head = match self.batch_at(self.position) {
            Err(RecordError::Damaged { .. }) if self.was_end_when_opened(self.position) => None,
            head => head?,
        };
        match &head {
            Some(head) => self.position = head.end(),
            None => self.ended = true,
        }
        Ok(head)
    }

    /// The batch that begins at `offset`.
    pub(crate) fn batch_at(&self, offset: u64) -> Result<Option<BatchHead>, RecordError> {
        let Some(metadata) = self.read_metadata(offset)? else { return Ok(None) };
        let head = self.parse_batch(&metadata, offset)?;
        Ok(Some(BatchHead { metadata, ..head }))
    }

    /// Whether the stream ended at `offset` when it was opened, and goes on there by now. A writer makes the end-of-stream marker the prefix
    /// of its next batch, which lies behind that length.
    fn was_end_when_opened(&self, offset: u64) -> bool {
        let Some(bytes) = self.bytes.reopened() else { return false };
        let Ok(now) = TableReader::over(bytes, &self.path) else { return false };
        let goes_on = match now.batch_at(offset) {
            Ok(Some(head)) => head.end() > self.length && now.verify_checksum(&head).is_ok(),
            // It was opened while the marker behind a batch was still to be written.
            Ok(None) => true,
            Err(_) => false,
        };
        now.length > self.length && goes_on
    }

    fn parse_batch(&self, metadata: &[u8], offset: u64) -> Result<BatchHead, RecordError> {
        let message = self.parse(metadata, offset)?;
        let bad = |found: &str| self.damaged(offset, found);
        if message.header_type() != MessageHeader::RecordBatch {
            return Err(bad("a message that is no batch"));
        }
        let batch = message.header_as_record_batch().ok_or_else(|| bad("a batch without a header"))?;
        let body_at = offset + 8 + metadata.len() as u64;
        let body_length = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        if body_length > self.length.saturating_sub(body_at) {
            return Err(bad("a batch that the file does not hold to its end"));
        }
        let rows = u64::try_from(batch.length()).ok().filter(|rows| *rows <= MOST_ROWS);
        let rows = rows.ok_or_else(|| bad("an impossible number of rows"))? as usize;
        let variadic: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
        let buffers = batch.buffers().into_iter().flatten();
        let buffers: Option<Vec<(u64, u64)>> = buffers
            .map(|buffer| {
                let place = u64::try_from(buffer.offset()).ok()?;
                let length = u64::try_from(buffer.length()).ok()?;
                (place.checked_add(length)? <= body_length).then_some((place, length))
            })
            .collect();
        let buffers = buffers.ok_or_else(|| bad("a buffer outside its batch"))?;
        if !self.counts_match(buffers.len(), &variadic) {
            return Err(bad("a batch with other buffers than its table has"));
        }
        let compression = match batch.compression().map(|compression| compression.codec()) {
            None => Compression::None,
            Some(CompressionType::LZ4_FRAME) => Compression::Lz4,
            Some(CompressionType::ZSTD) => Compression::Zstd,
            Some(_) => return Err(bad("an unknown compression")),
        };
        let pairs = message.custom_metadata();
        let number = |key: &str| {
            let pair = pairs?.iter().find(|pair| pair.key() == Some(key))?;
            pair.value()?.parse().ok()
        };
        let (number, first_row) = (number(BATCH_KEY), number(FIRST_ROW_KEY));
        let metadata = Vec::new();
        Ok(BatchHead {
            offset,
            metadata,
            body_at,
            body_length,
            rows,
            buffers,
            compression,
            number,
            first_row,
        })
    }

    fn counts_match(&self, buffers: usize, variadic: &[i64]) -> bool {
        let fixed: usize = self.columns.iter().map(|column| buffers_of(column.kind)).sum();
        let views = self.columns.iter().filter(|column| column.kind == Kind::BinaryView).count();
        let total =
            variadic.iter().try_fold(fixed, |sum, count| sum.checked_add(usize::try_from(*count).ok()?));
        views == variadic.len() && total == Some(buffers)
    }

    /// Computes the checksum of a batch and compares it with what the batch says.
    ///
    /// # Errors
    /// When they differ, or the batch says none.
    pub fn verify_checksum(&self, head: &BatchHead) -> Result<(), RecordError> {
        let place = checksum_place(&head.metadata)
            .ok_or_else(|| self.damaged(head.offset, format!("a batch without `{CHECKSUM_KEY}`")))?;
        let mut metadata = head.metadata.clone();
        let digits = &mut metadata[place..place + CHECKSUM_BLANK.len()];
        let said = std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
        digits.copy_from_slice(CHECKSUM_BLANK.as_bytes());
        let mut checksum = Crc32c::new();
        checksum.add(&metadata);
        let mut chunk = vec![0; CHUNK_BYTES.min(head.body_length as usize)];
        let (mut offset, end) = (head.body_at, head.end());
        while offset < end {
            let length = (end - offset).min(CHUNK_BYTES as u64) as usize;
            self.read_into(offset, &mut chunk[..length])?;
            checksum.add(&chunk[..length]);
            offset += length as u64;
        }
        let checksum = checksum.value();
        if said != Some(checksum) {
            let said = said.map_or_else(|| "none".to_owned(), |said| format!("{said:08x}"));
            let found = format!("a batch whose checksum is {checksum:08x} where it says {said}");
            return Err(self.damaged(head.offset, found));
        }
        Ok(())
    }

    /// The bytes of one buffer, uncompressed; refused when there would be more than `most`.
    pub(crate) fn buffer(&self, head: &BatchHead, index: usize, most: u64) -> Result<Vec<u8>, RecordError> {
        let place = head.buffer_place(index);
        let (offset, length) =
            place.ok_or_else(|| self.damaged(head.offset, "a batch with too few buffers"))?;
        let bytes = self.read(offset, length as usize)?;
        match head.compression {
            Compression::None => Ok(bytes),
            compression => {
                decompress(&bytes, compression, most).map_err(|cause| self.damaged(offset, cause.to_string()))
            }
        }
    }

    /// Index of a column's first buffer.
    pub(crate) fn first_buffer(&self, column: usize) -> usize {
        self.columns[..column].iter().map(|column| buffers_of(column.kind)).sum()
    }

    /// The values of a column of numbers, little-endian, row by row.
    pub(crate) fn bytes_of(&self, head: &BatchHead, column: usize) -> Result<Vec<u8>, RecordError> {
        let kind = self.columns[column].kind;
        self.exactly(head, self.first_buffer(column) + 1, head.rows as u64 * kind.item_bytes() as u64)
    }

    /// A buffer's first `wanted` bytes; it must have as many.
    fn exactly(&self, head: &BatchHead, index: usize, wanted: u64) -> Result<Vec<u8>, RecordError> {
        // Some writers count the padding into the length.
        let mut bytes = self.buffer(head, index, wanted + crate::ipc::ALIGNMENT as u64)?;
        if (bytes.len() as u64) < wanted {
            return Err(self.damaged(head.offset, "a column with fewer values than rows"));
        }
        bytes.truncate(wanted as usize);
        Ok(bytes)
    }

    /// The values of a column of `N`-byte numbers.
    pub(crate) fn numbers<const N: usize>(
        &self,
        head: &BatchHead,
        column: usize,
    ) -> Result<Vec<[u8; N]>, RecordError> {
        debug_assert_eq!(self.columns[column].kind.item_bytes(), N);
        Ok(self.bytes_of(head, column)?.as_chunks::<N>().0.to_vec())
    }

    /// A column of words, by what their numbers in its dictionary mean.
    pub(crate) fn words<W>(
        &self,
        head: &BatchHead,
        column: usize,
        from_number: fn(u8) -> Option<W>,
    ) -> Result<Vec<W>, RecordError> {
        let count = dictionary_of(self.columns, column).and_then(|number| self.words.get(number));
        let count = count.copied().unwrap_or(0);
        let known = |number: &u8| from_number(*number).filter(|_| usize::from(*number) < count);
        let words: Option<Vec<W>> = self.bytes_of(head, column)?.iter().map(known).collect();
        words.ok_or_else(|| self.damaged(head.offset, "a word that the dictionary does not have"))
    }

    /// The bits of a column of bits.
    pub(crate) fn bits(&self, head: &BatchHead, column: usize) -> Result<Vec<u8>, RecordError> {
        self.exactly(head, self.first_buffer(column) + 1, (head.rows as u64).div_ceil(8))
    }

    /// A column of numbers that rows may leave out.
    pub(crate) fn optional_numbers<const N: usize>(
        &self,
        head: &BatchHead,
        column: usize,
    ) -> Result<Vec<Option<[u8; N]>>, RecordError> {
        let numbers = self.numbers::<N>(head, column)?;
        let first = self.first_buffer(column);
        // A column in which nothing is absent may say nothing of it.
        let present = match head.buffer_place(first) {
            Some((_, 0)) | None => vec![0xff; numbers.len().div_ceil(8)],
            Some(_) => self.exactly(head, first, (head.rows as u64).div_ceil(8))?,
        };
        let is_present = |row: usize| present[row / 8] >> (row % 8) & 1 == 1;
        Ok(numbers.into_iter().enumerate().map(|(row, value)| is_present(row).then_some(value)).collect())
    }

    /// A column of plain words.
    pub(crate) fn texts(&self, head: &BatchHead, column: usize) -> Result<Vec<String>, RecordError> {
        let first = self.first_buffer(column);
        let bad = || self.damaged(head.offset, "words that do not follow each other, or are not UTF-8");
        let offsets = self.exactly(head, first + 1, (head.rows as u64 + 1) * 4)?;
        let offsets = offsets.as_chunks::<4>().0.iter().map(|offset| i32::from_le_bytes(*offset));
        let offsets: Option<Vec<usize>> = offsets.map(|offset| usize::try_from(offset).ok()).collect();
        let offsets = offsets.ok_or_else(bad)?;
        let letters = self.exactly(head, first + 2, offsets.last().copied().unwrap_or(0) as u64)?;
        let words = offsets.windows(2).map(|place| letters.get(place[0]..place[1]));
        let words = words.map(|bytes| String::from_utf8(bytes?.to_vec()).ok());
        words.collect::<Option<Vec<String>>>().ok_or_else(bad)
    }

    /// A column of lists: where each row's items end (with the first row's start before), and the items' bytes.
    pub(crate) fn lists(&self, head: &BatchHead, column: usize) -> Result<(Vec<u64>, Vec<u8>), RecordError> {
        let first = self.first_buffer(column);
        let offsets = self.exactly(head, first + 1, (head.rows as u64 + 1) * 4)?;
        let offsets = offsets.as_chunks::<4>().0.iter().map(|offset| i32::from_le_bytes(*offset));
        let offsets: Option<Vec<u64>> = offsets.map(|offset| u64::try_from(offset).ok()).collect();
        let offsets = offsets.filter(|offsets| offsets.is_sorted());
        let offsets =
            offsets.ok_or_else(|| self.damaged(head.offset, "lists that do not follow each other"))?;
        let items = offsets.last().copied().unwrap_or(0);
        let item_bytes = self.columns[column].kind.item_bytes() as u64;
        let wanted = items * item_bytes;
        if wanted > MOST_BUFFER_BYTES {
            return Err(self.damaged(head.offset, "lists of an impossible length"));
        }
        Ok((offsets, self.exactly(head, first + 3, wanted)?))
    }
}

/// Buffers of a column, those of a view's bytes not counted.
fn buffers_of(kind: Kind) -> usize {
    match kind {
        Kind::Text => 3,
        kind if kind.is_list() => 4,
        _ => 2,
    }
}

/// Whether a field is this column; a column of words has the dictionary of this number.
fn field_matches(field: &arrow_ipc::Field<'_>, column: &Column, dictionary: Option<usize>) -> bool {
    let item = || field.children().filter(|children| children.len() == 1).map(|children| children.get(0));
    let integer = |field: &arrow_ipc::Field<'_>, bits, signed| {
        let number = field.type_as_int();
        number.is_some_and(|number| number.bitWidth() == bits && number.is_signed() == signed)
    };
    let list_of = |bits, signed| {
        field.type_type() == Type::List && item().is_some_and(|item| integer(&item, bits, signed))
    };
    let kind_matches = match column.kind {
        Kind::I64 => integer(field, 64, true),
        Kind::U64 => integer(field, 64, false),
        Kind::U32 => integer(field, 32, false),
        Kind::U16 => integer(field, 16, false),
        Kind::U8 => integer(field, 8, false),
        Kind::F64 => field
            .type_as_floating_point()
            .is_some_and(|number| number.precision() == arrow_ipc::Precision::DOUBLE),
        Kind::Bool => field.type_type() == Type::Bool,
        Kind::ListI16 => list_of(16, true),
        Kind::ListI32 => list_of(32, true),
        Kind::ListU8 => list_of(8, false),
        Kind::ListU16 => list_of(16, false),
        Kind::ListU64 => list_of(64, false),
        Kind::Closing | Kind::Selected => {
            let number = dictionary.map(|number| number as i64);
            let index = field.dictionary().filter(|dictionary| Some(dictionary.id()) == number);
            let index = index.and_then(|dictionary| dictionary.indexType());
            field.type_type() == Type::Utf8
                && index.is_some_and(|index| index.bitWidth() == 8 && !index.is_signed())
        }
        Kind::Text => field.type_type() == Type::Utf8 && field.dictionary().is_none(),
        Kind::BinaryView => field.type_type() == Type::BinaryView,
    };
    field.name() == Some(column.name) && field.nullable() == column.nullable && kind_matches
}
