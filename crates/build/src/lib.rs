//! Events out of fragments, sans-I/O: bytes and time come in, events come out; no socket is opened and no clock read.
//!
//! ```text
//!  Fragments ─► Builder ─► Events
//! ```
//! [`Builder`] collects what many sources send for one trigger. [`Settings`] is what an operator can say about it.
//! [`slices`] cuts what
//! streams without a trigger, for the same builder.
//!
//! - [`slices`]: cuts what streams without a trigger by time, for the same builder.
//! - [`builder`]: all fragments of one trigger, out of what many sources send.
//! - `unseen`: triggers of which nobody has sent anything.
//! - [`unit`](mod@unit): readout units, builder units and event manager, which build over several machines.
//! - `error`: settings that cannot work: [`BuildError`].

pub mod builder;
mod error;
pub mod slices;
pub mod unit;
mod unseen;

pub use builder::settings::{Full, Incomplete, Settings};
pub use builder::{Budget, Builder, Dump, Histogram, Standing, Stop};
pub use error::BuildError;
