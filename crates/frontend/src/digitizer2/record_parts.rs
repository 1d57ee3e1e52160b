//! How a scope event that is too large is divided.
//!
//! ```text
//!  24 bytes of header | row | row | row | …      a row: one word (four samples) of each channel
//!                     └ part 0 ┴ part 1 ┴ …      2^k rows each, the last one what is left
//! ```
//! Unpacker and decoder know the same from the event's header and from `k`. A part says what it is by `k` and its number
//! alone, in the tag of its first slice, whichever decode worker takes it.

use thalweg_data::record_part::RecordPart;

use super::wire::{ScopeHeader, WORD};

/// Bits of a tag: 15..0 the number of the part, 20..16 the rows of a part as a power of two, 30 a mark.
const IS_PART: u32 = 1 << 30;
const LOG2_ROWS_AT: u32 = 16;

/// Whether a unit whose slices have this tag is a part of an event.
pub(super) const fn is_part(tag: u32) -> bool {
    tag & IS_PART != 0
}

fn row_bytes(header: ScopeHeader) -> u64 {
    u64::from(header.channel_mask().count_ones()) * WORD as u64
}

/// The division of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordParts {
    row_bytes: u64,
    rows: u64,
    log2_rows: u8,
    count: u16,
}

impl RecordParts {
    /// Divides an event into parts of at most `most_bytes`, or of one row. `None` if its header contradicts itself, if
    /// there would be one part, or more than [`RecordPart::MOST`], or if a channel has more samples than a number of 32
    /// bits counts.
    pub fn of(header: ScopeHeader, most_bytes: u64) -> Option<RecordParts> {
        let most_rows = most_bytes.checked_div(row_bytes(header))?.max(1);
        Self::of_rows(header, (most_rows.ilog2() as u8).min(RecordPart::MOST_LOG2_ROWS))
    }

    /// The division of an event of which a part has this tag, and the part.
    pub fn of_tag(header: ScopeHeader, tag: u32) -> Option<(RecordParts, RecordPart)> {
        let parts = Self::of_rows(header, (tag >> LOG2_ROWS_AT) as u8 & 31)?;
        let part = parts.part(tag as u16);
        (part.index < part.count).then_some((parts, part))
    }

    fn of_rows(header: ScopeHeader, log2_rows: u8) -> Option<RecordParts> {
        let rows = u64::from(header.words_per_channel()?);
        let row_bytes = row_bytes(header);
        let count = u16::try_from(rows.div_ceil(1 << log2_rows)).ok()?;
        let is_counted = rows * u64::from(RecordPart::ROW_SAMPLES) <= u64::from(u32::MAX);
        let is_divided = (2..=RecordPart::MOST).contains(&count);
        (is_counted && is_divided).then_some(RecordParts { row_bytes, rows, log2_rows, count })
    }

    /// The tag of a part's slices, which is none of a whole event: see [`is_part`].
    pub fn tag(self, index: u16) -> u32 {
        IS_PART | u32::from(self.log2_rows) << LOG2_ROWS_AT | u32::from(index)
    }

    /// A part by its number.
    pub fn part(self, index: u16) -> RecordPart {
        RecordPart { index, count: self.count, log2_rows: self.log2_rows }
    }

    /// Bytes of a part, without the header.
    pub fn bytes(self, index: u16) -> u64 {
        let before = u64::from(index) << self.log2_rows;
        self.rows.saturating_sub(before).min(1 << self.log2_rows) * self.row_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::digitizer2::wire::EventHeader;

    fn header(mask: u64, words_per_channel: u32) -> ScopeHeader {
        let words = 3 + u64::from(words_per_channel) * u64::from(mask.count_ones());
        ScopeHeader(EventHeader::scope(7, false).with_word_count(words as u32).0, 0, mask)
    }

    proptest! {
        #[test]
        fn parts_follow_each_other_and_are_all_of_the_event(mask in 1u64.., rows in 1u32..1_000_000, most_bytes in 8u64..1 << 20) {
            let Some(parts) = RecordParts::of(header(mask, rows), most_bytes) else { return Ok(()) };
            let row_bytes = 8 * u64::from(mask.count_ones());
            let mut bytes = 0;
            for index in 0..parts.count {
                let part = parts.part(index);
                prop_assert_eq!(part.first_sample(), bytes / row_bytes * 4);
                let tag = parts.tag(index);
                prop_assert!(is_part(tag));
                prop_assert_eq!(RecordParts::of_tag(header(mask, rows), tag), Some((parts, part)));
                prop_assert!(parts.bytes(index) > 0 && parts.bytes(index) <= most_bytes.max(row_bytes));
                bytes += parts.bytes(index);
            }
            prop_assert_eq!(bytes, row_bytes * u64::from(rows));
            prop_assert_eq!(parts.bytes(parts.count), 0);
        }
    }

    #[test]
    fn an_event_of_84_ms_has_321_parts() {
        // 42 000 000 samples of 32 channels.
        let parts = RecordParts::of(header(u32::MAX.into(), 10_500_000), 8 << 20).expect("divided");
        assert_eq!((parts.count, parts.bytes(0)), (321, 8 << 20));
        assert_eq!(parts.part(320).first_sample(), 41_943_040);
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        assert_eq!(RecordParts::of(header(1, 100), 1 << 20), None, "one part");
        assert_eq!(RecordParts::of(header(1, 1 << 20), 8), None, "too many");
        assert_eq!(RecordParts::of(header(0, 0), 8), None, "no channel");
        assert_eq!(RecordParts::of(ScopeHeader(header(3, 100).0 + 1, 0, 3), 64), None, "not a whole row");
        assert_eq!(RecordParts::of(header(1, 1 << 30), 1 << 30), None, "more than 2^32 samples");
    }
}
