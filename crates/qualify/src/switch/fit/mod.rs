//! Depth and drain rate of a buffer out of trials that lost something or did not.
//!
//! ```text
//!  trials ─ valid ones ─► line through the edges: where to look ─► likelihood over depth × rate ─► estimate, interval
//! ```
//! A trial is lossy with the probability `logistic((peak(rate) - depth) / width)`, where the peak is that of the queue
//! with the times of real emission. Stalls of the device make trials lossy below the edge: more often in longer
//! bursts, and less often where more of the buffer is free. Number and reach of the stalls are fitted, too.

mod likelihood;
mod line;

use serde::Serialize;

use likelihood::Grid;
use line::Start;

/// Fewer columns than this fix depth and rate badly, and their interval does not show it.
pub const LEAST_COLUMNS: usize = 6;

/// The distance under the best log likelihood to which a 95 % interval reaches.
///
/// 1.92 would do for edges that are independent. Stalls are not: at the longest bursts the search may end at a false
/// edge, and all of its trials agree. This covers the truth in at least 95 % of simulated maps with stalls (tests).
const INTERVAL_95: f64 = 4.5;

/// A rate is that of one clock measured with another; IEEE 802.3 lets each be off by 100 ppm.
const CLOCKS: f64 = 2e-4;

/// One burst that was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The separation of events that was asked for, in seconds: trials of a column have the same.
    pub separation_s: f64,
    /// The time at which each event was sent, in seconds, ascending.
    pub times_s: Vec<f64>,
    /// Sources that sent a frame at each event.
    pub sources: u32,
    /// Sources on one input, from the first on: the last input may have fewer.
    pub sources_per_input: u32,
    /// Bytes of a frame, in the accounting in which depth and rate are wanted.
    pub frame_bytes: f64,
    /// True if anything was lost in the device.
    pub lossy: bool,
    /// True if the trial was emitted as asked and nothing was lost outside the device; the fit ignores invalid trials.
    pub valid: bool,
}

/// The buffer whose depth is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Buffering {
    /// One buffer that all sources share.
    Shared,
    /// A queue per input, which is a source unless several are stacked; the depth is that of each, the rate that of the output.
    PerSource,
}

/// Why there is no fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// A trial that no sender can have made.
    #[error("trial {index} has {what}; times ascend, and sources and bytes of a frame are above 0")]
    Trial {
        /// Its index.
        index: usize,
        /// The fault in it.
        what: &'static str,
    },
    /// No trial counts.
    #[error("none of {0} trials is valid; see why they are not, and repeat them")]
    NoValidTrial(usize),
    /// No trial lost anything.
    #[error(
        "all {0} valid trials are lossless; send more events, more sources, or at a smaller separation, until something is lost"
    )]
    AllLossless(usize),
    /// Every trial lost something.
    #[error(
        "all {0} valid trials are lossy: a switch that loses at any rate; look for a damaged link, a wrong speed or duplex, or begin with fewer events"
    )]
    AllLossy(usize),
    /// Depth and rate are not separated well enough by these trials.
    #[error(
        "{seen} separations have both lossless and lossy trials; measure at {LEAST_COLUMNS} or more, from 0.1 to 0.95 of the saturation separation"
    )]
    TooFewColumns {
        /// Columns that have an edge.
        seen: usize,
    },
    /// The likelihood has no end within reach.
    #[error(
        "the trials leave depth and rate open: they fit {depth_bytes:.0} bytes and {rate_bytes_per_s:.0} bytes/s, and others far from that; add trials close to the edge, and columns near 0.1 and 0.95 of the saturation separation"
    )]
    Open {
        /// The best that was found.
        depth_bytes: f64,
        /// The best that was found.
        rate_bytes_per_s: f64,
    },
    /// The edges do not fall on the line of any queue.
    #[error(
        "the edges say a depth of {depth_bytes:.0} bytes and a rate of {rate_bytes_per_s:.0} bytes/s, which no queue has; look at the validity of trials, at flow control, and at a second bottleneck"
    )]
    NoQueue {
        /// The depth by the straight line.
        depth_bytes: f64,
        /// The rate by the straight line.
        rate_bytes_per_s: f64,
    },
}

/// The result of a fit, with intervals of 95 % by profile likelihood.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Fit {
    /// The fitted buffer: one shared buffer or each queue.
    pub buffering: Buffering,
    /// Depth in bytes, averaged over the likelihood.
    pub depth_bytes: f64,
    /// The bounds in bytes; the upper one is a frame beyond that of the likelihood, because queues take whole frames.
    pub depth_interval_bytes: [f64; 2],
    /// Drain rate of the output in bytes per second, averaged over the likelihood.
    pub rate_bytes_per_s: f64,
    /// The bounds in bytes per second, beyond the likelihood by what two clocks may differ.
    pub rate_interval_bytes_per_s: [f64; 2],
    /// The blur of the edge, in bytes; a wide one means that the model is wrong.
    pub width_bytes: f64,
    /// The number of stalls of the device that the longest burst meets, each of which would make it lossy at the edge.
    pub stalls: f64,
    /// Logarithm of the likelihood at its maximum.
    pub log_likelihood: f64,
    /// Root mean square over columns of (events at the edge - model) / model.
    pub residual_rms: f64,
    /// The fraction on the wrong side, of trials whose peak is more than 3 % off the depth.
    pub wrong_side_fraction: f64,
    /// Columns with lossless and lossy trials.
    pub columns: usize,
    /// Trials that were used.
    pub trials: usize,
    /// Trials that were not, because they are invalid.
    pub invalid: usize,
}

