//! The state that a client keeps from one dispatch to the next.
//!
//! ```text
//!  Session { Sequence: packet ids, buffers, round trip · packet limits · next transaction id }
//! ```

use std::time::Duration;

use super::packing::{PacketLimits, Part};
use crate::sequence::{Numbering, Sequence};

/// The state of a client and its target.
#[derive(Debug)]
pub(super) struct Session {
    /// No packets are in flight between two dispatches.
    pub(super) sequence: Sequence<Vec<Part>>,
    limits: PacketLimits,
    /// Whether to continue with unnumbered packets when another client numbers packets on the target.
    pub(super) falls_back: bool,
    /// The next transaction id.
    pub(super) transaction: u16,
}

impl Session {
    /// `transaction` is the first transaction id. It should differ between clients, so that none takes another's replies for its own.
    pub(super) fn new(
        numbering: Numbering,
        limits: PacketLimits,
        timeout: Duration,
        transaction: u16,
    ) -> Session {
        let sequence = Sequence::new(numbering, timeout);
        Session { sequence, limits, falls_back: false, transaction: transaction & 0xFFF }
    }

    /// The longest packets: the user's limits, reduced to the size of the target's buffers.
    pub(super) fn limits(&self) -> PacketLimits {
        let most = PacketLimits::both(self.sequence.buffer_bytes());
        PacketLimits {
            request_bytes: self.limits.request_bytes.min(most.request_bytes),
            reply_bytes: self.limits.reply_bytes.min(most.reply_bytes),
        }
    }
}
