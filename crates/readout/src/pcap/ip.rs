//! What the two versions of IP have in common: who sends what kind of payload to whom, and which part of it.
//!
//! ```text
//!  bytes from the IP header on ─► version ─► ipv4 | ipv6 ─► Packet
//! ```

use std::net::IpAddr;
use std::ops::Range;

use super::bytes::{Unreadable, byte};
use super::{ipv4, ipv6};

/// The protocol number of TCP.
pub(super) const TCP: u8 = 6;

/// The protocol number of UDP.
pub(super) const UDP: u8 = 17;

/// One IP packet: views of its header, and where its payload lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// What the payload is.
    pub protocol: u8,
    /// First byte of the payload, from the start of the IP header.
    pub payload: usize,
    /// Bytes of payload that the packet had on the wire; the capture may have fewer.
    pub payload_bytes: usize,
    /// When it is a part of a larger packet: which.
    pub fragment: Option<Fragment>,
}

/// Which part of a packet a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    /// The same for all parts.
    pub identification: u32,
    /// Where in the whole payload it belongs.
    pub offset: usize,
    /// Whether others follow.
    pub more: bool,
}

impl Packet {
    /// Reads the header. `wire_bytes` is what the packet had on the wire from its IP header on, link-layer padding
    /// included.
    pub fn read(bytes: &[u8], wire_bytes: usize) -> Result<Packet, Unreadable> {
        let packet = match byte(bytes, 0)? >> 4 {
            4 => ipv4::read(bytes, wire_bytes)?,
            6 => ipv6::read(bytes, wire_bytes)?,
            _ => return Err(Unreadable::Malformed),
        };
        let inside = packet.payload + packet.payload_bytes <= wire_bytes;
        if inside { Ok(packet) } else { Err(Unreadable::Malformed) }
    }

    /// The payload that was captured, within the bytes that the packet was read from.
    pub fn captured(&self, bytes: &[u8]) -> Range<usize> {
        let end = (self.payload + self.payload_bytes).min(bytes.len());
        self.payload.min(end)..end
    }
}
