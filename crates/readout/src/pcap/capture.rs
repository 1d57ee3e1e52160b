//! Reads a capture file of any size in constant memory, straight into blocks on loan.
//!
//! ```text
//!  file ─read─► block: |.. passed on ..|== record ==|= record's head |  tail |
//!                                           │              └─ moved when the block ends
//!                                           └─► Record, bytes in place
//! ```
//! The bytes that the path will see are those that the read call wrote: nothing is copied but the head of a record
//! that straddles the end of a block.

use std::io::{ErrorKind, Read};

use thalweg_data::pool::BlockWriter;
use thalweg_data::{Pool, Slice, SourceError};

use super::classic::{self, Classic};
use super::pcapng::Pcapng;
use super::record::{Parsed, Record};

/// Room for any file header and the headers of any packet.
const SMALLEST_BLOCK: usize = 512;
/// One block is read into, one takes over what straddles its end, one is for reassembled packets.
const FEWEST_BLOCKS: usize = 3;

/// A capture file, read record by record.
pub(super) struct Capture {
    place: String,
    input: Box<dyn Read + Send>,
    pool: Pool,
    writer: Option<BlockWriter>,
    /// Bytes read into the writer's tail and not yet consumed.
    filled: usize,
    /// Bytes of an entry that is longer than a block, still to be read over.
    to_skip: u64,
    at_end: bool,
    /// Where in the file the next entry starts.
    offset: u64,
    format: Format,
    damage: Option<String>,
    moved_bytes: u64,
}

/// Both formats.
enum Format {
    Classic(Classic),
    Pcapng(Pcapng),
}

/// What comes next in the file.
pub(super) enum Next {
    /// A packet, at the start of what [`Capture::packet`] shows.
    Record(Record),
    /// No block is free to read into.
    NoBlock,
    /// Nothing comes any more.
    End,
}

impl Capture {
    /// Opens a capture. `place` is its name in messages.
    ///
    /// # Errors
    /// When it is no capture, or of a link layer that cannot be read, or the pool is too small.
    pub fn open(place: String, input: Box<dyn Read + Send>, pool: Pool) -> Result<Capture, SourceError> {
        let refuse = |message| SourceError { place: place.clone(), message };
        if pool.block_count() < FEWEST_BLOCKS || pool.block_size() < SMALLEST_BLOCK {
            return Err(refuse(format!(
                "a capture needs {FEWEST_BLOCKS} blocks of {SMALLEST_BLOCK} bytes at least; raise `memory` of the source"
            )));
        }
        let mut input = input;
        let mut head = [0; classic::FILE_HEADER_BYTES];
        let length = read_up_to(input.as_mut(), &mut head)
            .map_err(|cause| refuse(format!("cannot be read: {cause}; check the disk")))?;
        let head = &head[..length];
        let (format, unread) = match (Classic::open(head), Pcapng::open(head)) {
            (Some(classic), _) => (Format::Classic(classic.map_err(refuse)?), &head[..0]),
            (_, Some(pcapng)) => (Format::Pcapng(pcapng), head),
            _ => return Err(refuse(foreign(head))),
        };
        let offset = (length - unread.len()) as u64;
        let input: Box<dyn Read + Send> = match unread {
            [] => input,
            // These bytes belong to the first block.
            unread => Box::new(std::io::Cursor::new(unread.to_vec()).chain(input)),
        };
        Ok(Capture {
            place,
            input,
            pool,
            writer: None,
            filled: 0,
            to_skip: 0,
            at_end: false,
            offset,
            format,
            damage: None,
            moved_bytes: 0,
        })
    }

