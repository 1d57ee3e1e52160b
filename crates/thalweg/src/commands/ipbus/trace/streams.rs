//! Packets out of the streams of targets and of hubs.
//!
//! ```text
//!  segment ─► CapturedStream ─► length │ what it counts ─┬─ a packet ─────────────► Carried     of a target
//!                                                        ├─ items for one board ──► Carried …   to a hub
//!                                                        └─ replies of boards ────► Carried …   of a hub
//! ```
//! What a stream is shows in what it carries: a packet begins with the version of IPbus, and an item with an address. Where the
//! capture has begun in the midst of a stream, or has a gap, bytes are skipped until a segment begins with something that can be read.

use std::collections::HashMap;
use std::net::SocketAddr;

use thalweg_ipbus::wire::{HubCode, HubReplies, HubReply, HubRequest, LENGTH_BYTES, Packet, frame_bytes};
use thalweg_run::{CapturedPayload, CapturedStream, Segment};

use super::{Carried, PacketRoute};

/// The longest item that is believed: as the hub's.
const MOST_BYTES: usize = 1 << 20;
/// Streams that are followed; with more, all are begun anew.
const MOST_STREAMS: usize = 4096;

/// Every direction of every connection.
#[derive(Default)]
pub(super) struct Streams {
    all: HashMap<(SocketAddr, SocketAddr), CapturedStream>,
    skipped_bytes: u64,
}

/// The frame that follows a length.
enum Framed<'a> {
    Direct(&'a [u8]),
    ToHub(HubRequest<'a>),
    FromHub(Vec<HubReply<'a>>),
}

impl<'a> Framed<'a> {
    fn of(bytes: &'a [u8]) -> Option<Framed<'a>> {
        if Packet::check(bytes).is_ok() {
            return Some(Framed::Direct(bytes));
        }
        let is_packet = |packet: &[u8]| Packet::check(packet).is_ok();
        if let Some(request) = HubRequest::check(bytes).ok().filter(|request| request.items().all(is_packet))
        {
            return Some(Framed::ToHub(request));
        }
        let replies: Result<Vec<HubReply<'_>>, _> = HubReplies::of(bytes).collect();
        let is_reply = |reply: &HubReply<'_>| (reply.code == HubCode::Fine) == is_packet(reply.packet);
        let replies = replies.ok().filter(|replies| !replies.is_empty() && replies.iter().all(is_reply));
        replies.map(Framed::FromHub)
    }

    /// Gives each packet to `take`, until that says `false`.
    fn each(&self, route: PacketRoute, take: &mut dyn FnMut(PacketRoute, Carried<'_>) -> bool) -> bool {
        let packet = |bytes| Carried::Packet { bytes, missing_bytes: 0 };
        match self {
            Framed::Direct(bytes) => take(route, packet(bytes)),
            Framed::ToHub(request) => {
                let route = PacketRoute { target: Some(request.target), ..route };
                request.items().all(|bytes| take(route, packet(bytes)))
            }
            Framed::FromHub(replies) => replies.iter().all(|reply| {
                let route = PacketRoute { target: Some(reply.target), ..route };
                match reply.code {
                    HubCode::Fine => take(route, packet(reply.packet)),
                    code => take(route, Carried::Refused(code)),
                }
            }),
        }
    }
}

impl Streams {
    /// Takes a segment, and gives each packet that is whole with it to `take`, until that says `false`.
    pub(super) fn take(
        &mut self,
        segment: Segment,
        captured: &CapturedPayload<'_>,
        take: &mut dyn FnMut(PacketRoute, Carried<'_>) -> bool,
    ) -> bool {
        if self.all.len() >= MOST_STREAMS {
            self.skipped_bytes = self.skipped_bytes();
            self.all.clear();
        }
        let CapturedPayload { time_ns, from, to, .. } = *captured;
        let route = PacketRoute { time_ns, from, to, target: None, in_stream: true };
        let stream = self.all.entry((from, to)).or_default();
        stream.take(segment, captured);
        while let Some(length) = stream.bytes().first_chunk::<LENGTH_BYTES>() {
            let Ok(bytes) = frame_bytes(*length, MOST_BYTES) else {
                stream.let_go();
                break;
            };
            let end = LENGTH_BYTES + bytes;
            let Some(whole) = stream.bytes().get(LENGTH_BYTES..end) else { break };
            let Some(framed) = Framed::of(whole) else {
                stream.let_go();
                break;
            };
            let goes_on = framed.each(route, take);
            stream.consume(end);
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// Bytes of streams that are no packets, or parts of some.
    pub(super) fn skipped_bytes(&self) -> u64 {
        let lost = |stream: &CapturedStream| stream.lost_bytes + stream.bytes().len() as u64;
        self.skipped_bytes + self.all.values().map(lost).sum::<u64>()
    }
}
