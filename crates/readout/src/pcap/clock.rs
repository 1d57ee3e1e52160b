//! The capture's time since its first packet, never going back.
//!
//! ```text
//!  time of a packet, of the next one ─► is it far ahead, and the next one back at the time before? ─┬ no ─► the clock follows it
//!                                                                                                   └ yes ► the clock stands
//! ```
//! Counters are extended over their wraps by this clock. As it never goes back, one damaged time that it followed would move all later hits.

/// A time this far ahead needs the next packet's as well: packets that come out of order are closer.
const AHEAD_NS: u64 = 1_000_000_000;
/// A capture has no longer pause than this.
const LONGEST_PAUSE_NS: u64 = super::classic::LONGEST_PAUSE_S as u64 * 1_000_000_000;

/// The capture's time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    first_ns: Option<u64>,
    now_ns: u64,
}

impl Clock {
    /// The time of the last packet that was taken, since the first.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Takes a packet of this time.
    pub fn advance(&mut self, time_ns: u64) {
        self.now_ns = time_ns;
    }

    /// Whether the time of the next packet must be known for that of this one.
    pub fn needs_next(&self, packet_ns: Option<u64>) -> bool {
        packet_ns
            .is_some_and(|time| self.before().is_none_or(|before| time.saturating_sub(before) > AHEAD_NS))
    }

    /// The time of a packet, since the first; `next_ns` is that of the next one, if it is known.
    ///
    /// # Errors
    /// When the times of the packets around it contradict it: by how many nanoseconds.
    pub fn time(&mut self, packet_ns: Option<u64>, next_ns: Option<u64>) -> Result<u64, u64> {
        let Some(packet_ns) = packet_ns else { return Ok(self.now_ns) };
        if self.needs_next(Some(packet_ns))
            && let Some(off_ns) = self.contradicted(packet_ns, next_ns)
        {
            return Err(off_ns);
        }
        let first_ns = *self.first_ns.get_or_insert(packet_ns);
        Ok(packet_ns.saturating_sub(first_ns).max(self.now_ns))
    }

    /// By how much a time is off that is far ahead of the packet before, or the first; `None` if it may be right.
    fn contradicted(&self, packet_ns: u64, next_ns: Option<u64>) -> Option<u64> {
        match (self.before(), next_ns) {
            (before, Some(next)) if next.saturating_add(AHEAD_NS) < packet_ns => {
                // A next packet from before the one before is itself out of order, and says nothing.
                let is_back = before.is_none_or(|before| next.saturating_add(AHEAD_NS) >= before);
                is_back.then_some(packet_ns - next)
            }
            (None, next) => {
                next.map(|next| next.saturating_sub(packet_ns)).filter(|off| *off > LONGEST_PAUSE_NS)
            }
            (Some(before), None) => Some(packet_ns - before).filter(|off| *off > LONGEST_PAUSE_NS),
            (Some(_), Some(_)) => None,
        }
    }

    /// The time that the clock shows; `None` before the first packet.
    fn before(&self) -> Option<u64> {
        self.first_ns.map(|first| first.saturating_add(self.now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_700_000_000 * SECOND;

    /// The time of each packet, in seconds since the first, and the numbers of those whose times are off.
    fn times(packets: &[u64]) -> (Vec<u64>, Vec<usize>) {
        let (mut clock, mut off) = (Clock::default(), Vec::new());
        let times = packets.iter().enumerate().map(|(index, packet)| {
            match clock.time(Some(*packet), packets.get(index + 1).copied()) {
                Ok(time_ns) => clock.advance(time_ns),
                Err(_) => off.push(index),
            }
            clock.now_ns() / SECOND
        });
        (times.collect(), off)
    }

    fn at(seconds: [i64; 5]) -> [u64; 5] {
        seconds.map(|second| START.saturating_add_signed(second.saturating_mul(SECOND as i64)))
    }

    #[test]
    fn a_time_that_the_next_packet_contradicts_is_not_followed() {
        const YEARS: i64 = 1 << 31;
        for (packets, expected, off) in [
            ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], &[][..]),
            ([0, 1, 4096, 3, 4], [0, 1, 1, 3, 4], &[2]),
            ([0, 1, YEARS, 3, 4], [0, 1, 1, 3, 4], &[2]),
            ([0, 1, -YEARS, 3, 4], [0, 1, 1, 3, 4], &[]),
            // Behind a pause of a minute; the pause itself is followed at once, also before a damaged time.
            ([0, 60, 4096, 61, 62], [0, 60, 60, 61, 62], &[2]),
            ([0, 60, -4096, 61, 62], [0, 60, 60, 61, 62], &[]),
            // The clock of the host was set, forwards and backwards.
            ([0, 1, 4096, 4097, 4098], [0, 1, 4096, 4097, 4098], &[]),
            ([0, 1, 2, -100, -99], [0, 1, 2, 2, 2], &[]),
            // Nothing speaks for the last one, or against it.
            ([0, 1, 2, 3, 4096], [0, 1, 2, 3, 4096], &[]),
            ([0, 1, 2, 3, YEARS], [0, 1, 2, 3, 3], &[4]),
            // Nothing was before the first one.
            ([4096, 1, 2, 3, 4], [0, 0, 1, 2, 3], &[0]),
            ([-YEARS, 1, 2, 3, 4], [0, 0, 1, 2, 3], &[0]),
            ([0, YEARS, 2, 3, 4], [0, 0, 0, 1, 2], &[0, 1]),
            ([0, 4096, 2, 3, 4], [0, 0, 2, 3, 4], &[1]),
        ] {
            assert_eq!(times(&at(packets)), (expected.to_vec(), off.to_vec()), "{packets:?}");
        }
    }

    #[test]
    fn packets_out_of_order_and_without_a_time_leave_the_clock_as_it_is() {
        let (times, off) = times(&[START, START + SECOND - 1, START + 1, START + SECOND]);
        assert_eq!((times, off), (vec![0, 0, 0, 1], vec![]));
        let mut clock = Clock::default();
        assert_eq!(clock.time(None, None), Ok(0));
        assert_eq!(clock.time(Some(u64::MAX), None), Ok(0));
        assert_eq!(clock.time(Some(0), None), Ok(0));
    }
}
