//! The end of the ring through which built events leave, on the side of the builder.
//!
//! ```text
//!  Builder ─ pull ─► the batch in the making ─ full, large or old ─► ring ══► recorder
//! ```

use std::sync::Arc;

use thalweg_build::Builder;
use thalweg_data::ring::Upstream;
use thalweg_data::{Events, Mark, SnapshotNumber, SourceId};

use super::Signals;
use super::decode_workers::wait_for_empty;
use crate::gauges::BuildGauges;
use crate::plan::capacity::{EVENT_BATCH_BYTES, EVENT_BATCHES, EVENTS_PER_BATCH};

/// A batch is passed on when it has enough events or payload, or at this age at the latest.
const BATCH_AGE_NS: u64 = 20_000_000;

/// The outlet of built events.
pub(crate) struct EventOutlet {
    ring: Upstream<Events>,
    batch: Events,
    /// Payload of the batch in the making.
    bytes: u64,
    since: Option<Mark>,
    gauges: Arc<BuildGauges>,
}

impl EventOutlet {
    pub(crate) fn new(ring: Upstream<Events>, gauges: Arc<BuildGauges>) -> EventOutlet {
        EventOutlet { ring, batch: Events::default(), bytes: 0, since: None, gauges }
    }

    /// Batches under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.ring.in_flight()
    }

    /// The fraction of the batches that wait which may; a filter has more of them in its hands.
    pub(crate) fn fill(&self) -> f64 {
        (self.in_flight() as f64 / EVENT_BATCHES as f64).min(1.0)
    }

    /// Returns true if the recorder has done with everything that was passed on.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ring.is_at_rest()
    }

    /// Passes on what there is and makes the recorder write all that it keeps: its blocks are needed. Returns `false` when no thread takes
    /// it.
    pub(crate) fn write_all(&mut self, mark: Mark, waits: &mut dyn FnMut(), signals: &Signals) -> bool {
        self.batch.write_all = true;
        self.pass_on(mark, None, false, waits, signals)
    }

    /// Takes what is built and passes batches on that are due. Returns `false` when no thread takes them any more. Calls `waits` before it
    /// waits for the recorder.
    pub(crate) fn pull(
        &mut self,
        builder: &mut Builder,
        mark: Mark,
        waits: &mut dyn FnMut(),
        signals: &Signals,
    ) -> bool {
        loop {
            let before = self.batch.events.len();
            if builder.pull(&mut self.batch, EVENTS_PER_BATCH - before) {
                self.since.get_or_insert(mark);
                self.gauges.missed().note(&self.batch, before);
            }
            self.bytes += self.batch.events[before..].iter().map(|event| event.bytes).sum::<u64>();
            let full = self.batch.events.len() >= EVENTS_PER_BATCH || self.bytes >= EVENT_BATCH_BYTES;
            let aged = self.since.is_some_and(|since| mark.since_ns(since) >= BATCH_AGE_NS);
            if (full || aged) && !self.pass_on(mark, None, false, waits, signals) {
                return false;
            }
            if !full {
                return true;
            }
        }
    }

    /// Passes the batch on as it is, with what follows it. Returns `false` when no thread takes it.
    pub(crate) fn pass_on(
        &mut self,
        mark: Mark,
        snapshot: Option<SnapshotNumber>,
        end: bool,
        waits: &mut dyn FnMut(),
        signals: &Signals,
    ) -> bool {
        self.batch.header = thalweg_data::batch::Header { source: SourceId(0), mark, snapshot, end };
        (self.since, self.bytes) = (None, 0);
        let next = self.ring.empty().or_else(|| {
            waits();
            wait_for_empty(&mut self.ring, signals)
        });
        let Some(mut next) = next else { return false };
        next.clear();
        std::mem::swap(&mut next, &mut self.batch);
        self.gauges.passed_on(&next);
        self.ring.send(next);
        true
    }
}
