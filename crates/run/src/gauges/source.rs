//! The gauges of a source, as its reader shows them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_data::{Pool, SourceId};

/// Fill levels and the kernel's counters of one source: written by its reader, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    ring_fill: AtomicU64,
    pool: Option<Pool>,
    drop_counters: Mutex<Vec<(&'static str, u64)>>,
}

/// The gauges of every source or link that has some, by its number.
pub(crate) type GaugesOf = BTreeMap<SourceId, Arc<Gauges>>;

impl Gauges {
    /// Gauges of a source that receives into `pool`.
    pub(crate) fn new(pool: Option<Pool>) -> Gauges {
        Gauges { pool, ..Gauges::default() }
    }

    pub(crate) fn set_ring_fill(&self, fill: f64) {
        self.ring_fill.store(fill.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn set_drop_counters(&self, drop_counters: Vec<(&'static str, u64)>) {
        *self.drop_counters.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = drop_counters;
    }

    /// The kernel's counters and the like: they say where a loss happened and are added to nothing.
    pub(crate) fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        self.drop_counters.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(crate) fn ring_fill(&self) -> f64 {
        f64::from_bits(self.ring_fill.load(Ordering::Relaxed))
    }

    pub(crate) fn pool_fill(&self) -> f64 {
        self.pool.as_ref().map_or(0.0, |pool| 1.0 - pool.free_count() as f64 / pool.block_count() as f64)
    }

    pub(crate) fn pool_bytes(&self) -> u64 {
        self.pool.as_ref().map_or(0, |pool| pool.block_count() as u64 * pool.block_size() as u64)
    }
}

/// The drop counters of several links, those of one name added.
pub(crate) fn add_drop_counters<'g>(
    gauges: impl Iterator<Item = &'g Arc<Gauges>>,
) -> BTreeMap<&'static str, u64> {
    let mut sum = BTreeMap::new();
    for (name, count) in gauges.flat_map(|gauges| gauges.drop_counters()) {
        *sum.entry(name).or_default() += count;
    }
    sum
}
