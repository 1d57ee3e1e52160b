//! Replays one recorded source with its slices, arrival times and end.
//!
//! ```text
//!  raw.arrows ── rows of one source ──► blocks of a pool ──► Frames (a Source)
//! ```
//! A row of a stream is one receive call and is published behind what the framing left over; rows of datagrams up to the
//! next that begins a batch are one batch. Marks are the recorded ones, so every stage downstream decides as it did.
//! Where rows are missing in a recovered file, the next batch says so: the bytes on both sides do not follow each other.
//! Where a connection was opened again, the framing begins anew as it did in the run, and the outage of a board is counted again.
//! What the recorded run could not write, because its disk was full or it was killed, is counted as lost from the start: its place is not
//! known.
//! A file that is damaged and was not recovered ends its sources there, and what they would have given is counted as lost.
//! The replay runs as fast as it is asked, or keeps to a [`Pace`]; what it gives is the same. When no block is free it waits, like the policy
//! `hold`, and what it has of a batch waits with it: stages downstream decide by batches, and would decide otherwise by parts of one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::{
    BlockWriter, Counters, Frames, LossReason, Mark, Pool, Received, Source, SourceError, SourceId, Unit,
};

use super::pace::Pace;
use super::raw::{LoadedBatch, RawContent, RawRow, raw_sources};
use super::table_reader::TableReader;
use crate::error::RecordError;
use crate::raw_writer::{flag, kind};

/// How long a replay waits for a block before it says that there is none.
const BLOCK_WAIT: Duration = Duration::from_micros(50);

/// One recorded source as a [`Source`].
pub struct RawReplay {
    path: PathBuf,
    content: RawContent,
    reader: Option<(PathBuf, TableReader)>,
    next_place: usize,
    batch: Option<LoadedBatch>,
    next_row: usize,
    /// Bytes of the next row that were given already: it did not fit one block.
    given: usize,
    /// Of the recording's gaps, how many were met.
    gaps_met: usize,
    /// A gap lies before what comes next.
    interrupted: bool,
    /// What comes next is of a new connection.
    begins_anew: bool,
    /// Bytes that the recording has and that will not be given: it is damaged before them.
    unread_bytes: u64,
    blocks: Blocks,
    /// What is read of a batch of datagrams whose rest waits for a block.
    begun: Frames,
    mark: Mark,
    pace: Option<Pace>,
    counters: Counters,
}

/// Where the bytes go.
enum Blocks {
    Stream(StreamBuffer),
    Datagrams { pool: Pool, writer: Option<BlockWriter> },
}

impl RawReplay {
    /// Opens the recording of `source` in `path`, a run's directory or one file. Its bytes go into `pool`, whose blocks
    /// should be as large as they were ([`RawSource::block_bytes`](crate::RawSource::block_bytes)).
    ///
    /// # Errors
    /// When the recording has no such source, is damaged, or holds a datagram larger than a block.
    pub fn open(path: &Path, source: SourceId, pool: Pool) -> Result<RawReplay, RecordError> {
        let content = raw_sources(path)?.into_iter().find(|content| content.source.source == source.0);
        let content = content.ok_or_else(|| RecordError::Missing {
            path: path.to_owned(),
            found: format!("nothing was recorded of {source}"),
        })?;
        RawReplay::of(path, content, pool)
    }

    /// As `open`, for a source that [`raw_sources`] has listed.
    ///
    /// # Errors
    /// When the recording holds a datagram larger than a block.
    pub fn of(path: &Path, content: RawContent, pool: Pool) -> Result<RawReplay, RecordError> {
        let blocks = match content.source.stream {
            true => Blocks::Stream(StreamBuffer::new(pool, 1)),
            false if content.largest_bytes > pool.block_size() as u64 => {
                let found = format!(
                    "a datagram of {} bytes does not fit a block of {}; raise `block_bytes` of the source",
                    content.largest_bytes,
                    pool.block_size()
                );
                return Err(RecordError::Missing { path: path.to_owned(), found });
            }
            false => Blocks::Datagrams { pool, writer: None },
        };
        let mut counters = Counters::default();
        lose(&mut counters, LossReason::RecordingDamaged, Unit::Bytes, content.not_written_bytes);
        Ok(RawReplay {
            path: path.to_owned(),
            content,
            reader: None,
            next_place: 0,
            batch: None,
            next_row: 0,
            given: 0,
            gaps_met: 0,
            interrupted: false,
            begins_anew: false,
            unread_bytes: 0,
            blocks,
            begun: Frames::default(),
            mark: Mark::default(),
            pace: None,
            counters,
        })
    }

    /// The same, which gives nothing before it is due.
    pub fn paced(self, pace: Option<Pace>) -> RawReplay {
        RawReplay { pace, ..self }
    }

    /// What the recording holds of this source.
    pub fn content(&self) -> &RawContent {
        &self.content
    }

