//! A bad network, driven by a seed: it loses, duplicates and delays datagrams, and so reorders them.
//!
//! ```text
//!  a datagram ─► BadNetwork ─► 0, 1 or 2 copies, each at once or after a delay
//! ```

use std::time::Duration;

/// Faults of a network; the rates are in thousandths of the datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Datagrams that are lost.
    pub lost: u32,
    /// Datagrams that arrive twice.
    pub doubled: u32,
    /// Datagrams that arrive late, by up to `most_delay`, possibly after later ones.
    pub delayed: u32,
    /// The longest delay.
    pub most_delay: Duration,
}

/// Knuth's MMIX random number generator, which is good enough for choosing faults.
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

/// A network with these faults.
#[derive(Clone, Debug)]
pub(crate) struct BadNetwork {
    faults: Faults,
    chance: Chance,
}

impl BadNetwork {
    pub(crate) fn new(seed: u64, faults: Faults) -> BadNetwork {
        BadNetwork { faults, chance: Chance(seed) }
    }

    /// The delay of each copy of a datagram that arrives; `None` for a copy without a delay.
    pub(crate) fn copies(&mut self) -> impl Iterator<Item = Option<Duration>> {
        let Faults { lost, doubled, delayed, most_delay } = self.faults;
        let copies = match self.chance.below(1000) {
            draw if draw < lost => 0,
            draw if draw < lost + doubled => 2,
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
    fn a_delay_without_delayed_datagrams_is_not_a_fault() {
        let most_delay = Duration::from_millis(1);
        assert!(Faults::default().is_none() && Faults { most_delay, ..Faults::default() }.is_none());
        assert!(!Faults { delayed: 1, most_delay, ..Faults::default() }.is_none());
        assert!(!Faults { lost: 1, ..Faults::default() }.is_none());
    }
}
