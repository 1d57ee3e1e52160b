//! A client's connection: splits its bytes into chunks, and returns replies in the order of the requests. No socket.
//!
//! ```text
//!  bytes ─► chunks ─► items, each a packet for a target
//!  replies, in any order ─► Owed { chunk, chunk, … } ─ the first, when complete ─► bytes
//! ```

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::counts::ClientCounts;
use crate::wire::{HubCode, HubReply, LENGTH_BYTES, Target, WireError, frame_bytes};

/// Longest accepted chunk, in bytes; uHAL puts up to three packets in one.
pub(super) const MOST_CHUNK_BYTES: usize = 1 << 20;
/// Most packets of one client without a reply; the hub reads no more from the client until there are fewer.
const MOST_OWED: usize = 256;
/// Most bytes of replies that one client has not received; the hub reads no more from the client until there are fewer. The replies to one
/// chunk have no more.
pub(super) const MOST_UNSENT_BYTES: usize = 4 << 20;

/// Identifies a client: its slot in the router, and how many clients had that slot before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientKey {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl ClientKey {
    #[cfg(test)]
    pub(super) fn of_slot(slot: u32) -> ClientKey {
        ClientKey { slot, generation: 0 }
    }
}

/// Identifies the reply that a packet of a client needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) client: ClientKey,
    chunk: u64,
    /// A chunk has more packets than 16 bits count.
    item: u32,
}

/// The replies to one chunk, until all are there.
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

    /// Takes bytes that were received.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.replies.counts.bytes_received += bytes.len() as u64;
        self.chunks.receive(bytes);
    }
}

/// Splits the bytes received from a client into chunks.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    received: Vec<u8>,
    /// Bytes of `received` that were taken.
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

    /// Takes the next complete chunk, without its length field; `None` until more bytes are received.
    ///
    /// # Errors
    /// When the stream has an invalid length: the rest of it is unusable.
    pub(super) fn take(&mut self) -> Result<Option<&[u8]>, WireError> {
        let Some(length) = self.received[self.taken..].first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let start = self.taken + LENGTH_BYTES;
        let end = start + frame_bytes(*length, MOST_CHUNK_BYTES)?;
        if end > self.received.len() {
            // Frees the bytes of earlier chunks before the rest of this one is appended.
            self.received.drain(..self.taken);
            self.taken = 0;
            return Ok(None);
        }
        self.taken = end;
        Ok(Some(&self.received[start..end]))
    }
}

/// The replies that a client waits for, in the order in which they are sent to it.
#[derive(Debug, Default)]
pub(super) struct ReplyQueue {
    pub(super) counts: ClientCounts,
    owed: VecDeque<Owed>,
    /// Number of the first chunk in `owed`, counted from the start of the connection.
    first_owed: u64,
    packets_owed: usize,
    /// Buffers of finished chunks, to be used again.
    spare: Vec<Owed>,
    unsent: Vec<u8>,
    /// Bytes of `unsent` that were written.
    gone: usize,
    /// Bytes of replies that wait for earlier ones.
    kept_bytes: usize,
}

impl ReplyQueue {
    /// Whether the hub reads more from the client: not too many replies are outstanding or unsent.
    pub(super) fn accepts_more(&self) -> bool {
        self.packets_owed < MOST_OWED && self.unsent.len() - self.gone + self.kept_bytes < MOST_UNSENT_BYTES
    }

    /// Whether no reply is outstanding or unsent.
    pub(super) fn is_empty(&self) -> bool {
        self.packets_owed == 0 && self.unsent.is_empty()
    }

    /// Number of packets without a reply.
    pub(super) fn owed(&self) -> usize {
        self.packets_owed
    }

    /// Adds a chunk with this number of packets. Returns the ticket of the first; [`Ticket::next`] gives those of the others.
    pub(super) fn owe(&mut self, client: ClientKey, target: Target, packets: usize) -> Ticket {
        let chunk = self.first_owed + self.owed.len() as u64;
        let mut replies = self.spare.pop().map_or(Vec::new(), |owed| owed.replies);
        replies.resize_with(packets, || (HubCode::HubTimeout, Vec::new()));
        self.owed.push_back(Owed { target, replies, missing: packets });
        self.packets_owed += packets;
        self.counts.asked += packets as u64;
        Ticket { client, chunk, item: 0 }
    }

    /// Takes the reply to a packet, or the error code in its place. Chunks of replies become sendable in the order of the requests.
    pub(super) fn reply(&mut self, ticket: Ticket, code: HubCode, packet: &[u8]) {
        let index = ticket.chunk.wrapping_sub(self.first_owed) as usize;
        let Some(owed) = self.owed.get_mut(index) else { return };
        let Some((kept_code, kept)) = owed.replies.get_mut(ticket.item as usize) else { return };
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

    /// Bytes to be sent to the client.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.unsent[self.gone..]
    }

    /// Marks the first `count` of these bytes as sent.
    pub(super) fn mark_sent(&mut self, count: usize) {
        self.gone += count;
        self.counts.bytes_sent += count as u64;
        if self.gone == self.unsent.len() {
            self.unsent.clear();
            self.gone = 0;
        }
    }
}

impl Ticket {
    /// The ticket of the next packet in the chunk.
    pub(super) fn next(self) -> Ticket {
        Ticket { item: self.item + 1, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::wire::HubReplies;

    #[test]
    fn each_packet_of_the_longest_chunk_has_its_reply() {
        // A packet has 8 bytes for its target and its length, and 4 at least of its own.
        let packets = MOST_CHUNK_BYTES / 12;
        let target = Target { address: Ipv4Addr::LOCALHOST, port: 50_001 };
        let mut queue = ReplyQueue::default();
        let mut ticket = queue.owe(ClientKey::of_slot(0), target, packets);
        for number in 0..packets as u32 {
            queue.reply(ticket, HubCode::Fine, &number.to_be_bytes());
            ticket = ticket.next();
        }
        let replies = HubReplies::of(&queue.unsent()[LENGTH_BYTES..]);
        assert!(
            replies.map(|reply| reply.expect("whole").packet).eq((0..packets as u32).map(u32::to_be_bytes))
        );
        assert_eq!((queue.owed(), queue.counts.answered), (0, packets as u64));
    }
}
