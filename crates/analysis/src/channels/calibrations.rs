//! The calibrations of all channels, as they are computed hit by hit.
//!
//! ```text
//!  row ─► c₀ c₁ … ; as many terms as the longest of them has ─► keV
//! ```

use std::sync::Arc;

use super::map::{COEFFICIENTS, Channel};

/// Polynomials by row of the channel map, with a last row for channels that have none.
#[derive(Clone, Debug)]
pub struct Calibrations {
    of: Box<[[f64; COEFFICIENTS]]>,
    terms: usize,
    /// The first two coefficients of each, when nobody has more.
    lines: Option<Arc<[Line]>>,
}

/// A straight line from a measured energy to keV.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    constant: f64,
    slope: f64,
}

impl Line {
    /// A measured energy in keV.
    #[inline(always)]
    pub fn kev(self, energy: u16) -> f64 {
        self.slope * f64::from(energy) + self.constant
    }
}

impl Calibrations {
    pub(super) fn new(channels: &[Channel]) -> Calibrations {
        const NONE: [f64; COEFFICIENTS] = [f64::NAN; COEFFICIENTS];
        let of = channels.iter().map(|channel| channel.energy_kev.unwrap_or(NONE)).chain([NONE]);
        let of: Box<[[f64; COEFFICIENTS]]> = of.collect();
        let terms_of =
            |given: &[f64; COEFFICIENTS]| given.iter().rposition(|each| *each != 0.0 && !each.is_nan());
        let terms = of.iter().filter_map(terms_of).max().map_or(1, |last| last + 1);
        let line = |given: &[f64; COEFFICIENTS]| Line { constant: given[0], slope: given[1] };
        let lines = (terms <= 2).then(|| of.iter().map(line).collect());
        Calibrations { of, terms, lines }
    }

    /// Whether the channel in this row has one.
    pub fn has(&self, row: usize) -> bool {
        !self.of[row][0].is_nan()
    }

    /// All of them by row, when all are straight lines, as most are.
    #[inline(always)]
    pub fn lines(&self) -> Option<&Arc<[Line]>> {
        self.lines.as_ref()
    }

    /// A measured energy of the channel in this row in keV; not a number when it is not calibrated.
    #[inline(always)]
    pub fn kev(&self, row: usize, energy: u16) -> f64 {
        match &self.lines {
            Some(lines) => lines[row].kev(energy),
            None => {
                let terms = self.of[row][..self.terms].iter().rev();
                terms.fold(0.0, |sum, each| sum * f64::from(energy) + each)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::SourceId;

    use crate::channels::{ChannelMap, ChannelSettings, SourceChannels};

    #[test]
    fn polynomials_of_every_length_are_computed_term_by_term() {
        let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 0..=2 };
        for longest in [vec![1.5], vec![0.5, 0.1], vec![0.5, 0.1, 1e-6, 1e-11]] {
            let of = |number, energy_kev: &[f64]| ChannelSettings {
                number,
                energy_kev: Some(energy_kev.to_vec()),
                ..ChannelSettings::default()
            };
            let described = [of(0, &[2.0]), of(1, &longest)];
            let map = ChannelMap::new(std::slice::from_ref(&board), &described, &[]).expect("valid");
            for energy in [0, 1, 1000, u16::MAX] {
                let powers =
                    longest.iter().zip(0..).map(|(each, power)| each * f64::from(energy).powi(power));
                let expected = powers.sum::<f64>();
                assert!((map.kev(1, energy) - expected).abs() <= 1e-12 * expected);
                assert_eq!(map.kev(0, energy), 2.0);
                assert!(map.kev(2, energy).is_nan() && map.kev(900, energy).is_nan());
            }
        }
    }
}
