//! The prediction for a chain, hop by hop, and the hop that limits it.

use schemars::JsonSchema;
use serde::Serialize;

use super::flow::{FlowCounts, Seen};
use super::{Chain, Emission};

/// The limit of the triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerLimit {
    /// The rate of a hop: it is asked for more than it carries.
    Rate,
    /// The depth of a hop: it carries the mean rate, and loses groups of triggers.
    Depth,
    /// No known limit: no loss is expected.
    None,
}

/// The counts of a hop in the simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HopSimulated {
    /// Frames that came.
    pub frames_in: u64,
    /// Frames that left.
    pub frames_out: u64,
    /// Frames that found it full, and are lost.
    pub lost_frames: u64,
    /// Frames of streams that found it full, and waited at their sources.
    pub held_back_frames: u64,
    /// Lost frames divided by those that came.
    pub loss_probability: f64,
    /// Triggers of which it lost at least one frame.
    pub damaged_triggers: u64,
    /// Fraction of the time that its busiest server was busy.
    pub busy: f64,
    /// Highest level of its fullest buffer, bytes; of the links, what waited at a source.
    pub peak_bytes: f64,
    /// The longest that a frame waited for it and was on it, s; of the links, that one waited.
    pub longest_delay_s: f64,
}

/// The prediction for one hop.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HopPrediction {
    /// The name of the hop.
    pub name: &'static str,
    /// Servers that are alike: outputs, builders, disks.
    pub servers: u32,
    /// The load of all servers together if nothing is lost before, bytes per second.
    pub offered_bytes_per_s: f64,
    /// Rate of a server, bytes per second; null where it is not known.
    pub rate_bytes_per_s: Option<f64>,
    /// Depth of the buffer before a server, bytes; null where it is not known.
    pub depth_bytes: Option<f64>,
    /// The load of the busiest server, divided by its rate.
    pub utilisation: Option<f64>,
    /// The mean rate of triggers, per second, at which it is saturated; null where no source is triggered.
    pub saturates_at_hz: Option<f64>,
    /// The probability that a trigger finds it full, by a closed form; null where none holds.
    pub full_probability: Option<f64>,
    /// Keys that would say what is not known of it.
    pub unknown: Vec<&'static str>,
    /// True if anything is predicted of it: its rate is known.
    pub is_predicted: bool,
    /// The result of the simulation; null where it is not predicted.
    pub simulated: Option<HopSimulated>,
}

/// The prediction for a chain.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChainPrediction {
    /// Links of all sources.
    pub links: u32,
    /// Triggers per second after dead time and readout, in the mean; null where no source is triggered.
    pub mean_rate_hz: Option<f64>,
    /// Payload of an event, all links together, bytes in the mean; null where a source is not triggered.
    pub event_bytes: Option<f64>,
    /// Hop by hop, the links first.
    pub hops: Vec<HopPrediction>,
    /// The hop that is saturated first, of those that are predicted.
    pub bottleneck: Option<&'static str>,
    /// The mean rate of triggers, per second, at which it is.
    pub saturates_at_hz: Option<f64>,
    /// The factor by which all rates can be multiplied until it is.
    pub saturates_at_factor: Option<f64>,
    /// The limit at these rates, and where it is.
    pub limited_by: TriggerLimit,
    /// The hop that limits.
    pub limited_at: Option<&'static str>,
    /// Triggers that were simulated; 0 where no source is triggered.
    pub triggers: u64,
    /// The time from the first to the last, s.
    pub seconds: f64,
    /// The seed of the simulation.
    pub seed: u64,
    /// Triggers of which a frame was lost anywhere.
    pub damaged_triggers: u64,
    /// Lost frames divided by all that were sent.
    pub loss_probability: f64,
    /// The assumptions for what the configuration does not state.
    pub assumptions: Vec<String>,
}

impl ChainPrediction {
    /// The upper limit of the probability that a trigger is damaged at a confidence of 95 %, where none was and losses are
    /// independent; they come in groups, so that the true limit is higher.
    pub fn loss_limit_95(&self) -> Option<f64> {
        let is_clean = self.damaged_triggers == 0 && self.loss_probability == 0.0;
        (is_clean && self.triggers > 0).then(|| (3.0 / self.triggers as f64).min(1.0))
    }

    /// A hop by its name.
    pub fn hop(&self, name: &str) -> Option<&HopPrediction> {
        self.hops.iter().find(|hop| hop.name == name)
    }
}

