//! Hours at a load that a device carries: nothing may be lost that nobody counts.
//!
//! ```text
//!  load × rate of the output ─► sources in turn, trial behind trial ─► lost, and what of it device and socket count ─► unexplained
//! ```
//! A rare fault, one frame in 10⁹, is found by nothing but time. What was lost is not hidden by a trial that does not count: all of them do.

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use crate::rig::{Rig, RigError};
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
    /// The upper limit of the lost fraction with a confidence of 95 %, where nothing was lost.
    pub loss_limit: Option<f64>,
    /// Trials that were not sent as asked, or in which something stood still.
    pub disturbed: u64,
    /// The results by trial.
    pub points: Vec<SoakPoint>,
}

impl Soak {
    /// Returns true if nothing was lost without being counted.
    pub fn passes(&self) -> bool {
        self.unexplained == 0 && self.sent > 0
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
    let mut soak = Soak {
        sources: rig.active_sources(),
        datagram_bytes: rig.frame().payload_bytes(),
        load,
        rate_hz,
        seconds: 0.0,
        sent: 0,
        lost: 0,
        unexplained: 0,
        loss_limit: None,
        disturbed: 0,
        points: Vec::new(),
    };
    while soak.seconds < seconds {
        let judged = match rig.send(&Schedule::steady(rate_hz, trial_s.min(seconds))) {
            // The trials finished by then are the result.
            Err(RigError::Stopped) if !soak.points.is_empty() => break,
            judged => judged?,
        };
        let lost = judged.lost();
        let counted = judged.dropped.map(|dropped| dropped + judged.socket_drops);
        let (_, why) = judged.outcome_text();
        soak.sent += judged.sent;
        soak.lost += lost;
        soak.unexplained += lost.abs_diff(counted.unwrap_or(judged.socket_drops.min(lost)));
        soak.disturbed += u64::from(!why.is_empty());
        soak.loss_limit = (soak.lost == 0 && soak.sent > 0).then(|| 3.0 / soak.sent as f64);
        soak.seconds = began.elapsed().as_secs_f64();
        soak.points.push(SoakPoint { at_s: soak.seconds, sent: judged.sent, lost, counted, why });
        seen(&soak);
    }
    Ok(soak)
}
