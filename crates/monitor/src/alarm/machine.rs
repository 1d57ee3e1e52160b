//! State machine of one alarm, with a delay before it is raised and cleared.
//!
//! ```text
//!            bad                bad for `for_s`
//!   Well ──────────► Suspected ───────────────► Raised ──────────► Recovering
//!     ▲◄── well ────────┘                         ▲◄──── not well ────┘ │
//!     └───────────────────── well for `clear_for_s` ────────────────────┘
//! ```
//! Bad is beyond the threshold; well is behind it by the hysteresis. Between the two nothing changes.

/// Where an alarm stands; times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Machine {
    /// Nothing is wrong.
    #[default]
    Well,
    /// It is bad, not yet for long enough.
    Suspected {
        /// Since when.
        since: f64,
    },
    /// It stands.
    Raised {
        /// Since when.
        since: f64,
    },
    /// It stands, and is well again, not yet for long enough.
    Recovering {
        /// Raised since when.
        since: f64,
        /// Well since when.
        well_since: f64,
    },
}

/// The numbers of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub threshold: f64,
    pub is_bad_above: bool,
    pub hysteresis: f64,
    pub for_s: f64,
    pub clear_for_s: f64,
}

/// What a step has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Raised,
    Cleared,
}

impl Limits {
    fn is_bad(&self, value: f64) -> bool {
        if self.is_bad_above { value > self.threshold } else { value < self.threshold }
    }

    fn is_well(&self, value: f64) -> bool {
        match self.is_bad_above {
            true => value <= self.threshold - self.hysteresis,
            false => value >= self.threshold + self.hysteresis,
        }
    }
}

impl Machine {
    /// Since when the alarm stands.
    pub fn raised_since(self) -> Option<f64> {
        match self {
            Machine::Raised { since } | Machine::Recovering { since, .. } => Some(since),
            Machine::Well | Machine::Suspected { .. } => None,
        }
    }

    /// Samples at `now`, in seconds that never go back. A value that is no number changes nothing but a suspicion, which it ends.
    pub fn sample(&mut self, now: f64, value: f64, limits: &Limits) -> Option<Step> {
        let (bad, well) = (limits.is_bad(value), limits.is_well(value));
        *self = match *self {
            Machine::Well if bad => Machine::Suspected { since: now },
            Machine::Suspected { .. } if !bad => Machine::Well,
            Machine::Raised { since } if well => Machine::Recovering { since, well_since: now },
            Machine::Recovering { since, .. } if !well => Machine::Raised { since },
            same => same,
        };
        match *self {
            Machine::Suspected { since } if now - since >= limits.for_s => {
                *self = Machine::Raised { since: now };
                Some(Step::Raised)
            }
            Machine::Recovering { well_since, .. } if now - well_since >= limits.clear_for_s => {
                *self = Machine::Well;
                Some(Step::Cleared)
            }
            _ => None,
        }
    }

    /// There is nothing to sample any more.
    pub fn forget(&mut self) -> Option<Step> {
        let was_raised = self.raised_since().is_some();
        *self = Machine::Well;
        was_raised.then_some(Step::Cleared)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits =
        Limits { threshold: 10.0, is_bad_above: true, hysteresis: 2.0, for_s: 3.0, clear_for_s: 5.0 };

    /// Steps of a run of values, one a second.
    fn steps(limits: &Limits, values: &[f64]) -> Vec<(usize, Step)> {
        let mut machine = Machine::default();
        let sampled = |(now, value): (usize, &f64)| Some((now, machine.sample(now as f64, *value, limits)?));
        values.iter().enumerate().filter_map(sampled).collect()
    }

    #[test]
    fn an_alarm_has_patience_both_ways() {
        let mut values = vec![0.0, 11.0, 11.0, 5.0, 11.0, 11.0, 11.0, 11.0, 9.0, 9.0];
        assert_eq!(steps(&LIMITS, &values), [(7, Step::Raised)]);
        values.extend([8.0; 4]);
        values.extend([9.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
        assert_eq!(steps(&LIMITS, &values), [(7, Step::Raised), (20, Step::Cleared)]);
    }

    #[test]
    fn without_patience_it_is_raised_and_cleared_at_once() {
        let limits =
            Limits { hysteresis: 0.0, for_s: 0.0, clear_for_s: 0.0, is_bad_above: false, threshold: 1.0 };
        assert_eq!(steps(&limits, &[1.0, 0.5, 1.0]), [(1, Step::Raised), (2, Step::Cleared)]);
    }

    #[test]
    fn what_is_no_number_ends_no_alarm() {
        let values = [11.0, 11.0, 11.0, 11.0, f64::NAN, f64::NAN];
        assert_eq!(steps(&LIMITS, &values), [(3, Step::Raised)]);
        assert_eq!(steps(&LIMITS, &[11.0, 11.0, f64::NAN, 11.0, 11.0]), []);
    }

    proptest! {
        #[test]
        fn raised_and_cleared_take_turns(values in proptest::collection::vec(prop_oneof![0.0..20.0f64, Just(f64::NAN)], 0..200)) {
            let steps = steps(&LIMITS, &values);
            for (index, (now, step)) in steps.iter().enumerate() {
                prop_assert_eq!(*step, if index % 2 == 0 { Step::Raised } else { Step::Cleared });
                let patience = if index % 2 == 0 { 3 } else { 5 };
                let agrees = |value: &f64| if index % 2 == 0 { *value > 10.0 } else { *value <= 8.0 };
                prop_assert!(values[now - patience..=*now].iter().all(agrees));
            }
        }
    }
}
