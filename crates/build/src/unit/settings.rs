//! The settings of readout units, builder units and event manager: `[build.units]` of the configuration.
//!
//! ```text
//!  [build.units] ─► Settings ─ check ─► ReadoutUnit, BuilderUnit, EventManager
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::Mark;

use super::builder::MOST_REMEMBERED;
use super::{Assignment, Watermarks};

/// How the event manager chooses the builder unit of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssignmentOrder {
    /// The one with the most free credits: a slow builder gets less.
    #[default]
    Credit,
    /// Range k of `range_events` triggers to builder k modulo their number, while that one lives: the same trigger always goes
    /// to the same builder.
    RoundRobin,
}

/// Readout units, builder units and event manager; the same for all of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Most triggers per assignment: more amortise messages better, fewer spread finer over builder units.
    pub range_events: u32,
    /// How a range finds its builder unit: by credit, or round robin.
    pub order: AssignmentOrder,
    /// Credits of each builder unit: how many events it holds at a time.
    pub slots: u32,
    /// Most bytes of events per message; a longer part of a range is sent in several.
    pub part_bytes: u64,
    /// Most events that a readout unit keeps for builder units whose write has not returned.
    pub keep_events: u64,
    /// Most bytes of such events.
    pub keep_bytes: u64,
    /// Most bytes that a builder unit holds before it takes no more assignments.
    pub builder_bytes: u64,
    /// BUSY is raised at this part of `keep_events`, `keep_bytes`, `builder_bytes`.
    pub busy_high: f64,
    /// … and lowered at this part.
    pub busy_low: f64,
    /// Builder units pass events on in the order of their trigger numbers, as far as they have them.
    pub ordered: bool,
    /// An event that a builder unit has waited for this long is passed on as it is, in milliseconds; 0: it waits for ever.
    pub age_ms: u64,
    /// A readout unit that closes nothing for this long while others do is no longer waited for, in milliseconds.
    pub lag_ms: u64,
    /// A unit that says nothing for this long is taken for dead, in milliseconds.
    pub dead_ms: u64,
    /// A builder unit gets no work before every living readout unit is connected with it. Where some are, the others are waited for this
    /// long, in milliseconds; then events are built without them. 0: nobody is waited for.
    pub reach_ms: u64,
    /// Each unit says something at least this often, in milliseconds.
    pub heartbeat_ms: u64,
    /// How long a new event manager waits for the reports of all units, in milliseconds.
    pub announce_ms: u64,
    /// Emulated boards are triggered when the event manager has said "not busy" for the first time; without that for this long the run
    /// fails, in milliseconds.
    pub first_word_ms: u64,
    /// Readout and builder units report progress at most this often unless some ranges have come together, in microseconds, a second at
    /// most.
    pub progress_us: u64,
    /// A single readout unit whose triggers are this far ahead of every other's is not followed.
    pub jump_triggers: u64,
    /// How many bits of trigger number the boards send: by them a readout unit that restarts in mid-run finds the numbers again.
    pub trigger_bits: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            range_events: 64,
            order: AssignmentOrder::Credit,
            slots: 4096,
            part_bytes: 1 << 20,
            keep_events: 1 << 17,
            keep_bytes: 512 << 20,
            builder_bytes: 512 << 20,
            busy_high: 0.75,
            busy_low: 0.5,
            ordered: false,
            age_ms: 2_000,
            lag_ms: 200,
            dead_ms: 1_000,
            reach_ms: 10_000,
            heartbeat_ms: 100,
            announce_ms: 2_000,
            first_word_ms: 60_000,
            progress_us: 500,
            jump_triggers: 1 << 16,
            trigger_bits: 64,
        }
    }
}

/// Settings that cannot work. The message names the key and what to write.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A number outside its limits.
    #[error("[build.units] {key} = {value} is not possible: write {possible}")]
    OutOfLimits {
        /// The key.
        key: &'static str,
        /// What stands there.
        value: String,
        /// What may stand there.
        possible: String,
    },
}

