//! Finds missing packets by sequence numbers, with a window in which packets may be out of order.
//!
//! ```text
//!         counted ◄─┐      window of groups     ┌─ the latest
//!   … lost   seen   │ seen  ·  seen  seen  ·  seen │
//!                   └ a gap is counted as lost when it leaves the window
//! ```
//! A group is one packet if the counter counts all packets, and one frame of packets if it counts inside frames. The
//! latest group moves the window. A jump beyond the largest gap does not, unless the next packet follows it: then the
//! counter was restarted, and counting starts again. So one damaged number costs only one packet. Of numbers with holes,
//! none may ever follow directly: there a jump is confirmed by more groups than the window, if none of the old count
//! comes between them.
//!
//! A jump back to numbers that were counted lately can be a restart, or packets that come late or again, which follow
//! each other, too. A restarted counter begins where it began before, or at 0: such a jump is confirmed by as many packets
//! in a row as [`FEWEST_IN_ORDER`], or by the next one if its numbers did not come before. Any other is confirmed by as many packets as [`LONGEST_LATE_RUN`], with or without gaps, if none of the old
//! count comes between them: behind late packets, the old count goes on soon.
//!
//! Packets that the first one has overtaken are of its window: the count then begins with them.
//!
//! Numbers of the window that came before are copies, such as of a second path. A counter that is restarted so soon shows
//! in the same way: as many come again, from its beginning on, and none of the old count between them. The last of them
//! is refused as not confirmed, since those before it were taken for copies, and were data. No copy of the first packet comes
//! later than [`LONGEST_DELAY_NS`]: then two in a row are enough.

use std::ops::Range;

use thalweg_data::Mark;

/// Packets that come late or again without others between them, at most: a jump back which more of them follow is a
/// restart.
const LONGEST_LATE_RUN: u32 = 512;
/// Groups with holes between them that confirm a jump to numbers that were not counted lately, at least: damaged numbers
/// do not follow each other for so long.
const FEWEST_WITH_HOLES: u32 = 16;

/// Packets from the beginning of the count on, each directly behind the one before, that confirm a jump back to there: some
/// that come late may begin there, too.
const FEWEST_IN_ORDER: u32 = 16;

/// How much later than a packet its copy comes over a network, at most.
const LONGEST_DELAY_NS: u64 = 500_000_000;

/// Properties of a counter, for all parts of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    /// Bits of the number that orders the groups.
    pub bits: u32,
    /// Packets per group.
    pub group_packets: u32,
    /// Number of groups in the window.
    pub window: i64,
    /// Largest jump of the counter, in groups, without confirmation.
    pub largest_gap: i64,
    /// Whether a group without packets is lost; otherwise it was never sent.
    pub every_group: bool,
}

/// Receives packets that are finally lost.
pub(crate) trait Missing {
    /// Adds packets that are missing from consecutive groups.
    fn add(&mut self, groups: Range<i64>, packets: u64);
}

/// Counts them.
impl Missing for u64 {
    fn add(&mut self, _: Range<i64>, packets: u64) {
        *self += packets;
    }
}

/// The result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is new.
    New,
    /// It was received before.
    Duplicate,
    /// Its number has left the window, in which it was counted as lost or seen.
    Late,
    /// It is far ahead of all others, and is not taken unless the next one confirms the jump; or it came before and is
    /// not of a copy.
    Unconfirmed,
    /// Its index in the frame is beyond the packets of a frame.
    Impossible,
}

/// The state of one part of a source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    started: bool,
    /// It is not known where the counter began: the first packet may have overtaken others.
    joined: bool,
    /// The number of the latest group, as sent.
    latest_value: u64,
    /// The latest group, counted from the first.
    latest: i64,
    /// The first group of the window; one more than the latest when the window is empty.
    oldest: i64,
    /// The first group since the count has started, and its number.
    first: (i64, u64),
    /// When that came.
    began: Mark,
    /// What has come last, if it was not of this count: a restart that is not confirmed yet.
    restart: Option<Restart>,
}

