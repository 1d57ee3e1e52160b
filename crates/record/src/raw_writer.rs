//! Received bytes, kept as they came, with their arrival marks: what a replay reads.
//!
//! ```text
//!  Frames ──► a row per slice (source, mark, kind, flags, tag, view)     ┐
//!    └ block: |slice|slice|gap|slice|  ──►  one extent per run of slices ┴──► raw.arrows
//! ```
//! Payload is written from the blocks where it was received. The column `payload` is a BinaryView whose buffers are
//! those extents: bytes between two slices (room rounded up for datagrams) may be among them, and no view names them.
//! Until a batch is written its blocks stay on loan: at most `batch_bytes` of payload or [`MOST_BLOCKS`] blocks, for at
//! most `batch_age_s`; with compression, so many times the row groups in flight.

use std::path::Path;

use serde::{Deserialize, Serialize};
use thalweg_data::{Counters, Frames, Leases, Mark, SinkError, Slice, SourceId, Unit};

use crate::amounts::Amounts;
use crate::error::RecordError;
use crate::ipc::columns::{Batch, Buffers, Columns, Shape};
use crate::ipc::file::{TableFile, TableSummary};
use crate::ipc::{INLINE_BYTES, MOST_GAP};
use crate::row_group::{RowGroup, RowGroupSink};
use crate::settings::Settings;
use crate::table::Table;

/// Most blocks that a batch in the making keeps on loan.
pub const MOST_BLOCKS: usize = 8;
/// Rows per batch that are never exceeded, whatever the settings: marks alone are rows, too.
const MOST_ROWS: usize = 128 * 1024;

/// Row kinds of the table `raw`.
pub(crate) mod kind {
    /// A mark without bytes.
    pub const MARK: u8 = 0;
    /// A chunk of a stream.
    pub const STREAM: u8 = 1;
    /// A datagram, or a slice of one.
    pub const DATAGRAM: u8 = 2;
}

/// Row flags of the table `raw`.
pub(crate) mod flag {
    /// The first row of a received batch.
    pub const FIRST: u8 = 1;
    /// Nothing followed from this source.
    pub const END: u8 = 2;
    /// The source's connection was opened again. A mark alone is where the one before has ended; bytes are the first of the new one.
    pub const ANEW: u8 = 4;
}

/// A source as its raw recording names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawSource {
    /// Its number.
    pub source: u16,
    /// Its name.
    pub name: String,
    /// Whether its bytes are a stream.
    pub stream: bool,
    /// Bytes per block of its pool: a replay with the same cuts units in the same places.
    pub block_bytes: u64,
}

/// Records received bytes.
pub struct RawWriter {
    sink: RowGroupSink<RawRowGroup>,
    streams: Vec<bool>,
    amounts: Amounts,
}

/// Rows of the table `raw`, and the right to read what they name.
struct RawRowGroup {
    rows: Columns,
    extents: Vec<Slice>,
    /// Per source: its newest extent, to be made longer.
    newest: Vec<Option<usize>>,
    leases: Leases,
    payload_bytes: usize,
    amounts: Amounts,
    most_bytes: usize,
}

impl RawWriter {
    /// Makes the file `path`, which must not exist, for these sources (by number, without gaps in what is written).
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub fn create(path: &Path, settings: &Settings, sources: &[RawSource]) -> Result<RawWriter, RecordError> {
        let described = serde_json::to_string(sources).unwrap_or_default();
        let file = TableFile::create(path, Table::Raw, &[("sources", &described)])?;
        let count = sources.iter().map(|source| usize::from(source.source) + 1).max().unwrap_or(0);
        let mut streams = vec![false; count];
        for source in sources {
            streams[usize::from(source.source)] = source.stream;
        }
        let sink = RowGroupSink::new(
            vec![file],
            &[Unit::Bytes, Unit::Datagrams],
            count,
            settings,
            RawRowGroup::new,
        )?;
        Ok(RawWriter { sink, streams, amounts: Amounts::default() })
    }

    /// Takes what one receive call gave; an empty batch is kept as a mark. Bytes that an earlier batch held are not
    /// kept again.
    ///
    /// # Errors
    /// When the disk is full or fails; a batch that is refused is counted as lost here.
    pub fn write(&mut self, frames: &Frames) -> Result<(), SinkError> {
        let header = frames.header;
        let stream = self.streams.get(header.source.index()).copied().unwrap_or(false);
        let bytes = frames.byte_count();
        let datagrams = match stream {
            true => u64::from(bytes > 0),
            false => frames.slices.iter().filter(|slice| !slice.continues()).count() as u64,
        };
        self.amounts.clear();
        self.amounts.add(header.source, [bytes, datagrams]);
        let amounts = &self.amounts;
        self.sink.take(header.mark, amounts, |rows| {
            rows.append(frames, stream);
            rows.amounts.add_all(amounts);
        })
    }

    /// Lets time pass: what has waited long enough is written.
    ///
    /// # Errors
    /// As for `write`.
    pub fn advance(&mut self, mark: Mark) -> Result<(), SinkError> {
        self.sink.advance(mark)
    }

    /// Writes everything that there is. What a full disk refuses stays here, for another try.
    ///
    /// # Errors
    /// As for `write`.
    pub fn complete(&mut self) -> Result<(), SinkError> {
        self.sink.complete()
    }

