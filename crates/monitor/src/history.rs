//! What the rates and the values of slow control were, and when something was lost: from before anybody looked.
//!
//! ```text
//!  LiveState ─ each second ─► ten minutes by second ─ mean of each ─► a day by minute
//!                        └──► losses that were counted since the second before
//! ```
//! Bounded: 600 + 1440 moments of a number per source and series, and `MOST_LOSSES` stretches with a loss.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::ledger::Loss;
use thalweg_data::{LossReason, Stage, Unit};

use crate::state::{LiveState, SourceKind, SourceState};

/// How far back seconds are kept, and minutes.
const SECONDS: usize = 600;
const MINUTES: usize = 1440;
/// Stretches with a loss that are kept, the latest.
const MOST_LOSSES: usize = 2048;
/// A moment is noted when so much time has passed since the one before.
const ALMOST_A_SECOND: f64 = 0.95;

/// What was counted of one kind in a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedLoss {
    /// The `[[source]]`; empty for losses of what all sources make together.
    pub source: String,
    /// Where it was lost.
    pub stage: Stage,
    /// Why.
    pub reason: LossReason,
    /// In what unit it is counted.
    pub unit: Unit,
    /// How many.
    pub count: u64,
}

/// A stretch of time in which something was lost.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LossThen {
    /// When it began, seconds before now.
    pub from_ago_seconds: f64,
    /// When it ended.
    pub until_ago_seconds: f64,
    /// What was lost.
    pub losses: Vec<CountedLoss>,
}

/// The rate of one source at each moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RateThen {
    /// The `[[source]]`.
    pub source: String,
    /// Hits or fragments per second at each moment; null where it was not there, or where that was not known.
    pub rates_hz: Vec<Option<f32>>,
}

/// A value of slow control at each moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SeriesThen {
    /// The `[[series]]`.
    pub series: String,
    /// Its unit; empty where it has none.
    pub unit: String,
    /// What it was at each moment; null where it was not known.
    pub values: Vec<Option<f64>>,
}

/// The rates of some time until now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Past {
    /// From one moment to the next: 1, or 60 where the rates are means.
    pub step_seconds: u32,
    /// When each moment was, seconds before now; the oldest first.
    pub ago_seconds: Vec<f64>,
    /// The sources, in the order in which they came.
    pub sources: Vec<RateThen>,
    /// The values of slow control, in the order in which they came.
    pub series: Vec<SeriesThen>,
    /// The part of the seconds before each moment that BUSY was raised, 0 to 1; null of moments of which nobody knew.
    pub busy: Vec<Option<f32>>,
    /// Stretches with a loss, the oldest first.
    pub losses: Vec<LossThen>,
}

/// The numbers of one moment; those of sources and series by their place, and not a number where one was not there.
#[derive(Clone, Debug, Default)]
struct Moment {
    at_seconds: f64,
    rates_hz: Vec<f32>,
    series: Vec<f64>,
    busy: f32,
}

/// Moments of one minute, added up.
#[derive(Debug, Default)]
struct Minute {
    begun_seconds: Option<f64>,
    moments: Vec<Moment>,
}

type LossKey = (String, Stage, LossReason, Unit);

/// A stretch with a loss, since the server began.
#[derive(Debug)]
struct Stretch {
    from_seconds: f64,
    until_seconds: f64,
    losses: Vec<CountedLoss>,
}

/// Notes states, and answers what was.
#[derive(Debug, Default)]
pub struct History {
    names: Vec<String>,
    /// Names and units.
    series: Vec<(String, String)>,
    seconds: VecDeque<Moment>,
    minutes: VecDeque<Moment>,
    minute: Minute,
    run: u64,
    counted: BTreeMap<LossKey, u64>,
    stretches: VecDeque<Stretch>,
}

