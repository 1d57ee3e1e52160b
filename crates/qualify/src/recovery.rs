//! Recovery from overflow: how long after a burst that was too long a device takes the next one without a loss.
//!
//! ```text
//!  overflow, lossy ── pause ──► probe: so much of what the buffer holds ─► lossless? ─► shorter pause …
//!                                     a queue that just drains takes probe ÷ rate
//! ```
//! It is measured for several probes: a device that throws away whole queues, or pauses, after an overflow lies off the line of draining.

use schemars::JsonSchema;
use serde::Serialize;

use crate::rig::{FlowControl, Rig, RigError};
use crate::switch::burst::{even_times, peak_bytes};
use crate::switch::search::{End, Search, Settings as SearchSettings, TrialOutcome};
use crate::trial::{Judged, Schedule};

/// Events are so close, as a fraction of the separation that saturates the output.
const CLOSE: f64 = 0.1;
/// The ratio of the events of an overflowing burst to the number from which events are lost.
const OVERFLOW: f64 = 1.3;
/// Probes: this fraction of the events that are lossless.
const PROBES: [f64; 4] = [0.25, 0.5, 0.75, 0.95];
/// The upper end of the search for the pause, as a multiple of the draining time.
const SEARCHED: f64 = 3.0;
/// The bracket of a pause is so narrow, as a fraction of what draining takes.
const RESOLUTION: f64 = 0.02;
/// A trial that does not count is tried again so often.
const MOST_INVALID: u32 = 5;
/// One trial of this many without a loss shows that a pause is long enough: a stall of a device makes losses, and none makes fewer. One of the
/// sender does, and such a trial does not count.
const ATTEMPTS: u32 = 3;

/// A trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Attempt {
    /// The time from the last event of the overflow to the first of the probe, s.
    pub pause_s: f64,
    /// Events of the probe.
    pub probe_events: u64,
    /// Datagrams of the probe that did not come; null where the trial does not count.
    pub lost: Option<u64>,
    /// Datagrams of the overflow that did not come; null where the trial does not count.
    pub overflow_lost: Option<u64>,
    /// Why it does not count.
    pub why: String,
}

/// What a probe needs.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Probe {
    /// Events of the probe.
    pub events: u64,
    /// The bytes that they fill in the device's accounting.
    pub bytes: f64,
    /// The shortest pause after which nothing of it was lost, s; null where there was none such.
    pub lossless_pause_s: Option<f64>,
    /// The longest pause below it after which something was, s.
    pub lossy_pause_s: f64,
    /// What a queue takes that just drains, s.
    pub draining_s: f64,
}

/// The recovery of a device.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Recovery {
    /// Sources that sent together.
    pub sources: u32,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// Separation of events, s.
    pub separation_s: f64,
    /// The most events without a loss at that separation; null where that is not known.
    pub lossless_events: Option<u64>,
    /// Events of the burst that overflows; null where that is not known.
    pub overflow_events: Option<u64>,
    /// The results by probe.
    pub probes: Vec<Probe>,
    /// The pause of the largest probe, as a multiple of what draining takes; null where it is not known.
    pub of_draining: Option<f64>,
    /// Whether PAUSE made somebody wait; where it did, no probe counts.
    pub flow_control: FlowControl,
    /// Every trial.
    pub attempts: Vec<Attempt>,
    /// Why there is no result; empty where there is one.
    pub remark: String,
}

/// Measures it. `seen` is given each trial as it is made.
///
/// # Errors
/// When the device, a source or the receiver is gone.
pub fn measure(rig: &mut Rig<'_>, seen: &mut dyn FnMut(&Attempt)) -> Result<Recovery, RigError> {
    let found = probes(rig, seen)?;
    let flow_control = rig.flow_control()?;
    Ok(match flow_control.fault() {
        None => Recovery { flow_control, ..found },
        Some(why) => Recovery {
            flow_control,
            lossless_events: None,
            overflow_events: None,
            probes: Vec::new(),
            of_draining: None,
            remark: why,
            ..found
        },
    })
}

