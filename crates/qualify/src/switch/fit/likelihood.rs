//! The likelihood of the trials over depth and rate, and what follows from it.
//!
//! ```text
//!  depth │  ╱╱╱╱╱      cells along the line on which the mean edge stays where it is,
//!        │ ╱╱●╱╱       zoomed in on until those that matter fill the grid;
//!        │╱╱╱╱╱        in each cell the best width and stalls
//!        └───────► rate
//! ```
//! The likelihood has steps and flat parts, because a sharp edge says only on which side a trial lies. A grid does not
//! mind that, where a climber would.

use super::line::Start;
use super::{Burst, FitError};

/// Cells along each side.
const SIDE: usize = 25;
/// Cells this far below the best, in units of the log likelihood, do not matter.
const RELEVANT: f64 = 6.0;
/// The number of times that the grid may be moved, widened or narrowed.
const ROUNDS: usize = 12;
/// The grid is narrowed no further when what matters spans this fraction of it.
const FILLED: f64 = 0.6;
/// Half of the first grid's extent, as a fraction of depth and rate.
const FIRST_EXTENT: f64 = 0.06;
/// Widths of the edge that are tried, as fractions of the depth.
const WIDTHS: [f64; 4] = [0.0003, 0.0015, 0.006, 0.025];
/// The numbers to try of stalls that the longest burst meets and that would make it lossy at the edge.
const STALLS: [f64; 5] = [0.003, 0.1, 0.5, 1.5, 5.0];
/// Below the edge stalls matter less, by a factor e for each such fraction of the depth: what is tried.
const REACHES: [f64; 3] = [0.006, 0.02, 0.06];
/// All pairs of these.
const PAIRS: usize = STALLS.len() * REACHES.len();
/// The fraction of trials that are on the wrong side whatever the queue: the gate is good, and not perfect.
const MISSED: f64 = 0.002;
/// No burst is so short, as a fraction of the longest, that no stall hits it.
const SHORTEST: f64 = 0.01;
/// Probabilities are multiplied this often before their logarithm is taken; less than 1e-300 they cannot become.
const PRODUCTS: usize = 32;

/// One pair of depth and rate with the best of the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) depth_bytes: f64,
    pub(super) rate_bytes_per_s: f64,
    pub(super) log_likelihood: f64,
    pub(super) width_bytes: f64,
    pub(super) stalls: f64,
}

/// Cells around the maximum, rate by rate.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    cells: Vec<Cell>,
    frame: Frame,
}

/// The position of the cells.
#[derive(Clone, Copy, Debug)]
struct Frame {
    depth_bytes: f64,
    rate_bytes_per_s: f64,
    half_depth_bytes: f64,
    half_rate_bytes_per_s: f64,
    pivot_s: f64,
}

impl Frame {
    fn offset(step: usize) -> f64 {
        step as f64 / (SIDE - 1) as f64 * 2.0 - 1.0
    }

    fn evaluate(self, bursts: &[Burst<'_>]) -> Vec<Cell> {
        let longest_s = bursts.iter().map(Burst::length_s).fold(f64::MIN_POSITIVE, f64::max);
        let mut cells = Vec::with_capacity(SIDE * SIDE);
        for rate_step in 0..SIDE {
            let rate_offset = Frame::offset(rate_step) * self.half_rate_bytes_per_s;
            let rate_bytes_per_s = self.rate_bytes_per_s + rate_offset;
            let peak = |burst: &Burst<'_>| Peak {
                bytes: burst.peak_bytes(rate_bytes_per_s),
                length: (burst.length_s() / longest_s).max(SHORTEST),
                lossy: burst.lossy,
            };
            let peaks: Vec<Peak> = bursts.iter().map(peak).collect();
            for depth_step in 0..SIDE {
                let offset = Frame::offset(depth_step) * self.half_depth_bytes;
                let depth_bytes = self.depth_bytes - rate_offset * self.pivot_s + offset;
                cells.push(Cell { rate_bytes_per_s, ..best_cell(&peaks, depth_bytes) });
            }
        }
        cells
    }

