//! Throughput, as RFC 2544 (section 26.1) has it: the highest rate without a loss, found by halving, and held.
//!
//! ```text
//!  rate of events ─► steady: sources one behind the other, so that bursts play no part ─► lossless | lossy ─► halve … ─► bounds
//!                                                                        lower bound ─► held for longer ─► 0 of M lost: < 3/M at 95 %
//! ```
//! Where the held rate loses, lower ones are held, in growing steps, and then those between. A buffer hides an overload until it is full: in `trial_s` seconds an overload of less than depth ÷ (rate × `trial_s`) loses nothing.
//! Bounds are named as in MLRsearch (draft-ietf-bmwg-mlrsearch): what was lossless is a lower bound, what was not an upper one.

use schemars::JsonSchema;
use serde::Serialize;

use crate::rig::{FlowControl, Rig, RigError};
use crate::switch::search::TrialOutcome;
use crate::trial::{Judged, Schedule};

/// Bounds are close enough when they differ by this part.
const RESOLUTION: f64 = 0.002;
/// The search goes from this part of what the output is said to carry to this one.
const SEARCHED: (f64, f64) = (0.5, 1.1);
/// Attempts at a rate that was not sent as asked.
const MOST_INVALID: u32 = 5;

/// One trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RatePoint {
    /// Events per second, of which each source sends one datagram.
    pub rate_hz: f64,
    /// `lossless`, `lossy` or `invalid`.
    pub outcome: &'static str,
    /// Of an invalid one, why.
    pub why: String,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// How long it was sent, s.
    pub seconds: f64,
}

impl RatePoint {
    fn of(rate_hz: f64, seconds: f64, judged: &Judged) -> RatePoint {
        let (outcome, why) = judged.outcome_text();
        RatePoint { rate_hz, outcome, why, sent: judged.sent, lost: judged.lost(), seconds }
    }
}

/// What comes out of what goes in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoadPoint {
    /// Sources that sent, one behind the other.
    pub sources: u32,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// What was sent, bits per second in the accounting of the device.
    pub offered_bits_per_s: f64,
    /// What came, from the first datagram to the last, bits per second; null where fewer than two came.
    pub carried_bits_per_s: Option<f64>,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// `lossless`, `lossy` or `invalid`.
    pub outcome: &'static str,
    /// Of an invalid one, why.
    pub why: String,
}

/// Offers these fractions of what the output is said to carry, each for `trial_s`. `seen` is given each as it is known. Where PAUSE made
/// somebody wait, none of them counts in the end.
///
/// # Errors
/// When the device, a source or the receiver is gone.
pub fn linearity(
    rig: &mut Rig<'_>,
    fractions: &[f64],
    trial_s: f64,
    seen: &mut dyn FnMut(&LoadPoint),
) -> Result<Vec<LoadPoint>, RigError> {
    let mut points = Vec::new();
    for fraction in fractions {
        let rate_hz = fraction * rig.rate_bytes_per_s() / rig.event_bytes();
        let schedule = Schedule::steady(rate_hz, trial_s);
        let judged = rig.send(&schedule)?;
        let frame_bits = 8.0 * f64::from(rig.frame_bytes());
        let (outcome, why) = judged.outcome_text();
        let came = judged.received.saturating_sub(1) as f64 * frame_bits / judged.span_s;
        let point = LoadPoint {
            sources: rig.active_sources(),
            datagram_bytes: rig.frame().payload_bytes(),
            offered_bits_per_s: judged.sent as f64 * frame_bits / schedule.lasts_s(),
            carried_bits_per_s: (judged.span_s > 0.0).then_some(came),
            sent: judged.sent,
            lost: judged.lost(),
            outcome,
            why,
        };
        seen(&point);
        points.push(point);
    }
    if let Some(why) = rig.flow_control()?.fault() {
        points.iter_mut().for_each(|point| (point.outcome, point.why) = ("invalid", why.clone()));
    }
    Ok(points)
}

/// What was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Throughput {
    /// Sources.
    pub sources: u32,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// What a frame takes in the accounting of the device, bytes.
    pub frame_bytes: u32,
    /// The rate of events that the output is said to carry, Hz.
    pub stated_rate_hz: f64,
    /// The highest rate that lost nothing, Hz; null where each did.
    pub lower_bound_hz: Option<f64>,
    /// The lowest above it that lost something, Hz; null where none did.
    pub upper_bound_hz: Option<f64>,
    /// The lower bound in bits per second, in the accounting of the device.
    pub lower_bound_bits_per_s: Option<f64>,
    /// The lower bound as a fraction of what the output is said to carry.
    pub of_line_rate: Option<f64>,
    /// Of a testbed: an overload of less than this fraction of the rate fills no buffer of its depth within a trial.
    pub hidden_overload: Option<f64>,
    /// The lower bound, held.
    pub held: Option<RatePoint>,
    /// Where nothing was lost while it was held: with a confidence of 95 % fewer than this part is.
    pub loss_limit: Option<f64>,
    /// Whether PAUSE made somebody wait; where it did, there are no bounds.
    pub flow_control: FlowControl,
    /// Every trial.
    pub points: Vec<RatePoint>,
    /// Why there is no result; empty where there is one.
    pub remark: String,
}

