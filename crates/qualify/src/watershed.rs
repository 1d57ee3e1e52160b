//! The watershed: for each separation of events, how many of them a device takes without a loss; depth and drain rate from that.
//!
//! ```text
//!  ports ─► Search ─► Request ─► emitted, received, judged ─► TrialOutcome ─► Search …  ─► columns
//!                                                         └► Trial ────► fit ──────► depth, rate, with intervals
//!                                     several numbers of ports: ───────► compare ──► one shared buffer, or a queue per input
//! ```

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use crate::rig::{FlowControl, RateSource, Rig, RigError, StartSkew};
use crate::switch::burst::{Edge, Queue};
use crate::switch::fit::{Buffering, Fit, Trial, fit};
use crate::switch::model::{BufferVerdict, Comparison, compare};
use crate::switch::search::{Column, End, Search};
use crate::testbed::TestbedSettings;
use crate::trial::{Judged, Schedule};

/// What is mapped.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Settings {
    /// Separations in all.
    pub columns: usize,
    /// Numbers of sources that send, each of which gets its part of the columns; empty: all of them.
    pub ports: Vec<u32>,
    /// Triggers per second in the mean that are planned, Hz: the buffer is to hold a second of them.
    pub planned_rate_hz: Option<f64>,
}

/// One trial, as a point of the plane.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Point {
    /// Sources that sent.
    pub sources: u32,
    /// Separation of events, s.
    pub separation_s: f64,
    /// Events.
    pub events: u64,
    /// `lossless`, `lossy` or `invalid`.
    pub outcome: &'static str,
    /// Of an invalid one, why.
    pub why: String,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// Datagrams that the device says it has thrown away, where it can be asked.
    pub dropped: Option<u64>,
    /// Half of the events were later than this, s.
    pub lateness_median_s: f64,
    /// Half of them took longer than this from the first source to the last, s.
    pub skew_median_s: f64,
}

impl Point {
    fn of(judged: &Judged) -> Point {
        let (outcome, why) = judged.outcome_text();
        Point {
            sources: judged.trial.sources,
            separation_s: judged.trial.separation_s,
            events: judged.trial.times_s.len() as u64,
            outcome,
            why,
            sent: judged.sent,
            lost: judged.lost(),
            dropped: judged.dropped,
            lateness_median_s: judged.lateness_median_s,
            skew_median_s: judged.skew_median_s,
        }
    }
}

/// What is known of a separation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ColumnReport {
    /// Sources that sent.
    pub sources: u32,
    /// Separation of events, s.
    pub separation_s: f64,
    /// The most events without loss; 0 where there is none such.
    pub lossless_events: u64,
    /// The fewest above it with loss; null where none was found.
    pub lossy_events: Option<u64>,
    /// Of a testbed: the most events without loss that its depth and rate predict; null where any number is.
    pub predicted_events: Option<u64>,
    /// Trials that count, and that do not.
    pub trials: u32,
    /// Those that do not.
    pub invalid: u32,
    /// How its search ended, in words.
    pub end: String,
}

/// Whether a buffer holds what is planned for a second, by which the NectarCAM camera accepted its switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Acceptance {
    /// Planned triggers per second in the mean, Hz.
    pub planned_rate_hz: f64,
    /// The lower end of the depth's interval holds the triggers of so many seconds, and nothing of them drained meanwhile.
    pub held_s: f64,
    /// Whether that is a second.
    pub passes: bool,
}

