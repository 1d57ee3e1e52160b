//! The pcapng file format of Wireshark: blocks, of which some hold packets and some say how to read them.
//!
//! ```text
//!  block: type 4 | length 4 | body, padded to 4 | length 4
//!  section header (byte order) ─► interface descriptions (link type, resolution) ─► packets, statistics
//! ```
//! Blocks of other types are skipped, however long. Format: draft-ietf-opsawg-pcapng.

use super::bytes::{Order, Unreadable, array};
use super::link::LinkType;
use super::record::{Found, Parsed, Record};

/// The blocks that are read.
const OF_USE: [u32; 6] = [
    INTERFACE_DESCRIPTION,
    OBSOLETE_PACKET,
    SIMPLE_PACKET,
    INTERFACE_STATISTICS,
    ENHANCED_PACKET,
    SECTION_HEADER,
];
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: [u8; 4] = [0x1A, 0x2B, 0x3C, 0x4D];
/// Bytes before a block's body.
const BLOCK_HEAD: usize = 8;
/// Bytes of the smallest block.
const SMALLEST_BLOCK: usize = 12;
/// Bytes from a body's start to the packet, in a packet block and in a simple one.
const PACKET_HEAD: usize = 20;
const SIMPLE_HEAD: usize = 4;

const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
const OPTION_DROPPED_BY_INTERFACE: u16 = 5;
const OPTION_DROPPED_BY_SYSTEM: u16 = 7;

/// Bytes that options add to a packet's block at most; with more its length is damaged.
const MOST_OPTION_BYTES: usize = 64 << 10;
/// Captured lengths beyond this are garbage: the largest that capture programs use.
const LARGEST_PACKET: usize = 256 << 10;

/// More interfaces than a capture has; others are not remembered, so that no file can fill the memory.
const MOST_INTERFACES: usize = 1024;

/// What one interface description says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface {
    link: Option<LinkType>,
    snapshot: u32,
    units_per_second: u128,
    offset_s: i64,
    dropped: u64,
}

/// The state of reading: what the blocks so far have said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
    dropped_before: u64,
}

impl Pcapng {
    /// Whether a file that begins so is of this format.
    pub fn open(bytes: &[u8]) -> Option<Pcapng> {
        let is_section = bytes.first_chunk() == Some(&SECTION_HEADER.to_be_bytes());
        is_section.then_some(Pcapng { order: Order::Little, interfaces: Vec::new(), dropped_before: 0 })
    }

    /// Packets that the capturing host says it dropped.
    pub fn dropped(&self) -> u64 {
        self.interfaces.iter().fold(self.dropped_before, |sum, each| sum.saturating_add(each.dropped))
    }

    /// Reads the block at the start of `bytes`; `all` when no more bytes can be had.
    pub fn parse(&mut self, bytes: &[u8], all: bool) -> Parsed {
        if bytes.is_empty() && all {
            return Parsed::End;
        }
        if bytes.len() < SMALLEST_BLOCK {
            return match all {
                true => Parsed::Damaged("the file ends within a block's header".to_owned()),
                false => Parsed::Need(SMALLEST_BLOCK),
            };
        }
        match self.parse_block(bytes, all) {
            Ok(parsed) => parsed,
            Err(_) if all => Parsed::Damaged("the file ends within a block".to_owned()),
            Err(_) => Parsed::Damaged("a block is too short for what it holds".to_owned()),
        }
    }