/// Searches, with trials of `trial_s`, and holds what was found for `hold_s`. `seen` is given each point as it is made.
///
/// # Errors
/// When the device or the receiver is gone.
pub fn search(
    rig: &mut Rig<'_>,
    (trial_s, hold_s): (f64, f64),
    seen: &mut dyn FnMut(&RatePoint),
) -> Result<Throughput, RigError> {
    let stated_rate_hz = rig.rate_bytes_per_s() / rig.event_bytes();
    let mut bounds = Bounds::new(SEARCHED.0 * stated_rate_hz, SEARCHED.1 * stated_rate_hz);
    let mut points: Vec<RatePoint> = Vec::new();
    let mut refused = None;
    while let Some(rate_hz) = bounds.next().filter(|_| refused.is_none()) {
        let judged = steady(rig, rate_hz, trial_s, &mut points, seen)?;
        match judged.outcome {
            TrialOutcome::Lossless => bounds.lossless(rate_hz),
            TrialOutcome::Lossy => bounds.lossy(rate_hz),
            TrialOutcome::Invalid(why) => refused = Some(why),
        }
    }
    let mut held = None;
    while let Some(rate_hz) = bounds.held_next().filter(|_| refused.is_none() && hold_s > 0.0) {
        let judged = steady(rig, rate_hz, hold_s, &mut points, seen)?;
        match judged.outcome {
            TrialOutcome::Lossless => {
                held = Some(RatePoint::of(rate_hz, hold_s, &judged));
                bounds.held(rate_hz);
            }
            TrialOutcome::Lossy => bounds.not_held(rate_hz),
            TrialOutcome::Invalid(why) => refused = Some(why),
        }
    }
    let flow_control = rig.flow_control()?;
    if let Some(why) = flow_control.fault() {
        (bounds.lower, bounds.upper, held, refused) = (None, None, None, Some(why));
    }
    let found = bounds.report(rig, (stated_rate_hz, trial_s), held, refused);
    Ok(Throughput { flow_control, points, ..found })
}

/// A trial; one that was not sent as asked is tried again, and is the last one's reason in the end.
fn steady(
    rig: &mut Rig<'_>,
    rate_hz: f64,
    seconds: f64,
    points: &mut Vec<RatePoint>,
    seen: &mut dyn FnMut(&RatePoint),
) -> Result<Judged, RigError> {
    let mut attempts = 1;
    loop {
        let judged = rig.send(&Schedule::steady(rate_hz, seconds))?;
        let point = RatePoint::of(rate_hz, seconds, &judged);
        seen(&point);
        points.push(point);
        if attempts == MOST_INVALID || !matches!(judged.outcome, TrialOutcome::Invalid(_)) {
            return Ok(judged);
        }
        attempts += 1;
    }
}

/// What is known of the rate: the search by halving, without a device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    from: f64,
    to: f64,
    lower: Option<f64>,
    upper: Option<f64>,
    /// What was lossless while it was held.
    held: Option<f64>,
    /// The next step down, as a part.
    step: f64,
}

impl Bounds {
    fn new(from: f64, to: f64) -> Bounds {
        Bounds { from, to, lower: None, upper: None, held: None, step: RESOLUTION }
    }

    /// The next rate to try; `None` when the bounds are close, or the range is at its end.
    fn next(&self) -> Option<f64> {
        match (self.lower, self.upper) {
            (None, None) => Some(self.to),
            (None, Some(upper)) => (upper > self.from).then_some(self.from),
            (Some(_), None) => None,
            (Some(lower), Some(upper)) => {
                (upper - lower > RESOLUTION * upper).then_some((lower + upper) / 2.0)
            }
        }
    }

    fn lossless(&mut self, rate_hz: f64) {
        self.lower = Some(self.lower.map_or(rate_hz, |lower| lower.max(rate_hz)));
    }

    fn lossy(&mut self, rate_hz: f64) {
        self.upper = Some(self.upper.map_or(rate_hz, |upper| upper.min(rate_hz)));
    }

