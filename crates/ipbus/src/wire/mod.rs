//! The wire format of IPbus 2.0: checked views of received bytes, and builders of packets.
//!
//! ```text
//!  datagram ─────────────────┐
//!  TCP: length, packet ──────┼─► Packet ─► Control ─► Requests · Replies      transactions, one after the other
//!  hub: chunk ─► items ──────┘         ├─► Status                             next expected packet id, buffers
//!                                      └─► Resend                             asks for a lost reply again
//! ```
//! All fields are 32-bit words. A control packet is in its sender's byte order, and its reply in the same one; status and resend packets,
//! lengths and the hub's headers are big-endian. No view panics, whatever the bytes are.
//!
//! Source: "The IPbus Protocol, draft 6" (CERN, 2013) and what the reference client, hub and firmware send.

#[cfg(any(test, feature = "harness"))]
mod check;
mod chunk;
mod packet;
mod reply;
mod request;
mod status;
mod transaction;
mod words;

#[cfg(test)]
pub(crate) mod tests;

#[cfg(any(test, feature = "harness"))]
pub use check::{check, seeds};
pub use chunk::{HubCode, HubItems, HubReplies, HubReply, HubRequest, LENGTH_BYTES, Target, frame_bytes};
pub use packet::{Control, Header, Kind, Packet, renumber, resend};
pub use reply::{Replies, Reply, ReplyPacket};
pub use request::{Request, RequestPacket, Requests};
pub use status::{STATUS_BYTES, Status, status_request};
pub use transaction::{Info, MOST_WORDS, Operation, TransactionHeader};
pub use words::{ByteOrder, WORD_BYTES, Words};

/// Most packets in flight to one target, however many buffers it reports.
const MOST_BUFFERS: usize = 256;

/// Why received bytes are not the IPbus 2.0 that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The length is 0, or not a whole number of words.
    #[error("{found} bytes are not an IPbus packet, which is one or more words of four bytes")]
    NotWords {
        /// Received bytes.
        found: usize,
    },
    /// The first word is not a version 2 header in either byte order.
    #[error(
        "a packet that begins with {first:#010x} is not IPbus 2.0, in which the first or the fourth byte is 0x20"
    )]
    Header {
        /// The first word, big-endian.
        first: u32,
    },
    /// A packet of another kind than expected.
    #[error("a {found} packet where a {expected} packet was expected")]
    Kind {
        /// The kind that was received.
        found: Kind,
        /// The kind that was expected.
        expected: Kind,
    },
    /// A transaction header that version 2 does not allow here.
    #[error("transaction header {header:#010x}: {reason}")]
    Transaction {
        /// The header.
        header: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A transaction that is longer than the rest of its packet.
    #[error("transaction header {header:#010x} announces {promised} more words, the packet has {found}")]
    Cut {
        /// The header.
        header: u32,
        /// Words that should follow it.
        promised: usize,
        /// Words that follow it.
        found: usize,
    },
    /// A status packet whose next expected header is not that of a numbered control packet.
    #[error("a status packet that expects {next:#010x} next, which is not the header of a control packet")]
    Status {
        /// The next expected header.
        next: u32,
    },
    /// A length outside the accepted range, or not a whole number of words.
    #[error("a length of {found} bytes; allowed is a multiple of 4 from {least} to {most}")]
    Length {
        /// The length, in bytes.
        found: usize,
        /// The shortest accepted length, in bytes.
        least: usize,
        /// The longest accepted length, in bytes.
        most: usize,
    },
    /// A chunk to or from a hub that is incomplete or inconsistent.
    #[error("a chunk of {bytes} bytes: {reason}")]
    Chunk {
        /// Its length, in bytes.
        bytes: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}
