//! Published installations, computed; their figures stand beside ours, with the way in which they were counted.

pub mod nectarcam;

use schemars::JsonSchema;
use serde::Serialize;

/// A published figure and how it comes about.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Published {
    /// Which one, with its unit.
    pub name: &'static str,
    /// As published.
    pub published: f64,
    /// Computed in the way that gives it.
    pub computed_its_way: f64,
    /// Computed on wire bytes and with what drains meanwhile, for the same number of links.
    pub on_wire_bytes: f64,
    /// Why the two differ.
    pub reason: &'static str,
}
