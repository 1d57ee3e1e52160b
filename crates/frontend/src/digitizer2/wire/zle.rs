//! A zero-length-encoding record: runs of good and of suppressed samples of one channel.
//!
//! ```text
//!  word 0   63 = 0 | 62..56 channel | 55 last channel of the event | 47..0 time stamp
//!  word 1   63 last | 62 wave | 51..36 default value | 32 even counters are good | 31..0 counter 0
//!  more     two counters each: even in the high half, odd in the low half | 63 last
//!  wave     wave header, then the good samples alone, four per word
//! ```
//! The runs alternate between good and suppressed. The first is counter 0; in each further word, the low half comes
//! first. A suppressed sample has the default value. The record's length is the sum of its runs.

use super::{HitWords, TIME_MASK, bits};

/// Words 0 and 1 of a zero-length-encoding record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZleWords(pub u64, pub u64);

impl ZleWords {
    /// Channel of the board, 0 to 127.
    pub const fn channel(self) -> u16 {
        bits(self.0, 56, 7) as u16
    }

    /// Whether the event is complete with this record.
    pub const fn last_channel(self) -> bool {
        self.0 & HitWords::SPECIAL != 0
    }

    /// Time stamp, 48 bits.
    pub const fn timestamp(self) -> u64 {
        self.0 & TIME_MASK
    }

    /// Whether no further counter word follows.
    pub const fn last(self) -> bool {
        self.1 & HitWords::LAST != 0
    }

    /// Whether good samples follow.
    pub const fn wave(self) -> bool {
        self.1 & HitWords::WAVE != 0
    }

    /// The value of every suppressed sample.
    pub const fn default_value(self) -> u16 {
        bits(self.1, 36, 16) as u16
    }

    /// Whether runs 0, 2, 4, … are good (otherwise runs 1, 3, 5, …).
    pub const fn even_are_good(self) -> bool {
        bits(self.1, 32, 1) == 1
    }

    /// The first run.
    pub const fn counter(self) -> ZleCounter {
        ZleCounter(self.1 as u32)
    }
}

/// One run of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZleCounter(pub u32);

impl ZleCounter {
    /// A run of `samples` (28 bits).
    pub const fn new(samples: u32, last: bool) -> ZleCounter {
        ZleCounter(samples & 0xFFF_FFFF | (last as u32) << 30)
    }

    /// Samples in the run.
    pub const fn samples(self) -> u32 {
        self.0 & 0xFFF_FFFF
    }

    /// Whether the board's memory had no space for more counters.
    pub const fn counters_truncated(self) -> bool {
        self.0 >> 28 & 1 == 1
    }

    /// Whether the board's memory had no space for more samples.
    pub const fn wave_truncated(self) -> bool {
        self.0 >> 29 & 1 == 1
    }

    /// Whether no run follows.
    pub const fn last(self) -> bool {
        self.0 >> 30 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_format() {
        let words = ZleWords(3 << 56 | 1 << 55 | 99, 1 << 63 | 1 << 62 | 700 << 36 | 1 << 32 | 1 << 30 | 40);
        assert_eq!((words.channel(), words.timestamp(), words.default_value()), (3, 99, 700));
        assert!(words.last_channel() && words.last() && words.wave() && words.even_are_good());
        assert_eq!((words.counter().samples(), words.counter().last()), (40, true));
        assert_eq!(ZleCounter::new(40, true), words.counter());
    }
}
