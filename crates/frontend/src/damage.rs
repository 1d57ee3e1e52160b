//! Damages inputs, for short fuzzing without a fuzzer's own mutations.
//!
//! ```text
//!  seed, another seed ─► bytes set, flipped, cut, duplicated, mixed ─► an input for a check
//! ```

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;

/// Applies one to eight damages: bytes set, bits flipped, ranges cut, duplicated, or taken from another seed.
pub fn damage(random: &mut Pcg64, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..random.random_range(1..=8) {
        if input.is_empty() {
            input.push(random.random());
        }
        let at = random.random_range(0..input.len());
        let end = (at + random.random_range(0..40)).min(input.len());
        match random.random_range(0..7) {
            0 => input[at] = random.random(),
            1 => input[at] ^= 1 << random.random_range(0..8),
            2 => input[at] = [0x00, 0xFF, 0x7F, 0x80][random.random_range(0..4)],
            3 => drop(input.drain(at..end)),
            4 => drop(input.splice(at..at, input[at..end].to_vec())),
            5 if !other.is_empty() => {
                let from = random.random_range(0..other.len());
                let taken = &other[from..(from + end - at).min(other.len())];
                drop(input.splice(at..at, taken.iter().copied()));
            }
            _ => input[at..end].iter_mut().for_each(|byte| *byte = random.next_u32() as u8),
        }
    }
}
