//! The calibrations of all channels, as they are computed hit by hit.
//!
//! ```text
//!  row ─► c₀ c₁ … ; as many terms as the longest of them has ─► keV
//! ```

use crate::channels::{COEFFICIENTS, ChannelMap};

/// Polynomials by row of the channel map. The same numbers as [`ChannelMap::kev`], without what it looks up for one hit.
#[derive(Debug)]
pub(super) struct Calibrations {
    of: Box<[[f64; COEFFICIENTS]]>,
    terms: usize,
}

impl Calibrations {
    pub fn new(map: &ChannelMap) -> Calibrations {
        // Without a calibration: not a number.
        let of = map.channels().iter().map(|channel| channel.energy_kev.unwrap_or([f64::NAN; COEFFICIENTS]));
        let of: Box<[[f64; COEFFICIENTS]]> = of.collect();
        let terms_of =
            |given: &[f64; COEFFICIENTS]| given.iter().rposition(|each| *each != 0.0 && !each.is_nan());
        let terms = of.iter().filter_map(terms_of).max().map_or(1, |last| last + 1);
        Calibrations { of, terms }
    }

    #[inline(always)]
    pub fn kev(&self, row: usize, energy: u16) -> f32 {
        let (given, energy) = (&self.of[row], f64::from(energy));
        // Most calibrations are straight lines.
        match self.terms {
            0..=2 => (given[1] * energy + given[0]) as f32,
            terms => given[..terms].iter().rev().fold(0.0, |sum, each| sum * energy + each) as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::SourceId;

    use super::*;
    use crate::channels::{ChannelSettings, SourceChannels};

    #[test]
    fn the_same_numbers_as_the_map_gives() {
        let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 0..=2 };
        for longest in [vec![1.5], vec![0.5, 0.1], vec![0.5, 0.1, 1e-6, 1e-11]] {
            let of = |number, energy_kev: &[f64]| ChannelSettings {
                number,
                energy_kev: Some(energy_kev.to_vec()),
                ..ChannelSettings::default()
            };
            let described = [of(0, &[2.0]), of(1, &longest)];
            let map = ChannelMap::new(std::slice::from_ref(&board), &described, &[]).expect("valid");
            let calibrations = Calibrations::new(&map);
            for energy in [0, 1, 1000, u16::MAX] {
                for channel in 0..2 {
                    assert_eq!(calibrations.kev(usize::from(channel), energy), map.kev(channel, energy));
                }
                assert!(calibrations.kev(2, energy).is_nan());
            }
        }
    }
}
