//! All alarms of a run: each rule, for each of its subjects.
//!
//! ```text
//!  state ─► values of each rule ─► growth, silence ─► Machine by subject ─► Change
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::machine::{Limits, Machine, Step};
use super::quantity::{Quantity, values};
use super::rule::{AlarmError, Level, Rule};

/// Subjects of one rule, at most; more are not looked at.
const SUBJECTS: usize = 4096;
/// Growth is taken over at least so many seconds: between two looks a total may stand still and jump.
const GROWTH_S: f64 = 1.0;

/// One alarm as it stands, for the state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// The source, clock or board that it is about; empty when it is about the whole.
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
}

/// An alarm that was raised or cleared just now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Raised, else cleared.
    pub raised: bool,
    /// When, UTC.
    pub time: String,
    /// What was looked at.
    pub quantity: Quantity,
    /// The threshold is an upper one.
    pub above: bool,
    /// The alarm behind it.
    #[serde(flatten)]
    pub alarm: Alarm,
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
            Some(value) => write!(f, ": {quantity} is {value}")?,
            None => write!(f, ": {quantity} is not looked at now")?,
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
    /// A total, and when it was so.
    total: Option<(f64, f64)>,
    /// The growth that was seen last.
    growth: Option<f64>,
    /// When there was last anything.
    heard_at: Option<f64>,
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
    /// When a rule cannot be meant, or two have one name.
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

    /// Takes a look at the state at `now_s`, seconds of a clock that never goes back; `utc` is what a wall clock says, as
    /// `2026-11-21T02:18:04.123Z`. Gives what was raised and cleared by it.
    pub fn look(&mut self, now_s: f64, utc: &str, state: &Value) -> Vec<Change> {
        let is_running = state["state"].as_str() == Some("running");
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
                    true => subject.look(rule.quantity, now_s, seen.remove(name).flatten(), limits),
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
    }
}

impl Subject {
    fn look(&mut self, quantity: Quantity, now_s: f64, value: Option<f64>, limits: &Limits) -> Option<Step> {
        self.value = match value.filter(|value| !value.is_nan()) {
            Some(total) if quantity.is_a_growth() => self.growth(now_s, total),
            Some(rate) if quantity.is_a_silence() => Some(self.silence(now_s, rate)),
            other => other,
        };
        self.machine.look(now_s, self.value.unwrap_or(f64::NAN), limits)
    }

    /// Growth per second of a total.
    fn growth(&mut self, now_s: f64, total: f64) -> Option<f64> {
        match self.total {
            Some((then_s, before)) if total >= before => {
                if now_s - then_s >= GROWTH_S {
                    self.growth = Some((total - before) / (now_s - then_s));
                    self.total = Some((now_s, total));
                }
            }
            // The first look, or a new run.
            _ => self.total = Some((now_s, total)),
        }
        self.growth
    }

    /// How long a rate has been 0, seconds.
    fn silence(&mut self, now_s: f64, rate: f64) -> f64 {
        let heard_at = self.heard_at.get_or_insert(now_s);
        if rate > 0.0 {
            *heard_at = now_s;
        }
        now_s - *heard_at
    }

