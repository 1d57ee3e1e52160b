//! The receiving half of a stream of frames: bytes into blocks, blocks into messages.
//!
//! ```text
//!  block:  |header|head|== payload ==|header|head|== payl   next block:  oad ==|header|…
//!                  copied └─ slice ─┘                └─ slice ┘        └ slice ┘
//! ```
//! The stream is received straight into blocks. Heads are copied out; payloads stay in their blocks, as one slice, or as several
//! if a payload continues in the next block. What a table lends stays in the blocks of the [other process](super::borrow).

use std::io;

use thalweg_data::{BlockWriter, Message, Pool, Slice};

use super::borrow::Borrower;
use super::frame::{Deframer, FrameError, Kind, Part};
use super::wire::Passed;

/// A fresh block is taken when less than one eighth of the old one is left.
const SMALLEST_TAIL: usize = 8;

/// The next frame in the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A complete message.
    Message,
    /// Another complete frame; its head is in [`Assembly::head`].
    Control(Kind),
    /// No complete frame.
    Nothing,
}

/// Receives into blocks of a pool and finds the frames.
#[derive(Debug)]
pub(super) struct Assembly {
    pool: Pool,
    writer: Option<BlockWriter>,
    /// Received bytes in the writer's block that have not been parsed.
    unread: Option<Slice>,
    /// Received bytes outside of blocks that have not been parsed: frames of a handshake.
    early: Vec<u8>,
    deframer: Deframer,
    message: Message,
    table: Vec<u8>,
    /// Of a connection over which blocks can be lent.
    borrower: Option<Borrower>,
}

impl Assembly {
    /// An assembly for payloads of up to `longest_payload` bytes, in addition to what is borrowed.
    pub(super) fn new(pool: Pool, longest_payload: u64, borrower: Option<Borrower>) -> Assembly {
        let mut deframer = Deframer::new(Message::LONGEST_HEAD as u32, longest_payload);
        if borrower.is_some() {
            deframer.accept_loans();
        }
        Assembly {
            pool,
            writer: None,
            unread: None,
            early: Vec::new(),
            deframer,
            message: Message::default(),
            table: Vec::new(),
            borrower,
        }
    }

    /// Longest payload that fits a pool in the worst case, bytes: it begins at the very end of a block, and the last block is still
    /// being written.
    pub(super) fn longest_payload(pool: &Pool) -> u64 {
        (pool.block_count() as u64).saturating_sub(2) * pool.block_size() as u64
    }

    pub(super) fn agree(&mut self, version: u16) {
        self.deframer.agree(version);
    }

    /// Whether the received bytes end inside a frame.
    pub(super) fn is_inside(&self) -> bool {
        self.unread.is_some() || !self.early.is_empty() || self.deframer.is_inside()
    }

    /// Head of the frame that was found last.
    pub(super) fn head(&self) -> &[u8] {
        &self.message.head
    }

    /// What is borrowed over this connection, if anything can be.
    pub(super) fn borrower(&mut self) -> Option<&mut Borrower> {
        self.borrower.as_mut()
    }

    /// Whether blocks of the other process are on loan.
    pub(super) fn has_loans(&self) -> bool {
        self.borrower.as_ref().is_some_and(Borrower::has_loans)
    }

