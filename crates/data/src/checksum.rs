//! CRC-32C (Castagnoli, RFC 3720 section B.4): the checksum of recordings, fragments and messages.
//!
//! ```text
//!  bytes ──► of                                 at once
//!  bytes, bytes, … ──► Crc32c::add … value      as they come
//!  value, value and length ──► combined         of what lies one behind the other, without its bytes
//! ```
//! Computed with the widest instructions that the processor has, several times as fast as memory is read.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// The polynomial, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// Powers of two of bits that 2⁶⁴ bytes have.
const POWERS: usize = 67;
/// x to the power of 2⁰, 2¹, 2², … modulo the polynomial.
const DOUBLED: [u32; POWERS] = doubled();

/// The checksum of `bytes`.
pub fn of(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// The checksum of two byte strings one behind the other; `second_bytes` is the length of the second. It takes less than a microsecond,
/// whatever the length: the first checksum times x to the power of the second's bits, as zlib does it.
pub fn combined(first: u32, second: u32, second_bytes: u64) -> u32 {
    let bits = (0..64).filter(|bit| second_bytes >> bit & 1 == 1);
    // A byte has 2³ bits.
    bits.fold(first, |shifted, bit| product(DOUBLED[bit + 3], shifted)) ^ second
}

/// The product of two polynomials modulo that of the checksum.
const fn product(one: u32, other: u32) -> u32 {
    let (mut sum, mut shifted, mut bit) = (0, other, 0);
    while bit < 32 {
        sum ^= shifted & (one << bit >> 31).wrapping_neg();
        shifted = (shifted >> 1) ^ (POLYNOMIAL & (shifted & 1).wrapping_neg());
        bit += 1;
    }
    sum
}

const fn doubled() -> [u32; POWERS] {
    // x itself.
    let mut powers = [1 << 30; POWERS];
    let mut at = 1;
    while at < POWERS {
        powers[at] = product(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
}

/// A checksum in the making.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Of nothing so far.
    pub fn new() -> Crc32c {
        Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Goes on with `bytes`.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit by bit, as the polynomial is defined.
    fn by_bits(bytes: &[u8]) -> u32 {
        let step = |rest: u32| (rest >> 1) ^ (POLYNOMIAL & (rest & 1).wrapping_neg());
        !bytes.iter().fold(!0, |rest, byte| (0..8).fold(rest ^ u32::from(*byte), |rest, _| step(rest)))
    }

    #[test]
    fn values_are_those_of_the_standard() {
        let (ascending, descending): (Vec<u8>, Vec<u8>) = ((0..32).collect(), (0..32).rev().collect());
        let golden: [(&[u8], u32); 6] = [
            (&[], 0),
            (b"123456789", 0xE306_9283),
            (&[0; 32], 0x8A91_36AA),
            (&[0xFF; 32], 0x62A8_AB43),
            (&ascending, 0x46DD_794E),
            (&descending, 0x113F_DB5C),
        ];
        for (bytes, expected) in golden {
            assert_eq!((of(bytes), by_bits(bytes)), (expected, expected), "{bytes:?}");
        }
    }

    #[test]
    fn long_parts_are_combined_as_a_digest_of_all_their_bytes_has_it() {
        for second_bytes in [1 << 20, (1 << 32) + 12_345, u64::MAX >> 3] {
            let theirs =
                crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, 0xE306_9283, 0x46DD_794E, second_bytes);
            assert_eq!(u64::from(combined(0xE306_9283, 0x46DD_794E, second_bytes)), theirs);
        }
    }

    proptest! {
        #[test]
        fn parts_give_the_checksum_of_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let (mut start, mut running, mut joined) = (0, Crc32c::new(), 0);
            for end in cuts.into_iter().chain([bytes.len()]) {
                let part = &bytes[start..end];
                running.add(part);
                joined = combined(joined, of(part), part.len() as u64);
                start = end;
            }
            let expected = by_bits(&bytes);
            prop_assert_eq!((of(&bytes), running.value(), joined), (expected, expected, expected));
        }
    }
}
