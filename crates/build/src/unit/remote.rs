//! Events from one unit to a builder of the next level, without an event manager between them.
//!
//! ```text
//!  front-end builder ─Events─► ShipEvents ─ Part ─► transport ─► RemoteEvents ─┬─► Events ─► a readout unit of the next level
//!                                                                              └─► Fragments ─► a Builder over all sources
//! ```
//! As events they keep what is missing and why, and the next level puts together one row per front-end builder. As
//! fragments they are what the boards sent: the next level's builder then counts boards as if they were its own.

use std::ops::Range;

use thalweg_data::{Events, Fragments, Message};

use super::message::{self, MessageError, Said};
use super::part::{self, PartError, PartHead, PartWriter};
use super::rows::Rows;
use super::{Assignment, Identity};

/// Writes batches of events as messages to the next level.
#[derive(Debug)]
pub struct ShipEvents {
    identity: Identity,
    part_bytes: u64,
    spans: Vec<(u32, u32)>,
}

impl ShipEvents {
    /// From the builder of this number at its level, in messages of about `part_bytes`.
    pub fn new(identity: Identity, part_bytes: u64) -> ShipEvents {
        ShipEvents { identity, part_bytes, spans: Vec::new() }
    }

    /// Writes events of a batch from index `first` on, as many as fit one message: while triggers ascend and lie near each other.
    /// Returns the index of the first event left; the batch is shipped when that is its length. Begin with 0.
    pub fn ship(&mut self, events: &Events, first: usize, message: &mut Message) -> usize {
        if first == 0 {
            part::spans_of(events, &mut self.spans);
        }
        let Some(front) = events.events.get(first) else {
            message.clear();
            return first;
        };
        let mut until = front.trigger.saturating_add(1);
        let longest = front.trigger.saturating_add(u64::from(Assignment::LONGEST));
        let mut behind = first + 1;
        let mut bytes = front.bytes;
        while let Some(event) = events.events.get(behind) {
            if event.trigger < until || event.trigger >= longest || bytes >= self.part_bytes {
                break;
            }
            bytes += event.bytes;
            until = event.trigger.saturating_add(1);
            behind += 1;
        }
        let range = Assignment {
            start: front.trigger,
            length: (until - front.trigger).max(1) as u32,
            builder: Assignment::NOBODY,
            attempt: front.attempt,
            written: false,
        };
        let head = PartHead {
            epoch: self.identity.incarnation,
            range,
            readout: self.identity.number,
            from: front.trigger,
            until,
            lost: false,
        };
        let mut writer = PartWriter::new(message, self.identity.run, head);
        writer.message().leases.add_all(&events.leases);
        for index in first..behind {
            let (event, (first, count)) = (&events.events[index], self.spans[index]);
            let slices = &events.slices[first as usize..][..count as usize];
            writer.event(event, events.fragments_of(event), events.missing_of(event), slices);
        }
        writer.finish(until);
        behind
    }
}

/// Reads what [`ShipEvents`] has written, at the next level.
#[derive(Debug)]
pub struct RemoteEvents {
    run: u32,
    sources: Range<u16>,
    rows: Rows,
}

impl RemoteEvents {
    /// From one builder, whose events have fragments of `sources`.
    pub fn new(run: u32, sources: Range<u16>) -> RemoteEvents {
        RemoteEvents { run, sources, rows: Rows::default() }
    }

    /// Appends the events of a message.
    ///
    /// # Errors
    /// When the message is not such a part, is of another run, or has sources that are not this builder's; then nothing is
    /// appended.
    pub fn events(&mut self, message: &Message, events: &mut Events) -> Result<(), MessageError> {
        let (run, said) = message::read(message)?;
        let Said::Part(part) = said else {
            return Err(PartError::Field { field: "kind: it is no part" }.into());
        };
        if run != self.run {
            return Err(PartError::Field { field: "run: it is another one's" }.into());
        }
        self.rows.append(&part, message, 0, &self.sources)?;
        while let Some(event) = self.rows.take(events) {
            events.events.push(event);
        }
        events.leases.add_all(self.rows.leases());
        self.rows.clear();
        Ok(())
    }

    /// Appends the fragments of the events of a message.
    ///
    /// # Errors
    /// As for [`RemoteEvents::events`].
    pub fn fragments(&mut self, message: &Message, fragments: &mut Fragments) -> Result<(), MessageError> {
        let mut events = Events::default();
        std::mem::swap(&mut events.fragments, &mut fragments.fragments);
        std::mem::swap(&mut events.slices, &mut fragments.slices);
        std::mem::swap(&mut events.leases, &mut fragments.leases);
        let appended = self.events(message, &mut events);
        std::mem::swap(&mut events.fragments, &mut fragments.fragments);
        std::mem::swap(&mut events.slices, &mut fragments.slices);
        std::mem::swap(&mut events.leases, &mut fragments.leases);
        appended
    }
}
