//! Decodes many plain hits at once, by straight-line code that the compiler turns into vector instructions.
//!
//! ```text
//!  32 × (w0, w1) ─► check all, decode all, without a branch ─► 32 × Hit
//!                      └─ one of them is not plain: nothing is kept, the caller reads them one by one
//! ```
//! All times of a call are extended in one window. That gives what extending each next to the one before gives, however many hits
//! there are, if none is a quarter of a wrap or more from the middle of the window: so no two of them are half a wrap apart. A block
//! with another time is not plain.
//!
//! The same source is compiled three times: for the base instruction set of the target, for AVX2 and for AVX-512; the
//! program checks once which of them the processor supports. All versions compute the same integers.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use thalweg_data::simd::Wide;
#[cfg(target_arch = "x86_64")]
use thalweg_data::simd::{Avx2, Avx512};
use thalweg_data::{Flags, Hit};

use super::flags::{HIGH, LOSSY, LOSSY_ONE_WORD};
use crate::digitizer2::wire::{HitWords, TIME_MASK};

/// Bits of the time of a hit of two words, and of one word.
const TIME_BITS: u32 = TIME_MASK.count_ones();
const SHORT_TIME_BITS: u32 = 32;

/// The constants for decoding a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlan {
    /// Start of the window of times ([`super::time::Clock`]).
    pub base: i64,
    /// Picoseconds per count.
    pub tick: u32,
    /// Added to every time.
    pub offset_ps: i64,
    /// Highest channel of the board.
    pub highest_channel: u16,
    /// Added to every channel.
    pub first_channel: u16,
    /// Set in every hit.
    pub flags: Flags,
    /// Bits of word 0 that are 0 in a plain hit: the special bit and, in Open DPP, the user's bits.
    pub not_plain: u64,
    /// Whether the board measures the short energy.
    pub short: bool,
}

/// The result of decoding blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    /// Hits appended.
    pub hits: usize,
    /// Number of hits at the end of these that may need an extra for their flags; decoding stopped behind them.
    pub lossy: usize,
}

/// Hits per block; the rest is decoded in blocks of [`SMALL`].
const LARGE: usize = 32;
const SMALL: usize = 8;
/// Bytes ahead of the current hits that are prefetched.
#[cfg(target_arch = "x86_64")]
const AHEAD_BYTES: usize = 2048;

/// The instructions that the processor supports. Only [`Level::detect`] creates the wider levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Base,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Level {
    /// The widest level that this processor supports.
    pub fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(instructions) = Avx512::detect() {
                return Level(Width::Avx512(instructions));
            }
            if let Some(instructions) = Avx2::detect() {
                return Level(Width::Avx2(instructions));
            }
        }
        Level(Width::Base)
    }

    /// All levels that this processor supports, for tests.
    #[cfg(test)]
    pub fn all() -> Vec<Level> {
        let mut levels = vec![Level(Width::Base)];
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend(Avx2::detect().map(|instructions| Level(Width::Avx2(instructions))));
            levels.extend(Avx512::detect().map(|instructions| Level(Width::Avx512(instructions))));
        }
        levels
    }

    /// Appends hits of two words from the start of `words` while whole blocks are plain.
    pub fn two_word_hits(self, plan: &BlockPlan, words: &[[u8; 8]], out: &mut Vec<Hit>) -> Decoded {
        self.run(Blocks { plan, words, out, shape: PhantomData::<TwoWords> })
    }

    /// Appends hits of one word in the same way.
    pub fn one_word_hits(self, plan: &BlockPlan, words: &[[u8; 8]], out: &mut Vec<Hit>) -> Decoded {
        self.run(Blocks { plan, words, out, shape: PhantomData::<OneWord> })
    }

    fn run(self, work: impl Wide<Output = Decoded>) -> Decoded {
        match self.0 {
            Width::Base => work.run(),
            #[cfg(target_arch = "x86_64")]
            Width::Avx2(instructions) => instructions.run(work),
            #[cfg(target_arch = "x86_64")]
            Width::Avx512(instructions) => instructions.run(work),
        }
    }
}

