//! Comparisons of calibrated energies with a number, answered by the measured energy.
//!
//! ```text
//!  keV > 100, a straight line for each channel   ──►   by channel: measured energies from 995 to 65535
//! ```
//! Along a straight line, the energies of which such a comparison is true are neighbours. They are found once, by the same arithmetic as
//! that of a single hit, so that no energy gets another answer.

use std::sync::Arc;

use thalweg_data::{Flags, Hit};

use super::evaluate::CHUNK;
use super::program::Relation;
use crate::channels::{ChannelMap, Line, by_channel};

/// A comparison of `keV` with numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KevComparison {
    Of(Relation, f64),
    /// Both ends are within.
    Within(f64, f64),
}

/// Energies of one channel, both ends included; of none if the first is behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EnergyRange {
    first: u16,
    last: u16,
}

const NONE: EnergyRange = EnergyRange { first: 1, last: 0 };

/// The energies of which a comparison is true, for one set of calibrations.
#[derive(Clone, Debug)]
pub(super) struct KevRanges {
    pub comparison: KevComparison,
    /// Of these lines.
    lines: Option<Arc<[Line]>>,
    /// By channel: whoever asks need not ask for its row.
    ranges: Option<Box<[EnergyRange; 1 << 16]>>,
}

impl KevComparison {
    /// Whether it is asked of neighbours along a straight line: those that are equal to a number can be anywhere.
    pub fn of_neighbours(relation: Relation, number: f64) -> Option<KevComparison> {
        let is_of_neighbours = !matches!(relation, Relation::Equal | Relation::NotEqual);
        is_of_neighbours.then_some(KevComparison::Of(relation, number))
    }

    /// Its answer for one energy in keV, in the precision of the whole expression.
    #[inline(always)]
    pub fn holds(self, kev: f64, is_long: bool) -> bool {
        let rounded = |number: f64| if is_long { number } else { f64::from(number as f32) };
        let kev = rounded(kev);
        match self {
            KevComparison::Of(relation, number) => relation.holds(kev, rounded(number)),
            KevComparison::Within(low, high) => (kev >= rounded(low)) & (kev <= rounded(high)),
        }
    }

    fn range(self, line: Line, is_long: bool) -> EnergyRange {
        match self {
            KevComparison::Of(..) => monotonic(|energy| self.holds(line.kev(energy), is_long)),
            KevComparison::Within(low, high) => {
                let above = KevComparison::Of(Relation::GreaterOrEqual, low).range(line, is_long);
                let below = KevComparison::Of(Relation::LessOrEqual, high).range(line, is_long);
                EnergyRange { first: above.first.max(below.first), last: above.last.min(below.last) }
            }
        }
    }
}

/// The energies of which something is true that changes at most once from the lowest to the highest.
fn monotonic(is_true: impl Fn(u16) -> bool) -> EnergyRange {
    let changes_at = |to: bool| {
        let (mut low, mut high) = (0, u16::MAX);
        while low < high {
            let middle = low.midpoint(high);
            (low, high) = if is_true(middle) == to { (low, middle) } else { (middle + 1, high) };
        }
        low
    };
    match (is_true(0), is_true(u16::MAX)) {
        (true, true) => EnergyRange { first: 0, last: u16::MAX },
        (true, false) => EnergyRange { first: 0, last: changes_at(false) - 1 },
        (false, true) => EnergyRange { first: changes_at(true), last: u16::MAX },
        (false, false) => NONE,
    }
}

impl KevRanges {
    pub fn new(comparison: KevComparison) -> KevRanges {
        KevRanges { comparison, lines: None, ranges: None }
    }

    /// From now on by the calibrations of this map.
    #[inline]
    pub fn follow(&mut self, map: &ChannelMap, is_long: bool) {
        let is_same = match (&self.lines, map.calibrations().lines()) {
            (Some(own), Some(lines)) => Arc::ptr_eq(own, lines),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            self.find(map, is_long);
        }
    }