    /// Adds a pool of the other process, whose announcement is the frame that was found last.
    pub(super) fn add_pool(&mut self, passed: Option<Passed>) -> io::Result<()> {
        match &mut self.borrower {
            Some(borrower) => borrower.add(&self.message.head, passed),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Moves the message that was found last into `message`.
    pub(super) fn take(&mut self, message: &mut Message) {
        std::mem::swap(&mut self.message, message);
        self.message.clear();
    }

    /// Discards the frame that was found last, or has begun.
    pub(super) fn clear(&mut self) {
        self.message.clear();
    }

    /// Releases all blocks of a closed connection.
    pub(super) fn give_up(&mut self) {
        self.message.clear();
        self.unread = None;
        self.early = Vec::new();
        self.writer = None;
        self.borrower = None;
    }

    /// How many bytes are missing of the current header or head, and so can be read without reading beyond it.
    pub(super) fn wanted(&self) -> usize {
        self.deframer.wanted()
    }

    /// Takes bytes that were received outside of blocks; at most as many as are [wanted](Assembly::wanted).
    pub(super) fn take_early(&mut self, bytes: &[u8]) {
        self.early.extend_from_slice(bytes);
    }

    /// Parses bytes that were received outside of blocks.
    fn find_early(&mut self) -> Result<(usize, Part), FrameError> {
        let (taken, part) = self.deframer.step(&self.early)?;
        match part {
            Part::Head => self.message.head.extend_from_slice(&self.early[..taken]),
            Part::Table => self.table.extend_from_slice(&self.early[..taken]),
            Part::Nothing | Part::Payload | Part::End(_) => {}
        }
        self.early.drain(..taken);
        Ok((taken, part))
    }

    /// Parses the received bytes up to the end of the next frame.
    pub(super) fn find(&mut self) -> Result<Found, FrameError> {
        loop {
            let (taken, part) = match (self.unread, &self.writer) {
                (Some(unread), Some(writer)) => {
                    let lease = writer.lease();
                    let bytes = lease.bytes(unread);
                    let (taken, part) = self.deframer.step(bytes)?;
                    match part {
                        Part::Head => self.message.head.extend_from_slice(&bytes[..taken]),
                        Part::Table => self.table.extend_from_slice(&bytes[..taken]),
                        Part::Payload => {
                            self.message.slices.extend(unread.part(0, taken));
                            self.message.leases.add(lease);
                        }
                        Part::Nothing | Part::End(_) => {}
                    }
                    self.unread = unread.part(taken, bytes.len() - taken).filter(|left| left.length > 0);
                    (taken, part)
                }
                _ => self.find_early()?,
            };
            match part {
                Part::End(Kind::Message) => return self.read_table().map(|()| Found::Message),
                Part::End(kind) => return Ok(Found::Control(kind)),
                Part::Nothing if taken == 0 => return Ok(Found::Nothing),
                Part::Nothing | Part::Head | Part::Table | Part::Payload => {}
            }
        }
    }

    /// Adds what the table of the message lends.
    #[inline]
    fn read_table(&mut self) -> Result<(), FrameError> {
        if let (false, Some(borrower)) = (self.table.is_empty(), &mut self.borrower) {
            borrower.read(&self.table, &mut self.message)?;
            self.table.clear();
        }
        Ok(())
    }

    /// The space for the next bytes; `None` when no block is free. All received bytes must have been parsed.
    pub(super) fn space(&mut self) -> Option<&mut [u8]> {
        debug_assert!(self.unread.is_none(), "received bytes are parsed first");
        let smallest = self.pool.block_size() / SMALLEST_TAIL;
        // A block that nobody reads any more is written again from its start while it is still in the cache.
        let enough = self.writer.as_mut().is_some_and(|writer| {
            writer.published() >= smallest && writer.start_over() || writer.remaining() >= smallest
        });
        if !enough {
            match self.pool.take() {
                Some(next) => self.writer = Some(next),
                // No block is free: use the rest of the old one.
                None if self.writer.as_ref().is_some_and(|writer| writer.remaining() > 0) => {}
                None => {
                    self.writer = None;
                    self.writer = self.pool.take();
                }
            }
        }
        self.writer.as_mut().map(BlockWriter::tail)
    }

    /// Publishes `received` bytes that were written to [`space`](Assembly::space).
    pub(super) fn publish(&mut self, received: usize) {
        let writer = self.writer.as_mut().expect("`space` has returned a block before");
        self.unread = Some(writer.publish(received)).filter(|slice| slice.length > 0);
    }
}
