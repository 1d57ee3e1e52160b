//! Fields of built events as columns of numbers, and the bytes of their fragments where they were received.
//!
//! ```text
//!  Events ─ EventField ─► [ number number … ]      absent is not a number
//!     ├ EventField ─► [ integer integer … ]          of whole numbers that are compared exactly
//!     └ fragment ─► its slices ─► up to 8 bytes at an offset, also across slices
//! ```

use std::ops::Range;

use thalweg_data::{Event, Events, Fragment, Slice, SourceId};

use super::language::{EventCondition, EventField, FragmentField, Number, NumberKind, Sum};
use super::whole::WholeComparison;
use crate::cut::Real;
use crate::cut::evaluate::{CHUNK, Rows};

/// Some events of a batch.
#[derive(Clone, Copy)]
pub(super) struct EventRows<'e> {
    pub events: &'e Events,
    pub range: (usize, usize),
    /// The place of each event's first slice in the batch; empty where no bytes are asked for.
    pub first_slices: &'e [u32],
}

/// A fragment and its bytes.
#[derive(Clone, Copy)]
struct Part<'e> {
    fragment: &'e Fragment,
    slices: &'e [Slice],
}

/// Appends the place of each event's first slice in its batch.
pub(super) fn find_first_slices(events: &Events, first_slices: &mut Vec<u32>) {
    let mut next = 0;
    for (_, fragments) in events.iter() {
        first_slices.push(next);
        next += fragments.iter().map(|fragment| u32::from(fragment.slices)).sum::<u32>();
    }
}

impl<'e> EventRows<'e> {
    fn places(self) -> Range<usize> {
        self.range.0..self.range.1
    }

