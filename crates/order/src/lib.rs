//! The hits of many boards in one time order: pure, without a clock, deterministic.
//!
//! ```text
//!  batches of single sources ─► TimeOrder ─► batches of all, by (time, source, sequence)
//!         repair (where found) ─► window (a cut in time) ─► tree ─► merge (the hot loop)
//! ```
//! [`TimeOrder`] is the stage, [`Settings`] its configuration.
//!
//! - `repair`: repairs disorder inside a batch, only where it is.
//! - `held`: sorted runs of hits that wait.
//! - `window`: chooses what is merged at a time.
//! - `tree`: merges many sorted runs into one.
//! - `merge`: merges two sorted runs into one: the hot loop.
//! - [`time_order`]: the stage, made of these: [`TimeOrder`].
//! - [`settings`]: the configuration of the stage.
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