    /// Writes everything and closes.
    ///
    /// # Errors
    /// As for `write`.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }

    /// Bytes and datagrams in, out, held, lost, of one source: the stage [`Raw`](thalweg_data::Stage::Raw).
    pub fn counters(&self, source: SourceId) -> &Counters {
        self.sink.counters(source)
    }

    /// Returns a summary of what the file holds.
    pub fn summaries(&self) -> Vec<TableSummary> {
        self.sink.summaries()
    }
}

impl RawRowGroup {
    fn new(settings: &Settings) -> RawRowGroup {
        RawRowGroup {
            rows: Columns::new(Table::Raw),
            extents: Vec::new(),
            newest: Vec::new(),
            leases: Leases::default(),
            payload_bytes: 0,
            amounts: Amounts::default(),
            most_bytes: settings.batch_bytes.max(1),
        }
    }

    fn append(&mut self, frames: &Frames, stream: bool) {
        let header = &frames.header;
        let end = if header.end { flag::END } else { 0 };
        let kind = if stream { kind::STREAM } else { kind::DATAGRAM };
        let mut flags = flag::FIRST | if frames.begins_anew { flag::ANEW } else { 0 };
        let mut carried = frames.carried as usize;
        let last = frames.slices.len().saturating_sub(1);
        for (index, slice) in frames.slices.iter().enumerate() {
            let skip = std::mem::take(&mut carried).min(slice.length as usize);
            let Some(fresh) = slice.part(skip, slice.length as usize - skip) else { continue };
            let end = if index == last { end } else { 0 };
            self.push_row(header.source, header.mark, kind, flags | end, fresh.tag);
            self.push_view(header.source, fresh, frames);
            flags = 0;
        }
        if frames.slices.is_empty() {
            self.push_row(header.source, header.mark, kind::MARK, flags | end, 0);
            self.rows.push(5, [0; 16]);
            self.rows.end_row();
        }
    }

    fn push_row(&mut self, source: SourceId, mark: Mark, kind: u8, flags: u8, tag: u32) {
        self.rows.push(0, source.0.to_le_bytes());
        self.rows.push(1, mark.0.to_le_bytes());
        self.rows.push(2, [kind]);
        self.rows.push(3, [flags]);
        self.rows.push(4, tag.to_le_bytes());
    }

    /// A view: length, then the bytes themselves when they are few, else their first four, buffer and offset.
    fn push_view(&mut self, source: SourceId, slice: Slice, frames: &Frames) {
        let bytes = frames.bytes(slice);
        let mut view = [0; 16];
        view[..4].copy_from_slice(&slice.length.to_le_bytes());
        if bytes.len() <= INLINE_BYTES {
            view[4..4 + bytes.len()].copy_from_slice(bytes);
        } else {
            let extent = self.extent_for(source, slice, frames);
            view[4..8].copy_from_slice(&bytes[..4]);
            view[8..12].copy_from_slice(&(extent as u32).to_le_bytes());
            view[12..].copy_from_slice(&(slice.offset - self.extents[extent].offset).to_le_bytes());
        }
        self.payload_bytes += bytes.len();
        self.rows.push(5, view);
        self.rows.end_row();
    }

    /// The extent that holds `slice`: the source's newest, made longer, or a new one.
    fn extent_for(&mut self, source: SourceId, slice: Slice, frames: &Frames) -> usize {
        if self.newest.len() <= source.index() {
            self.newest.resize(source.index() + 1, None);
        }
        if let Some(index) = self.newest[source.index()] {
            let newest = &mut self.extents[index];
            let gap = (slice.offset as usize).checked_sub(newest.end());
            if newest.block == slice.block && gap.is_some_and(|gap| gap <= MOST_GAP) {
                newest.length = slice.offset + slice.length - newest.offset;
                return index;
            }
        }
        self.leases.add_for(slice, &frames.leases);
        self.extents.push(slice.tagged(0));
        self.newest[source.index()] = Some(self.extents.len() - 1);
        self.extents.len() - 1
    }
}

impl Batch for RawRowGroup {
    fn shape(&self) -> Shape {
        Shape { variadic: vec![self.extents.len() as i64], ..self.rows.shape() }
    }

    fn buffers<'a>(&'a self, into: &mut Buffers<'a>) {
        self.rows.buffers(into);
        into.extend(self.extents.iter().map(|extent| self.leases.bytes(*extent)));
    }
}

impl RowGroup for RawRowGroup {
    fn batch(&self, table: Table) -> Option<&dyn Batch> {
        (table == Table::Raw && self.rows.rows() > 0).then_some(self as &dyn Batch)
    }

    fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    fn is_full(&self) -> bool {
        self.payload_bytes >= self.most_bytes
            || self.leases.len() >= MOST_BLOCKS
            || self.rows.rows() >= MOST_ROWS
    }

    fn is_empty(&self) -> bool {
        self.rows.rows() == 0
    }

    fn seal(&mut self) {}

    fn release(&mut self) {
        self.leases.clear();
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.extents.clear();
        self.newest.clear();
        self.leases.clear();
        self.payload_bytes = 0;
        self.amounts.clear();
    }
}
