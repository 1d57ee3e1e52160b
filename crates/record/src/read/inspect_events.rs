//! Events at a glance.
//!
//! ```text
//!  rows of events, rows of fragments ──► counts, completeness per source, rate, time of building, first events
//! ```

use std::collections::BTreeMap;

use serde::Serialize;
use thalweg_data::{Closing, Selected, SourceId};

use super::events::{EventRow, EventRows, fragment_rows};
use super::table_reader::{BatchHead, TableReader};
use crate::error::RecordError;

/// Nanoseconds per second.
const NS_PER_S: f64 = 1e9;

/// What is in the tables of events of a run or a file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventsContent {
    /// Events.
    pub events: u64,
    /// Those to which every source has answered.
    pub complete: u64,
    /// How many were closed for each reason.
    pub closings: BTreeMap<&'static str, u64>,
    /// How many an event filter has kept, are recorded for monitoring although it has rejected them, or were not decided; empty of a run
    /// without a filter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub selected: BTreeMap<&'static str, u64>,
    /// Events that were built again after a unit had died.
    pub built_again: u64,
    /// Their fragments.
    pub fragments: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Lowest trigger number.
    pub first_trigger: Option<u64>,
    /// Highest trigger number.
    pub last_trigger: Option<u64>,
    /// Arrival of the first fragment of all, nanoseconds since run start.
    pub first_arrival_ns: Option<u64>,
    /// Arrival of the last event's first fragment.
    pub last_arrival_ns: Option<u64>,
    /// Time between them, seconds.
    pub span_s: f64,
    /// Events per second over that time.
    pub rate_hz: f64,
    /// Mean time from an event's first fragment until it was closed, milliseconds.
    pub mean_building_ms: f64,
    /// Source by source, by number; counted from `fragments` and from what `events` calls missing.
    pub sources: Vec<EventSource>,
    /// By what an event filter has selected them among those that were built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The first events of the file.
    pub first_events: Vec<EventWords>,
    #[serde(skip)]
    building_ns: u128,
}

/// One source's share in the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventSource {
    /// Its number.
    pub source: u16,
    /// Its name, where the schema has one.
    pub name: String,
    /// Its fragments.
    pub fragments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Events in which it is missing.
    pub missing: u64,
}

/// One event, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventWords {
    /// The trigger's number.
    pub trigger: u64,
    /// Why it was closed.
    pub closing: &'static str,
    /// Why an event filter let it be recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<&'static str>,
    /// Its fragments.
    pub fragments: u32,
    /// Sources that are missing.
    pub missing: Vec<u16>,
    /// Bytes of its fragments.
    pub bytes: u64,
    /// Nanoseconds since run start.
    pub first_arrival_ns: u64,
}

impl EventsContent {
    /// Adds a batch of the table `events`; `first` is how many events are listed.
    pub(super) fn add_events(
        &mut self,
        reader: &TableReader,
        head: &BatchHead,
        first: usize,
    ) -> Result<(), RecordError> {
        let batch = EventRows::load(reader, head)?;
        for row in &batch.rows {
            let missing = batch.missing_of(row);
            self.add_event(row);
            missing.iter().for_each(|source| self.source(*source).missing += 1);
            if self.first_events.len() < first {
                self.first_events.push(EventWords {
                    trigger: row.trigger,
                    closing: row.closing.word(),
                    selected: row.selected.map(Selected::word),
                    fragments: row.fragments,
                    missing: missing.iter().map(|source| source.0).collect(),
                    bytes: row.bytes,
                    first_arrival_ns: row.first_arrival.0,
                });
            }
        }
        Ok(())
    }

    /// Adds a batch of the table `fragments`.
    pub(super) fn add_fragments(
        &mut self,
        reader: &TableReader,
        head: &BatchHead,
    ) -> Result<(), RecordError> {
        for row in fragment_rows(reader, head)? {
            let source = self.source(row.source);
            source.fragments += 1;
            source.bytes += row.view.length() as u64;
        }
        Ok(())
    }

    /// Completes sums and names.
    pub(super) fn finish(&mut self, names: &[String]) {
        if let (Some(first), Some(last)) = (self.first_arrival_ns, self.last_arrival_ns) {
            self.span_s = (last - first) as f64 / NS_PER_S;
        }
        self.rate_hz = if self.span_s > 0.0 { self.events as f64 / self.span_s } else { 0.0 };
        self.mean_building_ms = match self.events {
            0 => 0.0,
            events => self.building_ns as f64 / events as f64 / 1e6,
        };
        for (source, name) in self.sources.iter_mut().zip(names) {
            source.name.clone_from(name);
        }
    }

    fn add_event(&mut self, row: &EventRow) {
        let arrival_ns = row.first_arrival.0;
        self.events += 1;
        self.complete += u64::from(row.closing == Closing::Complete);
        self.built_again += u64::from(row.attempt > 0);
        *self.closings.entry(row.closing.word()).or_default() += 1;
        if let Some(selected) = row.selected {
            *self.selected.entry(selected.word()).or_default() += 1;
        }
        self.fragments += u64::from(row.fragments);
        self.bytes += row.bytes;
        self.building_ns += u128::from(row.closed.since_ns(row.first_arrival));
        self.first_trigger = Some(self.first_trigger.map_or(row.trigger, |first| first.min(row.trigger)));
        self.last_trigger = self.last_trigger.max(Some(row.trigger));
        self.first_arrival_ns = Some(self.first_arrival_ns.map_or(arrival_ns, |first| first.min(arrival_ns)));
        self.last_arrival_ns = self.last_arrival_ns.max(Some(arrival_ns));
    }

    fn source(&mut self, source: SourceId) -> &mut EventSource {
        for number in self.sources.len()..=source.index() {
            self.sources.push(EventSource { source: number as u16, ..EventSource::default() });
        }
        &mut self.sources[source.index()]
    }
}
