//! Composes the rooms: settings into a plan, the plan into threads, threads into a run with closed books.
//!
//! ```text
//!  config ─► plan, placement ─► assemble ─► pipeline (threads, rings) ─► supervise ─► Summary
//! ```
//! The only code that wires: rooms never know their neighbours.

#[cfg(feature = "bench")]
pub mod bench;
pub mod config;
pub mod demo;
pub mod emulate;
pub mod format;
pub mod inspect;
pub mod observed;
pub mod plan;
pub mod plot;
pub mod predict;
pub mod recording;
pub mod run_control;
pub mod serve;
pub mod spectra;
pub mod supervise;

mod assemble;
mod boards;
mod error;
mod needs;
mod open;
mod open_links;
mod pipeline;
mod placement;
mod preview;
mod processing;
mod slow_control;
mod source_table;
mod units;

pub use assemble::{replay, run, run_planned};
pub use error::RunError;
pub use needs::needs;
pub use placement::{PlaceSettings, PlacedSettings, ThreadSettings};
pub use slow_control::SeriesSettings;
pub use thalweg_data::{Control, Parameter, RunState};
pub use thalweg_readout::pcap::{CapturedPayload, CapturedStream, Segment, each_payload};
pub use thalweg_readout::{Applied, DeviceSettings};
pub use thalweg_transport::raise_open_files;
pub use units::{UnitKind, UnitSettings};
