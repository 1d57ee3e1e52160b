//! One `[[source]]`, all its links and boards together, and its channels.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::Quality;
use thalweg_data::ledger::LossTotal;

use super::DeadTime;

/// What a source gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Self-triggered boards: hits.
    #[default]
    Hits,
    /// Triggered boards: fragments.
    Triggered,
}

/// One `[[source]]`: all its links and boards together.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SourceState {
    /// Its name.
    pub name: String,
    /// What it gives.
    pub kind: SourceKind,
    /// Links of a triggered source; 0 of one that gives hits.
    pub links: usize,
    /// Boards of a triggered source; 0 of one that gives hits.
    pub boards: usize,
    /// Hits decoded since the start.
    pub hits: u64,
    /// Fragments found since the start.
    pub fragments: u64,
    /// Bytes received since the start.
    pub bytes: u64,
    /// Hits decoded per second, as all rates over `rate_window_seconds`; null where that is not known.
    pub hit_rate_hz: Option<f64>,
    /// Fragments found per second.
    pub fragment_rate_hz: Option<f64>,
    /// Bytes received per second.
    pub byte_rate_hz: Option<f64>,
    /// Lost since the start, each loss in the finest unit that is known: hits, fragments, else frames, else datagrams, else bytes.
    pub lost: u64,
    /// How fast `lost` grows, per second.
    pub lost_rate_hz: Option<f64>,
    /// Its lost hits or fragments, with how well they are known, and in words.
    pub loss: Option<LossTotal>,
    /// Live and dead time as its boards report them, the mean over its channels; null where they do not.
    pub dead_time: Option<DeadTime>,
    /// Fullest ring behind the receiver, 0 to 1.
    pub ring_fill: f64,
    /// Blocks on loan, 0 to 1: of its fullest pool.
    pub pool_fill: f64,
    /// Memory of its pools, bytes.
    pub pool_bytes: u64,
    /// The kernel's drop counters and the like, which place losses and are added to nothing.
    pub drop_counters: BTreeMap<&'static str, u64>,
    /// Its channels, of a source of hits. Not in the lines of JSON of the terminal.
    pub channels: Vec<ChannelState>,
}

/// One channel of a source of hits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ChannelState {
    /// Its number.
    pub channel: u16,
    /// Its name.
    pub name: String,
    /// The group that it is in; null of one in none.
    pub group: Option<String>,
    /// Whether its hits are taken.
    pub enabled: bool,
    /// Hits per second.
    pub rate_hz: Option<f64>,
    /// Hits since the start.
    pub hits: u64,
    /// Seconds since the start in which it could take a hit, by its board's counters; null where the board does not report them.
    pub live_time_s: Option<f64>,
    /// How well that is known; `at_least` as long as the board has reported nothing after the last hits.
    pub live_time_quality: Quality,
    /// Dead time ÷ real time since the start, 0 to 1; null where the board does not report it.
    pub dead_time_fraction: Option<f64>,
    /// Pulses that its hits stand for: those that were lost included; null where it is unknown.
    pub corrected_hits: Option<f64>,
    /// How well that is known; `at_least` is a lower bound.
    pub corrected_quality: Quality,
    /// Pulses per second of live time since the start; null where live time or losses are unknown.
    pub corrected_rate_hz: Option<f64>,
    /// The standard uncertainty of that rate, of counting.
    pub corrected_rate_uncertainty_hz: Option<f64>,
}
