//! A small energy histogram for the list of runs.
//!
//! ```text
//!  energy spectra of all channels ─► sum ─► cut behind the last counts worth seeing ─► ninety-odd bins
//! ```

use thalweg_analysis::spectrum::{Kind, SpectrumSet};

/// Bins of a preview, at most.
const BINS: usize = 96;
/// Shares of counts that lie above what is shown: the few highest energies would make everything else narrow.
const ABOVE: u64 = 200;

/// Counts of all channels together over energy; `None` where there is no energy spectrum or nothing in it.
pub(crate) fn preview(set: &SpectrumSet) -> Option<Vec<u64>> {
    let first = set.spectra().iter().find(|info| info.kind == Kind::Energy)?;
    let alike = set.spectra().iter().filter(|info| info.kind == Kind::Energy && info.at == first.at);
    let mut sum = vec![0_u64; first.bins()];
    let mut counts = Vec::new();
    for info in alike {
        set.read(info.id, &mut counts).ok()?;
        sum.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
    }
    small(&sum)
}

/// The part that holds nearly all counts, its bins joined to no more than [`BINS`].
fn small(counts: &[u64]) -> Option<Vec<u64>> {
    let total: u64 = counts.iter().sum();
    let mut above = 0;
    let last = counts.iter().rposition(|count| {
        above += count;
        above > total / ABOVE
    })?;
    let joined = (last + 1).div_ceil(BINS);
    Some(counts[..=last].chunks(joined).map(|bins| bins.iter().sum()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_preview() {
        assert_eq!(small(&[0; 4096]), None);
        assert_eq!(small(&[]), None);
    }

    #[test]
    fn nearly_all_counts_are_in_few_bins() {
        let mut counts = vec![10_u64; 1000];
        counts.resize(4096, 0);
        counts[4000] = 1;
        let found = small(&counts).expect("counts");
        assert!(found.len() <= BINS && found.len() > BINS / 2, "{}", found.len());
        let shown: u64 = found.iter().sum();
        assert!((9900..=10_000).contains(&shown), "{shown}");
    }

    #[test]
    fn few_counts_are_all_shown() {
        assert_eq!(small(&[0, 3, 0, 1, 0]), Some(vec![0, 3, 0, 1]));
    }
}