    fn parse_block(&mut self, bytes: &[u8], all: bool) -> Result<Parsed, Unreadable> {
        let kind = self.order.u32(bytes, 0)?;
        if kind == SECTION_HEADER {
            match array::<4>(bytes, BLOCK_HEAD)? {
                BYTE_ORDER_MAGIC => self.order = Order::Big,
                [0x4D, 0x3C, 0x2B, 0x1A] => self.order = Order::Little,
                other => {
                    return Ok(Parsed::Damaged(format!("a section with the byte-order mark {other:02x?}")));
                }
            }
        }
        let total = self.order.u32(bytes, 4)? as usize;
        if total < SMALLEST_BLOCK || !total.is_multiple_of(4) {
            return Ok(Parsed::Damaged(format!("a block of {total} bytes is no block")));
        }
        if bytes.len() < total && !all && OF_USE.contains(&kind) {
            return Ok(Parsed::Need(total));
        }
        if bytes.len() >= total && self.order.u32(bytes, total - 4)? as usize != total {
            return Ok(Parsed::Damaged(format!("a block of {total} bytes does not end so")));
        }
        let body = &bytes[BLOCK_HEAD..bytes.len().min(total - 4)];
        match kind {
            SECTION_HEADER => self.section(),
            INTERFACE_DESCRIPTION => self.describe(body)?,
            INTERFACE_STATISTICS => self.statistics(body)?,
            SIMPLE_PACKET => return self.simple_packet(body, total),
            ENHANCED_PACKET | OBSOLETE_PACKET => return self.packet(kind, body, total),
            _ => {}
        }
        Ok(Parsed::Skip(total as u64))
    }

    /// Looks for a block that is read here and that ends as it begins, or begins a section. Bytes beyond those here can be had unless
    /// the file ends (`at_end`) or a block is full (`is_full`).
    pub fn find(&self, bytes: &[u8], at_end: bool, is_full: bool) -> Found {
        for at in 0..bytes.len() {
            match self.ends_as_it_begins(&bytes[at..]) {
                Some(true) => return Found::Entry(at),
                Some(false) => {}
                None if at_end || is_full && at == 0 => {}
                None => return Found::Open(at),
            }
        }
        Found::Open(bytes.len())
    }

    /// Whether a block of a kind that is read stands here, with its length at both ends; `None` when there are too few bytes to say.
    fn ends_as_it_begins(&self, bytes: &[u8]) -> Option<bool> {
        let mut order = self.order;
        let kind = order.u32(bytes, 0).ok()?;
        if !OF_USE.contains(&kind) {
            return Some(false);
        }
        if kind == SECTION_HEADER {
            order = match array::<4>(bytes, BLOCK_HEAD).ok()? {
                BYTE_ORDER_MAGIC => Order::Big,
                [0x4D, 0x3C, 0x2B, 0x1A] => Order::Little,
                _ => return Some(false),
            };
        }
        let total = order.u32(bytes, 4).ok()? as usize;
        if total < SMALLEST_BLOCK || !total.is_multiple_of(4) || total > LARGEST_PACKET + MOST_OPTION_BYTES {
            return Some(false);
        }
        Some(order.u32(bytes, total - 4).ok()? as usize == total)
    }

    /// Whether a block of `total` bytes ends with these.
    pub fn is_end_of_block(&self, last: [u8; 4], total: u64) -> bool {
        self.order.u32(&last, 0).is_ok_and(|length| u64::from(length) == total)
    }

    fn section(&mut self) {
        self.dropped_before = self.dropped();
        self.interfaces.clear();
    }

    fn describe(&mut self, body: &[u8]) -> Result<(), Unreadable> {
        let mut interface = Interface {
            link: LinkType::from_number(u32::from(self.order.u16(body, 0)?)),
            snapshot: self.order.u32(body, 4)?,
            units_per_second: 1_000_000,
            offset_s: 0,
            dropped: 0,
        };
        self.options(&body[BLOCK_HEAD..], |order, code, value| match code {
            OPTION_RESOLUTION => {
                interface.units_per_second = value.first().map_or(1_000_000, |code| resolution(*code));
            }
            OPTION_OFFSET => interface.offset_s = order.u64(value, 0).map_or(0, |offset| offset as i64),
            _ => {}
        });
        if self.interfaces.len() < MOST_INTERFACES {
            self.interfaces.push(interface);
        }
        Ok(())
    }

