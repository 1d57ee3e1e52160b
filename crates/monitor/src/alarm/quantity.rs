//! What alarms look at: numbers found in the state.
//!
//! ```text
//!  state, "ring_fill", source "*" ─► [("board0", 0.1), ("board1", 0.9)]
//! ```
//! A number that the state does not have is `None`: then nothing is concluded. What has a meaning only while data are taken is not looked at
//! otherwise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rule::Rule;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Hits decoded per second.
    HitRateHz,
    /// Fragments found per second.
    FragmentRateHz,
    /// Bytes received per second.
    ByteRateHz,
    /// Hits recorded per second.
    RecordedRateHz,
    /// Events built per second.
    EventRateHz,
    /// Lost per second, each source in its finest unit.
    LostRateHz,
    /// Lost since the start of the run.
    Lost,
    /// Seconds since anything came from a source; of the whole, since something last came from all of them.
    SilentS,
    /// Fullest ring behind the receiver, 0 to 1.
    RingFill,
    /// Memory on loan, 0 to 1.
    PoolFill,
    /// Time BUSY ÷ time of the run, 0 to 1.
    BusyShare,
    /// Triggers refused ÷ triggers offered, 0 to 1, where the trigger reports; else nothing is concluded.
    DeadTimeFraction,
    /// Share of the events, of late, that a board answered, 0 to 1.
    Completeness,
    /// Free space where the run is recorded.
    DiskFreeBytes,
    /// How long that lasts at the present rate.
    DiskLeftS,
    /// 1 when a clock is not where it should be, else 0.
    ClockUnlocked,
    /// How much later a clock is than its reference, picoseconds, without sign.
    ClockOffsetPs,
    /// A value of slow control, by name, or any number of the state, by its place.
    Series,
}

/// Where the numbers of a quantity are.
enum Found {
    /// One number.
    One(&'static str),
    /// A number of each entry of a list: the list, the entry's name, the number.
    Each(&'static str, &'static str, &'static str),
}

/// How the numbers of several sources make one.
#[derive(Clone, Copy)]
enum Whole {
    Sum,
    Highest,
    Lowest,
}

impl Quantity {
    /// Whether there is one for each source, clock or board.
    pub fn is_of_a_source(self) -> bool {
        matches!(self.found(), Found::Each(..))
    }

    /// Whether it has a meaning only while data are taken.
    pub fn is_of_a_running_run(self) -> bool {
        use Quantity::*;
        !matches!(self, DiskFreeBytes | DiskLeftS | Series | Lost)
    }

    /// Whether what the state has is a total, and its growth per second is meant.
    pub(super) fn is_a_growth(self) -> bool {
        self == Quantity::LostRateHz
    }

    /// Whether what the state has is a rate, and the time since it was last above 0 is meant.
    pub(super) fn is_a_silence(self) -> bool {
        self == Quantity::SilentS
    }

    fn found(self) -> Found {
        use Quantity::*;
        let source = |key| Found::Each("/sources", "name", key);
        match self {
            HitRateHz => source("hit_rate_hz"),
            FragmentRateHz => source("fragment_rate_hz"),
            ByteRateHz | SilentS => source("byte_rate_hz"),
            LostRateHz | Lost => source("lost"),
            RingFill => source("ring_fill"),
            PoolFill => source("pool_fill"),
            Completeness => Found::Each("/events/completeness", "name", ""),
            ClockUnlocked => Found::Each("/clocks", "source", "locked"),
            ClockOffsetPs => Found::Each("/clocks", "source", "offset_ps"),
            RecordedRateHz => Found::One("/recorded_rate_hz"),
            EventRateHz => Found::One("/events/event_rate_hz"),
            BusyShare => Found::One("/busy_time/fraction"),
            DeadTimeFraction => Found::One("/trigger/dead_time_fraction"),
            DiskFreeBytes => Found::One("/disk_free_bytes"),
            DiskLeftS => Found::One("/disk_left_seconds"),
            Series => Found::One(""),
        }
    }

    fn whole(self) -> Whole {
        use Quantity::*;
        match self {
            HitRateHz | FragmentRateHz | ByteRateHz | LostRateHz | Lost => Whole::Sum,
            Completeness => Whole::Lowest,
            // Of a silence, the rate is looked at: the lowest is the silent one.
            SilentS => Whole::Lowest,
            _ => Whole::Highest,
        }
    }

    /// The number of one entry.
    fn number(self, entry: &Value, key: &str) -> Option<f64> {
        match self {
            Quantity::Completeness => {
                let expected = entry["expected"].as_f64().filter(|expected| *expected > 0.0)?;
                Some(entry["built"].as_f64()? / expected)
            }
            Quantity::ClockUnlocked => entry[key].as_bool().map(|locked| f64::from(u8::from(!locked))),
            Quantity::ClockOffsetPs => entry[key].as_f64().map(f64::abs),
            _ => entry[key].as_f64(),
        }
    }
}

/// The subjects of a rule in this state, with their numbers. The subject of the whole has no name.
pub(super) fn values(rule: &Rule, state: &Value) -> Vec<(String, Option<f64>)> {
    match rule.quantity.found() {
        Found::One(place) => {
            let value = match rule.series.as_deref() {
                None => state.pointer(place),
                Some(place) if place.starts_with('/') => state.pointer(place),
                Some(name) => state["series"].get(name).map(|series| series.get("value").unwrap_or(series)),
            };
            vec![(String::new(), value.and_then(Value::as_f64))]
        }
        Found::Each(list, name, key) => {
            let entries = state.pointer(list).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let name = |entry: &Value| entry[name].as_str().unwrap_or_default().to_owned();
            let each = entries.iter().map(|entry| (name(entry), rule.quantity.number(entry, key)));
            match rule.source.as_deref() {
                Some("*") => each.collect(),
                Some(one) => {
                    let value = each.into_iter().find(|(name, _)| name == one).and_then(|(_, value)| value);
                    vec![(one.to_owned(), value)]
                }
                None => vec![(
                    String::new(),
                    together(rule.quantity.whole(), each.filter_map(|(_, value)| value)),
                )],
            }
        }
    }
}

fn together(whole: Whole, values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(|one, other| match whole {
        Whole::Sum => one + other,
        Whole::Highest => one.max(other),
        Whole::Lowest => one.min(other),
    })
}