/// Packets that may be of a restarted counter.
#[derive(Clone, Copy, Debug)]
enum Restart {
    Jump(Jump),
    Again(Again),
}

/// Packets of the window that came before.
#[derive(Clone, Copy, Debug)]
struct Again {
    /// The group and the index of the latest one.
    latest: (u64, u32),
    packets: u32,
    /// Whether they began where a counter begins.
    begins: bool,
    /// Whether they began with the first packet of the count, too late to be copies.
    is_late: bool,
}

/// Groups behind the window or far ahead of it that follow each other, with or without holes.
#[derive(Clone, Copy, Debug)]
struct Jump {
    /// The number that is ahead of all others, and that of the last one.
    latest: u64,
    last: u64,
    groups: u32,
    /// Whether the number behind the last one confirms it: no late packets are there, or a counter begins there.
    begins: bool,
}

impl Track {
    /// The state of a counter that starts at 0.
    pub fn from_zero() -> Track {
        Track { started: true, latest_value: u64::MAX, latest: -1, ..Track::default() }
    }

    /// The latest group, counted from the first.
    pub fn latest(&self) -> i64 {
        self.latest
    }
}

impl Counting {
    /// A counter that numbers every packet, with a window and a largest gap in packets.
    pub fn packets(bits: u32, window: i64, largest_gap: i64) -> Counting {
        Counting { bits, group_packets: 1, window, largest_gap, every_group: true }
    }

    /// 64-bit words of one group's bits.
    fn group_words(&self) -> usize {
        (self.group_packets as usize).div_ceil(64)
    }

    /// 64-bit words of one part's window.
    pub fn words(&self) -> usize {
        self.window as usize * self.group_words()
    }

    /// The signed distance between two numbers of `bits` bits.
    fn distance(&self, from: u64, to: u64) -> i64 {
        let unused = 64 - self.bits;
        ((to.wrapping_sub(from) << unused) as i64) >> unused
    }

