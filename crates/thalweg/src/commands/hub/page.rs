//! The hub on a page: boards and clients, their counts as JSON and as metrics.
//!
//! ```text
//!  HubServer ─ state ─► /state, JSON ─► /, the page
//!                     └► /metrics, OpenMetrics
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_ipbus::hub::{ClientState, HubState, HubView, LATENCY_EDGES_US, Refusals, TargetState};
use thalweg_monitor::exposition::{Exposition, Family, Kind};
use thalweg_monitor::{METRICS_TYPE, MonitorError, Text, TextServer};

use super::value_of;

/// Serves the page of a hub.
///
/// # Errors
/// When the address cannot be had.
pub(super) fn serve(address: SocketAddr, hub: HubView) -> Result<TextServer, MonitorError> {
    TextServer::start(("--page", address), Arc::new(move |path| text(path, &hub)))
}

fn text(path: &str, hub: &HubView) -> Option<Text> {
    let (content_type, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("page.html").to_owned()),
        "/page.css" => ("text/css; charset=utf-8", include_str!("page.css").to_owned()),
        "/page.js" => ("text/javascript; charset=utf-8", include_str!("page.js").to_owned()),
        "/state" => ("application/json", value_of(&hub.state()).to_string()),
        "/metrics" => (METRICS_TYPE, metrics(&hub.state())),
        _ => return None,
    };
    Some(Text { content_type, text })
}

/// All counts of a hub as OpenMetrics.
fn metrics(state: &HubState) -> String {
    let mut text = Exposition::default();
    boards(&mut text, &state.targets);
    clients(&mut text, &state.clients);
    let help = "Connections that were not kept, by why.";
    let mut closed = text.family("thalweg_hub_connections_closed", Kind::Counter, "", help);
    closed.sample(&[("why", "broken")], state.broken as f64);
    closed.sample(&[("why", "no_room")], state.turned_away as f64);
    text.finish()
}

fn boards(text: &mut Exposition, targets: &[TargetState]) {
    let names: Vec<String> = targets.iter().map(|one| one.target.to_string()).collect();
    let named = || names.iter().map(String::as_str).zip(targets.iter().map(|one| &one.counts));
    let mut packets = text.family("thalweg_hub_packets", Kind::Counter, "", "Packets to a board, each once.");
    for (target, counts) in named() {
        packets.sample(&[("target", target)], counts.packets.sent as f64);
    }
    let help = "What was lost, by what was.";
    let mut again = text.family("thalweg_hub_packets_again", Kind::Counter, "", help);
    for (target, counts) in named() {
        let counts = &counts.packets;
        again.sample(&[("target", target), ("lost", "request")], counts.requests_repeated as f64);
        again.sample(&[("target", target), ("lost", "reply")], counts.replies_repeated as f64);
    }
    let edges: Vec<f64> = LATENCY_EDGES_US.iter().map(|us| *us as f64 / 1e6).collect();
    let help = "From the first sending of a packet to its reply.";
    let mut latencies = text.family("thalweg_hub_latency_seconds", Kind::Histogram, "seconds", help);
    for (target, counts) in named() {
        let counted = &counts.latencies;
        latencies.bins(&[("target", target)], &edges, &counted.counts, counted.sum.as_secs_f64());
    }
    let help = "Packets to a board that got a code in place of a reply.";
    let mut refused = text.family("thalweg_hub_refused", Kind::Counter, "", help);
    for (target, counts) in named() {
        by_code(&mut refused, ("target", target), &counts.refused);
    }
    let help = "How often a board was found to have been reset.";
    let mut restarts = text.family("thalweg_hub_restarts", Kind::Counter, "", help);
    for (target, counts) in named() {
        restarts.sample(&[("target", target)], counts.restarts as f64);
    }
    let help = "How often somebody else was found to number packets on a board.";
    let mut conflicts = text.family("thalweg_hub_conflicts", Kind::Counter, "", help);
    for (target, counts) in named() {
        conflicts.sample(&[("target", target)], counts.conflicts as f64);
    }
}

fn clients(text: &mut Exposition, clients: &[ClientState]) {
    let name = |one: &ClientState| one.address.map_or("others".to_owned(), |address| address.to_string());
    let names: Vec<String> = clients.iter().map(name).collect();
    let named = || names.iter().map(String::as_str).zip(clients);
    let help = "Connections that are open.";
    let mut open = text.family("thalweg_hub_client_connections", Kind::Gauge, "", help);
    for (client, one) in named() {
        open.sample(&[("client", client)], one.connections as f64);
    }
    let help = "Packets that clients sent.";
    let mut asked = text.family("thalweg_hub_client_packets", Kind::Counter, "", help);
    for (client, one) in named() {
        asked.sample(&[("client", client)], one.counts.asked as f64);
    }
    let help = "Packets of clients that a board answered.";
    let mut answered = text.family("thalweg_hub_client_answered", Kind::Counter, "", help);
    for (client, one) in named() {
        answered.sample(&[("client", client)], one.counts.answered as f64);
    }
    let help = "Packets of clients that got a code in place of a reply.";
    let mut refused = text.family("thalweg_hub_client_refused", Kind::Counter, "", help);
    for (client, one) in named() {
        by_code(&mut refused, ("client", client), &one.counts.refused);
    }
}

/// Adds the refused requests, a sample for each code.
fn by_code(family: &mut Family<'_>, whose: (&str, &str), refused: &Refusals) {
    for (code, count) in refused.iter() {
        family.sample(&[whose, ("code", &code.code().to_string())], count as f64);
    }
}
