//! Where closed events go, and the counts of who was in one.
//!
//! ```text
//!  rule ─ emit(hits) ─► HitEvents
//!       └ release ────► by source: kept in an event, or single
//! ```

use thalweg_data::{Counters, Hit, Unit};

use super::held::{Distinct, Held, Waiting};
use thalweg_data::{HitEvent, HitEvents};

/// Closed events, and what became of the hits.
#[derive(Debug)]
pub(super) struct Output {
    pub events: HitEvents,
    next_number: u64,
    distinct: Distinct,
    /// Events that were cut because they grew too long.
    pub cut_short: u64,
    /// By source, and behind them of nobody: hits that went out in an event, and those that did not.
    kept: Box<[u64]>,
    single: Box<[u64]>,
}

impl Output {
    pub fn new(elements: usize, sources: usize) -> Output {
        Output {
            events: HitEvents::default(),
            next_number: 0,
            distinct: Distinct::new(elements),
            cut_short: 0,
            kept: vec![0; sources + 1].into(),
            single: vec![0; sources + 1].into(),
        }
    }

    /// Closes an event of these hits; `reference` is the place of its reference among them.
    pub fn emit(&mut self, hits: &mut [Waiting], reference: Option<usize>) {
        hits.iter().for_each(|waiting| self.distinct.enter(waiting.element));
        let multiplicity = self.distinct.different();
        hits.iter().for_each(|waiting| self.distinct.leave(waiting.element));
        self.close(hits.iter().map(|waiting| waiting.hit), multiplicity, reference.unwrap_or(0));
        hits.iter_mut().for_each(|waiting| waiting.kept = true);
    }

    /// Events that were closed so far.
    pub fn closed(&self) -> u64 {
        self.next_number
    }

    /// Closes an event of two different hits that nobody else is near to; `sources` are theirs.
    #[inline]
    pub fn emit_pair(&mut self, hits: [Hit; 2], sources: [usize; 2]) {
        self.close(hits.into_iter(), 2, 0);
        sources.into_iter().for_each(|source| self.kept[source] += 1);
    }

    #[inline]
    fn close(&mut self, hits: impl ExactSizeIterator<Item = Hit>, multiplicity: usize, reference: usize) {
        let HitEvents { events, members } = &mut self.events;
        let (first, count) = (members.len(), hits.len());
        members.extend(hits);
        events.push(HitEvent {
            number: self.next_number,
            time_ps: members.get(first + reference).map_or(0, |hit| hit.time_ps),
            first: first as u32,
            count: count as u32,
            multiplicity: multiplicity as u16,
            reference: reference as u16,
        });
        self.next_number += 1;
    }

    /// A hit of this source that is in no event.
    #[inline]
    pub fn refuse(&mut self, source: usize) {
        self.single[source] += 1;
    }

    /// Lets hits go that no event can want any more.
    pub fn release(&mut self, held: &mut Held, until: u64) {
        let Output { kept, single, .. } = self;
        held.release(until, |waiting| {
            let counts = if waiting.kept { &mut *kept } else { &mut *single };
            counts[usize::from(waiting.source)] += 1;
        });
    }

    /// Enters what has happened since in the counters of the sources.
    pub fn enter(&mut self, counters: &mut [Counters]) {
        for ((counters, kept), single) in counters.iter_mut().zip(&mut self.kept).zip(&mut self.single) {
            counters.output(Unit::Hits, std::mem::take(kept));
            counters.filtered(Unit::Hits, std::mem::take(single));
        }
    }
}
