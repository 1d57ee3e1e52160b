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
//!
//! - [`state`]: the live state of a run: one type, from which everything else is made.
//! - `experiment`: what is shown and moved, as whoever runs it hands it over: [`Experiment`].
//! - `recorded_run`: a recorded run, as it is listed: [`RecordedRun`].
//! - `server`: one thread, one socket: [`Monitor`].
//! - `settings`: where it is served, and to whom: [`Settings`].
//! - `connections`: who has a connection, and who frees space.
//! - `stall`: connections whose other end takes nothing.
//! - `tls`: the page over TLS.
//! - `guard`: the rules that every request passes.
//! - `token`: what a caller from another host must show: [`Token`].
//! - `api`: what can be asked, and who answers.
//! - `listing`: files of recorded runs, found by their names.
//! - `refusal`: answers that say no, and what to do.
//! - `page`: the page's files.
//! - `hub`: the state, made once for everybody who watches.
//! - [`history`]: what rates and values were, from before anybody looked.
//! - `metrics`: the state for Prometheus and its like: [`exposition`].
//! - `traffic`: what the server itself has done.
//! - `texts`: texts over HTTP, for programs that take no data: [`TextServer`].
//! - [`alarm`]: rules over the state, and who is notified.
//! - `error`: why there is no page: [`MonitorError`].

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
pub use experiment::{
    Experiment, OperatorMessage, PulseChannel, PulseTrace, RequestRefused, RunRequest, StartRun,
};
pub use metrics::{CONTENT_TYPE as METRICS_TYPE, exposition};
pub use recorded_run::{RecordedRun, RemovedData, RunFile, RunNote};
pub use server::Monitor;
pub use settings::Settings;
pub use texts::{Text, TextServer, Texts};
pub use token::Token;
