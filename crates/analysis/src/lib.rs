//! Analysis of hits that are in one time order: pure, without a clock, deterministic.
//!
//! ```text
//!  hits of one source ─► clocks, hit_stage (what the configuration adds) ─► time order, elsewhere
//!  ordered hits ─► process: channels ─► cut ─► coincide ─► spectrum, pulse ─► view (what is shown on request)
//! ```
//! The batch flows on unchanged; verdicts are columns beside it.
//!
//! - [`channels`]: what is known of each channel: names, calibrations, parameters of pulse shape discrimination.
//! - [`clocks`]: the clocks of the boards against each other, and what is corrected.
//! - [`hit_stage`]: stages that a configuration adds directly after the time order.
//! - [`cut`]: selections by expression, polygon and list, compiled once.
//! - [`event_filter`]: which of the events that were built of triggered boards are kept, in the language of cuts.
//! - [`coincide`]: which hits belong together, by windows and roles.
//! - [`normalise`]: live time and losses of each channel: numbers that can be compared between runs.
//! - [`spectrum`]: histograms, their history and export.
//! - [`pulse`]: waveforms and their persistence.
//! - [`process`]: all of these one after the other, in two halves.
//! - [`view`]: what is shown of them, and changed while a run goes on.

pub mod channels;
pub mod clocks;
pub mod coincide;
pub mod cut;
pub mod event_filter;
pub mod hit_stage;
pub mod normalise;
pub mod process;
pub mod pulse;
pub mod spectrum;
pub mod view;
