//! What measurements of whole systems need of the wiring: its sizes, and a unit between memory and nothing.
//!
//! ```text
//!  thalweg bench evb ─► processes ─► node: a readout or builder unit on the threads and connections of a run
//! ```
//! Behind the feature `bench`: a program that takes data has no use for it.

pub mod node;

use crate::plan::capacity;

/// Hits in a batch behind time order.
pub const OUTPUT_HITS: usize = capacity::OUTPUT_HITS;
/// Batches of ordered hits on their way to the thread that makes something of them.
pub const SELECTED_BATCHES: usize = capacity::SELECTED_BATCHES;
/// Batches of events between builder and recorder.
pub const EVENT_BATCHES: usize = capacity::EVENT_BATCHES;
