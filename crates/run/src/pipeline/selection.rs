//! Selection around time order: clocks before it, cuts on hits and coincidence after it, and the way to the process thread.
//!
//! ```text
//!  batch of one source ─► align ─► (time order) ─► select ─► Selected: hits, pass, events ─► (recording) ══► process thread
//!                                                    └─► counters, report                       ▲═ cleared ═╝
//! ```

use std::sync::Arc;

use thalweg_analysis::channels::ChannelMap;
use thalweg_analysis::clocks::Aligner;
use thalweg_analysis::cut::Scope;
use thalweg_analysis::process::{Selected, Selector};
use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{HitEvents, Hits, Mark, SnapshotNumber, SourceId, Unit};

use super::{Ledgered, REPORT_EVERY_NS};
use crate::observed::{CutReport, MadeReport, Observed};
use crate::plan::capacity::OUTPUT_HITS;

/// The interval at which the process thread gets the time if there are no hits.
const FORWARD_EVERY_NS: u64 = 10_000_000;

/// The counter slots of what is selected.
pub(crate) struct SelectionSlots {
    /// Of the cuts, by source; empty where nothing is cut.
    pub(crate) cut: Vec<Ledgered>,
    /// Of the hits in coincidence, by source; empty where there is none.
    pub(crate) coincide: Vec<Ledgered>,
    /// Of the events that are made of them.
    pub(crate) made: Option<Ledgered>,
}

/// The selection of hits on the order thread, in addition to ordering and recording them.
pub(crate) struct Selection {
    map: Arc<ChannelMap>,
    aligner: Aligner,
    selector: Selector,
    slots: SelectionSlots,
    observed: Observed,
    outlet: Upstream<Selected>,
    /// Takes events of which there are too many for their batch.
    early: Selected,
    reported_ns: u64,
    forwarded_ns: u64,
}

impl Selection {
    /// The selector with the counters of the sources, and the end of the ring for the process thread.
    pub(crate) fn new(
        (map, aligner, selector): (Arc<ChannelMap>, Aligner, Selector),
        slots: SelectionSlots,
        observed: Observed,
        batches: usize,
    ) -> (Selection, Downstream<Selected>) {
        let (outlet, inlet) = circuit(batches, || Selected::with_capacity(OUTPUT_HITS));
        let selection = Selection {
            map,
            aligner,
            selector,
            slots,
            observed,
            outlet,
            early: Selected::default(),
            reported_ns: 0,
            forwarded_ns: 0,
        };
        (selection, inlet)
    }

    /// Returns the source of each channel's hits, by number of the channel.
    pub(crate) fn sources_of_channels(&self) -> Box<[SourceId]> {
        let mut sources = vec![SourceId::default(); 1 << 16];
        for channel in self.map.channels() {
            sources[usize::from(channel.number)] = channel.source;
        }
        sources.into()
    }

    /// Returns how far the offsets of channels may disturb the order inside a source, picoseconds.
    pub(crate) fn disorder_ps(&self, source: SourceId) -> u64 {
        self.aligner.disorder_ps(source)
    }

    /// Corrects the times of a batch of one source.
    pub(crate) fn align(&self, batch: &mut Hits) {
        self.aligner.align(batch, &self.map);
    }

    /// Finds which of the hits are kept, and which belong together.
    pub(crate) fn select(&mut self, batch: &mut Selected) {
        let mark = batch.hits.header.mark;
        let Selection { selector, outlet, early, .. } = self;
        selector.select(batch, |events| pass_early(outlet, early, events, mark));
        if mark.0.saturating_sub(self.reported_ns) >= REPORT_EVERY_NS {
            self.reported_ns = mark.0;
            self.publish();
        }
    }

    /// Hands a batch on in exchange for a cleared one, and waits for that. If no thread takes it, that thread has failed, and has reported
    /// why.
    pub(crate) fn pass_on(&mut self, batch: &mut Selected) {
        let header = batch.hits.header;
        if let Some(number) = header.snapshot {
            self.snapshot(header.source, number);
        } else if batch.is_empty() && header.mark.0.saturating_sub(self.forwarded_ns) < FORWARD_EVERY_NS {
            return batch.clear();
        }
        self.forwarded_ns = header.mark.0;
        if !self.outlet.exchange(batch) {
            batch.clear();
        }
    }

    /// Hands the events on that were still open: no hit follows after this mark.
    pub(crate) fn finish(&mut self, mark: Mark) {
        let Selection { selector, outlet, early, .. } = self;
        let mut events = HitEvents::default();
        selector.finish(&mut events);
        pass_early(outlet, early, &mut events, mark);
        self.publish();
    }

    /// Handles the marker of a snapshot that has come after one source's hits.
    fn snapshot(&mut self, source: SourceId, number: SnapshotNumber) {
        self.selector.settle();
        if let Some(slot) = self.slots.cut.get(source.index()) {
            slot.snapshot(number, self.selector.cut_counters(source));
        }
        let counters = self.selector.coincidence_counters(source);
        if let (Some(slot), Some(counters)) = (self.slots.coincide.get(source.index()), counters) {
            slot.snapshot(number, counters);
        }
        // Events are of all sources together: one marker stands for all.
        if let Some(slot) = self.slots.made.as_ref().filter(|_| source == SourceId(0)) {
            slot.snapshot(number, self.selector.made_counters());
        }
    }

    /// Publishes the counters and the report.
    fn publish(&mut self) {
        let Selection { selector, slots, observed, .. } = self;
        selector.settle();
        for (index, slot) in slots.cut.iter().enumerate() {
            slot.publish(selector.cut_counters(SourceId(index as u16)));
        }
        for (index, slot) in slots.coincide.iter().enumerate() {
            if let Some(counters) = selector.coincidence_counters(SourceId(index as u16)) {
                slot.publish(counters);
            }
        }
        let made = selector.made_counters();
        if let Some(slot) = &slots.made {
            slot.publish(made);
        }
        let cuts = selector.passed().map(|cut| CutReport::new(cut, Scope::Hit)).collect();
        let made = MadeReport { made: made.total_output(Unit::Events), cut_short: selector.cut_short() };
        observed.set_selected(cuts, made);
    }
}

/// Hands events on in front of their batch.
fn pass_early(outlet: &mut Upstream<Selected>, early: &mut Selected, events: &mut HitEvents, mark: Mark) {
    if events.events.is_empty() {
        return;
    }
    std::mem::swap(&mut early.events, events);
    early.hits.header.mark = mark;
    if !outlet.exchange(early) {
        early.clear();
    }
}