/// Blocks of one kind of hit, to be decoded.
struct Blocks<'a, H> {
    plan: &'a BlockPlan,
    words: &'a [[u8; 8]],
    out: &'a mut Vec<Hit>,
    shape: PhantomData<H>,
}

impl<H: HitKind> Wide for Blocks<'_, H> {
    type Output = Decoded;

    #[inline(always)]
    fn run(self) -> Decoded {
        run::<H>(self.plan, self.words, self.out)
    }
}

/// A kind of hit of fixed size.
trait HitKind {
    /// Words of a hit.
    const WORDS: usize;

    /// Time and packed fields of the hit, whether it is not plain (bit 63), and its lossy flags.
    fn decode(plan: &BlockPlan, words: &[[u8; 8]]) -> (i64, u64, u64, u64);
}

struct TwoWords;

impl HitKind for TwoWords {
    const WORDS: usize = 2;

    #[inline(always)]
    fn decode(plan: &BlockPlan, words: &[[u8; 8]]) -> (i64, u64, u64, u64) {
        const LOSSY_BITS: u64 = (LOSSY as u64 & 0xFFF) << 50 | (LOSSY as u64 >> 12) << 42;
        let (w0, w1) = (u64::from_be_bytes(words[0]), u64::from_be_bytes(words[1]));
        // Bit 63 of word 0 makes this "channel" 128 or more.
        let channel = w0 >> 56;
        let beyond = u64::from(plan.highest_channel).wrapping_sub(channel);
        let (start, far) = time_ps::<TIME_BITS>(plan, w0);
        let unusual = beyond | plain_zero(w0 & plan.not_plain) | !w1 | w1 << 1 | far;
        let fine = w1 >> 16 & 0x3FF;
        let time = start + ((fine * u64::from(plan.tick)) >> 10) as i64;
        let short = if plan.short { w1 >> 26 & 0xFFFF } else { 0 };
        let flags = (w1 >> 42 & HIGH as u64)
            | (w1 >> 50 & 1) << 8
            | (w1 >> 56 & 1) << 9
            | (w1 >> 53 & 1) << 10
            | u64::from(plan.flags.0);
        (
            time,
            pack(channel + u64::from(plan.first_channel), w1 & 0xFFFF, short, flags),
            unusual,
            w1 & LOSSY_BITS,
        )
    }
}

struct OneWord;

impl HitKind for OneWord {
    const WORDS: usize = 1;

    #[inline(always)]
    fn decode(plan: &BlockPlan, words: &[[u8; 8]]) -> (i64, u64, u64, u64) {
        const LOSSY_BITS: u64 = (LOSSY_ONE_WORD as u64 >> 12) << 48;
        const SHOWN: u64 = HIGH as u64 & !(Flags::FINE_TIME.0 as u64);
        let word = u64::from_be_bytes(words[0]);
        let channel = word >> 56 & 0x7F;
        let (time, far) = time_ps::<SHORT_TIME_BITS>(plan, word >> 16);
        let unusual = u64::from(plan.highest_channel).wrapping_sub(channel) | !word | far;
        let flags = (word >> 48 & SHOWN) | u64::from((plan.flags | Flags::NO_ENERGY_SHORT).0);
        (
            time,
            pack(channel + u64::from(plan.first_channel), word & 0xFFFF, 0, flags),
            unusual,
            word & LOSSY_BITS,
        )
    }
}

/// Returns bit 63 if any bit of a value below 2^63 is set.
#[inline(always)]
fn plain_zero(value: u64) -> u64 {
    0u64.wrapping_sub(value)
}

