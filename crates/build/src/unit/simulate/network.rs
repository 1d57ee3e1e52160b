//! Links between units: reliable and ordered while they last, as TCP is; with delay, a window, and breaks that take along what
//! is on its way.
//!
//! ```text
//!  outbox ─ put (refused when the window is full) ─► [ in flight, in order ] ─ due ─► on_message
//!                                   break: all lost, both ends know
//! ```

use std::collections::VecDeque;

use thalweg_data::{BlockWriter, Message, Pool, Slice};

use super::random::Random;
use crate::unit::Address;

/// A connection between two units.
#[derive(Debug)]
pub(super) struct Link {
    pub ends: [Address; 2],
    pub up: bool,
    /// When it comes back, if both ends live then.
    pub down_until: u64,
    /// In flight towards each end.
    towards: [VecDeque<(u64, Message)>; 2],
}

impl Link {
    pub fn new(ends: [Address; 2]) -> Link {
        Link::first_up(ends, 0)
    }

    /// One whose ends find each other at this time at the earliest.
    pub fn first_up(ends: [Address; 2], down_until: u64) -> Link {
        Link { ends, up: false, down_until, towards: Default::default() }
    }

    /// Sends from one end; gives the message back when the window is full.
    pub fn put(&mut self, from: Address, message: Message, due: u64, window: usize) -> Option<Message> {
        let flight = &mut self.towards[usize::from(self.ends[0] == from)];
        if flight.len() >= window {
            return Some(message);
        }
        // In order: not before what was sent before.
        let due = flight.back().map_or(due, |(last, _)| due.max(*last));
        flight.push_back((due, message));
        None
    }

    /// What arrives at an end now.
    pub fn due(&mut self, end: usize, now: u64) -> Option<Message> {
        self.towards[end].front().filter(|(due, _)| *due <= now)?;
        self.towards[end].pop_front().map(|(_, message)| message)
    }

    pub fn tear(&mut self, until: u64) {
        self.up = false;
        self.down_until = until;
        self.towards.iter_mut().for_each(VecDeque::clear);
    }
}

/// What a process receives into: blocks of its own, where the payload is cut wherever a read ended.
#[derive(Debug)]
pub(super) struct Receiver {
    pool: Pool,
    writer: Option<BlockWriter>,
}

impl Receiver {
    pub fn new(pool: &Pool) -> Receiver {
        Receiver { pool: pool.clone(), writer: None }
    }

    /// The message as it is in the receiving process, or as it was when there is no block to put it in.
    pub fn receive(&mut self, message: Message, random: &mut Random) -> Message {
        let bytes: Vec<u8> =
            message.slices.iter().flat_map(|slice| message.leases.bytes(*slice)).copied().collect();
        let mut received = Message { head: message.head.clone(), ..Message::default() };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            if self.writer.as_ref().is_none_or(|writer| writer.remaining() == 0) {
                self.writer = self.pool.take();
            }
            let Some(writer) = &mut self.writer else { return message };
            let length = (rest.len().min(writer.remaining()) as u64).min(random.between(1, 400)) as usize;
            let (now, later) = rest.split_at(length);
            let Some(slice) = writer.append(now) else { return message };
            join(&mut received.slices, slice, random);
            received.leases.add(writer.lease());
            rest = later;
        }
        received
    }
}

/// Sometimes neighbours are one slice, sometimes two.
fn join(slices: &mut Vec<Slice>, slice: Slice, random: &mut Random) {
    if let Some(last) =
        slices.last_mut().filter(|last| last.block == slice.block && last.end() == slice.offset as usize)
        && random.once_in(2)
    {
        last.length += slice.length;
    } else {
        slices.push(slice);
    }
}
