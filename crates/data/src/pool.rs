//! Pools of fixed-size blocks, which own all memory for received bytes, and the leases by which the blocks are read.
//!
//! ```text
//!  Pool::take ──► BlockWriter ── publish ──► Slice     readers: Lease::bytes(slice)
//!                     │  append-only: published bytes never change
//!                     └─ lease ──► Lease ─┐
//!  free list (LIFO) ◄── last one drops ───┘
//! ```
//! A block is written once from its start to its end, and can be read meanwhile: `publish` makes bytes readable and moves the
//! writer behind them. The writer and each lease are holders of the block; the last holder that is dropped returns it to the free
//! list. The block that was returned last is taken first, because its bytes are still in the cache. Blocks of another process that
//! this one only reads are in a [borrowed pool](crate::borrowed).

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicU32 as StdAtomicU32;

use crate::memory::{HUGE_PAGE_BYTES, HugePages, Memory, Resident, ResidentError, resident};
use crate::slice::{BlockId, Slice};
use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering, fence};

/// Why a pool cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Sizes beyond what a [`Slice`] can address.
    #[error(
        "a pool of {blocks} blocks of {block_size} bytes is not possible: 1 to {} blocks of 64 bytes to 1 GiB, a multiple of 64",
        BlockId::MAX_BLOCKS
    )]
    Size {
        /// Blocks requested.
        blocks: usize,
        /// Bytes per block requested.
        block_size: usize,
    },
    /// The system refused the memory.
    #[error("no memory for {blocks} blocks of {block_size} bytes: {cause}")]
    Memory {
        /// Blocks requested.
        blocks: usize,
        /// Bytes per block requested.
        block_size: usize,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// Not enough huge pages are reserved.
    #[error("no huge pages for {blocks} blocks of {block_size} bytes: {cause}")]
    HugePages {
        /// Blocks requested.
        blocks: usize,
        /// Bytes per block requested.
        block_size: usize,
        /// Huge pages that this pool needs.
        needed: usize,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The memory cannot be bound to that node.
    #[error("no memory on NUMA node {node}: {cause}")]
    Node {
        /// The node requested.
        node: u32,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The process has the most pools that a [`BlockId`] can number.
    #[error("this process already has {} pools, the most that are possible", BlockId::MAX_POOLS)]
    TooMany,
}

/// Owns fixed-size blocks. A clone is another handle to the same blocks.
///
/// ```
/// use thalweg_data::{Frames, Pool};
///
/// let pool = Pool::new(4, 64 << 10)?;
/// let mut block = pool.take().expect("four are free");
/// let slice = block.append(b"a datagram").expect("a block is longer");
/// let mut frames = Frames::default();
/// frames.slices.push(slice);
/// frames.leases.add(block.lease());
/// drop(block);
/// assert_eq!(frames.bytes(slice), b"a datagram");
/// frames.clear(); // the last lease is gone, and the block is free again
/// assert_eq!(pool.free_count(), 4);
/// # Ok::<(), thalweg_data::PoolError>(())
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    number: u32,
    block_size: usize,
    memory: memmap2::MmapRaw,
    owner: Owner,
    headers: Box<[Header]>,
    /// Top of the stack of free blocks: a tag against ABA in the upper half, index + 1 (0: empty) in the lower half.
    free_top: AtomicU64,
    free_count: AtomicU32,
}

/// The process that writes the blocks, and where they go when nobody reads them any more.
enum Owner {
    /// This process alone, to its free list. Other processes can map the file, if there is one.
    Us(Option<File>),
    /// Another process. It gets them back from the last lease, the one of the [borrowed pool](crate::borrowed); the descriptor is
    /// closed with the memory, by which the other process sees that nothing is read any more.
    Another { _in_use: StdArc<OwnedFd> },
}

/// The state of one block; on its own cache line, because several threads write to it.
#[repr(align(64))]
struct Header {
    /// Number of leases, plus one while there is a writer.
    holders: AtomicU32,
    /// Bytes from the start that are readable and final.
    published: AtomicU32,
    /// The next free block below this one: index + 1, or 0.
    below: AtomicU32,
}

static NEXT_POOL: StdAtomicU32 = StdAtomicU32::new(0);
/// Numbers of pools that were dropped together with all leases on their blocks; new pools reuse them.
static GIVEN_BACK: std::sync::Mutex<Vec<u32>> = std::sync::Mutex::new(Vec::new());

/// A number that no pool has at this time, or `None` if all are in use.
fn pool_number() -> Option<u32> {
    if let Some(number) = given_back().pop() {
        return Some(number);
    }
    let fresh = NEXT_POOL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    if (fresh as usize) < BlockId::MAX_POOLS {
        return Some(fresh);
    }
    NEXT_POOL.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    None
}

fn given_back() -> std::sync::MutexGuard<'static, Vec<u32>> {
    GIVEN_BACK.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Drop for Shared {
    fn drop(&mut self) {
        given_back().push(self.number);
    }
}

impl Pool {
    /// Makes `blocks` blocks of `block_size` bytes, all free and resident.
    ///
    /// # Errors
    /// If the sizes are out of range or the memory is not available.
    pub fn new(blocks: usize, block_size: usize) -> Result<Pool, PoolError> {
        Pool::of(blocks, block_size, Memory::default())
    }

    /// As [`Pool::new`], with this kind of memory.
    ///
    /// # Errors
    /// If the sizes are out of range or such memory is not available.
    pub fn of(blocks: usize, block_size: usize, memory: Memory) -> Result<Pool, PoolError> {
        let possible = (1..=BlockId::MAX_BLOCKS).contains(&blocks)
            && (64..=1 << 30).contains(&block_size)
            && block_size.is_multiple_of(64);
        if !possible {
            return Err(PoolError::Size { blocks, block_size });
        }
        let Resident { map, file } =
            resident(blocks * block_size, memory).map_err(|refused| match refused {
                ResidentError::Node(node, cause) => PoolError::Node { node, cause },
                ResidentError::Bytes(cause) if memory.huge_pages == HugePages::Require => {
                    PoolError::HugePages {
                        blocks,
                        block_size,
                        needed: memory.huge_pages.occupied(blocks * block_size) / HUGE_PAGE_BYTES,
                        cause,
                    }
                }
                ResidentError::Bytes(cause) => PoolError::Memory { blocks, block_size, cause },
            })?;
        Pool::over(map, blocks, block_size, Owner::Us(file))
    }

    /// The blocks in the memory of another process, none of which can be taken to write. `map` has `blocks * block_size` bytes or more.
    pub(crate) fn borrowed(
        map: memmap2::MmapRaw,
        blocks: usize,
        block_size: usize,
        in_use: StdArc<OwnedFd>,
    ) -> Result<Pool, PoolError> {
        Pool::over(map, blocks, block_size, Owner::Another { _in_use: in_use })
    }

    fn over(
        memory: memmap2::MmapRaw,
        blocks: usize,
        block_size: usize,
        owner: Owner,
    ) -> Result<Pool, PoolError> {
        let number = pool_number().ok_or(PoolError::TooMany)?;
        let headers = (0..blocks as u32)
            .map(|index| Header {
                holders: AtomicU32::new(0),
                published: AtomicU32::new(0),
                below: AtomicU32::new(if index + 1 == blocks as u32 { 0 } else { index + 2 }),
            })
            .collect();
        let free = if matches!(owner, Owner::Us(_)) { blocks as u32 } else { 0 };
        Ok(Pool(Arc::new(Shared {
            number,
            block_size,
            memory,
            owner,
            headers,
            free_top: AtomicU64::new(free.min(1).into()),
            free_count: AtomicU32::new(free),
        })))
    }

    /// The first lease on a borrowed block, of which the first `published` bytes can be read. Nobody may have another lease on it.
    pub(crate) fn first_lease(&self, index: u32, published: u32) -> Lease {
        let header = &self.0.headers[index as usize];
        header.published.store(published, Ordering::Relaxed);
        let others = header.holders.swap(1, Ordering::Relaxed);
        assert!(others == 0 && matches!(self.0.owner, Owner::Another { .. }), "the first lease of a loan");
        Lease { shared: self.0.clone(), block: BlockId::new(self.0.number, index) }
    }

    /// Number of this pool among those of this process, which the [numbers of its blocks](BlockId::pool) contain.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// The memory of all blocks, for other processes to map; `None` if it is not [shared](Memory::is_shared), or borrowed itself.
    pub fn lendable_memory(&self) -> Option<&File> {
        match &self.0.owner {
            Owner::Us(file) => file.as_ref(),
            Owner::Another { .. } => None,
        }
    }

    /// Takes a free block to write. `None` if no block is free; then the caller's policy applies.
    pub fn take(&self) -> Option<BlockWriter> {
        let index = self.0.pop()?;
        let header = &self.0.headers[index as usize];
        header.published.store(0, Ordering::Relaxed);
        header.holders.store(1, Ordering::Relaxed);
        let lease = Lease { shared: self.0.clone(), block: BlockId::new(self.0.number, index) };
        Some(BlockWriter { lease, published: 0 })
    }

    /// Bytes per block.
    pub fn block_size(&self) -> usize {
        self.0.block_size
    }

    /// Number of blocks.
    pub fn block_count(&self) -> usize {
        self.0.headers.len()
    }

    /// Blocks free at about this moment.
    pub fn free_count(&self) -> usize {
        self.0.free_count.load(Ordering::Relaxed) as usize
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Pool({} of {} blocks of {} bytes free)",
            self.free_count(),
            self.block_count(),
            self.block_size()
        )
    }
}

