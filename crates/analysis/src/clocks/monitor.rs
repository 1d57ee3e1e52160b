//! Watches the clocks of the boards by what they see together.
//!
//! ```text
//!  ordered hits ─► time differences to the reference, a histogram per source ─► peak ─► (time, offset ± error)
//!                                                                                         └ line ─► drift
//! ```
//! Looks at a share of the data only, so that watching costs next to nothing however high the rate.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::{Flags, Hit, SourceId};

use super::peak;
use super::settings::Settings;
use crate::channels::ChannelMap;

/// Bins of a histogram.
const BINS: usize = 2048;
/// Hits looked at in one interval and source, at most.
const MOST_HITS: u64 = 200_000;
/// Neighbours that a hit is compared with, at most.
const MOST_NEIGHBOURS: usize = 32;
/// Points that a line is laid through, at most.
const MOST_POINTS: usize = 64;

/// What is known of one board's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ClockState {
    /// The source.
    pub source: String,
    /// The source that it is compared with.
    pub reference: String,
    /// Its hits come so much later than those of the reference, picoseconds; `None` as long as no peak was found.
    pub offset_ps: Option<f64>,
    /// Standard deviation of the offset, picoseconds.
    pub offset_error_ps: Option<f64>,
    /// How the offset changes, parts of 10⁹.
    pub drift_ppb: Option<f64>,
    /// The offset at run start, where the line of the offsets crosses it, picoseconds: with the drift, what a correction takes.
    pub offset_at_start_ps: Option<f64>,
    /// A peak was found in the last interval, within the tolerance.
    pub locked: bool,
    /// Mean data time of the pairs of hits in the latest peak's interval, seconds since run start.
    pub measured_at_s: Option<f64>,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Point {
    time_s: f64,
    offset_ps: f64,
    error_ps: f64,
}

#[derive(Debug)]
struct Watched {
    name: String,
    recent: VecDeque<i64>,
    counts: Box<[u32]>,
    looked_at: u64,
    /// Pairs counted in this interval, and the sum of their times, seconds.
    pairs: u64,
    pair_times_s: f64,
    points: VecDeque<Point>,
    missed: bool,
}

impl Watched {
    fn count_pairs(&mut self, pairs: u64, time_ps: i64) {
        self.pairs += pairs;
        self.pair_times_s += pairs as f64 * (time_ps as f64 * 1e-12);
    }
}

/// Compares the clocks of all sources with that of one.
#[derive(Debug)]
pub struct ClockMonitor {
    reference: usize,
    range_ps: i64,
    tolerance_ps: f64,
    interval_ps: i64,
    began_ps: Option<i64>,
    sources: Vec<Watched>,
}

impl ClockMonitor {
    /// A monitor of these sources, by number; `None` when no reference is configured.
    pub fn new(settings: &Settings, sources: &[String]) -> Option<ClockMonitor> {
        let name = settings.reference.as_ref()?;
        let watched = |name: &String| Watched {
            name: name.clone(),
            recent: VecDeque::with_capacity(MOST_NEIGHBOURS),
            counts: vec![0; BINS].into(),
            looked_at: 0,
            pairs: 0,
            pair_times_s: 0.0,
            points: VecDeque::with_capacity(MOST_POINTS),
            missed: false,
        };
        Some(ClockMonitor {
            reference: sources.iter().position(|source| source == name)?,
            range_ps: settings.range_ps,
            tolerance_ps: settings.tolerance_ps as f64,
            interval_ps: (settings.interval_s * 1e12) as i64,
            began_ps: None,
            sources: sources.iter().map(watched).collect(),
        })
    }

    /// Looks at the next hits of the ordered stream.
    pub fn look(&mut self, hits: &[Hit], map: &ChannelMap) {
        let Some(last) = hits.last() else { return };
        for hit in hits.iter().filter(|hit| hit.flags.0 & (Flags::LATE | Flags::FAKE).0 == 0) {
            let channel = map.get(hit.channel).filter(|channel| channel.enabled);
            let Some(source) = channel.map(|channel| channel.source) else { continue };
            if self.sources.get(source.index()).is_none_or(|watched| watched.looked_at >= MOST_HITS) {
                continue;
            }
            self.compare(source, hit.time_ps);
        }
        let began_ps = *self.began_ps.get_or_insert(last.time_ps);
        if last.time_ps.saturating_sub(began_ps) >= self.interval_ps {
            self.conclude();
            self.began_ps = Some(last.time_ps);
        }
    }