    /// The frame around the cells that matter, and whether they went up to the border of this one.
    fn next(self, cells: &[Cell]) -> (Frame, bool) {
        let best = best(cells).log_likelihood;
        let (mut rates, mut depths) = ((SIDE, 0), (SIDE, 0));
        for (index, cell) in cells.iter().enumerate() {
            if cell.log_likelihood > best - RELEVANT {
                rates = (rates.0.min(index / SIDE), rates.1.max(index / SIDE));
                depths = (depths.0.min(index % SIDE), depths.1.max(index % SIDE));
            }
        }
        let at_border = rates.0 == 0 || depths.0 == 0 || rates.1 == SIDE - 1 || depths.1 == SIDE - 1;
        // One cell more on each side, so that what matters does not begin at the border.
        let span = |(from, to): (usize, usize)| {
            let (from, to) = (Frame::offset(from), Frame::offset(to));
            let step = 2.0 / (SIDE - 1) as f64;
            ((from + to) / 2.0, (to - from) / 2.0 + step + if at_border { 0.5 } else { 0.0 })
        };
        let ((rate, half_rate), (depth, half_depth)) = (span(rates), span(depths));
        let moved = rate * self.half_rate_bytes_per_s;
        let next = Frame {
            rate_bytes_per_s: self.rate_bytes_per_s + moved,
            depth_bytes: self.depth_bytes - moved * self.pivot_s + depth * self.half_depth_bytes,
            half_rate_bytes_per_s: half_rate * self.half_rate_bytes_per_s,
            half_depth_bytes: half_depth * self.half_depth_bytes,
            pivot_s: self.pivot_s,
        };
        (next, at_border)
    }
}