/// The time of a hit whose lowest `BITS` bits were sent; bit 63 of the second value if it is far from the middle of the window.
#[inline(always)]
fn time_ps<const BITS: u32>(plan: &BlockPlan, sent: u64) -> (i64, u64) {
    // The extension of `time::extend`, multiplied out so that one factor has 48 bits and the other 32.
    let within = sent.wrapping_sub(plan.base as u64) & u64::MAX >> (64 - BITS);
    let start = plan.base.wrapping_mul(i64::from(plan.tick)).wrapping_add(plan.offset_ps);
    let far = within.wrapping_sub(1 << (BITS - 2)) << (64 - BITS);
    ((within.wrapping_mul(u64::from(plan.tick)) as i64).wrapping_add(start), far)
}

/// The second half of a [`Hit`] as one word.
#[inline(always)]
fn pack(channel: u64, energy: u64, short: u64, flags: u64) -> u64 {
    if cfg!(target_endian = "little") {
        channel | energy << 16 | short << 32 | flags << 48
    } else {
        channel << 48 | energy << 32 | short << 16 | flags
    }
}

#[inline(always)]
fn run<H: HitKind>(plan: &BlockPlan, words: &[[u8; 8]], out: &mut Vec<Hit>) -> Decoded {
    let most = words.len() / H::WORDS;
    out.reserve(most);
    let spare = &mut out.spare_capacity_mut()[..most];
    let mut done = 0;
    let mut lossy = 0;
    while lossy == 0 {
        let size = match most - done {
            LARGE.. => LARGE,
            SMALL.. => SMALL,
            _ => break,
        };
        let from = &words[done * H::WORDS..(done + size) * H::WORDS];
        let into = &mut spare[done..done + size];
        from.iter().step_by(8).for_each(expect_soon);
        let found = match size {
            LARGE => block::<H, LARGE>(plan, from, into),
            _ => block::<H, SMALL>(plan, from, into),
        };
        let Some(needs_extras) = found else { break };
        done += size;
        lossy = if needs_extras { size } else { 0 };
    }
    // SAFETY: the first `done` hits of the spare capacity have been written.
    unsafe { out.set_len(out.len() + done) };
    Decoded { hits: done, lossy }
}

/// Prefetches [`AHEAD_BYTES`] ahead: the processor's own prefetch stops at the end of each page.
#[inline(always)]
fn expect_soon(word: &[u8; 8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that cannot fault, whatever the address; the instruction is in every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(word.as_ptr().cast::<i8>().wrapping_add(AHEAD_BYTES));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

/// Writes `N` hits and returns whether any has lossy flags; `None` if one of them is not plain.
#[inline(always)]
fn block<H: HitKind, const N: usize>(
    plan: &BlockPlan,
    from: &[[u8; 8]],
    into: &mut [MaybeUninit<Hit>],
) -> Option<bool> {
    let from = &from[..N * H::WORDS];
    let into: &mut [MaybeUninit<Hit>; N] = into.first_chunk_mut()?;
    let (mut unusual, mut lossy) = (0, 0);
    for index in 0..N {
        let (time, fields, hit_unusual, hit_lossy) =
            H::decode(plan, &from[index * H::WORDS..(index + 1) * H::WORDS]);
        unusual |= hit_unusual;
        lossy |= hit_lossy;
        // SAFETY: a `Hit` is sixteen bytes without padding, aligned to sixteen, of plain integers: an i64, then four u16
        // that `pack` has put in their order in memory.
        unsafe { into[index].as_mut_ptr().cast::<[u64; 2]>().write([time as u64, fields]) };
    }
    (unusual >> 63 == 0).then_some(lossy != 0)
}

/// Bits of word 0 that are 0 in a plain hit of PSD or PHA.
pub(super) const NOT_PLAIN: u64 = HitWords::SPECIAL;
/// The same for Open DPP, whose seven user bits need an extra.
pub(super) const NOT_PLAIN_OPEN: u64 = HitWords::SPECIAL | 0x7F << 48;
