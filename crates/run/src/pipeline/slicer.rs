//! Makes time slices of hits: cuts each source's hits by time, and makes an event of what all sources had in a slice.
//!
//! ```text
//!  decoded hits of one source ─► HitCutter ─┐ one fragment per source and slice
//!  decoded hits of another ────► HitCutter ─┴─► Builder ─► EventOutlet ══► recorder
//! ```
//! It runs in parallel with time order, on the same thread: batches come in the order of their marks, so a replay cuts and builds the same
//! slices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_build::Builder;
use thalweg_build::slices::HitCutter;
use thalweg_data::{Fragments, Hits, LossReason, Mark, SnapshotNumber, SourceId};

use super::{EventOutlet, Ledgered, Signals};
use crate::gauges::BuildGauges;

/// The interval at which the figures of building are brought up to date.
const SAMPLE_EVERY_NS: u64 = 50_000_000;
/// The time that the recorder may take to give blocks back.
const BLOCK_WAIT: Duration = Duration::from_secs(2);

/// One source's cutter and counters.
pub(crate) struct SourceCutter {
    pub(crate) cutter: HitCutter,
    /// Hits: in, in slices, lost, held.
    pub(crate) slices: Ledgered,
    /// Fragments, one per slice, by what others had.
    pub(crate) wire: Ledgered,
    /// Fragments that are built.
    pub(crate) build: Ledgered,
}

/// Cuts and builds.
pub(crate) struct Slicer {
    sources: Vec<SourceCutter>,
    builder: Builder,
    /// The cut fragments that are not built yet; empty between batches.
    fragments: Fragments,
    outlet: EventOutlet,
    events: Ledgered,
    gauges: Arc<BuildGauges>,
    /// The latest snapshot that has passed, by source.
    passed: Vec<SnapshotNumber>,
    reported: SnapshotNumber,
    sampled: Mark,
    latest: Mark,
    /// True if no thread records any more.
    abandoned: bool,
}

impl Slicer {
    pub(crate) fn new(
        sources: Vec<SourceCutter>,
        builder: Builder,
        (outlet, gauges): (EventOutlet, Arc<BuildGauges>),
        events: Ledgered,
    ) -> Slicer {
        Slicer {
            passed: vec![0; sources.len()],
            sources,
            builder,
            fragments: Fragments::default(),
            outlet,
            events,
            gauges,
            reported: 0,
            sampled: Mark(0),
            latest: Mark(0),
            abandoned: false,
        }
    }

    /// Takes one source's hits of one batch.
    pub(crate) fn take(&mut self, index: usize, batch: &Hits, signals: &Signals) {
        let mark = batch.header.mark;
        self.latest = self.latest.max(mark);
        let mut first = 0;
        while first < batch.hits.len() {
            let taken = self.sources[index].cutter.cut(batch, first, &mut self.fragments);
            first += taken;
            let cut_some = taken > 0 || !self.fragments.fragments.is_empty();
            self.build(signals);
            if self.abandoned || !cut_some && !self.wait_for_blocks(signals) {
                let reason = if self.abandoned { LossReason::Abandoned } else { LossReason::OverBudget };
                let left = (batch.hits.len() - first) as u64;
                self.sources[index].cutter.timeline_mut().lose(reason, left);
                break;
            }
        }
        if batch.header.end {
            self.end_source(index, signals);
        } else {
            while !self.sources[index].cutter.timeline_mut().advance(mark, &mut self.fragments) {
                self.build(signals);
            }
            self.build(signals);
        }
        self.publish(index, batch.header.snapshot, signals);
    }

    /// Makes everything that is left leave.
    pub(crate) fn end(&mut self, signals: &Signals) {
        self.builder.end_run();
        while self.pull(signals) && !self.builder.is_empty() && self.builder.stop().is_none() {}
        self.builder.end_numbers(None);
        self.outlet.pass_on(self.latest, None, true, &mut || {}, signals);
        for (index, source) in self.sources.iter().enumerate() {
            source.slices.publish(source.cutter.timeline().counters());
            source.wire.publish(self.builder.wire_counters(self.id(index)));
            source.build.publish(self.builder.counters(self.id(index)));
        }
        self.events.publish(self.builder.events_counters());
        self.sample();
    }

