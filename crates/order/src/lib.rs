//! The hits of many boards in one time order: pure, without a clock, deterministic.
//!
//! ```text
//!  batches of single sources ─► TimeOrder ─► batches of all, by (time, source, sequence)
//!         repair (where found) ─► window (a cut in time) ─► tree ─► merge (the hot loop)
//! ```
//! [`TimeOrder`] is the stage. [`Settings`] is what an operator can say about it.
//!
//! - `repair`: disorder inside a batch, repaired only where it is.
//! - `held`: sorted runs of hits that wait.
//! - `window`: what is merged at a time.
//! - `tree`: many sorted runs into one.
//! - `merge`: two sorted runs into one: the hot loop.
//! - [`time_order`]: the stage that all of these make: [`TimeOrder`].
//! - [`settings`]: what an operator can say about it.
//! - `error`: what it refuses to take: [`OrderError`].

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
