//! Closed forms for a chain: loads, limits, and the probability of a full queue, where that is known.
//!
//! ```text
//!  mean rate × bytes of an event ÷ rate of a server = load       mean rate ÷ load = static limit
//!  bursts: the hyperbola of one burst · random triggers: heavy traffic · behind a slower hop: never
//! ```

use thalweg_frontend::trigger::Kind;

use super::source::{Emission, Part};
use super::{Chain, Deal, Hop, Source, Through, accepted};
use crate::predict::HEAVY_TRAFFIC_LOAD;
use crate::switch::burst::{Edge, Queue};

/// The part of 1 that rounding leaves.
const ROUNDING: f64 = 1e-9;

impl Through {
    fn of(self, part: Part) -> f64 {
        match self {
            Through::Wire => part.wire_bytes,
            Through::Payload => part.payload_bytes,
        }
    }
}

impl Chain {
    /// Returns the triggers per second after dead time and readout, in the mean; 0 where no source is triggered.
    pub fn mean_rate_hz(&self) -> f64 {
        if self.is_triggered() { accepted::mean_rate_hz(&self.triggers) } else { 0.0 }
    }

    /// Returns how often a source sends over each of its links, per second.
    fn answers_hz(&self, source: &Source) -> f64 {
        match source.emission {
            Emission::Triggered => self.mean_rate_hz(),
            Emission::Free { rate_hz, .. } => rate_hz,
        }
    }

    /// Frames of all links, per second.
    pub(super) fn frames_per_s(&self) -> f64 {
        let of = |source: &Source| {
            let parts = source.parts(self.mtu_bytes);
            let mean = parts.iter().map(Vec::len).sum::<usize>() as f64 / parts.len().max(1) as f64;
            mean * f64::from(source.links) * self.answers_hz(source)
        };
        self.sources.iter().map(of).sum::<f64>().max(1e-6)
    }

    /// Returns the load of the busiest link, bytes per second.
    pub(super) fn link_bytes_per_s_asked(&self) -> f64 {
        let of = |source: &Source| source.mean(self.mtu_bytes).wire_bytes * self.answers_hz(source);
        self.sources.iter().map(of).fold(0.0, f64::max)
    }

    /// Returns the load of all links together, bytes per second.
    pub(super) fn asked_of_links(&self) -> f64 {
        let of = |source: &Source| {
            f64::from(source.links) * source.mean(self.mtu_bytes).wire_bytes * self.answers_hz(source)
        };
        self.sources.iter().map(of).sum()
    }

    /// The fraction of the payload that is left before each hop.
    pub(super) fn kept_before(&self, hop: usize) -> f64 {
        self.hops[..hop].iter().map(|hop| hop.kept).product()
    }

    /// Returns the load of a hop: of all servers together, and of the busiest of them; bytes per second.
    pub(super) fn asked(&self, index: usize) -> (f64, f64) {
        let hop = &self.hops[index];
        let mut servers = vec![0.0; hop.servers as usize];
        let (mut all, mut next) = (0.0, 0);
        for source in &self.sources {
            let mut each = hop.through.of(source.mean(self.mtu_bytes)) * self.answers_hz(source);
            if hop.through == Through::Payload {
                each *= self.kept_before(index);
            }
            all += each * f64::from(source.links);
            let is_dealt_by_link = hop.deal == Deal::ByLink || source.emission != Emission::Triggered;
            for link in 0..source.links as usize {
                if is_dealt_by_link {
                    servers[(next + link) % hop.servers as usize] += each;
                }
            }
            next += source.links as usize;
            if !is_dealt_by_link {
                let share = each * f64::from(source.links) / f64::from(hop.servers);
                servers.iter_mut().for_each(|server| *server += share);
            }
        }
        (all, servers.into_iter().fold(0.0, f64::max))
    }

    /// The load of the links and of each hop, as far as their rates are known.
    pub(super) fn loads(&self) -> (Option<f64>, Vec<Option<f64>>) {
        let link = self.link_bytes_per_s.map(|rate| self.link_bytes_per_s_asked() / rate);
        let load = |(index, hop): (usize, &Hop)| hop.rate_bytes_per_s.map(|rate| self.asked(index).1 / rate);
        (link, self.hops.iter().enumerate().map(load).collect())
    }