    fn slot<'a>(&self, group: i64, seen: &'a mut [u64]) -> &'a mut [u64] {
        let words = self.group_words();
        let index = group.rem_euclid(self.window) as usize;
        &mut seen[index * words..(index + 1) * words]
    }

    /// Takes a packet that has arrived at `mark`. Adds packets that are finally lost to `missing`. `seen` is the part's window.
    pub fn arrive(
        &self,
        track: &mut Track,
        seen: &mut [u64],
        (value, index): (u64, u32),
        mark: Mark,
        missing: &mut impl Missing,
    ) -> Arrival {
        if index >= self.group_packets {
            return Arrival::Impossible;
        }
        if !track.started {
            (track.started, track.joined) = (true, true);
            self.start(track, value, mark);
        }
        let mut distance = self.distance(track.latest_value, value);
        let far = distance > self.largest_gap;
        let mut behind = distance <= 0 && track.latest + distance < track.oldest;
        if behind && self.was_overtaken(track, distance) {
            track.oldest = track.latest + distance;
            track.first = (track.oldest, value);
            behind = false;
        }
        if far || behind {
            if !self.confirms(track, value, distance) {
                return if far { Arrival::Unconfirmed } else { Arrival::Late };
            }
            self.flush(track, seen, missing);
            self.start(track, value, mark);
            distance = 0;
        }
        let group = track.latest + distance;
        if distance > 0 {
            self.advance(track, seen, group, missing);
            track.latest_value = value;
        }
        let (word, bit) = (index as usize / 64, 1u64 << (index % 64));
        let word = &mut self.slot(group, seen)[word];
        if *word & bit != 0 {
            return self.arrive_again(track, seen, (value, index), mark, missing);
        }
        *word |= bit;
        // A gap is filled by a restarted counter, too.
        if distance >= 0 || !matches!(track.restart, Some(Restart::Again(_))) {
            track.restart = None;
        }
        Arrival::New
    }

    /// Whether the first packet has overtaken this one, of a group before it, which is in the window yet.
    #[cold]
    fn was_overtaken(&self, track: &Track, distance: i64) -> bool {
        let is_first = track.joined && track.first.0 <= 0 && track.oldest == track.first.0;
        is_first && distance > -self.window
    }

    /// Takes a packet that came before.
    #[cold]
    fn arrive_again(
        &self,
        track: &mut Track,
        seen: &mut [u64],
        packet: (u64, u32),
        mark: Mark,
        missing: &mut impl Missing,
    ) -> Arrival {
        let again = match track.restart {
            // A board that repeats one packet all the time is not restarted.
            Some(Restart::Again(again)) if again.latest == packet => again,
            Some(Restart::Again(again)) => Again { latest: packet, packets: again.packets + 1, ..again },
            _ => Again {
                latest: packet,
                packets: 1,
                begins: self.begins(track, packet.0),
                is_late: track.joined
                    && packet.0 == track.first.1
                    && mark.since_ns(track.began) > LONGEST_DELAY_NS,
            },
        };
        track.restart = Some(Restart::Again(again));
        let goes_on = self.distance(track.first.1, packet.0) == 1;
        if again.begins && again.packets >= LONGEST_LATE_RUN || again.is_late && goes_on {
            self.flush(track, seen, missing);
            self.start(track, packet.0, mark);
            self.slot(track.latest, seen)[packet.1 as usize / 64] |= 1 << (packet.1 % 64);
            return Arrival::Unconfirmed;
        }
        // A second path repeats the window once.
        match again.begins && again.packets > self.window as u32 * self.group_packets {
            true => Arrival::Unconfirmed,
            false => Arrival::Duplicate,
        }
    }

    /// Packets before the first one do not count as missing. The window is empty.
    fn start(&self, track: &mut Track, value: u64, mark: Mark) {
        track.latest_value = value;
        track.latest = track.oldest;
        (track.first, track.began) = ((track.latest, value), mark);
        track.restart = None;
    }

    /// Whether a counter that is restarted begins here: at 0, or where this one did.
    fn begins(&self, track: &Track, value: u64) -> bool {
        [0, track.first.1].iter().any(|at| (0..=self.window).contains(&self.distance(*at, value)))
    }

    /// Whether the counter was restarted, now that a group behind the window or far ahead has come.
    #[cold]
    fn confirms(&self, track: &mut Track, value: u64, distance: i64) -> bool {
        let was_counted =
            (-self.largest_gap..=0).contains(&distance) && track.latest + distance >= track.first.0;
        let begins = !was_counted || self.begins(track, value);
        let before = match track.restart {
            Some(Restart::Jump(jump)) => Some((jump, self.distance(jump.latest, value))),
            _ => None,
        };
        let jump = match before {
            Some((jump, step)) if (-self.window..=self.largest_gap).contains(&step) => {
                let follows = self.distance(jump.last, value) == 1;
                let fewest =
                    if was_counted { FEWEST_IN_ORDER.div_ceil(self.group_packets).max(2) } else { 2 };
                if jump.begins && follows && jump.groups + 1 >= fewest {
                    return true;
                }
                // The same group does not confirm: several packets of one late frame are not a restart.
                let (latest, groups) =
                    if step > 0 { (value, jump.groups + 1) } else { (jump.latest, jump.groups) };
                Jump { latest, last: value, groups, begins: jump.begins && (begins || follows) }
            }
            _ => Jump { latest: value, last: value, groups: 1, begins },
        };
        track.restart = Some(Restart::Jump(jump));
        // More than the window: the network may disorder as many.
        let fewest = match was_counted {
            true => LONGEST_LATE_RUN.div_ceil(self.group_packets),
            false => FEWEST_WITH_HOLES,
        };
        jump.groups >= fewest.max(self.window as u32 + 1)
    }

    fn advance(&self, track: &mut Track, seen: &mut [u64], to: i64, missing: &mut impl Missing) {
        let oldest = (to - self.window + 1).max(track.oldest);
        for group in track.oldest..oldest.min(track.latest + 1) {
            self.retire(group, seen, missing);
        }
        let never_in_window = track.latest + 1..oldest;
        if self.every_group && !never_in_window.is_empty() {
            let groups = (never_in_window.end - never_in_window.start) as u64;
            missing.add(never_in_window, groups * u64::from(self.group_packets));
        }
        (track.oldest, track.latest) = (oldest, to);
    }

    /// Removes a group from the window.
    fn retire(&self, group: i64, seen: &mut [u64], missing: &mut impl Missing) {
        let slot = self.slot(group, seen);
        let there: u32 = slot.iter().map(|word| word.count_ones()).sum();
        slot.fill(0);
        if there < self.group_packets && (there > 0 || self.every_group) {
            missing.add(group..group + 1, u64::from(self.group_packets - there));
        }
    }

    /// Removes all groups from the window, and leaves it empty: once more finds nothing missing.
    pub fn flush(&self, track: &mut Track, seen: &mut [u64], missing: &mut impl Missing) {
        if !track.started {
            return;
        }
        for group in track.oldest..=track.latest {
            self.retire(group, seen, missing);
        }
        track.oldest = track.latest + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKETS: Counting =
        Counting { bits: 16, group_packets: 1, window: 8, largest_gap: 1000, every_group: true };

    struct Run(Counting, Track, Vec<u64>, u64, Mark);

    impl Run {
        fn new(counting: Counting) -> Run {
            Run(counting, Track::default(), vec![0; counting.words()], 0, Mark(0))
        }

        fn arrive(&mut self, value: u64, index: u32) -> Arrival {
            self.0.arrive(&mut self.1, &mut self.2, (value, index), self.4, &mut self.3)
        }

        fn all(&mut self, values: impl IntoIterator<Item = u64>) -> Vec<Arrival> {
            values.into_iter().map(|value| self.arrive(value, 0)).collect()
        }

        fn flush(&mut self) -> u64 {
            self.0.flush(&mut self.1, &mut self.2, &mut self.3);
            self.3
        }

        /// A source may be finished once more, which changes nothing.
        fn finish(mut self) -> u64 {
            let lost = self.flush();
            assert_eq!(self.flush(), lost);
            lost
        }
    }

    #[test]
    fn a_gap_is_counted_when_it_leaves_the_window_unless_it_is_filled() {
        let mut run = Run::new(PACKETS);
        run.all([0xFFFE, 0xFFFF, 1, 2, 3]);
        assert_eq!(run.3, 0);
        assert_eq!(run.all([0]), [Arrival::New], "across the wrap, late but in the window");
        assert_eq!(run.all([0, 3]), [Arrival::Duplicate; 2]);
        run.all([5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(run.3, 0);
        run.all([12]);
        assert_eq!(run.3, 1, "number 4 has left the window");
        assert_eq!(run.all([4]), [Arrival::Late]);
        assert_eq!(run.finish(), 1);
    }

    #[test]
    fn all_packets_of_a_long_gap_are_counted() {
        let mut run = Run::new(PACKETS);
        run.all([10, 500]);
        assert_eq!(run.finish(), 489);
    }

    #[test]
    fn the_sequence_goes_on_behind_a_flush() {
        let mut run = Run::new(PACKETS);
        run.all([10, 12]);
        assert_eq!(run.flush(), 1);
        assert_eq!(run.all([12, 11, 13, 15]), [Arrival::Late, Arrival::Late, Arrival::New, Arrival::New]);
        assert_eq!(run.finish(), 2);
        let mut run = Run::new(PACKETS);
        run.1 = Track::from_zero();
        assert_eq!(run.flush(), 0);
        assert_eq!(run.all([1]), [Arrival::New]);
        assert_eq!(run.finish(), 1, "number 0");
    }

    #[test]
    fn one_damaged_number_costs_one_packet_and_a_confirmed_restart_none() {
        let mut run = Run::new(PACKETS);
        assert_eq!(run.all([10, 30_000, 11]), [Arrival::New, Arrival::Unconfirmed, Arrival::New]);
        assert_eq!(run.all([50_000, 50_001, 50_002]), [Arrival::Late, Arrival::New, Arrival::New]);
        assert_eq!(run.all([9_000, 9_001, 9_002])[1..], [Arrival::New; 2]);
        assert_eq!(run.finish(), 0);
    }

    #[test]
    fn a_burst_that_comes_late_or_again_is_not_a_restart() {
        // What came between is lost when it leaves the window, and what comes late was counted so.
        let mut run = Run::new(PACKETS);
        run.all((0..1000).chain(1200..1400));
        assert!(run.all(1000..1200).iter().all(|arrival| *arrival == Arrival::Late));
        assert!(run.all(1400..2001).iter().all(|arrival| *arrival == Arrival::New));
        assert_eq!(run.finish(), 200);
        let mut run = Run::new(PACKETS);
        run.all(0..1200);
        let again = run.all(1000..1200);
        assert_eq!(again.iter().filter(|arrival| **arrival == Arrival::Late).count(), 200 - 8);
        assert_eq!(again[200 - 8..], [Arrival::Duplicate; 8]);
        assert!(run.all(1200..2001).iter().all(|arrival| *arrival == Arrival::New));
        assert_eq!(run.finish(), 0);
        // The same across 0: the burst did not begin there.
        let mut run = Run::new(PACKETS);
        run.all((65_000..65_300).chain(65_800..66_000).map(|number| number & 0xFFFF));
        let late = run.all((65_300..65_800).map(|number| number & 0xFFFF));
        assert!(late.iter().all(|arrival| *arrival == Arrival::Late));
        assert_eq!(run.finish(), 500);
    }

    #[test]
    fn a_counter_that_restarts_soon_is_found_by_few_packets_in_a_row() {
        let (late, new) = (Arrival::Late, Arrival::New);
        // Before what was counted, by the second one.
        for (begin, again) in [(300, 0), (300, 100)] {
            let mut run = Run::new(PACKETS);
            run.all(begin..begin + 200);
            assert_eq!(run.all(again..again + 3), [late, new, new], "from {begin}, again from {again}");
            assert_eq!(run.finish(), 0);
        }
        // It begins at 0, or where it began before, or a few packets later.
        for (begin, again) in [(0, 0), (0, 5), (300, 300), (300, 307)] {
            let mut run = Run::new(PACKETS);
            run.all(begin..begin + 200);
            let arrivals = run.all(again..again + 100);
            let refused = arrivals.iter().position(|arrival| *arrival == new).expect("it was restarted");
            assert_eq!(refused, FEWEST_IN_ORDER as usize - 1, "from {begin}, again from {again}");
            assert!(arrivals[..refused].iter().all(|arrival| *arrival == late));
            assert!(arrivals[refused..].iter().all(|arrival| *arrival == new));
            assert_eq!(run.finish(), 0);
        }
        // Anywhere else, if many packets follow.
        let mut run = Run::new(PACKETS);
        run.all(0..3000);
        let again = run.all(2100..2100 + 500);
        assert!(again.iter().all(|arrival| *arrival == late));
        let wide = Counting { bits: 32, largest_gap: 65_536, ..PACKETS };
        let mut run = Run::new(wide);
        run.all(0..9000);
        let again = run.all(2000..2000 + 2000);
        let refused = again.iter().position(|arrival| *arrival == new).expect("it was restarted");
        assert_eq!(refused, LONGEST_LATE_RUN as usize - 1);
        assert!(again[refused..].iter().all(|arrival| *arrival == new));
    }

    #[test]
    fn a_restart_is_found_although_packets_of_it_are_lost_or_out_of_order() {
        let wide = Counting { bits: 32, window: 32, largest_gap: 65_536, ..PACKETS };
        // One packet in 500 is lost, 100 in a row are, each tenth is, or each tenth comes after the next one.
        let seldom = |number: &u64| !number.is_multiple_of(500);
        let in_bursts = |number: &u64| number % 400 >= 100;
        let often = |number: &u64| !number.is_multiple_of(10);
        let swapped = (100..15_000).map(|number: u64| match number % 10 {
            3 => number + 1,
            4 => number - 1,
            _ => number,
        });
        let streams: [Vec<u64>; 4] = [
            (100..15_000).filter(seldom).collect(),
            (100..15_000).filter(in_bursts).collect(),
            (100..15_000).filter(often).collect(),
            swapped.collect(),
        ];
        for stream in streams {
            let mut run = Run::new(wide);
            run.all(0..20_000);
            let again = run.all(stream);
            let late = again.iter().filter(|arrival| **arrival == Arrival::Late).count();
            assert!(late < 800, "{late} of {} are late", again.len());
        }
    }

    #[test]
    fn a_restart_of_a_counter_of_frames_is_found_after_few_of_them() {
        // Trigger numbers may have holes.
        for (every_group, step) in [(true, 1), (false, 7)] {
            let frames =
                Counting { bits: 32, group_packets: 100, window: 32, largest_gap: 65_536, every_group };
            let mut run = Run::new(frames);
            let mut late_frames = 0;
            for number in (0..1000u64).chain(100..200).map(|number| number * step) {
                let arrivals: Vec<Arrival> = (0..100).map(|index| run.arrive(number, index)).collect();
                late_frames += u64::from(arrivals.contains(&Arrival::Late));
            }
            assert!((1..=33).contains(&late_frames), "{late_frames} frames");
        }
    }

    #[test]
    fn a_few_late_copies_of_the_first_packets_are_not_a_restart() {
        let mut run = Run::new(PACKETS);
        run.all(1000..1100);
        assert_eq!(run.all(1000..1010), [Arrival::Late; 10]);
        assert!(run.all(1100..1300).iter().all(|arrival| *arrival == Arrival::New));
        assert_eq!(run.finish(), 0);
    }

    #[test]
    fn packets_that_the_first_one_has_overtaken_are_taken() {
        let mut run = Run::new(PACKETS);
        assert_eq!(run.all([1000, 998, 999, 1001, 995]), [Arrival::New; 5]);
        assert_eq!(run.all([998, 990]), [Arrival::Duplicate, Arrival::Late]);
        assert!(run.all(1002..1100).iter().all(|arrival| *arrival == Arrival::New));
        assert_eq!(run.finish(), 2, "996 and 997");
        // Nor is the packet that is half of all numbers before.
        let mut run = Run::new(Counting { bits: 64, ..PACKETS });
        assert_eq!(run.all([0, 1 << 63, 1]), [Arrival::New, Arrival::Late, Arrival::New]);
        // A counter that is known to begin at 0 has none before.
        let mut run = Run::new(PACKETS);
        run.1 = Track::from_zero();
        assert_eq!(run.all([0, 0xFFFF, 1]), [Arrival::New, Arrival::Late, Arrival::New]);
        assert_eq!(run.finish(), 0);
    }

    #[test]
    fn a_second_copy_of_the_stream_is_not_a_restart() {
        let mut run = Run::new(PACKETS);
        run.all(0..100);
        for number in 100..200 {
            assert_eq!(run.all([number, number - 50]), [Arrival::New, Arrival::Late]);
        }
        assert_eq!(run.finish(), 0);
    }

    #[test]
    fn a_jump_of_numbers_with_holes_is_found() {
        let holes = Counting { bits: 32, window: 32, largest_gap: 65_536, every_group: false, ..PACKETS };
        // Only every seventh number, or every second packet over another link; and some of them out of order.
        let swapped = |number: u64| match number % 10 {
            3 => number + 1,
            4 => number - 1,
            _ => number,
        };
        for (begin, again) in
            [(1_000_000, 0), (u64::from(u32::MAX) - 100_000, 0), (0, 1_000_000), (0, 3 << 30)]
        {
            for step in [2, 7, 1000] {
                let mut run = Run::new(holes);
                let numbers = |from: u64| {
                    (0..2000u64).map(move |index| {
                        (from + if step < 32 { swapped(index) } else { index } * step) & 0xFFFF_FFFF
                    })
                };
                run.all(numbers(begin));
                let refused =
                    run.all(numbers(again)).iter().filter(|arrival| **arrival != Arrival::New).count();
                assert!(refused <= 40, "{refused} refused from {begin} to {again} in steps of {step}");
            }
        }
        // Damaged numbers do not follow each other, or have the old count between them.
        let mut run = Run::new(holes);
        for number in 0..2000u64 {
            let damaged = [number * 7 + (1 << 24), (number * 0x9E37_79B9) | 1 << 28];
            assert_eq!(run.all([number * 7, damaged[number as usize % 2]])[0], Arrival::New);
        }
    }

    #[test]
    fn a_counter_that_restarts_inside_the_window_is_found() {
        let wide = Counting { bits: 32, window: 4096, largest_gap: 65_536, ..PACKETS };
        // It begins at 0, or where it began before, and packets of both counts are lost; or again and again.
        let whole = |begin: u64| (begin..begin + 3000).collect::<Vec<u64>>();
        let holes = |begin: u64| whole(begin).into_iter().filter(|number| number % 100 != 7).collect();
        for first in [whole(0), whole(70_000), holes(70_000)] {
            let mut run = Run::new(wide);
            run.all(first.iter().copied());
            let again = run.all((first[0]..first[0] + 3000).filter(|number| number % 50 != 9));
            let count = |wanted| again.iter().filter(|arrival| **arrival == wanted).count();
            assert_eq!(
                (count(Arrival::Duplicate), count(Arrival::Unconfirmed)),
                (LONGEST_LATE_RUN as usize - 1, 1)
            );
            assert_eq!(again.len(), count(Arrival::New) + LONGEST_LATE_RUN as usize);
        }
        let mut run = Run::new(Counting { window: 32, ..wide });
        run.all(0..20);
        let again: Vec<Arrival> = (0..20).flat_map(|_| run.all(0..20)).collect();
        assert_eq!(again[..32], [Arrival::Duplicate; 32]);
        assert!(
            again[32..].iter().all(|arrival| *arrival == Arrival::Unconfirmed),
            "not copies of a second path"
        );
    }

    #[test]
    fn what_comes_again_from_the_first_packet_on_later_than_a_copy_is_a_restart() {
        let wide = Counting { window: 32, ..PACKETS };
        let mut run = Run::new(wide);
        run.all(1000..1030);
        // A second path may be behind, by less.
        run.4 = Mark(LONGEST_DELAY_NS);
        assert_eq!(run.all(1000..1030), [Arrival::Duplicate; 30]);
        assert_eq!(run.all([1030]), [Arrival::New]);
        run.4 = Mark(LONGEST_DELAY_NS + 1);
        let again = run.all(1000..1030);
        assert_eq!(again[..2], [Arrival::Duplicate, Arrival::Unconfirmed], "they were data");
        assert_eq!(again[2..], [Arrival::New; 28]);
        assert_eq!(run.finish(), 0);
        // A packet that is repeated while the board has nothing to send is none, nor are copies of what came behind the first.
        let mut run = Run::new(wide);
        run.all(0..30);
        run.4 = Mark(2 * LONGEST_DELAY_NS);
        assert_eq!(run.all([0, 0, 0]), [Arrival::Duplicate; 3]);
        assert_eq!(run.all([30]), [Arrival::New]);
        assert_eq!(run.all(1..31), [Arrival::Duplicate; 30]);
    }

    #[test]
    fn copies_of_a_second_path_are_no_restart() {
        // The other path is behind by less than the window, packet by packet or in bursts, from the start of the count on.
        let wide = Counting { bits: 32, window: 1024, largest_gap: 65_536, ..PACKETS };
        for burst in [1, 10, 64, 500] {
            let mut run = Run::new(wide);
            for first in (0..5000).step_by(burst) {
                assert_eq!(run.all(first..first + burst as u64), vec![Arrival::New; burst]);
                assert_eq!(
                    run.all(first..first + burst as u64),
                    vec![Arrival::Duplicate; burst],
                    "from {first}"
                );
            }
            assert_eq!(run.finish(), 0);
        }
        // Nor is a packet that is repeated while the board has nothing to send, or the end of what was sent.
        let mut run = Run::new(wide);
        run.all(0..600);
        assert!((0..1000).all(|_| run.all([0]) == [Arrival::Duplicate]));
        run.all(600..2000);
        assert!((0..1000).all(|index| run.all([1900 + index % 100]) == [Arrival::Duplicate]));
        // Frames are repeated packet by packet.
        let frames = Counting { group_packets: 1000, window: 4, ..wide };
        let mut run = Run::new(frames);
        for number in 0..20 {
            for arrival in [Arrival::New, Arrival::Duplicate] {
                assert!((0..500).all(|index| run.arrive(number, index) == arrival));
            }
        }
    }

    #[test]
    fn missing_packets_and_lost_frames_are_counted() {
        let frames =
            Counting { bits: 64, group_packets: 100, window: 2, largest_gap: 1000, every_group: true };
        for (every_group, lost) in [(true, 1 + 100 + 99), (false, 1 + 99)] {
            let mut run = Run::new(Counting { every_group, ..frames });
            for index in (0..100).rev().filter(|index| *index != 70) {
                assert_eq!(run.arrive(u64::MAX, index), Arrival::New);
            }
            assert_eq!(run.arrive(u64::MAX, 100), Arrival::Impossible);
            assert_eq!(run.arrive(1, 3), Arrival::New);
            assert_eq!(run.finish(), lost);
        }
    }

    proptest! {
        /// Packets are left out, duplicated or moved within the window: seen + lost = sent.
        #[test]
        fn seen_and_lost_packets_are_those_sent(
            fates in proptest::collection::vec((0..10u8, 0..6u64), 2..500),
            start in any::<u64>(),
            bits in 12..=64u32,
        ) {
            let counting = Counting { bits, window: 8, largest_gap: 1000, ..PACKETS };
            let mut run = Run::new(counting);
            let value = |index: u64| start.wrapping_add(index) & u64::MAX >> (64 - bits);
            let last = fates.len() as u64 - 1;
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for (index, (fate, delay)) in fates.iter().enumerate() {
                let index = index as u64;
                let ends = index == 0 || index == last;
                // The first and the last packet stay in position, so that the counter shows what was sent.
                match fate {
                    _ if ends => sent.push((index * 8 + 6 * u64::from(index == last), index)),
                    0 => {}
                    1 => sent.extend([(index * 8, index), (index * 8 + delay, index)]),
                    2 => sent.push((index * 8 + 8 * (delay % 6), index)),
                    _ => sent.push((index * 8, index)),
                }
            }
            sent.sort();
            sent.retain(|(at, index)| *index == last || *at < last * 8 + 6);
            let distinct: std::collections::BTreeSet<u64> = sent.iter().map(|(_, index)| *index).collect();
            let arrivals = run.all(sent.iter().map(|(_, index)| value(*index)));
            let taken = arrivals.iter().filter(|arrival| **arrival == Arrival::New).count() as u64;
            prop_assert!(!arrivals.contains(&Arrival::Unconfirmed));
            prop_assert_eq!(taken, distinct.len() as u64);
            prop_assert_eq!(taken + run.finish(), last + 1);
        }

        #[test]
        fn arbitrary_numbers_only_count(values in proptest::collection::vec((any::<u64>(), 0..70u32), 0..200), bits in 1..=64u32) {
            let window = 1i64.max((1i64 << (bits - 1).min(10)) / 2).min(5);
            let largest_gap = (1i64 << (bits - 1).min(30)) - 1;
            let counting = Counting { bits, group_packets: 65, window, largest_gap, every_group: true };
            let mut run = Run::new(counting);
            for (value, index) in values {
                run.arrive(value & u64::MAX >> (64 - bits), index);
            }
            run.finish();
        }
    }
}
