//! How a figure is measured: a subject and its baseline, interleaved in one run.
//!
//! ```text
//!  baseline · subject · baseline · subject · …  ──►  medians, and the median of the pairwise ratios
//! ```
//! Machines are shared and change their speed; what lies next to each other in time is compared.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// What a figure is a time of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The time that passes.
    #[default]
    Wall,
    /// The processor time of the thread, or threads, that are measured: waiting does not count.
    Processor,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clock::Wall => "wall clock",
            Clock::Processor => "processor time",
        })
    }
}

/// One figure, as `thalweg bench NAME --json` prints it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measurement {
    /// Name of the bench.
    pub bench: String,
    /// The figure: median over the repeats.
    pub value: f64,
    /// Its unit, such as `hits/s`.
    pub unit: String,
    /// What it is held against, in words.
    pub baseline: String,
    /// The baseline's figure in the same unit.
    pub baseline_value: f64,
    /// Median of the pairwise ratios `value / baseline_value`.
    pub ratio: f64,
    /// Lowest and highest of these ratios; `None` where there are no pairs.
    pub ratio_range: Option<[f64; 2]>,
    /// What was timed.
    pub clock: Clock,
    /// Cores that the subject used.
    pub cores: usize,
    /// Sizes, rates, counts.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Counted repeats; one more came first and was not counted.
    pub repeats: usize,
}

/// Medians of an interleaved comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median time of the subject, seconds.
    pub subject_s: f64,
    /// Median time of the baseline, seconds.
    pub baseline_s: f64,
    /// Median of `baseline / subject`, pair by pair: above 1 the subject is faster.
    pub speed_ratio: f64,
    /// Lowest and highest of these ratios.
    pub ratio_range: [f64; 2],
    /// What was timed.
    pub clock: Clock,
}

/// Runs both `repeats` times in turn, after one turn that is not counted. Each returns the time that counts, taken with `clock`.
pub fn compare(
    clock: Clock,
    repeats: usize,
    mut subject: impl FnMut() -> Duration,
    mut baseline: impl FnMut() -> Duration,
) -> Comparison {
    let (mut subjects, mut baselines, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..=repeats.max(1) {
        let (yard, own) = (baseline().as_secs_f64(), subject().as_secs_f64());
        if turn > 0 {
            subjects.push(own);
            baselines.push(yard);
            ratios.push(yard / own);
        }
    }
    Comparison {
        subject_s: median(&mut subjects),
        baseline_s: median(&mut baselines),
        speed_ratio: median(&mut ratios),
        ratio_range: range(&ratios),
        clock,
    }
}

/// The lowest and the highest value.
pub fn range(values: &[f64]) -> [f64; 2] {
    let all = values.iter().copied();
    [all.clone().fold(f64::INFINITY, f64::min), all.fold(f64::NEG_INFINITY, f64::max)]
}

/// Touches so many bytes of memory and gives them back, so that what is timed next finds them there.
///
/// A virtual machine whose balloon reports free pages hands memory to its host within seconds of its being freed (Linux:
/// `free page reporting`), and the first touch of it then costs about twice as much. Files in memory
/// are such first touches from end to end: without this, a bench of them tells where the host's pages were. The kernel may
/// still take some back while the bench runs, which is what medians are for.
pub fn warm_memory(bytes: usize) {
    drop(std::hint::black_box(vec![1u8; bytes]));
}

/// A page of memory as the benches take it, bytes. The speed of a copy depends on where both of its ends lie in their pages.
pub const PAGE_BYTES: usize = 4096;

/// How far into `buffer` a copy of `source` has to begin so that both lie half a page apart, by their positions in a page; less than
/// [`PAGE_BYTES`], by which `buffer` has to be longer than `source`.
///
/// Processors whose string move is microcoded copy at a fifth of their speed where the destination lies up to some
/// hundred bytes ahead of the source within a page (AMD Zen 3 and 4; glibc bug 30994). A copy that others are held against must not be that one.
pub fn half_a_page_apart(buffer: &[u8], source: &[u8]) -> usize {
    let apart = buffer.as_ptr().addr().wrapping_sub(source.as_ptr().addr());
    (PAGE_BYTES / 2).wrapping_sub(apart) % PAGE_BYTES
}

/// The middle value; of an even number, the mean of the two in the middle; NaN of none. Sorts them.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this fraction of all lies (0.99: p99), exact: between two neighbours by proportion; NaN of none. Sorts them.
pub fn quantile(values: &mut [f64], fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let place = fraction.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
    if below == above { below } else { below + place.fract() * (above - below) }
}

impl Measurement {
    /// A figure of `amount` units of work per turn, from a comparison in which both did that amount.
    pub fn of_rate(
        bench: &str,
        unit: &str,
        amount: f64,
        baseline: &str,
        comparison: Comparison,
    ) -> Measurement {
        Measurement {
            bench: bench.to_owned(),
            value: amount / comparison.subject_s,
            unit: unit.to_owned(),
            baseline: baseline.to_owned(),
            baseline_value: amount / comparison.baseline_s,
            ratio: comparison.speed_ratio,
            ratio_range: Some(comparison.ratio_range),
            clock: comparison.clock,
            cores: 1,
            parameters: BTreeMap::new(),
            repeats: 0,
        }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Measurement {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// Sets how often it was repeated.
    #[must_use]
    pub fn repeated(mut self, repeats: usize) -> Measurement {
        self.repeats = repeats;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_begins_half_a_page_from_its_source() {
        let (buffer, source) = (vec![0u8; 3 * PAGE_BYTES], vec![0u8; PAGE_BYTES]);
        for start in [0, 1, 16, 100, 4000] {
            let at = half_a_page_apart(&buffer, &source[start..]);
            let places = [&buffer[at..], &source[start..]].map(|bytes| bytes.as_ptr().addr() % PAGE_BYTES);
            assert!(at < PAGE_BYTES && places[0].abs_diff(places[1]) == PAGE_BYTES / 2, "{start}: {at}");
        }
    }

    #[test]
    fn the_ratio_is_taken_pair_by_pair() {
        let mut speed = [1.0, 1.0, 3.0].into_iter().cycle();
        let mut again = [1.0, 1.0, 3.0].into_iter().cycle();
        let compared = compare(
            Clock::Wall,
            5,
            || Duration::from_secs_f64(speed.next().expect("endless")),
            || Duration::from_secs_f64(2.0 * again.next().expect("endless")),
        );
        assert!((compared.speed_ratio - 2.0).abs() < 1e-9);
        assert!(compared.ratio_range.iter().all(|ratio| (ratio - 2.0).abs() < 1e-9));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
        assert_eq!(median(&mut [f64::INFINITY; 2]), f64::INFINITY);
    }

    #[test]
    fn percentiles_lie_between_the_least_and_the_most() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|at| quantile(&mut values, at)), [0.0, 50.0, 99.0, 100.0]);
        assert_eq!(quantile(&mut [2.0, 1.0], 0.99), 1.99);
        assert_eq!([0.0, 0.99, 1.0].map(|at| quantile(&mut [7.0], at)), [7.0; 3]);
        assert!(quantile(&mut [], 0.99).is_nan());
    }
}
