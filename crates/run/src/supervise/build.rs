//! What can be said of event building while a run goes on.

use std::sync::Mutex;

use serde::Serialize;
use thalweg_build::unit::BuilderUnit;
use thalweg_build::{Builder, Histogram};
use thalweg_data::{Closing, Events};

/// The builder's state at one look.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BuildLook {
    /// Events passed on so far, by why they were closed: complete, age, depth, end, unit lost.
    pub closed: [u64; Closing::ALL.len()],
    /// Lowest and highest trigger of them.
    pub numbers: Option<(u64, u64)>,
    /// Triggers with fragments that wait for others.
    pub open_events: usize,
    /// Triggers from the oldest that is open to the newest that was seen.
    pub span: u64,
    /// Payload that waits, bytes.
    pub held_bytes: u64,
    /// Half of all events are at most so large, bytes.
    pub median_event_bytes: u64,
    /// Event sizes: the smallest of each bin, and how many.
    pub event_bytes: Vec<(u64, u64)>,
    /// Half of all events were built within this time of their first fragment, nanoseconds.
    pub median_build_ns: u64,
    /// All but one in a hundred.
    pub p99_build_ns: u64,
    /// Build times, as the sizes.
    pub build_ns: Vec<(u64, u64)>,
    /// Whether the trigger is held back now.
    pub busy: bool,
    /// Share of the run so far in which it was, 0 to 1; `None` where builder units are elsewhere.
    pub busy_share: Option<f64>,
    /// How full the ring to the recorder is, 0 to 1.
    pub ring_fill: f64,
}

/// Written by the building thread now and then, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct BuildGauges(Mutex<BuildLook>);

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

    /// How long the side of the trigger has held it back, as a share of the run: builder units hold it back together.
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

    /// The latest look.
    pub(crate) fn latest(&self) -> BuildLook {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BuildLook> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl BuildLook {
    /// Events passed on so far.
    pub fn events(&self) -> u64 {
        self.closed.iter().sum()
    }

    /// Triggers between the first and the last event that made none, `dropped` apart: of these, no board was heard. Also those
    /// that a number which jumped has left out.
    pub fn unseen(&self, dropped: u64) -> u64 {
        let (lowest, highest) = self.numbers.map_or((1, 0), |numbers| numbers);
        (highest.wrapping_sub(lowest).wrapping_add(1)).saturating_sub(self.events() + dropped)
    }

    /// Of these, events of which a source was missing.
    pub fn partial(&self) -> u64 {
        self.events() - self.closed[Closing::Complete as usize]
    }
}
