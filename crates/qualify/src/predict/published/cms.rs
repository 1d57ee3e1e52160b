//! An event builder of the size of CMS (2014), computed.
//!
//! ```text
//!  60 readout units ─ a link each: 33 kB of every event ─► fabric ─► 60 builder units, events in turn, a link each
//! ```
//! The fabric loses nothing: what finds a link busy waits in its readout unit. Bytes are those of messages.

use super::{Figure, Level, Reproduction, random_triggers, triggered};
use crate::predict::chain::{Carrier, Chain, ChainError, Deal, Hop, Through};

const READOUT_UNITS: u32 = 60;
const BUILDER_UNITS: u32 = 60;
const RATE_HZ: f64 = 100e3;
const EVENT_BYTES: u32 = 2_000_000;
/// The published rate of a readout unit, and the fraction of its link that it is.
const SENT_BYTES_PER_S: f64 = 6200e6;
const SENT_FRACTION: f64 = 0.9;

/// Computes the builder, with a simulation of `simulated_triggers` triggers.
///
/// # Errors
/// None, as long as its constants are a chain.
pub fn reproduce(simulated_triggers: u64) -> Result<Reproduction, ChainError> {
    let link_bytes_per_s = SENT_BYTES_PER_S / SENT_FRACTION;
    let fragment_bytes = EVENT_BYTES / READOUT_UNITS;
    let builder_link = Hop {
        name: "builder unit link",
        through: Through::Wire,
        rate_bytes_per_s: Some(link_bytes_per_s),
        depth_bytes: None,
        servers: BUILDER_UNITS,
        deal: Deal::ByTrigger,
        kept: 1.0,
        unknown: vec!["memory of a builder unit's link"],
    };
    let chain = Chain {
        triggers: random_triggers(RATE_HZ, 0),
        sources: vec![triggered("readout units", READOUT_UNITS, Carrier::Messages, fragment_bytes)],
        link_bytes_per_s: Some(link_bytes_per_s),
        mtu_bytes: None,
        hops: vec![builder_link],
        assumptions: vec![
            "events go to builder units in turn".to_owned(),
            "all links have the rate of which 6200 MB/s are 90 %".to_owned(),
            "triggers are random, without dead time".to_owned(),
            "the fabric itself is never busy".to_owned(),
        ],
    };
    let prediction = chain.predict(simulated_triggers)?;
    let limit_hz = prediction.saturates_at_hz.unwrap_or(f64::NAN);
    let figures = vec![
        Figure {
            name: "events, Hz",
            published: Some(RATE_HZ),
            ours: limit_hz,
            reason: "published: what is planned; ours: what the links carry at most",
        },
        Figure {
            name: "events at 6200 MB/s of a readout unit, Hz",
            published: Some(RATE_HZ),
            ours: SENT_BYTES_PER_S / f64::from(fragment_bytes),
            reason: "what the published rate of a readout unit carries, if it is kept at 60 × 60",
        },
        Figure {
            name: "sent by a readout unit, MB/s",
            published: Some(SENT_BYTES_PER_S * 1e-6),
            ours: limit_hz * f64::from(fragment_bytes) * 1e-6,
            reason: "the line; published is 90 % of it, and the model has no cost of a message",
        },
        Figure {
            name: "asked of a readout unit, MB/s",
            published: None,
            ours: RATE_HZ * f64::from(fragment_bytes) * 1e-6,
            reason: "100 kHz × 2 MB by 60",
        },
    ];
    Ok(Reproduction {
        title: "CMS-size event builder: 60 readout units × 60 builder units, 100 kHz × 2 MB",
        levels: vec![Level { name: "event builder network", prediction }],
        figures,
        missing: vec![
            "what a builder unit builds, bytes per second",
            "contention within the fabric: the drop beyond 3 × 3 that is published does not come out",
        ],
    })
}
