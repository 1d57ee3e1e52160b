//! The watershed: for each separation of events, how many of them a device takes without a loss; depth and drain rate from that.
//!
//! ```text
//!  Search ─► Request ─► emitted, received, judged ─► Outcome ─► Search …  ─► columns
//!                                                └► Trial ────► fit ──────► depth, rate, with intervals
//! ```

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use crate::rig::{Rig, RigError};
use crate::switch::fit::{Fit, FitError, Trial, fit};
use crate::switch::search::{End, Search, Settings};
use crate::trial::Judged;

/// One trial, as a point of the plane.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Point {
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
        let (outcome, why) = judged.outcome_words();
        Point {
            separation_s: judged.trial.separation_s,
            events: judged.trial.times_s.len() as u64,
            outcome,
            why,
            sent: judged.sent,
            lost: judged.sent.saturating_sub(judged.received),
            dropped: judged.dropped,
            lateness_median_s: judged.lateness_median_s,
            skew_median_s: judged.skew_median_s,
        }
    }
}

/// What is known of a separation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ColumnReport {
    /// Separation of events, s.
    pub separation_s: f64,
    /// The most events without loss; 0 where there is none such.
    pub lossless_events: u64,
    /// The fewest above it with loss; null where none was found.
    pub lossy_events: Option<u64>,
    /// Trials that count, and that do not.
    pub trials: u32,
    /// Those that do not.
    pub invalid: u32,
    /// How its search ended, in words.
    pub end: String,
}

/// A map of a device.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Watershed {
    /// Sources that send together.
    pub sources: u32,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// What a frame takes in the accounting of the device, bytes.
    pub frame_bytes: u32,
    /// Of a testbed: what fits into it, bytes.
    pub true_depth_bytes: u64,
    /// Of a testbed: its rate, bits per second.
    pub true_rate_bits_per_s: f64,
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
    /// Why there is no fit, or what is wrong with it; empty where nothing is.
    pub remark: String,
    /// By separation.
    pub columns: Vec<ColumnReport>,
    /// Every trial, in the order in which they were made.
    pub points: Vec<Point>,
    /// How long it took, s.
    pub seconds: f64,
}

/// Maps so many columns; `seen` is given each point as it is made.
///
/// # Errors
/// When the device or the receiver is gone.
pub fn map(rig: &mut Rig<'_>, columns: usize, seen: &mut dyn FnMut(&Point)) -> Result<Watershed, RigError> {
    let began = Instant::now();
    let saturation_s = rig.event_bytes() / rig.rate_bytes_per_s();
    let mut search = Search::new(Settings::spread(columns, saturation_s));
    let (mut trials, mut points): (Vec<Trial>, Vec<Point>) = Default::default();
    while let Some(request) = search.next() {
        let judged = rig.burst(request)?;
        let point = Point::of(&judged);
        seen(&point);
        points.push(point);
        search.report(judged.outcome);
        trials.push(judged.trial);
    }
    Ok(report(rig, &search, fit(&trials), points, began.elapsed().as_secs_f64()))
}

fn report(
    rig: &Rig<'_>,
    search: &Search,
    fitted: Result<Fit, FitError>,
    points: Vec<Point>,
    seconds: f64,
) -> Watershed {
    let columns = search.columns().iter().map(|column| ColumnReport {
        separation_s: column.separation_s,
        lossless_events: column.lossless_events,
        lossy_events: column.lossy_events,
        trials: column.trials,
        invalid: column.invalid,
        end: end_words(column.end.as_ref()),
    });
    let bits = |bytes: f64| 8.0 * bytes;
    let found = fitted.as_ref().ok();
    Watershed {
        sources: rig.sources(),
        datagram_bytes: rig.frame().payload_bytes(),
        frame_bytes: rig.frame().qdisc_bytes(),
        true_depth_bytes: rig.testbed().true_depth_bytes(),
        true_rate_bits_per_s: rig.testbed().settings().rate_bits_per_s,
        fitted_depth_bytes: found.map(|fit| fit.depth_bytes),
        fitted_depth_interval: found.map(|fit| fit.depth_interval_bytes),
        fitted_rate_bits_per_s: found.map(|fit| bits(fit.rate_bytes_per_s)),
        fitted_rate_interval: found.map(|fit| fit.rate_interval_bytes_per_s.map(bits)),
        remark: fitted.as_ref().err().map_or(String::new(), ToString::to_string),
        fit: fitted.ok(),
        columns: columns.collect(),
        points,
        seconds,
    }
}

fn end_words(end: Option<&End>) -> String {
    match end {
        Some(End::Bracketed) => "bracketed".to_owned(),
        Some(End::NeverLossy) => "nothing was lost up to the most events".to_owned(),
        Some(End::NeverLossless) => "a single event is lost".to_owned(),
        Some(End::OutOfTrials) => "its trials were used up".to_owned(),
        Some(End::Refused(why)) => format!("refused: {why}"),
        None => "not searched".to_owned(),
    }
}
