//! Triggers emulated boards beside a real one: with the triggers that the real board has answered.
//!
//! ```text
//!  the leader's fragments   7   8   10   10   9   11
//!  triggers for the others  7   8   9 10           11
//!                                   └ filled in     └ duplicates and late numbers are ignored
//! ```
//! If only the leader's fragment of a trigger is lost, the trigger is filled in, so that its event is built without the
//! leader instead of not at all. Numbers are passed on as sent; a number far from the one before means that the leader
//! was reset, and the others continue from there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use thalweg_data::tick::{Tick, TickError};
use thalweg_data::{Fragments, SourceId};

use super::Trigger;

/// Numbers that go back by less than this are late or duplicate, even if nothing is filled in.
const REORDERED: u64 = 64;
/// After this many late numbers in a row, the leader is considered reset to a number nearby.
const LATE_IN_A_ROW: u32 = 32;

/// Counters of the leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FollowSettings {
    /// Bits of the leader's trigger number, 1 to 64; it wraps there.
    pub trigger_bits: u32,
    /// One count of the leader's time in picoseconds; without it, times of arrival are used.
    pub tick_ps: Option<f64>,
    /// Most missing numbers in a row that are filled in; a larger step, forward or back, is a reset.
    pub longest_gap: u64,
}

impl Default for FollowSettings {
    fn default() -> FollowSettings {
        FollowSettings { trigger_bits: 64, tick_ps: None, longest_gap: 1000 }
    }
}

/// Invalid settings of a leader.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FollowError {
    /// An impossible number of bits.
    #[error("following a board: `trigger_bits = {0}`; allowed is 1 to 64")]
    Bits(u32),
    /// An impossible tick.
    #[error("following a board: `tick_ps`: {0}")]
    Tick(#[from] TickError),
    /// More numbers than the counter allows.
    #[error(
        "following a board: `longest_gap = {0}`; allowed is at most {1}, a quarter of the numbers, or a million"
    )]
    Gap(u64, u64),
}

/// Turns the fragments of one board into triggers for others.
#[derive(Clone, Debug)]
pub struct Follower {
    leader: SourceId,
    mask: u64,
    longest_gap: u64,
    tick: Option<Tick>,
    latest: Option<Latest>,
    late_in_a_row: u32,
    filled: u64,
    ignored: u64,
    resets: u64,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    trigger: Trigger,
    ticks: u64,
    origin: Origin,
}

/// When the leader's clock was set: all times until it is set again are counted from here, so that what is rounded off does not add up.
#[derive(Clone, Copy, Debug)]
struct Origin {
    ticks: u64,
    time_ns: u64,
}

impl Follower {
    /// Creates a follower of `leader`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(leader: SourceId, settings: &FollowSettings) -> Result<Follower, FollowError> {
        let bits = settings.trigger_bits;
        if !(1..=64).contains(&bits) {
            return Err(FollowError::Bits(bits));
        }
        let mask = u64::MAX >> (64 - bits);
        let most = (mask / 4).min(1_000_000);
        if settings.longest_gap > most {
            return Err(FollowError::Gap(settings.longest_gap, most));
        }
        let tick = settings.tick_ps.map(Tick::from_ps_f64).transpose()?;
        Ok(Follower {
            leader,
            mask,
            longest_gap: settings.longest_gap,
            tick,
            latest: None,
            late_in_a_row: 0,
            filled: 0,
            ignored: 0,
            resets: 0,
        })
    }

    /// Appends the triggers of the leader's fragments in a batch, in their order.
    pub fn follow(&mut self, fragments: &Fragments, triggers: &mut Vec<Trigger>) {
        let leader = self.leader;
        for fragment in fragments.fragments.iter().filter(|fragment| fragment.source == leader) {
            let number = fragment.trigger & self.mask;
            let (origin, time_ns) = self.time_ns(fragment.ticks, fragments.header.mark.0);
            let trigger = Trigger { number, time_ns };
            self.see(Latest { trigger, ticks: fragment.ticks, origin }, triggers);
        }
    }

    fn see(&mut self, seen: Latest, triggers: &mut Vec<Trigger>) {
        if let Some(latest) = self.latest {
            let step = seen.trigger.number.wrapping_sub(latest.trigger.number) & self.mask;
            let back = step.wrapping_neg() & self.mask;
            let late = back <= self.longest_gap.max(REORDERED.min(self.mask / 4));
            if late && self.late_in_a_row < LATE_IN_A_ROW {
                self.late_in_a_row += 1;
                self.ignored += 1;
                return;
            }
            if late || step > self.longest_gap + 1 {
                self.resets += 1;
            } else {
                self.fill(latest.trigger, seen.trigger, step, triggers);
            }
        }
        triggers.push(seen.trigger);
        (self.latest, self.late_in_a_row) = (Some(seen), 0);
    }

    /// Fills in the numbers between two seen triggers, at equal intervals.
    fn fill(&mut self, from: Trigger, to: Trigger, step: u64, triggers: &mut Vec<Trigger>) {
        let between_ns = to.time_ns.saturating_sub(from.time_ns);
        for index in 1..step {
            let offset_ns = (u128::from(between_ns) * u128::from(index) / u128::from(step)) as u64;
            let number = from.number.wrapping_add(index) & self.mask;
            triggers.push(Trigger { number, time_ns: from.time_ns + offset_ns });
        }
        self.filled += step - 1;
    }

    /// The leader's time and where it is counted from; it never goes back, even if the clock was reset.
    fn time_ns(&self, ticks: u64, arrival_ns: u64) -> (Origin, u64) {
        if let (Some(tick), Some(latest)) = (self.tick, self.latest)
            && ticks >= latest.ticks
        {
            let (numerator, denominator) = tick.parts();
            let since = u128::from(ticks - latest.origin.ticks);
            let since_ns = since * u128::from(numerator) / (u128::from(denominator) * 1000);
            let since_ns = u64::try_from(since_ns).unwrap_or(u64::MAX);
            return (latest.origin, latest.origin.time_ns.saturating_add(since_ns));
        }
        let time_ns = self.latest.map_or(arrival_ns, |latest| arrival_ns.max(latest.trigger.time_ns));
        (Origin { ticks, time_ns }, time_ns)
    }

    /// Number of triggers that were filled in because the leader's fragment was missing.
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// Number of duplicate or late fragments, which were ignored.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Number of steps that were taken for a reset of the leader.
    pub fn resets(&self) -> u64 {
        self.resets
    }
}
