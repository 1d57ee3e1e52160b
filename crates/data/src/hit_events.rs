//! Events of self-triggered hits, the output of a coincidence.
//!
//! ```text
//!  members  [ hit hit | hit hit hit | hit hit ]
//!  events     #0 first 0 count 2 │ #1 first 2 count 3 │ #2 …
//! ```

use crate::hit::Hit;

/// Hits that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HitEvent {
    /// Number of the event, counted from 0 in the order in which the events of a run are closed.
    pub number: u64,
    /// Time of the reference or, without one, of the first member, picoseconds.
    pub time_ps: i64,
    /// Index of the first member.
    pub first: u32,
    /// Number of members.
    pub count: u32,
    /// Number of different channels, or groups, among the members.
    pub multiplicity: u16,
    /// Index of the reference among the members; 0 if there is none.
    pub reference: u16,
}

/// Some events with their hits, in one recycled batch.
#[derive(Clone, Debug, Default)]
pub struct HitEvents {
    /// The events.
    pub events: Vec<HitEvent>,
    /// Their hits, event by event, in time order within each event. A hit that belongs to two events is in both.
    pub members: Vec<Hit>,
}

impl HitEvents {
    /// Empties the batch, keeps its memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.members.clear();
    }

    /// The hits of one of these events.
    #[inline]
    pub fn members_of(&self, event: &HitEvent) -> &[Hit] {
        &self.members[event.first as usize..][..event.count as usize]
    }

    /// Removes the hits of events that were removed from `events`.
    pub fn close_ranks(&mut self) {
        let mut end = 0;
        for event in &mut self.events {
            let (first, count) = (event.first as usize, event.count as usize);
            self.members.copy_within(first..first + count, end);
            event.first = end as u32;
            end += count;
        }
        self.members.truncate(end);
    }

    /// Each event with its hits.
    pub fn iter(&self) -> impl Iterator<Item = (&HitEvent, &[Hit])> {
        self.events.iter().map(|event| (event, self.members_of(event)))
    }
}
