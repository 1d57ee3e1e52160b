//! The last word of every UDP datagram, whose hash contains the datagram's number.
//!
//! ```text
//!  63..48 buffer id | 46..15 hash | 14 aligned | 13..1 data words | 0 last of the buffer
//!
//!  hash = DJB2a over 32-bit elements: datagram id, then the low half of every data word
//!  h = 5381;  h = 33·h ⊕ element
//! ```
//! The datagram id is not sent. But 33 is odd and therefore has an inverse modulo 2^32, so the hash can be computed
//! *backwards* from the footer over the data, which gives the id. No search is needed for a lost datagram, the number
//! of lost datagrams is exact, and damage shows as an unexpected id. Backwards, no datagram depends on the id of
//! another, so several hashes are computed in parallel and their multiplications overlap.

use thalweg_data::simd::{Wide, widest};

use super::bits;

const SEED: u32 = 5381;
const FACTOR: u32 = 33;
/// `FACTOR * INVERSE = 1` modulo 2^32.
const INVERSE: u32 = {
    // Newton's iteration doubles the correct bits: 5 → 10 → 20 → 40.
    let mut inverse = FACTOR;
    let mut step = 0;
    while step < 4 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(FACTOR.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

/// Most datagrams whose hashes are computed in parallel: one multiplication of a wide register.
pub const LANES: usize = 16;
/// Lanes for few datagrams: each lane costs its time, whether it has a datagram or not.
const FEW_LANES: usize = 8;
/// Most data words of one datagram: 65507 bytes of UDP payload, less the footer.
pub const MOST_WORDS: usize = 8187;

/// The footer word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer(pub u64);

impl Footer {
    /// Bytes of the footer.
    pub const BYTES: usize = 8;

    /// Builds the word.
    pub const fn new(buffer_id: u16, hash: u32, aligned: bool, words: u16, last: bool) -> Footer {
        Footer(
            (buffer_id as u64) << 48
                | (hash as u64) << 15
                | (aligned as u64) << 14
                | (words as u64 & 0x1FFF) << 1
                | last as u64,
        )
    }

    /// Number of the buffer, modulo 2^16.
    #[inline]
    pub const fn buffer_id(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The same footer in another buffer: the hash does not cover the number.
    pub const fn with_buffer_id(self, buffer_id: u16) -> Footer {
        Footer(self.0 << 16 >> 16 | (buffer_id as u64) << 48)
    }

    /// The hash.
    #[inline]
    pub const fn hash(self) -> u32 {
        bits(self.0, 15, 32) as u32
    }

    /// Whether the data up to here end on an event boundary.
    #[inline]
    pub const fn aligned(self) -> bool {
        self.0 >> 14 & 1 == 1
    }

    /// Data words in this datagram.
    #[inline]
    pub const fn word_count(self) -> usize {
        bits(self.0, 1, 13) as usize
    }

    /// Whether this is the last datagram of its buffer.
    #[inline]
    pub const fn last(self) -> bool {
        self.0 & 1 == 1
    }

    /// Splits a datagram into data and footer; `None` if its length contradicts the footer.
    #[inline]
    pub fn split(datagram: &[u8]) -> Option<(&[[u8; 8]], Footer)> {
        let (words, rest) = datagram.as_chunks::<8>();
        let (footer, data) = words.split_last()?;
        let footer = Footer(u64::from_be_bytes(*footer));
        (rest.is_empty() && footer.word_count() == data.len()).then_some((data, footer))
    }
}

/// The low half of a data word, the only part that the hash covers.
#[inline(always)]
fn element(word: &[u8; 8]) -> u32 {
    u64::from_be_bytes(*word) as u32
}

/// The hash of a datagram's data with its id (24 bits).
pub fn hash(datagram_id: u32, data: &[[u8; 8]]) -> u32 {
    let start = SEED.wrapping_mul(FACTOR) ^ (datagram_id & super::COUNTER_MASK);
    data.iter().fold(start, |hash, word| hash.wrapping_mul(FACTOR) ^ element(word))
}

/// The element before the data: the datagram id if nothing is damaged, otherwise any 32 bits.
pub fn first_element(data: &[[u8; 8]], hash: u32) -> u32 {
    backwards(data, hash) ^ SEED.wrapping_mul(FACTOR)
}

#[inline(always)]
fn backwards(data: &[[u8; 8]], hash: u32) -> u32 {
    data.iter().rev().fold(hash, |hash, word| (hash ^ element(word)).wrapping_mul(INVERSE))
}

/// Number of words that are read without a bounds check between them.
const BLOCK: usize = 16;
type Blocks<'a> = &'a [[[u8; 8]; BLOCK]];

/// [`first_element`] of at most [`LANES`] datagrams at once, of any lengths; what is in the lanes behind them says nothing.
pub fn first_elements(datagrams: &[(&[[u8; 8]], u32)]) -> [u32; LANES] {
    let mut elements = [0; LANES];
    match datagrams.len() {
        1 => elements[0] = first_element(datagrams[0].0, datagrams[0].1),
        2..=FEW_LANES => elements[..FEW_LANES].copy_from_slice(&first_elements_in::<FEW_LANES>(datagrams)),
        _ => elements = first_elements_in(datagrams),
    }
    elements
}

fn first_elements_in<const LANES: usize>(datagrams: &[(&[[u8; 8]], u32)]) -> [u32; LANES] {
    let datagram = |lane: usize| datagrams.get(lane).copied().unwrap_or_default();
    let mut blocks: [Blocks<'_>; LANES] = std::array::from_fn(|lane| datagram(lane).0.as_rchunks().1);
    let mut hashes: [u32; LANES] = std::array::from_fn(|lane| datagram(lane).1);
    // Each turn ends with the shortest lane; a lane that has ended repeats another, without effect.
    while let Some(longest) =
        blocks.iter().copied().max_by_key(|blocks| blocks.len()).filter(|b| !b.is_empty())
    {
        let left = blocks.iter().map(|blocks| blocks.len());
        let shared = left.filter(|left| *left > 0).min().unwrap_or(0);
        let run = blocks.map(|blocks| {
            let blocks = if blocks.is_empty() { longest } else { blocks };
            &blocks[blocks.len() - shared..]
        });
        let after = widest(RunBack { blocks: run, count: shared, hashes });
        for lane in 0..LANES {
            if let Some(rest) = blocks[lane].len().checked_sub(shared) {
                hashes[lane] = after[lane];
                blocks[lane] = &blocks[lane][..rest];
            }
        }
    }
    std::array::from_fn(|lane| first_element(datagram(lane).0.as_rchunks::<BLOCK>().0, hashes[lane]))
}

/// Prefetches the two cache lines some blocks before this one: the processor's own prefetch cannot follow so many streams
/// at once.
#[inline(always)]
fn expect_before(block: &[[u8; 8]; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that cannot fault, whatever the address; the instruction is in every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = block.as_ptr().cast::<i8>();
        _mm_prefetch::<_MM_HINT_T0>(start.wrapping_sub(384));
        _mm_prefetch::<_MM_HINT_T0>(start.wrapping_sub(384 - 64));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = block;
}

/// So many blocks of each lane, from the last to the first.
struct RunBack<'a, const LANES: usize> {
    blocks: [Blocks<'a>; LANES],
    count: usize,
    hashes: [u32; LANES],
}

impl<const LANES: usize> Wide for RunBack<'_, LANES> {
    type Output = [u32; LANES];

    #[inline(always)]
    fn run(self) -> [u32; LANES] {
        let RunBack { blocks, count, mut hashes } = self;
        for back in (0..count).rev() {
            let block: [&[[u8; 8]; BLOCK]; LANES] = std::array::from_fn(|lane| &blocks[lane][back]);
            block.iter().for_each(|block| expect_before(block));
            for index in (0..BLOCK).rev() {
                for lane in 0..LANES {
                    hashes[lane] = (hashes[lane] ^ element(&block[lane][index])).wrapping_mul(INVERSE);
                }
            }
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[u64]) -> Vec<[u8; 8]> {
        values.iter().map(|value| value.to_be_bytes()).collect()
    }

    #[test]
    fn the_worked_examples() {
        let data = words(&[0x29ab_cdef_0000_0001]);
        assert_eq!(Footer::new(1, hash(0, &data), true, 1, true).0, 0x0001_002c_b522_4003);
        assert_eq!(Footer::new(0, hash(0, &[]), true, 0, false).0, 0x0000_0001_5ad2_c000);
    }

    #[test]
    fn the_hash_runs_backwards_to_the_datagram_id() {
        assert_eq!(FACTOR.wrapping_mul(INVERSE), 1);
        let data = words(&(0..700u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect::<Vec<_>>());
        for id in [0, 1, 77, 0xFF_FFFF] {
            assert_eq!(first_element(&data, hash(id, &data)), id);
        }
        let lengths = [700, 0, 3, 16, 500, 500, 33, 699, 15, 17, 32, 1, 650, 0, 320, 2];
        for count in 0..=LANES {
            let lanes: Vec<(&[[u8; 8]], u32)> = (5..)
                .zip(&lengths[..count])
                .map(|(id, length)| (&data[..*length], hash(id, &data[..*length])))
                .collect();
            let firsts = first_elements(&lanes);
            assert_eq!(firsts[..count], (5..5 + count as u32).collect::<Vec<u32>>(), "{count} lanes");
        }
    }

    #[test]
    fn a_datagram_whose_length_contradicts_its_footer_is_refused() {
        let mut bytes = words(&[1, 2, Footer::new(0, 0, true, 2, true).0]).concat();
        assert!(Footer::split(&bytes).is_some());
        assert!(Footer::split(&bytes[8..]).is_none());
        assert!(Footer::split(&bytes[..23]).is_none());
        bytes.clear();
        assert!(Footer::split(&bytes).is_none());
    }
}
