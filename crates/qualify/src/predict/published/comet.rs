//! The two levels of COMET Phase-I (2020), computed.
//!
//! ```text
//!  105 boards ─ TCP ─► front-end computer: built ─┐
//!                      seven more ────────────────┼─ direct links ─► back-end computer: received, built ─► disk
//! ```
//! The printed figures disagree with one another. They stand beside ours with the disagreement, and nothing is fitted to them: a rate
//! of bytes that is printed is taken as the rate of its hop, and what follows from it is compared with what is printed of triggers.

use super::{Figure, Level, Reproduction, hop, random_triggers, triggered};
use crate::predict::chain::{Carrier, Chain, ChainError, ChainPrediction};

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1024.0 * MIB;
const BOARDS: u32 = 105;
const RAW_BYTES: u32 = 6144;
const SUPPRESSED_BYTES: u32 = 380;
/// The published figures of the front-end computer: raw mode, and the rate where zero-suppressed data collapse.
const RAW_HZ: f64 = 800.0;
const RAW_BYTES_PER_S: f64 = 337.0 * MIB;
const SUPPRESSED_HZ: f64 = 1800.0;
const SUPPRESSED_BYTES_PER_S: f64 = 24.4 * MIB;
/// The published figures of the back-end computer: eight connections.
const CONNECTIONS: u32 = 8;
const RECEIVED_BYTES_PER_S: f64 = 3.1 * GIB;
const BUILT_BYTES_PER_S: f64 = 1.2 * GIB;
const RECORDED_BYTES_PER_S: f64 = 0.80 * GIB;
const COMPRESSED_BYTES_PER_S: f64 = 0.53 * GIB;
const COMPRESSION_RATIO: f64 = 0.70;

/// Computes both levels, each with a simulation of `simulated_triggers` triggers.
///
/// # Errors
/// None, as long as its constants are a chain.
pub fn reproduce(simulated_triggers: u64) -> Result<Reproduction, ChainError> {
    let raw = first_level(RAW_HZ, RAW_BYTES, RAW_BYTES_PER_S).predict(simulated_triggers)?;
    let suppressed = first_level(SUPPRESSED_HZ, SUPPRESSED_BYTES, SUPPRESSED_BYTES_PER_S);
    let suppressed = suppressed.predict(simulated_triggers)?;
    // The most that the first level gives is the input of the second.
    let raw_limit_hz = raw.saturates_at_hz.unwrap_or(RAW_HZ);
    let second = second_level(raw_limit_hz).predict(simulated_triggers)?;
    let suppressed_limit_hz = suppressed.saturates_at_hz.unwrap_or(f64::NAN);
    let figures = figures(raw_limit_hz, suppressed_limit_hz, built_by_received(&second));
    Ok(Reproduction {
        title: "COMET Phase-I: 105 boards into a front-end computer, eight of these into a back-end computer",
        levels: vec![
            Level { name: "first level, raw, 6144 B of a board at 800 Hz", prediction: raw },
            Level {
                name: "first level, zero-suppressed, 380 B of a board at 1.8 kHz",
                prediction: suppressed,
            },
            Level { name: "second level, raw, at what the first gives", prediction: second },
        ],
        figures,
        missing: vec![
            "the rates of the links of both levels, and depths of buffers",
            "how triggers lie in time: they are taken as random, without dead time",
            "why the rate dips near 200 Hz",
        ],
    })
}

fn first_level(rate_hz: f64, bytes: u32, built_bytes_per_s: f64) -> Chain {
    Chain {
        triggers: random_triggers(rate_hz, 0),
        sources: vec![triggered("boards", BOARDS, Carrier::Stream, bytes)],
        link_bytes_per_s: None,
        mtu_bytes: None,
        hops: vec![hop("front-end builder", Some(built_bytes_per_s), Vec::new())],
        assumptions: Vec::new(),
    }
}

fn second_level(rate_hz: f64) -> Chain {
    let event_bytes = BOARDS * RAW_BYTES;
    Chain {
        triggers: random_triggers(rate_hz, 0),
        sources: vec![triggered("front-end computers", CONNECTIONS, Carrier::Messages, event_bytes)],
        link_bytes_per_s: None,
        mtu_bytes: None,
        hops: vec![
            hop("back-end receiver", Some(RECEIVED_BYTES_PER_S), Vec::new()),
            hop("back-end builder", Some(BUILT_BYTES_PER_S), Vec::new()),
            hop("disk", Some(RECORDED_BYTES_PER_S), Vec::new()),
        ],
        assumptions: vec!["each connection brings the events of 105 boards".to_owned()],
    }
}

/// What the builder of a level builds, by what comes to it: all of it, where its rate suffices.
fn built_by_received(level: &ChainPrediction) -> f64 {
    let load = level.hop("back-end builder").and_then(|hop| hop.utilisation);
    1.0 / load.unwrap_or(f64::NAN).max(1.0)
}

fn figures(raw_limit_hz: f64, suppressed_limit_hz: f64, built_by_received: f64) -> Vec<Figure> {
    let asked = |bytes: u32, rate_hz: f64| f64::from(BOARDS * bytes) * rate_hz;
    vec![
        Figure {
            name: "raw data at 800 Hz, MiB/s",
            published: Some(RAW_BYTES_PER_S / MIB),
            ours: asked(RAW_BYTES, RAW_HZ) / MIB,
            reason: "105 × 6144 B × 800 Hz; the printed rate of bytes and rate of triggers disagree",
        },
        Figure {
            name: "raw triggers at 337 MiB/s, Hz",
            published: Some(RAW_HZ),
            ours: raw_limit_hz,
            reason: "the same, the other way round",
        },
        Figure {
            name: "zero-suppressed data at 1.8 kHz, MiB/s",
            published: Some(SUPPRESSED_BYTES_PER_S / MIB),
            ours: asked(SUPPRESSED_BYTES, SUPPRESSED_HZ) / MIB,
            reason: "105 × 380 B × 1.8 kHz; a mean block of 135 B would agree",
        },
        Figure {
            name: "zero-suppressed triggers at 24.4 MiB/s, Hz",
            published: Some(SUPPRESSED_HZ),
            ours: suppressed_limit_hz,
            reason: "the same, the other way round; behind it the original collapses, and this model is held back",
        },
        Figure {
            name: "built by received at the second level",
            published: Some(BUILT_BYTES_PER_S / RECEIVED_BYTES_PER_S),
            ours: built_by_received,
            reason: "printed: 1.2 of 3.1 GiB/s, as one core is full; ours: 1.2 GiB/s of what eight first levels give",
        },
        Figure {
            name: "recorded with lz4, GiB/s before compression",
            published: Some(COMPRESSED_BYTES_PER_S / COMPRESSION_RATIO / GIB),
            ours: RECORDED_BYTES_PER_S / COMPRESSION_RATIO / GIB,
            reason: "ours: what a disk of 0.80 GiB/s would take; printed less, so that the compressing core limits",
        },
    ]
}
