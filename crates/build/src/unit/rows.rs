//! Events of parts in the form in which they came, until they are put together.
//!
//! ```text
//!  Part ─ append: checked, tables and slices copied as a whole ─► Rows ─ take, event by event ─► fragments, slices, missing of Events
//! ```
//! Each row becomes entries of a batch once, when its event is passed on. What waits for the parts of other units until then
//! are bytes that are read from front to back, 48 of an event with one fragment.

use std::ops::Range;

use thalweg_data::{Closing, Event, Events, Fragment, Leases, Mark, Message, Slice, SourceId};

use super::message::{u16_at, u32_at, u64_at};
use super::part::{FRAGMENT_BYTES, MISSING_BYTES, Part, PartError, next_row};

/// Events of one or several parts, of which the first ones may be taken already.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The tables of all parts, one behind the other.
    tables: Vec<u8>,
    /// Where the next row begins.
    at: usize,
    payload: Payload,
    leases: Leases,
    last_trigger: Option<u64>,
}

/// The bytes of the fragments in their order, and how far they are taken.
#[derive(Debug, Default)]
struct Payload {
    slices: Vec<Slice>,
    /// The slice in which the next fragment begins, and how many bytes of it are taken.
    next: usize,
    offset: usize,
}

impl Rows {
    /// Appends the events of triggers from `lowest` on; all sources must be among `sources`. Returns fragments and bytes that were left
    /// out because their triggers are below `lowest`.
    ///
    /// # Errors
    /// When a source is not among them, or a fragment has too many slices; then nothing was appended.
    pub fn append(
        &mut self,
        part: &Part<'_>,
        message: &Message,
        lowest: u64,
        sources: &Range<u16>,
    ) -> Result<(u64, u64), PartError> {
        part.check_sources(sources)?;
        let mut tables = part.tables;
        let (mut left_out, mut rest) = ((0, 0), tables);
        while let Some(row) = next_row(&mut tables).filter(|row| row.trigger < lowest) {
            for fragment in row.fragments {
                left_out.0 += 1;
                left_out.1 += u64::from(u32_at(fragment, 8));
            }
            rest = tables;
        }
        let mut payload = Payload::default();
        let slices = match left_out {
            (_, 0) => message.slices.as_slice(),
            (_, bytes) => {
                payload.slices.clone_from(&message.slices);
                payload.leave_out(bytes);
                &payload.slices
            }
        };
        // Only a message of more slices than a fragment can have can have such a fragment.
        if slices.len() > usize::from(u16::MAX) {
            check_slices(rest, slices)?;
        }
        self.tables.extend_from_slice(rest);
        self.payload.slices.extend_from_slice(slices);
        self.leases.add_all(&message.leases);
        if !rest.is_empty() {
            self.last_trigger = part.last_trigger;
        }
        Ok(left_out)
    }

    /// The trigger of the next event.
    #[inline]
    pub fn next_trigger(&self) -> Option<u64> {
        let row = self.tables.get(self.at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*row))
    }

    /// The trigger of the last event, taken or not.
    pub fn last_trigger(&self) -> Option<u64> {
        self.last_trigger
    }

    /// Appends the entries of the next event to those of `events`, and returns the event itself, which the caller adds.
    #[inline]
    pub fn take(&mut self, events: &mut Events) -> Option<Event> {
        let mut rest = self.tables.get(self.at..)?;
        let row = next_row(&mut rest)?;
        let mut event = Event {
            trigger: row.trigger,
            first_arrival: Mark(u64_at(row.event, 8)),
            closed: Mark(u64_at(row.event, 16)),
            bytes: 0,
            first_fragment: events.fragments.len() as u32,
            fragments: row.fragments.len() as u32,
            first_missing: events.missing.len() as u32,
            missing: row.missing.len() as u32,
            closing: Closing::from_number(row.event[30]).unwrap_or_default(),
            attempt: row.event[31],
        };
        for fragment in row.fragments {
            let bytes = u32_at(fragment, 8);
            let slices = self.payload.cut(bytes as usize, &mut events.slices);
            events.fragments.push(Fragment {
                trigger: row.trigger,
                ticks: u64_at(fragment, 0),
                bytes,
                source: SourceId(u16_at(fragment, 12)),
                slices: slices as u16,
            });
            event.bytes += u64::from(bytes);
        }
        events.missing.extend(row.missing.iter().map(|source| SourceId(u16::from_le_bytes(*source))));
        self.at = self.tables.len() - rest.len();
        Some(event)
    }

    /// The right to read the bytes.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Empties it, returns the leases, keeps the memory.
    pub fn clear(&mut self) {
        self.tables.clear();
        self.payload.slices.clear();
        (self.payload.next, self.payload.offset, self.at) = (0, 0, 0);
        self.leases.clear();
        self.last_trigger = None;
    }
}

