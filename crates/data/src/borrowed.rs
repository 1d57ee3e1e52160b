//! Blocks of another process that this one reads where they lie.
//!
//! ```text
//!  their pool's memory ─ mapped, read-only ─► BorrowedPool
//!  borrow(block, end) ─► Lease ─► clones with batches …     take_unread ─► (block, how often it was lent), to be given back
//! ```
//! Leases on borrowed blocks are leases like all others: they travel with batches, on any thread. The pool itself keeps one on each
//! block, so that it notices, by looking, when that is the last. How blocks are lent and given back between processes is the business
//! of who owns the pool.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

use crate::memory::{HUGE_PAGE_BYTES, sealed_bytes};
use crate::pool::{Lease, Pool, PoolError};
use crate::slice::{BlockId, Slice};

/// Why another process's memory cannot be read as a pool, or a block of it not be borrowed.
#[derive(Debug, thiserror::Error)]
pub enum BorrowError {
    /// The memory has not the promised size, or could lose it later.
    #[error("the memory is not sealed, or has not the size of {blocks} blocks of {block_size} bytes")]
    Memory {
        /// Promised blocks.
        blocks: usize,
        /// Promised bytes per block.
        block_size: usize,
    },
    /// Sizes that no pool has, or no number for another pool in this process.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The system refused to map the memory.
    #[error("the memory of another process cannot be mapped: {0}")]
    System(#[from] io::Error),
    /// Bytes that are in no block.
    #[error(
        "bytes {offset} to {end} of block {index}, where there are {blocks} blocks of {block_size} bytes"
    )]
    Range {
        /// The block.
        index: u32,
        /// First byte.
        offset: u32,
        /// Byte behind the last one.
        end: u64,
        /// Blocks of the pool.
        blocks: usize,
        /// Bytes per block.
        block_size: usize,
    },
}

/// The pool of another process, as far as it is lent to this one.
#[derive(Debug)]
pub struct BorrowedPool {
    pool: Pool,
    loans: Box<[Loan]>,
    /// Blocks on loan, each once; those that [`take_unread`](BorrowedPool::take_unread) looks at next are in front.
    on_loan: VecDeque<u32>,
}

/// A block that is on loan while there is a lease.
#[derive(Debug, Default)]
struct Loan {
    lease: Option<Lease>,
    /// How many slices of it were lent since it was given back last.
    slices: u32,
}

impl BorrowedPool {
    /// Maps the memory of a pool of `blocks` blocks of `block_size` bytes. `in_use` is closed once no lease on any of them is left,
    /// and this value is gone.
    ///
    /// # Errors
    /// If the memory is not sealed against a change of its size, or too small, or cannot be mapped.
    pub fn map(
        memory: &File,
        blocks: usize,
        block_size: usize,
        in_use: Arc<OwnedFd>,
    ) -> Result<BorrowedPool, BorrowError> {
        let is_possible = (1..=BlockId::MAX_BLOCKS).contains(&blocks) && (64..=1 << 30).contains(&block_size);
        if !is_possible {
            return Err(PoolError::Size { blocks, block_size }.into());
        }
        // With what fills the last huge page, because such memory is mapped and unmapped by whole pages.
        let bytes = (blocks * block_size) as u64;
        let bytes = sealed_bytes(memory)?
            .filter(|sealed| (bytes..=bytes.next_multiple_of(HUGE_PAGE_BYTES as u64)).contains(sealed))
            .ok_or(BorrowError::Memory { blocks, block_size })?;
        let map: MmapRaw = MmapOptions::new().len(bytes as usize).populate().map_raw_read_only(memory)?;
        let pool = Pool::borrowed(map, blocks, block_size, in_use)?;
        let loans = (0..blocks).map(|_| Loan::default()).collect();
        Ok(BorrowedPool { pool, loans, on_loan: VecDeque::new() })
    }

    /// Borrows bytes of a block, which its writer has published: a slice of them, and the lease to read it.
    ///
    /// # Errors
    /// If there are no such bytes.
    #[inline]
    pub fn borrow(&mut self, index: u32, offset: u32, length: u32) -> Result<(Slice, &Lease), BorrowError> {
        let end = u64::from(offset) + u64::from(length);
        let (blocks, block_size) = (self.loans.len(), self.pool.block_size());
        let range = BorrowError::Range { index, offset, end, blocks, block_size };
        let Some(loan) = self.loans.get_mut(index as usize).filter(|_| end <= block_size as u64) else {
            return Err(range);
        };
        match &loan.lease {
            Some(lease) => lease.extend(end as u32),
            None => {
                loan.lease = Some(self.pool.first_lease(index, end as u32));
                self.on_loan.push_back(index);
            }
        }
        loan.slices = loan.slices.saturating_add(1);
        let lease = loan.lease.as_ref().expect("it was made, if there was none");
        Ok((Slice { block: lease.block(), offset, length, tag: 0 }, lease))
    }

