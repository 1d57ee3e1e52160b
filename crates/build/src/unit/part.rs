//! Events on their way to another unit: a readout unit's part of a range, or a batch for the next level.
//!
//! ```text
//!  head:    header │ epoch start from until payload length fragments readout attempt flags │ per event: row, fragments, missing
//!  payload: the bytes of all fragments, in order, straight from the blocks
//! ```
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 16 | header of every message; `items` is the number of events |
//! | 16 | 8 × 5 | epoch, first trigger of the range, triggers `from` ‥ `until` covered here, bytes of payload |
//! | 56 | 4, 4 | length of the range, number of fragments |
//! | 64 | 2, 1, 1, 4 | readout unit, attempt, flags (1: nothing follows of this range; 2: the rest is lost), 0 |
//! | 72 | 32 each | event: trigger, first arrival, closed (8 each), fragments (4), missing (2), closing (1), attempt (1) |
//! | | 16 each | … its fragments: ticks (8), bytes (4), source (2), 0 (2) |
//! | | 2 each | … its missing sources |
//!
//! The transport may cut the payload where it likes: fragments are found by their lengths, and one that a cut goes through
//! has two slices.

use std::ops::Range;

use thalweg_data::{Closing, Event, Events, Fragment, Message, Slice, SourceId, UnitId};

use super::Assignment;
use super::message::{self, HEADER_BYTES, Kind, u16_at, u32_at, u64_at};
use super::store::Table;

const FIXED_BYTES: usize = 72;
const EVENT_BYTES: usize = 32;
pub(super) const FRAGMENT_BYTES: usize = 16;
pub(super) const MISSING_BYTES: usize = 2;
const LAST: u8 = 1;
const LOST: u8 = 2;

/// A part that contradicts itself, or does not belong here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The tables do not fill the head exactly.
    #[error("a part of {events} events has a head of {bytes} bytes, which its tables do not fill")]
    Tables {
        /// Events that it names.
        events: u32,
        /// Length of the head.
        bytes: usize,
    },
    /// The fragments' lengths do not add up to the payload.
    #[error("a part has {seen} bytes of payload, its fragments {announced}; the connection is to be closed")]
    Payload {
        /// What came.
        seen: u64,
        /// What the fragments say.
        announced: u64,
    },
    /// A range or trigger that cannot be.
    #[error("a part has an event of trigger {trigger} outside of its triggers or out of order")]
    Trigger {
        /// The trigger.
        trigger: u64,
    },
    /// A source that does not belong to the sender.
    #[error(
        "a part has {source_id}, which does not belong to its sender or stands twice; compare the configurations of the hosts"
    )]
    Source {
        /// The source.
        source_id: SourceId,
    },
    /// A field whose value is not possible.
    #[error("a part has an impossible {field}")]
    Field {
        /// Which field.
        field: &'static str,
    },
}

/// What a part says before its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHead {
    /// Epoch of the assignment, as the readout unit knows it.
    pub epoch: u64,
    /// The range as it was assigned; `builder` is not sent.
    pub range: Assignment,
    /// Who sends.
    pub readout: UnitId,
    /// Triggers from here …
    pub from: u64,
    /// … to below here are covered: one that is not among the events has nothing of this unit.
    pub until: u64,
    /// The rest of the range will not come: the readout unit has been restarted since, and does not have it.
    pub lost: bool,
}

impl PartHead {
    /// Whether nothing follows of this range from this readout unit.
    pub fn is_last(&self) -> bool {
        self.lost || self.until == self.range.end()
    }
}

/// Writes a part, event by event.
#[derive(Debug)]
pub(super) struct PartWriter<'a> {
    message: &'a mut Message,
    head: PartHead,
    events: u32,
    fragments: u32,
    payload: u64,
}

