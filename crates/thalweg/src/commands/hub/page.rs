//! The hub on a page: boards and clients, their counts as JSON and as metrics.
//!
//! ```text
//!  HubServer ─ state ─► /state, JSON ─► /, the page
//!                     └► /metrics, OpenMetrics
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_ipbus::hub::{HubState, HubView, LATENCY_EDGES_US, Refusals};
use thalweg_monitor::exposition::{Exposition, Kind};
use thalweg_monitor::{METRICS_TYPE, MonitorError, Text, TextServer};

use super::value_of;

/// Serves the page of a hub.
///
/// # Errors
/// When the address cannot be had.
pub(super) fn serve(address: SocketAddr, hub: HubView) -> Result<TextServer, MonitorError> {
    TextServer::start(address, Arc::new(move |path| text(path, &hub)))
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

/// A counter of each board or each client.
fn counters<T>(
    exposition: &mut Exposition,
    (name, help): (&'static str, &str),
    label: &str,
    all: &[T],
    of: impl Fn(&T) -> (String, u64),
) {
    let mut family = exposition.family(name, Kind::Counter, "", help);
    for one in all {
        let (who, count) = of(one);
        family.sample(&[(label, &who)], count as f64);
    }
}

fn refusals<T>(
    exposition: &mut Exposition,
    (name, help): (&'static str, &str),
    label: &str,
    all: &[T],
    of: impl Fn(&T) -> (String, Refusals),
) {
    let mut family = exposition.family(name, Kind::Counter, "", help);
    for one in all {
        let (who, refused) = of(one);
        for (code, count) in refused.iter() {
            family.sample(&[(label, &who), ("code", &code.code().to_string())], count as f64);
        }
    }
}

/// All counts of a hub as OpenMetrics.
fn metrics(state: &HubState) -> String {
    let mut text = Exposition::default();
    let targets = &state.targets;
    let packets = |help| ("thalweg_hub_packets", help);
    counters(&mut text, packets("Packets to a board, each once."), "target", targets, |one| {
        (one.target.to_string(), one.counts.packets.sent)
    });
    let mut again =
        text.family("thalweg_hub_packets_again", Kind::Counter, "", "What was lost, by what was.");
    for one in targets {
        let (target, counts) = (one.target.to_string(), &one.counts.packets);
        again.sample(&[("target", &target), ("lost", "request")], counts.requests_repeated as f64);
        again.sample(&[("target", &target), ("lost", "reply")], counts.replies_repeated as f64);
    }
    let edges: Vec<f64> = LATENCY_EDGES_US.iter().map(|us| *us as f64 / 1e6).collect();
    let help = "From the first sending of a packet to its reply.";
    let mut latencies = text.family("thalweg_hub_latency_seconds", Kind::Histogram, "seconds", help);
    for one in targets {
        let counted = &one.counts.latencies;
        latencies.bins(
            &[("target", &one.target.to_string())],
            &edges,
            &counted.counts,
            counted.sum.as_secs_f64(),
        );
    }
    let help = "Packets to a board that got a code in place of a reply.";
    refusals(&mut text, ("thalweg_hub_refused", help), "target", targets, |one| {
        (one.target.to_string(), one.counts.refused)
    });
    for (name, help, of) in [
        ("thalweg_hub_restarts", "How often a board was found to have been reset.", 0),
        ("thalweg_hub_conflicts", "How often somebody else was found to number packets on a board.", 1),
    ] {
        counters(&mut text, (name, help), "target", targets, |one| {
            (one.target.to_string(), [one.counts.restarts, one.counts.conflicts][of])
        });
    }
    let who = |address: Option<std::net::IpAddr>| address.map_or("others".to_owned(), |one| one.to_string());
    let clients = &state.clients;
    let help = "Connections that are open.";
    let mut open = text.family("thalweg_hub_client_connections", Kind::Gauge, "", help);
    clients.iter().for_each(|one| open.sample(&[("client", &who(one.address))], one.connections as f64));
    let asked = ("thalweg_hub_client_packets", "Packets that clients sent.");
    counters(&mut text, asked, "client", clients, |one| (who(one.address), one.counts.asked));
    let answered = ("thalweg_hub_client_answered", "Packets of clients that a board answered.");
    counters(&mut text, answered, "client", clients, |one| (who(one.address), one.counts.answered));
    let help = "Packets of clients that got a code in place of a reply.";
    refusals(&mut text, ("thalweg_hub_client_refused", help), "client", clients, |one| {
        (who(one.address), one.counts.refused)
    });
    let connections = "Connections that were not kept, by why.";
    let mut closed = text.family("thalweg_hub_connections_closed", Kind::Counter, "", connections);
    closed.sample(&[("why", "broken")], state.broken as f64);
    closed.sample(&[("why", "no_room")], state.turned_away as f64);
    text.finish()
}
