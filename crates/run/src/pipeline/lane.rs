//! Decode lanes: on the receiving thread, or spread over workers, order kept.
//!
//! ```text
//!  units 0 1 2 3 4 5 ─► lane 0: 0 3 · lane 1: 1 4 · lane 2: 2 5 ─► order thread takes 0 1 2 3 4 5
//! ```
//! Batches go to the lanes in turn and are collected in turn, so their order needs no sorting and no number.

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{Decode, Frames, Hits};

use super::Signals;

/// Batches in each circuit. Eight of a quarter of a megabyte bridge 25 ms at 40 M hits/s.
pub(crate) const BATCHES: usize = 8;
const WAIT: Duration = Duration::from_millis(100);

/// The sending side: one batch of units after another becomes a batch of hits.
pub(crate) enum Lanes {
    /// Decoded here and now.
    Inline { decode: Box<dyn Decode>, hits: Upstream<Hits> },
    /// Decoded by workers in turn.
    Workers { queues: Vec<Upstream<Frames>>, next: usize },
}

/// One decode thread.
pub(crate) struct Worker {
    decode: Box<dyn Decode>,
    units: Downstream<Frames>,
    hits: Upstream<Hits>,
}

/// The lanes of one source: `decoders` holds one decoder for inline decoding, or one per worker.
pub(crate) fn lanes(
    mut decoders: Vec<Box<dyn Decode>>,
    workers: usize,
    (batches, hits_per_batch): (usize, usize),
) -> (Lanes, Vec<Worker>, Vec<Downstream<Hits>>) {
    let hits_circuit = || circuit(batches, || Hits::with_capacity(hits_per_batch));
    if workers == 0 {
        let (hits, outlet) = hits_circuit();
        let decode = decoders.pop().expect("a source has a decoder");
        return (Lanes::Inline { decode, hits }, Vec::new(), vec![outlet]);
    }
    let (mut queues, mut threads, mut outlets) = (Vec::new(), Vec::new(), Vec::new());
    for decode in decoders {
        let (units_up, units) = circuit(batches, Frames::default);
        let (hits, outlet) = hits_circuit();
        queues.push(units_up);
        threads.push(Worker { decode, units, hits });
        outlets.push(outlet);
    }
    (Lanes::Workers { queues, next: 0 }, threads, outlets)
}

impl Lanes {
    /// Sends `units` on and leaves an empty batch in its place. `false` when the other side is gone.
    pub(crate) fn send(&mut self, units: &mut Frames, signals: &Signals) -> bool {
        match self {
            Lanes::Inline { decode, hits } => {
                let Some(mut batch) = wait_for_empty(hits, signals) else { return false };
                decode_into(decode.as_mut(), units, &mut batch);
                hits.send(batch);
                units.clear();
                true
            }
            Lanes::Workers { queues, next } => {
                let queue = &mut queues[*next];
                let Some(mut batch) = wait_for_empty(queue, signals) else { return false };
                std::mem::swap(&mut batch, units);
                queue.send(batch);
                *next = (*next + 1) % queues.len();
                true
            }
        }
    }

    /// Whether the next [`Lanes::send`] does not wait.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Lanes::Inline { hits, .. } => hits.is_ready(),
            Lanes::Workers { queues, next } => queues[*next].is_ready(),
        }
    }

    /// Batches under way, of how many.
    pub(crate) fn fill(&self) -> f64 {
        let share = |in_flight: usize| in_flight as f64 / BATCHES as f64;
        match self {
            Lanes::Inline { hits, .. } => share(hits.in_flight()),
            Lanes::Workers { queues, .. } => {
                queues.iter().map(|queue| share(queue.in_flight())).fold(0.0, f64::max)
            }
        }
    }
}

impl Worker {
    /// Decodes until the reader is gone and its last batch is read.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) {
        while !self.units.is_finished() {
            let Some(mut units) = self.units.receive_wait(WAIT) else { continue };
            let Some(mut batch) = wait_for_empty(&mut self.hits, signals) else { return };
            decode_into(self.decode.as_mut(), &units, &mut batch);
            self.hits.send(batch);
            units.clear();
            self.units.give_back(units);
        }
    }
}

fn decode_into(decode: &mut dyn Decode, units: &Frames, hits: &mut Hits) {
    hits.header = units.header;
    decode.decode(units, hits);
    hits.decoded.as_mut().clone_from(decode.tally());
}

/// The policy `hold`: waits as long as the other end lives.
pub(super) fn wait_for_empty<T>(upstream: &mut Upstream<T>, signals: &Signals) -> Option<T> {
    let empty = upstream.next_empty();
    if empty.is_none() {
        signals.fail("a stage behind this one has ended before its time; see the message before".to_owned());
    }
    empty
}
