//! Fragments that came too early: a short queue per source, allocated once.
//!
//! ```text
//!  source 0  [ ▪ ▪ ▪ – – – ]      until the window has come to them, or they are given up
//!  source 1  [ – – – – – – ]
//! ```

use thalweg_data::{Mark, Slice};

/// A fragment outside the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferred {
    /// The number as the board sent it.
    pub raw: u64,
    pub ticks: u64,
    /// As in a column's entry.
    pub slice: Slice,
    /// Bytes of all its slices.
    pub bytes: u64,
    /// Slices beyond one; wraps below 0 for a fragment without bytes.
    pub chained: u32,
    /// When it came.
    pub mark: Mark,
}

/// Fragments of one source that may be deferred: no more than half the window, so that a source which runs ahead without a gap
/// is not read long before it is taken for one that has jumped.
fn places_for(depth: usize) -> usize {
    (depth / 2).min(64)
}

/// The queue of one source.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    first: usize,
    length: usize,
    bytes: u64,
}

/// The queues of all sources.
pub(super) struct DeferredFragments {
    places: Vec<Deferred>,
    per_source: usize,
    queues: Vec<Queue>,
    total: usize,
}

impl DeferredFragments {
    pub fn new(sources: usize, depth: usize) -> DeferredFragments {
        let per_source = places_for(depth);
        DeferredFragments {
            places: vec![Deferred::default(); sources * per_source],
            per_source,
            queues: vec![Queue::default(); sources],
            total: 0,
        }
    }

    /// Memory of the queues, in bytes.
    pub fn byte_size(sources: usize, depth: usize) -> usize {
        sources * (places_for(depth) * size_of::<Deferred>() + size_of::<Queue>())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.queues.fill(Queue::default());
        self.total = 0;
    }

    /// Fragments deferred, of all sources.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Fragments of one source that are deferred.
    pub fn length(&self, source: usize) -> usize {
        self.queues[source].length
    }

    /// Their bytes.
    pub fn bytes(&self, source: usize) -> u64 {
        self.queues[source].bytes
    }

    pub fn is_full(&self, source: usize) -> bool {
        self.queues[source].length == self.per_source
    }

    /// Whether more than half of a source's places are taken.
    pub fn is_half_full(&self, source: usize) -> bool {
        self.queues[source].length > self.per_source / 2
    }

    /// The one deferred longest, and so on.
    pub fn iter(&self, source: usize) -> impl Iterator<Item = &Deferred> {
        let Queue { first, length, .. } = self.queues[source];
        (first..first + length)
            .map(move |place| &self.places[source * self.per_source + place % self.per_source])
    }

    /// Defers one. The caller has checked that there is space.
    pub fn push(&mut self, source: usize, deferred: Deferred) {
        let queue = &mut self.queues[source];
        self.places[source * self.per_source + (queue.first + queue.length) % self.per_source] = deferred;
        queue.length += 1;
        queue.bytes += deferred.bytes;
        self.total += 1;
    }

    /// Takes out the one deferred longest.
    pub fn pop(&mut self, source: usize) -> Option<Deferred> {
        let queue = &mut self.queues[source];
        queue.length = queue.length.checked_sub(1)?;
        let deferred = self.places[source * self.per_source + queue.first];
        queue.first = (queue.first + 1) % self.per_source;
        queue.bytes -= deferred.bytes;
        self.total -= 1;
        Some(deferred)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_go_round() {
        let mut deferred = DeferredFragments::new(2, 1024);
        for raw in 0..1000 {
            deferred.push(1, Deferred { raw, bytes: 10, ..Deferred::default() });
            if deferred.is_full(1) {
                assert_eq!(deferred.iter(1).next().map(|deferred| deferred.raw), Some(raw + 1 - 64));
                assert_eq!(deferred.pop(1).map(|deferred| deferred.raw), Some(raw + 1 - 64));
            }
        }
        assert_eq!((deferred.length(0), deferred.length(1), deferred.total()), (0, 64 - 1, 64 - 1));
        assert_eq!(deferred.bytes(1), 10 * (64 - 1));
        assert!(deferred.pop(0).is_none());
    }
}
