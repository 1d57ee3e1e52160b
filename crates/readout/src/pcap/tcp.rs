//! The header of TCP, as far as whoever puts a stream together needs it. RFC 9293.
//!
//! ```text
//!  source port 2 | destination port 2 | sequence 4 | acknowledged 4 | words of the header, flags 2 | window 2 | checksum 2 | urgent 2
//! ```

use super::bytes::{Unreadable, network_u16, network_u32};

/// Bytes of the shortest header.
const LEAST_BYTES: usize = 20;
/// The flag of the first segment of a stream, which has a sequence number of its own.
const SYNCHRONISES: u16 = 0x02;

/// One segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// From which port.
    pub source_port: u16,
    /// To which port.
    pub destination_port: u16,
    /// The number of the first byte of the payload.
    pub sequence: u32,
    /// Whether a stream begins with it.
    pub begins: bool,
    /// Bytes of the header.
    pub bytes: usize,
}

/// Reads the header; `wire_bytes` is what the IP packet carried on the wire.
pub(super) fn read(bytes: &[u8], wire_bytes: usize) -> Result<Header, Unreadable> {
    if wire_bytes < LEAST_BYTES {
        return Err(Unreadable::Malformed);
    }
    let offset_and_flags = network_u16(bytes, 12)?;
    let header_bytes = usize::from(offset_and_flags >> 12) * 4;
    if !(LEAST_BYTES..=wire_bytes).contains(&header_bytes) {
        return Err(Unreadable::Malformed);
    }
    if bytes.len() < header_bytes {
        return Err(Unreadable::Short);
    }
    let begins = offset_and_flags & SYNCHRONISES != 0;
    Ok(Header {
        source_port: network_u16(bytes, 0)?,
        destination_port: network_u16(bytes, 2)?,
        sequence: network_u32(bytes, 4)?.wrapping_add(u32::from(begins)),
        begins,
        bytes: header_bytes,
    })
}
