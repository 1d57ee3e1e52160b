//! The published switch test of the NectarCAM camera (2015), computed.
//!
//! ```text
//!  44 boards × 1 kB ─ 1 Gb/s each ─► switch: 330 MB ─ 10 Gb/s ─► camera server
//! ```
//! The published figures stand beside those on wire bytes, with the way in which they were counted.

use schemars::JsonSchema;
use serde::Serialize;

use super::Published;
use crate::predict::{Hop, HopError};
use crate::switch::burst::{Edge, Queue};
use crate::switch::frame::{Frame, PayloadTooLong};

/// Boards of the published test, and what each of them sends at a trigger.
const LINKS: u32 = 44;
const PAYLOAD_BYTES: u32 = 1024;
const LINK_RATE_BITS_PER_S: f64 = 1e9;
const OUTPUT_RATE_BITS_PER_S: f64 = 10e9;
const DEPTH_BYTES: f64 = 330e6;
/// Ports of the published measurement of the depth: 40 × 8000 packets of 1 kB.
const DEPTH_LINKS: u32 = 40;
/// The depth that was fitted to the published map: of the queue of each input.
const PACKETS_PER_INPUT: f64 = 7000.0;
/// Places on a curve.
const CURVE_STEPS: u32 = 60;
const PUBLISHED_EVENTS: f64 = 8000.0;
const PUBLISHED_LIMIT_HZ: f64 = 27e3;

/// The test, computed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NectarCam {
    /// Boards, each with a link of its own.
    pub links: u32,
    /// Bytes that each sends at a trigger.
    pub payload_bytes: u32,
    /// Bytes of that on the wire.
    pub frame_bytes: u32,
    /// Depth of the buffer in bytes.
    pub depth_bytes: f64,
    /// Events back to back on the links that lose nothing.
    pub events_back_to_back: Option<u64>,
    /// The rate of triggers, per second, that the output carries for ever.
    pub static_limit_hz: f64,
    /// The separation of triggers, in seconds, at which the output is busy all the time.
    pub saturation_separation_s: f64,
    /// The time that a frame takes on its link, in seconds.
    pub link_time_s: f64,
    /// The published figures for comparison.
    pub published: Vec<Published>,
}

/// Why the test could not be computed: its constants are no hop.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NectarCamError {
    /// The payload.
    #[error(transparent)]
    Payload(#[from] PayloadTooLong),
    /// The rest.
    #[error(transparent)]
    Hop(#[from] HopError),
}

/// Returns the hop of the published test with `links` links.
fn hop(links: u32) -> Result<Hop, NectarCamError> {
    let frame = Frame::new(PAYLOAD_BYTES)?;
    Ok(Hop::new(links, LINK_RATE_BITS_PER_S, OUTPUT_RATE_BITS_PER_S, DEPTH_BYTES, frame)?)
}

/// One curve of the published figure: the most events without loss against their separation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EdgeCurve {
    /// The buffer, and its number of ports.
    pub name: String,
    /// Separation of events in seconds, and the most of them that lose nothing.
    pub points: Vec<(f64, u64)>,
}

/// The published figure with both readings of the switch: 330 MB that all inputs share, and 7000 packets per input, which was fitted. With
/// all 44 ports they are nearly the same; with half of them they are not, so that a sweep of the ports distinguishes them.
///
/// # Errors
/// As of the test.
pub fn edges() -> Result<Vec<EdgeCurve>, NectarCamError> {
    let mut curves = Vec::new();
    for links in [LINKS, LINKS / 2] {
        let (link_time_s, frame_bytes) =
            (hop(links)?.link_time_s(), f64::from(hop(links)?.frame().wire_bytes()));
        let rate_bytes_per_s = OUTPUT_RATE_BITS_PER_S / 8.0;
        let event_bytes = f64::from(links) * frame_bytes;
        let queues = f64::from(links) * PACKETS_PER_INPUT * frame_bytes;
        for (depth_bytes, name) in [(DEPTH_BYTES, "shared"), (queues, "per input")] {
            let edge = Edge { queue: Queue { depth_bytes, rate_bytes_per_s }, event_bytes };
            let saturated_s = edge.saturation_separation_s();
            let step_s = (0.995 * saturated_s - link_time_s) / f64::from(CURVE_STEPS);
            let separations = (0..=CURVE_STEPS).map(|step| link_time_s + step_s * f64::from(step));
            let points = separations
                .filter_map(|separation_s| Some((separation_s, edge.largest_burst(separation_s)?)));
            curves.push(EdgeCurve { name: format!("{links} ports, {name}"), points: points.collect() });
        }
    }
    Ok(curves)
}

/// Computes the test.
///
/// # Errors
/// None, as long as its constants are a hop.
pub fn reproduce() -> Result<NectarCam, NectarCamError> {
    let (hop, depth_hop) = (hop(LINKS)?, hop(DEPTH_LINKS)?);
    let (frame, edge) = (hop.frame(), hop.edge());
    let events = Published {
        name: "events back to back, 40 ports",
        published: PUBLISHED_EVENTS,
        computed_its_way: DEPTH_BYTES / f64::from(DEPTH_LINKS * PAYLOAD_BYTES),
        on_wire_bytes: depth_hop.events_back_to_back().map_or(f64::INFINITY, |events| events as f64),
        reason: "40 ports instead of 44, payload bytes only, and nothing that drains during the burst",
    };
    let limit = Published {
        name: "static limit in Hz, 44 ports",
        published: PUBLISHED_LIMIT_HZ,
        computed_its_way: OUTPUT_RATE_BITS_PER_S / 8.0 / f64::from(LINKS * frame.ip_bytes()),
        on_wire_bytes: hop.static_limit_hz(),
        reason: "IP bytes; a frame also occupies Ethernet header, check sequence, preamble and gap",
    };
    Ok(NectarCam {
        links: LINKS,
        payload_bytes: PAYLOAD_BYTES,
        frame_bytes: frame.wire_bytes(),
        depth_bytes: DEPTH_BYTES,
        events_back_to_back: hop.events_back_to_back(),
        static_limit_hz: hop.static_limit_hz(),
        saturation_separation_s: edge.saturation_separation_s(),
        link_time_s: hop.link_time_s(),
        published: vec![events, limit],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_per_input_are_distinguished_from_a_shared_buffer_by_half_of_the_ports() {
        let curves = edges().expect("a hop");
        let first: Vec<u64> = curves.iter().map(|curve| curve.points[0].1).collect();
        let [shared, queues, half_shared, half_queues] = first[..] else { panic!("{first:?}") };
        assert!(
            shared.abs_diff(queues) * 20 < shared,
            "with all ports they differ by less than 5 %: {first:?}"
        );
        // With half the ports, each event is half as large and drains at the same rate.
        assert!(half_shared > 2 * shared && half_queues * 3 < half_shared * 2, "{first:?}");
        assert!(curves.iter().all(|curve| curve.points.windows(2).all(|pair| pair[0].1 <= pair[1].1)));
    }
}
