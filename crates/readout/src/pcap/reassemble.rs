//! Puts IP fragments together, within stated limits of number, bytes and age.
//!
//! ```text
//!  fragments ─► Reassembly ─► a whole payload, where the parts lie one behind the other
//!                    └ too old, or too many at once ─► given up
//! ```
//! Parts may come in any order and twice. Bytes that arrive a second time are not compared.

use std::net::IpAddr;

use super::ip::{Fragment, Packet};

/// Payloads in the making at once; a board's own parts come one behind the other.
const MOST_SLOTS: usize = 32;
/// Bytes of the largest payload, from the lengths that IP can express.
const MOST_BYTES: usize = 65_536;
/// Packets of the capture after which parts that nothing joined are given up.
const MOST_AGE_PACKETS: u64 = 4096;
/// Offsets count in 8 bytes.
const UNIT: usize = 8;
const WORDS: usize = MOST_BYTES / UNIT / 64;

/// One payload in the making.
pub(super) struct Slot {
    /// Who sends it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    identification: u32,
    bytes: Vec<u8>,
    /// One bit per 8 bytes that a part has covered.
    covered: [u64; WORDS],
    covered_units: usize,
    /// Length of the whole, once the last part has come.
    end: Option<usize>,
    newest_packet: u64,
    /// Bytes that the parts had on the wire, doubles not counted.
    pub seen_bytes: usize,
    /// The capture held only the beginning of a part.
    pub short: bool,
    /// How many bytes from the start are there, of the first part.
    head_bytes: usize,
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Others are missing.
    Waiting,
    /// The payload in this slot is whole; [`Reassembly::remove`] it when done.
    Whole(usize),
    /// It says that it lies where no payload can reach.
    Malformed,
}

/// All payloads in the making.
#[derive(Default)]
pub(super) struct Reassembly {
    slots: Vec<Slot>,
    /// Memory of slots that are done.
    spare: Vec<Vec<u8>>,
}

impl Slot {
    fn new(packet: &Packet, identification: u32, bytes: Vec<u8>) -> Slot {
        Slot {
            source: packet.source,
            destination: packet.destination,
            identification,
            bytes,
            covered: [0; WORDS],
            covered_units: 0,
            end: None,
            newest_packet: 0,
            seen_bytes: 0,
            short: false,
            head_bytes: 0,
        }
    }

    fn matches(&self, packet: &Packet, identification: u32) -> bool {
        self.identification == identification
            && self.source == packet.source
            && self.destination == packet.destination
    }

    /// The captured beginning of the payload: as much as its first part held.
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.head_bytes]
    }

    /// The whole payload.
    pub fn whole(&self) -> &[u8] {
        &self.bytes[..self.end.unwrap_or(0)]
    }

    /// Bytes of the whole, when its end is known.
    pub fn end(&self) -> Option<usize> {
        self.end
    }

    fn add(&mut self, fragment: Fragment, captured: &[u8], wire_bytes: usize) -> bool {
        let end = fragment.offset + wire_bytes;
        self.short |= captured.len() < wire_bytes;
        if fragment.offset == 0 {
            self.head_bytes = self.head_bytes.max(captured.len());
        }
        if !fragment.more {
            self.end = Some(self.end.map_or(end, |known| known.max(end)));
        }
        self.bytes[fragment.offset..fragment.offset + captured.len()].copy_from_slice(captured);
        for unit in fragment.offset / UNIT..end.div_ceil(UNIT) {
            let (word, bit) = (unit / 64, 1 << (unit % 64));
            if self.covered[word] & bit == 0 {
                self.covered[word] |= bit;
                self.covered_units += 1;
                self.seen_bytes += UNIT.min(end - unit * UNIT);
            }
        }
        self.end.is_some_and(|end| self.covers(end.div_ceil(UNIT)))
    }

    /// Whether the first `units` are there, all of them: parts may lie beyond what the last part says is the end.
    fn covers(&self, units: usize) -> bool {
        let (words, rest) = (units / 64, units % 64);
        self.covered_units >= units
            && self.covered[..words].iter().all(|word| *word == u64::MAX)
            && (rest == 0 || self.covered[words].trailing_ones() as usize >= rest)
    }
}

impl Reassembly {
    /// Adds the part that `packet` is; `captured` are the bytes of its payload that the capture holds.
    pub fn take(&mut self, packet: &Packet, fragment: Fragment, captured: &[u8], now_packet: u64) -> Taken {
        let inside = fragment.offset + packet.payload_bytes <= MOST_BYTES;
        let whole_units = packet.payload_bytes.is_multiple_of(UNIT) || !fragment.more;
        if !inside || !whole_units || packet.payload_bytes == 0 {
            return Taken::Malformed;
        }
        let known = self.slots.iter().position(|slot| slot.matches(packet, fragment.identification));
        let index = known.unwrap_or_else(|| self.open(packet, fragment.identification));
        let slot = &mut self.slots[index];
        slot.newest_packet = now_packet;
        match slot.add(fragment, captured, packet.payload_bytes) {
            true => Taken::Whole(index),
            false => Taken::Waiting,
        }
    }

    fn open(&mut self, packet: &Packet, identification: u32) -> usize {
        let bytes = self.spare.pop().unwrap_or_else(|| vec![0; MOST_BYTES]);
        self.slots.push(Slot::new(packet, identification, bytes));
        self.slots.len() - 1
    }

    /// The payload that must be given up before the next fragment is taken: too old, or one too many.
    pub fn overdue(&self, now_packet: u64) -> Option<usize> {
        let (index, oldest) = self.slots.iter().enumerate().min_by_key(|(_, slot)| slot.newest_packet)?;
        let too_old = now_packet - oldest.newest_packet > MOST_AGE_PACKETS;
        (too_old || self.slots.len() >= MOST_SLOTS).then_some(index)
    }

    /// Any payload in the making, at the end of the capture.
    pub fn any(&self) -> Option<usize> {
        self.slots.len().checked_sub(1)
    }

    /// One payload.
    pub fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    /// Forgets a payload and keeps its memory for the next.
    pub fn remove(&mut self, index: usize) {
        self.spare.push(self.slots.swap_remove(index).bytes);
    }
}
