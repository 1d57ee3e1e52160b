//! Which trigger numbers are taken: short numbers made long, and how far ahead one source may be of the others.
//!
//! ```text
//!          late │ taken                            │ deferred: too early, until others get there
//!  ─────────────┼──────────────────────────────────┼─────────────────────────┬───────────────────► trigger
//!             base    second-fastest source ─ ½ depth ─►                base + 2 depth: a jump, deferred until
//!                                                                       a second source agrees, else out of window
//! ```
//! A number of n bits stands for the extended number that is nearest to the window's base.

/// Signed distance from `near` to the nearest number that ends in `raw`; `shift` is 64 less the width of raw numbers.
#[inline(always)]
pub(super) fn distance(raw: u64, near: u64, shift: u32) -> i64 {
    (raw.wrapping_sub(near) << shift) as i64 >> shift
}

/// How far the two sources are that are furthest ahead. Behind-the-last numbers; 0 is nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lead {
    first: u64,
    holder: usize,
    second: u64,
}

impl Lead {
    /// Notes that `source` has answered `trigger`; returns whether the second place has moved.
    #[inline(always)]
    pub fn note(&mut self, source: usize, trigger: u64) -> bool {
        let behind = trigger + 1;
        behind > self.second && self.overtake(source, behind)
    }

    #[inline]
    fn overtake(&mut self, source: usize, behind: u64) -> bool {
        if source == self.holder {
            self.first = self.first.max(behind);
            return false;
        }
        if behind > self.first {
            (self.second, self.first, self.holder) = (self.first, behind, source);
        } else {
            self.second = behind;
        }
        true
    }

    /// Behind the last number that a single source may give: half a depth ahead of the second-fastest, or of the base.
    pub fn limit(&self, base: u64, depth: u64, alone: bool) -> u64 {
        if alone { u64::MAX } else { self.second.max(base) + depth / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_the_nearest() {
        let extended = |raw, near: u64, bits: u32| near.wrapping_add_signed(distance(raw, near, 64 - bits));
        assert_eq!(extended(2, 65_534, 16), 65_538);
        assert_eq!(extended(65_535, 65_538, 16), 65_535);
        assert_eq!(extended(0xFE, 0x1_0000_0003, 8), 0xFFFF_FFFE);
        assert_eq!(distance(5, 9, 0), -4);
    }

    #[test]
    fn one_source_alone_does_not_move_the_limit() {
        let mut lead = Lead::default();
        assert!(lead.note(1, 4));
        assert!(lead.note(2, 5));
        assert!(!lead.note(2, 900));
        assert_eq!(lead.limit(0, 16, false), 5 + 8);
        assert!(lead.note(1, 6));
        assert!(lead.note(0, 7));
        assert!(!lead.note(1, 7), "nobody is overtaken");
        assert_eq!(lead.limit(0, 16, false), 8 + 8);
        assert!(lead.note(0, 950));
        assert_eq!(lead.limit(0, 16, false), 901 + 8);
        assert_eq!(lead.limit(0, 16, true), u64::MAX);
    }
}
