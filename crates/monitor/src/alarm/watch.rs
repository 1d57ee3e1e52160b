//! All alarms of a run: each rule, for each of its subjects.
//!
//! ```text
//!  state ─► values of each rule ─► silence ─► Machine by subject ─► Change
//! ```

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::RunState;

use super::machine::{Limits, Machine, Step};
use super::quantity::{Quantity, values};
use super::rule::{AlarmError, Level, Rule};
use crate::state::LiveState;

/// Subjects of one rule, at most; more are not watched.
const SUBJECTS: usize = 4096;

/// One alarm as it stands, for the state.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// The source, clock, board or destination that it is about; empty when it is about the whole.
    pub subject: String,
    /// How bad it is.
    pub level: Level,
    /// Whether it stands.
    pub active: bool,
    /// When it was raised, UTC; only of one that stands.
    pub since: Option<String>,
    /// The value now, if there is one.
    pub value: Option<f64>,
    /// Beyond which it is bad.
    pub threshold: f64,
    /// What to do.
    pub text: String,
    /// When somebody said that it is seen, UTC; only of one that stands.
    pub acknowledged: Option<String>,
}

/// An alarm that was raised or cleared just now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Raised, else cleared.
    pub raised: bool,
    /// When, UTC.
    pub time: String,
    /// What was watched.
    pub quantity: Quantity,
    /// The threshold is an upper one.
    pub above: bool,
    /// The alarm behind it.
    #[serde(flatten)]
    pub alarm: Alarm,
}

/// A number with three significant digits; more say nothing about a value that moves.
fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits_before_point = value.abs().log10().floor() as i32 + 1;
    // Whole powers of ten are exact, and so the rounded number is as short as it can be.
    let rounded = match 3 - digits_before_point {
        behind if behind >= 0 => (value * 10_f64.powi(behind)).round() / 10_f64.powi(behind),
        before => (value / 10_f64.powi(-before)).round() * 10_f64.powi(-before),
    };
    rounded.to_string()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { alarm, .. } = self;
        let quantity = serde_json::to_value(self.quantity).unwrap_or_default();
        let quantity = quantity.as_str().unwrap_or_default();
        write!(f, "{} alarm \"{}\"", if self.raised { "raised" } else { "cleared" }, alarm.name)?;
        if !alarm.subject.is_empty() {
            write!(f, " of {}", alarm.subject)?;
        }
        match alarm.value {
            Some(value) => write!(f, ": {quantity} is {}", three_digits(value))?,
            None => write!(f, ": {quantity} is not watched now")?,
        }
        write!(f, ", the limit is {} {}", if self.above { "above" } else { "below" }, alarm.threshold)?;
        if !alarm.text.is_empty() {
            write!(f, "; {}", alarm.text)?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default)]
struct Subject {
    machine: Machine,
    value: Option<f64>,
    raised_at: Option<String>,
    /// When there was last anything.
    active_at: Option<f64>,
}

/// The alarms of a run.
#[derive(Clone, Debug)]
pub struct Alarms {
    rules: Vec<(Rule, Limits)>,
    /// By rule.
    subjects: Vec<BTreeMap<String, Subject>>,
}

impl Alarms {
    /// Alarms of these rules.
    ///
    /// # Errors
    /// When a rule is invalid, or two have one name.
    pub fn new(rules: &[Rule]) -> Result<Alarms, AlarmError> {
        for (index, rule) in rules.iter().enumerate() {
            rule.check()?;
            if rules[..index].iter().any(|other| other.name == rule.name) {
                let message = "there are two of this name; names are unique".to_owned();
                return Err(AlarmError::Rule { name: rule.name.clone(), message });
            }
        }
        let limits = |rule: &Rule| {
            let (threshold, is_bad_above) = rule.threshold();
            let Rule { hysteresis, for_s, clear_for_s, .. } = *rule;
            Limits { threshold, is_bad_above, hysteresis, for_s, clear_for_s }
        };
        let subjects = vec![BTreeMap::new(); rules.len()];
        Ok(Alarms { rules: rules.iter().map(|rule| (rule.clone(), limits(rule))).collect(), subjects })
    }

