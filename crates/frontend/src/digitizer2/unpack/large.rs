//! An event that is too large to be passed on whole, and is passed on in parts: rows of a scope event, records of an aggregate.
//!
//! ```text
//!  | header |..........................................|    the event, over thousands of datagrams or many blocks
//!      │     └─ part 0 ─┘└─ part 1 ─┘└─ …
//!      └───────────┴─────────────┴──────── in front of each: a unit is the header and the bytes of its part
//! ```
//! So no more than a part and the block of the header is held, however long the record. The event counts as a frame
//! when its last part is passed on. Of an event that breaks off, the frame is lost, and the bytes of the part that could
//! not be passed on; the parts before are hits that are no frame's.

use thalweg_data::record_part::MOST_RECORD_BYTES;
use thalweg_data::{Frames, Leases, Slice};

use crate::digitizer2::Firmware;
use crate::digitizer2::cursor::Cursor;
use crate::digitizer2::record_parts::RecordParts;
use crate::digitizer2::records::{PartOfAggregate, whole_records};
use crate::digitizer2::wire::{EventHeader, Format, ScopeHeader, WORD};

/// Most bytes of a part: enough that what comes with each part costs nothing beside its samples.
const MOST_PART_BYTES: u64 = 8 << 20;
/// Of what an incomplete event may hold, a part has this fraction: while one is completed, others are on their way.
const PARTS_HELD: u64 = 4;

/// The header of a scope event; of an aggregate, the first word of it.
pub(super) type LargeHeader = [u8; ScopeHeader::WORDS * WORD];

fn scope_header(bytes: &LargeHeader) -> ScopeHeader {
    let word = |number: usize| bytes.as_chunks().0.get(number).map_or(0, |word| u64::from_be_bytes(*word));
    ScopeHeader(word(0), word(1), word(2))
}

/// How large an event may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventLimits {
    whole_bytes: u64,
    part_bytes: u64,
    /// The firmware of which aggregates are passed on in parts, too.
    aggregates_of: Option<Firmware>,
}

impl EventLimits {
    /// Of a receiver that can hold an incomplete event of `held_bytes`.
    pub fn of(held_bytes: u64) -> EventLimits {
        EventLimits {
            whole_bytes: held_bytes.min(MOST_RECORD_BYTES),
            part_bytes: (held_bytes / PARTS_HELD).min(MOST_PART_BYTES),
            aggregates_of: None,
        }
    }

    /// The same for a board of this firmware, whose aggregates are passed on in parts, too.
    pub fn dividing_aggregates(self, firmware: Firmware) -> EventLimits {
        EventLimits { aggregates_of: Some(firmware), ..self }
    }

    /// Whether an event is passed on whole.
    #[inline]
    pub fn take_whole(self, header: EventHeader) -> bool {
        header.byte_count() <= self.whole_bytes
    }

    /// The same for an event that does not fit with the packet headers between its bytes.
    pub fn without_whole(self) -> EventLimits {
        EventLimits { whole_bytes: 0, ..self }
    }

    /// Whether an event that is too large for that can be passed on in parts.
    pub fn take_parts(self, header: EventHeader) -> bool {
        header.format() == Format::Scope || self.divides_aggregate(header).is_some()
    }

    /// The firmware of an aggregate that is passed on in parts if it is too large.
    pub fn divides_aggregate(self, header: EventHeader) -> Option<Firmware> {
        self.aggregates_of.filter(|_| header.format() == Format::Aggregate)
    }

    fn divide(self, header: &LargeHeader) -> Option<Division> {
        let scope = scope_header(header);
        match self.divides_aggregate(scope.event()) {
            Some(firmware) => Some(Division::Records {
                firmware,
                left: scope.event().byte_count().checked_sub(WORD as u64)?,
                part_bytes: self.part_bytes,
                has_begun: false,
            }),
            None => RecordParts::of(scope, self.part_bytes).map(|parts| Division::Rows { parts, next: 0 }),
        }
    }

    /// Bytes of the first part of such an event, without its header; `None` if it cannot be divided.
    pub fn first_part_bytes(self, header: &LargeHeader) -> Option<u64> {
        self.divide(header).map(|division| division.next_bytes())
    }
}

