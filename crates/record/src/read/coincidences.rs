//! Events of hits out of the table `coincidences`.
//!
//! ```text
//!  coincidences.arrows ──► columns of a batch ──► HitEvents, as they were recorded
//! ```

use std::path::Path;

use thalweg_data::{HitEvent, HitEvents};

use super::events::open_table;
use super::hits::hits_from;
use super::table_reader::{BatchHead, ReadAt, TableReader};
use crate::error::RecordError;
use crate::table::Table;

/// Reads the table `coincidences`, batch by batch.
#[derive(Debug)]
pub struct CoincidencesReader {
    reader: TableReader,
}

impl CoincidencesReader {
    /// Opens a file of coincidences.
    ///
    /// # Errors
    /// When it cannot be read or is another table.
    pub fn open(path: &Path) -> Result<CoincidencesReader, RecordError> {
        Ok(CoincidencesReader { reader: open_table(path, Table::Coincidences)? })
    }

    /// Replaces `events` by those of the next batch, with their hits; `false` at the end. The checksum is verified.
    ///
    /// # Errors
    /// When the batch is damaged or cut.
    pub fn next_batch(&mut self, events: &mut HitEvents) -> Result<bool, RecordError> {
        events.clear();
        let Some(head) = self.reader.next_batch()? else { return Ok(false) };
        self.reader.verify_checksum(&head)?;
        CoincidenceRows::load(&self.reader, &head)?.into_events(events);
        Ok(true)
    }

    /// The rest of the file at once.
    ///
    /// # Errors
    /// As for `next_batch`, and when there are more hits than one batch can hold in memory, 2³² of them.
    pub fn read_all(mut self) -> Result<HitEvents, RecordError> {
        let (mut all, mut batch) = (HitEvents::default(), HitEvents::default());
        while self.next_batch(&mut batch)? {
            let start = all.members.len();
            let end = start + batch.members.len();
            if u32::try_from(end).is_err() {
                return Err(self
                    .reader
                    .damaged(self.reader.position(), "more hits than can be read at once"));
            }
            let moved =
                batch.events.iter().map(|event| HitEvent { first: event.first + start as u32, ..*event });
            all.events.extend(moved);
            all.members.extend_from_slice(&batch.members);
        }
        Ok(all)
    }
}

/// The rows of a batch, one per hit.
#[derive(Debug, Default)]
pub(crate) struct CoincidenceRows {
    /// The number of each row's event.
    event: Vec<[u8; 8]>,
    members: Vec<thalweg_data::Hit>,
    dt_ps: Vec<[u8; 8]>,
    multiplicity: Vec<[u8; 2]>,
    is_reference: Vec<u8>,
}

impl CoincidenceRows {
    pub fn load<R: ReadAt>(
        reader: &TableReader<R>,
        head: &BatchHead,
    ) -> Result<CoincidenceRows, RecordError> {
        let mut rows = CoincidenceRows {
            event: reader.numbers(head, 0)?,
            members: Vec::new(),
            dt_ps: reader.numbers(head, 6)?,
            multiplicity: reader.numbers(head, 7)?,
            is_reference: reader.bits(head, 8)?,
        };
        hits_from(reader, head, 1, &mut rows.members)?;
        Ok(rows)
    }

    /// The rows of each event, in order.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.event.chunk_by(|one, next| one == next).scan(0, |end, rows| {
            let start = *end;
            *end += rows.len();
            Some(start..*end)
        })
    }

    pub fn is_reference(&self, row: usize) -> bool {
        self.is_reference[row / 8] >> (row % 8) & 1 == 1
    }

    pub fn multiplicity(&self, row: usize) -> u16 {
        u16::from_le_bytes(self.multiplicity[row])
    }

    pub fn dt_ps(&self, row: usize) -> i64 {
        i64::from_le_bytes(self.dt_ps[row])
    }

    /// The hit of each row.
    pub fn members(&self) -> &[thalweg_data::Hit] {
        &self.members
    }

    /// The event of these rows.
    pub fn event(&self, rows: std::ops::Range<usize>) -> HitEvent {
        let first = rows.start;
        let reference = rows.clone().position(|row| self.is_reference(row)).unwrap_or(0);
        HitEvent {
            number: u64::from_le_bytes(self.event[first]),
            time_ps: self.members[first].time_ps.wrapping_sub(self.dt_ps(first)),
            first: first as u32,
            count: rows.len() as u32,
            multiplicity: self.multiplicity(first),
            reference: reference as u16,
        }
    }

    fn into_events(self, into: &mut HitEvents) {
        into.events.extend(self.ranges().map(|rows| self.event(rows)));
        into.members = self.members;
    }
}
