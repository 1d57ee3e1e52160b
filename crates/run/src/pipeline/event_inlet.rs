//! Where the recorder of events takes them from: the ring of a builder, or the event filter behind it.
//!
//! ```text
//!  ring ═════════════════► all of a batch ──────┐
//!  ring ══► FilterStage ─► those that are kept ─┴─► EventRecorder
//! ```

use std::time::Duration;

use thalweg_data::ring::Downstream;
use thalweg_data::{Events, Selected};

use super::Signals;
use super::event_filter::{Decided, FilterStage};

/// The inlet of a recorder of events.
pub(crate) enum EventInlet {
    /// Every event is recorded.
    Ring(Downstream<Events>),
    /// Those that a filter keeps.
    Filter(Box<FilterStage>),
}

/// A batch of events.
pub(crate) enum EventBatch {
    Whole(Events),
    Selected(Decided),
}

impl EventBatch {
    /// The events, and which of them are recorded, and why; `None`: all of them.
    pub(crate) fn parts(&self) -> (&Events, Option<&[Option<Selected>]>) {
        match self {
            EventBatch::Whole(events) => (events, None),
            EventBatch::Selected(decided) => {
                let (events, selected) = decided.parts();
                (events, Some(selected))
            }
        }
    }
}

impl EventInlet {
    /// Takes the next batch, and waits at most `wait` for it.
    pub(crate) fn receive_wait(&mut self, wait: Duration, signals: &Signals) -> Option<EventBatch> {
        match self {
            EventInlet::Ring(ring) => ring.receive_wait(wait).map(EventBatch::Whole),
            EventInlet::Filter(filter) => filter.receive_wait(wait, signals).map(EventBatch::Selected),
        }
    }

    /// Gives a batch back when it has been recorded.
    pub(crate) fn give_back(&mut self, batch: EventBatch) {
        match (self, batch) {
            (EventInlet::Ring(ring), EventBatch::Whole(mut events)) => {
                events.clear();
                ring.give_back(events);
            }
            (EventInlet::Filter(filter), EventBatch::Selected(decided)) => filter.give_back(decided),
            _ => debug_assert!(false, "a batch goes back to where it came from"),
        }
    }

    /// Returns true if the builder has ended and nothing is left.
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            EventInlet::Ring(ring) => ring.is_finished(),
            EventInlet::Filter(filter) => filter.is_finished(),
        }
    }

    /// The filter, if there is one.
    pub(crate) fn filter(&self) -> Option<&FilterStage> {
        match self {
            EventInlet::Ring(_) => None,
            EventInlet::Filter(filter) => Some(filter),
        }
    }

    /// The run is over.
    pub(super) fn finish(&mut self, signals: &Signals) {
        if let EventInlet::Filter(filter) = self {
            filter.finish(signals);
        }
    }
}
