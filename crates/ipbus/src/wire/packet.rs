//! Packets: a header word and a body.
//!
//! ```text
//!   31 … 28   27 … 24   23 … 8      7 … 4             3 … 0
//!   version   0         packet id   0xF (qualifier)   0 control · 1 status · 2 resend
//! ```
//! The qualifier shows the byte order of a control packet: `20 hh ll F0` is big-endian, `F0 ll hh 20` little-endian.

use super::words::{ByteOrder, WORD_BYTES, Words};
use super::{Status, WireError};

const VERSION: u32 = 2 << 28;
const QUALIFIER: u32 = 0xF0;
/// The bits that are the same in every header.
const FIXED: u32 = 0xFF00_00F0;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Transactions.
    Control,
    /// Asks for, or reports, the target's buffers and next expected packet id.
    Status,
    /// Asks for a reply again.
    Resend,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Control => "control",
            Kind::Status => "status",
            Kind::Resend => "resend",
        })
    }
}

/// The first word of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The packet id: 0 for an unnumbered packet; numbered packets count from 1 to 65535 and start again at 1.
    pub id: u16,
    /// What the packet is for.
    pub kind: Kind,
}

impl Header {
    /// The header of a control packet.
    pub const fn control(id: u16) -> Header {
        Header { id, kind: Kind::Control }
    }

    /// The header as a word.
    pub const fn word(self) -> u32 {
        let kind = match self.kind {
            Kind::Control => 0,
            Kind::Status => 1,
            Kind::Resend => 2,
        };
        VERSION | (self.id as u32) << 8 | QUALIFIER | kind
    }

    /// The header in a word; `None` when the word is not a header.
    pub const fn of_word(word: u32) -> Option<Header> {
        if word & FIXED != VERSION | QUALIFIER {
            return None;
        }
        let kind = match word & 0xF {
            0 => Kind::Control,
            1 => Kind::Status,
            2 => Kind::Resend,
            _ => return None,
        };
        Some(Header { id: (word >> 8) as u16, kind })
    }

    /// The packet id that follows this one; 0 is skipped.
    pub const fn id_behind(id: u16) -> u16 {
        if id == u16::MAX { 1 } else { id + 1 }
    }
}

/// A control packet: transactions, in the byte order of their sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'a> {
    /// The packet id.
    pub id: u16,
    /// The words after the header, and their byte order.
    pub body: Words<'a>,
}

/// A packet of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Transactions: requests, or the replies to them.
    Control(Control<'a>),
    /// A status request, or the status itself; [`Status::check`] reads it.
    Status(&'a [u8]),
    /// Asks for the reply to the control packet with this id.
    Resend(u16),
}

impl<'a> Packet<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    /// When the bytes are not whole words, or do not begin with a header.
    pub fn check(bytes: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let Some(first) =
            bytes.first_chunk::<WORD_BYTES>().filter(|_| bytes.len().is_multiple_of(WORD_BYTES))
        else {
            return Err(WireError::NotWords { found: bytes.len() });
        };
        let read = |order: ByteOrder| Some((Header::of_word(order.word(*first))?, order));
        let found = read(ByteOrder::Big).or_else(|| read(ByteOrder::Little));
        let foreign = WireError::Header { first: u32::from_be_bytes(*first) };
        match found.ok_or(foreign.clone())? {
            (Header { id, kind: Kind::Control }, order) => {
                let body = Words::new(&bytes[WORD_BYTES..], order);
                Ok(Packet::Control(Control { id, body }))
            }
            // Status and resend packets are big-endian, whatever the target and the client are.
            (_, ByteOrder::Little) => Err(foreign),
            (Header { kind: Kind::Status, .. }, ByteOrder::Big) => Ok(Packet::Status(bytes)),
            (Header { id, kind: Kind::Resend }, ByteOrder::Big) => Ok(Packet::Resend(id)),
        }
    }

    /// What it is for.
    pub const fn kind(&self) -> Kind {
        match self {
            Packet::Control(_) => Kind::Control,
            Packet::Status(_) => Kind::Status,
            Packet::Resend(_) => Kind::Resend,
        }
    }

    /// The transactions of a control packet.
    ///
    /// # Errors
    /// When it is another kind of packet.
    pub fn control(self) -> Result<Control<'a>, WireError> {
        match self {
            Packet::Control(control) => Ok(control),
            other => Err(WireError::Kind { found: other.kind(), expected: Kind::Control }),
        }
    }

    /// The status that the target reports.
    ///
    /// # Errors
    /// When it is another kind of packet, or the status is invalid.
    pub fn status(self) -> Result<Status, WireError> {
        match self {
            Packet::Status(bytes) => Status::check(bytes),
            other => Err(WireError::Kind { found: other.kind(), expected: Kind::Status }),
        }
    }
}

/// A resend packet: asks again for the reply to the control packet with this id.
pub const fn resend(id: u16) -> [u8; WORD_BYTES] {
    Header { id, kind: Kind::Resend }.word().to_be_bytes()
}

/// Sets the packet id of a control packet and keeps its byte order. Other packets stay as they are.
pub fn renumber(packet: &mut [u8], id: u16) {
    if let Ok(Packet::Control(Control { body, .. })) = Packet::check(packet) {
        let order = body.order();
        packet[..WORD_BYTES].copy_from_slice(&order.bytes(Header::control(id).word()));
    }
}
