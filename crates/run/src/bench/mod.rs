//! The parts of the wiring that measurements of whole systems need: its sizes, and a unit that generates in memory or discards.
//!
//! ```text
//!  thalweg bench evb ─► processes ─► node: a readout or builder unit on the threads and connections of a run
//! ```
//! Available with the feature `bench`: a program that takes data has no use for it.

pub mod filter;
pub mod node;

use crate::plan::capacity;

/// Hits in a batch after time order.
pub const OUTPUT_HITS: usize = capacity::OUTPUT_HITS;
/// Batches of ordered hits on their way to the thread that makes something of them.
pub const SELECTED_BATCHES: usize = capacity::SELECTED_BATCHES;
/// Batches of events between builder and recorder.
pub const EVENT_BATCHES: usize = capacity::EVENT_BATCHES;