/// A map of a device.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Watershed {
    /// Sources that there are.
    pub sources: u32,
    /// Sources behind one input of the device.
    pub sources_per_input: u32,
    /// How many of them sent, one map for each number.
    pub ports: Vec<u32>,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// What a frame takes in the accounting of the device, bytes.
    pub frame_bytes: u32,
    /// The rate of the output by which columns were chosen, bits per second.
    pub assumed_rate_bits_per_s: f64,
    /// How that is known.
    pub rate_source: RateSource,
    /// How well the sources started together.
    pub start_skew: StartSkew,
    /// Whether PAUSE made somebody wait; where it did, there is no fit.
    pub flow_control: FlowControl,
    /// Of a testbed, what it was made as.
    pub testbed: Option<TestbedSettings>,
    /// Of a testbed: what fits into a queue of the kind that was fitted, bytes.
    pub true_depth_bytes: Option<u64>,
    /// Of a testbed: its rate, bits per second.
    pub true_rate_bits_per_s: Option<f64>,
    /// Of a testbed: its queues.
    pub true_queues: Option<Buffering>,
    /// Fitted depth, bytes; null where there is no fit.
    pub fitted_depth_bytes: Option<f64>,
    /// With a confidence of 95 %, from and to, bytes.
    pub fitted_depth_interval: Option<[f64; 2]>,
    /// Fitted drain rate, bits per second.
    pub fitted_rate_bits_per_s: Option<f64>,
    /// With a confidence of 95 %, from and to, bits per second.
    pub fitted_rate_interval: Option<[f64; 2]>,
    /// Everything of the fit.
    pub fit: Option<Fit>,
    /// Of several numbers of ports: one shared buffer against a queue per input.
    pub model: Option<Comparison>,
    /// Where a rate is planned and there is a fit: whether the buffer holds a second of it.
    pub acceptance: Option<Acceptance>,
    /// Why there is no fit, or what is wrong with it; empty where nothing is.
    pub remark: String,
    /// By number of ports and separation.
    pub columns: Vec<ColumnReport>,
    /// Every trial, in the order in which they were made.
    pub points: Vec<Point>,
    /// How long it took, s.
    pub seconds: f64,
}

/// Maps a device; `seen` is given the map as it grows, the last of its points being new.
///
/// # Errors
/// When the device or the receiver is gone.
pub fn map(
    rig: &mut Rig<'_>,
    settings: &Settings,
    seen: &mut dyn FnMut(&Watershed),
) -> Result<Watershed, RigError> {
    let began = Instant::now();
    let mut map = Watershed::before(rig, settings);
    let columns = settings.columns.div_ceil(map.ports.len().max(1));
    let mut trials: Vec<Trial> = Vec::new();
    for sources in map.ports.clone() {
        rig.use_sources(sources);
        let mut search = Search::new(rig.search_settings(columns));
        let before = map.columns.len();
        while let Some(request) = search.next() {
            let judged = rig.send(&Schedule::burst(request.events, request.separation_s))?;
            map.points.push(Point::of(&judged));
            search.report(judged.outcome);
            trials.push(judged.trial);
            map.columns.truncate(before);
            map.columns.extend(search.columns().iter().map(|column| ColumnReport::of(rig, column)));
            map.seconds = began.elapsed().as_secs_f64();
            seen(&map);
        }
    }
    rig.use_sources(rig.sources());
    map.start_skew = rig.start_skew();
    map.flow_control = rig.flow_control()?;
    match map.flow_control.fault() {
        Some(why) => map.remark = why,
        None => map.fitted(&trials, settings.planned_rate_hz),
    }
    map.seconds = began.elapsed().as_secs_f64();
    Ok(map)
}

impl ColumnReport {
    fn of(rig: &Rig<'_>, column: &Column) -> ColumnReport {
        let sources = rig.active_sources();
        let edge = rig.testbed().map(|testbed| Edge {
            queue: Queue {
                depth_bytes: testbed.depth_of_bytes(sources) as f64,
                rate_bytes_per_s: testbed.rate_bits_per_s / 8.0,
            },
            event_bytes: rig.event_bytes(),
        });
        ColumnReport {
            predicted_events: edge.and_then(|edge| edge.largest_burst(column.separation_s)),
            sources,
            separation_s: column.separation_s,
            lossless_events: column.lossless_events,
            lossy_events: column.lossy_events,
            trials: column.trials,
            invalid: column.invalid,
            end: end_text(column.end.as_ref()),
        }
    }
}

