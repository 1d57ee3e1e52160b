//! Which trigger numbers are taken: short numbers made long, and how far ahead one source may be of the others.
//!
//! ```text
//!          late │ taken                            │ deferred: too early, until others get there or a second one agrees
//!  ─────────────┼──────────────────────────────────┼─────────────────────────┬───────────────────► trigger
//!             base    second-fastest source ─ ½ depth ─►                base + 2 depth: a jump, deferred until
//!                                                                       a second source agrees, else out of window
//! ```
//! A number of n bits stands for the extended number that is nearest to the window's base. Of a source that is left alone, or is the only
//! one, the window ends half a depth ahead of itself: there is no other that could agree, and its numbers are followed beyond that once
//! several in a row are there.

use thalweg_data::Mark;

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

    /// Behind the last number that a single source may give: half a depth ahead of the second-fastest, or of the base. One that is `alone`
    /// has no second: its own numbers take the place.
    pub fn limit(&self, base: u64, depth: u64, alone: bool) -> u64 {
        let ahead = if alone { self.first } else { self.second };
        ahead.max(base) + depth / 2
    }
}

/// As many numbers of a source in a row, each further on than the one before, show that it has gone there: damaged numbers do not rise for
/// so long without a sound one between them.
const FEWEST_TO_FOLLOW: u32 = 8;

/// Copies of what was taken, in a row and with none but copies between them, at most, where they come in quick succession: several paths
/// deliver in bursts. More of them are of a trigger that has begun its numbers anew.
const LONGEST_RUN_OF_COPIES: u32 = 512;

/// Numbers of a source on one side of the window, or that it had sent before, since something of it was last taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stray {
    /// The latest, as sent, and when it came.
    pub latest: u64,
    arrived: Mark,
    /// How many in a row have risen up to it, and since when.
    risen: u32,
    rises_since: Mark,
}

impl Stray {
    /// Notes a number. `goes_on`: it may follow the latest, and nothing was taken between them. One that was not taken is offered again,
    /// and counts once.
    pub fn note(&mut self, (raw, shift): (u64, u32), mark: Mark, goes_on: bool) {
        match distance(raw, self.latest, shift) {
            1.. if goes_on => self.risen = self.risen.saturating_add(1),
            0 if goes_on => {}
            _ => (self.risen, self.rises_since) = (1, mark),
        }
        (self.latest, self.arrived) = (raw, mark);
    }

    /// Whether the window may follow without anybody else.
    pub fn is_to_follow(&self) -> bool {
        self.risen >= FEWEST_TO_FOLLOW
    }

    /// Whether what came before has begun anew: no two paths give copies for so long, or so many of them, with nothing new between them.
    pub fn begins_anew(&self, age_ns: u64) -> bool {
        let lasts = self.arrived.since_ns(self.rises_since) >= age_ns && self.is_to_follow();
        lasts || self.risen > LONGEST_RUN_OF_COPIES
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
        assert_eq!(lead.limit(0, 16, true), 951 + 8);
    }

    #[test]
    fn numbers_that_rise_in_a_row_are_followed() {
        let follows = |numbers: &[u64]| {
            let mut stray = Stray::default();
            numbers.iter().for_each(|raw| stray.note((*raw, 32), Mark(0), true));
            stray.is_to_follow()
        };
        let rising: Vec<u64> = (1..9).map(|number| number * 1000).collect();
        assert!(follows(&rising) && !follows(&rising[1..]));
        assert!(!follows(&[7; 20]), "one that is offered again");
        assert!(!follows(&[1, 2, 3, 4, 3, 4, 5, 6, 7, 8]));
    }
}
