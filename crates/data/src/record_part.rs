//! The parts of a scope record that is too large to be handled whole.
//!
//! ```text
//!  a record of n samples on each channel:  | part 0 | part 1 | … | part count − 1 |
//!                                          └ 2^k rows of four samples of each channel ┘ the last part has what is left
//! ```
//! A record of the longest time that a board allows, on all of its channels, is larger than what the receiver may hold of it: 84 ms of 32
//! channels at 500 MS/s are 2.7 GB. Each part is decoded, ordered and recorded for itself, as a hit of every channel, and says where in
//! the record its samples are.

/// Most bytes of a record that is handled whole, whatever its receiver could hold.
pub const MOST_RECORD_BYTES: u64 = 16 << 20;

/// Which part of a record some samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPart {
    /// Its number, from 0.
    pub index: u16,
    /// How many parts the record has: 2 to [`RecordPart::MOST`].
    pub count: u16,
    /// Rows of all parts but the last, as a power of two.
    pub log2_rows: u8,
}

impl RecordPart {
    /// Most parts of a record.
    pub const MOST: u16 = u16::MAX;
    /// Samples of each channel in a row.
    pub const ROW_SAMPLES: u32 = 4;
    /// Largest number of rows, as a power of two.
    pub const MOST_LOG2_ROWS: u8 = 29;

    /// Samples of each channel in front of this part.
    pub const fn first_sample(self) -> u64 {
        (self.index as u64 * Self::ROW_SAMPLES as u64) << self.log2_rows
    }

    /// As bits of an extra's `info`: 63..48 the count, 47..32 the number, 12..8 the rows.
    pub const fn to_info(self) -> u64 {
        (self.count as u64) << 48 | (self.index as u64) << 32 | (self.log2_rows as u64) << 8
    }

    /// The inverse of [`RecordPart::to_info`], whatever the other bits are; `None` of a record that is whole.
    pub const fn from_info(info: u64) -> Option<RecordPart> {
        match (info >> 48) as u16 {
            0 => None,
            count => {
                Some(RecordPart { index: (info >> 32) as u16, count, log2_rows: (info >> 8) as u8 & 31 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_read_as_they_were_made(
            (index, count, log2_rows) in (any::<u16>(), 1..=RecordPart::MOST, 0..=RecordPart::MOST_LOG2_ROWS),
            (first, stride) in (0..64u64, 1..=64u64),
        ) {
            let part = RecordPart { index, count, log2_rows };
            let info = part.to_info() | stride << 16 | first;
            prop_assert_eq!(RecordPart::from_info(info), Some(part));
            prop_assert_eq!((info & 0xFF, info >> 16 & 0xFFFF), (first, stride));
        }
    }

    #[test]
    fn a_whole_record_is_no_part() {
        assert_eq!(RecordPart::from_info(64 << 16 | 63), None);
        assert_eq!(RecordPart { index: 3, count: 9, log2_rows: 15 }.first_sample(), 3 * 4 * 32_768);
    }
}
