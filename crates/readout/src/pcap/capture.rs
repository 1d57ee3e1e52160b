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
use super::damage::Damage;
use super::pcapng::Pcapng;
use super::record::{Found, Parsed, Record};

/// Room for any file header and the headers of any packet.
const SMALLEST_BLOCK: usize = 512;
/// So many bytes of an entry say when its packet was captured.
const HEAD_BYTES: usize = 32;
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
    /// An entry that is longer than what was read of it, and is read over.
    skipped: Option<Skipped>,
    /// Behind a damage: where that is, and what was seen there.
    searching: Option<(u64, String)>,
    /// Length of a regular file.
    file_bytes: Option<u64>,
    at_end: bool,
    /// Where in the file the next entry starts.
    offset: u64,
    format: Format,
    damage: Damage,
    moved_bytes: u64,
}

/// An entry whose rest is read over.
struct Skipped {
    /// Where it began, and how long it is.
    from: u64,
    total: u64,
    /// Bytes still to be read over.
    left: u64,
    /// Of its bytes so many were put to use; none of an entry without a packet.
    used: u64,
    /// The last bytes of it that were seen.
    last: [u8; 4],
}

/// Both formats.
#[derive(Clone)]
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
    /// A block's worth was searched behind a damage, and nothing found: the search goes on with the next call.
    Nothing,
    /// Nothing comes any more.
    End,
}

