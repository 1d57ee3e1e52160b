//! Time slices, for experiments without a trigger: what a source sends is cut by time, and the number of the slice is the
//! trigger number of one and the same [`Builder`](crate::Builder).
//!
//! ```text
//!  Hits of one source ──────► HitCutter ──────┐   one fragment per source and slice, empty ones too
//!  Fragments of one source ─► FragmentCutter ─┴─► Fragments ─► Builder ─► Events: slice 0, 1, 2 …
//!
//!  slice number = floor(time / length)      a slice leaves when the source has come so far beyond its end as
//!                                           its times may be out of order
//! ```
//! The builder of slices has `trigger_bits = 64` and `first_trigger = 0`: slice 0 begins with the run.

mod fragments;
mod hits;
mod settings;
#[cfg(test)]
mod tests;
mod timeline;

pub use fragments::FragmentCutter;
pub use hits::{HIT_BYTES, HitCutter, read_hits};
pub use settings::{HIT_BLOCK_BYTES, Settings, SliceError};
pub use timeline::Timeline;

/// Most fragments that one call of a cutter appends: a source that was silent for long has many empty slices to report.
pub const MOST_AT_ONCE: usize = 1024;