    /// Finds the next packet; as long as it is not consumed, the same one.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next(&mut self) -> Result<Next, SourceError> {
        if self.damage.is_some() {
            return Ok(Next::End);
        }
        loop {
            if self.to_skip > 0 {
                if !self.skip()? {
                    return Ok(Next::NoBlock);
                }
                if self.damage.is_some() {
                    return Ok(Next::End);
                }
            }
            // With a whole block filled no more bytes of this entry can be had at once.
            let all = self.at_end || self.filled >= self.pool.block_size();
            match self.parse(all) {
                Parsed::Record(record) => {
                    let larger_than_block = record.total > self.filled as u64 && !self.at_end;
                    return Ok(Next::Record(Record { larger_than_block, ..record }));
                }
                Parsed::Skip(total) => {
                    self.consume(total);
                }
                Parsed::Need(bytes) => {
                    if !self.fill(bytes.min(self.pool.block_size()))? {
                        return Ok(Next::NoBlock);
                    }
                }
                Parsed::End => return Ok(Next::End),
                Parsed::Damaged(what) => {
                    self.note_damage(&what);
                    return Ok(Next::End);
                }
            }
        }
    }

    fn parse(&mut self, all: bool) -> Parsed {
        let bytes = match &mut self.writer {
            Some(writer) => &writer.tail()[..self.filled],
            None => &[],
        };
        match &mut self.format {
            Format::Classic(classic) => classic.parse(bytes, all),
            Format::Pcapng(pcapng) => pcapng.parse(bytes, all),
        }
    }

    fn note_damage(&mut self, what: &str) {
        self.damage = Some(format!("{what}, at byte {}; nothing behind it was read", self.offset));
    }

    /// The captured bytes of the packet just found.
    pub fn packet(&mut self, record: &Record) -> &[u8] {
        match &mut self.writer {
            Some(writer) => &writer.tail()[record.head..record.head + record.captured],
            None => &[],
        }
    }

    /// Goes on behind the packet just found; where its captured bytes lie.
    pub fn consume_packet(&mut self, record: &Record) -> Slice {
        let entry = self.consume(record.total).expect("a packet was found in a block");
        entry.part(record.head, record.captured).expect("what was captured lies inside its entry")
    }

    /// The right to read the packet just consumed.
    pub fn lease(&self) -> &thalweg_data::Lease {
        self.writer.as_ref().expect("a packet was consumed from a block").lease()
    }

    fn consume(&mut self, total: u64) -> Option<Slice> {
        let here = total.min(self.filled as u64) as usize;
        self.filled -= here;
        self.to_skip = total - here as u64;
        self.offset += here as u64;
        Some(self.writer.as_mut()?.publish(here))
    }

    /// Reads over the rest of an entry; false when no block is free to read into.
    fn skip(&mut self) -> Result<bool, SourceError> {
        while self.to_skip > 0 {
            if !self.make_room(1) {
                return Ok(false);
            }
            let Some(writer) = &mut self.writer else { return Ok(false) };
            let tail = writer.tail();
            let most = self.to_skip.min(tail.len() as u64) as usize;
            // What is skipped is not published: the next bytes are written over it.
            let count =
                read_some(self.input.as_mut(), &mut tail[..most]).map_err(|cause| self.failed(&cause))?;
            if count == 0 {
                self.at_end = true;
                self.to_skip = 0;
                self.note_damage("the file ends within a packet or block");
            }
            self.to_skip = self.to_skip.saturating_sub(count as u64);
            self.offset += count as u64;
        }
        Ok(true)
    }

    /// Reads until `bytes` are there or the file ends; false when no block is free.
    fn fill(&mut self, bytes: usize) -> Result<bool, SourceError> {
        while self.filled < bytes && !self.at_end {
            if !self.make_room(bytes) {
                return Ok(false);
            }
            let Some(writer) = &mut self.writer else { return Ok(false) };
            let count = read_some(self.input.as_mut(), &mut writer.tail()[self.filled..])
                .map_err(|cause| self.failed(&cause))?;
            self.filled += count;
            self.at_end = count == 0;
        }
        Ok(true)
    }

    /// Makes the tail at least `bytes` long, in a new block if need be; false when none is free.
    fn make_room(&mut self, bytes: usize) -> bool {
        if self.writer.as_ref().is_some_and(|writer| writer.remaining() >= bytes) {
            return true;
        }
        if self.filled == 0 {
            // With its readers gone, it is this block that is taken again.
            self.writer = None;
        }
        let Some(mut next) = self.pool.take() else { return false };
        if let Some(old) = &mut self.writer {
            next.tail()[..self.filled].copy_from_slice(&old.tail()[..self.filled]);
            self.moved_bytes += self.filled as u64;
        }
        self.writer = Some(next);
        true
    }

    fn failed(&self, cause: &std::io::Error) -> SourceError {
        let message = format!("cannot be read beyond byte {}: {cause}; check the disk", self.offset);
        SourceError { place: self.place.clone(), message }
    }

    /// A block for what cannot lie in the blocks that are read into.
    pub fn take_block(&self) -> Option<BlockWriter> {
        self.pool.take()
    }

    /// Bytes that one block holds.
    pub fn block_size(&self) -> usize {
        self.pool.block_size()
    }

    /// The file's name in messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is wrong with the file, if anything.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The format's name.
    pub fn format(&self) -> &'static str {
        match self.format {
            Format::Classic(_) => "pcap",
            Format::Pcapng(_) => "pcapng",
        }
    }

    /// Packets that the capturing host says it dropped, where the format can say so.
    pub fn dropped(&self) -> u64 {
        match &self.format {
            Format::Classic(_) => 0,
            Format::Pcapng(pcapng) => pcapng.dropped(),
        }
    }

    /// Where in the file the next entry starts.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that were copied because their packet straddled the end of a block.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }
}

/// What to say of a file that is no capture.
fn foreign(head: &[u8]) -> String {
    let what = match head {
        [] => "is empty",
        [0x1F, 0x8B, ..] => "is compressed with gzip; unpack it first",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "is compressed with zstd; unpack it first",
        _ => "is no capture; pcap and pcapng files can be read",
    };
    format!("{what} (it begins with {:02x?})", &head[..head.len().min(4)])
}

fn read_some(input: &mut dyn Read, to: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match input.read(to) {
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn read_up_to(input: &mut dyn Read, to: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < to.len() {
        match read_some(input, &mut to[length..])? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}