    fn events(self) -> &'e [Event] {
        &self.events.events[self.places()]
    }

    /// The fragment of a board in an event of the batch.
    fn part(self, place: usize, board: SourceId) -> Option<Part<'e>> {
        let fragments = self.events.fragments_of(&self.events.events[place]);
        let index = find(fragments, board)?;
        let first = self.first_slices.get(place).copied().unwrap_or_default() as usize;
        let before: usize = match self.first_slices.is_empty() {
            true => 0,
            false => fragments[..index].iter().map(|fragment| usize::from(fragment.slices)).sum(),
        };
        Some(self.part_at(&fragments[index], first + before))
    }

    fn part_at(self, fragment: &'e Fragment, first_slice: usize) -> Part<'e> {
        let slices = match self.first_slices.is_empty() {
            true => &[],
            false => &self.events.slices[first_slice..][..usize::from(fragment.slices)],
        };
        Part { fragment, slices }
    }

    /// The value of one board's fragment; not a number where there is none.
    fn of(self, place: usize, board: SourceId, field: FragmentField) -> f64 {
        self.part(place, board).and_then(|part| self.value(part, field)).unwrap_or(f64::NAN)
    }

    /// The values of an event's fragments.
    fn values<V>(self, place: usize, value: impl Fn(Part<'e>) -> Option<V>) -> impl Iterator<Item = V> {
        let mut next = self.first_slices.get(place).copied().unwrap_or_default() as usize;
        self.events.fragments_of(&self.events.events[place]).iter().filter_map(move |fragment| {
            let part = self.part_at(fragment, next);
            next += part.slices.len();
            value(part)
        })
    }

    /// What the fragments of an event that have a value make together; not a number where none has.
    fn of_all(self, place: usize, sum: Sum, field: FragmentField) -> f64 {
        let together = self.values(place, |part| self.value(part, field)).reduce(match sum {
            Sum::Least => f64::min,
            Sum::Most => f64::max,
            Sum::Total => |one, other| one + other,
        });
        together.unwrap_or(f64::NAN)
    }

    /// The value of a field of whole numbers; `None` where there is none, or the field is not whole.
    fn whole(self, place: usize, field: EventField) -> Option<i128> {
        let event = &self.events.events[place];
        match field {
            EventField::Trigger => Some(event.trigger.into()),
            EventField::Time => Some(i128::from(event.first_arrival.0) * 1000),
            EventField::Latency => Some(i128::from(event.closed.since_ns(event.first_arrival)) * 1000),
            EventField::Fragments => Some(event.fragments.into()),
            EventField::Missing => Some(event.missing.into()),
            EventField::Bytes => Some(event.bytes.into()),
            EventField::Attempt => Some(event.attempt.into()),
            EventField::Of(board, field) => {
                self.part(place, board).and_then(|part| self.whole_value(part, field))
            }
            EventField::OfAll(sum, field) => {
                self.values(place, |part| self.whole_value(part, field)).reduce(match sum {
                    Sum::Least => i128::min,
                    Sum::Most => i128::max,
                    Sum::Total => |one, other| one + other,
                })
            }
        }
    }

    fn value(self, part: Part<'_>, field: FragmentField) -> Option<f64> {
        match field {
            FragmentField::Bytes => Some(f64::from(part.fragment.bytes)),
            FragmentField::Ticks => Some(part.fragment.ticks as f64),
            FragmentField::Number(number, offset) => Some(number.value(self.number(part, number, offset)?)),
        }
    }

    fn whole_value(self, part: Part<'_>, field: FragmentField) -> Option<i128> {
        match field {
            FragmentField::Bytes => Some(part.fragment.bytes.into()),
            FragmentField::Ticks => Some(part.fragment.ticks.into()),
            FragmentField::Number(number, offset) => number.whole(self.number(part, number, offset)?),
        }
    }

    /// The bytes of a number.
    fn number(self, part: Part<'_>, number: Number, offset: u32) -> Option<[u8; 8]> {
        let mut bytes = [0; 8];
        self.read(part, offset, &mut bytes[..number.bytes])?;
        Some(bytes)
    }

    /// Copies the bytes at an offset of a fragment; `None` where it ends before.
    fn read(self, part: Part<'_>, offset: u32, bytes: &mut [u8]) -> Option<()> {
        let mut wanted = bytes;
        let mut skipped = offset as usize;
        for slice in part.slices {
            let own = self.events.leases.bytes(*slice);
            let Some(own) = own.get(skipped..) else {
                skipped -= own.len();
                continue;
            };
            skipped = 0;
            let (now, later) = wanted.split_at_mut(own.len().min(wanted.len()));
            now.copy_from_slice(&own[..now.len()]);
            wanted = later;
            if wanted.is_empty() {
                return Some(());
            }
        }
        None
    }

    fn bit(self, place: usize, board: SourceId, offset: u32, bit: u32) -> bool {
        let mut byte = [0];
        let read = self.part(place, board).and_then(|part| self.read(part, offset, &mut byte));
        read.is_some() && byte[0] >> bit & 1 == 1
    }
}

/// The place of a board's fragment among those of an event. Where every board has answered it is where it is expected.
fn find(fragments: &[Fragment], board: SourceId) -> Option<usize> {
    let first = fragments.first()?.source;
    let expected = usize::from(board.0.checked_sub(first.0)?);
    match fragments.get(expected) {
        Some(fragment) if fragment.source == board => Some(expected),
        _ => fragments.binary_search_by_key(&board, |fragment| fragment.source).ok(),
    }
}

impl Number {
    /// The first of these bytes as an unsigned number.
    fn unsigned(self, mut bytes: [u8; 8]) -> u64 {
        if self.is_big_endian {
            bytes[..self.bytes].reverse();
        }
        u64::from_le_bytes(bytes)
    }

    /// The same with the sign that its highest bit is.
    fn signed(self, unsigned: u64) -> i64 {
        let unused = 64 - 8 * self.bytes as u32;
        // Shifting back spreads the sign.
        (unsigned << unused) as i64 >> unused
    }

    /// The number in the first of these bytes.
    fn value(self, bytes: [u8; 8]) -> f64 {
        let unsigned = self.unsigned(bytes);
        match (self.kind, self.bytes) {
            (NumberKind::Unsigned, _) => unsigned as f64,
            (NumberKind::Signed, _) => self.signed(unsigned) as f64,
            (NumberKind::Real, 4) => f64::from(f32::from_bits(unsigned as u32)),
            (NumberKind::Real, _) => f64::from_bits(unsigned),
        }
    }

    /// The same exactly; `None` if it is not whole.
    fn whole(self, bytes: [u8; 8]) -> Option<i128> {
        let unsigned = self.unsigned(bytes);
        match self.kind {
            NumberKind::Unsigned => Some(unsigned.into()),
            NumberKind::Signed => Some(self.signed(unsigned).into()),
            NumberKind::Real => None,
        }
    }
}

impl Rows for EventRows<'_> {
    type Field = EventField;
    type Condition = EventCondition;

    fn range(self, range: Range<usize>) -> Self {
        EventRows { range: (self.range.0 + range.start, self.range.0 + range.end), ..self }
    }

    #[inline(always)]
    fn fill<T: Real>(self, field: EventField, column: &mut [T]) {
        match field {
            EventField::Trigger => each(self, column, |event| event.trigger as f64),
            EventField::Time => each(self, column, |event| event.first_arrival.0 as f64 * 1e3),
            EventField::Latency => {
                each(self, column, |event| event.closed.since_ns(event.first_arrival) as f64 * 1e3);
            }
            EventField::Fragments => each(self, column, |event| f64::from(event.fragments)),
            EventField::Missing => each(self, column, |event| f64::from(event.missing)),
            EventField::Bytes => each(self, column, |event| event.bytes as f64),
            EventField::Attempt => each(self, column, |event| f64::from(event.attempt)),
            EventField::Of(board, field) => at_each(self, column, |place| self.of(place, board, field)),
            EventField::OfAll(sum, field) => at_each(self, column, |place| self.of_all(place, sum, field)),
        }
    }

    #[inline(always)]
    fn ask<T: Real + Into<f64>>(
        self,
        condition: EventCondition,
        _columns: &mut [[T; CHUNK]],
        answers: &mut [u8],
    ) {
        let is_so = |place: usize| match condition {
            EventCondition::Closed(closing) => self.events.events[place].closing == closing,
            EventCondition::Present(board) => self.part(place, board).is_some(),
            EventCondition::Bit(board, offset, bit) => self.bit(place, board, offset, bit),
            EventCondition::Whole(WholeComparison::Bounds(field, low, high, is_inside)) => {
                self.whole(place, field).is_some_and(|value| (low <= value && value <= high) == is_inside)
            }
            EventCondition::Whole(WholeComparison::Fields(left, relation, right)) => {
                let sides = self.whole(place, left).zip(self.whole(place, right));
                sides.is_some_and(|(left, right)| relation.holds(left, right))
            }
        };
        answers.iter_mut().zip(self.places()).for_each(|(answer, place)| *answer = u8::from(is_so(place)));
    }
}

#[inline(always)]
fn each<T: Real>(rows: EventRows<'_>, column: &mut [T], value: impl Fn(&Event) -> f64) {
    column.iter_mut().zip(rows.events()).for_each(|(cell, event)| *cell = T::of(value(event)));
}

#[inline(always)]
fn at_each<T: Real>(rows: EventRows<'_>, column: &mut [T], value: impl Fn(usize) -> f64) {
    column.iter_mut().zip(rows.places()).for_each(|(cell, place)| *cell = T::of(value(place)));
}
