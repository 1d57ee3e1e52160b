//! The pcap file format of tcpdump: one header, then packets.
//!
//! ```text
//!  file:   magic 4 | version 4 | zone 4 | accuracy 4 | snapshot length 4 | link type 4
//!  packet: seconds 4 | micro- or nanoseconds 4 | captured length 4 | length on the wire 4 | bytes
//! ```
//! Byte order and resolution follow from the magic number. Format: draft-ietf-opsawg-pcap.

use super::bytes::Order;
use super::link::{self, LinkType};
use super::record::{Found, Parsed, Record};

/// Bytes of the file's header.
pub(super) const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// Captured lengths beyond this and beyond the snapshot length are garbage: the largest that capture programs use.
const LARGEST_PACKET: u32 = 256 << 10;
/// Two records that follow each other were captured within this time.
pub(super) const LONGEST_PAUSE_S: u32 = 30 * 86_400;

/// What the file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classic {
    order: Order,
    fraction_ns: u64,
    snapshot: u32,
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
            snapshot,
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
        if captured > wire || wire == 0 {
            return Parsed::Damaged(format!("{captured} captured bytes of a packet of {wire}"));
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
            wire: wire as usize,
            total: total as u64,
        })
    }

    /// Looks for a record behind which another one stands that was captured around the same time, or the file ends. Bytes beyond
    /// those here can be had unless the file ends (`at_end`) or a block is full (`is_full`): then a record at the very start has to
    /// do alone.
    pub fn find(&self, bytes: &[u8], at_end: bool, is_full: bool) -> Found {
        for at in 0..bytes.len() {
            let rest = &bytes[at..];
            let all = at_end || is_full && at == 0;
            let header = match rest.first_chunk() {
                Some(header) => self.plausible(header),
                None if all => continue,
                None => return Found::Open(at),
            };
            let Some((seconds, total)) = header else { continue };
            match rest.get(total..).map(|next| (next.is_empty(), next.first_chunk())) {
                Some((true, _)) if at_end => return Found::Entry(at),
                Some((_, Some(next))) => match self.plausible(next) {
                    Some((then, _)) if then.abs_diff(seconds) <= LONGEST_PAUSE_S => return Found::Entry(at),
                    _ => {}
                },
                _ if all => return Found::Entry(at),
                _ => return Found::Open(at),
            }
        }
        Found::Open(bytes.len())
    }

    /// When the record was captured whose header could stand here, in seconds, and how long it is; `None` when none could.
    fn plausible(&self, header: &[u8; RECORD_HEADER_BYTES]) -> Option<(u32, usize)> {
        let field = |place| self.order.u32(header, place).ok();
        let (seconds, fraction, captured, wire) = (field(0)?, field(4)?, field(8)?, field(12)?);
        let is_plausible = (1..=self.largest_packet).contains(&captured)
            && wire <= self.largest_packet
            && (captured == wire || captured == self.snapshot && captured < wire)
            && u64::from(fraction) * self.fraction_ns < 1_000_000_000;
        is_plausible.then_some((seconds, RECORD_HEADER_BYTES + captured as usize))
    }
}
