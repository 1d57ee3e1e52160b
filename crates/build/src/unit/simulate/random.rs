//! Chance on one seed: the same numbers on every machine.
//!
//! ```text
//!  seed ─► Random ─► below(n), between(a, b), chance(1 in n)
//! ```

/// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to choose what goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// From 0 to below `limit`; 0 of 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `times`; never of 0.
    pub fn once_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }
}
