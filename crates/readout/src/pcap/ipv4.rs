//! The header of IP version 4, options included. RFC 791.
//!
//! ```text
//!   0 version 4 bits, header words 4 bits | 2 total length | 4 identification | 6 flags 3 bits, offset 13 bits
//!   9 protocol | 12 source | 16 destination | 20 options …
//! ```
//! The checksum is not verified: hosts that leave it to their network card capture packets without one.

use std::net::Ipv4Addr;

use super::bytes::{Unreadable, array, byte, network_u16};
use super::ip::{Fragment, Packet};

const SMALLEST_HEADER: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1FFF;

/// Reads the header.
pub(super) fn read(bytes: &[u8], wire_bytes: usize) -> Result<Packet, Unreadable> {
    let header_bytes = usize::from(byte(bytes, 0)? & 0x0F) * 4;
    let total_bytes = match usize::from(network_u16(bytes, 2)?) {
        // A card that cuts large packets itself is given one whose length does not fit: it fills the frame.
        0 => wire_bytes,
        total => total,
    };
    let payload_bytes = total_bytes.checked_sub(header_bytes).ok_or(Unreadable::Malformed)?;
    if header_bytes < SMALLEST_HEADER {
        return Err(Unreadable::Malformed);
    }
    let part = network_u16(bytes, 6)?;
    let (offset, more) = (usize::from(part & OFFSET_MASK) * 8, part & MORE_FRAGMENTS != 0);
    let identification = u32::from(network_u16(bytes, 4)?);
    Ok(Packet {
        protocol: byte(bytes, 9)?,
        source: Ipv4Addr::from(array::<4>(bytes, 12)?).into(),
        destination: Ipv4Addr::from(array::<4>(bytes, 16)?).into(),
        payload: header_bytes,
        payload_bytes,
        fragment: (offset > 0 || more).then_some(Fragment { identification, offset, more }),
    })
}
