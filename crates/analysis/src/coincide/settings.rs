//! `[coincidence]`: who takes part, what belongs together, and what is an event.
//!
//! ```text
//!  [coincidence]
//!  mode = "any_pair"                 or "majority", "reference"
//!  window_ps = 100000
//!  [coincidence.veto]                hits near one of these take no part
//!  groups = ["anticompton"]
//!  from_ps = -200000
//!  to_ps = 200000
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::channels::ChannelList;

/// The widest window, picoseconds: ten seconds.
pub const WIDEST_PS: i64 = 10_000_000_000_000;

/// What belongs together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Which hits are in coincidence.
    pub mode: Mode,
    /// How far apart in time they may be, picoseconds; a distance of exactly so much is still within.
    pub window_ps: i64,
    /// With `majority`, how many different channels (or groups) it takes; with `reference`, how many beside the reference.
    pub at_least: Option<u16>,
    /// What makes hits different: their channels, or their groups. Channels of no group stand for themselves.
    pub distinct: Distinct,
    /// What becomes one event, with `any_pair` and `majority`.
    pub events: Grouping,
    /// With `events = "gap"`, the longest time between neighbours in one event, picoseconds; else `window_ps`.
    pub gap_ps: Option<i64>,
    /// No event has more hits, and no window: an event that has so many is closed, and the next one begins.
    #[schemars(range(min = 2, max = 65_536))]
    pub longest_event_hits: usize,
    /// Channels that take part; with none here and no `groups`, all do.
    pub channels: ChannelList,
    /// Groups that take part.
    pub groups: Vec<String>,
    /// With `reference`, the hits that others are compared with.
    pub reference: Option<Leg>,
    /// Hits near one of these take no part.
    pub veto: Option<Leg>,
    /// Only hits near one of these take part.
    pub gate: Option<Leg>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mode: Mode::AnyPair,
            window_ps: 100_000,
            at_least: None,
            distinct: Distinct::Channels,
            events: Grouping::Chain,
            gap_ps: None,
            longest_event_hits: 1024,
            channels: ChannelList::default(),
            groups: Vec::new(),
            reference: None,
            veto: None,
            gate: None,
        }
    }
}

/// Which hits are in coincidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Any two different ones within the window.
    #[default]
    AnyPair,
    /// At least so many different ones within the window.
    Majority,
    /// A reference, and others around it.
    Reference,
}

/// What makes two hits different.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distinct {
    /// Different channels.
    #[default]
    Channels,
    /// Different groups: a group counts as one virtual channel.
    Groups,
}

/// What becomes one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Every window with enough different hits, and windows that share a hit together.
    #[default]
    Chain,
    /// A window is opened by the first hit that is in no event, and closed after `window_ps`.
    Window,
    /// All hits with no longer pause than `gap_ps` between neighbours.
    Gap,
}

/// Some channels, and a time around each of their hits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Leg {
    /// The channels.
    pub channels: ChannelList,
    /// And all channels of these groups.
    pub groups: Vec<String>,
    /// Beginning of the time, picoseconds after the leg's hit, negative before it; without it `-window_ps`.
    pub from_ps: Option<i64>,
    /// End of it, picoseconds after the leg's hit; without it `window_ps`. Both ends are within.
    pub to_ps: Option<i64>,
}

/// A stretch of time around a hit, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub from_ps: i64,
    pub to_ps: i64,
}

impl Leg {
    pub(super) fn span(&self, window_ps: i64) -> Span {
        Span { from_ps: self.from_ps.unwrap_or(-window_ps), to_ps: self.to_ps.unwrap_or(window_ps) }
    }
}

impl Settings {
    /// How many different channels or groups an event of `any_pair` or `majority` has at least.
    pub(super) fn multiplicity(&self) -> u16 {
        match self.mode {
            Mode::Majority => self.at_least.unwrap_or(2),
            Mode::AnyPair | Mode::Reference => 2,
        }
    }
}
