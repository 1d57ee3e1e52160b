//! Merges the hits of many boards into one time order: pure, without a clock, deterministic.
//!
//! ```text
//!  batches of single sources ─► TimeOrder ─► batches of all sources, by (time, source, sequence)
//!         repair (where disordered) ─► window (by time) ─► tree ─► merge (the hot loop)
//! ```
//! [`TimeOrder`] is the stage; [`Settings`] configures it.
//!
//! - `repair`: sorts a batch, only where it is disordered.
//! - `held`: the pending hits of each source, in sorted runs.
//! - `window`: which hits are merged together.
//! - `tree`: merges many sorted runs into one.
//! - `merge`: merges two sorted runs into one: the hot loop.
//! - [`time_order`]: the stage made of all of these: [`TimeOrder`].
//! - [`settings`]: the `[order]` table of the configuration.
//! - `error`: why a batch is refused: [`OrderError`].

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
