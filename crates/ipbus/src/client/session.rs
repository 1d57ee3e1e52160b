//! What a client knows of its target from one dispatch to the next.
//!
//! ```text
//!  Session { Sequence: numbers, buffers, round trip · limits of packets · numbers of transactions }
//! ```

use std::time::Duration;

use super::packing::{PacketLimits, Part};
use crate::sequence::{Numbering, Sequence};

/// The state of a client and its target.
#[derive(Debug)]
pub(super) struct Session {
    /// Nothing is on its way between two dispatches.
    pub(super) sequence: Sequence<Vec<Part>>,
    limits: PacketLimits,
    /// Where somebody else numbers packets, too, it goes on without numbers.
    pub(super) falls_back: bool,
    /// The number of the next transaction.
    pub(super) transaction: u16,
}

impl Session {
    /// `transaction` is the first transaction's number: another one in each client, so that none takes another's replies for its own.
    pub(super) fn new(
        numbering: Numbering,
        limits: PacketLimits,
        timeout: Duration,
        transaction: u16,
    ) -> Session {
        let sequence = Sequence::new(numbering, timeout);
        Session { sequence, limits, falls_back: false, transaction: transaction & 0xFFF }
    }

    /// How long packets may be: what the user wants, as far as the target's buffers allow.
    pub(super) fn limits(&self) -> PacketLimits {
        let most = PacketLimits::both(self.sequence.buffer_bytes());
        PacketLimits {
            request_bytes: self.limits.request_bytes.min(most.request_bytes),
            reply_bytes: self.limits.reply_bytes.min(most.reply_bytes),
        }
    }
}
