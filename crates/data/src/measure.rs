//! How a figure is measured: a subject and its baseline, interleaved in one run.
//!
//! ```text
//!  baseline · subject · baseline · subject · …  ──►  medians, and the median of the pairwise ratios
//! ```
//! The speed of a shared machine changes with time, so each ratio is of two measurements that follow each other directly.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Which time is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Elapsed real time.
    #[default]
    Wall,
    /// Processor time of the measured threads, without the time in which they wait.
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

/// The result of one bench, as `thalweg bench NAME --json` prints it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measurement {
    /// Name of the bench.
    pub bench: String,
    /// The measured figure: the median over the repeats.
    pub value: f64,
    /// Its unit, such as `hits/s`.
    pub unit: String,
    /// Description of the baseline.
    pub baseline: String,
    /// The figure of the baseline, in the same unit.
    pub baseline_value: f64,
    /// Median of the pairwise ratios `value / baseline_value`.
    pub ratio: f64,
    /// Lowest and highest of these ratios; `None` if there are no pairs.
    pub ratio_range: Option<[f64; 2]>,
    /// Which time was measured.
    pub clock: Clock,
    /// Number of cores that the subject used.
    pub cores: usize,
    /// Parameters of the measurement: sizes, rates, counts.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Number of repeats that count; one warm-up before them does not.
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
    /// Which time was measured.
    pub clock: Clock,
}

/// Runs baseline and subject in turn, `repeats` times after one warm-up. Each call returns its time, measured with `clock`.
pub fn compare(
    clock: Clock,
    repeats: usize,
    mut subject: impl FnMut() -> Duration,
    mut baseline: impl FnMut() -> Duration,
) -> Comparison {
    let (mut subjects, mut baselines, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..=repeats.max(1) {
        let (baseline_s, subject_s) = (baseline().as_secs_f64(), subject().as_secs_f64());
        if turn > 0 {
            subjects.push(subject_s);
            baselines.push(baseline_s);
            ratios.push(baseline_s / subject_s);
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

/// Touches `bytes` bytes of memory and frees them, so that the next measurement does not pay for the first touch.
///
/// A virtual machine whose balloon reports free pages returns memory to its host within seconds of its being freed (Linux:
/// `free page reporting`), and the next touch of it costs about twice as much. Writing a file in memory touches every page for the
/// first time: without this call, a bench of such files measures the host's pages. The kernel may still return some memory while
/// the bench runs; the medians absorb that.
pub fn warm_memory(bytes: usize) {
    drop(std::hint::black_box(vec![1u8; bytes]));
}

/// The page size that the benches assume, bytes. The speed of a copy depends on the positions of source and destination in their pages.
pub const PAGE_BYTES: usize = 4096;

/// The offset in `buffer` at which a copy of `source` must begin so that the positions of both within a page differ by half a page. It is
/// less than [`PAGE_BYTES`], by which `buffer` must be longer than `source`.
///
/// Processors with a microcoded string move copy at a fifth of their speed if the destination is up to some hundred bytes ahead of the
/// source within a page (AMD Zen 3 and 4; glibc bug 30994). A copy that serves as a baseline must avoid this case.
pub fn half_a_page_apart(buffer: &[u8], source: &[u8]) -> usize {
    let apart = buffer.as_ptr().addr().wrapping_sub(source.as_ptr().addr());
    (PAGE_BYTES / 2).wrapping_sub(apart) % PAGE_BYTES
}

/// The median; for an even number of values, the mean of the two in the middle; NaN for none. Sorts `values`.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The quantile at `fraction` (0.99: p99), interpolated linearly between neighbouring values; NaN for none. Sorts `values`.
pub fn quantile(values: &mut [f64], fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let position = fraction.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (values[position.floor() as usize], values[position.ceil() as usize]);
    if below == above { below } else { below + position.fract() * (above - below) }
}

impl Measurement {
    /// A rate, from a comparison in which subject and baseline each did `amount` units of work per turn.
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

    /// Sets the number of repeats.
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
            let [to, from] =
                [&buffer[at..], &source[start..]].map(|bytes| bytes.as_ptr().addr() % PAGE_BYTES);
            assert!(at < PAGE_BYTES && to.abs_diff(from) == PAGE_BYTES / 2, "{start}: {at}");
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
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
        assert_eq!(median(&mut [f64::INFINITY; 2]), f64::INFINITY);
    }

    #[test]
    fn quantiles_interpolate_between_neighbouring_values() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|at| quantile(&mut values, at)), [0.0, 50.0, 99.0, 100.0]);
        assert_eq!(quantile(&mut [2.0, 1.0], 0.99), 1.99);
        assert_eq!([0.0, 0.99, 1.0].map(|at| quantile(&mut [7.0], at)), [7.0; 3]);
        assert!(quantile(&mut [], 0.99).is_nan());
    }
}
