//! Predicts the demands of a planned experiment on a hop, before the hop is bought.
//!
//! ```text
//!  links × payload, rates, depth ─► Hop ─┬─► load, static limit, longest burst     closed forms
//!  triggers: constant or Poisson ────────┼─► probability of a full queue           heavy-traffic approximation
//!                                        └─► what is lost                          discrete events, by a seed
//!
//!  sources, network ─► chain: hops one behind the other      the same, hop by hop, and swept
//! ```
//! Bytes are those of the wire (see [`crate::switch::frame`]) unless something else is said.

pub mod chain;
mod hop;
pub mod published;
pub mod quantity;
mod simulation;
mod triggers;

pub use hop::{Hop, HopError};
pub use simulation::Simulated;
pub use triggers::{Process, Triggers};

use schemars::JsonSchema;
use serde::Serialize;

/// The load below which the heavy-traffic approximation is no good.
pub const HEAVY_TRAFFIC_LOAD: f64 = 0.7;

/// The limit of the triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// The link of each source: it cannot send what its source has.
    Link,
    /// The rate of the output.
    Output,
    /// The depth of the buffer: the output would carry the mean rate.
    Buffer,
    /// No limit: no loss is expected.
    None,
}

/// The prediction for one hop.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// Sources, each with a link of its own.
    pub links: u32,
    /// Bytes of one frame on the wire.
    pub frame_bytes: u32,
    /// Triggers per second before dead time.
    pub offered_rate_hz: f64,
    /// Triggers per second after dead time.
    pub accepted_rate_hz: f64,
    /// Fraction of the time that each link is busy; above 1 its source sends more than it carries.
    pub link_load: f64,
    /// Fraction of the time that the output is busy; above 1 it loses the rest.
    pub output_load: f64,
    /// The rate of triggers, per second, that link and output carry for ever.
    pub static_limit_hz: f64,
    /// The separation of triggers, in seconds, at which the output is busy all the time.
    pub saturation_separation_s: f64,
    /// Events that the buffer holds when nothing drains.
    pub depth_events: f64,
    /// The time for which the buffer holds the mean rate when nothing drains, in seconds.
    pub depth_s: f64,
    /// Events back to back at the links' rate that lose nothing; `None` when any number does.
    pub events_back_to_back: Option<u64>,
    /// The probability that a trigger finds the queue full, by the heavy-traffic approximation, whose queue has no limit:
    /// larger than what is simulated, by up to ten times. `None` where it does not hold.
    pub full_probability: Option<f64>,
    /// The loss by simulation.
    pub simulated: Simulated,
    /// The limit of the triggers.
    pub bottleneck: Bottleneck,
}

impl Prediction {
    /// Predicts a hop under triggers, with a simulation of `simulated_triggers` of them.
    ///
    /// # Errors
    /// When there can be no such triggers.
    pub fn new(hop: &Hop, triggers: &Triggers, simulated_triggers: u64) -> Result<Prediction, HopError> {
        let edge = hop.edge();
        let accepted_rate_hz = triggers.accepted_rate_hz();
        let (link_load, output_load) =
            (accepted_rate_hz * hop.link_time_s(), accepted_rate_hz / edge.static_limit_hz());
        let simulated = simulation::simulate(hop, triggers, simulated_triggers)?;
        let depth_events = hop.depth_bytes() / edge.event_bytes;
        Ok(Prediction {
            links: hop.links(),
            frame_bytes: hop.frame().wire_bytes(),
            offered_rate_hz: triggers.rate_hz,
            accepted_rate_hz,
            link_load,
            output_load,
            static_limit_hz: hop.static_limit_hz(),
            saturation_separation_s: edge.saturation_separation_s(),
            depth_events,
            depth_s: depth_events / accepted_rate_hz,
            events_back_to_back: hop.events_back_to_back(),
            // Links that are overloaded pass on no more than they carry.
            full_probability: triggers.full_probability(output_load / link_load.max(1.0), depth_events),
            simulated,
            bottleneck: bottleneck(link_load, output_load, simulated.lost_frames > 0 || depth_events < 1.0),
        })
    }
}

fn bottleneck(link_load: f64, output_load: f64, loses: bool) -> Bottleneck {
    // Rounding makes 1 out of what is exactly the limit.
    let limit = 1.0 + 1e-9;
    match () {
        () if link_load > limit && link_load >= output_load => Bottleneck::Link,
        () if output_load > limit => Bottleneck::Output,
        () if loses => Bottleneck::Buffer,
        () => Bottleneck::None,
    }
}

#[cfg(test)]
mod tests;
