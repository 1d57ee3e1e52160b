//! A bad network, from a seed: datagrams that are lost, doubled, delayed and so out of order.
//!
//! ```text
//!  a datagram ─► BadNetwork ─► 0, 1 or 2 copies, each at once or after a delay
//! ```

use std::time::Duration;

/// What happens to datagrams, each in thousandths of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Never arrive.
    pub lost: u32,
    /// Arrive twice.
    pub doubled: u32,
    /// Copies that arrive late, up to `most_delay`, behind others that were sent after them.
    pub delayed: u32,
    /// The longest delay.
    pub most_delay: Duration,
}

/// Steps of Knuth's MMIX generator: good enough for fates.
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, most: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(most)) as u32
    }
}

impl Faults {
    /// Whether every datagram arrives once and in time.
    pub(crate) fn is_none(&self) -> bool {
        (self.lost, self.doubled) == (0, 0) && (self.delayed == 0 || self.most_delay.is_zero())
    }
}

/// A network that does this to datagrams.
#[derive(Clone, Debug)]
pub(crate) struct BadNetwork {
    faults: Faults,
    chance: Chance,
}

impl BadNetwork {
    pub(crate) fn new(seed: u64, faults: Faults) -> BadNetwork {
        BadNetwork { faults, chance: Chance(seed) }
    }

    /// The copies of one datagram that arrive, and how late each does; `None` of one that comes at once.
    pub(crate) fn copies(&mut self) -> impl Iterator<Item = Option<Duration>> {
        let Faults { lost, doubled, delayed, most_delay } = self.faults;
        let copies = match self.chance.below(1000) {
            fate if fate < lost => 0,
            fate if fate < lost + doubled => 2,
            _ => 1,
        };
        (0..copies).map(move |_| {
            let is_delayed = self.chance.below(1000) < delayed;
            is_delayed.then(|| most_delay * self.chance.below(1000) / 1000)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_no_datagram_has_is_no_fault() {
        let most_delay = Duration::from_millis(1);
        assert!(Faults::default().is_none() && Faults { most_delay, ..Faults::default() }.is_none());
        assert!(!Faults { delayed: 1, most_delay, ..Faults::default() }.is_none());
        assert!(!Faults { lost: 1, ..Faults::default() }.is_none());
    }
}
