//! A bounded queue of messages to be sent, which are written straight from their blocks.
//!
//! ```text
//!  Message ─► [ header+head · table · slices | header+head · table · slices | … ] ─► one gathering write for many messages
//! ```
//! The queue copies no payload: a write gathers the header, the head and the slices of all queued messages, at most
//! [`MOST_SLICES`], so that many small messages cost one system call. The next write continues where the wire stopped.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use thalweg_data::Message;

use super::frame::{ENTRY_BYTES, Header, Kind};
use super::lend::Lender;
use super::wire::Wire;

/// The most slices per write; the kernel accepts 1024 (`IOV_MAX`), but with half of them the cost of the call is negligible.
const MOST_SLICES: usize = 512;
/// A head up to this many bytes is copied behind its header, which saves a slice.
const SHORT_HEAD: usize = 1024;

/// Messages that wait to be written.
#[derive(Debug)]
pub(super) struct SendQueue {
    waiting: VecDeque<Outgoing>,
    /// Empty entries, whose memory is used again.
    spare: Vec<Outgoing>,
    most_messages: usize,
    most_bytes: u64,
    bytes: u64,
    cursor: Cursor,
    sequence: u32,
    version: u16,
    written: Written,
}

/// Counters of the messages that have been written completely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) messages: u64,
    /// Bytes of heads and payloads.
    pub(super) bytes: u64,
    pub(super) calls: u64,
}

#[derive(Debug, Default)]
struct Outgoing {
    /// The header, followed by a short head.
    front: Vec<u8>,
    head_is_in_front: bool,
    is_message: bool,
    message: Message,
    /// What is lent of it.
    table: Vec<u8>,
    content_bytes: u64,
}

/// The position in a message at which a write begins: part 0 is the front, 1 the head, 2 the table, 3 the first slice.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    part: usize,
    offset: usize,
}

impl Outgoing {
    fn part(&self, index: usize) -> Option<&[u8]> {
        match index {
            0 => Some(&self.front),
            1 if self.head_is_in_front => Some(&[]),
            1 => Some(&self.message.head),
            2 => Some(&self.table),
            _ => self.message.slices.get(index - 3).map(|slice| self.message.leases.bytes(*slice)),
        }
    }
}

impl SendQueue {
    /// An empty queue for at most `most_messages` and `most_bytes`; an empty queue takes a message of any length.
    pub(super) fn new(most_messages: usize, most_bytes: u64) -> SendQueue {
        SendQueue {
            waiting: VecDeque::with_capacity(most_messages + 2),
            spare: Vec::with_capacity(most_messages + 2),
            most_messages: most_messages.max(1),
            most_bytes,
            bytes: 0,
            cursor: Cursor::default(),
            sequence: 0,
            version: *super::hello::VERSIONS.end(),
            written: Written::default(),
        }
    }

    /// Sets the agreed version, which frames have from now on.
    pub(super) fn agree(&mut self, version: u16) {
        self.version = version;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the queue takes no further message.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.most_messages || (self.bytes >= self.most_bytes && !self.is_empty())
    }

    /// Bytes of heads and payloads in the queue.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages in the queue.
    pub(super) fn messages(&self) -> usize {
        self.waiting.iter().filter(|outgoing| outgoing.is_message).count()
    }

    pub(super) fn written(&self) -> Written {
        self.written
    }

    /// Takes a message, which is empty afterwards, and lends what can be lent of it. The caller has checked
    /// [`is_full`](SendQueue::is_full).
    pub(super) fn push(&mut self, message: &mut Message, lender: Option<&mut Lender>) {
        // Adjacent slices become one.
        message.slices.dedup_by(|next, kept| {
            let joins = kept.block == next.block && kept.end() == next.offset as usize;
            kept.length += if joins { next.length } else { 0 };
            joins
        });
        let mut outgoing = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut outgoing.message, message);
        let lent_bytes = lender.map_or(0, |lender| lender.lend(&mut outgoing.message, &mut outgoing.table));
        self.enter(outgoing, Kind::Message, lent_bytes);
    }

    /// Takes a frame that is not a message.
    pub(super) fn push_control(&mut self, kind: Kind, head: &[u8]) {
        let mut outgoing = self.spare.pop().unwrap_or_default();
        outgoing.message.head.extend_from_slice(head);
        self.enter(outgoing, kind, 0);
    }

    fn enter(&mut self, mut outgoing: Outgoing, kind: Kind, lent_bytes: u64) {
        let (head_bytes, payload_bytes) = (outgoing.message.head.len(), outgoing.message.payload_bytes());
        let header = Header {
            version: self.version,
            kind,
            head_bytes: head_bytes as u32,
            table_entries: (outgoing.table.len() / ENTRY_BYTES) as u32,
            payload_bytes,
            sequence: self.sequence,
        };
        self.sequence = self.sequence.wrapping_add(1);
        outgoing.front.extend_from_slice(&header.encode());
        outgoing.head_is_in_front = head_bytes <= SHORT_HEAD;
        if outgoing.head_is_in_front {
            outgoing.front.extend_from_slice(&outgoing.message.head);
        }
        outgoing.is_message = kind == Kind::Message;
        outgoing.content_bytes = head_bytes as u64 + lent_bytes + payload_bytes;
        self.bytes += outgoing.content_bytes;
        self.waiting.push_back(outgoing);
    }

    /// Writes the queue; returns whether it is empty. A wire that takes no more now is no error.
    pub(super) fn write(&mut self, wire: &mut impl Wire) -> io::Result<bool> {
        while !self.waiting.is_empty() {
            let mut slices = [IoSlice::new(&[]); MOST_SLICES];
            let count = self.gather(&mut slices);
            match wire.write(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.written.calls += 1;
                    self.advance(written);
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(cause) => return Err(cause),
            }
        }
        Ok(true)
    }

    /// Fills `slices` with the next bytes; returns how many slices they are.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; MOST_SLICES]) -> usize {
        let (mut count, mut cursor) = (0, self.cursor);
        for outgoing in &self.waiting {
            while let Some(part) = outgoing.part(cursor.part) {
                if part.len() > cursor.offset {
                    if count == MOST_SLICES {
                        return count;
                    }
                    slices[count] = IoSlice::new(&part[cursor.offset..]);
                    count += 1;
                }
                cursor = Cursor { part: cursor.part + 1, offset: 0 };
            }
            cursor = Cursor::default();
        }
        count
    }

    /// Moves the cursor behind the written bytes, and releases the messages that are complete.
    fn advance(&mut self, mut written: usize) {
        while let Some(first) = self.waiting.front() {
            while let Some(part) = first.part(self.cursor.part) {
                let left = part.len() - self.cursor.offset;
                if written < left {
                    self.cursor.offset += written;
                    return;
                }
                written -= left;
                self.cursor = Cursor { part: self.cursor.part + 1, offset: 0 };
            }
            self.cursor = Cursor::default();
            if let Some(mut gone) = self.waiting.pop_front() {
                self.bytes -= gone.content_bytes;
                if gone.is_message {
                    self.written.bytes += gone.content_bytes;
                    self.written.messages += 1;
                }
                gone.message.clear();
                gone.front.clear();
                gone.table.clear();
                self.spare.push(gone);
            }
        }
    }

    /// Empties the queue of a closed connection; returns how many messages are lost.
    pub(super) fn give_up(&mut self) -> u64 {
        let lost = self.messages() as u64;
        self.waiting.clear();
        self.bytes = 0;
        self.cursor = Cursor::default();
        lost
    }
}
