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
const FRAGMENT_HEADER_BYTES: usize = 8;

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

/// Sender and destination of a packet that need not be whole, such as a first fragment; `None` if they cannot be read.
pub(crate) fn endpoints(packet: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let ([sender, destination], header_bytes) = match packet.first()? >> 4 {
        4 => (ipv4_addresses(packet.first_chunk()?), usize::from(packet[0] & 15) * 4),
        6 => {
            let header = packet.first_chunk()?;
            let fragment_bytes = if header[6] == FRAGMENT { FRAGMENT_HEADER_BYTES } else { 0 };
            (ipv6_addresses(header), IPV6_HEADER_BYTES + fragment_bytes)
        }
        _ => return None,
    };
    let [s0, s1, d0, d1] = *packet.get(header_bytes..)?.first_chunk()?;
    let (sender_port, port) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
    Some((SocketAddr::new(sender, sender_port), SocketAddr::new(destination, port)))
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
    Ok((ipv4_addresses(header), body))
}

fn ipv4_addresses(header: &[u8; 20]) -> [IpAddr; 2] {
    [12, 16].map(|at| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3])))
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
    Ok((ipv6_addresses(header), body))
}

fn ipv6_addresses(header: &[u8; IPV6_HEADER_BYTES]) -> [IpAddr; 2] {
    [8, 24].map(|at| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    })
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

    #[test]
    fn the_endpoints_of_a_fragment_are_read() {
        let ends = |sender: &str, destination: &str| {
            Some((sender.parse().expect("an address"), destination.parse().expect("an address")))
        };
        let mut bytes = packet();
        bytes[6] = 0x20;
        assert_eq!(endpoints(&bytes), ends("10.0.0.1:1000", "10.0.0.2:2000"));
        assert_eq!(endpoints(&bytes[..23]), None, "a port is cut off");
        bytes[0] = 0x55;
        assert_eq!(endpoints(&bytes), None);
        // From fd00::1 to fd00::2: a fragment header, and the ports behind it.
        let mut bytes = vec![0; 52];
        (bytes[0], bytes[6], bytes[8], bytes[23], bytes[24], bytes[39]) = (0x60, FRAGMENT, 0xFD, 1, 0xFD, 2);
        bytes[48..52].copy_from_slice(&[0x03, 0xE8, 0x07, 0xD0]);
        assert_eq!(endpoints(&bytes), ends("[fd00::1]:1000", "[fd00::2]:2000"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
            mut bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            bytes.insert(0, first);
            endpoints(&bytes);
            if let Ok(datagram) = parse(&bytes) {
                datagram.checksum_is_right();
                datagram.checksum_is_unfinished();
            }
        }
    }
}