impl Shared {
    fn pop(&self) -> Option<u32> {
        let mut top = self.free_top.load(Ordering::Acquire);
        loop {
            let index = (top as u32).checked_sub(1)?;
            // If another thread takes this block at this moment, `below` may change; then the tag differs and the exchange fails.
            let below = self.headers[index as usize].below.load(Ordering::Relaxed);
            let next = next_tag(top) | u64::from(below);
            match self.free_top.compare_exchange_weak(top, next, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    self.free_count.fetch_sub(1, Ordering::Relaxed);
                    return Some(index);
                }
                Err(seen) => top = seen,
            }
        }
    }

    fn push(&self, index: u32) {
        self.free_count.fetch_add(1, Ordering::Relaxed);
        let mut top = self.free_top.load(Ordering::Relaxed);
        loop {
            self.headers[index as usize].below.store(top as u32, Ordering::Relaxed);
            let next = next_tag(top) | u64::from(index + 1);
            match self.free_top.compare_exchange_weak(top, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }

    fn block_start(&self, index: u32) -> *mut u8 {
        // SAFETY: `index` is below the number of blocks, so the offset lies inside the mapping.
        unsafe { self.memory.as_mut_ptr().add(index as usize * self.block_size) }
    }
}

fn next_tag(top: u64) -> u64 {
    ((top >> 32).wrapping_add(1)) << 32
}

/// The only writer of a block. The published bytes stay readable through leases after it is dropped.
pub struct BlockWriter {
    lease: Lease,
    published: usize,
}

impl BlockWriter {
    /// The part of the block that is not published yet.
    pub fn tail(&mut self) -> &mut [u8] {
        let Lease { shared, block } = &self.lease;
        // SAFETY: the range from `published` to the block's end is inside the mapping and initialised (zeroed, or
        // written by an earlier writer). It is exclusive: there is one writer per block, borrowed mutably here, and
        // leases read below `published` only.
        unsafe {
            let start = shared.block_start(block.index()).add(self.published);
            std::slice::from_raw_parts_mut(start, shared.block_size - self.published)
        }
    }

    /// Length of the tail, bytes.
    pub fn remaining(&self) -> usize {
        self.lease.shared.block_size - self.published
    }

    /// Makes the next `length` bytes of the tail final and readable.
    ///
    /// # Panics
    /// If `length` is greater than the length of the tail.
    pub fn publish(&mut self, length: usize) -> Slice {
        assert!(length <= self.remaining(), "the published bytes are inside the tail");
        let offset = self.published;
        self.published += length;
        self.lease.header().published.store(self.published as u32, Ordering::Release);
        Slice { block: self.lease.block(), offset: offset as u32, length: length as u32, tag: 0 }
    }

    /// Copies `bytes` to the tail and publishes them. `None` if they do not fit.
    pub fn append(&mut self, bytes: &[u8]) -> Option<Slice> {
        self.tail().get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(self.publish(bytes.len()))
    }

    /// Publishes padding so that the tail starts at a multiple of `alignment` (a power of two) within the block.
    pub fn align(&mut self, alignment: usize) {
        let next = self.published.next_multiple_of(alignment).min(self.lease.shared.block_size);
        self.publish(next - self.published);
    }

    /// Starts the block over if there is no other holder, as if it were returned and taken again. So bytes that no reader needs any
    /// more are overwritten while they are still in the cache. Returns whether the block started over.
    pub fn start_over(&mut self) -> bool {
        // Acquire: reads through a lease that was dropped just now happen before the next writes. No new lease can appear: it would be
        // a clone of an existing one, and the only one is behind this exclusive borrow.
        let alone = self.lease.header().holders.load(Ordering::Acquire) == 1;
        if alone {
            self.published = 0;
            self.lease.header().published.store(0, Ordering::Relaxed);
        }
        alone
    }

    /// Bytes published so far, which is the offset of the tail in the block.
    pub fn published(&self) -> usize {
        self.published
    }

    /// The right to read the bytes that are published now and later.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for BlockWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockWriter({} of {} bytes)", self.published, self.lease.shared.block_size)
    }
}

