//! Cuts: which hits and which events are kept, by expressions over their fields.
//!
//! ```text
//!  [[cut]] keep = "psd > 0.12 && inside(neutrons)"
//!     │ parse, once            [[polygon]] neutrons
//!     ▼                           │
//!  steps ─── columns of 256 hits ─┴─► pass: one byte per hit, counted by cut and source
//! ```
//! [`HitCuts`] and [`EventCuts`] are the stages, [`Expression`] one cut of them, [`Field`] what can be asked; `docs/experiment/cuts.md` is the language. What a hit does not have
//! is not a number, and compares with nothing: `psd > 0` and `psd <= 0` are both false of a hit without a short gate.

#[cfg(any(test, feature = "harness"))]
mod check;
mod cuts;
mod error;
pub(crate) mod evaluate;
mod event_cuts;
mod expression;
mod field;
mod foreign;
mod hit_cuts;
mod hit_language;
mod kev_ranges;
pub(crate) mod parse;
pub mod polygon;
pub(crate) mod program;
mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod token;

#[cfg(any(test, feature = "harness"))]
pub use check::check;
pub use cuts::{Passed, read};
pub use error::CutError;
pub use event_cuts::EventCuts;
pub use expression::{Expression, gather_facts};
pub use field::{EventFacts, FIELDS, Field, Members, Real, fill, psd};
pub use hit_cuts::{HitCuts, Kept, Verdicts};
pub use polygon::Polygon;
pub use settings::{Quantity, Scope, Settings};
