//! What a readout unit keeps: batches of events as they were built, until every event of a batch is released.
//!
//! ```text
//!  Events ─ put ─► [ batch | batch | batch ] ─ each(range) ─► parts        release(range) ─► emptied batches go round
//!                     └─ counts its events that are still wanted
//! ```
//! A batch is kept whole and handed round by its vectors, so nothing is copied or allocated per event. Its leases go back
//! when its last event is released.

use std::collections::VecDeque;
use std::ops::Range;

use thalweg_data::{Event, EventSum, Events};

use super::part;

/// A batch of events, with the index of each one's slices.
#[derive(Debug, Default)]
pub struct Table {
    pub(super) events: Events,
    /// First slice of each event and how many it has.
    pub(super) spans: Vec<(u32, u32)>,
}

impl Table {
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.spans.clear();
    }

    /// The places of the events of a range of triggers.
    fn places(&self, start: u64, end: u64) -> Range<usize> {
        let events = &self.events.events;
        if events.last().is_none_or(|last| last.trigger < start) {
            return 0..0;
        }
        let first = events.partition_point(|event| event.trigger < start);
        let count = events[first..].partition_point(|event| event.trigger < end);
        first..first + count
    }

    fn last_trigger(&self) -> u64 {
        self.events.events.last().map_or(0, |event| event.trigger)
    }
}

/// Events, fragments and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub events: u64,
    pub fragments: u64,
    pub bytes: u64,
}

impl Amount {
    pub fn of(event: &Event) -> Amount {
        Amount { events: 1, fragments: u64::from(event.fragments), bytes: event.bytes }
    }

    pub fn add(&mut self, other: Amount) {
        self.events += other.events;
        self.fragments += other.fragments;
        self.bytes += other.bytes;
    }

    pub fn take(&mut self, other: Amount) {
        self.events -= other.events;
        self.fragments -= other.fragments;
        self.bytes -= other.bytes;
    }
}

#[derive(Debug)]
struct Kept {
    table: Table,
    /// Last trigger, also after the batch was emptied.
    last: u64,
    /// Events not yet released.
    wanted: usize,
}

/// The batches, in the order of their triggers.
#[derive(Debug, Default)]
pub(super) struct Store {
    kept: VecDeque<Kept>,
    spare: Vec<Table>,
    held: Amount,
    /// The triggers that left or were not taken, for a simulation that asks for them.
    gone: Option<Vec<u64>>,
}

