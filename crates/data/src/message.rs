//! What one unit tells another, on the same host or far away.
//!
//! ```text
//!  Events ─► Message { head: a few bytes by value, slices + leases: payload on loan } ─► transport ─► Message
//! ```
//! Inside a process the payload is handed over as it is; between processes the transport writes it straight from the
//! blocks, and the other end receives it into blocks of its own. Only the head is ever copied in user space.

use crate::pool::Leases;
use crate::slice::Slice;

/// One message. Reused from one to the next.
#[derive(Debug, Default)]
pub struct Message {
    /// What the message says, encoded by the room that sends it; at most [`Message::LONGEST_HEAD`] bytes.
    pub head: Vec<u8>,
    /// The payload, in order.
    pub slices: Vec<Slice>,
    /// The right to read it.
    pub leases: Leases,
}

impl Message {
    /// Longest head that a transport has to take: a batch of 512 events of 512 fragments, 24 bytes each, and as much again.
    pub const LONGEST_HEAD: usize = 16 << 20;

    /// Empties the message, returns its leases, keeps its memory.
    pub fn clear(&mut self) {
        self.head.clear();
        self.slices.clear();
        self.leases.clear();
    }

    /// Bytes of payload.
    pub fn payload_bytes(&self) -> u64 {
        self.slices.iter().map(|slice| u64::from(slice.length)).sum()
    }
}
