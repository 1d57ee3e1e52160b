//! Where the records of an aggregate end, by their framing alone, and how an aggregate that is too large is divided there.
//!
//! ```text
//!  | header | hit | hit | waveform hit | hit | …      a record: a hit with all that belongs to it, or statistics
//!           └─ part ────┴─ part ───────┴─ …           whole records; in front of each the header
//! ```
//! The number of parts is not known before the last one, so a part says by its tag alone whether it is the first or the last.

use super::Firmware;
use super::cursor::Cursor;
use super::wire::{HitWords, OneWordHit, WORD, WaveHeader};

/// Bits of a tag: 29 a mark, 1 it is the first part, 0 it is the last.
const IS_PART: u32 = 1 << 29;
const IS_FIRST: u32 = 1 << 1;
const IS_LAST: u32 = 1;

/// The place of a part in its aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartOfAggregate {
    pub is_first: bool,
    pub is_last: bool,
}

impl PartOfAggregate {
    /// The tag of its slices, which is none of a whole event, and none of a part of a scope event.
    pub fn tag(self) -> u32 {
        IS_PART | if self.is_first { IS_FIRST } else { 0 } | if self.is_last { IS_LAST } else { 0 }
    }

    /// The part whose slices have this tag, if it is one.
    pub fn of_tag(tag: u32) -> Option<PartOfAggregate> {
        let is_part = tag & IS_PART != 0;
        is_part.then_some(PartOfAggregate { is_first: tag & IS_FIRST != 0, is_last: tag & IS_LAST != 0 })
    }
}

/// Bytes of the whole records from the cursor on, up to one that is cut off.
pub(super) fn whole_records(firmware: Firmware, mut cursor: Cursor<'_>) -> usize {
    let all = cursor.remaining();
    let mut whole = 0;
    while all > whole && skip_record(firmware, &mut cursor).is_some() {
        whole = all - cursor.remaining();
    }
    whole
}

/// Skips a record; `None` if it is cut off, or is none of this firmware.
fn skip_record(firmware: Firmware, cursor: &mut Cursor<'_>) -> Option<()> {
    let first = cursor.word()?;
    if OneWordHit::is(first) {
        return (firmware != Firmware::Zle).then_some(());
    }
    let words = HitWords(first, cursor.word()?);
    let has_wave = match firmware {
        Firmware::Psd | Firmware::Pha => words.wave() && !words.last() && !words.special(),
        Firmware::OpenDpp => words.wave() && !words.last(),
        Firmware::Zle => words.wave(),
        Firmware::Scope => return None,
    };
    let mut is_last = words.last();
    while !is_last {
        is_last = cursor.word()? & HitWords::LAST != 0;
    }
    match has_wave {
        true => {
            let header = WaveHeader(cursor.word()?);
            cursor.skip(header.word_count() * WORD)
        }
        false => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digitizer2::record_parts;

    #[test]
    fn a_tag_says_which_part_it_is() {
        for (is_first, is_last) in [(true, false), (false, false), (false, true)] {
            let part = PartOfAggregate { is_first, is_last };
            assert_eq!(PartOfAggregate::of_tag(part.tag()), Some(part));
            assert!(!record_parts::is_part(part.tag()));
        }
        assert!((0..16).all(|format| PartOfAggregate::of_tag(format).is_none()));
    }
}