impl Payload {
    /// Appends the slices in which the next bytes lie to `into`, and returns how many those are. The sum of all slices was checked before.
    #[inline]
    fn cut(&mut self, bytes: usize, into: &mut Vec<Slice>) -> usize {
        // Nearly every fragment is in the middle of a slice with others.
        if let Some(slice) = self.slices.get(self.next)
            && let (1.., Some(part)) = (bytes, slice.part(self.offset, bytes))
            && part.end() < slice.end()
        {
            into.push(part);
            self.offset += bytes;
            return 1;
        }
        self.cut_across(bytes, into)
    }

    fn cut_across(&mut self, bytes: usize, into: &mut Vec<Slice>) -> usize {
        let (mut left, before) = (bytes, into.len());
        while left > 0
            && let Some(slice) = self.slices.get(self.next)
        {
            let length = left.min(slice.length as usize - self.offset);
            into.extend(slice.part(self.offset, length).filter(|_| length > 0));
            left -= length;
            self.offset += length;
            if self.offset == slice.length as usize {
                (self.next, self.offset) = (self.next + 1, 0);
            }
        }
        into.len() - before
    }

    /// Leaves the first bytes out.
    fn leave_out(&mut self, bytes: u64) {
        let mut left = bytes;
        while let Some(first) = self.slices.get(self.next).filter(|slice| u64::from(slice.length) <= left) {
            left -= u64::from(first.length);
            self.next += 1;
        }
        self.slices.drain(..std::mem::take(&mut self.next));
        if let Some(first) = self.slices.first_mut() {
            (first.offset, first.length) = (first.offset + left as u32, first.length - left as u32);
        }
    }
}

/// Checks that no fragment lies in more slices than can be counted.
fn check_slices(mut tables: &[u8], slices: &[Slice]) -> Result<(), PartError> {
    let mut payload = Payload { slices: slices.to_vec(), ..Payload::default() };
    let mut cut = Vec::new();
    while let Some(row) = next_row(&mut tables) {
        for fragment in row.fragments {
            cut.clear();
            if payload.cut(u32_at(fragment, 8) as usize, &mut cut) > usize::from(u16::MAX) {
                return Err(PartError::Field { field: "number of slices" });
            }
        }
    }
    Ok(())
}