impl History {
    /// Notes a state, `now_seconds` after any fixed time; called often, it keeps one a second.
    pub fn note(&mut self, now_seconds: f64, state: &LiveState) {
        let before = self.seconds.back().map(|latest| latest.at_seconds);
        if before.is_some_and(|before| now_seconds - before < ALMOST_A_SECOND) {
            return;
        }
        self.note_losses(before, now_seconds, state);
        let mut rates_hz = vec![f32::NAN; self.names.len()];
        for source in &state.sources {
            let place = self.names.iter().position(|name| *name == source.name).unwrap_or_else(|| {
                self.names.push(source.name.clone());
                rates_hz.push(f32::NAN);
                self.names.len() - 1
            });
            rates_hz[place] = rate_hz(source).map_or(f32::NAN, |rate_hz| rate_hz as f32);
        }
        let series = self.series_of(state);
        let busy = state.recent_busy_fraction.map_or(f32::NAN, |fraction| fraction as f32);
        let moment = Moment { at_seconds: now_seconds, rates_hz, series, busy };
        if let Some(mean) = self.minute.note(&moment) {
            push(&mut self.minutes, mean, MINUTES);
        }
        push(&mut self.seconds, moment, SECONDS);
    }

    /// The values of a state, by their place.
    fn series_of(&mut self, state: &LiveState) -> Vec<f64> {
        for (name, series) in &state.series {
            if !self.series.iter().any(|(known, _)| known == name) {
                self.series.push((name.clone(), series.unit.clone()));
            }
        }
        let value = |name: &str| state.series.get(name).and_then(|series| series.value);
        self.series.iter().map(|(name, _)| value(name).unwrap_or(f64::NAN)).collect()
    }

    /// What was lost since the second before. Of a run that was going on when this began, what was lost earlier has no time.
    fn note_losses(&mut self, before: Option<f64>, now_seconds: f64, state: &LiveState) {
        let is_another = state.run.number != self.run;
        if is_another {
            self.run = state.run.number;
            self.counted.clear();
        }
        let key = |loss: &Loss| (loss.source.clone(), loss.stage, loss.reason, loss.unit);
        let mut losses = Vec::new();
        for loss in state.losses.iter().filter(|loss| !loss.is_echo()) {
            let before = self.counted.insert(key(loss), loss.count).unwrap_or(0);
            if loss.count > before {
                let Loss { source, stage, reason, unit, .. } = loss;
                let count = loss.count - before;
                losses.push(CountedLoss {
                    source: source.clone(),
                    stage: *stage,
                    reason: *reason,
                    unit: *unit,
                    count,
                });
            }
        }
        if let Some(from_seconds) = before.filter(|_| !losses.is_empty()) {
            push(
                &mut self.stretches,
                Stretch { from_seconds, until_seconds: now_seconds, losses },
                MOST_LOSSES,
            );
        }
    }

    /// The last `seconds` until now: by second where these are kept, else by minute.
    pub fn past(&self, now_seconds: f64, seconds: f64) -> Past {
        let is_fine = seconds <= SECONDS as f64;
        let (moments, step_seconds) = if is_fine { (&self.seconds, 1) } else { (&self.minutes, 60) };
        let from = now_seconds - seconds;
        let moments: Vec<&Moment> = moments.iter().filter(|moment| moment.at_seconds >= from).collect();
        let known = |value: f32| value.is_finite().then_some(value);
        let rate = |place: usize| move |moment: &&Moment| moment.rates_hz.get(place).copied().and_then(known);
        let source = |(place, name): (usize, &String)| RateThen {
            source: name.clone(),
            rates_hz: moments.iter().map(rate(place)).collect(),
        };
        let value = |place: usize| {
            move |moment: &&Moment| moment.series.get(place).copied().filter(|value| value.is_finite())
        };
        let series = |(place, (name, unit)): (usize, &(String, String))| SeriesThen {
            series: name.clone(),
            unit: unit.clone(),
            values: moments.iter().map(value(place)).collect(),
        };
        let losses = self.stretches.iter().filter(|stretch| stretch.until_seconds >= from);
        Past {
            step_seconds,
            ago_seconds: moments.iter().map(|moment| now_seconds - moment.at_seconds).collect(),
            sources: self.names.iter().enumerate().map(source).collect(),
            series: self.series.iter().enumerate().map(series).collect(),
            busy: moments.iter().map(|moment| known(moment.busy)).collect(),
            losses: losses.map(|stretch| stretch.as_loss(now_seconds)).collect(),
        }
    }
}