    /// The probability that a trigger finds a hop full, where a closed form says it.
    pub(super) fn full_probability(&self, index: usize) -> Option<f64> {
        let (link_load, loads) = self.loads();
        let (hop, own) = (&self.hops[index], loads[index]?);
        let is_plain = self.sources.iter().all(|source| source.can_lose());
        let depth_bytes = hop.depth_bytes.filter(|_| is_plain)?;
        let highest = loads[..index].iter().flatten().fold(0.0_f64, |most, load| most.max(*load));
        let before = highest.max(link_load.unwrap_or(0.0)).max(1.0);
        // The traffic that overloaded hops before it do not pass on does not arrive here.
        let load = own / before;
        let is_triggered = self.sources.iter().all(|source| source.emission == Emission::Triggered);
        let is_first = index == 0 || loads[..index].iter().all(Option::is_none);
        let by_turn = if hop.deal == Deal::ByTrigger { f64::from(hop.servers) } else { 1.0 };
        let event_bytes = by_turn * own * hop.rate_bytes_per_s? / self.mean_rate_hz();
        if is_triggered && is_first && self.is_even() && event_bytes > depth_bytes * (1.0 + ROUNDING) {
            return Some(1.0);
        }
        // At a load of 1, which is rounded to either side, input equals output.
        if load > 1.0 - ROUNDING {
            return Some((1.0 - 1.0 / load).max(0.0));
        }
        if !is_triggered {
            return None;
        }
        // Servers of different hops are not compared with each other: what comes out of several may come together.
        let is_one_server = self.hops[..=index].iter().all(|hop| hop.servers == 1);
        if is_one_server && highest >= own && self.largest_frame(index) * 2.0 <= depth_bytes {
            return Some(0.0);
        }
        self.of_groups(hop, load, (event_bytes, depth_bytes), is_first)
    }

    /// Returns true if all answers of a source are alike. Others may be larger than their mean.
    fn is_even(&self) -> bool {
        self.sources.iter().all(|source| source.answers.len() == 1)
    }

    /// The same below saturation, by what the triggers are.
    fn of_groups(
        &self,
        hop: &Hop,
        load: f64,
        (event_bytes, depth_bytes): (f64, f64),
        is_first: bool,
    ) -> Option<f64> {
        let depth_events = depth_bytes / event_bytes;
        let is_even = self.is_even();
        let by_turn = if hop.deal == Deal::ByTrigger { f64::from(hop.servers) } else { 1.0 };
        match self.triggers.program {
            _ if depth_events < if is_even { 1.0 - ROUNDING } else { 2.0 } => None,
            Kind::Constant => is_even.then_some(0.0),
            Kind::Bursts if is_first && is_even && by_turn == 1.0 => {
                let edge = Edge {
                    queue: Queue { depth_bytes, rate_bytes_per_s: hop.rate_bytes_per_s? },
                    event_bytes,
                };
                self.burst_fits(edge).then_some(0.0)
            }
            Kind::Poisson if load >= HEAVY_TRAFFIC_LOAD => {
                let variation = accepted::random_variation_squared(&self.triggers)? / by_turn;
                Some((-2.0 * depth_events * (1.0 - load) / variation).exp())
            }
            _ => None,
        }
    }

    /// Returns true if a burst fits, and the queue is empty before the next one.
    fn burst_fits(&self, edge: Edge) -> bool {
        let link_s = self.link_bytes_per_s.map_or(0.0, |rate| {
            let mean = |source: &Source| source.mean(self.mtu_bytes).wire_bytes / rate;
            self.sources.iter().map(mean).fold(0.0, f64::max)
        });
        let Some((triggers, gap_s)) = accepted::burst(&self.triggers) else { return false };
        let gap_s = gap_s.max(link_s);
        let fits = edge.largest_burst(gap_s).is_none_or(|largest| triggers <= largest);
        let drained_s = triggers as f64 * edge.saturation_separation_s().max(gap_s);
        fits && drained_s <= 1.0 / self.triggers.burst_rate_hz
    }

    fn largest_frame(&self, index: usize) -> f64 {
        let through = self.hops[index].through;
        let parts = self.sources.iter().flat_map(|source| source.parts(self.mtu_bytes)).flatten();
        parts.map(|part| through.of(part)).fold(0.0, f64::max)
    }
}
