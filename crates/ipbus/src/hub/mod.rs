//! A hub: many clients share many targets, and packets lost between hub and targets are recovered.
//!
//! ```text
//!  clients, TCP ─ server ─► client: chunks ─ rules ─► fair ─► target: one sequence ─ UDP ─► targets
//!               ◄─────────  replies in the order of the requests  ◄────────────────────────
//! ```
//! It uses the protocol of the original hub, so original clients and firmware work with it. It numbers the packets of all clients in one
//! sequence per target, so that clients need not; nothing else may number packets on its targets. A packet without a reply within the
//! timeout is answered with an error code.

mod client;
mod counts;
mod fair;
mod router;
mod rules;
mod server;
#[cfg(test)]
mod simulation;
mod target;

pub use counts::{
    ClientCounts, ClientState, HubState, LATENCY_EDGES_US, Latencies, MOST_ADDRESSES, Refusals, TargetCounts,
    TargetState,
};
pub use rules::{Access, Network, PatternError, Rule, Rules, TargetPattern};
pub use server::{HubOptions, HubServer, HubView};
