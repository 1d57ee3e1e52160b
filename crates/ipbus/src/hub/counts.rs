//! What a hub has done, by client and by target.
//!
//! ```text
//!  Hub ─ every quarter of a second ─► HubState ─► whoever shows it
//! ```

use std::net::IpAddr;
use std::time::Duration;

use crate::sequence::PacketCounts;
use crate::wire::{HubCode, Target};

/// Upper edges of the latencies that are counted, in microseconds; one more is for everything beyond. They are those of the metric, whose
/// bins have to be exact and a few.
pub const LATENCY_EDGES_US: [u64; 15] =
    [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// How long targets took for their replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Replies by time; the last is of those beyond the last edge.
    pub counts: [u64; LATENCY_EDGES_US.len() + 1],
    /// Sum of all times.
    pub sum: Duration,
}

impl Latencies {
    pub(super) fn add(&mut self, took: Duration) {
        let us = took.as_micros() as u64;
        self.counts[LATENCY_EDGES_US.partition_point(|edge| *edge < us)] += 1;
        self.sum += took;
    }

    /// Replies that were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The edge that a fraction of the replies took no longer than (0.99: p99); `None` when there is none, or it is beyond the last edge.
    pub fn quantile_us(&self, fraction: f64) -> Option<u64> {
        let wanted = (fraction * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        })?;
        LATENCY_EDGES_US.get(place).copied()
    }
}

/// Replies that a hub could not give, by the code that it gave in their place.
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

    /// Each code that was given, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (HubCode, u64)> + '_ {
        (1..)
            .zip(&self.by_code[1..])
            .filter(|(_, count)| **count > 0)
            .map(|(code, count)| (HubCode::of_code(code), *count))
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_code.iter().sum()
    }
}

/// What one client has asked and got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Packets that it sent: answered + refused + on their way + gone with its connection.
    pub asked: u64,
    /// Packets that a target answered.
    pub answered: u64,
    /// Packets that got a code in place of a reply.
    pub refused: Refusals,
    /// Packets that it waited for when its connection ended.
    pub abandoned: u64,
    /// Bytes that came from it.
    pub bytes_received: u64,
    /// Bytes that went to it.
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

/// What happened to one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetCounts {
    /// Packets out, and again.
    pub packets: PacketCounts,
    /// From the first sending of a packet to its reply.
    pub latencies: Latencies,
    /// Packets that got a code in place of a reply.
    pub refused: Refusals,
    /// How often it was found to have been reset.
    pub restarts: u64,
    /// How often somebody else was found to number packets on it.
    pub conflicts: u64,
}

/// A target as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetState {
    /// Which.
    pub target: Target,
    /// What happened to it.
    pub counts: TargetCounts,
    /// Packets on their way to it.
    pub in_flight: usize,
    /// Packets that wait for a place.
    pub waiting: usize,
}

/// The clients of one address, those of today and those that have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientState {
    /// Where they are; `None` of those beyond the first [`MOST_ADDRESSES`].
    pub address: Option<IpAddr>,
    /// Connections that are open.
    pub connections: usize,
    /// What they have asked and got.
    pub counts: ClientCounts,
}

/// Addresses whose clients are counted apart.
pub const MOST_ADDRESSES: usize = 256;

/// A hub as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubState {
    /// Its clients, by address.
    pub clients: Vec<ClientState>,
    /// Its targets, by address and port.
    pub targets: Vec<TargetState>,
    /// Connections that were closed because of what they sent.
    pub broken: u64,
    /// Connections that found no room.
    pub turned_away: u64,
    /// It reads no more, and ends when everything that it has read is answered.
    pub is_ending: bool,
}
