//! A scope event: one trigger, all channels of a mask, samples interleaved word by word.
//!
//! ```text
//!  word 0   event header, counter = trigger id
//!  word 1   63..51 flags | 50..48 samples overlapped | 47..0 time stamp
//!  word 2   63..0 channel mask
//!  words    a: samples 0-3 | b: samples 0-3 | … | a: samples 4-7 | …     (first sample in bits 15..0)
//! ```

use super::{EventHeader, TIME_MASK, bits};

/// The three header words of a scope event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeHeader(pub u64, pub u64, pub u64);

impl ScopeHeader {
    /// Header words.
    pub const WORDS: usize = 3;

    /// The first word as an event header.
    pub const fn event(self) -> EventHeader {
        EventHeader(self.0)
    }

    /// Flags, 13 bits.
    pub const fn flags(self) -> u16 {
        bits(self.1, 51, 13) as u16
    }

    /// Samples that this event shares with the one before, 0 to 7.
    pub const fn samples_overlapped(self) -> u8 {
        bits(self.1, 48, 3) as u8
    }

    /// Time stamp, 48 bits.
    pub const fn timestamp(self) -> u64 {
        self.1 & TIME_MASK
    }

    /// One bit per channel that has samples.
    pub const fn channel_mask(self) -> u64 {
        self.2
    }

    /// Sample words per channel; `None` if the size is not a multiple of the number of channels, which means damage.
    pub const fn words_per_channel(self) -> Option<u32> {
        let Some(words) = self.event().word_count().checked_sub(Self::WORDS as u32) else { return None };
        match self.2.count_ones() {
            0 if words == 0 => Some(0),
            0 => None,
            channels if words.is_multiple_of(channels) => Some(words / channels),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let header = ScopeHeader(0x1000_0003_0000_0005, 0x1000, 0b101);
        assert_eq!((header.event().counter(), header.timestamp()), (3, 4096));
        assert_eq!(header.words_per_channel(), Some(1));
        assert_eq!(ScopeHeader(0x1000_0003_0000_0006, 0, 0b101).words_per_channel(), None);
        assert_eq!(ScopeHeader(0x1000_0003_0000_0003, 0, 0).words_per_channel(), Some(0));
        assert_eq!(ScopeHeader(0x1000_0003_0000_0001, 0, 0).words_per_channel(), None);
    }
}
