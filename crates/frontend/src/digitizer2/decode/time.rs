//! Converts board counts to picoseconds: extends counters over their wraps, and multiplies by the exact rational of the
//! tick.
//!
//! ```text
//!  48 or 32 bits ─ Clock (reference: the newest time) ─► count since run start ─ Scale ─► time_ps
//! ```
//! An extended time is the value nearest to the reference whose low bits are those sent. It takes two additions and a
//! mask: `((sent - base) & mask) + base`, with `base` half a wrap before the reference. Before the first hit, 48 bits
//! are the time itself, and the 32 bits of a one-word hit are extended to a time near the arrival mark. If a source was
//! silent for a quarter of the short wrap or more, by the arrival marks, the reference advances with the marks. The
//! decoders of one source take its batches in turn and share the start of its clock, so that the first hit of each is
//! in the same wrap.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_data::{Mark, Tick};

use crate::digitizer2::wire::TIME_MASK;

/// Extends counters of 48 and 32 bits.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    reference: Option<i64>,
    /// The first time that any decoder of the source has read since a start of the board. It is only read before the
    /// first hit.
    shared: Arc<Mutex<Option<Begun>>>,
    /// Starts of the board so far.
    starts: u32,
    /// Without a reference: the current count of the board's clock, from the hits of other decoders.
    expected: Option<i64>,
    /// Arrival of the newest hit.
    mark: Mark,
    /// Arrival of the current batch.
    now: Mark,
}

/// The start of a board's clock.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// Number of starts of the board by then. A decoder with another number ignores this start.
    starts: u32,
    count: i64,
    /// Arrival of that count.
    mark: Mark,
}

const SHORT_MASK: u64 = 0xFFFF_FFFF;
/// Silence in counts after which the reference advances by the arrival marks.
const SILENCE: i64 = 1 << 30;

impl Clock {
    pub fn new() -> Clock {
        let (reference, expected) = (None, None);
        Clock { reference, shared: Arc::default(), starts: 0, expected, mark: Mark(0), now: Mark(0) }
    }

    /// Forgets the time: the board's clock restarts, for the `starts`-th time.
    pub fn restart(&mut self, starts: u32) {
        (self.reference, self.expected, self.starts) = (None, None, starts);
    }

    /// Like [`Clock::restart`], for a board that counts from 0 at its start, which was seen at `mark`.
    pub fn restart_at_zero(&mut self, starts: u32, mark: Mark) {
        (self.reference, self.expected, self.starts) = (None, Some(0), starts);
        self.share_beginning(0, mark);
    }

    /// Starts a batch that arrived at `mark`.
    pub fn arrive(&mut self, mark: Mark, tick: Tick) {
        self.now = mark;
        if self.reference.is_none() {
            let shared = *self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            let shared = shared.filter(|begun| begun.starts == self.starts);
            self.expected =
                shared.map(|begun| begun.count.wrapping_add(counts(mark.since_ns(begun.mark), tick)));
        }
        if let Some(reference) = self.reference {
            let silent = counts(mark.since_ns(self.mark), tick);
            if silent > SILENCE {
                self.reference = Some(reference.wrapping_add(silent));
                self.mark = mark;
            }
        }
    }

    /// The arrival of the current batch.
    pub fn now(&self) -> Mark {
        self.now
    }

    /// Makes `count` the newest time.
    #[inline]
    pub fn set(&mut self, count: i64) {
        if self.reference.is_none() {
            self.share_beginning(count, self.now);
        }
        self.reference = Some(count);
        self.mark = self.now;
    }

    #[cold]
    fn share_beginning(&self, count: i64, mark: Mark) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.is_none_or(|begun| begun.starts < self.starts) {
            *shared = Some(Begun { starts: self.starts, count, mark });
        }
    }

    /// The start of the window of a 48-bit time.
    #[inline]
    pub fn base_long(&self) -> i64 {
        self.reference.or(self.expected).map_or(0, |reference| reference.wrapping_sub(1 << 47))
    }

    /// The start of the window of a 32-bit time.
    #[inline]
    pub fn base_short(&self, tick: Tick) -> i64 {
        match self.reference.or(self.expected) {
            Some(reference) => reference.wrapping_sub(1 << 31),
            None => counts(self.now.0, tick).saturating_sub(1 << 31).max(0),
        }
    }

    /// Extends a 48-bit time.
    #[inline]
    pub fn long(&self, sent: u64) -> i64 {
        extend(sent, self.base_long(), TIME_MASK)
    }

    /// Extends a 32-bit time.
    #[inline]
    pub fn short(&self, sent: u32, tick: Tick) -> i64 {
        extend(u64::from(sent), self.base_short(tick), SHORT_MASK)
    }
}

/// The only value in `base ..= base + mask` that has the bits of `sent` under `mask`.
#[inline(always)]
pub(super) fn extend(sent: u64, base: i64, mask: u64) -> i64 {
    ((sent.wrapping_sub(base as u64) & mask) as i64).wrapping_add(base)
}

fn counts(ns: u64, tick: Tick) -> i64 {
    tick.from_time(i64::try_from(ns).unwrap_or(i64::MAX).saturating_mul(1000))
}

/// Converts counts and their 1024ths to picoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    tick: Tick,
    offset_ps: i64,
    /// The tick in picoseconds, if it is a whole number that fits 32 bits.
    pub whole: Option<u32>,
    /// Largest count, of either sign, that can be multiplied in 64 bits.
    safe_counts: i64,
}