    fn statistics(&mut self, body: &[u8]) -> Result<(), Unreadable> {
        let index = self.order.u32(body, 0)? as usize;
        let mut dropped = 0u64;
        self.options(body.get(12..).ok_or(Unreadable::Short)?, |order, code, value| {
            if [OPTION_DROPPED_BY_INTERFACE, OPTION_DROPPED_BY_SYSTEM].contains(&code) {
                dropped = dropped.saturating_add(order.u64(value, 0).unwrap_or(0));
            }
        });
        // Each report counts from the beginning: the latest stands for all.
        if let Some(interface) = self.interfaces.get_mut(index) {
            interface.dropped = dropped;
        }
        Ok(())
    }

    fn options(&self, mut bytes: &[u8], mut each: impl FnMut(Order, u16, &[u8])) {
        while let (Ok(code), Ok(length)) = (self.order.u16(bytes, 0), self.order.u16(bytes, 2)) {
            let length = usize::from(length);
            let Some(value) = bytes.get(4..4 + length) else { return };
            if code == 0 {
                return;
            }
            each(self.order, code, value);
            let Some(rest) = bytes.get(4 + length.next_multiple_of(4)..) else { return };
            bytes = rest;
        }
    }

    fn packet(&self, kind: u32, body: &[u8], total: usize) -> Result<Parsed, Unreadable> {
        let index = match kind {
            OBSOLETE_PACKET => usize::from(self.order.u16(body, 0)?),
            _ => self.order.u32(body, 0)? as usize,
        };
        let units = u64::from(self.order.u32(body, 4)?) << 32 | u64::from(self.order.u32(body, 8)?);
        let (promised, wire) = (self.order.u32(body, 12)? as usize, self.order.u32(body, 16)? as usize);
        let room = (total - SMALLEST_BLOCK).saturating_sub(PACKET_HEAD);
        if promised > room.min(LARGEST_PACKET) || room - promised > MOST_OPTION_BYTES {
            return Ok(Parsed::Damaged(format!("a packet of {promised} bytes in a block of {total}")));
        }
        let Some(interface) = self.interfaces.get(index) else {
            return Ok(Parsed::Damaged(format!(
                "a packet of interface {index}, of which the file says nothing"
            )));
        };
        Ok(Parsed::Record(Record {
            time_ns: interface.time_ns(units),
            link: interface.link,
            head: BLOCK_HEAD + PACKET_HEAD,
            captured: promised.min(body.len() - PACKET_HEAD),
            larger_than_block: false,
            wire: wire.max(promised),
            total: total as u64,
        }))
    }

    fn simple_packet(&self, body: &[u8], total: usize) -> Result<Parsed, Unreadable> {
        let wire = self.order.u32(body, 0)? as usize;
        let interface = self.interfaces.first();
        let snapshot = interface.map_or(0, |interface| interface.snapshot as usize);
        let room = (total - SMALLEST_BLOCK).saturating_sub(SIMPLE_HEAD);
        let promised = if snapshot == 0 { wire } else { wire.min(snapshot) }.min(room);
        Ok(Parsed::Record(Record {
            time_ns: None,
            link: interface.and_then(|interface| interface.link),
            head: BLOCK_HEAD + SIMPLE_HEAD,
            captured: promised.min(body.len() - SIMPLE_HEAD),
            larger_than_block: false,
            wire,
            total: total as u64,
        }))
    }
}

/// Units per second by the option's code: a negative power of 10, or of 2 with the top bit.
fn resolution(code: u8) -> u128 {
    match code {
        // Beyond what 64 bits of time could count for a second.
        0..=38 => 10u128.pow(u32::from(code)),
        128.. => 1 << (code & 127),
        _ => u128::MAX,
    }
}

impl Interface {
    fn time_ns(&self, units: u64) -> Option<u64> {
        let since_offset = i128::try_from(u128::from(units) * 1_000_000_000 / self.units_per_second).ok()?;
        let time = since_offset + i128::from(self.offset_s) * 1_000_000_000;
        Some(time.clamp(0, i128::from(u64::MAX)) as u64)
    }
}
