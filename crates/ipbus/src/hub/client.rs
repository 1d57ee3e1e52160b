//! A client's connection: chunks in, replies in the order of their requests out. No socket.
//!
//! ```text
//!  bytes ─► chunks ─► items, each a packet for a target
//!  replies, in any order ─► Owed { chunk, chunk, … } ─ the first when it is whole ─► bytes
//! ```

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::counts::ClientCounts;
use crate::wire::{HubCode, HubReply, LENGTH_BYTES, Target, WireError, frame_bytes};

/// Longest chunk that is taken: uHAL puts up to three packets in one.
pub(super) const MOST_CHUNK_BYTES: usize = 1 << 20;
/// Packets of one client that wait for a reply; no more is read from it meanwhile.
const MOST_OWED: usize = 256;
/// Bytes of replies that one client has not taken; no more is read from it meanwhile.
const MOST_UNSENT_BYTES: usize = 4 << 20;

/// A client: its place, and the how manieth it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientKey {
    pub(super) place: u32,
    pub(super) turn: u32,
}

impl ClientKey {
    #[cfg(test)]
    pub(super) fn of_place(place: u32) -> ClientKey {
        ClientKey { place, turn: 0 }
    }
}

/// Which reply of a client a packet brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) client: ClientKey,
    chunk: u64,
    item: u16,
}

/// The replies to one chunk.
#[derive(Debug)]
struct Owed {
    target: Target,
    replies: Vec<(HubCode, Vec<u8>)>,
    missing: usize,
}

/// One connection.
#[derive(Debug)]
pub(super) struct ClientSide {
    pub(super) peer: SocketAddr,
    pub(super) chunks: Chunks,
    pub(super) replies: ReplyQueue,
}

impl ClientSide {
    pub(super) fn new(peer: SocketAddr) -> ClientSide {
        ClientSide { peer, chunks: Chunks::default(), replies: ReplyQueue::default() }
    }

    /// Takes what has come.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.replies.counts.bytes_received += bytes.len() as u64;
        self.chunks.receive(bytes);
    }
}

/// What came from a client, in chunks.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    received: Vec<u8>,
    /// How much of it was taken.
    taken: usize,
}

impl Chunks {
    fn receive(&mut self, bytes: &[u8]) {
        if self.taken == self.received.len() {
            self.received.clear();
            self.taken = 0;
        }
        self.received.extend_from_slice(bytes);
    }

    /// The next whole chunk, without its length; `None` until more has come. What was taken before is given up.
    ///
    /// # Errors
    /// When the stream holds what is no length: it is of no further use.
    pub(super) fn take(&mut self) -> Result<Option<&[u8]>, WireError> {
        let Some(length) = self.received[self.taken..].first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let start = self.taken + LENGTH_BYTES;
        let end = start + frame_bytes(*length, MOST_CHUNK_BYTES)?;
        if end > self.received.len() {
            // Room for the rest of it, and not for everything that has ever come.
            self.received.drain(..self.taken);
            self.taken = 0;
            return Ok(None);
        }
        self.taken = end;
        Ok(Some(&self.received[start..end]))
    }
}

/// What a client waits for, in the order in which it is sent.
#[derive(Debug, Default)]
pub(super) struct ReplyQueue {
    pub(super) counts: ClientCounts,
    owed: VecDeque<Owed>,
    /// The number of the first of them.
    first_owed: u64,
    packets_owed: usize,
    /// The room of those that were sent.
    spare: Vec<Owed>,
    unsent: Vec<u8>,
    /// How much of it has gone.
    gone: usize,
    /// Bytes of replies that wait for others.
    kept_bytes: usize,
}

impl ReplyQueue {
    /// Whether more is read from the client: it waits for few replies, and takes those that there are.
    pub(super) fn has_room(&self) -> bool {
        self.packets_owed < MOST_OWED && self.unsent.len() - self.gone + self.kept_bytes < MOST_UNSENT_BYTES
    }

    /// Whether the client waits for nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.packets_owed == 0 && self.unsent.is_empty()
    }

    /// Packets that the client waits for.
    pub(super) fn owed(&self) -> usize {
        self.packets_owed
    }

    /// A chunk of so many packets waits for its replies: the ticket of the first, and the others by [`Ticket::next`].
    pub(super) fn owe(&mut self, client: ClientKey, target: Target, packets: usize) -> Ticket {
        let chunk = self.first_owed + self.owed.len() as u64;
        let mut replies = self.spare.pop().map_or(Vec::new(), |owed| owed.replies);
        replies.resize_with(packets, || (HubCode::HubTimeout, Vec::new()));
        self.owed.push_back(Owed { target, replies, missing: packets });
        self.packets_owed += packets;
        self.counts.asked += packets as u64;
        Ticket { client, chunk, item: 0 }
    }

    /// A reply has come, or why there is none; replies go out when all before them have.
    pub(super) fn reply(&mut self, ticket: Ticket, code: HubCode, packet: &[u8]) {
        let place = ticket.chunk.wrapping_sub(self.first_owed) as usize;
        let Some(owed) = self.owed.get_mut(place) else { return };
        let Some((kept_code, kept)) = owed.replies.get_mut(usize::from(ticket.item)) else { return };
        match code {
            HubCode::Fine => self.counts.answered += 1,
            code => self.counts.refused.add(code),
        }
        *kept_code = code;
        kept.clear();
        kept.extend_from_slice(packet);
        owed.missing -= 1;
        self.packets_owed -= 1;
        self.kept_bytes += packet.len();
        while self.owed.front().is_some_and(|owed| owed.missing == 0) {
            let Some(owed) = self.owed.pop_front() else { return };
            self.first_owed += 1;
            self.kept_bytes -= owed.replies.iter().map(|(_, packet)| packet.len()).sum::<usize>();
            let target = owed.target;
            let replies = owed.replies.iter().map(|(code, packet)| HubReply { target, code: *code, packet });
            HubReply::append(replies, &mut self.unsent);
            self.spare.push(owed);
        }
    }

    /// What the client has to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.unsent[self.gone..]
    }

    /// So much of that has gone.
    pub(super) fn has_gone(&mut self, count: usize) {
        self.gone += count;
        self.counts.bytes_sent += count as u64;
        if self.gone == self.unsent.len() {
            self.unsent.clear();
            self.gone = 0;
        }
    }
}

impl Ticket {
    /// That of the packet behind.
    pub(super) fn next(self) -> Ticket {
        Ticket { item: self.item + 1, ..self }
    }
}
