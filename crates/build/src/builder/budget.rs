//! What a builder takes of memory, computed before it begins.

use super::columns::Columns;
use super::counters::BuilderCounters;
use super::deferred::DeferredFragments;
use super::rows::Rows;
use super::settings::Settings;
use super::window::Stray;
use thalweg_data::Slice;

/// Memory of a builder in bytes, for the plan that is printed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The columns: one entry per source and trigger.
    pub columns: u64,
    /// What is known of each open trigger.
    pub rows: u64,
    /// Places of fragments that came too early.
    pub deferred: u64,
    /// Slices beyond the first of fragments that came in several slices.
    pub chained: u64,
    /// Counts and counters.
    pub counters: u64,
    /// Payload that may wait: it lies in the sources' own blocks, and is not the builder's.
    pub payload: u64,
}

impl Budget {
    /// The memory that a builder of these settings will allocate, and the payload that it may hold.
    pub fn of(settings: &Settings, sources: usize) -> Budget {
        Budget {
            columns: Columns::byte_size(sources, settings.depth) as u64,
            rows: Rows::byte_size(settings.depth) as u64 + 8 * settings.depth as u64,
            deferred: (DeferredFragments::byte_size(sources, settings.depth) + sources * size_of::<Stray>())
                as u64,
            chained: (settings.chained_slices_of(sources) * size_of::<Slice>()) as u64,
            counters: BuilderCounters::byte_size(sources) as u64,
            payload: settings.bytes_per_source(sources).saturating_mul(sources as u64),
        }
    }

    /// What the builder allocates itself.
    pub fn own(&self) -> u64 {
        self.columns + self.rows + self.deferred + self.chained + self.counters
    }

    /// The items by name, as printed.
    pub fn items(&self) -> [(&'static str, u64); 6] {
        [
            ("columns", self.columns),
            ("rows", self.rows),
            ("deferred", self.deferred),
            ("chained slices", self.chained),
            ("counters", self.counters),
            ("payload in the sources' blocks", self.payload),
        ]
    }
}
