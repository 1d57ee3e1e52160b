//! Which of the rejected events are recorded all the same.
//!
//! ```text
//!  trigger number ─► hash ─► below 2⁶⁴ / prescale? ─► recorded for monitoring
//! ```
//! A counter would choose by the order in which events happen to come. The hash chooses the same events however many filters, workers and
//! attempts there are, and in a replay; and periodic triggers cannot be in step with it.

use thalweg_data::range::mix;

/// What a trigger number is multiplied with: 2⁶⁴ by the golden ratio, as in SplitMix64. Without it trigger 0 would have the hash 0.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Chooses one rejected event in so many by its trigger number.
///
/// ```
/// use thalweg_analysis::event_filter::Prescale;
///
/// let one_in_a_hundred = Prescale::new(100);
/// let chosen: Vec<u64> = (0..500).filter(|trigger| one_in_a_hundred.takes(*trigger)).collect();
/// assert_eq!(chosen, [203, 254, 366, 410]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prescale(u64);

impl Prescale {
    /// One in this many; 0: none.
    pub const fn new(one_in: u64) -> Prescale {
        Prescale(one_in)
    }

    /// Whether a rejected event of this trigger is recorded. The events of a prescale are among those of any smaller one but 0.
    #[inline]
    pub fn takes(self, trigger: u64) -> bool {
        let hash = u128::from(mix(trigger.wrapping_add(1).wrapping_mul(GOLDEN)));
        // hash / 2⁶⁴ < 1 / prescale, without rounding.
        self.0 > 0 && (hash * u128::from(self.0)) >> 64 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(one_in: u64, triggers: impl Iterator<Item = u64>) -> Vec<u64> {
        triggers.filter(|trigger| Prescale::new(one_in).takes(*trigger)).collect()
    }

    #[test]
    fn one_in_so_many_is_chosen_of_consecutive_and_of_periodic_triggers() {
        const TRIGGERS: u64 = 200_000;
        for one_in in [2, 3, 7, 10, 64, 100, 1000] {
            for (start, stride) in
                [(0, 1), (1, 2), (0, one_in), (5, 64), (1 << 40, 100), (0, 1 << 32), (u64::MAX / 2, 1 << 44)]
            {
                let numbers = (0..TRIGGERS).map(|number| start + number * stride);
                let found = chosen(one_in, numbers).len() as f64;
                let (count, probability) = (TRIGGERS as f64, 1.0 / one_in as f64);
                let sigma = (count * probability * (1.0 - probability)).sqrt();
                let off = (found - count * probability) / sigma;
                assert!(
                    off.abs() < 5.0,
                    "1 in {one_in}, from {start} by {stride}: {found}, {off:.1} sigma off"
                );
            }
        }
    }

    #[test]
    fn distances_between_chosen_triggers_have_no_period() {
        const ONE_IN: u64 = 10;
        let found = chosen(ONE_IN, 0..1_000_000);
        let gaps = found.windows(2).map(|pair| pair[1] - pair[0]);
        // Of independent choices, one gap in ten is 1, and the squares of the gaps have the mean (2 - p) / p².
        let (mut ones, mut squares) = (0.0, 0.0);
        gaps.for_each(|gap| {
            ones += f64::from(u8::from(gap == 1));
            squares += (gap * gap) as f64;
        });
        let count = found.len() as f64;
        assert!((ones / count - 0.1).abs() < 0.005, "{}", ones / count);
        assert!((squares / count - 190.0).abs() < 8.0, "{}", squares / count);
    }

    #[test]
    fn a_larger_prescale_chooses_among_the_events_of_a_smaller_one() {
        let (few, many) = (chosen(99, 0..50_000), chosen(10, 0..50_000));
        assert!(few.iter().all(|trigger| many.binary_search(trigger).is_ok()));
    }

    #[test]
    fn none_is_chosen_by_0_and_every_one_by_1() {
        for trigger in (0..1000).chain(u64::MAX - 1000..=u64::MAX) {
            assert!(!Prescale::new(0).takes(trigger) && Prescale::new(1).takes(trigger), "{trigger}");
        }
        assert_eq!(chosen(u64::MAX, 0..100_000), [0; 0]);
    }

    #[test]
    fn the_choice_is_that_of_earlier_versions() {
        assert_eq!(chosen(100, 0..1000), [203, 254, 366, 410, 503, 543, 566, 821, 930, 986]);
    }
}
