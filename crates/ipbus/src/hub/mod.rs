//! A hub: any number of clients share any number of targets, and what is lost between it and them comes back.
//!
//! ```text
//!  clients, TCP ─ server ─► client: chunks ─ rules ─► fair ─► target: one sequence ─ UDP ─► targets
//!               ◄─────────  replies in the order of the requests  ◄────────────────────────
//! ```
//! It speaks the protocol of the original hub with the original clients and firmware. It numbers the packets of all clients in one sequence per
//! target, so that clients need not, and it must be the only one that does. What it has not got back within its time is answered with
//! a code in place of the reply.

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
