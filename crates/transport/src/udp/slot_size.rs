//! How long a slot is: as the datagrams of late, not as the longest that may come. A board that sends 400 bytes at a time would leave most
//! of its memory empty otherwise.
//!
//! ```text
//!  lengths ─► SlotSize ─ every window, and at once when one is longer ─► bytes of a slot
//!
//!  rest of a block:  |slot|slot|slot|…|  space for as many of the longest datagrams, to which those are copied that do not fit  |
//! ```

/// Datagrams between two decisions to make slots shorter.
const WINDOW_DATAGRAMS: u32 = 512;
/// Slots start on cache lines.
const STEP_BYTES: usize = 64;

/// Follows the lengths of what comes.
#[derive(Debug)]
pub(super) struct SlotSize {
    most: usize,
    now: usize,
    /// The longest datagram of the present window, and how many that has had.
    longest: usize,
    datagrams: u32,
}

impl SlotSize {
    /// Starts with slots for the longest datagram, `most` bytes, a multiple of 64.
    pub(super) fn new(most: usize) -> SlotSize {
        SlotSize { most, now: most, longest: 0, datagrams: 0 }
    }

    /// Bytes that every datagram fits in: what a block must have for one.
    pub(super) fn most_bytes(&self) -> usize {
        self.most
    }

    /// Bytes that one slot takes of a block, with the space for a datagram that does not fit it.
    pub(super) fn bytes_with_space(&self) -> usize {
        if self.now < self.most { self.now + self.most } else { self.most }
    }

    /// How many slots, and of how many bytes, there can be in the rest of a block; of the longest datagram, where it has no space for one
    /// that is longer than its slot.
    pub(super) fn slots(&self, rest: usize) -> (usize, usize) {
        match rest / self.bytes_with_space() {
            0 => (rest / self.most, self.most),
            count => (count, self.now),
        }
    }

    /// A datagram of this length has come.
    #[inline]
    pub(super) fn note(&mut self, length: usize) {
        self.longest = self.longest.max(length);
        self.datagrams += 1;
        if length > self.now || self.datagrams >= WINDOW_DATAGRAMS {
            self.decide();
        }
    }

    #[cold]
    fn decide(&mut self) {
        self.now = self.longest.next_multiple_of(STEP_BYTES).clamp(STEP_BYTES, self.most);
        (self.longest, self.datagrams) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_as_long_as_the_datagrams_of_late() {
        let mut size = SlotSize::new(9216);
        let mut after = |length: usize, times: u32| {
            (0..times).for_each(|_| size.note(length));
            size.slots(100_000)
        };
        assert_eq!(after(400, WINDOW_DATAGRAMS - 1), (10, 9216));
        assert_eq!(after(400, 1), (10, 448));
        assert_eq!(after(449, 1), (10, 512), "at once");
        assert_eq!(after(20_000, 1), (10, 9216), "never more than the longest");
        assert_eq!(after(0, WINDOW_DATAGRAMS), (10, 64));
        assert_eq!([9279, 9216, 9215].map(|rest| size.slots(rest)), [(1, 9216), (1, 9216), (0, 9216)]);
    }
}