/// The right to read the published bytes of one block. The block is not reused while a lease exists.
pub struct Lease {
    shared: Arc<Shared>,
    /// Here and not only in `shared`, so that a search through many leases touches nothing else.
    block: BlockId,
}

impl Lease {
    /// The block that can be read.
    #[inline]
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// The pool of this block.
    pub fn pool(&self) -> Pool {
        Pool(self.shared.clone())
    }

    /// Whether another process can be given the block to read, as [`Pool::lendable_memory`] says.
    #[inline]
    pub fn is_lendable(&self) -> bool {
        matches!(self.shared.owner, Owner::Us(Some(_)))
    }

    /// Whether there is no other holder. Then none can appear except as a clone of this lease, and whatever was read through others has
    /// been read.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        self.header().holders.load(Ordering::Acquire) == 1
    }

    /// Makes the bytes of a borrowed block up to `published` readable.
    #[inline]
    pub(crate) fn extend(&self, published: u32) {
        debug_assert!(matches!(self.shared.owner, Owner::Another { .. }), "others have a writer for that");
        self.header().published.fetch_max(published, Ordering::Release);
    }

    /// Number of blocks in the pool of this block, which is the length that a table by block needs.
    pub fn blocks_of_pool(&self) -> usize {
        self.shared.headers.len()
    }

    /// The bytes of a slice of this block.
    ///
    /// # Panics
    /// If the slice is in another block or contains bytes that are not published.
    #[inline]
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        assert!(slice.block == self.block(), "a slice is read through a lease on its own block");
        let published = self.header().published.load(Ordering::Acquire) as usize;
        assert!(slice.end() <= published, "a slice contains published bytes only");
        // SAFETY: the range is inside the block and below `published`, where bytes are initialised and do not change
        // until the last holder is dropped. This lease is a holder, and the returned borrow cannot outlive it.
        unsafe {
            let start = self.shared.block_start(self.block.index()).add(slice.offset as usize);
            std::slice::from_raw_parts(start, slice.length as usize)
        }
    }

    fn header(&self) -> &Header {
        &self.shared.headers[self.block.index() as usize]
    }
}

