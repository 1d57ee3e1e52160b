//! Decoding on the receiving thread, or by workers in turn, in the order of the batches.
//!
//! ```text
//!  units 0 1 2 3 4 5 ─► worker 0: 0 3 · worker 1: 1 4 · worker 2: 2 5 ─► order thread takes 0 1 2 3 4 5
//! ```
//! Batches go to the workers in turn and are taken from them in turn, so their order needs no sorting and no number.

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{Decode, Frames, Hits};

use super::Signals;
use crate::plan::capacity::BATCHES;

const WAIT: Duration = Duration::from_millis(100);

/// The sending side: one batch of units after another becomes a batch of hits.
pub(crate) enum DecodeStage {
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

/// Makes the decode stage of one source: `decoders` holds one decoder for inline decoding, or one per worker.
pub(crate) fn decode_stage(
    mut decoders: Vec<Box<dyn Decode>>,
    workers: usize,
    (batches, hits_per_batch): (usize, usize),
) -> (DecodeStage, Vec<Worker>, Vec<Downstream<Hits>>) {
    let hits_circuit = || circuit(batches, || Hits::with_capacity(hits_per_batch));
    if workers == 0 {
        let (hits, outlet) = hits_circuit();
        let decode = decoders.pop().expect("a source has a decoder");
        return (DecodeStage::Inline { decode, hits }, Vec::new(), vec![outlet]);
    }
    let (mut queues, mut threads, mut outlets) = (Vec::new(), Vec::new(), Vec::new());
    for decode in decoders {
        let (units_up, units) = circuit(batches, Frames::default);
        let (hits, outlet) = hits_circuit();
        queues.push(units_up);
        threads.push(Worker { decode, units, hits });
        outlets.push(outlet);
    }
    (DecodeStage::Workers { queues, next: 0 }, threads, outlets)
}

impl DecodeStage {
    /// Sends `units` on and leaves an empty batch in its place. `false` when the other side is gone.
    pub(crate) fn send(&mut self, units: &mut Frames, signals: &Signals) -> bool {
        match self {
            DecodeStage::Inline { decode, hits } => {
                let Some(mut batch) = wait_for_empty(hits, signals) else { return false };
                decode_into(decode.as_mut(), units, &mut batch);
                hits.send(batch);
                units.clear();
                true
            }
            DecodeStage::Workers { queues, next } => {
                let queue = &mut queues[*next];
                let Some(mut batch) = wait_for_empty(queue, signals) else { return false };
                std::mem::swap(&mut batch, units);
                queue.send(batch);
                *next = (*next + 1) % queues.len();
                true
            }
        }
    }

    /// Returns true if the next [`DecodeStage::send`] does not wait.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            DecodeStage::Inline { hits, .. } => hits.is_ready(),
            DecodeStage::Workers { queues, next } => queues[*next].is_ready(),
        }
    }

    /// Batches under way, of how many.
    pub(crate) fn fill(&self) -> f64 {
        let fraction = |in_flight: usize| in_flight as f64 / BATCHES as f64;
        match self {
            DecodeStage::Inline { hits, .. } => fraction(hits.in_flight()),
            DecodeStage::Workers { queues, .. } => {
                queues.iter().map(|queue| fraction(queue.in_flight())).fold(0.0, f64::max)
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
    hits.decoded.as_mut().clone_from(decode.counters());
}

/// The policy `hold`: waits as long as the other end lives.
pub(super) fn wait_for_empty<T>(upstream: &mut Upstream<T>, signals: &Signals) -> Option<T> {
    let empty = upstream.next_empty();
    if empty.is_none() {
        signals.fail("a stage behind this one has ended before its time; see the message before".to_owned());
    }
    empty
}
