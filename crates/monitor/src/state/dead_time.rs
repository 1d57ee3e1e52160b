//! Live time and dead time of a run: two different things, and each has its name.
//!
//! ```text
//!  trigger: offered, refused ─► dead-time fraction = refused ÷ offered
//!  BUSY: how long raised     ─► busy fraction = time BUSY ÷ elapsed, live time = elapsed without BUSY
//!  boards: real, dead time   ─► of each source, as its boards report it
//!  the largest of these      ─► what stands over every page, and in the line of the terminal
//! ```
//! With triggers at random both agree. With triggers in bursts they do not: a short BUSY may cost most of them.

use schemars::JsonSchema;
use serde::Serialize;

/// What a trigger has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriggerCounts {
    /// Triggers that came.
    pub offered: u64,
    /// Those that were answered.
    pub accepted: u64,
    /// Those that came during BUSY.
    pub refused: u64,
    /// How long BUSY was raised, as the trigger saw it.
    pub busy_ns: u64,
    /// For how long triggers could come.
    pub real_ns: u64,
}

/// The trigger of a run, where it reports what it counts: emulated ones do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TriggerState {
    /// Triggers that came since the start.
    pub offered: u64,
    /// Those that were taken.
    pub accepted: u64,
    /// Those that were refused because BUSY was raised.
    pub refused: u64,
    /// Refused ÷ offered since the start, 0 to 1; null before the first trigger.
    pub dead_time_fraction: Option<f64>,
    /// The same over the last seconds; null where no trigger came in them, and behind the end of the run.
    pub recent_dead_time_fraction: Option<f64>,
}

/// Time and BUSY of a run, or real and dead time of one source's boards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DeadTime {
    /// Seconds in which data could not be taken.
    pub dead_seconds: f64,
    /// Seconds in which they could.
    pub live_seconds: f64,
    /// Dead ÷ all, 0 to 1.
    pub fraction: f64,
}

/// What a dead time is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeadTimeOf {
    /// Of the triggers, those refused.
    Triggers,
    /// Of the time, that BUSY.
    Busy,
    /// Of the time, as the boards of the source report it that was dead longest.
    Boards,
}

/// Dead time of a run as one number: everybody who shows one shows this.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunDeadTime {
    /// Since the start, 0 to 1.
    pub fraction: f64,
    /// Of the last seconds where triggers came in them, or BUSY is known over them, 0 to 1; null where not, as behind the end of the run and
    /// of boards, which report since the start alone.
    pub recent_fraction: Option<f64>,
    /// Of what.
    pub of: DeadTimeOf,
    /// How long triggers could be taken, or the source that was dead longest could take hits, since the start: seconds; null where nobody knows.
    pub live_seconds: Option<f64>,
}

impl RunDeadTime {
    /// Of what the trigger counted, how long BUSY was raised, since the start and as a fraction of the last seconds, and what the boards of
    /// each source report.
    pub fn of(
        trigger: Option<TriggerState>,
        busy: Option<(DeadTime, Option<f64>)>,
        of_boards: impl Iterator<Item = DeadTime> + Clone,
    ) -> Option<RunDeadTime> {
        let live =
            busy.map(|(time, _)| time).into_iter().chain(of_boards.clone()).map(|time| time.live_seconds);
        let live_seconds = live.reduce(f64::min);
        let dead =
            |fraction, recent_fraction, of| RunDeadTime { fraction, recent_fraction, of, live_seconds };
        let of_triggers = trigger.and_then(|own| {
            let fraction = own.dead_time_fraction?;
            Some(dead(fraction, own.recent_dead_time_fraction, DeadTimeOf::Triggers))
        });
        let by_busy =
            busy.map(|(DeadTime { fraction, .. }, recent)| dead(fraction, recent, DeadTimeOf::Busy));
        let by_trigger = of_triggers.or(by_busy);
        let by_boards = of_boards.map(|DeadTime { fraction, .. }| dead(fraction, None, DeadTimeOf::Boards));
        let all = by_trigger.into_iter().chain(by_boards);
        let shown = |dead: &RunDeadTime| dead.recent_fraction.unwrap_or(dead.fraction);
        all.max_by(|one, other| shown(one).total_cmp(&shown(other)))
    }
}

