//! Published installations, computed; their figures stand beside ours, with the way in which they were counted.
//!
//! ```text
//!  published sizes, rates, depths ─► Chain ─► prediction ─┐
//!  published results ─────────────────────────────────────┴─► Figure: theirs, ours, why they differ
//! ```
//! No value of ours is fitted to a published result. What is not published is not predicted.

pub mod camera;
pub mod cms;
pub mod comet;
pub mod nectarcam;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_frontend::trigger::{Kind, Settings};

use super::chain::{Carrier, ChainPrediction, Deal, Emission, Hop, Source, Through};

/// A published figure and how it comes about.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Published {
    /// The name of the figure, with its unit.
    pub name: &'static str,
    /// The published value.
    pub published: f64,
    /// Computed in the way that gives it.
    pub computed_its_way: f64,
    /// Computed on wire bytes and with what drains meanwhile, for the same number of links.
    pub on_wire_bytes: f64,
    /// Why the two differ.
    pub reason: &'static str,
}

/// A figure of ours next to a published one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// The name of the figure, with its unit.
    pub name: &'static str,
    /// The published value; null where there is none.
    pub published: Option<f64>,
    /// The value computed here from published sizes and rates.
    pub ours: f64,
    /// Why they differ, or what it says.
    pub reason: &'static str,
}

/// A part of an installation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Level {
    /// The name of the part.
    pub name: &'static str,
    /// The prediction for it.
    pub prediction: ChainPrediction,
}

/// An installation, computed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Reproduction {
    /// What it is.
    pub title: &'static str,
    /// Its parts, in the order of the data.
    pub levels: Vec<Level>,
    /// Published figures next to ours.
    pub figures: Vec<Figure>,
    /// The unpublished quantities, which are not predicted.
    pub missing: Vec<&'static str>,
}

/// Returns sources that answer every trigger with `bytes` bytes.
fn triggered(name: &str, links: u32, carrier: Carrier, bytes: u32) -> Source {
    Source {
        name: name.to_owned(),
        links,
        carrier,
        emission: Emission::Triggered,
        answers: vec![vec![bytes]],
    }
}

fn random_triggers(rate_hz: f64, dead_time_ns: u64) -> Settings {
    Settings { program: Kind::Poisson, rate_hz, dead_time_ns, ..Settings::default() }
}

/// A hop in payload bytes, with one server.
fn hop(name: &'static str, rate_bytes_per_s: Option<f64>, unknown: Vec<&'static str>) -> Hop {
    Hop {
        name,
        through: Through::Payload,
        rate_bytes_per_s,
        depth_bytes: None,
        servers: 1,
        deal: Deal::ByLink,
        kept: 1.0,
        unknown,
    }
}
