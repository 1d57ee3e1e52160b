//! The words of an x27xx board, one structure per file, each a checked view of plain numbers.
//!
//! ```text
//!  8 wire bytes (big-endian) ──► u64 ──► EventHeader · HitWords · WaveInfo · … ──► fields
//!  fields ──► the same types' constructors ──► u64 ──► 8 wire bytes
//! ```
//! A view is one or two words by value: units may be in several slices of several blocks, so views do not refer to
//! bytes. No accessor can fail; `unpack` and `decode`, which read the words, check the lengths. Bit numbers in comments
//! are those of the native word; bit 63 is first on the wire.

pub mod event;
pub mod extra;
pub mod footer;
pub mod hit;
pub mod packet;
pub mod probes;
pub mod scope;
pub mod special;
pub mod zle;

pub use event::{EventHeader, Format};
pub use extra::{CounterInfo, ExtraType, ExtraWord, Probe, TimeInfo, WaveHeader, WaveInfo};
pub use footer::{Footer, hash};
pub use hit::{HitWords, OneWordHit};
pub use packet::PacketHeader;
pub use probes::probe_names;
pub use scope::ScopeHeader;
pub use special::{SpecialHeader, SpecialId, SpecialWord};
pub use zle::{ZleCounter, ZleWords};

/// Bytes of a word.
pub const WORD: usize = 8;
/// Channel numbers have seven bits.
pub const CHANNELS: u16 = 128;
/// Mask of the 48 bits of a time stamp.
pub const TIME_MASK: u64 = (1 << 48) - 1;
/// Mask of the 24 bits of aggregate, trigger and statistics counters.
pub const COUNTER_MASK: u32 = (1 << 24) - 1;

/// `count` bits of `word`, from bit `low` on.
#[inline(always)]
pub(crate) const fn bits(word: u64, low: u32, count: u32) -> u64 {
    word >> low & ((1 << count) - 1)
}

/// Distance from `before` to `now` of a 24-bit counter, 0 to 2^24 - 1.
#[inline]
pub const fn counter_distance(before: u32, now: u32) -> u32 {
    now.wrapping_sub(before) & COUNTER_MASK
}
