//! What a client knows of its target from one dispatch to the next.
//!
//! ```text
//!  status ─► buffers, next number ─► Session ◄─ round trips, counts
//! ```

use std::time::Duration;

use super::packing::PacketLimits;
use super::round_trip::RoundTrip;
use crate::wire::Status;

/// Packets on their way at the same time, where the target does not say how many it takes.
const WINDOW: usize = 16;

/// How replies find their packets, and whether lost ones come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Each packet has a number, the target does each number once and keeps its reply.
    Numbered,
    /// No packet has one, and what is lost is lost: UDP beside others that move the numbers.
    Unnumbered,
    /// Replies come in the order of their packets, and none is lost: a stream.
    InTurn,
}

/// What a client has sent and heard, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Packets that were sent for the first time.
    pub sent: u64,
    /// Packets that were sent again, because the target had not had them.
    pub requests_repeated: u64,
    /// Replies that were asked for again.
    pub replies_repeated: u64,
    /// Status packets that were asked for.
    pub statuses: u64,
    /// What came and belonged to nothing: late doubles, and what others have sent.
    pub strange: u64,
}

/// The state of a client and its target.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) numbering: Numbering,
    pub(super) limits: PacketLimits,
    /// Packets that may be on their way.
    pub(super) window: usize,
    /// The number of the next packet; unknown until the target has said it.
    pub(super) next_id: Option<u16>,
    /// The number of the next transaction.
    pub(super) transaction: u16,
    pub(super) round_trip: RoundTrip,
    /// So long a packet may take in all.
    pub(super) timeout: Duration,
    pub(super) counts: ClientCounts,
}

impl Session {
    /// `transaction` is the first transaction's number: another one in each client, so that none takes another's replies for its own.
    pub(super) fn new(
        numbering: Numbering,
        limits: PacketLimits,
        timeout: Duration,
        transaction: u16,
    ) -> Session {
        Session {
            numbering,
            limits,
            window: WINDOW,
            next_id: None,
            transaction: transaction & 0xFFF,
            round_trip: RoundTrip::default(),
            timeout,
            counts: ClientCounts::default(),
        }
    }

    /// The target says what it has and expects.
    pub(super) fn learn(&mut self, status: &Status) {
        self.next_id = Some(status.next_id);
        self.window = status.packets_in_flight().min(WINDOW);
        let most = PacketLimits::both(status.buffer_bytes as usize);
        self.limits.request_bytes = self.limits.request_bytes.min(most.request_bytes);
        self.limits.reply_bytes = self.limits.reply_bytes.min(most.reply_bytes);
    }

    /// Whether the target has to be asked before anything is sent.
    pub(super) fn is_unknown(&self) -> bool {
        self.numbering == Numbering::Numbered && self.next_id.is_none()
    }
}
