//! Hours at a load that a device carries: nothing may be lost that nobody counts.
//!
//! ```text
//!  load × rate of the output ─► sources in turn, trial behind trial ─► lost, and what of it device and socket count ─► unexplained
//! ```
//! A rare fault, one frame in 10⁹, is found by nothing but time. What was lost without being counted is not hidden by a trial that was
//! disturbed: all of them count for it. The limit of the lost fraction is that of the load, so only trials at that load count for it.

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use crate::rig::{FlowControl, Rig, RigError};
use crate::trial::Schedule;

/// One trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SoakPoint {
    /// The time since the start, s.
    pub at_s: f64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// Of them, those that the device or the receiving socket counts; null where the device cannot be asked.
    pub counted: Option<u64>,
    /// The reason, where the trial was not sent as asked, or something stood still.
    pub why: String,
}

/// All of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Soak {
    /// Sources.
    pub sources: u32,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// Fraction of the rate of the output.
    pub load: f64,
    /// Events per second, of which each source sent one datagram.
    pub rate_hz: f64,
    /// The duration, s.
    pub seconds: f64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// Datagrams by which losses and counts differ, over all trials; where the device cannot be asked, those that the socket does not count.
    pub unexplained: u64,
    /// The upper limit of the lost fraction with a confidence of 95 %, where nothing was lost in trials that were not disturbed.
    pub loss_limit: Option<f64>,
    /// Trials that were not sent as asked, or in which something stood still.
    pub disturbed: u64,
    /// Whether PAUSE made somebody wait; where it did, the load was not applied.
    pub flow_control: FlowControl,
    /// The results by trial.
    pub points: Vec<SoakPoint>,
}

impl Soak {
    /// Before the first trial.
    fn begin((sources, datagram_bytes): (u32, u32), (load, rate_hz): (f64, f64)) -> Soak {
        Soak {
            sources,
            datagram_bytes,
            load,
            rate_hz,
            seconds: 0.0,
            sent: 0,
            lost: 0,
            unexplained: 0,
            loss_limit: None,
            disturbed: 0,
            flow_control: FlowControl::not_read(),
            points: Vec::new(),
        }
    }

    /// Returns true if the load was applied, in one trial at least and without a sender that waited, and nothing was lost without being
    /// counted.
    pub fn passes(&self) -> bool {
        self.unexplained == 0 && self.sent_undisturbed() > 0 && self.flow_control.fault().is_none()
    }

    /// Returns the datagrams that were sent in trials that were not disturbed.
    pub fn sent_undisturbed(&self) -> u64 {
        self.undisturbed().map(|point| point.sent).sum()
    }

    fn undisturbed(&self) -> impl Iterator<Item = &SoakPoint> {
        self.points.iter().filter(|point| point.why.is_empty())
    }

    /// Adds a trial, in which the receiving socket has thrown away so many datagrams.
    fn add(&mut self, point: SoakPoint, socket_drops: u64) {
        self.seconds = point.at_s;
        self.sent += point.sent;
        self.lost += point.lost;
        self.unexplained += point.lost.abs_diff(point.counted.unwrap_or(socket_drops.min(point.lost)));
        self.disturbed += u64::from(!point.why.is_empty());
        self.points.push(point);
        let (sent, is_lossless) = (self.sent_undisturbed(), self.undisturbed().all(|point| point.lost == 0));
        self.loss_limit = (is_lossless && sent > 0).then(|| 3.0 / sent as f64);
    }

    /// Takes what the cards say in the end.
    fn with_flow_control(self, flow_control: FlowControl) -> Soak {
        let loss_limit = self.loss_limit.filter(|_| flow_control.fault().is_none());
        Soak { flow_control, loss_limit, ..self }
    }
}

/// Sends at `load` times the rate of the output for `seconds`, in trials of `trial_s`. `seen` is given what there is after each.
///
/// # Errors
/// When the device, a source or the receiver is gone.
pub fn soak(
    rig: &mut Rig<'_>,
    load: f64,
    (seconds, trial_s): (f64, f64),
    seen: &mut dyn FnMut(&Soak),
) -> Result<Soak, RigError> {
    let (began, rate_hz) = (Instant::now(), load * rig.rate_bytes_per_s() / rig.event_bytes());
    let mut soak = Soak::begin((rig.active_sources(), rig.frame().payload_bytes()), (load, rate_hz));
    while soak.seconds < seconds {
        let judged = match rig.send(&Schedule::steady(rate_hz, trial_s.min(seconds))) {
            // The trials finished by then are the result.
            Err(RigError::Stopped) if !soak.points.is_empty() => break,
            judged => judged?,
        };
        let counted = judged.dropped.map(|dropped| dropped + judged.socket_drops);
        let ((_, why), at_s) = (judged.outcome_text(), began.elapsed().as_secs_f64());
        let point = SoakPoint { at_s, sent: judged.sent, lost: judged.lost(), counted, why };
        soak.add(point, judged.socket_drops);
        seen(&soak);
    }
    Ok(soak.with_flow_control(rig.flow_control()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::PauseState;

    fn soak(points: &[(u64, &str)]) -> Soak {
        let mut soak = Soak::begin((1, 1024), (0.9, 1000.0));
        for (lost, why) in points {
            let point = SoakPoint {
                at_s: 1.0,
                sent: 1000,
                lost: *lost,
                counted: Some(*lost),
                why: (*why).to_owned(),
            };
            soak.add(point, 0);
        }
        soak
    }

    const LATE: &str = "it was sent in 5.027 s instead of 1.000 s; free the sender's core, or ask for less";

    #[test]
    fn a_soak_whose_load_was_never_applied_neither_passes_nor_has_a_limit() {
        let found = soak(&[(0, LATE), (0, LATE)]);
        assert_eq!((found.disturbed, found.loss_limit, found.passes()), (2, None, false));
        let none = soak(&[]);
        assert_eq!((none.loss_limit, none.passes()), (None, false));
    }

    #[test]
    fn the_limit_of_the_lost_fraction_is_of_trials_that_were_sent_as_asked() {
        let found = soak(&[(0, ""), (4, LATE), (0, "")]);
        assert_eq!((found.sent, found.lost, found.loss_limit), (3000, 4, Some(3.0 / 2000.0)));
        assert!(found.passes(), "what was lost was counted");
        assert_eq!(soak(&[(0, ""), (4, "")]).loss_limit, None);
    }

    #[test]
    fn what_nobody_counts_is_not_hidden_by_a_disturbed_trial() {
        let mut found = soak(&[(0, "")]);
        let point = SoakPoint { at_s: 2.0, sent: 1000, lost: 3, counted: Some(0), why: LATE.to_owned() };
        found.add(point, 0);
        assert_eq!((found.unexplained, found.passes()), (3, false));
    }

    #[test]
    fn a_soak_in_which_senders_were_made_to_wait_neither_passes_nor_has_a_limit() {
        let moved = FlowControl { state: PauseState::Moved, words: "eth1 of the receiver: 1".to_owned() };
        let found = soak(&[(0, "")]).with_flow_control(moved);
        assert_eq!((found.loss_limit, found.passes()), (None, false));
    }
}
