//! A checked view of a UDP datagram in its IP packet.
//!
//! ```text
//!  packet from its IP header on ─ every length checked ─► sender, destination, payload
//! ```
//! IPv4 (RFC 791), IPv6 (RFC 8200), UDP (RFC 768). Bytes behind the packet's own length are ignored, since Ethernet pads short
//! frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thalweg_data::LossReason;

const UDP: u8 = 17;
const FRAGMENT: u8 = 44;
const UDP_HEADER_BYTES: usize = 8;
const IPV6_HEADER_BYTES: usize = 40;

/// Addresses and payload of a UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) sender: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) payload: &'a [u8],
    /// UDP header and payload.
    segment: &'a [u8],
}

/// Reads a packet from its IP header on.
///
/// # Errors
/// When it is not a whole UDP datagram; the reason says as what it is counted.
pub(crate) fn parse(packet: &[u8]) -> Result<Datagram<'_>, LossReason> {
    let (addresses, segment) = match packet.first().map(|first| first >> 4) {
        Some(4) => ipv4(packet)?,
        Some(6) => ipv6(packet)?,
        Some(_) => return Err(LossReason::WrongConstant),
        None => return Err(LossReason::CaptureTruncated),
    };
    let half = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    if segment.len() < UDP_HEADER_BYTES {
        return Err(LossReason::BadLength);
    }
    let length = usize::from(half(4));
    let segment_bytes = segment.get(..length).ok_or(LossReason::BadLength)?;
    let payload = segment_bytes.get(UDP_HEADER_BYTES..).ok_or(LossReason::BadLength)?;
    Ok(Datagram {
        sender: SocketAddr::new(addresses[0], half(0)),
        destination: SocketAddr::new(addresses[1], half(2)),
        payload,
        segment: segment_bytes,
    })
}

/// The addresses of sender and destination, and the bytes behind the header.
fn ipv4(packet: &[u8]) -> Result<([IpAddr; 2], &[u8]), LossReason> {
    let header = packet.first_chunk::<20>().ok_or(LossReason::CaptureTruncated)?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (header_bytes, total) = (usize::from(header[0] & 15) * 4, usize::from(half(2)));
    if header_bytes < 20 || total < header_bytes {
        return Err(LossReason::BadLength);
    }
    // The flag "more fragments", or a fragment offset.
    if half(6) & 0x3FFF != 0 {
        return Err(LossReason::FragmentMissing);
    }
    if header[9] != UDP {
        return Err(LossReason::WrongConstant);
    }
    let body = packet.get(header_bytes..total).ok_or(LossReason::CaptureTruncated)?;
    let address =
        |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    Ok(([address(12), address(16)], body))
}

fn ipv6(packet: &[u8]) -> Result<([IpAddr; 2], &[u8]), LossReason> {
    let header = packet.first_chunk::<IPV6_HEADER_BYTES>().ok_or(LossReason::CaptureTruncated)?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    match header[6] {
        UDP => {}
        FRAGMENT => return Err(LossReason::FragmentMissing),
        _ => return Err(LossReason::WrongConstant),
    }
    let end = IPV6_HEADER_BYTES + length;
    let body = packet.get(IPV6_HEADER_BYTES..end).ok_or(LossReason::CaptureTruncated)?;
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    Ok(([address(8), address(24)], body))
}

impl Datagram<'_> {
    /// Whether the checksum is right, or absent (which IPv4 allows).
    pub(crate) fn checksum_is_right(&self) -> bool {
        let is_ipv4 = self.sender.is_ipv4();
        if is_ipv4 && self.segment[6..8] == [0, 0] {
            return true;
        }
        folded(self.pseudo_header_sum() + sum_of(self.segment)) == 0xFFFF
    }

    /// Whether the checksum covers only the pseudo header, as a sender writes it that leaves the rest to the network card. Such a
    /// datagram never left this host.
    pub(crate) fn checksum_is_unfinished(&self) -> bool {
        folded(self.pseudo_header_sum()) == u64::from(u16::from_be_bytes([self.segment[6], self.segment[7]]))
    }

    /// The sum of the pseudo header: addresses, protocol and length.
    fn pseudo_header_sum(&self) -> u64 {
        let mut sum = u64::from(UDP) + self.segment.len() as u64;
        for address in [self.sender.ip(), self.destination.ip()] {
            sum += match address {
                IpAddr::V4(address) => sum_of(&address.octets()),
                IpAddr::V6(address) => sum_of(&address.octets()),
            };
        }
        sum
    }
}

/// Adds the carries of a sum of 16-bit words to it.
fn folded(mut sum: u64) -> u64 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum
}

/// Sum of the 16-bit words; an odd last byte is padded with a zero (RFC 1071).
fn sum_of(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>() + last
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// "hello" from 10.0.0.1:1000 to 10.0.0.2:2000, with its checksum and three bytes of padding.
    fn packet() -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 33, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend([0x03, 0xE8, 0x07, 0xD0, 0, 13, 0, 0]);
        bytes.extend(b"hello");
        // In hexadecimal: 11 + d + a00 + 1 + a00 + 2 + 3e8 + 7d0 + d + 6865 + 6c6c + 6f00 = 163b7, folded 63b8.
        let checksum = !0x63B8u16;
        bytes[26..28].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend([9, 9, 9]);
        bytes
    }

    #[test]
    fn a_datagram_is_read_and_its_checksum_checked() {
        let mut bytes = packet();
        let datagram = parse(&bytes).expect("whole");
        assert_eq!(datagram.payload, b"hello");
        assert_eq!(datagram.sender, "10.0.0.1:1000".parse().expect("an address"));
        assert_eq!(datagram.destination, "10.0.0.2:2000".parse().expect("an address"));
        assert!(datagram.checksum_is_right());
        assert!(!datagram.checksum_is_unfinished());
        // In hexadecimal: 11 + d + a00 + 1 + a00 + 2.
        bytes[26..28].copy_from_slice(&0x1421u16.to_be_bytes());
        assert!(parse(&bytes).expect("whole").checksum_is_unfinished());
        bytes = packet();
        bytes[30] ^= 1;
        assert!(!parse(&bytes).expect("whole").checksum_is_right());
        bytes[26..28].fill(0);
        assert!(parse(&bytes).expect("whole").checksum_is_right(), "absent");
    }

    #[test]
    fn an_unreadable_packet_has_a_loss_reason() {
        let changed = |at: usize, value: u8| {
            let mut bytes = packet();
            bytes[at] = value;
            parse(&bytes).expect_err("lost")
        };
        assert_eq!(changed(0, 0x44), LossReason::BadLength, "a header of 16 bytes");
        assert_eq!(changed(0, 0x55), LossReason::WrongConstant);
        assert_eq!(changed(3, 10), LossReason::BadLength);
        assert_eq!(changed(3, 99), LossReason::CaptureTruncated);
        assert_eq!(changed(6, 0x20), LossReason::FragmentMissing);
        assert_eq!(changed(9, 6), LossReason::WrongConstant);
        assert_eq!(changed(25, 14), LossReason::BadLength, "UDP longer than its packet");
        assert_eq!(changed(25, 7), LossReason::BadLength);
        assert_eq!(parse(&[]).expect_err("nothing"), LossReason::CaptureTruncated);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
            mut bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            bytes.insert(0, first);
            if let Ok(datagram) = parse(&bytes) {
                datagram.checksum_is_right();
                datagram.checksum_is_unfinished();
            }
        }
    }
}