impl Minute {
    /// Adds a moment; returns the mean of the minute before when it is over.
    fn note(&mut self, moment: &Moment) -> Option<Moment> {
        let begun = *self.begun_seconds.get_or_insert(moment.at_seconds);
        let mean = (moment.at_seconds - begun >= 60.0).then(|| {
            self.begun_seconds = Some(moment.at_seconds);
            mean(&std::mem::take(&mut self.moments))
        });
        self.moments.push(moment.clone());
        mean
    }
}

/// The mean of moments, each number over those that have it; at the time of the last.
fn mean(moments: &[Moment]) -> Moment {
    let most = |count: fn(&Moment) -> usize| moments.iter().map(count).max().unwrap_or(0);
    let of = |number: &dyn Fn(&Moment) -> Option<f64>| {
        let known = moments.iter().filter_map(number).filter(|value| value.is_finite());
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        if count > 0.0 { sum / count } else { f64::NAN }
    };
    let rate = |place: usize| of(&|moment| moment.rates_hz.get(place).copied().map(f64::from));
    let value = |place: usize| of(&|moment| moment.series.get(place).copied());
    Moment {
        at_seconds: moments.last().map_or(0.0, |moment| moment.at_seconds),
        rates_hz: (0..most(|moment| moment.rates_hz.len())).map(|place| rate(place) as f32).collect(),
        series: (0..most(|moment| moment.series.len())).map(value).collect(),
        busy: of(&|moment| Some(f64::from(moment.busy))) as f32,
    }
}

impl Stretch {
    fn as_loss(&self, now_seconds: f64) -> LossThen {
        LossThen {
            from_ago_seconds: now_seconds - self.from_seconds,
            until_ago_seconds: now_seconds - self.until_seconds,
            losses: self.losses.clone(),
        }
    }
}

fn rate_hz(source: &SourceState) -> Option<f64> {
    match source.kind {
        SourceKind::Hits => source.hit_rate_hz,
        SourceKind::Triggered => source.fragment_rate_hz,
    }
}

fn push<T>(into: &mut VecDeque<T>, item: T, most: usize) {
    if into.len() >= most {
        into.pop_front();
    }
    into.push_back(item);
}

#[cfg(test)]
mod tests {
    use thalweg_data::ledger::Quality;

    use super::*;
    use crate::state::{DeadTime, LiveRun, SeriesValue};

    fn state(run: u64, rate_hz: impl Into<Option<f64>>, lost: u64) -> LiveState {
        let source =
            SourceState { name: "left".to_owned(), hit_rate_hz: rate_hz.into(), ..SourceState::default() };
        let loss = Loss {
            source: "left".to_owned(),
            stage: Stage::Wire,
            reason: LossReason::DatagramGap,
            unit: Unit::Datagrams,
            count: lost,
            of: 1000,
            quality: Quality::Exact,
            advice: String::new(),
        };
        LiveState {
            run: LiveRun { number: run, ..LiveRun::default() },
            sources: vec![source],
            losses: vec![loss],
            ..LiveState::default()
        }
    }

