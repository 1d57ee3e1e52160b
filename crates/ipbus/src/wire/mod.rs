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

mod chunk;
mod packet;
mod reply;
mod request;
mod status;
mod transaction;
mod words;

#[cfg(test)]
pub(crate) mod tests;

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

/// Bytes that [`check`] finds something in, of every kind: what fuzzing begins with.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for order in [ByteOrder::Big, ByteOrder::Little] {
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        let mut requests = RequestPacket::begin(7, order, &mut asked);
        requests.read(1, Operation::Read, 0x1000, 3);
        requests.write(2, Operation::Write, 0x2000, &[1, 2]);
        requests.change_bits(3, 0x10, !0xF, 0x5);
        requests.add(4, 0x10, 1);
        requests.read(5, Operation::ReadFifo, 0x30, 2);
        requests.read(6, Operation::ReadConfiguration, 0, 1);
        let mut replies = ReplyPacket::begin(7, order, &mut answered);
        for (id, operation, info) in
            [(1, Operation::Read, Info::Success), (2, Operation::Write, Info::ErrorOnWrite)]
        {
            let place = replies.open();
            let words = if operation == Operation::Read { 3 } else { 0 };
            replies.words(&[0xCAFE_BABE; 3][..words]);
            replies.end(place, TransactionHeader { id, words: words as u8, operation, info });
        }
        seeds.extend([asked, answered]);
    }
    let status = Status {
        buffer_bytes: 1500,
        buffers: 4,
        next_id: 9,
        history: [0; 16],
        received: [0x2000_07F0; 4],
        sent: [0x2000_07F0; 4],
    };
    seeds.extend([status_request().to_vec(), status.bytes().to_vec(), resend(7).to_vec()]);
    let target = Target { address: std::net::Ipv4Addr::LOCALHOST, port: 50_001 };
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    // Of packets that are whole words it cannot be too long.
    let _ = HubRequest::append(target, &[&seeds[0], &seeds[2]], &mut request);
    let answers = [&seeds[1], &seeds[3]].map(|packet| HubReply { target, code: HubCode::Fine, packet });
    HubReply::append(answers.into_iter(), &mut reply);
    let behind_lengths = [request, reply].map(|chunk| chunk[LENGTH_BYTES..].to_vec());
    seeds.into_iter().chain(behind_lengths).collect()
}

/// Reads arbitrary bytes as everything that they could be, and holds what is found against the bytes: for fuzzing.
///
/// # Panics
/// When a view does, or finds more than there is.
pub fn check(bytes: &[u8]) {
    if let Ok(Packet::Control(control)) = Packet::check(bytes) {
        let words = control.body.len();
        let asked = |request: Request<'_>| 1 + request.operation.request_words(request.words.into());
        assert!(Requests::of(control).flatten().map(asked).sum::<usize>() <= words, "more than there is");
        let answered = |reply: Reply<'_>| 1 + reply.data.len();
        assert!(Replies::of(control).flatten().map(answered).sum::<usize>() <= words, "more than there is");
    }
    if let Ok(status) = Status::check(bytes) {
        assert_eq!(Status::check(&status.bytes()), Ok(status), "a status comes back");
    }
    if let Ok(chunk) = HubRequest::check(bytes) {
        let items: Vec<&[u8]> = chunk.items().collect();
        let mut again = Vec::new();
        HubRequest::append(chunk.target, &items, &mut again).expect("it was one");
        assert_eq!(&again[LENGTH_BYTES..], bytes, "a chunk comes back");
    }
    if let Ok(replies) = HubReplies::of(bytes).collect::<Result<Vec<_>, _>>() {
        let mut again = Vec::new();
        HubReply::append(replies.iter().copied(), &mut again);
        assert_eq!(&again[LENGTH_BYTES..], bytes, "replies come back");
    }
    if let Some(length) = bytes.first_chunk() {
        let _ = frame_bytes(*length, 1 << 20);
    }
}
