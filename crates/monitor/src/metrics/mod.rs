//! Metrics for Prometheus and its like: the ledger, and what the state says.
//!
//! ```text
//!  Ledgers ─► thalweg_lost_hits_total{stage, source, unit, reason}, …
//!  state ─► thalweg_source_hit_rate_hertz{source}, …              ─► OpenMetrics text
//!  server ► thalweg_monitor_streams, …
//! ```
//! The names are a contract: `docs/operation/monitor.md` lists them, the dashboard in `examples/grafana` uses them.

pub mod exposition;
mod ledger;
mod state;

use thalweg_data::LedgerSnapshot;

use exposition::{Exposition, Kind};

use crate::state::LiveState;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The server's metrics of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    /// The number of clients that watch the state now.
    pub streams: u64,
    /// Answers, by class.
    pub answers: Vec<(&'static str, u64)>,
    /// Connections for which there was no place.
    pub refused_connections: u64,
}

/// All metrics.
pub(crate) fn text(snapshot: Option<&LedgerSnapshot>, state: &LiveState, own: &Own) -> String {
    let mut exposition = Exposition::default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    exposition.family("thalweg_program", Kind::Info, "", "The program.").sample(&version, 1.0);
    if let Some(snapshot) = snapshot {
        ledger::write(&mut exposition, &snapshot.entries());
    }
    state::write(&mut exposition, state);
    let streams = "Browsers and programs that watch the state.";
    exposition.family("thalweg_monitor_streams", Kind::Gauge, "", streams).sample(&[], own.streams as f64);
    let mut answers =
        exposition.family("thalweg_monitor_answers", Kind::Counter, "", "Answers of the page's server.");
    for (class, count) in &own.answers {
        answers.sample(&[("class", class)], *count as f64);
    }
    let refused = "Connections for which there was no place.";
    exposition
        .family("thalweg_monitor_refused_connections", Kind::Counter, "", refused)
        .sample(&[], own.refused_connections as f64);
    exposition.finish()
}