fn probes(rig: &mut Rig<'_>, seen: &mut dyn FnMut(&Attempt)) -> Result<Recovery, RigError> {
    let separation_s = CLOSE * rig.event_bytes() / rig.rate_bytes_per_s();
    let mut found = Recovery {
        sources: rig.active_sources(),
        datagram_bytes: rig.frame().payload_bytes(),
        separation_s,
        lossless_events: None,
        overflow_events: None,
        probes: Vec::new(),
        of_draining: None,
        flow_control: FlowControl::not_read(),
        attempts: Vec::new(),
        remark: String::new(),
    };
    let (lossless, lossy) = match edge(rig, separation_s)? {
        Ok(edge) => edge,
        Err(why) => return Ok(Recovery { remark: why, ..found }),
    };
    let overflow = (OVERFLOW * lossy as f64).ceil() as u64;
    (found.lossless_events, found.overflow_events) = (Some(lossless), Some(overflow));
    for fraction in PROBES {
        let events = ((fraction * lossless as f64).round() as u64).max(1);
        let bytes = peak_bytes(&even_times(events, separation_s), rig.event_bytes(), rig.rate_bytes_per_s());
        let draining_s = bytes / rig.rate_bytes_per_s();
        let mut probe = Probe { events, bytes, lossless_pause_s: None, lossy_pause_s: 0.0, draining_s };
        if let Err(why) = bisect(rig, &mut found, (overflow, &mut probe), seen)? {
            found.remark = why;
        }
        found.probes.push(probe);
    }
    // A bisection that was given up is no result.
    let last = found.probes.last().filter(|_| found.remark.is_empty());
    found.of_draining = last.and_then(|probe| Some(probe.lossless_pause_s? / probe.draining_s));
    if found.of_draining.is_none() && found.remark.is_empty() {
        found.remark =
            format!("after {SEARCHED} times what draining takes, something of a probe is still lost");
    }
    Ok(found)
}

/// The most events without a loss, and the fewest with.
fn edge(rig: &mut Rig<'_>, separation_s: f64) -> Result<Result<(u64, u64), String>, RigError> {
    let settings = SearchSettings { separations_s: vec![separation_s], ..rig.search_settings(1) };
    let mut search = Search::new(settings);
    while let Some(request) = search.next() {
        search.report(rig.send(&Schedule::burst(request.events, request.separation_s))?.outcome);
    }
    let column = &search.columns()[0];
    Ok(match (&column.end, column.lossy_events) {
        (Some(End::Refused(why)), _) => Err(format!("no trial counts: {why}")),
        (_, Some(lossy)) if column.lossless_events > 1 => Ok((column.lossless_events, lossy)),
        (_, None) => Err("nothing is lost, so there is nothing to recover from".to_owned()),
        _ => Err("a single event is lost".to_owned()),
    })
}

fn bisect(
    rig: &mut Rig<'_>,
    found: &mut Recovery,
    (overflow, probe): (u64, &mut Probe),
    seen: &mut dyn FnMut(&Attempt),
) -> Result<Result<(), String>, RigError> {
    let mut pause_s = SEARCHED * probe.draining_s;
    loop {
        match recovers(rig, found, (overflow, probe.events), pause_s, seen)? {
            Err(why) => return Ok(Err(why)),
            Ok(true) => probe.lossless_pause_s = Some(pause_s),
            Ok(false) => probe.lossy_pause_s = pause_s,
        }
        match probe.lossless_pause_s {
            None => return Ok(Ok(())),
            Some(lossless_s) if lossless_s - probe.lossy_pause_s <= RESOLUTION * probe.draining_s => {
                return Ok(Ok(()));
            }
            Some(lossless_s) => pause_s = (lossless_s + probe.lossy_pause_s) / 2.0,
        }
    }
}

/// Returns true if nothing of a probe is lost after this pause.
fn recovers(
    rig: &mut Rig<'_>,
    found: &mut Recovery,
    (overflow, events): (u64, u64),
    pause_s: f64,
    seen: &mut dyn FnMut(&Attempt),
) -> Result<Result<bool, String>, RigError> {
    let separation_s = found.separation_s;
    let schedule = Schedule::two_bursts((overflow, separation_s), pause_s, (events, separation_s));
    let (mut counted, mut invalid) = (0, 0);
    while counted < ATTEMPTS {
        let judged = rig.send(&schedule)?;
        let attempt = Attempt::of(&judged, pause_s, events);
        seen(&attempt);
        let (lost, overflow_lost, why) = (attempt.lost, attempt.overflow_lost, attempt.why.clone());
        found.attempts.push(attempt);
        match lost {
            None if invalid == MOST_INVALID => return Ok(Err(why)),
            None => invalid += 1,
            // A burst that overflows nothing is followed by no recovery.
            Some(_) if overflow_lost == Some(0) => {
                return Ok(Err("the burst that should overflow lost nothing".to_owned()));
            }
            Some(0) => return Ok(Ok(true)),
            Some(_) => counted += 1,
        }
    }
    Ok(Ok(false))
}

impl Attempt {
    fn of(judged: &Judged, pause_s: f64, probe_events: u64) -> Attempt {
        let why = match &judged.outcome {
            TrialOutcome::Invalid(why) => why.clone(),
            TrialOutcome::Lossless | TrialOutcome::Lossy => String::new(),
        };
        let of_probe = probe_events * u64::from(judged.trial.sources);
        let lost = of_probe.saturating_sub(judged.of_second);
        let all_lost = judged.lost();
        let counts = why.is_empty();
        Attempt {
            pause_s,
            probe_events,
            lost: counts.then_some(lost),
            overflow_lost: counts.then(|| all_lost.saturating_sub(lost)),
            why,
        }
    }
}