impl Store {
    /// Takes a batch, of which only the events that `wants` names are kept: ascending, and above all that is here. The caller's
    /// batch comes back empty, with memory of an earlier one. Returns what was kept.
    pub fn put(&mut self, events: &mut Events, mut wants: impl FnMut(&Event) -> bool) -> Amount {
        let mut table = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut table.events, events);
        part::spans_of(&table.events, &mut table.spans);
        let mut amount = Amount::default();
        let mut kept = 0;
        for index in 0..table.events.events.len() {
            let event = table.events.events[index];
            if wants(&event) {
                amount.add(Amount::of(&event));
                if kept < index {
                    table.events.events[kept] = event;
                    table.spans[kept] = table.spans[index];
                }
                kept += 1;
            } else if let Some(gone) = &mut self.gone {
                gone.push(event.trigger);
            }
        }
        table.events.events.truncate(kept);
        table.spans.truncate(kept);
        if kept == 0 {
            self.recycle(table);
        } else {
            self.held.add(amount);
            self.kept.push_back(Kept { last: table.last_trigger(), wanted: kept, table });
        }
        amount
    }

    /// The batches that have events of a range, with the places of those.
    pub fn each(&self, start: u64, end: u64) -> impl Iterator<Item = (&Table, Range<usize>)> {
        let first = self.kept.partition_point(|kept| kept.last < start);
        self.kept
            .range(first..)
            .map(move |kept| (&kept.table, kept.table.places(start, end)))
            .take_while(move |(table, places)| {
                !places.is_empty() || table.events.events.first().is_none_or(|event| event.trigger < end)
            })
            .filter(|(_, places)| !places.is_empty())
    }

    /// The events of a range, added up.
    pub fn sum(&self, start: u64, end: u64) -> EventSum {
        let mut sum = EventSum::default();
        for (table, places) in self.each(start, end) {
            table.events.events[places].iter().for_each(|event| sum.add(sum_of(event)));
        }
        sum
    }

    /// Forgets the events of a range; returns how much it was.
    pub fn release(&mut self, start: u64, end: u64) -> Amount {
        let mut released = Amount::default();
        let first = self.kept.partition_point(|kept| kept.last < start);
        for kept in self.kept.range_mut(first..) {
            if kept.table.events.events.first().is_some_and(|event| event.trigger >= end) {
                break;
            }
            let places = kept.table.places(start, end);
            for event in &kept.table.events.events[places.clone()] {
                released.add(Amount::of(event));
                self.gone.iter_mut().for_each(|gone| gone.push(event.trigger));
            }
            kept.wanted -= places.len();
            if kept.wanted == 0 && !kept.table.events.events.is_empty() {
                let mut table = std::mem::take(&mut kept.table);
                table.clear();
                self.spare.push(table);
            }
        }
        self.held.take(released);
        self.drop_emptied();
        released
    }

    /// Forgets every event that `wants` does not name, out of those that `had` names; returns how much it was.
    pub fn keep_only(&mut self, had: impl Fn(u64) -> bool, wants: impl Fn(u64) -> bool) -> Amount {
        let mut released = Amount::default();
        for kept in &mut self.kept {
            let gone =
                kept.table.events.events.iter().filter(|event| had(event.trigger) && !wants(event.trigger));
            let mut count = 0;
            gone.for_each(|event| {
                count += 1;
                released.add(Amount::of(event));
                self.gone.iter_mut().for_each(|gone| gone.push(event.trigger));
            });
            kept.wanted -= count;
            if kept.wanted == 0 {
                kept.table.clear();
            }
        }
        self.held.take(released);
        self.drop_emptied();
        released
    }

    /// Forgets every event; returns how much was kept.
    pub fn give_up(&mut self) -> Amount {
        self.kept.clear();
        std::mem::take(&mut self.held)
    }

    /// The lowest trigger kept from `from` on.
    pub fn lowest_from(&self, from: u64) -> Option<u64> {
        let first = self.kept.partition_point(|kept| kept.last < from);
        self.kept.range(first..).find_map(|kept| {
            let events = &kept.table.events.events;
            events.get(events.partition_point(|event| event.trigger < from)).map(|event| event.trigger)
        })
    }

    /// Adds to every trigger number.
    pub fn renumber(&mut self, add: u64) {
        for kept in &mut self.kept {
            kept.last = kept.last.wrapping_add(add);
            renumber(&mut kept.table.events, add);
        }
    }

    /// From here on notes which triggers leave.
    #[cfg(any(test, feature = "harness"))]
    pub fn watch(&mut self) {
        self.gone = Some(Vec::new());
    }

    /// The triggers that have left since this was last asked; none unless it watches.
    pub fn take_gone(&mut self) -> Vec<u64> {
        self.gone.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What is kept and not released.
    pub fn held(&self) -> Amount {
        self.held
    }

    fn drop_emptied(&mut self) {
        while self.kept.front().is_some_and(|kept| kept.wanted == 0) {
            if let Some(kept) = self.kept.pop_front() {
                self.recycle(kept.table);
            }
        }
    }

    fn recycle(&mut self, mut table: Table) {
        const MOST_SPARE: usize = 256;
        table.clear();
        // A table whose memory went round already has none.
        if table.spans.capacity() > 0 && self.spare.len() < MOST_SPARE {
            self.spare.push(table);
        }
    }
}

/// One event, to be added up.
pub(super) fn sum_of(event: &Event) -> EventSum {
    EventSum::of(event.trigger, u64::from(event.fragments), event.bytes)
}

/// Adds to every trigger number of a batch.
pub(super) fn renumber(events: &mut Events, add: u64) {
    events.events.iter_mut().for_each(|event| event.trigger = event.trigger.wrapping_add(add));
    events.fragments.iter_mut().for_each(|fragment| fragment.trigger = fragment.trigger.wrapping_add(add));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(triggers: Range<u64>) -> Events {
        let mut events = Events::default();
        events.events.extend(triggers.map(|trigger| Event { trigger, bytes: 10, ..Event::default() }));
        events
    }

    fn triggers(store: &Store, start: u64, end: u64) -> Vec<u64> {
        let places = store.each(start, end);
        places
            .flat_map(|(table, places)| table.events.events[places].iter().map(|event| event.trigger))
            .collect()
    }

    #[test]
    fn ranges_across_batches_are_found_and_released_in_any_order() {
        let mut store = Store::default();
        for range in [0..10, 10..20, 25..40] {
            store.put(&mut batch(range), |event| event.trigger != 12);
        }
        assert_eq!(store.held(), Amount { events: 34, fragments: 0, bytes: 340 });
        assert_eq!(triggers(&store, 8, 14), [8, 9, 10, 11, 13]);
        assert_eq!(store.release(8, 20).events, 11);
        assert_eq!(triggers(&store, 20, 27), [25, 26]);
        assert_eq!(store.lowest_from(12), Some(25));
        assert_eq!(store.release(25, 40).events, 15);
        assert_eq!(store.release(0, 8).events, 8);
        assert_eq!((store.held(), store.kept.len()), (Amount::default(), 0));
    }
}