    #[test]
    fn the_last_ten_minutes_are_there_by_second_and_the_day_by_minute() {
        let mut history = History::default();
        for half_second in 0..=4000 {
            let seconds = f64::from(half_second) / 2.0;
            history.note(seconds, &state(1, seconds, 0));
        }
        let past = history.past(2000.0, 600.0);
        assert_eq!((past.step_seconds, past.ago_seconds.len()), (1, 600));
        assert_eq!(past.sources[0].rates_hz.last(), Some(&Some(2000.0)));
        assert_eq!(past.ago_seconds.first(), Some(&599.0));
        let day = history.past(2000.0, 86_400.0);
        assert_eq!((day.step_seconds, day.ago_seconds.len()), (60, 33));
        assert_eq!(day.sources[0].rates_hz[0], Some(29.5), "the mean of its minute");
        assert!(day.busy.iter().all(Option::is_none), "nobody knew");
    }

    #[test]
    fn a_loss_stands_where_it_was_counted_and_a_new_run_counts_anew() {
        let mut history = History::default();
        // What was lost before anybody looked has no time.
        history.note(0.0, &state(7, 1.0, 40));
        history.note(1.0, &state(7, 1.0, 40));
        history.note(2.0, &state(7, 1.0, 45));
        history.note(3.0, &state(8, 1.0, 3));
        let past = history.past(3.0, 600.0);
        let losses: Vec<(f64, f64, u64)> = past
            .losses
            .iter()
            .map(|then| (then.from_ago_seconds, then.until_ago_seconds, then.losses[0].count))
            .collect();
        assert_eq!(losses, [(2.0, 1.0, 5), (1.0, 0.0, 3)]);
    }

    #[test]
    fn series_are_there_with_their_gaps_and_their_means() {
        let mut history = History::default();
        for second in 0..=61 {
            let value = (second % 2 == 0).then_some(f64::from(second));
            let mut with = state(1, 1.0, 0);
            with.series.insert("temperature".to_owned(), SeriesValue { value, unit: "°C".to_owned() });
            history.note(f64::from(second), &with);
        }
        let past = history.past(61.0, 600.0);
        let [SeriesThen { series, unit, values }] = &past.series[..] else { panic!("{:?}", past.series) };
        assert_eq!((&series[..], &unit[..]), ("temperature", "°C"));
        assert_eq!(values[58..], [Some(58.0), None, Some(60.0), None]);
        let day = history.past(61.0, 86_400.0);
        assert_eq!(day.series[0].values, [Some(29.0)], "the mean of those that there are");
    }

    #[test]
    fn busy_of_a_moment_is_that_of_the_seconds_before_it() {
        let mut history = History::default();
        for (second, recent_busy_fraction) in [(0, None), (1, Some(1.0)), (2, Some(0.0))] {
            let busy_time = DeadTime::of(5.0, 10.0);
            let moment = LiveState { busy_time, recent_busy_fraction, ..state(1, 1.0, 0) };
            history.note(f64::from(second), &moment);
        }
        assert_eq!(history.past(2.0, 600.0).busy, [None, Some(1.0), Some(0.0)]);
    }

    #[test]
    fn a_rate_that_is_not_known_is_a_gap_and_in_no_mean() {
        let mut history = History::default();
        for second in 0..=61 {
            history.note(f64::from(second), &state(1, (second % 2 == 0).then_some(8.0), 0));
        }
        assert_eq!(history.past(61.0, 600.0).sources[0].rates_hz[58..], [Some(8.0), None, Some(8.0), None]);
        assert_eq!(history.past(61.0, 86_400.0).sources[0].rates_hz, [Some(8.0)]);
    }

    #[test]
    fn a_source_that_comes_later_has_no_rates_before() {
        let mut history = History::default();
        history.note(0.0, &state(1, 5.0, 0));
        let mut two = state(1, 6.0, 0);
        two.sources.insert(
            0,
            SourceState { name: "right".to_owned(), hit_rate_hz: Some(0.0), ..SourceState::default() },
        );
        history.note(1.0, &two);
        let past = history.past(1.0, 600.0);
        let names: Vec<&str> = past.sources.iter().map(|each| &each.source[..]).collect();
        assert_eq!(names, ["left", "right"]);
        assert_eq!(past.sources[1].rates_hz, [None, Some(0.0)]);
    }
}
