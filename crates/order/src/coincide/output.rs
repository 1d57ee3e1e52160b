//! Where closed events go, and the account of who was in one.
//!
//! ```text
//!  rule ─ emit(hits) ─► HitEvents
//!       └ release ────► by source: kept in an event, or single
//! ```

use thalweg_data::{Tally, Unit};

use super::held::{Distinct, Held, Waiting};
use crate::channels::ChannelMap;
use thalweg_data::{HitEvent, HitEvents};

/// Closed events, and what became of the hits.
#[derive(Debug)]
pub(super) struct Output {
    pub events: HitEvents,
    next_number: u64,
    distinct: Distinct,
    /// Events that were cut because they grew too long.
    pub cut_short: u64,
    /// By row of the channel map: hits that went out in an event, and those that did not.
    kept: Box<[u64]>,
    single: Box<[u64]>,
}

impl Output {
    pub fn new(elements: usize, channels: usize) -> Output {
        Output {
            events: HitEvents::default(),
            next_number: 0,
            distinct: Distinct::new(elements),
            cut_short: 0,
            kept: vec![0; channels].into(),
            single: vec![0; channels].into(),
        }
    }

    /// Closes an event of these hits; `reference` is the place of its reference among them.
    pub fn emit(&mut self, hits: &mut [Waiting], reference: Option<usize>) {
        hits.iter().for_each(|waiting| self.distinct.enter(waiting.element));
        let multiplicity = self.distinct.different();
        hits.iter().for_each(|waiting| self.distinct.leave(waiting.element));
        self.events.events.push(HitEvent {
            number: self.next_number,
            time_ps: hits.get(reference.unwrap_or(0)).map_or(0, |waiting| waiting.hit.time_ps),
            first: self.events.members.len() as u32,
            count: hits.len() as u32,
            multiplicity: multiplicity as u16,
            reference: reference.unwrap_or(0) as u16,
        });
        self.next_number += 1;
        self.events.members.extend(hits.iter().map(|waiting| waiting.hit));
        hits.iter_mut().for_each(|waiting| waiting.kept = true);
    }

    /// A hit that stands alone.
    #[inline]
    pub fn pass_single(&mut self, channel: u16, map: &ChannelMap) {
        if let Some(row) = map.row(channel) {
            self.single[row] += 1;
        }
    }

    /// Lets hits go that no event can want any more.
    pub fn release(&mut self, held: &mut Held, until: u64, map: &ChannelMap) {
        let Output { kept, single, .. } = self;
        held.release(until, |waiting| {
            let counts = if waiting.kept { &mut *kept } else { &mut *single };
            if let Some(row) = map.row(waiting.hit.channel) {
                counts[row] += 1;
            }
        });
    }

    /// Enters what has happened since in the tallies of the sources.
    pub fn enter(&mut self, map: &ChannelMap, tallies: &mut [Tally]) {
        for (row, channel) in map.channels().iter().enumerate() {
            let tally = &mut tallies[channel.source.index()];
            let (kept, single) = (std::mem::take(&mut self.kept[row]), std::mem::take(&mut self.single[row]));
            tally.output(Unit::Hits, kept);
            tally.filtered(Unit::Hits, single);
        }
    }
}