    /// Makes sure that the next row of this source is at `next_row` of `batch`; `false` when there is none.
    fn find_row(&mut self) -> Result<bool, RecordError> {
        loop {
            if let Some(batch) = &self.batch {
                let rest = batch.rows().get(self.next_row..).unwrap_or(&[]);
                if let Some(skip) = rest.iter().position(|row| row.source == self.content.source.source) {
                    self.next_row += skip;
                    return Ok(true);
                }
            }
            if !self.load_batch()? {
                return Ok(false);
            }
        }
    }

    fn load_batch(&mut self) -> Result<bool, RecordError> {
        self.batch = None;
        self.next_row = 0;
        let place = self.content.places.get(self.next_place).cloned();
        self.meet_gaps(place.as_ref());
        let Some((path, offset)) = &place else { return Ok(false) };
        self.next_place += 1;
        if self.reader.as_ref().is_none_or(|(open, _)| open != path) {
            self.reader = Some((path.clone(), TableReader::open(path)?));
        }
        if let Some((_, reader)) = &self.reader
            && let Some(head) = reader.batch_at(*offset)?
        {
            reader.verify_checksum(&head)?;
            self.batch = Some(LoadedBatch::load(reader, head)?);
        }
        Ok(true)
    }

    /// Counts the gaps before a batch; those that are left where there is none.
    fn meet_gaps(&mut self, place: Option<&(PathBuf, u64)>) {
        while let Some(gap) = self.content.gaps.get(self.gaps_met)
            && place.is_none_or(|(path, offset)| gap.path == *path && gap.before <= *offset)
        {
            self.gaps_met += 1;
            self.interrupted = true;
            lose(&mut self.counters, LossReason::RecordingDamaged, Unit::Bytes, gap.bytes);
            if let Blocks::Stream(buffer) = &mut self.blocks {
                // What was kept back has lost its rest. The framing, which has seen it, counts it.
                buffer.carry(0);
            }
        }
    }

    fn row(&self) -> Option<RawRow> {
        self.batch.as_ref()?.rows().get(self.next_row).copied()
    }

    fn give(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, RecordError> {
        frames.header.source = SourceId(self.content.source.source);
        frames.header.mark = self.mark;
        if !self.find_row()? {
            frames.header.end = true;
            frames.interrupted = self.interrupted;
            return Ok(Received::End);
        }
        let Some(row) = self.row() else { return Ok(Received::End) };
        let early = self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.until(Mark(row.mark_ns)));
        if !early.is_zero() {
            std::thread::sleep(wait.min(early));
            return Ok(Received::Idle);
        }
        let received = match row.kind {
            kind::MARK => {
                self.next_row += 1;
                frames.header.end = row.flags & flag::END != 0;
                frames.begins_anew = row.flags & flag::ANEW != 0;
                Received::Idle
            }
            _ if row.flags & flag::ANEW != 0 && !self.begins_anew && self.given == 0 => {
                self.begin_anew();
                return self.give(frames, wait);
            }
            _ if matches!(self.blocks, Blocks::Stream(_)) => self.give_chunk(row, frames)?,
            _ => self.give_datagrams(row, frames)?,
        };
        if received != Received::Full {
            self.mark = Mark(row.mark_ns);
        }
        if received == Received::Data {
            frames.interrupted = std::mem::take(&mut self.interrupted);
            frames.begins_anew = std::mem::take(&mut self.begins_anew);
        }
        frames.header.mark = self.mark;
        Ok(received)
    }

    /// A new connection of a board that was gone begins with the next row: the old one was lost with what was carried of it.
    #[cold]
    fn begin_anew(&mut self) {
        self.begins_anew = true;
        let unit = match &mut self.blocks {
            Blocks::Stream(buffer) => {
                buffer.carry(0);
                Unit::Bytes
            }
            Blocks::Datagrams { .. } => Unit::Datagrams,
        };
        lose(&mut self.counters, LossReason::BoardGone, unit, 1);
    }

    fn give_chunk(&mut self, row: RawRow, frames: &mut Frames) -> Result<Received, RecordError> {
        let Blocks::Stream(buffer) = &mut self.blocks else { return Ok(Received::Full) };
        let (Some(batch), Some((_, reader))) = (&self.batch, &self.reader) else { return Ok(Received::Full) };
        // Room for the row is made before it is read, so that it is given as a whole.
        buffer.expect_bytes(row.length() - self.given);
        let tail = match buffer.room() {
            Room::Tail(tail) => tail,
            Room::NoBlock => return Ok(Received::Full),
            Room::UnitTooLarge => {
                // The live source gave these bytes up at the same place; the framing, which has seen them, counts them.
                buffer.carry(0);
                return Ok(Received::Full);
            }
        };
        let length = (row.length() - self.given).min(tail.len());
        batch.payload(reader, &row, self.given, &mut tail[..length])?;
        buffer.publish(length, frames);
        if let Some(slice) = frames.slices.last_mut() {
            slice.tag = row.tag;
        }
        self.given += length;
        if self.given == row.length() {
            self.given = 0;
            self.next_row += 1;
            frames.header.end = row.flags & flag::END != 0;
        }
        self.count(length as u64, 1);
        Ok(Received::Data)
    }