    /// The next rate to hold; `None` where one is held that is close to one that is not, or there is none.
    fn held_next(&self) -> Option<f64> {
        match (self.held, self.upper) {
            (None, _) => self.lower,
            (Some(held), Some(upper)) => {
                (upper - held > 2.0 * RESOLUTION * upper).then_some((held + upper) / 2.0)
            }
            (Some(_), None) => None,
        }
    }

    fn held(&mut self, rate_hz: f64) {
        (self.held, self.lower) = (Some(rate_hz), Some(rate_hz));
    }

    /// Held, the lower bound has lost something: a buffer had hidden it. The next one is a step below, and each step twice the one before,
    /// as far as the range goes.
    fn not_held(&mut self, rate_hz: f64) {
        self.upper = Some(rate_hz);
        if self.held.is_none() {
            self.lower = Some(rate_hz * (1.0 - self.step)).filter(|lower| *lower >= self.from);
            self.step *= 2.0;
        }
    }

    fn report(
        self,
        rig: &Rig<'_>,
        (stated_rate_hz, trial_s): (f64, f64),
        held: Option<RatePoint>,
        refused: Option<String>,
    ) -> Throughput {
        let remark = match (refused, self.lower, self.upper) {
            (Some(why), ..) => why,
            (None, None, _) => {
                format!("it loses at {:.1} Hz, half of what it is said to carry, too", self.from)
            }
            (None, _, None) => {
                "nothing is lost beyond what it is said to carry: is the rate right?".to_owned()
            }
            _ => String::new(),
        };
        let clean = held.as_ref().filter(|held| held.outcome == "lossless" && held.sent > 0);
        let depth_bytes = rig.testbed().map(|settings| settings.whole_depth_bytes() as f64);
        Throughput {
            sources: rig.active_sources(),
            datagram_bytes: rig.frame().payload_bytes(),
            frame_bytes: rig.frame_bytes(),
            stated_rate_hz,
            lower_bound_hz: self.lower,
            upper_bound_hz: self.upper,
            lower_bound_bits_per_s: self.lower.map(|rate_hz| 8.0 * rate_hz * rig.event_bytes()),
            of_line_rate: self.lower.map(|rate_hz| rate_hz / stated_rate_hz),
            hidden_overload: depth_bytes.map(|depth_bytes| depth_bytes / (rig.rate_bytes_per_s() * trial_s)),
            loss_limit: clean.map(|held| 3.0 / held.sent as f64),
            held,
            flow_control: FlowControl::not_read(),
            points: Vec::new(),
            remark,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(capacity_hz: f64) -> Bounds {
        let mut bounds = Bounds::new(500.0, 1100.0);
        for _ in 0..40 {
            let Some(rate_hz) = bounds.next() else { return bounds };
            if rate_hz <= capacity_hz { bounds.lossless(rate_hz) } else { bounds.lossy(rate_hz) }
        }
        panic!("it does not end: {bounds:?}");
    }

    #[test]
    fn bounds_close_around_what_a_device_carries() {
        for capacity_hz in [501.0, 700.0, 999.9, 1099.0] {
            let Bounds { lower, upper, .. } = searched(capacity_hz);
            let (lower, upper) = (lower.expect("lossless"), upper.expect("lossy"));
            assert!(
                lower <= capacity_hz && capacity_hz < upper && upper - lower <= 0.0021 * upper,
                "{lower} {upper}"
            );
        }
        assert_eq!((searched(2000.0).lower, searched(2000.0).upper), (Some(1100.0), None));
        assert_eq!((searched(100.0).lower, searched(100.0).upper), (None, Some(500.0)));
    }

    #[test]
    fn a_rate_that_does_not_hold_is_given_up_in_growing_steps_and_the_held_one_comes_close_to_it() {
        // Short trials have hidden an overload of 6 %.
        let (mut bounds, capacity_hz) = (searched(742.0), 700.0);
        let mut holds = 0;
        while let Some(rate_hz) = bounds.held_next() {
            holds += 1;
            if rate_hz <= capacity_hz { bounds.held(rate_hz) } else { bounds.not_held(rate_hz) }
        }
        let (held, upper) = (bounds.held.expect("found"), bounds.upper.expect("found"));
        assert!(held <= capacity_hz && capacity_hz < upper && upper - held <= 0.0041 * upper, "{bounds:?}");
        assert!(holds <= 12, "{holds} holds of a minute each");
        let mut none = searched(501.0);
        for _ in 0..3 {
            none.not_held(none.held_next().unwrap_or(500.0));
        }
        assert_eq!(none.held_next(), None, "the range is at its end");
    }
}