/// Puts closed forms and simulation together.
pub(super) fn of(chain: &Chain, outcome: &FlowCounts) -> ChainPrediction {
    let mean_rate_hz = Some(chain.mean_rate_hz()).filter(|rate| *rate > 0.0);
    let mut hops = vec![links(chain, &outcome.link, mean_rate_hz)];
    for (index, seen) in outcome.hops.iter().enumerate() {
        hops.push(hop(chain, index, seen, mean_rate_hz));
    }
    let first = hops.iter().filter(|hop| hop.utilisation.is_some_and(|load| load > 0.0));
    let first = first
        .max_by(|one, other| one.utilisation.unwrap_or(0.0).total_cmp(&other.utilisation.unwrap_or(0.0)));
    let factor = first.and_then(|hop| hop.utilisation).map(|load| 1.0 / load);
    let lost = |hop: &HopPrediction| hop.simulated.as_ref().map_or(0, |seen| seen.lost_frames);
    let loser = hops.iter().filter(|hop| lost(hop) > 0).max_by_key(|hop| lost(hop)).map(|hop| hop.name);
    // Rounding makes 1 out of what is exactly the limit.
    let (limited_by, limited_at) = match (first, factor, loser) {
        (Some(first), Some(factor), _) if factor < 1.0 - 1e-9 => (TriggerLimit::Rate, Some(first.name)),
        (_, _, Some(loser)) => (TriggerLimit::Depth, Some(loser)),
        _ => (TriggerLimit::None, None),
    };
    let all_lost: u64 = hops.iter().map(lost).sum();
    let is_triggered = chain.sources.iter().all(|source| source.emission == Emission::Triggered);
    let event = chain
        .sources
        .iter()
        .map(|source| f64::from(source.links) * source.mean(chain.mtu_bytes).payload_bytes);
    ChainPrediction {
        links: chain.sources.iter().map(|source| source.links).sum(),
        mean_rate_hz,
        event_bytes: is_triggered.then(|| event.sum()),
        bottleneck: first.map(|hop| hop.name),
        saturates_at_hz: factor.and_then(|factor| Some(factor * mean_rate_hz?)),
        saturates_at_factor: factor,
        limited_by,
        limited_at,
        triggers: outcome.triggers,
        seconds: outcome.seconds,
        seed: chain.triggers.seed,
        damaged_triggers: outcome.damaged_triggers,
        loss_probability: all_lost as f64 / outcome.link.frames_in.max(1) as f64,
        assumptions: chain.assumptions.clone(),
        hops,
    }
}

fn links(chain: &Chain, seen: &Seen, mean_rate_hz: Option<f64>) -> HopPrediction {
    let (utilisation, _) = chain.loads();
    let links: u32 = chain.sources.iter().map(|source| source.links).sum();
    HopPrediction {
        name: "source link",
        servers: links,
        offered_bytes_per_s: chain.asked_of_links(),
        rate_bytes_per_s: chain.link_bytes_per_s,
        depth_bytes: None,
        utilisation,
        saturates_at_hz: limit(utilisation, mean_rate_hz),
        full_probability: None,
        unknown: if utilisation.is_none() { vec!["[link] rate"] } else { Vec::new() },
        is_predicted: utilisation.is_some(),
        simulated: utilisation.map(|_| simulated(seen)),
    }
}

fn hop(chain: &Chain, index: usize, seen: &Seen, mean_rate_hz: Option<f64>) -> HopPrediction {
    let hop = &chain.hops[index];
    let utilisation = chain.loads().1[index];
    HopPrediction {
        name: hop.name,
        servers: hop.servers,
        offered_bytes_per_s: chain.asked(index).0,
        rate_bytes_per_s: hop.rate_bytes_per_s,
        depth_bytes: hop.depth_bytes,
        utilisation,
        saturates_at_hz: limit(utilisation, mean_rate_hz),
        full_probability: chain.full_probability(index),
        unknown: hop.unknown.clone(),
        is_predicted: utilisation.is_some(),
        simulated: utilisation.map(|_| simulated(seen)),
    }
}

fn limit(utilisation: Option<f64>, mean_rate_hz: Option<f64>) -> Option<f64> {
    Some(mean_rate_hz? / utilisation.filter(|load| *load > 0.0)?)
}

fn simulated(seen: &Seen) -> HopSimulated {
    HopSimulated {
        frames_in: seen.frames_in,
        frames_out: seen.frames_out,
        lost_frames: seen.lost_frames,
        held_back_frames: seen.held_back_frames,
        loss_probability: seen.lost_frames as f64 / seen.frames_in.max(1) as f64,
        damaged_triggers: seen.damaged_triggers,
        busy: seen.busy,
        peak_bytes: seen.peak_bytes,
        longest_delay_s: seen.longest_delay_s,
    }
}
