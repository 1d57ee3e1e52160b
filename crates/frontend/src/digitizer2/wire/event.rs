//! The first word of every event of a board: a scope event, an aggregate of hits, or a special event.
//!
//! ```text
//!  63..60 format | 59 flush | 56 board fail | 55..32 counter or trigger id | 31..0 words, this one included
//! ```

use super::bits;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// 1: one trigger, all channels (scope firmware).
    Scope,
    /// 2: an aggregate of hits (all DPP firmwares).
    Aggregate,
    /// 3: start or stop of the run.
    Special,
    /// Anything else: its words are skipped.
    Unknown(u8),
}

impl Format {
    /// From the four bits.
    #[inline]
    pub const fn from_number(number: u8) -> Format {
        match number & 0xF {
            1 => Format::Scope,
            2 => Format::Aggregate,
            3 => Format::Special,
            other => Format::Unknown(other),
        }
    }

    /// The four bits.
    #[inline]
    pub const fn number(self) -> u8 {
        match self {
            Format::Scope => 1,
            Format::Aggregate => 2,
            Format::Special => 3,
            Format::Unknown(number) => number & 0xF,
        }
    }
}

/// The first word of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader(pub u64);

impl EventHeader {
    /// The header of an aggregate; [`EventHeader::with_word_count`] sets its size.
    pub const fn aggregate(counter: u32, flush: bool, board_fail: bool) -> EventHeader {
        EventHeader(
            2 << 60
                | (flush as u64) << 59
                | (board_fail as u64) << 56
                | ((counter & super::COUNTER_MASK) as u64) << 32
                | 1,
        )
    }

    /// The header of a scope event; [`EventHeader::with_word_count`] sets its size.
    pub const fn scope(trigger_id: u32, board_fail: bool) -> EventHeader {
        EventHeader(
            1 << 60 | (board_fail as u64) << 56 | ((trigger_id & super::COUNTER_MASK) as u64) << 32 | 1,
        )
    }

    /// The same with another size in words.
    pub const fn with_word_count(self, words: u32) -> EventHeader {
        EventHeader(self.0 >> 32 << 32 | words as u64)
    }

    /// The same with another aggregate counter or trigger id.
    pub const fn with_counter(self, counter: u32) -> EventHeader {
        let mask = (super::COUNTER_MASK as u64) << 32;
        EventHeader(self.0 & !mask | (counter as u64) << 32 & mask)
    }

    /// The kind of the event.
    #[inline]
    pub const fn format(self) -> Format {
        Format::from_number((self.0 >> 60) as u8)
    }

    /// Size in words, including this one. 0 is damage.
    #[inline]
    pub const fn word_count(self) -> u32 {
        self.0 as u32
    }

    /// Size in bytes.
    #[inline]
    pub const fn byte_count(self) -> u64 {
        self.word_count() as u64 * 8
    }

    /// The aggregate was closed by a flush.
    pub const fn flush(self) -> bool {
        bits(self.0, 59, 1) == 1
    }

    /// The board latched an error condition while it made this event (not in special events).
    #[inline]
    pub const fn board_fail(self) -> bool {
        bits(self.0, 56, 1) == 1
    }

    /// Aggregate counter or trigger id, 24 bits.
    #[inline]
    pub const fn counter(self) -> u32 {
        bits(self.0, 32, 24) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_worked_examples() {
        assert_eq!(EventHeader::aggregate(7, false, false).with_word_count(4).0, 0x2000_0007_0000_0004);
        assert_eq!(EventHeader::aggregate(0xABCDEF, true, true).0, 0x29ab_cdef_0000_0001);
        let header = EventHeader(0x29ab_cdef_0000_0001);
        assert!(header.flush() && header.board_fail());
        assert_eq!((header.counter(), header.word_count()), (0xABCDEF, 1));
        assert_eq!(header.format(), Format::Aggregate);
        assert_eq!(header.with_counter(1).counter(), 1);
    }
}
