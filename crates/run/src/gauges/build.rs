//! The state of event building while a run goes on.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use thalweg_build::unit::BuilderUnit;
use thalweg_build::{Builder, Histogram};
use thalweg_data::{Busy, BusyTime, Events, Mark};
use thalweg_monitor::state::BuildSample;

use super::missed::MissedTriggers;

/// Written by the building thread now and then, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct BuildGauges {
    sample: Mutex<BuildSample>,
    /// BUSY, where a thread here raises it; not in the sample, since whoever holds the trigger back may wait meanwhile.
    busy: OnceLock<Arc<Busy>>,
    /// When the sample was taken.
    sampled: AtomicU64,
    missed: MissedTriggers,
    lent: AtomicUsize,
}

impl BuildGauges {
    /// Counts a batch that was passed on.
    pub(crate) fn passed_on(&self, events: &Events) {
        let mut sample = self.lock();
        for event in &events.events {
            sample.closed[event.closing as usize] += 1;
            let (lowest, highest) = sample.numbers.unwrap_or((event.trigger, event.trigger));
            sample.numbers = Some((lowest.min(event.trigger), highest.max(event.trigger)));
        }
    }

    /// Takes a sample of the builder.
    pub(crate) fn set_builder(&self, builder: &Builder, ring_fill: f64, mark: Mark) {
        self.sampled.store(mark.0, Ordering::Relaxed);
        let standing = builder.standing();
        let bins = |histogram: &Histogram| histogram.filled().collect();
        let mut sample = self.lock();
        *sample = BuildSample {
            closed: sample.closed,
            numbers: sample.numbers,
            open_events: standing.open_events,
            span: standing.span,
            held_bytes: standing.held_bytes,
            median_event_bytes: builder.event_bytes().quantile(0.5),
            event_bytes: bins(builder.event_bytes()),
            median_build_ns: builder.build_ns().quantile(0.5),
            p99_build_ns: builder.build_ns().quantile(0.99),
            build_ns: bins(builder.build_ns()),
            busy: builder.is_busy(),
            busy_share: None,
            ring_fill,
        };
    }

    /// The trigger is held back from here, by this.
    pub(crate) fn set_busy(&self, busy: &Arc<Busy>) {
        // Of several threads of a run, each sets the same.
        self.busy.get_or_init(|| busy.clone());
    }

    /// Takes a sample of a builder unit; of several, the last one is seen.
    pub(crate) fn set_unit(&self, unit: &BuilderUnit, event_bytes: &Histogram, build_ns: &Histogram) {
        let mut sample = self.lock();
        sample.held_bytes = unit.held_bytes();
        sample.busy = unit.is_busy();
        (sample.median_event_bytes, sample.median_build_ns) =
            (event_bytes.quantile(0.5), build_ns.quantile(0.5));
        sample.p99_build_ns = build_ns.quantile(0.99);
        (sample.event_bytes, sample.build_ns) = (event_bytes.filled().collect(), build_ns.filled().collect());
    }

    /// Sets how many batches workers of the event filter keep that do not answer.
    pub(crate) fn set_lent(&self, batches: usize) {
        self.lent.store(batches, Ordering::Relaxed);
    }

    /// Batches that workers of the event filter keep, whose blocks do not come back.
    pub(crate) fn lent(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }

    /// Returns the triggers that boards have missed.
    pub(crate) fn missed(&self) -> &MissedTriggers {
        &self.missed
    }

    /// The latest sample.
    pub(crate) fn latest(&self) -> BuildSample {
        let sample = self.lock().clone();
        let is_raised = self.busy.get().is_some_and(|busy| busy.is_raised());
        BuildSample { busy: sample.busy || is_raised, ..sample }
    }

    /// For how long the trigger was held back until `now`; `None` where it is not held back from here.
    pub(crate) fn busy_time(&self, now: Mark) -> Option<BusyTime> {
        Some(self.busy.get()?.time_until(now))
    }

    /// When the latest sample was taken: the time of a replay.
    pub(crate) fn sampled(&self) -> Mark {
        Mark(self.sampled.load(Ordering::Relaxed))
    }

    /// Events passed on so far.
    pub(crate) fn events(&self) -> u64 {
        self.lock().events()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BuildSample> {
        self.sample.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
