//! Several hops one behind the other, from the links of the sources to the disk.
//!
//! ```text
//!  sources, triggers, Network ─► Chain: links, hops ─┬─► load, static limit, probability of a full queue    closed forms
//!                                                    └─► what is lost, how high each queue gets             frame by frame
//! ```
//! A hop whose rate is not known is not predicted: frames pass it at once. One whose rate alone is known holds everything, and its
//! highest level says what depth it needs.

mod accepted;
mod flow;
mod forms;
mod network;
mod prediction;
mod source;
pub mod sweep;

pub use accepted::mean_rate_hz;
pub use network::{Build, Disk, Host, Link, Network, NetworkError, StatedSource, Switch};
pub use prediction::{ChainPrediction, HopPrediction, HopSimulated, TriggerLimit};
pub use source::{Carrier, Emission, Source};

use thalweg_frontend::trigger::{Settings, SettingsError};

use super::{Hop as OneHop, Triggers};

/// The most links of all sources.
pub const MOST_LINKS: u32 = 65_536;

/// The bytes of a frame that occupy a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// Those of the wire, with preamble and gap.
    Wire,
    /// Those of the payload.
    Payload,
}

/// The rule by which a hop gives a frame to one of its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// The server of its link: links are spread over the servers.
    ByLink,
    /// The server of its trigger: events go to the servers in turn.
    ByTrigger,
}

/// One hop after the links.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// The name of the hop.
    pub name: &'static str,
    /// The bytes that occupy it.
    pub through: Through,
    /// Rate of each server, bytes per second.
    pub rate_bytes_per_s: Option<f64>,
    /// Depth of the buffer before each server, bytes.
    pub depth_bytes: Option<f64>,
    /// Servers that are alike.
    pub servers: u32,
    /// The rule by which frames are dealt to them.
    pub deal: Deal,
    /// Payload bytes that leave, divided by those that come.
    pub kept: f64,
    /// Its unknown properties, as the keys that would state them.
    pub unknown: Vec<&'static str>,
}

/// A chain that cannot be predicted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChainError {
    /// Triggers that cannot be.
    #[error(transparent)]
    Triggers(#[from] SettingsError),
    /// There is no source, or there are too many.
    #[error("{0} links of all sources together; there must be 1 to {MOST_LINKS}")]
    Links(u64),
    /// A source that sends nothing.
    #[error("source \"{0}\" sends nothing; its rate and its answers must be above 0")]
    Silent(String),
}

/// The whole way.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The triggers of the sources.
    pub triggers: Settings,
    /// The senders.
    pub sources: Vec<Source>,
    /// Rate of each link, bytes per second.
    pub link_bytes_per_s: Option<f64>,
    /// The longest IP packet, bytes.
    pub mtu_bytes: Option<u32>,
    /// The hops that follow, in the order of the path.
    pub hops: Vec<Hop>,
    /// The assumptions for what the configuration does not state.
    pub assumptions: Vec<String>,
}

/// Everything that a chain is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The triggers of the sources.
    pub triggers: Settings,
    /// The senders.
    pub sources: Vec<Source>,
    /// The network after the sources.
    pub network: Network,
    /// Builders that get events in turn, each with a disk; 0 is one that is no unit of its own.
    pub builders: u32,
    /// The number of times that each payload byte is recorded; 0 for a run without a disk.
    pub recorded_copies: u32,
    /// True if the hops of the host are included.
    pub has_host: bool,
    /// The assumptions for what the configuration does not state.
    pub assumptions: Vec<String>,
}

impl Plan {
    /// The links and the output of one hop.
    pub fn of_hop(hop: &OneHop, triggers: &Triggers) -> Plan {
        let queue = hop.edge().queue;
        let source = Source {
            name: "links".to_owned(),
            links: hop.links(),
            carrier: Carrier::Datagrams,
            emission: Emission::Triggered,
            answers: vec![vec![hop.frame().payload_bytes()]],
        };
        let mut network = Network::default();
        network.link.rate_bits_per_s = Some(8.0 * f64::from(hop.frame().wire_bytes()) / hop.link_time_s());
        network.switch.output_rate_bits_per_s = Some(8.0 * queue.rate_bytes_per_s);
        network.switch.depth_bytes = Some(queue.depth_bytes);
        Plan {
            triggers: triggers.settings(),
            sources: vec![source],
            network,
            builders: 0,
            recorded_copies: 0,
            has_host: false,
            assumptions: Vec::new(),
        }
    }