impl Grid {
    /// The grid that what matters fills.
    ///
    /// # Errors
    /// When what matters has no end.
    pub(super) fn around(bursts: &[Burst<'_>], start: &Start) -> Result<Grid, FitError> {
        let mut frame = Frame {
            depth_bytes: start.depth_bytes,
            rate_bytes_per_s: start.rate_bytes_per_s,
            half_depth_bytes: FIRST_EXTENT * start.depth_bytes,
            half_rate_bytes_per_s: FIRST_EXTENT * start.rate_bytes_per_s,
            pivot_s: start.pivot_s,
        };
        let mut cells = frame.evaluate(bursts);
        for _ in 0..ROUNDS {
            let (next, at_border) = frame.next(&cells);
            let is_filled = next.half_rate_bytes_per_s > FILLED * frame.half_rate_bytes_per_s
                && next.half_depth_bytes > FILLED * frame.half_depth_bytes;
            if is_filled && !at_border {
                return Ok(Grid { cells, frame });
            }
            frame = next;
            cells = frame.evaluate(bursts);
        }
        let Cell { depth_bytes, rate_bytes_per_s, .. } = best(&cells);
        match frame.next(&cells).1 {
            false => Ok(Grid { cells, frame }),
            true => Err(FitError::Open { depth_bytes, rate_bytes_per_s }),
        }
    }

    pub(super) fn best(&self) -> Cell {
        best(&self.cells)
    }

    /// Depth and rate averaged over the likelihood.
    pub(super) fn mean(&self) -> (f64, f64) {
        let best = self.best().log_likelihood;
        let (mut sum, mut depth, mut rate) = (0.0, 0.0, 0.0);
        for cell in &self.cells {
            let weight = (cell.log_likelihood - best).exp();
            sum += weight;
            depth += weight * cell.depth_bytes;
            rate += weight * cell.rate_bytes_per_s;
        }
        (depth / sum, rate / sum)
    }

    /// Returns the bounds of depth and of rate, over the cells that are at most `below` under the best.
    pub(super) fn interval(&self, below: f64) -> ([f64; 2], [f64; 2]) {
        let best = self.best().log_likelihood;
        let (mut depth, mut rate) = ([f64::INFINITY, f64::NEG_INFINITY], [f64::INFINITY, f64::NEG_INFINITY]);
        for cell in self.cells.iter().filter(|cell| cell.log_likelihood >= best - below) {
            depth = [depth[0].min(cell.depth_bytes), depth[1].max(cell.depth_bytes)];
            rate = [rate[0].min(cell.rate_bytes_per_s), rate[1].max(cell.rate_bytes_per_s)];
        }
        // A cell stands for what is within half a step of it.
        let half_step = 1.0 / (SIDE - 1) as f64;
        let rate_step = half_step * self.frame.half_rate_bytes_per_s;
        let depth_step = half_step * self.frame.half_depth_bytes + rate_step * self.frame.pivot_s;
        ([depth[0] - depth_step, depth[1] + depth_step], [rate[0] - rate_step, rate[1] + rate_step])
    }
}

fn best(cells: &[Cell]) -> Cell {
    let mut best = cells[0];
    for cell in cells {
        if cell.log_likelihood > best.log_likelihood {
            best = *cell;
        }
    }
    best
}

/// A trial at one rate.
#[derive(Clone, Copy, Debug)]
struct Peak {
    bytes: f64,
    /// Its length as a fraction of the longest.
    length: f64,
    lossy: bool,
}

/// The best width and stalls of one depth, given the peaks of the trials at one rate.
fn best_cell(peaks: &[Peak], depth_bytes: f64) -> Cell {
    let mut best = Cell {
        depth_bytes,
        rate_bytes_per_s: 0.0,
        log_likelihood: f64::NEG_INFINITY,
        width_bytes: 0.0,
        stalls: 0.0,
    };
    if depth_bytes <= 0.0 {
        return best;
    }
    let stalled: Vec<[f64; PAIRS]> = peaks.iter().map(|peak| stalled(peak, depth_bytes)).collect();
    for width in WIDTHS {
        let width_bytes = width * depth_bytes;
        let tried = log_likelihoods(peaks, &stalled, depth_bytes, width_bytes);
        for (pair, log_likelihood) in tried.into_iter().enumerate() {
            if log_likelihood > best.log_likelihood {
                best = Cell { log_likelihood, width_bytes, stalls: STALLS[pair / REACHES.len()], ..best };
            }
        }
    }
    best
}

/// The probability that a stall makes a trial lossy, for each pair of their number and reach.
///
/// A stall matters when it costs more than the bytes that are free. That is rarer the more are free, and longer bursts meet
/// more stalls.
fn stalled(peak: &Peak, depth_bytes: f64) -> [f64; PAIRS] {
    let free = (1.0 - peak.bytes / depth_bytes).max(0.0);
    let mut stalled = [0.0; PAIRS];
    for (index, reach) in REACHES.into_iter().enumerate() {
        let expected = peak.length * (-free / reach).exp();
        for (number, stalls) in STALLS.into_iter().enumerate() {
            stalled[number * REACHES.len() + index] = stalls * expected / (1.0 + stalls * expected);
        }
    }
    stalled
}

/// The log likelihood for each pair of number and reach of stalls.
fn log_likelihoods(
    peaks: &[Peak],
    stalled: &[[f64; PAIRS]],
    depth_bytes: f64,
    width_bytes: f64,
) -> [f64; PAIRS] {
    let (mut sums, mut products) = ([0.0; PAIRS], [1.0_f64; PAIRS]);
    for (peaks, stalled) in peaks.chunks(PRODUCTS).zip(stalled.chunks(PRODUCTS)) {
        for (peak, stalled) in peaks.iter().zip(stalled) {
            let below = 1.0 - logistic((peak.bytes - depth_bytes) / width_bytes);
            for (product, stalled) in products.iter_mut().zip(stalled) {
                let lossless = MISSED + (1.0 - 2.0 * MISSED) * below * (1.0 - stalled);
                *product *= if peak.lossy { 1.0 - lossless } else { lossless };
            }
        }
        for (sum, product) in sums.iter_mut().zip(&mut products) {
            *sum += product.ln();
            *product = 1.0;
        }
    }
    sums
}

fn logistic(argument: f64) -> f64 {
    match argument {
        // Beyond these the result differs from 0 or 1 by less than what matters next to a missed stall.
        below if below < -18.0 => 0.0,
        above if above > 18.0 => 1.0,
        _ => 1.0 / (1.0 + (-argument).exp()),
    }
}
