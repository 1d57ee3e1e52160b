//! Incast, as RFC 8239 (section 6) has it: few events of many ports at once, and from which number of ports on something is lost.
//!
//! ```text
//!  1, 2, 3 … K ports ─► events as close as they are asked for ─► lossless | lossy ─► the most ports without a loss
//! ```
//! A cheap switch may carry every rate and lose the second of two events that are 8 µs apart from its 29th port on: its buffer is that small.

use schemars::JsonSchema;
use serde::Serialize;

use crate::rig::{FlowControl, Rig, RigError};
use crate::switch::search::TrialOutcome;
use crate::trial::{Judged, Schedule, quantile};

/// A number of ports that is not sent as asked is tried so often.
const MOST_INVALID: u32 = 5;

/// One number of ports.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PortsPoint {
    /// Sources that sent.
    pub sources: u32,
    /// `lossless` where every trial was, `lossy` where one was not, `invalid` where none counts.
    pub outcome: &'static str,
    /// The reason, if the point is invalid.
    pub why: String,
    /// Datagrams that were sent in all trials that count.
    pub sent: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// The time from one event to the next as it was sent, median of the trials, s; null of a single event.
    pub separation_s: Option<f64>,
    /// The time from the first source to the last of an event, median, s.
    pub skew_median_s: f64,
}

/// A sweep of the ports.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Incast {
    /// Events of each trial.
    pub events: u64,
    /// Their separation as it was asked for, s; 0: as fast as the sources send.
    pub asked_separation_s: f64,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// Trials with each number of ports.
    pub repeats: u32,
    /// The most ports up to which no trial lost anything; 0 where a single one does, null where senders waited instead of losing.
    pub lossless_sources: Option<u32>,
    /// The fewest ports with a loss; null where there are none, or where senders waited instead of losing.
    pub lossy_sources: Option<u32>,
    /// Whether PAUSE made somebody wait.
    pub flow_control: FlowControl,
    /// The points by number of ports.
    pub points: Vec<PortsPoint>,
    /// Why there is no result; empty where there is one.
    pub remark: String,
}

/// Sweeps the ports, each number `repeats` times. `seen` is given each as it is known.
///
/// # Errors
/// When the device, a source or the receiver is gone.
pub fn sweep(
    rig: &mut Rig<'_>,
    (events, separation_s): (u64, f64),
    repeats: u32,
    seen: &mut dyn FnMut(&PortsPoint),
) -> Result<Incast, RigError> {
    let schedule = Schedule::burst(events, separation_s);
    let mut points = Vec::new();
    for sources in 1..=rig.sources() {
        rig.use_sources(sources);
        let point = ports(rig, &schedule, repeats)?;
        seen(&point);
        points.push(point);
    }
    rig.use_sources(rig.sources());
    let flow_control = rig.flow_control()?;
    let first = |outcome: &str| points.iter().find(|point| point.outcome == outcome);
    let lossy_sources = first("lossy").map(|point| point.sources);
    let below = |point: &&PortsPoint| lossy_sources.is_none_or(|lossy| point.sources < lossy);
    let lossless = points.iter().filter(below).filter(|point| point.outcome == "lossless");
    let remark = first("invalid").map_or(String::new(), |point| {
        format!("with {} ports no trial counts: {}", point.sources, point.why)
    });
    let lossless_sources = lossless.map(|point| point.sources).max().unwrap_or(0);
    let paused = flow_control.fault();
    Ok(Incast {
        events,
        asked_separation_s: separation_s,
        datagram_bytes: rig.frame().payload_bytes(),
        repeats,
        lossless_sources: paused.is_none().then_some(lossless_sources),
        lossy_sources: lossy_sources.filter(|_| paused.is_none()),
        flow_control,
        points,
        remark: paused.unwrap_or(remark),
    })
}

fn ports(rig: &mut Rig<'_>, schedule: &Schedule, repeats: u32) -> Result<PortsPoint, RigError> {
    let (mut counted, mut invalid, mut why): (Vec<Judged>, u32, String) = Default::default();
    while (counted.len() as u32) < repeats && invalid < MOST_INVALID {
        let judged = rig.send(schedule)?;
        match &judged.outcome {
            TrialOutcome::Invalid(reason) => (invalid, why) = (invalid + 1, reason.clone()),
            TrialOutcome::Lossless | TrialOutcome::Lossy => counted.push(judged),
        }
    }
    let lossy = counted.iter().any(|judged| judged.outcome == TrialOutcome::Lossy);
    let outcome = match (counted.is_empty(), lossy) {
        (true, _) => "invalid",
        (false, true) => "lossy",
        (false, false) => "lossless",
    };
    let separations: Vec<f64> = counted
        .iter()
        .filter_map(|judged| {
            let times_s = &judged.trial.times_s;
            let gaps = times_s.len().checked_sub(1).filter(|gaps| *gaps > 0)?;
            Some((times_s[gaps] - times_s[0]) / gaps as f64)
        })
        .collect();
    let skews: Vec<f64> = counted.iter().map(|judged| judged.skew_median_s).collect();
    Ok(PortsPoint {
        sources: rig.active_sources(),
        outcome,
        why: if counted.is_empty() { why } else { String::new() },
        sent: counted.iter().map(|judged| judged.sent).sum(),
        lost: counted.iter().map(|judged| judged.lost()).sum(),
        separation_s: (!separations.is_empty()).then(|| quantile(&separations, 0.5)),
        skew_median_s: quantile(&skews, 0.5),
    })
}