    fn compare(&mut self, source: SourceId, time_ps: i64) {
        let (range_ps, reference) = (self.range_ps, self.reference);
        self.sources[source.index()].looked_at += 1;
        if source.index() == reference {
            for watched in self.sources.iter_mut().filter(|watched| !watched.recent.is_empty()) {
                let Watched { recent, counts, .. } = watched;
                let pairs = recent.iter().map(|other| count(counts, other - time_ps, range_ps)).sum();
                watched.count_pairs(pairs, time_ps);
            }
        } else {
            let Ok([of_reference, own]) = self.sources.get_disjoint_mut([reference, source.index()]) else {
                return;
            };
            let counts = &mut own.counts;
            let pairs =
                of_reference.recent.iter().map(|other| count(counts, time_ps - other, range_ps)).sum();
            own.count_pairs(pairs, time_ps);
        }
        let recent = &mut self.sources[source.index()].recent;
        while recent.front().is_some_and(|first| time_ps - first > range_ps)
            || recent.len() == MOST_NEIGHBOURS
        {
            recent.pop_front();
        }
        recent.push_back(time_ps);
    }

    /// Closes an interval: looks for the peaks.
    fn conclude(&mut self) {
        let bin_ps = 2.0 * self.range_ps as f64 / BINS as f64;
        for (index, watched) in self.sources.iter_mut().enumerate() {
            watched.looked_at = 0;
            if index == self.reference {
                continue;
            }
            let found = peak::find(&watched.counts);
            watched.missed = found.is_none();
            if let Some(peak) = found {
                if watched.points.len() == MOST_POINTS {
                    watched.points.pop_front();
                }
                watched.points.push_back(Point {
                    time_s: watched.pair_times_s / watched.pairs.max(1) as f64,
                    offset_ps: peak.centroid * bin_ps - self.range_ps as f64,
                    error_ps: peak.error * bin_ps,
                });
            }
            watched.counts.fill(0);
            (watched.pairs, watched.pair_times_s) = (0, 0.0);
        }
    }

    /// What is known of each clock but the reference's.
    pub fn state(&self) -> Vec<ClockState> {
        let others = self.sources.iter().enumerate().filter(|(index, _)| *index != self.reference);
        others.map(|(_, watched)| self.state_of(watched)).collect()
    }

    fn state_of(&self, watched: &Watched) -> ClockState {
        let (latest, line) = (watched.points.back(), line(&watched.points));
        ClockState {
            source: watched.name.clone(),
            reference: self.sources[self.reference].name.clone(),
            offset_ps: latest.map(|point| point.offset_ps),
            offset_error_ps: latest.map(|point| point.error_ps),
            drift_ppb: line.map(|(slope, _)| slope * 1e-3),
            offset_at_start_ps: line.map(|(_, at_start_ps)| at_start_ps),
            locked: !watched.missed && latest.is_some_and(|point| point.offset_ps.abs() <= self.tolerance_ps),
            measured_at_s: latest.map(|point| point.time_s),
        }
    }
}

/// Counts a pair, if it is one: how many.
#[inline]
fn count(counts: &mut [u32], difference_ps: i64, range_ps: i64) -> u64 {
    let is_pair = difference_ps.abs() < range_ps;
    if is_pair {
        let bin = (difference_ps + range_ps) as u64 * BINS as u64 / (2 * range_ps) as u64;
        counts[bin as usize] += 1;
    }
    u64::from(is_pair)
}

/// The line of least squares: its slope, picoseconds per second, and its offset at run start, picoseconds.
fn line(points: &VecDeque<Point>) -> Option<(f64, f64)> {
    if points.len() < 2 {
        return None;
    }
    let weight = |point: &Point| 1.0 / (point.error_ps * point.error_ps).max(1e-6);
    let sum: f64 = points.iter().map(weight).sum();
    let mean =
        |of: fn(&Point) -> f64| points.iter().map(|point| weight(point) * of(point)).sum::<f64>() / sum;
    let (time, offset) = (mean(|point| point.time_s), mean(|point| point.offset_ps));
    let both = points
        .iter()
        .map(|point| weight(point) * (point.time_s - time) * (point.offset_ps - offset))
        .sum::<f64>();
    let spread = points.iter().map(|point| weight(point) * (point.time_s - time).powi(2)).sum::<f64>();
    (spread > 0.0).then(|| (both / spread, offset - both / spread * time))
}
