//! What the events of triggered boards stand for: from the triggers that came to the events that are recorded.
//!
//! ```text
//!  offered ─┬─ refused while BUSY or inhibited ─► dead time: live fraction = accepted ÷ offered
//!           └─ accepted ─┬─ no board answered, or dropped because incomplete ─► lost before building
//!                        └─ built ─ lost on the way to the file
//!                             └─► recorded: each stands for accepted ÷ recorded
//! ```
//! **Rate.** Where the trigger reports, the triggers that it was offered are counted, whatever their distribution in time, and nothing has to be
//! assumed. Where it does not, the events that were built are triggers that came without BUSY: their number ÷ the time without BUSY is a lower
//! bound of the rate of triggers at random, because boards may have been busy of their own.
//!
//! **Losses.** Trigger numbers that came from no board are lost events only if the trigger says that it gave these numbers to accepted
//! triggers: refused triggers of some boards have numbers, too.

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::Quality;
use thalweg_data::ledger::LossTotal;

use super::{Corrected, SourceLoss};

/// What a trigger has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TriggerReport {
    /// Triggers that came.
    pub offered: u64,
    /// Those that were answered.
    pub accepted: u64,
    /// Those that came while BUSY or inhibited.
    pub refused: u64,
    /// Seconds for which triggers could come.
    pub real_time_s: f64,
    /// Of these, the seconds without BUSY.
    pub live_time_s: f64,
}

/// What an event filter did with the events of a run, and what the recording has lost of those that it let through.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilteredCounts {
    /// Rejected and not recorded.
    pub rejected: u64,
    /// Rejected and recorded all the same, as one of so many.
    pub prescaled: u64,
    /// Not decided in time and recorded.
    pub undecided_kept: u64,
    /// Not decided in time and lost.
    pub undecided_lost: u64,
    /// Lost behind the filter, for whatever reason it let them through.
    pub lost_behind: u64,
}

/// What is known of the events of a run.
#[derive(Clone, Copy, Debug)]
pub struct EventCounts<'l> {
    /// Events built, complete or not.
    pub built: u64,
    /// Events recorded.
    pub recorded: u64,
    /// Accepted triggers of which it is known that no event was built.
    pub lost_before_building: u64,
    /// Whether these are all.
    pub knows_all_triggers: bool,
    /// All events that were begun and are not recorded, by the ledger.
    pub lost: Option<&'l LossTotal>,
    /// Of a run with an event filter.
    pub filtered: Option<FilteredCounts>,
    /// The trigger's counts, where it reports.
    pub trigger: Option<TriggerReport>,
    /// Seconds without BUSY, where the trigger does not report: boards may have been live for less.
    pub live_at_most_s: Option<f64>,
}

/// What the recorded events of a run stand for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NormalisedEvents {
    /// Triggers that came; null where the trigger does not report.
    pub triggers_offered: Option<u64>,
    /// Of these, those that were answered.
    pub triggers_accepted: Option<u64>,
    /// Of these, those that were refused because of BUSY or an inhibit.
    pub triggers_refused: Option<u64>,
    /// Accepted ÷ offered, 0 to 1; null before the first trigger.
    pub live_fraction: Option<f64>,
    /// Seconds for which triggers could come; null where the trigger does not report.
    pub real_time_s: Option<f64>,
    /// Of these, the seconds without BUSY.
    pub live_time_s: Option<f64>,
    /// How well the live time is known.
    pub live_time_quality: Quality,
    /// Accepted triggers of which no event was built: no board answered, or the event was dropped because it was incomplete.
    pub lost_before_building: u64,
    /// How well that is known. `at_least`: the trigger does not report, so what no board answered may have been refused.
    pub lost_before_building_quality: Quality,
    /// Events recorded.
    pub recorded: u64,
    /// Accepted triggers that these stand for: of a run with an event filter, those whose events it would have kept.
    pub loss_corrected: Corrected,
    /// Triggers per second, refused and lost ones among them.
    pub rate_hz: Corrected,
}

impl NormalisedEvents {
    /// Of what is known of a run with triggers.
    pub fn of(counts: EventCounts<'_>) -> NormalisedEvents {
        let trigger = counts.trigger;
        let times = trigger.filter(|own| own.real_time_s > 0.0);
        let known = if counts.knows_all_triggers { Quality::Exact } else { Quality::AtLeast };
        NormalisedEvents {
            triggers_offered: trigger.map(|own| own.offered),
            triggers_accepted: trigger.map(|own| own.accepted),
            triggers_refused: trigger.map(|own| own.refused),
            live_fraction: trigger
                .filter(|own| own.offered > 0)
                .map(|own| own.accepted as f64 / own.offered as f64),
            real_time_s: times.map(|own| own.real_time_s),
            live_time_s: times.map(|own| own.live_time_s),
            live_time_quality: if times.is_some() { Quality::Exact } else { Quality::Unknown },
            lost_before_building: counts.lost_before_building,
            lost_before_building_quality: known,
            recorded: counts.recorded,
            loss_corrected: counts.loss_corrected(known),
            rate_hz: counts.rate_hz(),
        }
    }
}