/// The packet behind the one just found.
pub(super) enum Behind {
    /// When it was captured; unknown if that is not said, or not within a block of the packet just found.
    Time(Option<u64>),
    /// No block is free to read it into.
    NoBlock,
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
            skipped: None,
            searching: None,
            file_bytes: None,
            at_end: false,
            offset,
            format,
            damage: Damage::default(),
            moved_bytes: 0,
        })
    }

    /// Finds the next packet; as long as it is not consumed, the same one.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next(&mut self) -> Result<Next, SourceError> {
        loop {
            if self.skipped.is_some() && !self.skip()? {
                return Ok(Next::NoBlock);
            }
            if self.searching.is_some() {
                match self.search()? {
                    Searched::Found => {}
                    Searched::NoBlock => return Ok(Next::NoBlock),
                    Searched::Nothing => return Ok(Next::Nothing),
                }
            }
            // With a whole block filled no more bytes of this entry can be had at once.
            let all = self.at_end || self.filled >= self.pool.block_size();
            match self.parse(all) {
                Parsed::Record(record) => {
                    let larger_than_block = record.total > self.filled as u64 && !self.at_end;
                    return Ok(Next::Record(Record { larger_than_block, ..record }));
                }
                Parsed::Skip(total) if self.file_bytes.is_some_and(|bytes| self.offset + total > bytes) => {
                    self.begin_search(format!("a block of {total} bytes goes beyond the end of the file"));
                }
                Parsed::Skip(total) => {
                    self.consume(total, 0);
                }
                Parsed::Need(bytes) => {
                    if !self.fill(bytes.min(self.pool.block_size()))? {
                        return Ok(Next::NoBlock);
                    }
                }
                Parsed::End => return Ok(Next::End),
                Parsed::Damaged(what) => self.begin_search(what),
            }
        }
    }

    /// When the packet behind the one just found was captured. Of a pipe, only what was read is looked at: the next packet may be long in
    /// coming.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn time_behind(&mut self, record: &Record) -> Result<Behind, SourceError> {
        // What comes between them must not be put to use here.
        let (mut format, mut at) = (self.format.clone(), record.total);
        loop {
            let start = usize::try_from(at).unwrap_or(usize::MAX);
            let end = start.saturating_add(HEAD_BYTES);
            if end > self.pool.block_size() {
                return Ok(Behind::Time(None));
            }
            if self.file_bytes.is_some() && !self.fill(end)? {
                return Ok(Behind::NoBlock);
            }
            let filled = self.filled;
            let bytes = self.writer.as_mut().and_then(|writer| writer.tail()[..filled].get(start..));
            match bytes.map(|bytes| format.parse(bytes, true)) {
                Some(Parsed::Record(next)) => return Ok(Behind::Time(next.time_ns)),
                Some(Parsed::Skip(total)) => at = at.saturating_add(total),
                _ => return Ok(Behind::Time(None)),
            }
        }
    }

    /// Notes that something of the entry just found cannot be used.
    pub fn note(&mut self, what: &str) {
        self.damage.note(what, self.offset, self.offset);
    }

    /// No entry stands here: another one is looked for from the next byte on.
    fn begin_search(&mut self, what: String) {
        self.searching = Some((self.offset, what));
        self.consume(self.filled.min(1) as u64, 0);
    }

    /// Looks through a block's worth of bytes for entries that follow each other, or to the end of the file.
    fn search(&mut self) -> Result<Searched, SourceError> {
        let block_bytes = self.pool.block_size();
        if self.filled < block_bytes && !self.fill(block_bytes)? {
            return Ok(Searched::NoBlock);
        }
        let (at_end, is_full) = (self.at_end, self.filled >= block_bytes);
        let bytes = match &mut self.writer {
            Some(writer) => &writer.tail()[..self.filled],
            None => &[],
        };
        let found = match &self.format {
            Format::Classic(classic) => classic.find(bytes, at_end, is_full),
            Format::Pcapng(pcapng) => pcapng.find(bytes, at_end, is_full),
        };
        let (bytes, is_over) = match found {
            Found::Entry(bytes) => (bytes, true),
            Found::Open(_) if at_end => (self.filled, true),
            Found::Open(bytes) => (bytes, false),
        };
        self.consume(bytes as u64, 0);
        if let (true, Some((from, what))) = (is_over, self.searching.take_if(|_| is_over)) {
            self.damage.note(&what, from, self.offset);
        }
        Ok(if is_over { Searched::Found } else { Searched::Nothing })
    }

    fn parse(&mut self, all: bool) -> Parsed {
        let bytes = match &mut self.writer {
            Some(writer) => &writer.tail()[..self.filled],
            None => &[],
        };
        self.format.parse(bytes, all)
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
        let used = (record.head + record.captured) as u64;
        let entry = self.consume(record.total, used).expect("a packet was found in a block");
        entry.part(record.head, record.captured).expect("what was captured lies inside its entry")
    }

    /// The right to read the packet just consumed.
    pub fn lease(&self) -> &thalweg_data::Lease {
        self.writer.as_ref().expect("a packet was consumed from a block").lease()
    }

    /// Goes on behind an entry of `total` bytes, of which so many are put to use.
    fn consume(&mut self, total: u64, used: u64) -> Option<Slice> {
        let here = total.min(self.filled as u64) as usize;
        let writer = self.writer.as_mut()?;
        if (here as u64) < total {
            let (from, left) = (self.offset, total - here as u64);
            let mut skipped = Skipped { from, total, left, used, last: [0; 4] };
            skipped.see(&writer.tail()[..here]);
            self.skipped = Some(skipped);
        }
        self.filled -= here;
        self.offset += here as u64;
        Some(writer.publish(here))
    }

    /// Reads over the rest of an entry; false when no block is free to read into.
    fn skip(&mut self) -> Result<bool, SourceError> {
        while self.skipped.as_ref().is_some_and(|skipped| skipped.left > 0) {
            if !self.make_room(1) {
                return Ok(false);
            }
            let (Some(writer), Some(skipped)) = (&mut self.writer, &mut self.skipped) else {
                return Ok(false);
            };
            let tail = writer.tail();
            let most = skipped.left.min(tail.len() as u64) as usize;
            // What is skipped is not published: the next bytes are written over it.
            let count = match read_some(self.input.as_mut(), &mut tail[..most]) {
                Ok(count) => count,
                Err(cause) => return Err(self.failed(&cause)),
            };
            if count == 0 {
                self.at_end = true;
                break;
            }
            skipped.see(&tail[..count]);
            skipped.left -= count as u64;
            self.offset += count as u64;
        }
        if let Some(skipped) = self.skipped.take() {
            self.judge_skipped(&skipped);
        }
        Ok(true)
    }

    /// An entry was read over to its end, or to the end of the file.
    fn judge_skipped(&mut self, skipped: &Skipped) {
        let is_packet = skipped.used > 0;
        // Of a packet what is missing is counted with the packet itself.
        let from = if is_packet { self.offset } else { skipped.from };
        if skipped.left > 0 {
            self.damage.note("the file ends within a packet or block", from, self.offset);
        } else if let Format::Pcapng(pcapng) = &self.format
            && !pcapng.is_end_of_block(skipped.last, skipped.total)
        {
            let what = format!("a block of {} bytes does not end so", skipped.total);
            self.damage.note(&what, skipped.from + skipped.used, self.offset);
        }
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

    /// What of the file could not be read.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Sets the length of the file, so that no length in it is believed that goes beyond its end.
    pub fn expect_bytes(&mut self, bytes: u64) {
        self.file_bytes = Some(bytes);
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

    /// Bytes that were copied because their packet straddled the end of a block.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }
}

impl Format {
    /// Reads the entry at the start of `bytes`; `all` when no more bytes can be had.
    fn parse(&mut self, bytes: &[u8], all: bool) -> Parsed {
        match self {
            Format::Classic(classic) => classic.parse(bytes, all),
            Format::Pcapng(pcapng) => pcapng.parse(bytes, all),
        }
    }
}

/// How a search behind damage goes.
enum Searched {
    /// It is over: an entry was found, or the end of the file.
    Found,
    /// No block is free to read into.
    NoBlock,
    /// Nothing was found yet.
    Nothing,
}

impl Skipped {
    /// Some bytes of the entry: the last of all are kept.
    fn see(&mut self, bytes: &[u8]) {
        let new = bytes.len().min(4);
        self.last.rotate_left(new);
        self.last[4 - new..].copy_from_slice(&bytes[bytes.len() - new..]);
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