    fn give_datagrams(&mut self, first: RawRow, frames: &mut Frames) -> Result<Received, RecordError> {
        frames.slices.append(&mut self.begun.slices);
        std::mem::swap(&mut frames.leases, &mut self.begun.leases);
        let mut next = Some(first);
        while let (Some(row), Some(batch), Some((_, reader))) = (next, &self.batch, &self.reader) {
            let Some(writer) = self.blocks.writer_for(row.length()) else {
                if self.blocks.is_taken_by_others(frames.leases.len()) {
                    self.begun.slices.append(&mut frames.slices);
                    std::mem::swap(&mut frames.leases, &mut self.begun.leases);
                    frames.header.end = false;
                }
                break;
            };
            batch.payload(reader, &row, 0, &mut writer.tail()[..row.length()])?;
            let slice = writer.publish(row.length()).tagged(row.tag);
            frames.leases.add(writer.lease());
            frames.slices.push(slice);
            frames.header.end = row.flags & flag::END != 0;
            self.next_row += 1;
            next = self.next_of_same_batch();
        }
        if frames.slices.is_empty() {
            return Ok(Received::Full);
        }
        let datagrams = frames.slices.iter().filter(|slice| !slice.continues()).count();
        self.count(frames.byte_count(), datagrams as u64);
        Ok(Received::Data)
    }

    /// The source's next row, when it was received together with the one before it; it becomes the next to be given.
    fn next_of_same_batch(&mut self) -> Option<RawRow> {
        let rest = self.batch.as_ref()?.rows().get(self.next_row..)?;
        let skip = rest.iter().position(|row| row.source == self.content.source.source)?;
        let row = rest[skip];
        if row.flags & flag::FIRST != 0 {
            return None;
        }
        self.next_row += skip;
        Some(row)
    }

    /// Counts what was not given of a recording that cannot be read on: its rows say how many bytes that is.
    fn lose_the_rest(&mut self) {
        let given = self.counters.total_output(Unit::Bytes);
        let rest = self.content.bytes.saturating_sub(given + self.unread_bytes);
        self.unread_bytes += rest;
        self.interrupted = true;
        lose(&mut self.counters, LossReason::RecordingDamaged, Unit::Bytes, rest);
    }

    fn count(&mut self, bytes: u64, datagrams: u64) {
        for (unit, count) in [(Unit::Bytes, bytes), (Unit::Datagrams, datagrams)] {
            self.counters.input(unit, count);
            self.counters.output(unit, count);
        }
    }
}

/// Counts what the recording does not have.
fn lose(counters: &mut Counters, reason: LossReason, unit: Unit, count: u64) {
    counters.input(unit, count);
    counters.lost(reason, unit, count);
}

impl Blocks {
    /// Whether most blocks are elsewhere, so that waiting gives some, where `own` of them hold the beginning of a batch. Where the pool is
    /// as small as a batch, its parts have to go on alone.
    fn is_taken_by_others(&self, own: usize) -> bool {
        matches!(self, Blocks::Datagrams { pool, .. } if 2 * own < pool.block_count())
    }

    /// A block with space for `length` bytes.
    fn writer_for(&mut self, length: usize) -> Option<&mut BlockWriter> {
        let Blocks::Datagrams { pool, writer } = self else { return None };
        if writer.as_ref().is_none_or(|writer| writer.remaining() < length) {
            // The old block goes back first: it may be the only one.
            *writer = None;
            *writer = pool.take();
        }
        writer.as_mut().filter(|writer| writer.remaining() >= length)
    }
}

impl Source for RawReplay {
    fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError> {
        let received = self.give(frames, wait).map_err(|error| {
            self.lose_the_rest();
            SourceError { place: self.path.display().to_string(), message: error.with_advice() }
        })?;
        if received == Received::Full {
            std::thread::sleep(wait.min(BLOCK_WAIT));
        }
        Ok(received)
    }

    fn carry(&mut self, bytes: usize) {
        if let Blocks::Stream(buffer) = &mut self.blocks {
            buffer.carry(bytes);
        }
    }

    fn give_carried(&mut self, frames: &mut Frames) {
        if let Blocks::Stream(buffer) = &mut self.blocks {
            buffer.give_carried(frames);
        }
        frames.interrupted |= self.interrupted || self.content.not_written_bytes > 0;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        vec![("recording_unread_bytes", self.unread_bytes)]
    }

    fn description(&self) -> String {
        let RawContent { source, rows, bytes, .. } = &self.content;
        let what = if source.stream { "stream" } else { "datagrams" };
        let gaps = match self.content.gap_count() {
            0 => String::new(),
            gaps => format!(", {gaps} gap(s) where it was damaged"),
        };
        format!(
            "recording of `{}` ({what}) in {}: {rows} rows, {bytes} bytes{gaps}",
            source.name,
            self.path.display()
        )
    }

    fn is_stream(&self) -> bool {
        self.content.source.stream
    }
}
