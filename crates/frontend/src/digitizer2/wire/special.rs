//! Special events: start and stop of a run.
//!
//! ```text
//!  header   63..60 format 3 | 59..56 id: 0 start, 2 stop | 39..32 additional words A | 31..0 A + 1
//!  each     63..56 type: 0 48-bit, 1 32-bit, 2 acquisition width | 55..0 data
//! ```

use super::{EventHeader, TIME_MASK, bits};

/// The kind of a special event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialId {
    /// The acquisition has started.
    Start,
    /// The acquisition has stopped.
    Stop,
    /// Unknown: skipped.
    Unknown(u8),
}

/// The first word of a special event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialHeader(pub u64);

impl SpecialHeader {
    /// A header with the number of words that follow it.
    pub const fn new(id: SpecialId, additional: u8) -> SpecialHeader {
        let id = match id {
            SpecialId::Start => 0,
            SpecialId::Stop => 2,
            SpecialId::Unknown(other) => other as u64 & 15,
        };
        SpecialHeader(3 << 60 | id << 56 | (additional as u64) << 32 | (additional as u64 + 1))
    }

    /// Its kind.
    pub const fn id(self) -> SpecialId {
        match bits(self.0, 56, 4) {
            0 => SpecialId::Start,
            2 => SpecialId::Stop,
            other => SpecialId::Unknown(other as u8),
        }
    }

    /// Number of words that follow it.
    pub const fn additional_words(self) -> u8 {
        bits(self.0, 32, 8) as u8
    }

    /// Whether the size of the event is that of its additional words and itself.
    pub const fn is_consistent(self) -> bool {
        EventHeader(self.0).word_count() == self.additional_words() as u32 + 1
    }
}

/// An additional word of a special event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialWord(pub u64);

impl SpecialWord {
    /// A word of type 0: 48 bits.
    pub const fn time(time: u64) -> SpecialWord {
        SpecialWord(time & TIME_MASK)
    }

    /// A word of type 1: 32 bits.
    pub const fn number(number: u32) -> SpecialWord {
        SpecialWord(1 << 56 | number as u64)
    }

    /// A word of type 2.
    pub const fn acquisition(width: u32, traces: u8, log2_decimation: u8) -> SpecialWord {
        SpecialWord(
            2 << 56
                | width as u64 & 0x1FF_FFFF
                | (traces as u64 & 3) << 25
                | (log2_decimation as u64 & 31) << 27,
        )
    }

    /// Its type.
    pub const fn kind(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Type 0: 48 bits.
    pub const fn as_time(self) -> u64 {
        self.0 & TIME_MASK
    }

    /// Type 1: 32 bits.
    pub const fn as_number(self) -> u32 {
        self.0 as u32
    }

    /// Type 2: samples per acquisition window.
    pub const fn width(self) -> u32 {
        bits(self.0, 0, 25) as u32
    }

    /// Type 2: number of traces.
    pub const fn traces(self) -> u8 {
        bits(self.0, 25, 2) as u8
    }

    /// Type 2: down-sampling as a power of two.
    pub const fn log2_decimation(self) -> u8 {
        bits(self.0, 27, 5) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_examples() {
        assert_eq!(SpecialHeader::new(SpecialId::Start, 3).0, 0x3000_0003_0000_0004);
        assert_eq!(SpecialHeader::new(SpecialId::Stop, 2).0, 0x3200_0002_0000_0003);
        assert_eq!(SpecialWord::acquisition(64, 2, 0).0, 0x0200_0000_0400_0040);
        let word = SpecialWord(0x0200_0000_0400_0040);
        assert_eq!((word.width(), word.traces(), word.log2_decimation()), (64, 2, 0));
        assert_eq!(SpecialWord::number(77).0, 0x0100_0000_0000_004d);
        assert_eq!(SpecialWord::time(123_456).0, 0x0000_0000_0001_e240);
    }
}