impl Scale {
    pub fn new(tick: Tick, offset_ps: i64) -> Scale {
        let whole = tick.whole_ps().and_then(|ps| u32::try_from(ps).ok());
        let limit_ps = i64::MAX - offset_ps.saturating_abs();
        // The newest time may be half a wrap from the one that is checked; one count more allows for the fine time.
        let safe_counts =
            whole.map_or(0, |ps| (limit_ps / i64::from(ps)).saturating_sub((1 << 48) + 1)).max(0);
        Scale { tick, offset_ps, whole, safe_counts }
    }

    /// The tick if all times of a window from `base` on can be computed by plain 64-bit multiplication.
    #[inline]
    pub fn plain(&self, base: i64) -> Option<u32> {
        self.whole.filter(|_| base.unsigned_abs() < self.safe_counts as u64)
    }

    /// `floor((count + fine / 1024) * tick) + offset`; `None` if it does not fit 64 bits.
    #[inline]
    pub fn ps(&self, count: i64, fine: u16) -> Option<i64> {
        match self.plain(count) {
            Some(tick) => {
                let fine_ps = (u64::from(fine) * u64::from(tick)) >> 10;
                Some(count * i64::from(tick) + fine_ps as i64 + self.offset_ps)
            }
            None => self.exact(count, fine),
        }
    }

    #[cold]
    fn exact(&self, count: i64, fine: u16) -> Option<i64> {
        let (numerator, denominator) = self.tick.parts();
        let fine_counts = i128::from(count) * 1024 + i128::from(fine);
        // 74 bits times 64 bits can exceed 128 bits; such a time does not fit an i64 either.
        let ps = fine_counts
            .saturating_mul(i128::from(numerator))
            .div_euclid(i128::from(denominator).saturating_mul(1024))
            .saturating_add(i128::from(self.offset_ps));
        i64::try_from(ps).ok()
    }

    pub fn offset_ps(&self) -> i64 {
        self.offset_ps
    }

    /// A duration, without the offset.
    pub fn duration_ps(&self, counts: u64) -> i64 {
        self.tick.to_ps(i64::try_from(counts).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_wrap_both_ways_around_the_reference() {
        let mut clock = Clock::new();
        assert_eq!(clock.long(TIME_MASK), TIME_MASK as i64);
        clock.set(TIME_MASK as i64);
        assert_eq!(clock.long(5), TIME_MASK as i64 + 6);
        clock.set(3 << 48);
        assert_eq!(clock.long(TIME_MASK), (3 << 48) - 1);
    }

    #[test]
    fn one_word_times_follow_the_marks_through_silence() {
        let tick = Tick::from_ps(8000).expect("not zero");
        let mut clock = Clock::new();
        clock.arrive(Mark(100_000_000_000), tick);
        // 100 s are 12.5e9 counts: nearly three wraps of 32 bits.
        let true_count = 12_500_000_123_i64;
        assert_eq!(clock.short(true_count as u32, tick), true_count);
        clock.set(true_count);
        clock.arrive(Mark(160_000_000_000), tick);
        let later = true_count + 60 * 125_000_000;
        assert_eq!(clock.short(later as u32, tick), later);
    }

    #[test]
    fn a_decoder_whose_first_hit_is_late_agrees_with_the_others() {
        let tick = Tick::from_ps(8000).expect("not zero");
        for start in [0i64, 1 << 30, 3 << 30, (1 << 32) - 5] {
            let mut first = Clock::new();
            let mut second = first.clone();
            first.arrive(Mark(0), tick);
            let begun = first.short(start as u32, tick);
            first.set(begun);
            // 20 s: more than half of the short wrap.
            let later = start + 20 * 125_000_000;
            for clock in [&mut second, &mut first] {
                clock.arrive(Mark(20_000_000_000), tick);
                assert_eq!(clock.short(later as u32, tick), begun + 20 * 125_000_000, "from {start}");
            }
        }
    }

    #[test]
    fn one_word_times_of_a_board_that_is_started_late_count_from_its_start() {
        let tick = Tick::from_ps(8000).expect("not zero");
        let mut first = Clock::new();
        let mut second = first.clone();
        first.arrive(Mark(60_000_000_000), tick);
        first.restart_at_zero(1, Mark(60_000_000_000));
        assert_eq!(first.short(123, tick), 123);
        second.restart_at_zero(1, Mark(60_000_000_000));
        for clock in [&mut second, &mut first] {
            clock.arrive(Mark(61_000_000_000), tick);
            assert_eq!(clock.short(125_000_123, tick), 125_000_123);
        }
    }

    #[test]
    fn picoseconds_are_the_floor_of_the_exact_rational() {
        let whole = Scale::new(Tick::from_ps(8000).expect("not zero"), 3);
        assert_eq!(whole.ps(2, 512), Some(20_003));
        assert_eq!(whole.ps(-1, 1), Some(-8000 + 7 + 3));
        assert_eq!(whole.exact(-1, 1), whole.ps(-1, 1));
        assert_eq!(whole.ps(i64::MAX, 0), None);
        assert_eq!(whole.ps(-1 << 62, 0), None);
        let broken = Scale::new(Tick::new(125, 64).expect("not zero"), 0);
        assert_eq!(broken.ps(3, 512), Some(6));
    }
}
