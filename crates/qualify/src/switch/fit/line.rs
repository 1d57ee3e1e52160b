//! The starting point of the fit: a straight line through the edges of the columns.
//!
//! ```text
//!  bytes until the edge │        · ╱         bytes = depth + rate × length of the burst
//!                       │    · ╱             weight 1 / bytes; columns far off the others lose theirs
//!                       │  ╱·    ·
//!                       └────────────► length of the burst in seconds
//! ```

use super::{Burst, FitError, LEAST_COLUMNS};

/// Rounds of reweighting; the weights no longer move after about ten.
const ROUNDS: usize = 20;
/// A column whose edge is this fraction of events off the line has half its weight.
const HALF_WEIGHT: f64 = 0.03;

/// The edge of a column.
#[derive(Clone, Copy, Debug)]
struct ColumnEdge {
    /// Length of a burst at the edge, times the fraction of the rate: the factor of the output's rate.
    length_s: f64,
    bytes: f64,
}

impl ColumnEdge {
    /// Returns how far the edge is off that of a queue, as a fraction of events: at a separation these are as the depth is.
    fn off(&self, depth_bytes: f64, rate_bytes_per_s: f64) -> f64 {
        (self.bytes - rate_bytes_per_s * self.length_s) / depth_bytes - 1.0
    }
}

/// The straight line, and the edges through which it goes.
#[derive(Clone, Debug)]
pub(super) struct Start {
    edges: Vec<ColumnEdge>,
    pub(super) depth_bytes: f64,
    pub(super) rate_bytes_per_s: f64,
    /// The weighted mean length of bursts: around it, errors of depth and rate are independent.
    pub(super) pivot_s: f64,
}

impl Start {
    pub(super) fn new(bursts: &[Burst<'_>]) -> Result<Start, FitError> {
        let edges = edges(bursts);
        if edges.len() < LEAST_COLUMNS {
            return Err(FitError::TooFewColumns { seen: edges.len() });
        }
        let mut start = Start { depth_bytes: 0.0, rate_bytes_per_s: 0.0, pivot_s: 0.0, edges };
        let mut weights: Vec<f64> = start.edges.iter().map(|edge| 1.0 / edge.bytes).collect();
        for _ in 0..ROUNDS {
            start.draw(&weights);
            for (edge, weight) in start.edges.iter().zip(&mut weights) {
                let off = edge.off(start.depth_bytes, start.rate_bytes_per_s);
                *weight = 1.0 / (edge.bytes * (1.0 + (off / HALF_WEIGHT).powi(2)));
            }
        }
        let Start { depth_bytes, rate_bytes_per_s, .. } = start;
        match depth_bytes > 0.0 && rate_bytes_per_s > 0.0 {
            true => Ok(start),
            false => Err(FitError::NoQueue { depth_bytes, rate_bytes_per_s }),
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.edges.len()
    }

    /// Root mean square over columns of how far their edges are off those of a queue, as fractions of events.
    pub(super) fn residual_rms(&self, depth_bytes: f64, rate_bytes_per_s: f64) -> f64 {
        let squares: f64 =
            self.edges.iter().map(|edge| edge.off(depth_bytes, rate_bytes_per_s).powi(2)).sum();
        (squares / self.edges.len() as f64).sqrt()
    }

    fn draw(&mut self, weights: &[f64]) {
        let sum = |value: &dyn Fn(&ColumnEdge) -> f64| -> f64 {
            self.edges.iter().zip(weights).map(|(e, w)| w * value(e)).sum()
        };
        let weight = sum(&|_| 1.0);
        let (length_s, bytes) = (sum(&|edge| edge.length_s) / weight, sum(&|edge| edge.bytes) / weight);
        let covariance = sum(&|edge| (edge.length_s - length_s) * (edge.bytes - bytes));
        let variance = sum(&|edge| (edge.length_s - length_s).powi(2));
        self.rate_bytes_per_s = covariance / variance;
        self.depth_bytes = bytes - self.rate_bytes_per_s * length_s;
        self.pivot_s = length_s;
    }
}

/// The edges of all columns that have trials on both sides.
fn edges(bursts: &[Burst<'_>]) -> Vec<ColumnEdge> {
    let mut sorted: Vec<&Burst<'_>> = bursts.iter().collect();
    // The trials of one separation with one number of sources are a column.
    let key = |burst: &Burst<'_>| (burst.column_s, burst.rate_fraction, burst.event_bytes);
    let sent = |burst: &Burst<'_>| burst.event_bytes * burst.times_s.len() as f64;
    sorted.sort_by(|a, b| {
        let by_column = key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal);
        by_column.then(sent(a).total_cmp(&sent(b)))
    });
    sorted.chunk_by(|a, b| key(a) == key(b)).filter_map(edge).collect()
}

/// The edge of a column in the order of bytes: between the neighbours at which the fewest trials are on the wrong side.
fn edge(column: &[&Burst<'_>]) -> Option<ColumnEdge> {
    let lossy = column.iter().filter(|burst| burst.lossy).count();
    if lossy == 0 || lossy == column.len() {
        return None;
    }
    // Below the edge a lossy trial is wrong, above it a lossless one, which stalls do not make: it counts twice.
    let (mut wrong, mut best, mut at) = (2 * (column.len() - lossy), usize::MAX, 0);
    for (index, burst) in column.iter().enumerate() {
        wrong = if burst.lossy { wrong + 1 } else { wrong - 2 };
        if wrong < best {
            (best, at) = (wrong, index);
        }
    }
    let below = column[at];
    let above = column.get(at + 1).unwrap_or(&below);
    let of = |burst: &Burst<'_>| {
        (burst.length_s() * burst.rate_fraction, burst.event_bytes * burst.times_s.len() as f64)
    };
    let (below, above) = (of(below), of(above));
    Some(ColumnEdge { length_s: (below.0 + above.0) / 2.0, bytes: (below.1 + above.1) / 2.0 })
}
