//! The live page, its API, metrics and alarms: what people and programs see of a run while it goes on.
//!
//! ```text
//!  run ── Experiment ──► Monitor ──┬► /            the page, part of the binary
//!   ▲                     1 thread ├► /api/…       state, spectra, pulses, runs; as JSON, events, packed counts
//!   └─ start, stop, comment ◄──────┤
//!                                  └► /metrics     OpenMetrics
//!  state ──► Alarms ──► raised, cleared ──► Notifier ──► log · webhook · command
//! ```
//! Serving only: nothing here takes part in taking data, and nothing on the data path waits for anything here. What is served comes
//! through [`Experiment`], so that the whole crate can be tried with a made-up one. `docs/operation/monitor.md` is for those who use it.

pub mod alarm;
mod api;
mod connections;
mod error;
mod experiment;
mod guard;
pub mod history;
mod hub;
mod listing;
mod metrics;
mod page;
mod recorded_run;
mod refusal;
mod server;
mod settings;
mod stall;
pub mod state;
mod texts;
mod tls;
mod token;
mod traffic;

pub use error::MonitorError;
pub use experiment::{Command, Experiment, Message, PulseChannel, PulseTrace, Refused, StartRun};
pub use metrics::{CONTENT_TYPE as METRICS_TYPE, exposition};
pub use recorded_run::{RecordedRun, RemovedData, RunFile, RunNote};
pub use server::Monitor;
pub use settings::Settings;
pub use texts::{Text, TextServer, Texts};
pub use token::Token;