impl<'a> PartWriter<'a> {
    pub fn new(message: &'a mut Message, run: u32, head: PartHead) -> PartWriter<'a> {
        message.clear();
        message::begin(&mut message.head, Kind::Part, run);
        message.head.resize(FIXED_BYTES, 0);
        PartWriter { message, head, events: 0, fragments: 0, payload: 0 }
    }

    /// Appends one event. The leases of its slices are the caller's to add, batch by batch.
    pub fn event(&mut self, event: &Event, fragments: &[Fragment], missing: &[SourceId], slices: &[Slice]) {
        let head = &mut self.message.head;
        let mut row = [0; EVENT_BYTES];
        row[..8].copy_from_slice(&event.trigger.to_le_bytes());
        row[8..16].copy_from_slice(&event.first_arrival.0.to_le_bytes());
        row[16..24].copy_from_slice(&event.closed.0.to_le_bytes());
        row[24..28].copy_from_slice(&(fragments.len() as u32).to_le_bytes());
        row[28..30].copy_from_slice(&(missing.len() as u16).to_le_bytes());
        row[30] = event.closing as u8;
        row[31] = event.attempt;
        head.extend_from_slice(&row);
        head.reserve(fragments.len() * FRAGMENT_BYTES);
        for fragment in fragments {
            let mut row = [0; FRAGMENT_BYTES];
            row[..8].copy_from_slice(&fragment.ticks.to_le_bytes());
            row[8..12].copy_from_slice(&fragment.bytes.to_le_bytes());
            row[12..14].copy_from_slice(&fragment.source.0.to_le_bytes());
            head.extend_from_slice(&row);
            self.payload += u64::from(fragment.bytes);
        }
        missing.iter().for_each(|source| head.extend_from_slice(&source.0.to_le_bytes()));
        slices.iter().for_each(|slice| append_slice(&mut self.message.slices, *slice));
        self.events += 1;
        self.fragments += fragments.len() as u32;
    }

    pub fn message(&mut self) -> &mut Message {
        self.message
    }

    /// Bytes of payload and head so far.
    pub fn bytes(&self) -> (u64, usize) {
        (self.payload, self.message.head.len())
    }

    /// Ends the part: it covers the triggers to below `until`.
    pub fn finish(self, until: u64) {
        let PartHead { epoch, range, readout, from, lost, .. } = self.head;
        let last = lost || until == range.end();
        let head = &mut self.message.head;
        head[8..12].copy_from_slice(&self.events.to_le_bytes());
        for (index, number) in [epoch, range.start, from, until, self.payload].into_iter().enumerate() {
            head[HEADER_BYTES + 8 * index..][..8].copy_from_slice(&number.to_le_bytes());
        }
        head[56..60].copy_from_slice(&range.length.to_le_bytes());
        head[60..64].copy_from_slice(&self.fragments.to_le_bytes());
        head[64..66].copy_from_slice(&readout.0.to_le_bytes());
        head[66] = range.attempt;
        head[67] = (LAST * u8::from(last)) | (LOST * u8::from(lost));
    }
}

/// Appends a slice, to the last one where it goes on there: fragments that were received one behind the other leave in one slice, and
/// the head says how it is divided.
fn append_slice(slices: &mut Vec<Slice>, slice: Slice) {
    if let Some(last) = slices.last_mut()
        && (last.block, last.tag) == (slice.block, slice.tag)
        && last.end() == slice.offset as usize
        && let Some(length) = last.length.checked_add(slice.length)
    {
        last.length = length;
    } else {
        slices.push(slice);
    }
}

/// A part that was read: its head, and tables whose lengths are right.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What it says before its events.
    pub head: PartHead,
    /// How many events it has.
    pub events: u32,
    /// How many fragments they have.
    pub fragments: u32,
    /// Bytes of payload.
    pub payload_bytes: u64,
    pub(super) tables: &'a [u8],
    /// The trigger of its last event.
    pub(super) last_trigger: Option<u64>,
}

/// One event's place in the tables.
pub(super) struct Row<'a> {
    pub trigger: u64,
    pub event: &'a [u8; EVENT_BYTES],
    pub fragments: &'a [[u8; FRAGMENT_BYTES]],
    pub missing: &'a [[u8; MISSING_BYTES]],
}

/// Cuts the next event off the tables.
#[inline]
pub(super) fn next_row<'a>(tables: &mut &'a [u8]) -> Option<Row<'a>> {
    let (event, rest) = tables.split_first_chunk::<EVENT_BYTES>()?;
    let (fragments, rest) = rest.split_at_checked(FRAGMENT_BYTES * u32_at(event, 24) as usize)?;
    let (missing, rest) = rest.split_at_checked(MISSING_BYTES * usize::from(u16_at(event, 28)))?;
    *tables = rest;
    let (fragments, missing) = (fragments.as_chunks().0, missing.as_chunks().0);
    Some(Row { trigger: u64_at(event, 0), event, fragments, missing })
}

