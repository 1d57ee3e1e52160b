//! Counters of a hub, by client and by target.
//!
//! ```text
//!  Hub ─ every quarter of a second ─► HubState ─► page, metrics
//! ```

use std::net::IpAddr;
use std::time::Duration;

use crate::sequence::PacketCounts;
use crate::wire::{HubCode, Target};

/// Upper edges of the latency bins, in microseconds; one more bin is for longer latencies. The bins of the metric are the same, so they
/// must be few, and exact.
pub const LATENCY_EDGES_US: [u64; 15] =
    [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// Histogram of the time from a request to its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Replies in each bin of [`LATENCY_EDGES_US`]; the last bin is for those beyond the last edge.
    pub counts: [u64; LATENCY_EDGES_US.len() + 1],
    /// Sum of all latencies.
    pub sum: Duration,
}

impl Latencies {
    pub(super) fn add(&mut self, took: Duration) {
        let us = took.as_micros() as u64;
        self.counts[LATENCY_EDGES_US.partition_point(|edge| *edge < us)] += 1;
        self.sum += took;
    }

    /// Number of replies.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The upper edge of the bin that has this quantile (0.99 for p99), in microseconds; `None` without replies or beyond the last edge.
    pub fn quantile_us(&self, fraction: f64) -> Option<u64> {
        let wanted = (fraction * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        let bin = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        })?;
        LATENCY_EDGES_US.get(bin).copied()
    }
}

/// Packets that were answered with an error code, by code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    by_code: [u64; 8],
}

impl Refusals {
    pub(super) fn add(&mut self, code: HubCode) {
        if let Some(count) = self.by_code.get_mut(usize::from(code.code())) {
            *count += 1;
        }
    }

    /// Each code that occurred, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (HubCode, u64)> + '_ {
        (1..)
            .zip(&self.by_code[1..])
            .filter(|(_, count)| **count > 0)
            .map(|(code, count)| (HubCode::of_code(code), *count))
    }

    /// The sum over all codes.
    pub fn total(&self) -> u64 {
        self.by_code.iter().sum()
    }
}

/// Counters of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Packets that it sent: answered + refused + abandoned + still without a reply.
    pub asked: u64,
    /// Packets that a target answered.
    pub answered: u64,
    /// Packets that were answered with an error code.
    pub refused: Refusals,
    /// Packets without a reply when the connection ended.
    pub abandoned: u64,
    /// Bytes received from the client.
    pub bytes_received: u64,
    /// Bytes sent to the client.
    pub bytes_sent: u64,
}

impl ClientCounts {
    pub(super) fn add(&mut self, other: &ClientCounts) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.abandoned += other.abandoned;
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.refused.by_code.iter_mut().zip(other.refused.by_code).for_each(|(sum, count)| *sum += count);
    }
}

/// Counters of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetCounts {
    /// Packets sent and repeated.
    pub packets: PacketCounts,
    /// Time from the first transmission of a packet to its reply.
    pub latencies: Latencies,
    /// Packets that were answered with an error code.
    pub refused: Refusals,
    /// How often a reset of the target was detected.
    pub restarts: u64,
    /// How often another client was detected that numbers packets on the target.
    pub conflicts: u64,
}

/// The state of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetState {
    /// Its address and port.
    pub target: Target,
    /// Its counters.
    pub counts: TargetCounts,
    /// Packets in flight.
    pub in_flight: usize,
    /// Packets that wait to be sent.
    pub waiting: usize,
}

/// The clients at one address, connected and disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientState {
    /// Their address; `None` for all addresses beyond the first [`MOST_ADDRESSES`].
    pub address: Option<IpAddr>,
    /// Open connections.
    pub connections: usize,
    /// The sum of their counters.
    pub counts: ClientCounts,
}

/// Most addresses whose clients are counted separately.
pub const MOST_ADDRESSES: usize = 256;

/// The state of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubState {
    /// Its clients, by address.
    pub clients: Vec<ClientState>,
    /// Its targets, by address and port.
    pub targets: Vec<TargetState>,
    /// Connections that were closed because they sent invalid data.
    pub broken: u64,
    /// Connections that were refused because the hub had as many clients as its options or its limit of open files allow.
    pub turned_away: u64,
    /// The hub reads no more, and ends when everything that it has read is answered.
    pub is_ending: bool,
}
