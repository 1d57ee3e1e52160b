//! The pcap file format of tcpdump: one header, then packets.
//!
//! ```text
//!  file:   magic 4 | version 4 | zone 4 | accuracy 4 | snapshot length 4 | link type 4
//!  packet: seconds 4 | micro- or nanoseconds 4 | captured length 4 | length on the wire 4 | bytes
//! ```
//! Byte order and resolution follow from the magic number. Format: draft-ietf-opsawg-pcap.

use super::bytes::Order;
use super::link::{self, LinkType};
use super::record::{Parsed, Record};

/// Bytes of the file's header.
pub(super) const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// Captured lengths beyond this and beyond the snapshot length are garbage: the largest that capture programs use.
const LARGEST_PACKET: u32 = 256 << 10;

/// What the file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classic {
    order: Order,
    fraction_ns: u64,
    largest_packet: u32,
    link: LinkType,
}

impl Classic {
    /// Whether a file that begins so is of this format: its order, and nanoseconds per unit of the time's fraction.
    fn magic(bytes: &[u8]) -> Option<(Order, u64)> {
        match bytes.first_chunk()? {
            [0xA1, 0xB2, 0xC3, 0xD4] => Some((Order::Big, 1000)),
            [0xD4, 0xC3, 0xB2, 0xA1] => Some((Order::Little, 1000)),
            [0xA1, 0xB2, 0x3C, 0x4D] => Some((Order::Big, 1)),
            [0x4D, 0x3C, 0xB2, 0xA1] => Some((Order::Little, 1)),
            _ => None,
        }
    }

    /// Reads the file's header; none when it is not of this format.
    ///
    /// # Errors
    /// When the link type cannot be read, in words.
    pub fn open(bytes: &[u8]) -> Option<Result<Classic, String>> {
        let (order, fraction_ns) = Classic::magic(bytes)?;
        let (Ok(snapshot), Ok(number)) = (order.u32(bytes, 16), order.u32(bytes, 20)) else {
            return Some(Err("the file ends within its header".to_owned()));
        };
        let opened = LinkType::from_number(number).map(|link| Classic {
            order,
            fraction_ns,
            largest_packet: snapshot.max(LARGEST_PACKET),
            link,
        });
        Some(opened.ok_or_else(|| {
            format!("packets of link type {} cannot be read; known are {}", number & 0xFFFF, link::KNOWN)
        }))
    }

    /// Reads the packet at the start of `bytes`; `all` when no more bytes can be had.
    pub fn parse(&self, bytes: &[u8], all: bool) -> Parsed {
        if bytes.is_empty() && all {
            return Parsed::End;
        }
        let field = |place| self.order.u32(bytes, place);
        let (Ok(seconds), Ok(fraction), Ok(captured), Ok(wire)) = (field(0), field(4), field(8), field(12))
        else {
            return match all {
                true => Parsed::Damaged("the file ends within a packet's header".to_owned()),
                false => Parsed::Need(RECORD_HEADER_BYTES),
            };
        };
        if captured > self.largest_packet {
            return Parsed::Damaged(format!("a packet of {captured} bytes is no packet"));
        }
        let promised = captured as usize;
        let total = RECORD_HEADER_BYTES + promised;
        if bytes.len() < total && !all {
            return Parsed::Need(total);
        }
        Parsed::Record(Record {
            time_ns: Some(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns),
            link: Some(self.link),
            head: RECORD_HEADER_BYTES,
            captured: promised.min(bytes.len() - RECORD_HEADER_BYTES),
            larger_than_block: false,
            wire: promised.max(wire as usize),
            total: total as u64,
        })
    }
}
