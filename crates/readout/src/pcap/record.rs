//! One entry of a capture file: a packet, or as much of it as there is.
//!
//! ```text
//!  bytes of the file ─► classic | pcapng ─► Parsed { Record | Skip | Need | Damaged }
//! ```

use super::link::LinkType;

/// A captured packet at the start of the bytes that were parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// When it was captured, in nanoseconds since 1970; unknown in simple packet blocks.
    pub time_ns: Option<u64>,
    /// What it begins with, if that can be read.
    pub link: Option<LinkType>,
    /// Bytes before the packet.
    pub head: usize,
    /// Bytes of the packet that are here.
    pub captured: usize,
    /// The file holds more of the packet than a block has space for.
    pub larger_than_block: bool,
    /// Bytes that the packet had on the wire.
    pub wire: usize,
    /// Bytes to the next entry.
    pub total: u64,
}

/// What stands at the start of some bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A packet.
    Record(Record),
    /// An entry that holds no packet, of this length.
    Skip(u64),
    /// The beginning of an entry of at least this many bytes.
    Need(usize),
    /// Nothing: the file ends here.
    End,
    /// No entry: the file is damaged or was cut.
    Damaged(String),
}

/// What a search behind damage found, from the start of the bytes that were searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Here entries follow each other again.
    Entry(usize),
    /// Up to here is nothing; what follows could be an entry, and more bytes would say so.
    Open(usize),
}
