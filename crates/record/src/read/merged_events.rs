//! The events of several builders as one: each trigger once, in order.
//!
//! ```text
//!  events-a, fragments-a ┐
//!  events-b, fragments-b ┼─► by trigger, of one trigger all attempts joined ─► RecordedEvent
//!  events-c, fragments-c ┘
//! ```
//! An event is built again, with the next attempt, when the builder that had it died; what that one wrote of it may be on file
//! nevertheless. Readout units keep their fragments until an event is acknowledged, so that a later attempt has as many, unless readout
//! units have died meanwhile: then each attempt may have what the other lacks. So of several rows of one trigger the one with the most
//! fragments counts, of equal ones the highest attempt, of one attempt the first file; and sources that are missing in it are taken from the
//! others. The order is made from the table `events` alone and kept in memory, 32 bytes an event.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::events::{EventPlace, EventsFile, RecordedEvent, open_table};
use crate::directory::EventFiles;
use crate::error::RecordError;
use crate::table::Table;

/// Reads the events of several files by trigger.
#[derive(Debug)]
pub struct MergedEvents {
    files: Vec<EventsFile>,
    order: Vec<Entry>,
    /// The other attempts of triggers that have several, by trigger.
    others: BTreeMap<u64, Vec<Entry>>,
    next: usize,
    joined: RecordedEvent,
    superseded: u64,
    doubled: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    trigger: u64,
    fragments: u32,
    attempt: u8,
    file: u16,
    place: EventPlace,
}

impl MergedEvents {
    /// Opens pairs of files and finds the order of their events.
    ///
    /// # Errors
    /// When one cannot be read, is damaged (`recover` mends those of a killed unit), or there are more than 65 535.
    pub fn open(files: &[EventFiles]) -> Result<MergedEvents, RecordError> {
        let mut order = Vec::new();
        let mut opened = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let number = u16::try_from(number).map_err(|_| RecordError::Missing {
                path: file.events.clone(),
                found: "more than 65535 files of events at once".to_owned(),
            })?;
            opened.push(EventsFile::open(file)?);
            enter(file, number, &mut order)?;
        }
        order.sort_by_key(|entry: &Entry| {
            (entry.trigger, Reverse((entry.fragments, entry.attempt)), entry.file)
        });
        let mut merged = MergedEvents {
            files: opened,
            order,
            others: BTreeMap::new(),
            next: 0,
            joined: RecordedEvent::default(),
            superseded: 0,
            doubled: 0,
        };
        merged.keep_one_of_each();
        Ok(merged)
    }

    /// Events in all, each trigger once.
    pub fn count(&self) -> u64 {
        self.order.len() as u64
    }

    /// Rows that are no event of their own, because another attempt of their trigger has as many fragments, or more.
    pub fn superseded(&self) -> u64 {
        self.superseded
    }

    /// Rows left out although no attempt shows which of two is right: a builder has built one trigger twice.
    pub fn doubled(&self) -> u64 {
        self.doubled
    }

    /// Replaces `event` by the next one; `false` at the end. Checksums are verified.
    ///
    /// # Errors
    /// When a batch is damaged or cut, or an event's fragments are not there.
    pub fn next_event(&mut self, event: &mut RecordedEvent) -> Result<bool, RecordError> {
        let Some(entry) = self.order.get(self.next) else { return Ok(false) };
        self.next += 1;
        self.files[usize::from(entry.file)].event_at(entry.place, event)?;
        for other in self.others.get(&entry.trigger).into_iter().flatten() {
            if event.missing.is_empty() {
                break;
            }
            self.files[usize::from(other.file)].event_at(other.place, &mut self.joined)?;
            event.join(&self.joined);
        }
        Ok(true)
    }

    fn keep_one_of_each(&mut self) {
        let mut last: Option<(u64, u8)> = None;
        let (mut superseded, mut doubled) = (0, 0);
        let others = &mut self.others;
        self.order.retain(|entry| match last {
            Some((trigger, attempt)) if trigger == entry.trigger => {
                if attempt == entry.attempt {
                    doubled += 1;
                } else {
                    superseded += 1;
                    others.entry(trigger).or_default().push(*entry);
                }
                false
            }
            _ => {
                last = Some((entry.trigger, entry.attempt));
                true
            }
        });
        (self.superseded, self.doubled) = (superseded, doubled);
    }
}

fn enter(files: &EventFiles, file: u16, order: &mut Vec<Entry>) -> Result<(), RecordError> {
    let mut reader = open_table(&files.events, Table::Events)?;
    while let Some(head) = reader.next_batch()? {
        reader.verify_checksum(&head)?;
        let triggers = reader.numbers::<8>(&head, 0)?;
        let fragments = reader.numbers::<4>(&head, 2)?;
        let attempts = reader.numbers::<1>(&head, 7)?;
        let rows = triggers.iter().zip(&fragments).zip(&attempts).zip(0..);
        order.extend(rows.map(|(((trigger, fragments), attempt), row)| Entry {
            trigger: u64::from_le_bytes(*trigger),
            fragments: u32::from_le_bytes(*fragments),
            attempt: attempt[0],
            file,
            place: EventPlace { batch: head.offset(), row },
        }));
    }
    Ok(())
}
