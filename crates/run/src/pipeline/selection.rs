//! Selection around time order: clocks before it, cuts on hits after it, and the way to the process thread.
//!
//! ```text
//!  batch of one source ─► align ─► (time order) ─► cut ─► Selected: hits, pass ─► (recording) ══► process thread
//!                                                   └─► counters, report            ▲═ cleared ═╝
//! ```

use std::sync::Arc;

use thalweg_analysis::channels::ChannelMap;
use thalweg_analysis::clocks::Aligner;
use thalweg_analysis::cut::{HitCuts, Scope, Selected};
use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{Hits, SnapshotNumber, SourceId};

use super::{Ledgered, REPORT_EVERY_NS};
use crate::observed::{CutReport, Observed};
use crate::plan::capacity::OUTPUT_HITS;

/// The interval at which the process thread gets the time if there are no hits.
const FORWARD_EVERY_NS: u64 = 10_000_000;

/// The selection of hits on the order thread, in addition to ordering and recording them.
pub(crate) struct Selection {
    map: Arc<ChannelMap>,
    aligner: Aligner,
    cuts: HitCuts,
    /// The slots by source; empty where nothing is cut.
    slots: Vec<Ledgered>,
    observed: Observed,
    outlet: Upstream<Selected>,
    reported_ns: u64,
    forwarded_ns: u64,
}

impl Selection {
    /// The cuts with the counters of the sources, and the end of the ring for the process thread.
    pub(crate) fn new(
        (map, aligner, cuts): (Arc<ChannelMap>, Aligner, HitCuts),
        slots: Vec<Ledgered>,
        observed: Observed,
        batches: usize,
    ) -> (Selection, Downstream<Selected>) {
        let (outlet, inlet) = circuit(batches, || Selected::with_capacity(OUTPUT_HITS));
        let selection =
            Selection { map, aligner, cuts, slots, observed, outlet, reported_ns: 0, forwarded_ns: 0 };
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

    /// Finds which of the hits are kept.
    pub(crate) fn cut(&mut self, batch: &mut Selected) {
        batch.cut(&mut self.cuts, &self.map);
        let mark_ns = batch.hits.header.mark.0;
        if mark_ns.saturating_sub(self.reported_ns) >= REPORT_EVERY_NS {
            self.reported_ns = mark_ns;
            self.publish();
        }
    }

    /// Hands a batch on in exchange for a cleared one, and waits for that. If no thread takes it, that thread has failed, and has reported
    /// why.
    pub(crate) fn pass_on(&mut self, batch: &mut Selected) {
        let header = batch.hits.header;
        if let Some(number) = header.snapshot {
            self.snapshot(header.source, number);
        } else if batch.hits.is_empty() && header.mark.0.saturating_sub(self.forwarded_ns) < FORWARD_EVERY_NS
        {
            return batch.clear();
        }
        self.forwarded_ns = header.mark.0;
        if !self.outlet.exchange(batch) {
            batch.clear();
        }
    }

    /// Handles the marker of a snapshot that has come after one source's hits.
    fn snapshot(&mut self, source: SourceId, number: SnapshotNumber) {
        self.cuts.settle();
        if let Some(slot) = self.slots.get(source.index()) {
            slot.snapshot(number, self.cuts.counters(source));
        }
    }

    /// Publishes the counters and the report.
    pub(crate) fn publish(&mut self) {
        self.cuts.settle();
        for (index, slot) in self.slots.iter().enumerate() {
            slot.publish(self.cuts.counters(SourceId(index as u16)));
        }
        self.observed.set_hit_cuts(self.cuts.passed().map(|cut| CutReport::new(cut, Scope::Hit)).collect());
    }
}
