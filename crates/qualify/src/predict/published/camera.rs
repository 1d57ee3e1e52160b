//! The whole NectarCAM camera (2015), computed.
//!
//! ```text
//!  265 boards × 1 kB ─ 1 Gb/s each ─► switch: 330 MB ─ 4 × 10 Gb/s ─► camera server: events built ─ 10 Gb/s ─►
//! ```

use super::{Figure, Level, Reproduction, hop, random_triggers, triggered};
use crate::predict::chain::{Carrier, Chain, ChainError, Deal, Hop, Through};

const LINKS: u32 = 265;
const PAYLOAD_BYTES: u32 = 1024;
const LINK_BITS_PER_S: f64 = 1e9;
const OUTPUTS: u32 = 4;
const OUTPUT_BITS_PER_S: f64 = 10e9;
/// The depth of the whole switch; each output is given a fourth of it.
const DEPTH_BYTES: f64 = 330e6;
const BUILT_BITS_PER_S: f64 = 10e9;
const DEAD_TIME_NS: u64 = 2000;
/// Ours: no rate of triggers is published with the network.
const RATE_HZ: f64 = 4200.0;

/// Computes the camera, with a simulation of `simulated_triggers` triggers.
///
/// # Errors
/// None, as long as its constants are a chain.
pub fn reproduce(simulated_triggers: u64) -> Result<Reproduction, ChainError> {
    let switch = Hop {
        name: "switch output",
        through: Through::Wire,
        rate_bytes_per_s: Some(OUTPUT_BITS_PER_S / 8.0),
        depth_bytes: Some(DEPTH_BYTES / f64::from(OUTPUTS)),
        servers: OUTPUTS,
        deal: Deal::ByLink,
        kept: 1.0,
        unknown: Vec::new(),
    };
    let chain = Chain {
        triggers: random_triggers(RATE_HZ, DEAD_TIME_NS),
        sources: vec![triggered("camera", LINKS, Carrier::Datagrams, PAYLOAD_BYTES)],
        link_bytes_per_s: Some(LINK_BITS_PER_S / 8.0),
        mtu_bytes: None,
        hops: vec![
            switch,
            hop("camera server", None, vec!["bytes per second of the camera server"]),
            hop("behind event building", Some(BUILT_BITS_PER_S / 8.0), vec!["depth behind event building"]),
        ],
        assumptions: vec![
            format!("{RATE_HZ} triggers per second are ours"),
            "each output has a fourth of the 330 MB".to_owned(),
            "boards are spread over the outputs evenly".to_owned(),
        ],
    };
    let prediction = chain.predict(simulated_triggers)?;
    let limit_hz = |name| prediction.hop(name).and_then(|hop| hop.saturates_at_hz).unwrap_or(f64::NAN);
    let (switch_hz, built_hz) = (limit_hz("switch output"), limit_hz("behind event building"));
    let event_wire_bytes = prediction.hops[0].offered_bytes_per_s / chain.mean_rate_hz();
    let figures = vec![
        Figure {
            name: "rate in by rate out of event building",
            published: Some(f64::from(OUTPUTS) * OUTPUT_BITS_PER_S / BUILT_BITS_PER_S),
            ours: switch_hz / built_hz,
            reason: "at the limit of the switch; headers end at the server, and 67 of 265 boards share an output",
        },
        Figure {
            name: "static limit of the switch, Hz",
            published: None,
            ours: switch_hz,
            reason: "67 frames of 1090 bytes through one output of 10 Gb/s",
        },
        Figure {
            name: "limit of 10 Gb/s if all is kept, Hz",
            published: None,
            ours: built_hz,
            reason: "265 payloads of 1024 bytes; above it event building has to leave data out",
        },
        Figure {
            name: "rate of which 330 MB hold a second, Hz",
            published: None,
            ours: DEPTH_BYTES / event_wire_bytes,
            reason: "\"about one second of average triggers\" is published, and no rate beside it",
        },
    ];
    Ok(Reproduction {
        title: "NectarCAM camera: 265 boards of 1 kB at 1 Gb/s into 4 × 10 Gb/s, reduced to 10 Gb/s",
        levels: vec![Level { name: "camera", prediction }],
        figures,
        missing: vec![
            "the rate of triggers in the camera",
            "what the camera server receives and builds, bytes per second",
        ],
    })
}