    /// The run is over: nothing is looked at.
    fn forget(&mut self) -> Option<Step> {
        let step = self.machine.forget();
        *self = Subject::default();
        step
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn alarms(rules: &str) -> Result<Alarms, AlarmError> {
        let rules: Vec<Rule> = serde_json::from_str(rules).expect("rules");
        Alarms::new(&rules)
    }

    /// What changes in a run of states, one a second: when, raised, subject.
    fn changes(alarms: &mut Alarms, states: impl IntoIterator<Item = Value>) -> Vec<(usize, bool, String)> {
        let mut found = Vec::new();
        for (now, state) in states.into_iter().enumerate() {
            let changes = alarms.look(now as f64, "2026-11-21T02:18:04Z", &state);
            found.extend(changes.into_iter().map(|change| (now, change.raised, change.alarm.subject)));
        }
        found
    }

    fn running(sources: Value) -> Value {
        json!({ "state": "running", "sources": sources })
    }

    #[test]
    fn each_source_is_looked_at_by_itself() {
        let mut alarms = alarms(
            r#"[{"name": "silent", "quantity": "silent_s", "source": "*", "above": 2, "level": "error", "text": "see the board"}]"#,
        )
        .expect("meant");
        let state = |rates: [f64; 2]| {
            running(
                json!([{ "name": "a", "byte_rate_hz": rates[0] }, { "name": "b", "byte_rate_hz": rates[1] }]),
            )
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
    fn losses_are_a_growth_and_a_new_run_is_none() {
        let rule = r#"[{"name": "loss", "quantity": "lost_rate_hz", "above": 0}]"#;
        let mut alarms = alarms(rule).expect("meant");
        let totals = [100, 100, 100, 105, 105, 3, 3, 4];
        let found = changes(&mut alarms, totals.map(|lost| running(json!([{ "name": "a", "lost": lost }]))));
        assert_eq!(found, [(3, true, String::new()), (4, false, String::new()), (7, true, String::new())]);
    }

    #[test]
    fn a_run_that_ends_clears_what_was_of_it() {
        let rules = r#"[{"name": "slow", "quantity": "hit_rate_hz", "below": 10},
                        {"name": "full", "quantity": "disk_left_s", "below": 60},
                        {"name": "hot", "quantity": "series", "series": "temperature", "above": 40, "hysteresis": 5},
                        {"name": "place", "quantity": "series", "series": "/system/load", "above": 3}]"#;
        let mut alarms = alarms(rules).expect("meant");
        let state = |word: &str, hot: f64| {
            json!({ "state": word, "sources": [{ "name": "a", "hit_rate_hz": 1.0 }], "disk_left_seconds": 5.0,
                    "series": { "temperature": { "value": hot } }, "system": { "load": 4 } })
        };
        let states =
            [state("running", 41.0), state("running", 39.0), state("stopped", 39.0), state("stopped", 30.0)];
        let mut named = Vec::new();
        for (now, state) in states.iter().enumerate() {
            let changes = alarms.look(now as f64, "t", state);
            named.extend(changes.into_iter().map(|change| (now, change.raised, change.alarm.name)));
        }
        let of = |now: usize, raised: bool, name: &str| (now, raised, name.to_owned());
        let expected = [
            of(0, true, "slow"),
            of(0, true, "full"),
            of(0, true, "hot"),
            of(0, true, "place"),
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
        let state = || {
            json!({ "state": "running", "clocks": [{ "source": "a", "locked": false }, { "source": "b", "locked": true }],
                    "busy_time": { "fraction": 0.2 },
                    "events": { "completeness": [{ "name": "x", "expected": 100, "built": 50 }] } })
        };
        let found = changes(&mut alarms, [state(), state()]);
        assert_eq!(found, [(0, true, String::new()), (0, true, String::new()), (1, true, "a".to_owned())]);
    }

    #[test]
    fn rules_that_cannot_be_meant_are_refused() {
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
        assert!(serde_json::from_str::<Rule>(r#"{"name": "x", "quantity": "lots", "above": 1}"#).is_err());
    }

    #[test]
    fn a_change_reads_as_a_sentence() {
        let rule = r#"[{"name": "loss", "quantity": "ring_fill", "source": "*", "above": 0.9, "text": "record less"}]"#;
        let state = running(json!([{ "name": "board0", "ring_fill": 0.95 }]));
        let changes = alarms(rule).expect("meant").look(0.0, "t", &state);
        let expected =
            "raised alarm \"loss\" of board0: ring_fill is 0.95, the limit is above 0.9; record less";
        assert_eq!(changes[0].to_string(), expected);
        assert_eq!(serde_json::to_value(&changes[0]).expect("plain data")["subject"], "board0");
    }
}