impl<'a> Part<'a> {
    /// Reads and checks the tables of a message that says it is a part.
    pub(super) fn read(message: &'a Message) -> Result<Part<'a>, PartError> {
        let head = message.head.as_slice();
        let events = u32_at(head, 8);
        let wrong = PartError::Tables { events, bytes: head.len() };
        let (fixed, tables) = head.split_at_checked(FIXED_BYTES).ok_or(wrong)?;
        let range = Assignment {
            start: u64_at(fixed, 16),
            length: u32_at(fixed, 56),
            builder: Assignment::NOBODY,
            attempt: fixed[66],
            written: false,
        };
        let mut part = Part {
            head: PartHead {
                epoch: u64_at(fixed, HEADER_BYTES),
                range: Assignment { start: u64_at(fixed, 24), ..range },
                readout: UnitId(u16_at(fixed, 64)),
                from: u64_at(fixed, 32),
                until: u64_at(fixed, 40),
                lost: fixed[67] & LOST != 0,
            },
            events,
            fragments: u32_at(fixed, 60),
            payload_bytes: u64_at(fixed, 48),
            tables,
            last_trigger: None,
        };
        part.check_range()?;
        part.last_trigger = part.check_tables(wrong)?;
        let seen = message.payload_bytes();
        if seen != part.payload_bytes {
            return Err(PartError::Payload { seen, announced: part.payload_bytes });
        }
        Ok(part)
    }

    fn check_range(&self) -> Result<(), PartError> {
        let PartHead { range, from, until, .. } = self.head;
        let end = range.start.checked_add(u64::from(range.length));
        let possible = (1..=Assignment::LONGEST).contains(&range.length)
            && end.is_some_and(|end| range.start <= from && from <= until && until <= end);
        if possible { Ok(()) } else { Err(PartError::Field { field: "range" }) }
    }

    /// Checks that the tables agree with each other and with the head; returns the last trigger.
    fn check_tables(&self, wrong: PartError) -> Result<Option<u64>, PartError> {
        let mut tables = self.tables;
        let (mut lowest, mut last) = (self.head.from, None);
        let (mut fragments, mut payload) = (0u64, 0u64);
        for _ in 0..self.events {
            let row = next_row(&mut tables).ok_or(wrong)?;
            if row.trigger < lowest || row.trigger >= self.head.until {
                return Err(PartError::Trigger { trigger: row.trigger });
            }
            (lowest, last) = (row.trigger + 1, Some(row.trigger));
            Closing::from_number(row.event[30]).ok_or(PartError::Field { field: "closing" })?;
            fragments += row.fragments.len() as u64;
            payload += row.fragments.iter().map(|fragment| u64::from(u32_at(fragment, 8))).sum::<u64>();
        }
        if !tables.is_empty() || fragments != u64::from(self.fragments) {
            return Err(wrong);
        }
        if payload != self.payload_bytes {
            return Err(PartError::Payload { seen: self.payload_bytes, announced: payload });
        }
        Ok(last)
    }

    /// Checks that the sources of each event ascend, and are among these.
    pub(super) fn check_sources(&self, sources: &Range<u16>) -> Result<(), PartError> {
        let mut tables = self.tables;
        while let Some(row) = next_row(&mut tables) {
            let mut lowest = sources.start;
            for fragment in row.fragments {
                let source_id = SourceId(u16_at(fragment, 12));
                if source_id.0 < lowest || source_id.0 >= sources.end {
                    return Err(PartError::Source { source_id });
                }
                lowest = source_id.0 + 1;
            }
            let missing = row.missing.iter().map(|source| u16::from_le_bytes(*source));
            if let Some(source) = missing.clone().find(|source| !sources.contains(source)) {
                return Err(PartError::Source { source_id: SourceId(source) });
            }
        }
        Ok(())
    }
}

/// Appends one event of a batch to a part. The leases are added batch by batch: finer would cost a look per slice.
pub(super) fn append_event(part: &mut PartWriter<'_>, table: &Table, index: usize) {
    let Table { events, spans } = table;
    let event = &events.events[index];
    let (first, count) = spans[index];
    let slices = &events.slices[first as usize..][..count as usize];
    part.event(event, events.fragments_of(event), events.missing_of(event), slices);
}

/// The places of the slices of each event of a batch.
pub(super) fn spans_of(events: &Events, spans: &mut Vec<(u32, u32)>) {
    spans.clear();
    let mut first = 0;
    // Fragments stand event by event, and slices fragment by fragment, so one walk finds all.
    let mut fragment = 0;
    for event in &events.events {
        // What stands before an event's fragments and belongs to no event is stepped over.
        while fragment < event.first_fragment as usize {
            first += u32::from(events.fragments[fragment].slices);
            fragment += 1;
        }
        let count: u32 = events.fragments_of(event).iter().map(|each| u32::from(each.slices)).sum();
        spans.push((first, count));
        first += count;
        fragment += event.fragments as usize;
    }
}