impl Settings {
    /// Says what cannot work.
    ///
    /// # Errors
    /// The first key whose value is out of its limits.
    pub fn check(&self) -> Result<(), SettingsError> {
        let whole = |key, value: u64, from: u64, to: u64| {
            (from..=to).contains(&value).then_some(()).ok_or_else(|| SettingsError::OutOfLimits {
                key,
                value: value.to_string(),
                possible: format!("{from} to {to}"),
            })
        };
        whole("range_events", self.range_events.into(), 1, Assignment::LONGEST.into())?;
        whole("slots", self.slots.into(), 1, 1 << 24)?;
        whole("part_bytes", self.part_bytes, 1, 1 << 30)?;
        whole("keep_events", self.keep_events, u64::from(self.range_events), 1 << 32)?;
        whole("keep_bytes", self.keep_bytes, 1, 1 << 48)?;
        whole("builder_bytes", self.builder_bytes, 1, 1 << 48)?;
        whole("heartbeat_ms", self.heartbeat_ms, 1, 60_000)?;
        whole("dead_ms", self.dead_ms, 2 * self.heartbeat_ms, 3_600_000)?;
        whole("reach_ms", self.reach_ms, 0, 3_600_000)?;
        whole("lag_ms", self.lag_ms, 1, 3_600_000)?;
        whole("announce_ms", self.announce_ms, 1, 3_600_000)?;
        whole("first_word_ms", self.first_word_ms, 1, 3_600_000)?;
        whole("progress_us", self.progress_us, 0, 1_000_000)?;
        whole("jump_triggers", self.jump_triggers, u64::from(self.range_events), 1 << 62)?;
        whole("trigger_bits", self.trigger_bits.into(), 8, 64)?;
        let ordered = 0.0 <= self.busy_low && self.busy_low <= self.busy_high && self.busy_high <= 1.0;
        ordered.then_some(()).ok_or_else(|| SettingsError::OutOfLimits {
            key: "busy_low, busy_high",
            value: format!("{}, {}", self.busy_low, self.busy_high),
            possible: "0 <= busy_low <= busy_high <= 1".to_owned(),
        })
    }

    /// Most bytes that a builder unit can hold when no event is larger than `largest_event_bytes`: its credits, all in use. It
    /// takes no more assignments from `builder_bytes` on, but what was assigned before may still come.
    pub fn builder_budget_bytes(&self, largest_event_bytes: u64) -> u64 {
        u64::from(self.slots).saturating_mul(largest_event_bytes)
    }

    /// Most triggers that can be open at a time, assigned and not written, or released and not confirmed: a unit that reports more ranges
    /// than these is not one of this run. A builder unit may have some of three managers, and names those that it remembers.
    pub(super) fn most_open_triggers(&self, builders: usize) -> u64 {
        3 * u64::from(self.slots.max(32)) * builders as u64 + self.keep_events + MOST_REMEMBERED as u64
    }

    /// So many ranges are worth a message, whenever the last one was: few enough that credits are back long before they are needed.
    pub(super) fn ranges_per_word(&self) -> u64 {
        (u64::from(self.slots) / u64::from(self.range_events.max(1)) / 8).clamp(1, 8)
    }

    /// How long what is not worth a message is held back behind the last one, nanoseconds.
    pub(super) fn progress_ns(&self) -> u64 {
        self.progress_us * 1_000
    }

    /// In how many nanoseconds what was held back behind the last message is said.
    pub(super) fn next_word_ns(&self, last: Mark, now: Mark) -> u64 {
        self.progress_ns().saturating_sub(now.since_ns(last))
    }

    pub(super) fn marks(&self, whole: u64) -> Watermarks {
        Watermarks::of(whole, self.busy_low, self.busy_high)
    }

    pub(super) fn heartbeat_ns(&self) -> u64 {
        self.heartbeat_ms * 1_000_000
    }

    pub(super) fn dead_ns(&self) -> u64 {
        self.dead_ms * 1_000_000
    }

    pub(super) fn reach_ns(&self) -> u64 {
        self.reach_ms * 1_000_000
    }

    pub(super) fn lag_ns(&self) -> u64 {
        self.lag_ms * 1_000_000
    }

    pub(super) fn announce_ns(&self) -> u64 {
        self.announce_ms * 1_000_000
    }

    /// Whether something that began at `since` has waited its time.
    pub(super) fn is_over_age(&self, since: Mark, now: Mark) -> bool {
        self.age_ms > 0 && now.since_ns(since) > self.age_ms * 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_possible_and_mistakes_are_named() {
        assert_eq!(Settings::default().check(), Ok(()));
        let said = Settings { range_events: 0, ..Settings::default() }.check().expect_err("0").to_string();
        assert!(said.contains("range_events") && said.contains("1 to 65536"), "{said}");
        let of_slots = |slots| Settings { slots, range_events: 16, ..Settings::default() }.ranges_per_word();
        assert_eq!([16, 256, 4096].map(of_slots), [1, 2, 8], "credits are back before they are needed");
        assert!(Settings { busy_low: 0.9, ..Settings::default() }.check().is_err());
        assert!(Settings { dead_ms: 100, ..Settings::default() }.check().is_err());
    }
}