impl Clone for Lease {
    fn clone(&self) -> Lease {
        // Relaxed suffices: the clone is reached through a holder, so the count cannot be falling to 0.
        self.header().holders.fetch_add(1, Ordering::Relaxed);
        Lease { shared: self.shared.clone(), block: self.block }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Release: our reads and writes happen before the count falls. Acquire: the thread that returns the block sees those of all
        // other holders.
        if self.header().holders.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            if matches!(self.shared.owner, Owner::Us(_)) {
                self.shared.push(self.block.index());
            }
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?})", self.block())
    }
}

/// The leases of one batch: one per distinct block.
#[derive(Debug, Default)]
pub struct Leases {
    list: Vec<Lease>,
    /// An open-addressed hash table from a block to its lease: position in `list` + 1, or 0 for a free slot. Its length is a power of
    /// two, and it is at most half full. Not used for up to [`FEW`] leases, where a linear search is faster.
    index: Vec<u32>,
}

/// Up to this number of leases, a linear search finds them; more are indexed.
const FEW: usize = 8;

impl Leases {
    /// Adds a lease on a block unless there is one. Neighbouring slices are in the same block, so the search begins with the newest
    /// lease.
    #[inline]
    pub fn add(&mut self, lease: &Lease) {
        if self.find(lease.block()).is_none() {
            self.push(lease.clone());
        }
    }

