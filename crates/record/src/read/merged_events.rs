//! The events of several builders as one: each trigger once, in order.
//!
//! ```text
//!  events-a, fragments-a ┐
//!  events-b, fragments-b ┼─► by trigger, of one trigger the highest attempt ─► RecordedEvent
//!  events-c, fragments-c ┘
//! ```
//! An event is built again, with the next attempt, when the builder that had it died; what that one wrote of it may be
//! on file nevertheless. So of several rows of one trigger the highest attempt counts; of the same attempt the first
//! file. The order is made from the table `events` alone and kept in memory, 32 bytes an event.

use std::cmp::Reverse;

use super::events::{EventPlace, EventsFile, RecordedEvent, open_table};
use crate::directory::EventFiles;
use crate::error::RecordError;
use crate::table::Table;

/// Reads the events of several files by trigger.
#[derive(Debug)]
pub struct MergedEvents {
    files: Vec<EventsFile>,
    order: Vec<Entry>,
    next: usize,
    superseded: u64,
    doubled: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    trigger: u64,
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
        order.sort_by_key(|entry: &Entry| (entry.trigger, Reverse(entry.attempt), entry.file));
        let mut merged = MergedEvents { files: opened, order, next: 0, superseded: 0, doubled: 0 };
        merged.keep_one_of_each();
        Ok(merged)
    }

    /// Events in all, each trigger once.
    pub fn count(&self) -> u64 {
        self.order.len() as u64
    }

    /// Rows left out because their trigger was built again.
    pub fn superseded(&self) -> u64 {
        self.superseded
    }

    /// Rows left out although no attempt tells which of two is right: a builder has built one trigger twice.
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
        Ok(true)
    }

    fn keep_one_of_each(&mut self) {
        let mut last: Option<(u64, u8)> = None;
        let (mut superseded, mut doubled) = (0, 0);
        self.order.retain(|entry| match last {
            Some((trigger, attempt)) if trigger == entry.trigger => {
                let counter = if attempt == entry.attempt { &mut doubled } else { &mut superseded };
                *counter += 1;
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
        let attempts = reader.numbers::<1>(&head, 7)?;
        order.extend(triggers.iter().zip(&attempts).zip(0..).map(|((trigger, attempt), row)| Entry {
            trigger: u64::from_le_bytes(*trigger),
            attempt: attempt[0],
            file,
            place: EventPlace { batch: head.offset(), row },
        }));
    }
    Ok(())
}