    /// The chain of this plan.
    ///
    /// # Errors
    /// When there can be no such triggers, or the sources send nothing.
    pub fn chain(&self) -> Result<Chain, ChainError> {
        let mut hops = vec![self.switch()];
        if self.has_host {
            hops.extend([self.socket(), self.builder()]);
            hops.extend((self.recorded_copies > 0).then(|| self.disk()));
        }
        let chain = Chain {
            triggers: self.triggers.clone(),
            sources: self.sources.clone(),
            link_bytes_per_s: self.network.link.rate_bits_per_s.map(|rate| rate / 8.0),
            mtu_bytes: self.network.link.mtu_bytes,
            hops,
            assumptions: self.assumptions.clone(),
        };
        chain.check()?;
        Ok(chain)
    }

    fn switch(&self) -> Hop {
        let Switch { output_rate_bits_per_s, depth_bytes, outputs } = self.network.switch;
        let rate_bytes_per_s = output_rate_bits_per_s.map(|rate| rate / 8.0);
        Hop {
            name: "switch output",
            through: Through::Wire,
            rate_bytes_per_s,
            depth_bytes,
            servers: outputs.unwrap_or(1),
            deal: Deal::ByLink,
            kept: 1.0,
            unknown: unknown([(rate_bytes_per_s, "[switch] output_rate"), (depth_bytes, "[switch] depth")]),
        }
    }

    fn socket(&self) -> Hop {
        let Host { receive_bytes_per_s, receive_buffer_bytes } = self.network.host;
        // Data that a stream's socket does not hold wait at their source.
        let depth = if self.sources.iter().any(Source::can_lose) { receive_buffer_bytes } else { None };
        let asked = if self.sources.iter().any(Source::can_lose) { receive_buffer_bytes } else { Some(0.0) };
        Hop {
            name: "host socket",
            through: Through::Payload,
            rate_bytes_per_s: receive_bytes_per_s,
            depth_bytes: depth,
            servers: 1,
            deal: Deal::ByLink,
            kept: 1.0,
            unknown: unknown([
                (receive_bytes_per_s, "[host] receive_rate"),
                (asked, "[host] receive_buffer"),
            ]),
        }
    }

    fn builder(&self) -> Hop {
        let Build { bytes_per_s, buffer_bytes, kept } = self.network.build;
        let is_triggered = self.sources.iter().any(|source| source.emission == Emission::Triggered);
        Hop {
            name: if is_triggered { "builder" } else { "decoder" },
            through: Through::Payload,
            rate_bytes_per_s: bytes_per_s,
            depth_bytes: buffer_bytes,
            servers: self.builders.max(1),
            deal: Deal::ByTrigger,
            kept: kept.unwrap_or(1.0) * f64::from(self.recorded_copies.max(1)),
            unknown: unknown([(bytes_per_s, "[build] rate"), (buffer_bytes, "[build] buffer")]),
        }
    }

    fn disk(&self) -> Hop {
        let Disk { bytes_per_s, buffer_bytes } = self.network.disk;
        Hop {
            name: "disk",
            through: Through::Payload,
            rate_bytes_per_s: bytes_per_s,
            depth_bytes: buffer_bytes,
            servers: self.builders.max(1),
            deal: Deal::ByTrigger,
            kept: 1.0,
            unknown: unknown([(bytes_per_s, "[disk] rate"), (buffer_bytes, "[disk] buffer")]),
        }
    }
}

fn unknown<const N: usize>(values: [(Option<f64>, &'static str); N]) -> Vec<&'static str> {
    values.into_iter().filter(|(value, _)| value.is_none()).map(|(_, key)| key).collect()
}

impl Chain {
    /// Predicts the chain, with a simulation of `simulated_triggers` triggers; where no source is triggered, of as many datagrams.
    ///
    /// # Errors
    /// When there can be no such triggers.
    pub fn predict(&self, simulated_triggers: u64) -> Result<ChainPrediction, ChainError> {
        self.check()?;
        let outcome = flow::Flow::new(self, simulated_triggers)?.finish();
        Ok(prediction::of(self, &outcome))
    }

    fn check(&self) -> Result<(), ChainError> {
        self.triggers.check()?;
        let links: u64 = self.sources.iter().map(|source| u64::from(source.links)).sum();
        if !(1..=u64::from(MOST_LINKS)).contains(&links) {
            return Err(ChainError::Links(links));
        }
        for source in &self.sources {
            let is_never = matches!(source.emission, Emission::Free { rate_hz, hits }
                if !(rate_hz > 0.0 && rate_hz.is_finite() && hits > 0.0 && hits.is_finite()));
            if is_never || source.links == 0 || source.answers.iter().all(Vec::is_empty) {
                return Err(ChainError::Silent(source.name.clone()));
            }
        }
        Ok(())
    }

    /// Returns true if any source is triggered.
    pub fn is_triggered(&self) -> bool {
        self.sources.iter().any(|source| source.emission == Emission::Triggered)
    }
}

#[cfg(test)]
mod tests;
