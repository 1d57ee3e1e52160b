//! The state of event building while a run goes on.

use std::sync::Mutex;

use thalweg_build::unit::BuilderUnit;
use thalweg_build::{Builder, Histogram};
use thalweg_data::Events;
use thalweg_monitor::state::BuildLook;

use super::missed::MissedTriggers;

/// Written by the building thread now and then, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct BuildGauges {
    look: Mutex<BuildLook>,
    missed: MissedTriggers,
}

impl BuildGauges {
    /// Counts a batch that was passed on.
    pub(crate) fn passed_on(&self, events: &Events) {
        let mut look = self.lock();
        for event in &events.events {
            look.closed[event.closing as usize] += 1;
            let (lowest, highest) = look.numbers.unwrap_or((event.trigger, event.trigger));
            look.numbers = Some((lowest.min(event.trigger), highest.max(event.trigger)));
        }
    }

    /// Takes a look at the builder.
    pub(crate) fn look(&self, builder: &Builder, busy: bool, busy_share: Option<f64>, ring_fill: f64) {
        let standing = builder.standing();
        let bins = |histogram: &Histogram| histogram.filled().collect();
        let mut look = self.lock();
        *look = BuildLook {
            closed: look.closed,
            numbers: look.numbers,
            open_events: standing.open_events,
            span: standing.span,
            held_bytes: standing.held_bytes,
            median_event_bytes: builder.event_bytes().quantile(0.5),
            event_bytes: bins(builder.event_bytes()),
            median_build_ns: builder.build_ns().quantile(0.5),
            p99_build_ns: builder.build_ns().quantile(0.99),
            build_ns: bins(builder.build_ns()),
            busy,
            busy_share,
            ring_fill,
        };
    }

    /// Sets the fraction of the run for which the trigger side has held the trigger back: builder units hold it back together.
    pub(crate) fn set_busy(&self, busy_share: f64) {
        self.lock().busy_share = Some(busy_share);
    }

    /// Takes a look at a builder unit; of several, the last one that looks is seen.
    pub(crate) fn look_at(&self, unit: &BuilderUnit, event_bytes: &Histogram, build_ns: &Histogram) {
        let mut look = self.lock();
        look.held_bytes = unit.held_bytes();
        look.busy = unit.is_busy();
        (look.median_event_bytes, look.median_build_ns) = (event_bytes.quantile(0.5), build_ns.quantile(0.5));
        look.p99_build_ns = build_ns.quantile(0.99);
        (look.event_bytes, look.build_ns) = (event_bytes.filled().collect(), build_ns.filled().collect());
    }

    /// Returns the triggers that boards have missed.
    pub(crate) fn missed(&self) -> &MissedTriggers {
        &self.missed
    }

    /// The latest look.
    pub(crate) fn latest(&self) -> BuildLook {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BuildLook> {
        self.look.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
