//! Coincidences at a glance.
//!
//! ```text
//!  rows of coincidences ──► events, multiplicities, rate, first events
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

use super::coincidences::CoincidenceRows;
use super::table_reader::{BatchHead, TableReader};
use crate::error::RecordError;

/// Picoseconds per second.
const PS_PER_S: f64 = 1e12;

/// What is in the table of coincidences of a run or a file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CoincidencesContent {
    /// Events.
    pub events: u64,
    /// Their hits. A hit of two events counts twice.
    pub hits: u64,
    /// How many events have each multiplicity.
    pub multiplicities: BTreeMap<u16, u64>,
    /// Time of the first event in time, picoseconds since run start.
    pub first_time_ps: Option<i64>,
    /// Time of the last one.
    pub last_time_ps: Option<i64>,
    /// Events per second between them.
    pub rate_hz: f64,
    /// The first events of the file.
    pub first_events: Vec<CoincidenceWords>,
}

/// One event, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CoincidenceWords {
    /// Its number.
    pub event: u64,
    /// Picoseconds since run start.
    pub time_ps: i64,
    /// How many different channels or groups.
    pub multiplicity: u16,
    /// The channel of each hit and its time after the reference, picoseconds.
    pub hits: Vec<(u16, i64)>,
}

impl CoincidencesContent {
    /// Adds a batch; `first` is how many events are listed.
    pub(super) fn add(
        &mut self,
        reader: &TableReader,
        head: &BatchHead,
        first: usize,
    ) -> Result<(), RecordError> {
        let rows = CoincidenceRows::load(reader, head)?;
        self.hits += head.rows() as u64;
        for range in rows.ranges() {
            let event = rows.event(range.clone());
            self.events += 1;
            *self.multiplicities.entry(event.multiplicity).or_default() += 1;
            self.first_time_ps =
                Some(self.first_time_ps.map_or(event.time_ps, |time| time.min(event.time_ps)));
            self.last_time_ps = self.last_time_ps.max(Some(event.time_ps));
            if self.first_events.len() < first {
                let hits = range.map(|row| (rows.members()[row].channel, rows.dt_ps(row))).collect();
                let (number, time_ps, multiplicity) = (event.number, event.time_ps, event.multiplicity);
                self.first_events.push(CoincidenceWords { event: number, time_ps, multiplicity, hits });
            }
        }
        if let (Some(first), Some(last)) = (self.first_time_ps, self.last_time_ps)
            && last > first
        {
            self.rate_hz = self.events as f64 / ((last as f64 - first as f64) / PS_PER_S);
        }
        Ok(())
    }
}
