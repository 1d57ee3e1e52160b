//! A scope event that is too large to be passed on whole, and is passed on in parts.
//!
//! ```text
//!  | header |..........................................|    the event, over thousands of datagrams or many blocks
//!      │     └─ part 0 ─┘└─ part 1 ─┘└─ …
//!      └───────────┴─────────────┴──────── in front of each: a unit is the header and the rows of its part
//! ```
//! So no more than a part and the block of the header is held, however long the record. The event counts as a frame
//! when its last part is passed on. Of an event that breaks off, the frame is lost, and the bytes of the part that could
//! not be passed on; the parts before are hits that are no frame's.

use thalweg_data::record_part::MOST_RECORD_BYTES;
use thalweg_data::{Frames, Leases, Slice};

use crate::digitizer2::record_parts::RecordParts;
use crate::digitizer2::wire::{EventHeader, Format, ScopeHeader, WORD};

/// Most bytes of a part: enough that what comes with each part costs nothing beside its samples.
const MOST_PART_BYTES: u64 = 8 << 20;
/// Of what an incomplete event may hold, a part has this fraction: while one is completed, others are on their way.
const PARTS_HELD: u64 = 4;

/// The header of a scope event.
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
}

impl EventLimits {
    /// Of a receiver that can hold an incomplete event of `held_bytes`.
    pub fn of(held_bytes: u64) -> EventLimits {
        EventLimits {
            whole_bytes: held_bytes.min(MOST_RECORD_BYTES),
            part_bytes: (held_bytes / PARTS_HELD).min(MOST_PART_BYTES),
        }
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
        header.format() == Format::Scope
    }

    fn divide(self, header: &LargeHeader) -> Option<RecordParts> {
        RecordParts::of(scope_header(header), self.part_bytes)
    }

    /// Bytes of the first part of such an event, without its header; `None` if it cannot be divided.
    pub fn first_part_bytes(self, header: &LargeHeader) -> Option<u64> {
        self.divide(header).map(|parts| parts.bytes(0))
    }
}

/// The event whose parts are being passed on.
#[derive(Debug)]
pub(super) struct LargeEvent {
    /// Where its header lies.
    slices: Vec<Slice>,
    leases: Leases,
    header: EventHeader,
    parts: RecordParts,
    next: u16,
}

impl LargeEvent {
    /// Bytes of its header, which are read before the first part.
    pub const HEADER_BYTES: u64 = size_of::<LargeHeader>() as u64;

    /// The event whose header lies in these slices; `None` if it cannot be divided.
    pub fn new(slices: Vec<Slice>, from: &Leases, limits: EventLimits) -> Option<LargeEvent> {
        let (mut bytes, mut leases, mut at) = (LargeHeader::default(), Leases::default(), 0);
        for slice in &slices {
            bytes.get_mut(at..at + slice.length as usize)?.copy_from_slice(from.bytes(*slice));
            at += slice.length as usize;
            leases.add_for(*slice, from);
        }
        let (header, parts) = (scope_header(&bytes), limits.divide(&bytes)?);
        Some(LargeEvent { slices, leases, header: header.event(), parts, next: 0 })
    }

    /// The event's header word.
    pub fn header(&self) -> EventHeader {
        self.header
    }

    /// Bytes of the next part; 0 when all were passed on.
    pub fn next_bytes(&self) -> u64 {
        self.parts.bytes(self.next)
    }

    /// Whether a part was passed on.
    pub fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// Passes on the next part, whose rows lie in these slices, behind the event's header.
    pub fn pass_on(&mut self, rows: impl IntoIterator<Item = Slice>, units: &mut Frames) {
        let tag = self.parts.tag(self.next);
        self.next += 1;
        let chain = self.slices.iter().copied().chain(rows);
        units.slices.extend(chain.map(|slice| slice.tagged(tag | Slice::CONTINUES)));
        units.leases.add_all(&self.leases);
        if let Some(last) = units.slices.last_mut() {
            *last = last.tagged(tag);
        }
    }
}

#[cfg(test)]
mod tests;