    #[cold]
    fn find(&mut self, map: &ChannelMap, is_long: bool) {
        self.lines = map.calibrations().lines().cloned();
        self.ranges = self.lines.as_ref().map(|lines| {
            let mut ranges = by_channel(NONE);
            for (channel, line) in map.channels().iter().zip(lines.iter()) {
                ranges[usize::from(channel.number)] = self.comparison.range(*line, is_long);
            }
            ranges
        });
    }

    /// Answers for each of at most [`CHUNK`] hits, 1 or 0. `false` where a calibration is no straight line: nothing is answered then.
    #[inline(always)]
    pub fn answer(&self, hits: &[Hit], answers: &mut [u8]) -> bool {
        let Some(ranges) = self.ranges.as_deref() else { return false };
        // Looked up one by one, and compared many at once: in one loop, all would be one by one.
        let mut found = [NONE; CHUNK];
        found.iter_mut().zip(hits).for_each(|(found, hit)| *found = ranges[usize::from(hit.channel)]);
        for (answer, (hit, range)) in answers.iter_mut().zip(hits.iter().zip(&found)) {
            let is_inside = (range.first <= hit.energy) & (hit.energy <= range.last);
            *answer = u8::from(is_inside & !hit.flags.has(Flags::NO_ENERGY));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::channels::{ChannelSettings, SourceChannels};
    use crate::cut::{Expression, Scope};
    use thalweg_data::SourceId;

    fn map(energy_kev: Vec<f64>) -> ChannelMap {
        let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 0..=1 };
        let described =
            ChannelSettings { number: 0, energy_kev: Some(energy_kev), ..ChannelSettings::default() };
        ChannelMap::new(&[board], &[described], &[]).expect("valid")
    }

    fn comparison() -> impl Strategy<Value = String> {
        let number = prop_oneof![-10.0..7000.0f64, (0u32..7000).prop_map(f64::from)];
        let relation = prop_oneof![Just("<"), Just("<="), Just(">"), Just(">="), Just("=="), Just("!=")];
        let of =
            (relation, number.clone()).prop_map(|(relation, number)| format!("keV {relation} {number:.3}"));
        let within = (number.clone(), number)
            .prop_map(|(low, high)| format!("keV in [{:.3}, {:.3}]", low.min(high), low.max(high)));
        prop_oneof![of, within]
    }

    proptest! {
        // Each case asks of every energy.
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// With `+ 0`, the comparison is none with a field alone, and is computed hit by hit.
        #[test]
        fn every_energy_has_the_answer_that_is_computed_hit_by_hit(
            text in comparison(), energy_kev in proptest::collection::vec(-0.2..0.2f64, 1..4), is_long: bool,
        ) {
            let long = if is_long { " && time >= 0" } else { "" };
            let parse = |text: &str| Expression::parse(&format!("{text}{long}"), Scope::Hit, &[]).expect("valid");
            let (mut by_range, mut by_hit) = (parse(&text), parse(&text.replace("keV", "keV + 0")));
            let hits: Vec<Hit> = (0..=u16::MAX).map(|energy| Hit { energy, ..Hit::default() }).collect();
            let foreign = Hit { channel: 900, energy: 500, ..Hit::default() };
            let rest = [Hit { channel: 1, ..foreign }, foreign, Hit { channel: 0, flags: Flags::NO_ENERGY, ..foreign }];
            let hits = [hits, rest.to_vec()].concat();
            // Another calibration behind the first: of straight lines and of longer polynomials, in turn.
            for energy_kev in [energy_kev, vec![0.5, 0.1], vec![0.5, 0.1, 1e-6], vec![7000.0, -0.1]] {
                let map = map(energy_kev);
                let (mut one, mut other) = (vec![2; hits.len()], vec![3; hits.len()]);
                by_range.evaluate_hits(&hits, &map, &mut one);
                by_hit.evaluate_hits(&hits, &map, &mut other);
                prop_assert_eq!(one.iter().position(|answer| *answer > 1), None);
                prop_assert!(one == other, "{} of {:?}", text, map.channels()[0].energy_kev);
            }
        }
    }
}
