//! Composes the rooms: settings into a plan, the plan into threads, threads into a run with closed books.
//!
//! ```text
//!  config ─► plan, placement ─► assemble ─► pipeline (threads, rings) ─► supervise ─► Summary
//! ```
//! The only code that wires: rooms never know their neighbours.
//!
//! - [`config`]: the configuration file: one TOML file, the shape of the path.
//! - `channel_range`: the channels of the experiment that one source has.
//! - `boards`: what boards say of themselves, before the run is planned.
//! - `source_table`: the numbers and names of everything that is counted.
//! - [`plan`]: what a configuration will take: threads, rings, memory, files.
//! - `placement`: which thread runs on which cores.
//! - `needs`: what a configuration asks of its host.
//! - `assemble`: from a configuration to running threads, and to their end: [`run`], [`replay`].
//! - `open`: opens the sources of hits.
//! - `open_links`: opens the triggered sources.
//! - `processing`: what is done with hits, resolved against the sources.
//! - `pipeline`: the threads of a run, and the rings between them.
//! - `units`: readout units, builder units and event manager on threads.
//! - `slow_control`: devices are set, read, and switched with the run.
//! - [`supervise`]: a run from its start to its end: states, commands, snapshots, summary.
//! - [`run_control`]: run after run of a configuration.
//! - [`observed`]: what of a run's hits can be looked at while they flow.
//! - [`serve`]: what the page shows of a run, and what it may ask of it.
//! - `preview`: a run's energies in a few numbers.
//! - [`recording`]: what can be done with recordings.
//! - [`inspect`]: what is in a recording, a data file or a stream.
//! - [`spectra`]: the picture of a recording.
//! - [`plot`]: charts as SVG.
//! - [`predict`]: what a configuration will ask of links, switch, host and disk.
//! - [`emulate`]: emulated boards alone.
//! - [`demo`]: a configuration that needs no file, no board and no root.
//! - `bench`: what measurements of whole systems need of the wiring; behind the feature `bench`.
//! - `error`: why a run could not be started: [`RunError`].

#[cfg(feature = "bench")]
pub mod bench;
pub mod config;
pub mod demo;
pub mod emulate;
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
mod channel_range;
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
