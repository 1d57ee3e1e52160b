//! The pattern that is written: bytes that no device compresses, no block of which is there twice, and that are known when they come back.
//!
//! ```text
//!  seed ─► PCG-64 ─► one chunk, aligned ─┬ each block of 4096 bytes begins with its number in the file ─► write
//!                                        └ numbers of what was read ─► as written, or Altered
//! ```
//! The chunk is made once. Before each write only the numbers change, 8 bytes of 4096.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Direct I/O wants addresses, offsets and lengths that are multiples of a device's block: of every common device, of this.
pub const BLOCK_BYTES: usize = 4096;

/// A description of the pattern, for the report.
pub const PATTERN: &str = "PCG-64 bytes from the seed, made once for a chunk; each block of 4096 bytes begins with its number in the file, so no two are alike";

/// A chunk at an address that direct I/O takes.
#[derive(Debug)]
pub(super) struct Chunk {
    memory: Vec<u8>,
    begin: usize,
    bytes: usize,
}

impl Chunk {
    /// A chunk of `bytes`, a multiple of [`BLOCK_BYTES`], full of what `seed` makes.
    pub(super) fn new(bytes: usize, seed: u64) -> Chunk {
        let mut memory = vec![0; bytes + BLOCK_BYTES];
        let begin = memory.as_ptr().align_offset(BLOCK_BYTES);
        Pcg64::seed_from_u64(seed).fill_bytes(&mut memory[begin..begin + bytes]);
        Chunk { memory, begin, bytes }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.bytes]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.bytes]
    }

    /// Numbers its blocks for an offset in the file of this `key`.
    pub(super) fn number(&mut self, offset: u64, key: u64) {
        let first = offset / BLOCK_BYTES as u64;
        for (index, block) in (0..).zip(self.bytes_mut().chunks_mut(BLOCK_BYTES)) {
            block[..8].copy_from_slice(&(key ^ (first + index)).to_le_bytes());
        }
    }

    /// The offset in the file of the first block that has another number than [`Chunk::number`] gave it.
    pub(super) fn altered(&self, offset: u64, key: u64) -> Option<u64> {
        let first = offset / BLOCK_BYTES as u64;
        let mut blocks = (first..).zip(self.bytes().chunks(BLOCK_BYTES));
        let wrong = blocks.find(|(number, block)| block[..8] != (key ^ number).to_le_bytes());
        wrong.map(|(number, _)| number * BLOCK_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_aligned_reproducible_and_no_block_is_like_another() {
        let mut chunk = Chunk::new(16 * BLOCK_BYTES, 7);
        assert_eq!(chunk.bytes().as_ptr() as usize % BLOCK_BYTES, 0);
        assert_eq!(chunk.bytes(), Chunk::new(16 * BLOCK_BYTES, 7).bytes());
        assert_ne!(chunk.bytes(), Chunk::new(16 * BLOCK_BYTES, 8).bytes());
        chunk.number(1 << 20, 5);
        let mut blocks: Vec<&[u8]> = chunk.bytes().chunks(BLOCK_BYTES).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 16);
        let compressed = chunk.bytes().iter().fold([0_u32; 256], |mut seen, byte| {
            seen[usize::from(*byte)] += 1;
            seen
        });
        assert!(compressed.iter().all(|count| (128..512).contains(count)), "every byte is about as frequent");
    }

    #[test]
    fn a_block_that_comes_back_altered_is_found_at_its_offset() {
        let mut chunk = Chunk::new(4 * BLOCK_BYTES, 1);
        chunk.number(8192, 3);
        assert_eq!(chunk.altered(8192, 3), None);
        assert_eq!(chunk.altered(8192, 4), Some(8192), "it is of another file");
        chunk.bytes_mut()[2 * BLOCK_BYTES] ^= 1;
        assert_eq!(chunk.altered(8192, 3), Some(8192 + 2 * BLOCK_BYTES as u64));
    }
}
