//! What IPbus 2.0 puts on the wire, as checked views and their emission.
//!
//! ```text
//!  datagram ─────────────────┐
//!  TCP: length, packet ──────┼─► Packet ─► Control ─► Requests · Replies      transactions, one behind the other
//!  hub: chunk ─► items ──────┘         ├─► Status                             what the target expects and has
//!                                      └─► Resend                             a reply that was lost, once more
//! ```
//! Everything is words of 32 bits. A control packet is in the byte order of whoever sent it, and its reply in the same; status and resend
//! packets, lengths and the hub's headers are big-endian. No view panics, whatever the bytes are.
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

/// Most packets on their way to one target, whatever it says of its buffers.
const MOST_BUFFERS: usize = 256;

/// Bytes that are none of IPbus 2.0, or not what was expected of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not a whole number of words, or not one word.
    #[error("{found} bytes are no IPbus packet, which is one word of four bytes or more")]
    NotWords {
        /// What came.
        found: usize,
    },
    /// No header of version 2, in either byte order.
    #[error(
        "a packet that begins with {first:#010x} is none of IPbus 2.0, whose first byte or last of the first word is 0x20"
    )]
    Header {
        /// The first word, big-endian.
        first: u32,
    },
    /// A packet of one kind where another was expected.
    #[error("a {found} packet where a {expected} packet was expected")]
    Kind {
        /// What came.
        found: Kind,
        /// What should have.
        expected: Kind,
    },
    /// A header of a transaction that no version 2 has.
    #[error("transaction header {header:#010x}: {reason}")]
    Transaction {
        /// The word.
        header: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A transaction that promises more words than are left of its packet.
    #[error(
        "transaction header {header:#010x} promises {promised} words more, {found} are left of the packet"
    )]
    Cut {
        /// The word.
        header: u32,
        /// Words that should follow it.
        promised: usize,
        /// Words that do.
        found: usize,
    },
    /// A status packet that contradicts itself.
    #[error("a status packet that expects {next:#010x} next, which is no header of a control packet")]
    Status {
        /// The word.
        next: u32,
    },
    /// A length that cannot be that of a packet, or is beyond what is taken.
    #[error("a length of {found} bytes; a multiple of 4 from {least} to {most} is taken")]
    Length {
        /// What was promised.
        found: usize,
        /// The shortest.
        least: usize,
        /// The longest.
        most: usize,
    },
    /// A chunk of a hub whose items are not whole, or are for several targets.
    #[error("a chunk of {bytes} bytes: {reason}")]
    Chunk {
        /// Its length.
        bytes: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}
