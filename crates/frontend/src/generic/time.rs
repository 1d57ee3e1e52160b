//! Converts the counter of a packet to picoseconds: extends it over its wraps, and refuses times beyond 64 bits.
//!
//! ```text
//!  first packet of a part ─ framing ─► Starts { count near the arrival } ═shared═► decoders
//!  packet ─► count nearest to (last count of its part + time since) ─► − origin ─► × tick ─► + offset ─► time_ps │ time_range
//! ```
//! A counter runs freely: its first value of a run may be anywhere before a wrap. The first count is taken as sent, or
//! as many wraps later as bring it closest to its arrival; each later count is the one nearest to the value that the
//! part's counter must have by the arrival marks. So a count is never wrong by a wrap while a part is silent for less
//! than half a wrap, or its clock differs from ours by less than that.

use std::sync::{Arc, OnceLock};

use thalweg_data::{Mark, Tick};

use crate::time_origin::{SharedOrigin, TimeOrigin};

/// The counters of a source's parts at the arrival of their first packets; shared by the framing and the decoders.
#[derive(Clone, Debug)]
pub(super) struct Starts {
    parts: Arc<[OnceLock<Seen>]>,
    origin: SharedOrigin,
}

/// An extended count, and its arrival.
#[derive(Clone, Copy, Debug)]
struct Seen {
    count: i128,
    mark: Mark,
}

/// Properties of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    wrap: i128,
    tick: Tick,
}

/// The counters of all parts, as seen by one decoder.
#[derive(Clone, Debug)]
pub(super) struct ClockCounters {
    counter: Counter,
    offset_ps: i64,
    starts: Starts,
    last: Vec<Option<Seen>>,
}

impl Starts {
    pub fn new(parts: usize, origin: TimeOrigin) -> Starts {
        let parts = (0..parts).map(|_| OnceLock::new()).collect();
        Starts { parts, origin: SharedOrigin::of(origin) }
    }

    /// Called for each packet; only the first one of a part has an effect.
    pub fn see(&self, part: u32, sent: u64, counter: Counter, mark: Mark) {
        self.start(part as usize, sent, counter, mark);
    }

    fn start(&self, part: usize, sent: u64, counter: Counter, mark: Mark) -> Seen {
        let first = || Seen { count: counter.first(sent, mark), mark };
        let seen = self.parts.get(part).map_or_else(first, |start| *start.get_or_init(first));
        self.origin.see(|| seen.count);
        seen
    }
}

impl Counter {
    /// A counter of `bits` bits.
    pub fn new(bits: u32, tick: Tick) -> Counter {
        Counter { wrap: 1 << bits, tick }
    }

    /// Length of one count.
    pub fn tick(self) -> Tick {
        self.tick
    }

    /// Time until the counter wraps, in picoseconds.
    pub fn wrap_ps(self) -> i128 {
        let (numerator, denominator) = self.tick.parts();
        self.wrap * i128::from(numerator) / i128::from(denominator)
    }

    /// The count with these bits that is nearest to the expected value at `mark`, from the last one seen.
    fn behind(self, before: Seen, sent: u64, mark: Mark) -> i128 {
        self.nearest(sent, before.count + self.counts(mark.since_ns(before.mark)))
    }

    fn counts(self, ns: u64) -> i128 {
        i128::from(self.tick.from_time(i64::try_from(u128::from(ns) * 1000).unwrap_or(i64::MAX)))
    }

    /// The count with these bits that is nearest to `expected`.
    fn nearest(self, sent: u64, expected: i128) -> i128 {
        let sent = i128::from(sent);
        sent + (expected - sent + self.wrap / 2).div_euclid(self.wrap) * self.wrap
    }

    /// The first count of a part: as sent, or later.
    fn first(self, sent: u64, arrival: Mark) -> i128 {
        self.nearest(sent, self.counts(arrival.0)).max(i128::from(sent))
    }

    /// Converts a count to picoseconds; `None` beyond 64 bits.
    fn ps(self, count: i128, offset_ps: i64) -> Option<i64> {
        self.tick.time_ps(count, offset_ps)
    }
}

impl ClockCounters {
    pub fn new(counter: Counter, parts: usize, starts: Starts, offset_ps: i64) -> ClockCounters {
        ClockCounters { counter, offset_ps, starts, last: vec![None; parts] }
    }

