//! The receiving half of a stream of frames: bytes into blocks, blocks into messages.
//!
//! ```text
//!  block:  |header|head|== payload ==|header|head|== payl   next block:  oad ==|header|…
//!                  copied └─ slice ─┘                └─ slice ┘        └ slice ┘
//! ```
//! The stream is received into blocks as it comes. Heads are copied out, payloads are named where they lie: one slice, or
//! several where a payload goes on in the next block.

use thalweg_data::{BlockWriter, Message, Pool, Slice};

use super::frame::{Deframer, FrameError, Kind, Part};

/// A fresh block is taken when less than this part of the old one is left.
const SMALLEST_TAIL: usize = 8;

/// What stands in the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole message.
    Message,
    /// Another frame; its head is in [`Assembly::head`].
    Control(Kind),
    /// The beginning of a frame, or nothing.
    Nothing,
}

/// Receives into blocks of a pool and finds the messages.
#[derive(Debug)]
pub(super) struct Assembly {
    pool: Pool,
    writer: Option<BlockWriter>,
    /// What was received and not yet looked at; in the writer's block.
    unread: Option<Slice>,
    /// The same of what was received into no block: control frames of a connection that has not said who it is.
    early: Vec<u8>,
    deframer: Deframer,
    message: Message,
}

impl Assembly {
    /// Messages with payloads of up to `longest_payload`.
    pub(super) fn new(pool: Pool, longest_payload: u64) -> Assembly {
        let longest_head = Message::LONGEST_HEAD as u32;
        Assembly {
            pool,
            writer: None,
            unread: None,
            early: Vec::new(),
            deframer: Deframer::new(longest_head, longest_payload),
            message: Message::default(),
        }
    }

    /// Longest payload that fits a pool, at worst: it begins at the very end of a block, and the last one is being written.
    pub(super) fn longest_payload(pool: &Pool) -> u64 {
        (pool.block_count() as u64).saturating_sub(2) * pool.block_size() as u64
    }

    pub(super) fn agree(&mut self, version: u16) {
        self.deframer.agree(version);
    }

    /// Whether the stream stands inside a frame.
    pub(super) fn is_inside(&self) -> bool {
        self.unread.is_some() || !self.early.is_empty() || self.deframer.is_inside()
    }

    /// Head of the frame just found.
    pub(super) fn head(&self) -> &[u8] {
        &self.message.head
    }

    /// Gives the message just found for an empty one.
    pub(super) fn take(&mut self, message: &mut Message) {
        std::mem::swap(&mut self.message, message);
        self.message.clear();
    }

    /// Lets go of the frame just found, or begun.
    pub(super) fn clear(&mut self) {
        self.message.clear();
    }

    /// Lets go of all blocks: the connection is gone.
    pub(super) fn give_up(&mut self) {
        self.message.clear();
        self.unread = None;
        self.early = Vec::new();
        self.writer = None;
    }

    /// How many bytes end the header, or the head, at which the stream stands: so many can be read without reading into what follows.
    pub(super) fn wanted(&self) -> usize {
        self.deframer.wanted()
    }

    /// Takes bytes that were received into no block; at most as many as are [wanted](Assembly::wanted).
    pub(super) fn take_early(&mut self, bytes: &[u8]) {
        self.early.extend_from_slice(bytes);
    }

    /// Looks at what was received into no block.
    fn find_early(&mut self) -> Result<(usize, Part), FrameError> {
        let (taken, part) = self.deframer.step(&self.early)?;
        if part == Part::Head {
            self.message.head.extend_from_slice(&self.early[..taken]);
        }
        self.early.drain(..taken);
        Ok((taken, part))
    }

    /// Looks at what was received, up to the end of the next frame.
    pub(super) fn find(&mut self) -> Result<Found, FrameError> {
        loop {
            let (taken, part) = match (self.unread, &self.writer) {
                (Some(unread), Some(writer)) => {
                    let lease = writer.lease();
                    let bytes = lease.bytes(unread);
                    let (taken, part) = self.deframer.step(bytes)?;
                    match part {
                        Part::Head => self.message.head.extend_from_slice(&bytes[..taken]),
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
                Part::End(Kind::Message) => return Ok(Found::Message),
                Part::End(kind) => return Ok(Found::Control(kind)),
                Part::Nothing if taken == 0 => return Ok(Found::Nothing),
                Part::Nothing | Part::Head | Part::Payload => {}
            }
        }
    }

    /// Where the next bytes go; `None` when no block is free. All that was received has been looked at.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        debug_assert!(self.unread.is_none(), "what was received is looked at first");
        let smallest = self.pool.block_size() / SMALLEST_TAIL;
        // A block that nobody reads any more starts over while it is still near the processor.
        let enough = self.writer.as_mut().is_some_and(|writer| {
            writer.published() >= smallest && writer.start_over() || writer.remaining() >= smallest
        });
        if !enough {
            match self.pool.take() {
                Some(next) => self.writer = Some(next),
                // What is left of the old block is used rather than nothing.
                None if self.writer.as_ref().is_some_and(|writer| writer.remaining() > 0) => {}
                None => {
                    self.writer = None;
                    self.writer = self.pool.take();
                }
            }
        }
        self.writer.as_mut().map(BlockWriter::tail)
    }

    /// So many bytes were received into the room.
    pub(super) fn publish(&mut self, received: usize) {
        let writer = self.writer.as_mut().expect("room was given before");
        self.unread = Some(writer.publish(received)).filter(|slice| slice.length > 0);
    }
}