const _: () = assert!(FRAGMENT_BYTES == 16 && MISSING_BYTES == size_of::<SourceId>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Assignment;
    use crate::unit::message::{self, Said};
    use crate::unit::part::{PartHead, PartWriter};
    use proptest::prelude::*;
    use thalweg_data::{Pool, UnitId};

    const FIRST: u64 = 100;

    /// Bytes of the fragments of an event, by source.
    type Sent = Vec<(u16, usize)>;

    /// A part of these events, whose payload lies in slices of these lengths in turn.
    fn part(sent: &[Sent], cuts: &[usize]) -> Message {
        let pool = Pool::new(1, 1 << 17).expect("small");
        let mut writer = pool.take().expect("free");
        let mut message = Message::default();
        let length = sent.len().max(1) as u32;
        let range = Assignment { start: FIRST, length, builder: UnitId(0), attempt: 0, written: false };
        let until = range.end();
        let head = PartHead { epoch: 1, range, readout: UnitId(0), from: FIRST, until, lost: false };
        let mut part = PartWriter::new(&mut message, 7, head);
        let mut payload = Vec::new();
        for (trigger, own) in (FIRST..).zip(sent) {
            let fragment = |(source, bytes): &(u16, usize)| Fragment {
                trigger,
                ticks: 3 * trigger,
                bytes: *bytes as u32,
                source: SourceId(*source),
                slices: 1,
            };
            let fragments: Vec<Fragment> = own.iter().map(fragment).collect();
            let closing = if own.is_empty() { Closing::Age } else { Closing::Complete };
            let event = Event { trigger, closing, ..Event::default() };
            let missing = [SourceId(9)];
            part.event(&event, &fragments, &missing[..usize::from(own.is_empty())], &[]);
            own.iter().for_each(|(source, bytes)| payload.extend(bytes_of(trigger, *source, *bytes)));
        }
        part.finish(until);
        let (mut rest, mut cuts) = (payload.as_slice(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at((*cuts.next().expect("some")).min(rest.len()));
            message.slices.push(writer.append(chunk).expect("it fits"));
            message.leases.add(writer.lease());
            rest = later;
        }
        message
    }

    fn bytes_of(trigger: u64, source: u16, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (trigger as usize * 7 + usize::from(source) * 31 + at) as u8).collect()
    }

    fn read(message: &Message) -> Part<'_> {
        match message::read(message) {
            Ok((7, Said::Part(part))) => part,
            other => panic!("{other:?}"),
        }
    }

    fn sent() -> impl Strategy<Value = Vec<Sent>> {
        let fragments = proptest::collection::btree_map(0u16..6, 0usize..40, 0..5);
        proptest::collection::vec(fragments.prop_map(|own| own.into_iter().collect()), 0..20)
    }

    proptest! {
        #[test]
        fn events_are_taken_as_they_were_sent_however_their_bytes_are_cut(
            parts in proptest::collection::vec((sent(), 0u64..22), 1..3),
            cuts in proptest::collection::vec(1usize..60, 1..9),
        ) {
            let (mut rows, mut events, mut expected) = (Rows::default(), Events::default(), Vec::new());
            let mut last = None;
            for (sent, skipped) in &parts {
                let message = part(sent, &cuts);
                let lowest = FIRST + skipped;
                let (out, kept): (Vec<_>, Vec<_>) = (FIRST..).zip(sent).partition(|(trigger, _)| *trigger < lowest);
                let count = |own: &[(u64, &Sent)]| -> (u64, u64) {
                    let fragments = own.iter().flat_map(|(_, own)| own.iter());
                    fragments.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + *bytes as u64))
                };
                let left_out = rows.append(&read(&message), &message, lowest, &(0..10)).expect("its sources");
                prop_assert_eq!(left_out, count(&out));
                last = kept.last().map(|(trigger, _)| *trigger).or(last);
                prop_assert_eq!(rows.last_trigger(), last);
                expected.extend(kept.into_iter().map(|(trigger, own)| (trigger, own.clone())));
            }
            for (trigger, _) in &expected {
                prop_assert_eq!(rows.next_trigger(), Some(*trigger));
                let event = rows.take(&mut events).expect("it is there");
                events.events.push(event);
            }
            prop_assert_eq!((rows.next_trigger(), rows.take(&mut events)), (None, None));
            events.leases.add_all(rows.leases());
            let mut fragments = events.fragments_with_slices();
            for (event, (trigger, own)) in events.events.iter().zip(&expected) {
                prop_assert_eq!((event.trigger, event.fragments as usize), (*trigger, own.len()));
                prop_assert_eq!(event.missing, u32::from(own.is_empty()));
                prop_assert_eq!(event.bytes, own.iter().map(|(_, bytes)| *bytes as u64).sum::<u64>());
                for (source, bytes) in own {
                    let (fragment, slices) = fragments.next().expect("as many");
                    prop_assert_eq!((fragment.source.0, fragment.ticks), (*source, 3 * trigger));
                    let read: Vec<u8> = slices.iter().flat_map(|slice| events.leases.bytes(*slice)).copied().collect();
                    prop_assert_eq!(read, bytes_of(*trigger, *source, *bytes));
                }
            }
        }
    }

    #[test]
    fn nothing_is_appended_of_a_part_with_a_source_of_another_unit() {
        let message = part(&[vec![(1, 5)], vec![(4, 5)]], &[3]);
        let mut rows = Rows::default();
        let refused = rows.append(&read(&message), &message, FIRST, &(0..4));
        assert_eq!(refused, Err(PartError::Source { source_id: SourceId(4) }));
        assert_eq!((rows.next_trigger(), rows.leases().len()), (None, 0));
    }

    #[test]
    fn a_fragment_of_more_slices_than_can_be_counted_is_refused() {
        let append = |message: &Message| Rows::default().append(&read(message), message, FIRST, &(0..4));
        let most = usize::from(u16::MAX);
        assert_eq!(append(&part(&[vec![(0, most), (1, 5)]], &[1])), Ok((0, 0)), "each byte in a slice");
        let refused = append(&part(&[vec![(0, 1), (1, most + 1)]], &[1]));
        assert_eq!(refused, Err(PartError::Field { field: "number of slices" }));
    }
}