impl DeadTime {
    /// So many seconds of `all` were dead; `None` where there was no time yet.
    pub fn of(dead_seconds: f64, all_seconds: f64) -> Option<DeadTime> {
        let dead_seconds = dead_seconds.clamp(0.0, all_seconds);
        (all_seconds > 0.0).then(|| DeadTime {
            dead_seconds,
            live_seconds: all_seconds - dead_seconds,
            fraction: dead_seconds / all_seconds,
        })
    }
}

impl TriggerState {
    /// Of what was counted until now, and some seconds `before`, where these are the last seconds of something.
    pub fn of(now: TriggerCounts, before: Option<TriggerCounts>) -> TriggerState {
        let fraction = |refused: u64, offered: u64| (offered > 0).then(|| refused as f64 / offered as f64);
        let recent = |now: u64, before: u64| now.saturating_sub(before);
        TriggerState {
            offered: now.offered,
            accepted: now.accepted,
            refused: now.refused,
            dead_time_fraction: fraction(now.refused, now.offered),
            recent_dead_time_fraction: before.and_then(|before| {
                fraction(recent(now.refused, before.refused), recent(now.offered, before.offered))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_time_of_triggers_and_of_time_are_two_numbers() {
        let before = TriggerCounts { offered: 100, accepted: 100, refused: 0, ..TriggerCounts::default() };
        let now = TriggerCounts {
            offered: 200,
            accepted: 146,
            refused: 54,
            busy_ns: 100_000_000,
            real_ns: 2_000_000_000,
        };
        assert_eq!(TriggerState::of(now, None).recent_dead_time_fraction, None);
        let trigger = TriggerState::of(now, Some(before));
        assert_eq!((trigger.dead_time_fraction, trigger.recent_dead_time_fraction), (Some(0.27), Some(0.54)));
        let busy = DeadTime::of(0.1, 2.0).expect("time has passed");
        assert_eq!((busy.live_seconds, busy.fraction), (1.9, 0.05));
    }

    #[test]
    fn the_largest_dead_time_is_that_of_the_run() {
        let none = std::iter::empty::<DeadTime>();
        assert_eq!(RunDeadTime::of(None, None, none.clone()), None, "not 0: nobody reports it");
        let busy = DeadTime::of(1.0, 10.0).map(|time| (time, None));
        let of_busy = RunDeadTime {
            fraction: 0.1,
            recent_fraction: None,
            of: DeadTimeOf::Busy,
            live_seconds: Some(9.0),
        };
        assert_eq!(RunDeadTime::of(Some(TriggerState::default()), busy, none.clone()), Some(of_busy));
        let of_late = DeadTime::of(1.0, 10.0).map(|time| (time, Some(0.02)));
        let recent_fraction =
            RunDeadTime::of(None, of_late, none.clone()).and_then(|dead| dead.recent_fraction);
        assert_eq!(
            recent_fraction,
            Some(0.02),
            "a pause behind which triggers come is not of the last seconds"
        );
        let trigger = TriggerState { dead_time_fraction: Some(0.2), ..TriggerState::default() };
        let of = DeadTimeOf::Triggers;
        let of_triggers = RunDeadTime { fraction: 0.2, recent_fraction: None, of, ..of_busy };
        assert_eq!(RunDeadTime::of(Some(trigger), busy, none.clone()), Some(of_triggers));
        let recent = TriggerState { recent_dead_time_fraction: Some(0.05), ..trigger };
        let of_late = RunDeadTime { recent_fraction: Some(0.05), ..of_triggers };
        assert_eq!(
            RunDeadTime::of(Some(recent), busy, none),
            Some(of_late),
            "of the last seconds it is its own"
        );
        let boards = [DeadTime::of(2.0, 10.0), DeadTime::of(4.0, 10.0)].into_iter().flatten();
        let of_boards = RunDeadTime {
            fraction: 0.4,
            recent_fraction: None,
            of: DeadTimeOf::Boards,
            live_seconds: Some(6.0),
        };
        assert_eq!(RunDeadTime::of(Some(recent), busy, boards), Some(of_boards));
    }

    #[test]
    fn dead_time_is_unknown_before_the_first_trigger() {
        let none = TriggerCounts::default();
        assert_eq!(TriggerState::of(none, Some(none)).dead_time_fraction, None);
        assert_eq!(DeadTime::of(0.0, 0.0), None);
    }
}