/// How an event is divided, and how far it has been passed on.
#[derive(Clone, Copy, Debug)]
enum Division {
    /// A scope event: `parts` in order, of which `next` is the next.
    Rows { parts: RecordParts, next: u16 },
    /// An aggregate, of which so many bytes are `left`: up to `part_bytes` of whole records at a time.
    Records { firmware: Firmware, left: u64, part_bytes: u64, has_begun: bool },
}

impl Division {
    fn next_bytes(self) -> u64 {
        match self {
            Division::Rows { parts, next } => parts.bytes(next),
            Division::Records { left, part_bytes, .. } => left.min(part_bytes),
        }
    }

    /// Passes a part of so many bytes; gives its tag.
    fn pass(&mut self, bytes: u64) -> u32 {
        match self {
            Division::Rows { parts, next } => {
                *next += 1;
                parts.tag(*next - 1)
            }
            Division::Records { left, has_begun, .. } => {
                *left = left.saturating_sub(bytes);
                let is_first = !std::mem::replace(has_begun, true);
                PartOfAggregate { is_first, is_last: *left == 0 }.tag()
            }
        }
    }
}

/// How much of what was read of an aggregate can be passed on as its next part: the chain from its first record on, of which so many bytes
/// are needed to the end of the aggregate. `None` if not one record is whole.
pub(super) fn records_bytes(firmware: Firmware, chain: &[Slice], leases: &Leases, left: u64) -> Option<u64> {
    let cursor = Cursor::new(chain, leases)?;
    // What is damaged at the end of an aggregate is counted where it is decoded.
    let whole = match cursor.remaining() as u64 {
        bytes if bytes >= left => bytes as usize,
        _ => whole_records(firmware, cursor),
    };
    (whole > 0).then_some(whole as u64)
}

/// The event whose parts are being passed on.
#[derive(Debug)]
pub(super) struct LargeEvent {
    /// Where its header lies.
    slices: Vec<Slice>,
    leases: Leases,
    header: EventHeader,
    division: Division,
}

impl LargeEvent {
    /// Bytes of a scope event's header, which are read before the first part.
    pub const HEADER_BYTES: u64 = size_of::<LargeHeader>() as u64;

    /// Bytes of the header of an event of this kind.
    pub fn header_bytes(header: EventHeader) -> u64 {
        if header.format() == Format::Aggregate { WORD as u64 } else { Self::HEADER_BYTES }
    }

    /// The event whose header lies in these slices; `None` if it cannot be divided.
    pub fn new(slices: Vec<Slice>, from: &Leases, limits: EventLimits) -> Option<LargeEvent> {
        let (mut bytes, mut leases, mut at) = (LargeHeader::default(), Leases::default(), 0);
        for slice in &slices {
            bytes.get_mut(at..at + slice.length as usize)?.copy_from_slice(from.bytes(*slice));
            at += slice.length as usize;
            leases.add_for(*slice, from);
        }
        let (header, division) = (scope_header(&bytes), limits.divide(&bytes)?);
        Some(LargeEvent { slices, leases, header: header.event(), division })
    }

    /// The event's header word.
    pub fn header(&self) -> EventHeader {
        self.header
    }

    /// Bytes of the next part, of an aggregate at most; 0 when all were passed on.
    pub fn next_bytes(&self) -> u64 {
        self.division.next_bytes()
    }

    /// Of an aggregate, its firmware and the bytes of what was not passed on.
    pub fn records_left(&self) -> Option<(Firmware, u64)> {
        match self.division {
            Division::Rows { .. } => None,
            Division::Records { firmware, left, .. } => Some((firmware, left)),
        }
    }

    /// Whether a part was passed on.
    pub fn has_begun(&self) -> bool {
        match self.division {
            Division::Rows { next, .. } => next > 0,
            Division::Records { has_begun, .. } => has_begun,
        }
    }

    /// Passes on the next part, which lies in these slices, behind the event's header.
    pub fn pass_on(&mut self, part: &[Slice], units: &mut Frames) {
        let tag = self.division.pass(part.iter().map(|slice| u64::from(slice.length)).sum());
        let chain = self.slices.iter().chain(part).copied();
        units.slices.extend(chain.map(|slice| slice.tagged(tag | Slice::CONTINUES)));
        units.leases.add_all(&self.leases);
        if let Some(last) = units.slices.last_mut() {
            *last = last.tagged(tag);
        }
    }
}

#[cfg(test)]
mod tests;
