//! The header of IP version 6, with the extension headers that may stand before UDP. RFC 8200.
//!
//! ```text
//!   0 version | 4 payload length | 6 next header | 8 source 16 | 24 destination 16 | 40 { extension }* UDP
//!  extension: next header 1 | length in 8 bytes, less one | …           fragment: 2 offset 13 bits, more | 4 identification
//! ```

use std::net::Ipv6Addr;

use super::bytes::{Unreadable, array, byte, network_u16, network_u32};
use super::ip::{Fragment, Packet};

const HEADER_BYTES: usize = 40;
/// More extension headers than are defined.
const MOST_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;

/// Reads the header and skips its extensions.
pub(super) fn read(bytes: &[u8], wire_bytes: usize) -> Result<Packet, Unreadable> {
    let end = match usize::from(network_u16(bytes, 4)?) {
        0 => wire_bytes,
        length => HEADER_BYTES + length,
    };
    let mut packet = Packet {
        protocol: byte(bytes, 6)?,
        source: Ipv6Addr::from(array::<16>(bytes, 8)?).into(),
        destination: Ipv6Addr::from(array::<16>(bytes, 24)?).into(),
        payload: HEADER_BYTES,
        payload_bytes: 0,
        fragment: None,
    };
    for _ in 0..MOST_EXTENSIONS {
        let place = packet.payload;
        let length = match packet.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY => {
                8 + 8 * usize::from(byte(bytes, place + 1)?)
            }
            AUTHENTICATION => 8 + 4 * usize::from(byte(bytes, place + 1)?),
            FRAGMENT => {
                packet.fragment = fragment(bytes, place)?;
                8
            }
            _ => break,
        };
        packet.protocol = byte(bytes, place)?;
        packet.payload += length;
        if packet.fragment.is_some() {
            // What follows is a part of something; offsets count from here.
            break;
        }
    }
    packet.payload_bytes = end.checked_sub(packet.payload).ok_or(Unreadable::Malformed)?;
    Ok(packet)
}

/// A fragment header; none when the packet is whole after all.
fn fragment(bytes: &[u8], place: usize) -> Result<Option<Fragment>, Unreadable> {
    let part = network_u16(bytes, place + 2)?;
    let (offset, more) = (usize::from(part & 0xFFF8), part & 1 != 0);
    let identification = network_u32(bytes, place + 4)?;
    Ok((offset > 0 || more).then_some(Fragment { identification, offset, more }))
}