    /// Samples the state at `now_s`, seconds of a clock that never goes back; `utc` is what a wall clock says, as
    /// `2026-11-21T02:18:04.123Z`. Gives what was raised and cleared by it.
    pub fn sample(&mut self, now_s: f64, utc: &str, state: &LiveState) -> Vec<Change> {
        let is_running = state.state == RunState::Running;
        let mut changes = Vec::new();
        for ((rule, limits), subjects) in self.rules.iter().zip(&mut self.subjects) {
            let applies = is_running || !rule.quantity.is_of_a_running_run();
            let seen = if applies { values(rule, state) } else { Vec::new() };
            for (name, _) in &seen {
                if subjects.len() < SUBJECTS && !subjects.contains_key(name) {
                    subjects.insert(name.clone(), Subject::default());
                }
            }
            let mut seen: BTreeMap<String, Option<f64>> = seen.into_iter().collect();
            for (name, subject) in subjects {
                let step = match applies {
                    true => subject.sample(rule.quantity, now_s, seen.remove(name).flatten(), limits),
                    false => subject.forget(),
                };
                let Some(step) = step else { continue };
                subject.raised_at = (step == Step::Raised).then(|| utc.to_owned());
                changes.push(Change {
                    raised: step == Step::Raised,
                    time: utc.to_owned(),
                    quantity: rule.quantity,
                    above: limits.is_bad_above,
                    alarm: alarm(rule, limits, name, subject),
                });
            }
        }
        changes
    }

    /// Every alarm as it stands.
    pub fn standing(&self) -> Vec<Alarm> {
        let of_rule = |((rule, limits), subjects): (&(Rule, Limits), &BTreeMap<String, Subject>)| {
            subjects.iter().map(|(name, subject)| alarm(rule, limits, name, subject)).collect::<Vec<_>>()
        };
        self.rules.iter().zip(&self.subjects).flat_map(of_rule).collect()
    }
}

fn alarm(rule: &Rule, limits: &Limits, name: &str, subject: &Subject) -> Alarm {
    Alarm {
        name: rule.name.clone(),
        subject: name.to_owned(),
        level: rule.level,
        active: subject.machine.raised_since().is_some(),
        since: subject.raised_at.clone(),
        value: subject.value,
        threshold: limits.threshold,
        text: rule.text.clone(),
        acknowledged: None,
    }
}

impl Subject {
    fn sample(
        &mut self,
        quantity: Quantity,
        now_s: f64,
        value: Option<f64>,
        limits: &Limits,
    ) -> Option<Step> {
        self.value = match value.filter(|value| !value.is_nan()) {
            Some(rate) if quantity.is_a_silence() => Some(self.silence(now_s, rate)),
            other => other,
        };
        self.machine.sample(now_s, self.value.unwrap_or(f64::NAN), limits)
    }

    /// How long a rate has been 0, seconds.
    fn silence(&mut self, now_s: f64, rate: f64) -> f64 {
        let active_at = self.active_at.get_or_insert(now_s);
        if rate > 0.0 {
            *active_at = now_s;
        }
        now_s - *active_at
    }

    /// The run is over: nothing is watched.
    fn forget(&mut self) -> Option<Step> {
        let step = self.machine.forget();
        *self = Subject::default();
        step
    }
}

#[cfg(test)]
mod tests {
    use thalweg_analysis::clocks::ClockState;

    use super::*;
    use crate::state::{
        CoincidenceState, Completeness, DeadTime, EventState, SeriesValue, SourceState, TriggerState,
    };

    fn alarms(rules: &str) -> Result<Alarms, AlarmError> {
        let rules: Vec<Rule> = serde_json::from_str(rules).expect("rules");
        Alarms::new(&rules)
    }

    /// What changes in a run of states, one a second: when, raised, subject.
    fn changes(
        alarms: &mut Alarms,
        states: impl IntoIterator<Item = LiveState>,
    ) -> Vec<(usize, bool, String)> {
        let mut found = Vec::new();
        for (now, state) in states.into_iter().enumerate() {
            let changes = alarms.sample(now as f64, "2026-11-21T02:18:04Z", &state);
            found.extend(changes.into_iter().map(|change| (now, change.raised, change.alarm.subject)));
        }
        found
    }

    fn running(sources: impl Into<Vec<SourceState>>) -> LiveState {
        let sources = sources.into();
        LiveState { state: RunState::Running, sources, ..LiveState::default() }
    }

    fn source(name: &str) -> SourceState {
        SourceState { name: name.to_owned(), ..SourceState::default() }
    }