impl EventCounts<'_> {
    fn loss_corrected(&self, known: Quality) -> Corrected {
        let loss = self.lost.map_or(SourceLoss::UNKNOWN, SourceLoss::of);
        let decided = self.filtered.is_none_or(|own| own.undecided_kept + own.undecided_lost == 0);
        let all_known = loss.quality == Quality::Exact && known == Quality::Exact && decided;
        let quality = if all_known { Quality::Exact } else { Quality::AtLeast };
        let (kept, factor) = match self.filtered {
            Some(filtered) => self.kept_by(filtered),
            None => (self.recorded, loss.factor()),
        };
        factor.map_or(Corrected::UNKNOWN, |factor| Corrected::counted(kept, factor, quality))
    }

    /// Returns how many events the filter has kept, whether or not they could be recorded, and what each of them stands for. The filter is
    /// taken to keep as many of the events that it never saw as of the others, and none of those that it did not decide.
    fn kept_by(&self, filtered: FilteredCounts) -> (u64, Option<f64>) {
        let FilteredCounts { rejected, prescaled, undecided_kept, undecided_lost, lost_behind } = filtered;
        let let_through = self.recorded + lost_behind;
        let lost = self.lost.map_or(0, |total| total.known.count);
        let unseen = lost.saturating_sub(undecided_lost + lost_behind);
        let seen = let_through + rejected + undecided_lost;
        let kept = let_through.saturating_sub(prescaled + undecided_kept);
        match seen {
            0 => (0, (unseen == 0).then_some(1.0)),
            seen => (kept, Some((seen + unseen) as f64 / seen as f64)),
        }
    }

    fn rate_hz(&self) -> Corrected {
        let longer_than_none = |seconds: &f64| *seconds > 0.0;
        match (self.trigger, self.live_at_most_s.filter(longer_than_none)) {
            (Some(trigger), _) if trigger.real_time_s > 0.0 => {
                Corrected::counted(trigger.offered, 1.0 / trigger.real_time_s, Quality::Exact)
            }
            (None, Some(live_s)) => Corrected::counted(self.built, 1.0 / live_s, Quality::AtLeast),
            _ => Corrected::UNKNOWN,
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::ledger::LossReport;
    use thalweg_data::{Counters, Ledger, LossReason, Noted, SourceId, Stage, StageRole, Unit};

    use super::*;

    const REPORT: TriggerReport =
        TriggerReport { offered: 1000, accepted: 800, refused: 200, real_time_s: 10.0, live_time_s: 8.1 };

    /// The lost events of a ledger of 800 accepted triggers: 8 that no board answered, 5 dropped, 3 that the disk refused, the rest recorded.
    fn lost(trigger_reports: bool) -> LossTotal {
        let ledger = Ledger::create(None, &["boards".to_owned()]).expect("memory");
        let enter = |stage, count: fn(&mut Counters)| {
            let mut counters = Counters::default();
            count(&mut counters);
            ledger.open(stage, SourceId(0), &[Unit::Events]).publish(&counters);
        };
        if trigger_reports {
            enter(Stage::Trigger, |counters| {
                counters.input(Unit::Events, 1000);
                counters.output(Unit::Events, 800);
                counters.lost(LossReason::Busy, Unit::Events, 200);
            });
        }
        enter(Stage::Build, |counters| {
            counters.output(Unit::Events, 787);
            counters.lost(LossReason::Incomplete, Unit::Events, 5);
            counters.noted(Noted::Unseen, Unit::Events, 8);
        });
        enter(Stage::Record, |counters| {
            counters.output(Unit::Events, 784);
            counters.lost(LossReason::DiskFull, Unit::Events, 3);
        });
        let report = LossReport::of(&ledger.snapshot(), StageRole::Recording);
        report.total(Unit::Events).expect("there are events").clone()
    }

    fn counts(lost: &LossTotal, reports: bool) -> EventCounts<'_> {
        EventCounts {
            built: 787,
            recorded: 784,
            lost_before_building: if reports { 13 } else { 5 },
            knows_all_triggers: reports,
            lost: Some(lost),
            filtered: None,
            trigger: reports.then_some(REPORT),
            live_at_most_s: (!reports).then_some(8.2),
        }
    }

    #[test]
    fn recorded_events_stand_for_the_accepted_triggers_and_the_rate_for_those_offered() {
        let lost = lost(true);
        let known = NormalisedEvents::of(counts(&lost, true));
        assert_eq!(
            (known.live_fraction, known.live_time_s, known.real_time_s),
            (Some(0.8), Some(8.1), Some(10.0))
        );
        assert_eq!((known.lost_before_building, known.lost_before_building_quality), (13, Quality::Exact));
        let corrected = known.loss_corrected;
        assert!((corrected.value.expect("known") - 800.0).abs() < 1e-9, "{corrected:?}");
        let relative = corrected.uncertainty.expect("known") / 800.0;
        assert!((relative - 1.0 / 784f64.sqrt()).abs() < 1e-9, "as of 784 counts: {relative}");
        assert_eq!((corrected.quality, known.rate_hz.value), (Quality::Exact, Some(100.0)));
        assert!((known.rate_hz.uncertainty.expect("known") - 1000f64.sqrt() / 10.0).abs() < 1e-9);
    }

    #[test]
    fn filtered_events_stand_for_those_that_the_filter_would_have_kept() {
        let lost = lost(true);
        let of = |recorded, filtered| {
            let counts = EventCounts { recorded, filtered: Some(filtered), ..counts(&lost, true) };
            NormalisedEvents::of(counts).loss_corrected
        };
        // Of 787 events that it saw, it kept 194 and rejected 593; 3 were lost behind it, and 13 before.
        let filtered =
            FilteredCounts { rejected: 493, prescaled: 100, lost_behind: 3, ..FilteredCounts::default() };
        let found = of(291, filtered);
        let truth = 194.0 * (800.0 / 787.0);
        assert!((found.value.expect("known") - truth).abs() < 1e-9, "{found:?}");
        let relative = found.uncertainty.expect("known") / truth;
        assert!((relative - 1.0 / 194f64.sqrt()).abs() < 1e-9, "as of 194 counts: {relative}");
        assert_eq!(found.quality, Quality::Exact);
        // Nobody knows what it would have done with those that it did not decide.
        let undecided = FilteredCounts { undecided_kept: 91, rejected: 402, ..filtered };
        let bound = of(382, undecided);
        let truth = 194.0 * (800.0 / 787.0);
        assert!((bound.value.expect("a bound") - truth).abs() < 1e-9, "{bound:?}");
        assert_eq!(bound.quality, Quality::AtLeast);
        // With a prescale of 1, all that it rejects is recorded.
        let all = of(784, FilteredCounts { prescaled: 600, lost_behind: 3, ..FilteredCounts::default() });
        let truth = 187.0 * (800.0 / 787.0);
        assert!((all.value.expect("known") - truth).abs() < 1e-9, "{all:?}");
        // What the filter has kept is known, also where little of it could be recorded.
        let full = of(100, FilteredCounts { rejected: 493, prescaled: 100, lost_behind: 194, ..filtered });
        assert_eq!(full.value, Some(194.0));
    }

    #[test]
    fn without_a_report_of_the_trigger_everything_is_a_bound_and_the_live_time_unknown() {
        let lost = lost(false);
        let known = NormalisedEvents::of(counts(&lost, false));
        assert_eq!((known.triggers_offered, known.live_fraction, known.live_time_s), (None, None, None));
        assert_eq!((known.live_time_quality, known.real_time_s), (Quality::Unknown, None));
        assert_eq!(known.lost_before_building_quality, Quality::AtLeast);
        let corrected = known.loss_corrected;
        assert!(
            (corrected.value.expect("a bound") - 792.0).abs() < 1e-9,
            "numbers that nobody used are not lost"
        );
        assert_eq!((corrected.quality, known.rate_hz.quality), (Quality::AtLeast, Quality::AtLeast));
        assert!((known.rate_hz.value.expect("a bound") - 787.0 / 8.2).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_is_unknown() {
        let lost = lost(false);
        let replayed = EventCounts { live_at_most_s: None, ..counts(&lost, false) };
        assert_eq!(
            NormalisedEvents::of(replayed).rate_hz,
            Corrected::UNKNOWN,
            "a replay takes as long as it takes"
        );
        let before =
            EventCounts { trigger: Some(TriggerReport::default()), lost: None, ..counts(&lost, true) };
        let known = NormalisedEvents::of(before);
        assert_eq!((known.live_fraction, known.live_time_s, known.rate_hz), (None, None, Corrected::UNKNOWN));
        assert_eq!(
            (known.live_time_quality, known.loss_corrected.quality),
            (Quality::Unknown, Quality::AtLeast)
        );
    }
}