impl Watershed {
    /// What is known before the first trial.
    fn before(rig: &Rig<'_>, settings: &Settings) -> Watershed {
        let testbed = rig.testbed();
        let mut ports: Vec<u32> =
            settings.ports.iter().map(|ports| (*ports).clamp(1, rig.sources())).collect();
        ports.dedup();
        if ports.is_empty() {
            ports.push(rig.sources());
        }
        Watershed {
            sources: rig.sources(),
            sources_per_input: rig.sources_per_input(),
            ports,
            datagram_bytes: rig.frame().payload_bytes(),
            frame_bytes: rig.frame_bytes(),
            assumed_rate_bits_per_s: 8.0 * rig.rate_bytes_per_s(),
            rate_source: rig.rate_source(),
            start_skew: rig.start_skew(),
            flow_control: testbed.map_or_else(FlowControl::not_read, |_| FlowControl::between(&[], &[])),
            true_depth_bytes: testbed.map(|settings| settings.whole_depth_bytes()),
            true_rate_bits_per_s: testbed.map(|settings| settings.rate_bits_per_s),
            true_queues: testbed.map(|settings| settings.queues),
            testbed,
            fitted_depth_bytes: None,
            fitted_depth_interval: None,
            fitted_rate_bits_per_s: None,
            fitted_rate_interval: None,
            fit: None,
            model: None,
            acceptance: None,
            remark: String::new(),
            columns: Vec::new(),
            points: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Fits all trials, or says why there is no fit.
    fn fitted(&mut self, trials: &[Trial], planned_rate_hz: Option<f64>) {
        let fit = match self.chosen(trials) {
            Ok(fit) => fit,
            Err(why) => {
                self.remark = why;
                return;
            }
        };
        let bits = |bytes: f64| 8.0 * bytes;
        self.fitted_depth_bytes = Some(fit.depth_bytes);
        self.fitted_depth_interval = Some(fit.depth_interval_bytes);
        self.fitted_rate_bits_per_s = Some(bits(fit.rate_bytes_per_s));
        self.fitted_rate_interval = Some(fit.rate_interval_bytes_per_s.map(bits));
        if fit.buffering == Buffering::PerSource {
            self.true_depth_bytes = self.testbed.map(|settings| settings.true_depth_bytes());
        }
        self.acceptance = planned_rate_hz.map(|rate_hz| self.accepted(&fit, rate_hz));
        self.fit = Some(fit);
    }

    /// One buffer where one number of ports was tried, else whichever kind the trials speak for.
    fn chosen(&mut self, trials: &[Trial]) -> Result<Fit, String> {
        if self.ports.len() == 1 {
            return fit(trials).map_err(|error| error.to_string());
        }
        let comparison = compare(trials).map_err(|error| error.to_string())?;
        let chosen = match comparison.verdict {
            BufferVerdict::Shared => comparison.shared.clone(),
            BufferVerdict::PerSource => comparison.per_source.clone(),
            BufferVerdict::Undecided => None,
        };
        self.model = Some(comparison);
        chosen.ok_or_else(|| {
            "one shared buffer and a queue per input fit these trials alike; use numbers of ports that lie farther apart".to_owned()
        })
    }

    fn accepted(&self, fit: &Fit, planned_rate_hz: f64) -> Acceptance {
        let inputs = f64::from(self.sources.div_ceil(self.sources_per_input.max(1)));
        let queues = if fit.buffering == Buffering::PerSource { inputs } else { 1.0 };
        let event_bytes = f64::from(self.sources) * f64::from(self.frame_bytes);
        let held_s = queues * fit.depth_interval_bytes[0] / event_bytes / planned_rate_hz;
        Acceptance { planned_rate_hz, held_s, passes: held_s >= 1.0 }
    }
}

fn end_text(end: Option<&End>) -> String {
    match end {
        Some(End::Bracketed) => "bracketed".to_owned(),
        Some(End::NeverLossy) => "nothing was lost up to the most events".to_owned(),
        Some(End::NeverLossless) => "a single event is lost".to_owned(),
        Some(End::OutOfTrials) => "its trials were used up".to_owned(),
        Some(End::Refused(why)) => format!("refused: {why}"),
        None => "not searched".to_owned(),
    }
}