    #[test]
    fn each_source_is_watched_by_itself() {
        let mut alarms = alarms(
            r#"[{"name": "silent", "quantity": "silent_s", "source": "*", "above": 2, "level": "error", "text": "see the board"}]"#,
        )
        .expect("meant");
        let state = |rates: [f64; 2]| {
            let of = |name, rate_hz| SourceState { byte_rate_hz: Some(rate_hz), ..source(name) };
            running([of("a", rates[0]), of("b", rates[1])])
        };
        let rates = [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 9.0]];
        let found = changes(&mut alarms, rates.map(state));
        assert_eq!(found, [(3, true, "b".to_owned()), (5, false, "b".to_owned())]);
        let standing = alarms.standing();
        assert_eq!(standing.len(), 2);
        assert!(
            standing
                .iter()
                .all(|alarm| !alarm.active && alarm.value == Some(0.0) && alarm.text == "see the board")
        );
    }

    #[test]
    fn a_rate_is_missing_until_there_is_a_window_that_it_is_over() {
        for (quantity, of) in [
            ("hit_rate_hz", r#", "source": "*""#),
            ("hit_rate_hz", r#", "source": "a""#),
            ("hit_rate_hz", ""),
            ("ordered_rate_hz", ""),
            ("recorded_byte_rate_hz", ""),
        ] {
            let rule = format!(r#"[{{"name": "low", "quantity": "{quantity}", "below": 10{of}}}]"#);
            let mut alarms = alarms(&rule).expect("meant");
            let started = running([source("a")]);
            let known = LiveState {
                ordered_rate_hz: Some(0.0),
                byte_rate_hz: Some(0.0),
                ..running([SourceState { hit_rate_hz: Some(0.0), ..source("a") }])
            };
            let states = [started.clone(), started, known];
            let raised: Vec<usize> = changes(&mut alarms, states).into_iter().map(|(now, ..)| now).collect();
            assert_eq!(raised, [2], "{quantity}{of}");
        }
    }

    #[test]
    fn lost_coincidences_are_losses_of_the_whole() {
        let rules = r#"[{"name": "rate", "quantity": "lost_rate_hz", "above": 2},
                        {"name": "count", "quantity": "lost", "above": 0},
                        {"name": "of a source", "quantity": "lost", "above": 0, "source": "*"}]"#;
        let mut alarms = alarms(rules).expect("meant");
        let coincidences =
            CoincidenceState { lost: 7, lost_rate_hz: Some(3.0), ..CoincidenceState::default() };
        let state = LiveState { coincidences: Some(coincidences), ..running([source("a")]) };
        let raised = alarms.sample(0.0, "now", &state);
        let raised: Vec<&str> = raised.iter().map(|change| change.alarm.name.as_str()).collect();
        assert_eq!(raised, ["rate", "count"]);
    }

    #[test]
    fn losses_of_all_sources_are_one_rate() {
        let rule = r#"[{"name": "loss", "quantity": "lost_rate_hz", "above": 2}]"#;
        let mut alarms = alarms(rule).expect("meant");
        let state = |rate_hz| {
            let of = |name| SourceState { lost_rate_hz: Some(rate_hz), ..source(name) };
            running([of("a"), of("b")])
        };
        let found = changes(&mut alarms, [0.0, 1.0, 1.5, 1.5, 0.0].map(state));
        assert_eq!(found, [(2, true, String::new()), (4, false, String::new())]);
    }

    #[test]
    fn a_run_that_ends_clears_what_was_of_it() {
        let rules = r#"[{"name": "slow", "quantity": "hit_rate_hz", "below": 10},
                        {"name": "full", "quantity": "disk_left_s", "below": 60},
                        {"name": "hot", "quantity": "series", "series": "temperature", "above": 40, "hysteresis": 5}]"#;
        let mut alarms = alarms(rules).expect("meant");
        let state = |state, value| LiveState {
            state,
            disk_left_seconds: Some(5.0),
            series: BTreeMap::from([(
                "temperature".to_owned(),
                SeriesValue { value: Some(value), unit: String::new() },
            )]),
            ..running([SourceState { hit_rate_hz: Some(1.0), ..source("a") }])
        };
        let (running, stopped) = (RunState::Running, RunState::Stopped);
        let states = [state(running, 41.0), state(running, 39.0), state(stopped, 39.0), state(stopped, 30.0)];
        let mut named = Vec::new();
        for (now, state) in states.iter().enumerate() {
            let changes = alarms.sample(now as f64, "t", state);
            named.extend(changes.into_iter().map(|change| (now, change.raised, change.alarm.name)));
        }
        let of = |now: usize, raised: bool, name: &str| (now, raised, name.to_owned());
        let expected = [
            of(0, true, "slow"),
            of(0, true, "full"),
            of(0, true, "hot"),
            of(2, false, "slow"),
            of(3, false, "hot"),
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn clocks_and_boards_are_found_in_the_state() {
        let rules = r#"[{"name": "clock", "quantity": "clock_unlocked", "source": "*", "above": 0, "for_s": 1},
                        {"name": "board", "quantity": "completeness", "below": 0.99},
                        {"name": "busy", "quantity": "busy_share", "above": 0.1}]"#;
        let mut alarms = alarms(rules).expect("meant");
        let clock =
            |name: &str, locked| ClockState { source: name.to_owned(), locked, ..ClockState::default() };
        let board = Completeness { name: "x".to_owned(), expected: 100, built: 50, missing: 50 };
        let state = || LiveState {
            clocks: vec![clock("a", false), clock("b", true)],
            recent_busy_fraction: Some(0.2),
            events: Some(EventState { completeness: vec![board.clone()], ..EventState::default() }),
            ..running([])
        };
        let found = changes(&mut alarms, [state(), state()]);
        assert_eq!(found, [(0, true, String::new()), (0, true, String::new()), (1, true, "a".to_owned())]);
    }

    #[test]
    fn a_pause_is_no_dead_time_of_the_seconds_behind_it() {
        let rules = r#"[{"name": "busy", "quantity": "busy_share", "above": 0.3},
                        {"name": "dead", "quantity": "dead_time_fraction", "above": 0.3}]"#;
        let mut alarms = alarms(rules).expect("meant");
        let state = |recent| LiveState {
            busy_time: DeadTime::of(5.0, 10.0),
            recent_busy_fraction: Some(recent),
            trigger: Some(TriggerState {
                dead_time_fraction: Some(0.5),
                recent_dead_time_fraction: Some(recent),
                ..TriggerState::default()
            }),
            ..running([])
        };
        let found = changes(&mut alarms, [0.0, 0.4, 0.0].map(state));
        let of_both = |now, raised| [(now, raised, String::new()), (now, raised, String::new())];
        assert_eq!(found, [of_both(1, true), of_both(2, false)].concat());
    }

    #[test]
    fn invalid_rules_are_refused() {
        let message = |rule: &str| alarms(&format!("[{rule}]")).expect_err("refused").to_string();
        assert!(message(r#"{"name": "x", "quantity": "lost"}"#).contains("above"));
        assert!(
            message(r#"{"name": "x", "quantity": "lost", "above": 1, "below": 2}"#).contains("one of them")
        );
        assert!(message(r#"{"name": "x", "quantity": "series", "above": 1}"#).contains("series"));
        assert!(
            message(r#"{"name": "x", "quantity": "disk_left_s", "source": "a", "below": 1}"#)
                .contains("source")
        );
        assert!(message(r#"{"name": "x", "quantity": "lost", "above": 1, "for_s": -1}"#).contains("for_s"));
        assert!(message(r#"{"name": "", "quantity": "lost", "above": 1}"#).contains("name"));
        let twice =
            r#"{"name": "x", "quantity": "lost", "above": 1}, {"name": "x", "quantity": "lost", "above": 2}"#;
        assert!(message(twice).contains("unique"));
        // A place in the state could be misspelt and then never raised anything.
        let place = message(r#"{"name": "x", "quantity": "series", "series": "/lots", "above": 1}"#);
        assert!(place.contains("hit_rate_hz, fragment_rate_hz"), "{place}");
        let unknown = serde_json::from_str::<Rule>(r#"{"name": "x", "quantity": "lots", "above": 1}"#);
        let unknown = unknown.expect_err("refused").to_string();
        assert!(unknown.contains("lots") && unknown.contains("`hit_rate_hz`"), "{unknown}");
    }

    #[test]
    fn values_have_three_digits() {
        let rounded = [0.123_456, 12_345.6, 999.96, -0.5, 0.0, 7.0].map(three_digits);
        assert_eq!(rounded, ["0.123", "12300", "1000", "-0.5", "0", "7"]);
    }

    #[test]
    fn a_change_reads_as_a_sentence() {
        let rule = r#"[{"name": "loss", "quantity": "ring_fill", "source": "*", "above": 0.9, "text": "record less"}]"#;
        let state = running([SourceState { ring_fill: 0.95, ..source("board0") }]);
        let changes = alarms(rule).expect("meant").sample(0.0, "t", &state);
        let expected =
            "raised alarm \"loss\" of board0: ring_fill is 0.95, the limit is above 0.9; record less";
        assert_eq!(changes[0].to_string(), expected);
        assert_eq!(serde_json::to_value(&changes[0]).expect("plain data")["subject"], "board0");
    }
}
