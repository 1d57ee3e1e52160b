//! Composes the rooms: settings into a plan, the plan into threads, threads into a run with a balanced ledger.
//!
//! ```text
//!  config ─► plan ─► open, pipeline (threads, rings) ─► assemble ─► supervise ─► Summary
//! ```
//! The only code that wires: rooms never know their neighbours.
//!
//! The modules in layers: each uses those above it in this list, and none below. What is configured knows nothing of what is planned, and
//! a plan nothing of threads; `tests/house_rules.py` holds them to it.
//!
//! - [`config`]: the configuration file: one TOML file, the shape of the path.
//! - `source_table`: the numbers and names of everything that is counted.
//! - `processing`: what is done with hits, resolved against the sources.
//! - [`recording`]: what can be done with recordings.
//! - `preview`: a run's energies in a few numbers.
//! - [`plot`]: charts as SVG.
//! - [`plan`]: what a configuration will take: threads and their cores, rings, memory, files, units.
//! - [`predict`]: what a configuration will ask of links, switch, host and disk.
//! - `needs`: what a configuration asks of its host.
//! - `error`: why a run could not be started: [`RunError`].
//! - `boards`: what boards say of themselves, before the run is planned.
//! - [`spectra`]: the picture of a recording.
//! - [`observed`]: what of a run's hits can be looked at while they flow.
//! - `gauges`: what threads show of themselves while a run goes on.
//! - `pipeline`: the threads of a run, and the rings between them.
//! - `slow_control`: devices are set, read, and switched with the run.
//! - `open`: opens the sources of a run.
//! - [`emulate`]: emulated boards alone.
//! - `units`: readout units, builder units and event manager on threads.
//! - [`supervise`]: a run from its start to its end: states, commands, snapshots, summary.
//! - `assemble`: from a configuration to running threads, and to their end: [`run`], [`Replay`].
//! - [`inspect`]: what is in a recording, a data file or a stream.
//! - [`run_control`]: run after run of a configuration.
//! - [`serve`]: what the page shows of a run, and what it may ask of it.
//! - [`demo`]: a configuration that needs no file, no board and no root.
//! - `bench`: what measurements of whole systems need of the wiring; behind the feature `bench`.

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
mod error;
mod gauges;
mod needs;
mod open;
mod pipeline;
mod preview;
mod processing;
mod slow_control;
mod source_table;
mod units;

pub use assemble::{Replay, replay, run, run_planned};
pub use error::RunError;
pub use needs::needs;
pub use thalweg_data::{DeviceControl, Kept, Parameter, RunState};
pub use thalweg_readout::pcap::{CapturedPayload, CapturedStream, Segment, each_payload};
pub use thalweg_readout::{Applied, DeviceSettings};
pub use thalweg_transport::raise_open_files;
