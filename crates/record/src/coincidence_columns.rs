//! Events of hits become columns here, once.
//!
//! ```text
//!  members  [ hit hit │ hit hit hit │ … ]  ──►  [ event … ][ time chan energy short flags, as in `hits` ]
//!  events   [ #0      │ #1          │ … ]       [ dt … ][ multiplicity … ][ is_reference … ]
//! ```
//! The hits of events that follow each other in memory are spread in one go, as those of the table `hits`; what an event
//! says of all its hits is laid out beside them event by event. Nothing is reserved per event.

use thalweg_data::{Hit, HitEvent, HitEvents};

use crate::hit_columns::HitColumns;
use crate::ipc::columns::{Batch, Buffers, Shape};

/// Bytes that a hit of an event takes as columns, bitmaps included.
pub(crate) const BYTES_PER_HIT: u64 = crate::hit_columns::BYTES_PER_HIT + 19;
/// Rows that are written at once, whether an event has as many or not: most events have no more hits, and what is written
/// too much is written over by the next one.
const STRIDE: usize = 4;

/// The columns of the table `coincidences`.
#[derive(Debug, Default)]
pub(crate) struct CoincidenceColumns {
    hits: HitColumns,
    // Each is longer than the longest batch so far, by a stride at least.
    event: Vec<[u8; 8]>,
    dt_ps: Vec<[u8; 8]>,
    multiplicity: Vec<[u8; 2]>,
    /// One bit each; every byte that rows reach is there, and the bits beyond the last row are 0.
    is_reference: Vec<u8>,
}

impl CoincidenceColumns {
    /// Columns with memory for `rows` hits.
    pub fn with_capacity(rows: usize) -> CoincidenceColumns {
        let mut columns =
            CoincidenceColumns { hits: HitColumns::with_capacity(rows), ..CoincidenceColumns::default() };
        columns.reserve(rows);
        columns
    }

    /// Rows so far: hits of all events.
    pub fn rows(&self) -> usize {
        self.hits.rows()
    }

    /// Empties the columns, keeps their memory.
    pub fn clear(&mut self) {
        self.hits.clear();
        self.is_reference.clear();
    }

    fn reserve(&mut self, rows: usize) {
        let length = rows + STRIDE;
        if self.event.len() < length {
            self.event.resize(length, [0; 8]);
            self.dt_ps.resize(length, [0; 8]);
            self.multiplicity.resize(length, [0; 2]);
        }
    }

    /// Appends some of the events of `batch`.
    pub fn append(&mut self, batch: &HitEvents, events: &[HitEvent]) {
        let follows = |one: &HitEvent, next: &HitEvent| {
            u64::from(one.first) + u64::from(one.count) == u64::from(next.first)
        };
        for neighbours in events.chunk_by(follows) {
            let (Some(first), Some(last)) = (neighbours.first(), neighbours.last()) else { continue };
            let members = &batch.members[first.first as usize..last.first as usize + last.count as usize];
            let row = self.rows();
            self.reserve(row + members.len());
            self.hits.append(members);
            self.is_reference.resize(self.rows().div_ceil(8), 0);
            self.append_events(neighbours, members, row);
        }
    }

    /// Lays out what the events say beside their hits, from `row` on.
    fn append_events(&mut self, events: &[HitEvent], members: &[Hit], mut row: usize) {
        let mut members = members;
        for event in events {
            let (own, later) = members.split_at(event.count as usize);
            members = later;
            let end = row + own.len();
            let (number, multiplicity) = (event.number.to_le_bytes(), event.multiplicity.to_le_bytes());
            for start in (row..end).step_by(STRIDE) {
                self.event[start..start + STRIDE].fill(number);
                self.multiplicity[start..start + STRIDE].fill(multiplicity);
            }
            let dt_ps = self.dt_ps[row..end].iter_mut().zip(own);
            dt_ps.for_each(|(to, hit)| *to = hit.time_ps.wrapping_sub(event.time_ps).to_le_bytes());
            if !own.is_empty() {
                let reference = row + usize::from(event.reference).min(own.len() - 1);
                self.is_reference[reference / 8] |= 1 << (reference % 8);
            }
            row = end;
        }
    }

    /// Makes the bitmaps of what is absent: call once, when the last event is in.
    pub fn seal(&mut self) {
        self.hits.seal();
    }
}

impl Batch for CoincidenceColumns {
    fn shape(&self) -> Shape {
        let own = (self.rows(), 0);
        let hits = self.hits.shape().nodes;
        let nodes = [own].into_iter().chain(hits).chain([own; 3]).collect();
        Shape { rows: self.rows(), nodes, variadic: Vec::new() }
    }

    fn buffers<'a>(&'a self, into: &mut Buffers<'a>) {
        let rows = self.rows();
        into.extend([&[], self.event[..rows].as_flattened()]);
        self.hits.buffers(into);
        into.extend([&[], self.dt_ps[..rows].as_flattened()]);
        into.extend([&[], self.multiplicity[..rows].as_flattened()]);
        into.extend([&[], &self.is_reference[..]]);
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::Flags;

    use super::*;

    fn event(number: u64, first: u32, count: u32, reference: u16) -> HitEvent {
        HitEvent { number, time_ps: number as i64 * 100, first, count, multiplicity: count as u16, reference }
    }

    fn members(count: usize) -> Vec<Hit> {
        let flags = |index| if index % 5 == 0 { Flags::NO_ENERGY } else { Flags::NONE };
        (0..count).map(|index| Hit { time_ps: index as i64, flags: flags(index), ..Hit::default() }).collect()
    }

    #[test]
    fn events_are_laid_out_beside_their_hits_whatever_their_length() {
        let events = vec![event(3, 0, 2, 1), event(4, 2, 1, 0), event(9, 3, 11, 7), event(10, 14, 5, 9)];
        let batch = HitEvents { events: events.clone(), members: members(19) };
        let mut columns = CoincidenceColumns::with_capacity(2);
        columns.append(&batch, &events[..2]);
        columns.append(&batch, &events[2..]);
        columns.seal();
        let numbers: Vec<u64> = columns.event[..19].iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let wanted: Vec<u64> =
            events.iter().flat_map(|event| vec![event.number; event.count as usize]).collect();
        assert_eq!(numbers, wanted);
        assert_eq!(columns.dt_ps[4], (4i64 - 900).to_le_bytes());
        // A reference beyond the event's hits is its last.
        let references: Vec<usize> =
            (0..19).filter(|row| columns.is_reference[row / 8] >> (row % 8) & 1 == 1).collect();
        assert_eq!(references, [1, 2, 10, 18]);
        assert_eq!(columns.shape().nodes[3], (19, 4));
    }

    #[test]
    fn hits_of_events_that_were_taken_away_are_left_out() {
        let batch = HitEvents { events: vec![event(0, 0, 2, 0), event(2, 5, 3, 0)], members: members(8) };
        let mut columns = CoincidenceColumns::default();
        columns.append(&batch, &batch.events);
        columns.seal();
        let buffers = Buffers::of(&columns);
        let times = buffers.each().nth(3).expect("there are eighteen")[0];
        let times: Vec<i64> = times.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        assert_eq!(times, [0, 1, 5, 6, 7]);
        columns.clear();
        columns.append(&batch, &batch.events[1..]);
        assert_eq!((columns.rows(), columns.is_reference[0]), (3, 1));
    }
}
