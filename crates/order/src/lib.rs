//! The hits of many boards in one time order: pure, without a clock, deterministic.
//!
//! ```text
//!  batches of single sources ─► TimeOrder ─► batches of all, by (time, source, sequence)
//!         repair (where found) ─► window (a cut in time) ─► tree ─► merge (the hot loop)
//! ```
//! [`TimeOrder`] is the stage. [`Settings`] is what an operator can say about it.

mod error;
mod held;
mod merge;
mod repair;
pub mod settings;
pub mod time_order;
mod tree;
mod window;

pub use error::OrderError;
pub use settings::{Full, Late, Settings};
pub use time_order::{Pushed, Standing, TimeOrder};
