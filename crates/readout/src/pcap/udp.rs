//! The header of UDP, its length checked. RFC 768.
//!
//! ```text
//!  source port 2 | destination port 2 | length 2 | checksum 2 | payload
//! ```
//! The checksum is not verified: on the sending host it is often not yet there when the capture is taken.

use super::bytes::{Unreadable, network_u16};

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 8;

/// One datagram's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// From which port.
    pub source_port: u16,
    /// To which port.
    pub destination_port: u16,
    /// Bytes of payload on the wire.
    pub payload_bytes: usize,
}

/// Reads the header; `wire_bytes` is what the IP packet carried on the wire.
pub(super) fn read(bytes: &[u8], wire_bytes: usize) -> Result<Header, Unreadable> {
    if wire_bytes < HEADER_BYTES {
        return Err(Unreadable::Malformed);
    }
    if bytes.len() < HEADER_BYTES {
        return Err(Unreadable::Short);
    }
    let length = usize::from(network_u16(bytes, 4)?);
    if !(HEADER_BYTES..=wire_bytes).contains(&length) {
        return Err(Unreadable::Malformed);
    }
    let (source_port, destination_port) = (network_u16(bytes, 0)?, network_u16(bytes, 2)?);
    Ok(Header { source_port, destination_port, payload_bytes: length - HEADER_BYTES })
}
