//! Finds the coincidence peak in a histogram of time differences.
//!
//! ```text
//!  counts          ╭╮
//!   ──────────────╯╰──────────   chance coincidences lie flat beneath
//!                  └ centroid ± error
//! ```

/// How far above chance a peak stands, in standard deviations, to be one.
const SIGNIFICANT: f64 = 6.0;

/// A peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Peak {
    /// In bins from the first one's beginning.
    pub centroid: f64,
    /// Standard deviation of the centroid, in bins.
    pub error: f64,
}

/// The highest peak, if it is one.
pub(super) fn find(counts: &[u32]) -> Option<Peak> {
    let (highest, _) = counts.iter().enumerate().max_by_key(|(_, count)| **count)?;
    let mut sorted: Vec<u32> = counts.to_vec();
    sorted.sort_unstable();
    let chance = f64::from(sorted[sorted.len() / 2]);
    let half = f64::from(counts[highest]).midpoint(chance);
    let is_high = |bin: &usize| f64::from(counts[*bin]) > half;
    let first = (0..=highest).rev().take_while(is_high).last().unwrap_or(highest);
    let last = (highest..counts.len()).take_while(is_high).last().unwrap_or(highest);
    // Twice the width at half height holds all but a percent of a bell.
    let reach = (last - first + 1).max(2);
    let (from, until) = (first.saturating_sub(reach), (last + reach + 1).min(counts.len()));
    let bins = counts[from..until].iter().enumerate();
    let (mut net, mut sum, mut first_moment, mut second_moment) = (0.0, 0.0, 0.0, 0.0);
    for (bin, count) in bins {
        let (place, above) = ((from + bin) as f64 + 0.5, f64::from(*count) - chance);
        net += above;
        sum += f64::from(*count);
        first_moment += above * place;
        second_moment += above * place * place;
    }
    let background = chance * (until - from) as f64;
    if net <= 0.0 || net < SIGNIFICANT * background.max(1.0).sqrt() || net < 20.0 {
        return None;
    }
    let centroid = first_moment / net;
    let variance = (second_moment / net - centroid * centroid).max(1.0 / 12.0);
    Some(Peak { centroid, error: (variance * sum).sqrt() / net })
}