    fn end_source(&mut self, index: usize, signals: &Signals) {
        while !self.sources[index].cutter.timeline_mut().finish(self.latest, &mut self.fragments) {
            self.build(signals);
        }
        self.build(signals);
        self.builder.end(self.id(index));
        // It is not waited for by snapshots either.
        self.passed[index] = SnapshotNumber::MAX;
    }

    /// Hands what was cut to the builder, and what was built on.
    fn build(&mut self, signals: &Signals) {
        self.builder.advance(self.latest);
        let mut first = 0;
        loop {
            let taken = self.builder.insert_from(&self.fragments, first);
            first += taken;
            self.pull(signals);
            if first == self.fragments.fragments.len() {
                break;
            }
            if taken == 0 {
                // Too far ahead of all others, whose batches come after this one: it cannot wait for them.
                self.builder.refuse(&self.fragments, first);
                break;
            }
        }
        self.fragments.clear();
    }

    fn pull(&mut self, signals: &Signals) -> bool {
        if !self.abandoned {
            self.abandoned = !self.outlet.pull(&mut self.builder, self.latest, &mut || {}, signals);
        }
        if let Some(stop) = self.builder.stop().filter(|_| !self.abandoned) {
            self.abandoned = true;
            signals.fail(format!(
                "time slice {} is incomplete and `[build] incomplete` is \"stop\": {} source(s) missing",
                stop.trigger,
                stop.missing.len()
            ));
        }
        !self.abandoned
    }

    /// All blocks are on loan: what is built goes to the recorder, which gives its blocks back. Whether one is free then.
    fn wait_for_blocks(&mut self, signals: &Signals) -> bool {
        self.outlet.pass_on(self.latest, None, false, &mut || {}, signals);
        let since = Instant::now();
        while self.outlet.in_flight() > 0 && since.elapsed() < BLOCK_WAIT {
            std::thread::sleep(Duration::from_micros(100));
        }
        self.sources.iter().any(|source| source.cutter.has_free_block())
    }

    /// The number of the slices of the source at this index.
    fn id(&self, index: usize) -> SourceId {
        SourceId(self.builder.sources().start + index as u16)
    }

    fn publish(&mut self, index: usize, snapshot: Option<SnapshotNumber>, signals: &Signals) {
        let id = self.id(index);
        let source = &mut self.sources[index];
        match snapshot {
            Some(number) => {
                source.slices.snapshot(number, source.cutter.timeline().counters());
                self.passed[index] = self.passed[index].max(number);
                self.report_snapshot(signals);
            }
            None => {
                source.slices.publish_at(self.latest.0, source.cutter.timeline().counters());
                source.wire.publish_at(self.latest.0, self.builder.wire_counters(id));
                source.build.publish_at(self.latest.0, self.builder.counters(id));
                self.events.publish_at(self.latest.0, self.builder.events_counters());
            }
        }
        if self.latest.since_ns(self.sampled) >= SAMPLE_EVERY_NS {
            self.sampled = self.latest;
            self.sample();
        }
    }

    /// Building has one set of slots: they are of a number when it has passed all sources.
    fn report_snapshot(&mut self, signals: &Signals) {
        let number = self.passed.iter().copied().min().unwrap_or(0);
        if number <= self.reported || number == SnapshotNumber::MAX {
            return;
        }
        self.reported = number;
        for (index, source) in self.sources.iter().enumerate() {
            source.wire.snapshot(number, self.builder.wire_counters(self.id(index)));
            source.build.snapshot(number, self.builder.counters(self.id(index)));
        }
        self.events.snapshot(number, self.builder.events_counters());
        self.outlet.pass_on(self.latest, Some(number), false, &mut || {}, signals);
    }

    fn sample(&self) {
        let fill = self.outlet.fill();
        self.gauges.set_builder(&self.builder, fill, self.latest);
    }
}