/// A valid trial as the fit sees it: one queue, with its fraction of the bytes and of the rate.
struct Burst<'a> {
    times_s: &'a [f64],
    event_bytes: f64,
    /// The fraction of the output's rate that this queue gets.
    rate_fraction: f64,
    column_s: f64,
    lossy: bool,
}

impl Burst<'_> {
    fn length_s(&self) -> f64 {
        self.times_s.last().unwrap_or(&0.0) - self.times_s.first().unwrap_or(&0.0)
    }

    fn peak_bytes(&self, rate_bytes_per_s: f64) -> f64 {
        super::burst::peak_bytes(self.times_s, self.event_bytes, rate_bytes_per_s * self.rate_fraction)
    }
}

/// Fits depth and drain rate of one shared buffer.
///
/// # Errors
/// When the trials cannot say them: see [`FitError`].
pub fn fit(trials: &[Trial]) -> Result<Fit, FitError> {
    fit_as(trials, Buffering::Shared)
}

/// Fits depth and drain rate of the given kind of buffer.
///
/// # Errors
/// When the trials cannot say them: see [`FitError`].
pub fn fit_as(trials: &[Trial], buffering: Buffering) -> Result<Fit, FitError> {
    check(trials)?;
    let bursts = bursts(trials, buffering);
    let lossy = bursts.iter().filter(|burst| burst.lossy).count();
    match bursts.len() {
        0 => return Err(FitError::NoValidTrial(trials.len())),
        valid if lossy == 0 => return Err(FitError::AllLossless(valid)),
        valid if lossy == valid => return Err(FitError::AllLossy(valid)),
        _ => {}
    }
    let start = Start::new(&bursts)?;
    let grid = Grid::around(&bursts, &start)?;
    let best = grid.best();
    let (depth_bytes, rate_bytes_per_s) = grid.mean();
    let ([low, high], [slow, fast]) = grid.interval(INTERVAL_95);
    let rate_interval_bytes_per_s = [slow * (1.0 - CLOCKS), fast * (1.0 + CLOCKS)];
    // Queues take whole frames, so that a limit may be up to a frame above what fits into it.
    let frame_bytes =
        trials.iter().filter(|trial| trial.valid).map(|trial| trial.frame_bytes).fold(0.0, f64::max);
    let depth_interval_bytes = [low, high + frame_bytes];
    Ok(Fit {
        buffering,
        depth_bytes,
        depth_interval_bytes,
        rate_bytes_per_s,
        rate_interval_bytes_per_s,
        width_bytes: best.width_bytes,
        stalls: best.stalls,
        log_likelihood: best.log_likelihood,
        residual_rms: start.residual_rms(depth_bytes, rate_bytes_per_s),
        wrong_side_fraction: wrong_side_fraction(&bursts, depth_bytes, rate_bytes_per_s),
        columns: start.columns(),
        trials: bursts.len(),
        invalid: trials.len() - bursts.len(),
    })
}

/// Refuses trials with which nothing can be computed.
fn check(trials: &[Trial]) -> Result<(), FitError> {
    for (index, trial) in trials.iter().enumerate().filter(|(_, trial)| trial.valid) {
        let is_finite = trial.times_s.iter().chain([&trial.separation_s]).all(|time_s| time_s.is_finite());
        let what = match trial {
            _ if !is_finite => "a time that is no number",
            _ if !trial.times_s.is_sorted() => "times that do not ascend",
            Trial { sources: 0, .. } => "no sources",
            Trial { frame_bytes, .. } if !(*frame_bytes > 0.0 && frame_bytes.is_finite()) => {
                "no bytes in a frame"
            }
            _ => continue,
        };
        return Err(FitError::Trial { index, what });
    }
    Ok(())
}

fn bursts(trials: &[Trial], buffering: Buffering) -> Vec<Burst<'_>> {
    let valid = trials.iter().filter(|trial| trial.valid && !trial.times_s.is_empty());
    let burst = |trial| {
        let Trial { sources, frame_bytes, separation_s, times_s, lossy, .. }: &Trial = trial;
        let (event_bytes, rate_fraction) = match buffering {
            Buffering::Shared => (f64::from(*sources) * frame_bytes, 1.0),
            Buffering::PerSource => {
                // All inputs are served alike. One that is not full of sources gets what it leaves to others: that is neglected.
                let stacked = trial.sources_per_input.clamp(1, (*sources).max(1));
                (f64::from(stacked) * frame_bytes, 1.0 / f64::from(sources.div_ceil(stacked)))
            }
        };
        Burst { times_s, event_bytes, rate_fraction, column_s: *separation_s, lossy: *lossy }
    };
    valid.map(burst).collect()
}

fn wrong_side_fraction(bursts: &[Burst<'_>], depth_bytes: f64, rate_bytes_per_s: f64) -> f64 {
    let (mut outside, mut wrong) = (0_u32, 0_u32);
    for burst in bursts {
        let peak_bytes = burst.peak_bytes(rate_bytes_per_s);
        if (peak_bytes / depth_bytes - 1.0).abs() > 0.03 {
            outside += 1;
            wrong += u32::from((peak_bytes > depth_bytes) != burst.lossy);
        }
    }
    f64::from(wrong) / f64::from(outside.max(1))
}

#[cfg(test)]
mod tests;