    /// Adds leases on blocks that are different from one another, unless there are some already.
    #[inline]
    pub fn give(&mut self, leases: impl Iterator<Item = Lease>) {
        let is_fresh = self.is_empty();
        for lease in leases {
            if is_fresh || self.find(lease.block()).is_none() {
                self.push(lease);
            }
        }
    }

    /// Adds the lease that `from` holds on the block of `slice`.
    ///
    /// # Panics
    /// If `from` holds none.
    #[inline]
    pub fn add_for(&mut self, slice: Slice, from: &Leases) {
        if self.find(slice.block).is_none() {
            self.push(from.find(slice.block).expect("a slice travels with its lease").clone());
        }
    }

    /// Adds all of another batch's leases.
    pub fn add_all(&mut self, from: &Leases) {
        from.list.iter().for_each(|lease| self.add(lease));
    }

    /// The lease on a block, if one is held.
    #[inline]
    pub fn find(&self, block: BlockId) -> Option<&Lease> {
        if self.list.len() <= FEW {
            return self.list.iter().rev().find(|lease| lease.block() == block);
        }
        let newest = self.list.last().filter(|lease| lease.block() == block);
        newest.or_else(|| self.find_indexed(block))
    }

    fn find_indexed(&self, block: BlockId) -> Option<&Lease> {
        let mut slot = self.first_slot(block);
        loop {
            let lease = &self.list[self.index[slot].checked_sub(1)? as usize];
            if lease.block() == block {
                return Some(lease);
            }
            slot = (slot + 1) % self.index.len();
        }
    }

    fn push(&mut self, lease: Lease) {
        self.list.push(lease);
        if self.list.len() <= FEW {
            return;
        }
        let newest = self.list.len() - 1;
        if self.list.len() == FEW + 1 || 2 * self.list.len() > self.index.len() {
            let slots = (4 * self.list.len()).next_power_of_two().max(self.index.len());
            self.index.clear();
            self.index.resize(slots, 0);
            (0..newest).for_each(|position| self.enter(position));
        }
        self.enter(newest);
    }

    fn enter(&mut self, position: usize) {
        let mut slot = self.first_slot(self.list[position].block());
        while self.index[slot] != 0 {
            slot = (slot + 1) % self.index.len();
        }
        self.index[slot] = position as u32 + 1;
    }

    fn first_slot(&self, block: BlockId) -> usize {
        // Multiplying by 2^32 / golden ratio spreads neighbouring numbers over the upper bits.
        let spread = block.number().wrapping_mul(0x9E37_79B9) as usize;
        (spread >> 8) & (self.index.len() - 1)
    }

    /// The bytes of a slice.
    ///
    /// # Panics
    /// If no lease is held on its block, or the slice contains unpublished bytes.
    #[inline]
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        self.find(slice.block).expect("a slice travels with its lease").bytes(slice)
    }

    /// Drops all leases.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Number of distinct blocks held.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Every lease held.
    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.list.iter()
    }
}
