//! Writes datagrams and segments as a capture that any program can read: for tests, and to hand a run on as a file.
//!
//! ```text
//!  (time, from, to, payload) ─► UDP, TCP ─► IPv4 or IPv6 ─► Ethernet ─► pcap file, nanoseconds
//! ```
//! The capture is as if taken on the wire: all checksums are right. The Ethernet addresses are made up.

use std::io::{Error, ErrorKind, Result, Write};
use std::net::{IpAddr, SocketAddr};

use super::ip;

const ETHERNET_LINK: u32 = 1;
const SNAPSHOT_BYTES: u32 = 256 << 10;
/// Locally administered, so that they belong to no device.
const ETHERNET_ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
const TIME_TO_LIVE: u8 = 64;

/// A pcap file in the making.
#[derive(Debug)]
pub struct CaptureWriter<W: Write> {
    output: W,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(output: W) -> Result<CaptureWriter<W>> {
        let mut writer = CaptureWriter { output };
        writer.output.write_all(&file_header(ETHERNET_LINK))?;
        Ok(writer)
    }

    /// Appends a datagram that was sent at `time_ns` since 1970.
    ///
    /// # Errors
    /// When the addresses are of different families, the payload is longer than IP allows, the time is beyond 2106, or
    /// the file cannot be written.
    pub fn datagram(&mut self, time_ns: u64, from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Result<()> {
        let packet = ip_packet(from, to, payload)?;
        let frame = ethernet_frame(&packet);
        self.frame(time_ns, frame.len(), &frame)
    }

    /// Appends a segment of a TCP stream that was sent at `time_ns` since 1970; `sequence` is the number of its first byte.
    ///
    /// # Errors
    /// As of a datagram.
    pub fn segment(
        &mut self,
        time_ns: u64,
        (from, to): (SocketAddr, SocketAddr),
        sequence: u32,
        payload: &[u8],
    ) -> Result<()> {
        let frame = ethernet_frame(&tcp_packet(from, to, sequence, payload)?);
        self.frame(time_ns, frame.len(), &frame)
    }

    /// Appends a frame as it is, of which `wire_bytes` were on the wire.
    ///
    /// # Errors
    /// When the time is beyond 2106, or the file cannot be written.
    pub fn frame(&mut self, time_ns: u64, wire_bytes: usize, captured: &[u8]) -> Result<()> {
        let seconds = u32::try_from(time_ns / 1_000_000_000)
            .map_err(|_| Error::new(ErrorKind::InvalidInput, "a pcap file ends in 2106"))?;
        let nanoseconds = (time_ns % 1_000_000_000) as u32;
        for field in [seconds, nanoseconds, captured.len() as u32, wire_bytes as u32] {
            self.output.write_all(&field.to_le_bytes())?;
        }
        self.output.write_all(captured)
    }

    /// Ends the file and gives back what it was written to.
    ///
    /// # Errors
    /// When the rest cannot be written.
    pub fn finish(mut self) -> Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

/// The header of a little-endian file with nanoseconds.
pub(super) fn file_header(link_type: u32) -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&[0x4D, 0x3C, 0xB2, 0xA1]);
    header[4..8].copy_from_slice(&[2, 0, 4, 0]);
    header[16..20].copy_from_slice(&SNAPSHOT_BYTES.to_le_bytes());
    header[20..].copy_from_slice(&link_type.to_le_bytes());
    header
}

/// An IP packet behind an Ethernet header of its kind.
pub(super) fn ethernet_frame(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet.first().is_some_and(|byte| byte >> 4 == 6) { [0x86, 0xDD] } else { [8, 0] };
    [&ETHERNET_ADDRESSES[..], &kind, packet].concat()
}

/// A datagram as an IP packet.
pub(super) fn ip_packet(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Result<Vec<u8>> {
    let length = u16::try_from(payload.len() + 8).map_err(|_| too_long())?;
    let header: Vec<u8> =
        [from.port(), to.port(), length, 0].into_iter().flat_map(u16::to_be_bytes).collect();
    in_ip((from.ip(), to.ip()), (ip::UDP, 6), [&header, payload].concat())
}

/// A segment of a stream as an IP packet, acknowledged by nobody.
fn tcp_packet(from: SocketAddr, to: SocketAddr, sequence: u32, payload: &[u8]) -> Result<Vec<u8>> {
    const WORDS_PUSHED: u16 = 5 << 12 | 0x08;
    let mut header: Vec<u8> = [from.port(), to.port()].into_iter().flat_map(u16::to_be_bytes).collect();
    header.extend(sequence.to_be_bytes());
    header.extend([0; 4]);
    header.extend([WORDS_PUSHED, u16::MAX, 0, 0].into_iter().flat_map(u16::to_be_bytes));
    in_ip((from.ip(), to.ip()), (ip::TCP, 16), [&header, payload].concat())
}

fn too_long() -> Error {
    Error::new(ErrorKind::InvalidInput, "the payload is longer than IP allows")
}

/// A datagram or segment behind an IP header; of its protocol, the number and the place of its checksum.
fn in_ip(
    ends: (IpAddr, IpAddr),
    (protocol, checksum_at): (u8, usize),
    mut content: Vec<u8>,
) -> Result<Vec<u8>> {
    let length = u16::try_from(content.len()).map_err(|_| too_long())?;
    let addresses = match ends {
        (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
        (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
        _ => return Err(Error::new(ErrorKind::InvalidInput, "both addresses must be of one family")),
    };
    let pseudo_header = [&addresses[..], &[0, protocol], &length.to_be_bytes()].concat();
    // A sum of 0 is written as its other form: 0 says that there is none.
    let sum = match checksum([&pseudo_header[..], &content].concat().as_slice()) {
        0 => 0xFFFF,
        sum => sum,
    };
    content[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut packet = if addresses.len() == 8 {
        let total = length.checked_add(20).ok_or_else(too_long)?.to_be_bytes();
        let mut header =
            [&[0x45, 0, total[0], total[1], 0, 0, 0, 0, TIME_TO_LIVE, protocol, 0, 0], &addresses[..]]
                .concat();
        let sum = checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        header
    } else {
        let length = length.to_be_bytes();
        [&[0x60, 0, 0, 0, length[0], length[1], protocol, TIME_TO_LIVE], &addresses[..]].concat()
    };
    packet.extend(content);
    Ok(packet)
}

/// The internet checksum. RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum = bytes.chunks(2).map(word).fold(0u64, |sum, word| sum + u64::from(word));
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    !(sum as u16)
}
