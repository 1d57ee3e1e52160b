//! From a captured frame to a verdict: whose UDP datagram it is, and whether it is all there.
//!
//! ```text
//!  frame ─► link ─► ip ─┬─────────► udp ─► PacketVerdict { Ours | Filtered | Lost }
//!                       └ fragment ─► reassembly ─► udp
//! ```

use std::net::{IpAddr, SocketAddr};

use thalweg_data::LossReason;
use thalweg_transport::{ExpectedSenders, SenderAddress};

use super::bytes::Unreadable;
use super::ip::{self, Packet};
use super::record::Record;
use super::udp;

/// Which datagrams of a capture are this source's. What is not given is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcapFilter {
    /// The port that the datagrams were sent to.
    pub port: Option<u16>,
    /// The address that they were sent to.
    pub destination: Option<IpAddr>,
    /// Who sent them: boards, which are numbered by their position in the list. Ports are not looked at.
    pub senders: ExpectedSenders,
}

impl PcapFilter {
    /// Datagrams to this port, if there is one, from these addresses, if there are some.
    pub fn of(port: Option<u16>, from: &[IpAddr]) -> PcapFilter {
        let senders =
            ExpectedSenders::of(from.iter().map(|address| SenderAddress { address: *address, port: None }));
        PcapFilter { port, destination: None, senders }
    }

    /// The position of `source` among the senders whose packets to `destination` are asked for; `None` where they are not.
    pub(super) fn position(&self, source: IpAddr, destination: IpAddr) -> Option<u32> {
        let is_to = self.destination.is_none_or(|asked| asked == destination);
        self.senders.position(Some(SocketAddr::new(source, 0))).filter(|_| is_to)
    }
}

/// What is to be done with one packet or datagram. Bytes are those of the UDP payload on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketVerdict {
    /// It is ours: where its payload starts in what was judged, and how long it is.
    Ours { start: usize, bytes: usize },
    /// A UDP datagram that was not asked for.
    Filtered { bytes: usize },
    /// No UDP at all.
    NotUdp,
    /// It is ours, or may be, and cannot be passed on.
    Lost { reason: LossReason, bytes: usize },
}

/// A frame, read as far as its IP header.
#[derive(Debug)]
pub(super) struct Found {
    /// Where the IP header starts.
    pub ip: usize,
    /// The header.
    pub packet: Packet,
}

/// Reads a frame as far as the header of an IP packet with UDP.
pub(super) fn find(record: &Record, frame: &[u8]) -> Result<Found, Unreadable> {
    let found = find_packet(record, frame)?;
    if found.packet.protocol == ip::UDP { Ok(found) } else { Err(Unreadable::Other) }
}

/// Reads a frame as far as the header of an IP packet.
pub(super) fn find_packet(record: &Record, frame: &[u8]) -> Result<Found, Unreadable> {
    let ip = record.link.ok_or(Unreadable::Other)?.ip_offset(frame)?;
    let bytes = frame.get(ip..).ok_or(Unreadable::Short)?;
    let packet = Packet::read(bytes, record.wire.saturating_sub(ip))?;
    Ok(Found { ip, packet })
}

impl Found {
    /// Where in the frame the packet's captured payload lies.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> (usize, &'a [u8]) {
        let bytes = &frame[self.ip..];
        let captured = self.packet.captured(bytes);
        (self.ip + captured.start, &bytes[captured])
    }
}

/// The verdict on a packet that cannot be read as UDP.
pub(super) fn unreadable(record: &Record, why: Unreadable) -> PacketVerdict {
    match why {
        Unreadable::Other => PacketVerdict::NotUdp,
        Unreadable::Short => PacketVerdict::Lost { reason: short(record), bytes: 0 },
        Unreadable::Malformed => PacketVerdict::Lost { reason: LossReason::BadFraming, bytes: 0 },
    }
}

/// Why bytes of a packet are not here.
pub(super) fn short(record: &Record) -> LossReason {
    if record.captured == record.wire {
        // All of it was captured: the packet itself is too short for its headers.
        LossReason::BadFraming
    } else if record.larger_than_block {
        LossReason::TooLarge
    } else {
        LossReason::CaptureTruncated
    }
}

/// The verdict on a datagram by its port: `captured` starts with the UDP header, of `wire_bytes` on the wire; `missing`
/// is why bytes are missing, if some are. The first port seen becomes the port when none was asked for.
pub(super) fn judge(
    captured: &[u8],
    wire_bytes: usize,
    missing: LossReason,
    port: &mut Option<u16>,
) -> PacketVerdict {
    let header = match udp::read(captured, wire_bytes) {
        Ok(header) => header,
        Err(Unreadable::Short) => {
            let bytes = wire_bytes.saturating_sub(udp::HEADER_BYTES);
            return PacketVerdict::Lost { reason: missing, bytes };
        }
        Err(_) => return PacketVerdict::Lost { reason: LossReason::BadFraming, bytes: 0 },
    };
    let bytes = header.payload_bytes;
    if *port.get_or_insert(header.destination_port) != header.destination_port {
        return PacketVerdict::Filtered { bytes };
    }
    if captured.len() < udp::HEADER_BYTES + bytes {
        return PacketVerdict::Lost { reason: missing, bytes };
    }
    PacketVerdict::Ours { start: udp::HEADER_BYTES, bytes }
}