    /// The time in picoseconds of a part's counter in a packet that arrived at `mark`; `None` beyond 64 bits.
    pub fn time_ps(&mut self, part: u32, sent: u64, mark: Mark) -> Option<i64> {
        let ClockCounters { counter, offset_ps, starts, last } = self;
        let part = part as usize;
        let known = last.get(part).copied().flatten();
        let before = known.unwrap_or_else(|| starts.start(part, sent, *counter, mark));
        let count = counter.behind(before, sent, mark);
        if let Some(last) = last.get_mut(part) {
            *last = Some(Seen { count, mark });
        }
        counter.ps(count - starts.origin.count(|| count), *offset_ps)
    }
}

/// The counters of the boards of one link, extended over their wraps, for fragments.
#[derive(Clone, Debug)]
pub(super) struct BoardTicks {
    counter: Counter,
    last: Vec<Option<Seen>>,
}

impl BoardTicks {
    pub fn new(counter: Counter, boards: u16) -> BoardTicks {
        BoardTicks { counter, last: vec![None; usize::from(boards)] }
    }

    /// The count of a board in a packet that arrived at `mark`, including the wraps before it.
    #[inline]
    pub fn extend(&mut self, board: u32, sent: u64, mark: Mark) -> u64 {
        let last = &mut self.last[board as usize];
        let count = match *last {
            Some(before) => self.counter.behind(before, sent, mark),
            None => self.counter.first(sent, mark),
        };
        *last = Some(Seen { count, mark });
        // A counter of 64 bits wraps like its extension.
        count as u64
    }

    /// The next packets are the start of a new stream, in which counters may have been reset.
    pub fn begin_anew(&mut self) {
        self.last.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK_PS: u64 = 1_000_000;

    fn counters(bits: u32, tick_ps: u64, origin: TimeOrigin) -> ClockCounters {
        let counter = Counter::new(bits, Tick::from_ps(tick_ps).expect("not zero"));
        ClockCounters::new(counter, 1, Starts::new(1, origin), 0)
    }

    #[test]
    fn the_first_count_is_near_its_arrival_and_never_below_the_sent_one() {
        let at = |sent, ms: u64| {
            let mut counters = counters(10, TICK_PS, TimeOrigin::Board);
            counters.time_ps(0, sent, Mark(ms * 1_000_000)).map(|ps| ps / TICK_PS as i64)
        };
        assert_eq!(at(5, 0), Some(5));
        assert_eq!(at(1000, 0), Some(1000), "never below the sent count");
        assert_eq!(at(5, 1), Some(1024 + 5));
        assert_eq!(at(1000, 102), Some(99 * 1024 + 1000));
    }

    #[test]
    fn long_times_are_kept_and_refused_beyond_the_range_of_picoseconds() {
        let time = |sent, origin| counters(64, 100_000, origin).time_ps(0, sent, Mark(7));
        assert_eq!(time(123_456_789, TimeOrigin::Board), Some(12_345_678_900_000));
        assert_eq!(time(i64::MAX as u64 / 100_000, TimeOrigin::Board), Some(i64::MAX / 100_000 * 100_000));
        assert_eq!(time(i64::MAX as u64 / 100_000 + 1, TimeOrigin::Board), None);
        assert_eq!(time(u64::MAX, TimeOrigin::Board), None);
        assert_eq!(time(u64::MAX, TimeOrigin::FirstHit), Some(0));
    }

    proptest! {
        #[test]
        fn a_free_running_counter_never_jumps_by_a_wrap(
            bits in 10..36u32,
            start in any::<u64>(),
            steps in prop::collection::vec((0..100u64, 0..20u64, any::<bool>()), 1..300),
        ) {
            let mask = (1u128 << bits) - 1;
            // Steps and delays of up to a tenth of a wrap, so that there are many wraps and some old packets.
            let unit = ((mask + 1) / 1000).max(1);
            let tick = Tick::from_ps(TICK_PS).expect("not zero");
            let counter = Counter::new(bits, tick);
            let starts = Starts::new(1, TimeOrigin::FirstHit);
            // Two decoders take turns at random.
            let mut lanes = [
                ClockCounters::new(counter, 1, starts.clone(), 0),
                ClockCounters::new(counter, 1, starts.clone(), 0),
            ];
            let first = u128::from(start) & mask;
            starts.see(0, first as u64, counter, Mark(0));
            let (mut now, origin) = (first, first as i128);
            for (step, delay, lane) in steps {
                now += u128::from(step) * unit;
                let sent = now.saturating_sub(u128::from(delay) * unit).max(first);
                let ns = (now - first) * u128::from(TICK_PS / 1000);
                let found = lanes[usize::from(lane)].time_ps(0, (sent & mask) as u64, Mark(ns as u64));
                prop_assert_eq!(found, counter.ps(sent as i128 - origin, 0));
            }
        }
    }
}
