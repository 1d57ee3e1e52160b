//! A message from one unit to another, on the same host or on another.
//!
//! ```text
//!  Events ─► Message { head: a few bytes by value, slices + leases: payload on loan } ─► transport ─► Message
//! ```
//! Within a process, the payload is handed over without a copy. Between processes, the transport writes it directly from the blocks, and
//! the other end receives it into its own blocks. Only the head is copied in user space.

use crate::pool::Leases;
use crate::slice::Slice;

/// One message. The value is reused for the next one.
#[derive(Debug, Default)]
pub struct Message {
    /// The head, encoded by the room that sends the message; at most [`Message::LONGEST_HEAD`] bytes.
    pub head: Vec<u8>,
    /// The payload, in order.
    pub slices: Vec<Slice>,
    /// The right to read it.
    pub leases: Leases,
}

impl Message {
    /// Longest head that a transport must accept, bytes: over twice the head of a batch of 512 events of 512 fragments, 24 bytes each.
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
