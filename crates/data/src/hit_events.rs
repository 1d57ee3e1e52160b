//! What a coincidence of self-triggered hits gives: events of hits.
//!
//! ```text
//!  members  [ hit hit | hit hit hit | hit hit ]
//!  events     #0 first 0 count 2 │ #1 first 2 count 3 │ #2 …
//! ```

use crate::hit::Hit;

/// Hits that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HitEvent {
    /// Events of a run are numbered from 0 in the order in which they are closed.
    pub number: u64,
    /// Time of the reference, else of the first member, picoseconds.
    pub time_ps: i64,
    /// Place of the first member.
    pub first: u32,
    /// How many members.
    pub count: u32,
    /// How many different channels, or groups, they are of.
    pub multiplicity: u16,
    /// Which of the members is the reference, from 0; 0 where there is none.
    pub reference: u16,
}

/// Some events with their hits, in one recycled batch.
#[derive(Clone, Debug, Default)]
pub struct HitEvents {
    /// The events.
    pub events: Vec<HitEvent>,
    /// Their hits, event after event, each event's in the order of their times. A hit that belongs to two events stands in both.
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

    /// Gives up the hits of events that were taken away from `events`.
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
