//! Where the words are that change from lap to lap: times and counters.
//!
//! ```text
//!  plain hits:  |header| hit hit hit …          times at equal distances, found while they are written
//!  all others:  |header| hit, samples … │ hit   a list of places for each datagram
//! ```

use crate::digitizer2::wire::TIME_MASK;

/// A word of a datagram that changes from lap to lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Its first byte in the datagram's data.
    pub offset: u32,
    pub word: StampedWord,
}

/// What changes in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StampedWord {
    /// The header of an aggregate or scope event, in which its number is; with the hits of that event.
    Counter { hits: u32 },
    /// A time of 48 bits.
    Time,
    /// The time of 32 bits of a one-word hit.
    ShortTime,
}

/// Where the changing words of a ring's datagrams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamps {
    /// In aggregates of plain hits, at their starts: hits of two words, or of one.
    PlainHits { one_word: bool },
    /// In the list of each datagram.
    Listed,
}

/// Adds `base` to the 48-bit time of word 0 of each hit of two words.
pub(super) fn stamp_two_words(hits: &mut [u8], base: u64) {
    for hit in hits.as_chunks_mut::<16>().0 {
        let first = hit.first_chunk_mut::<8>().expect("16 bytes hold 8");
        stamp_time(first, base);
    }
}

/// Adds `base` to the time of each hit of one word.
pub(super) fn stamp_one_word(hits: &mut [u8], base: u64) {
    for hit in hits.as_chunks_mut::<8>().0 {
        stamp_short_time(hit, base);
    }
}

/// Adds `base` to the time in bits 47..0.
#[inline]
pub(super) fn stamp_time(word: &mut [u8; 8], base: u64) {
    let bits = u64::from_be_bytes(*word);
    *word = (bits & !TIME_MASK | bits.wrapping_add(base) & TIME_MASK).to_be_bytes();
}

/// Adds `base` to the time in bits 47..16.
#[inline]
pub(super) fn stamp_short_time(word: &mut [u8; 8], base: u64) {
    const TIME: u64 = 0xFFFF_FFFF << 16;
    let bits = u64::from_be_bytes(*word);
    *word = (bits & !TIME | bits.wrapping_add(base << 16) & TIME).to_be_bytes();
}