    /// Looks at up to `most` of the blocks on loan, and takes those that nobody reads any more: their numbers, and how many slices of
    /// each were lent.
    pub fn take_unread(&mut self, most: usize, mut taken: impl FnMut(u32, u32)) {
        for _ in 0..most.min(self.on_loan.len()) {
            let Some(index) = self.on_loan.pop_front() else { return };
            let loan = &mut self.loans[index as usize];
            if loan.lease.as_ref().is_some_and(|lease| !lease.is_last()) {
                self.on_loan.push_back(index);
            } else {
                loan.lease = None;
                taken(index, std::mem::take(&mut loan.slices));
            }
        }
    }

    /// Number of blocks on loan.
    pub fn on_loan(&self) -> usize {
        self.on_loan.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::pool::Leases;
    use proptest::prelude::*;
    use std::io::{PipeReader, Read, pipe};

    const BLOCKS: usize = 4;
    const BLOCK_BYTES: usize = 4096;

    fn lent() -> (Pool, BorrowedPool, PipeReader) {
        let memory = Memory { is_shared: true, ..Memory::default() };
        let pool = Pool::of(BLOCKS, BLOCK_BYTES, memory).expect("memory");
        let (seen, in_use) = pipe().expect("a pipe");
        let file = pool.lendable_memory().expect("shared");
        let in_use = Arc::new(OwnedFd::from(in_use));
        let borrowed = BorrowedPool::map(file, BLOCKS, BLOCK_BYTES, in_use).expect("mapped");
        (pool, borrowed, seen)
    }

    #[test]
    fn bytes_are_read_where_they_were_written_and_their_block_is_unread_after_the_last_lease() {
        let (pool, mut borrowed, mut seen) = lent();
        let mut writer = pool.take().expect("free");
        let index = writer.lease().block().index();
        let mut leases = Leases::default();
        let mut slices = Vec::new();
        for text in ["first", "second"] {
            let written = writer.append(text.as_bytes()).expect("it fits");
            let (slice, lease) = borrowed.borrow(index, written.offset, written.length).expect("inside");
            slices.push(slice);
            leases.add(lease);
        }
        assert_eq!(
            slices.iter().map(|slice| leases.bytes(*slice)).collect::<Vec<_>>(),
            [&b"first"[..], b"second"]
        );
        assert_ne!(slices[0].block.pool(), pool.number(), "a pool of its own");
        assert!(!leases.iter().next().expect("one").is_lendable(), "it is not ours to lend");
        let mut unread = Vec::new();
        borrowed.take_unread(9, |block, slices| unread.push((block, slices)));
        assert_eq!((unread.as_slice(), borrowed.on_loan()), (&[][..], 1));
        leases.clear();
        borrowed.take_unread(9, |block, slices| unread.push((block, slices)));
        assert_eq!((unread.as_slice(), borrowed.on_loan()), (&[(index, 2)][..], 0));
        // The same block again.
        let (slice, lease) = borrowed.borrow(index, 0, 5).expect("inside");
        let lease = lease.clone();
        drop(borrowed);
        assert_eq!(lease.bytes(slice), b"first", "a lease outlives the pool");
        drop(lease);
        assert_eq!(seen.read(&mut [0]).expect("a pipe"), 0, "the end of all leases is seen");
        assert_eq!(pool.free_count(), BLOCKS - 1, "only the writer has a block");
    }

    #[test]
    fn memory_that_is_not_as_promised_is_refused() {
        let (pool, _borrowed, _seen) = lent();
        let in_use = || Arc::new(OwnedFd::from(pipe().expect("a pipe").1));
        let file = pool.lendable_memory().expect("shared");
        let refused = |memory, blocks, block_size| {
            BorrowedPool::map(memory, blocks, block_size, in_use()).expect_err("refused").to_string()
        };
        assert!(refused(file, BLOCKS + 1, BLOCK_BYTES).contains("not the size of 5 blocks of 4096 bytes"));
        assert!(refused(file, usize::MAX, usize::MAX).contains("is not possible"));
        let unsealed = File::open("/proc/self/exe").expect("a program");
        assert!(refused(&unsealed, 1, 64).contains("not sealed"));
    }

    proptest! {
        #[test]
        fn no_range_reaches_beyond_a_block(index in 0u32..6, offset in 0u32..5000, length in prop_oneof![0u32..5000, any::<u32>()]) {
            let (_pool, mut borrowed, _seen) = lent();
            let is_inside = (index as usize) < BLOCKS && u64::from(offset) + u64::from(length) <= BLOCK_BYTES as u64;
            match borrowed.borrow(index, offset, length) {
                Ok((slice, lease)) => {
                    prop_assert!(is_inside);
                    prop_assert_eq!(lease.bytes(slice).len(), length as usize);
                }
                Err(error) => prop_assert!(!is_inside, "{}", error),
            }
        }
    }
}
