//! The blocks that waiting fragments lie in: one lease each, and a plain count of how many fragments need it.
//!
//! ```text
//!  pool ─► its table ─► block { lease, fragments here, batch that has its lease }
//! ```
//! Fragments of many triggers share a block. A lease is cloned and dropped once per block and batch; per fragment there is a
//! count that no other thread sees. A pool's table is made when the first of its blocks is seen, as long as the pool has
//! blocks: found by number, no hash.

use thalweg_data::{BlockId, Lease, Leases, Slice};

/// What is known of one block.
#[derive(Default)]
struct Block {
    lease: Option<Lease>,
    /// Slices in this block that wait here.
    resident: u32,
    /// The outgoing batch that was last given this block's lease.
    given_to: u32,
}

/// All blocks that something waiting lies in.
pub(super) struct Blocks {
    pools: Vec<Vec<Block>>,
    /// Number of the outgoing batch; 0 is none.
    batch: u32,
    /// Blocks with something in them.
    used: usize,
}

impl Blocks {
    pub fn new() -> Blocks {
        Blocks { pools: (0..BlockId::MAX_POOLS).map(|_| Vec::new()).collect(), batch: 0, used: 0 }
    }

    /// Notes that a slice waits here, and takes a lease on its block if it is the first.
    #[inline(always)]
    pub fn add(&mut self, slice: Slice, leases: &Leases) {
        let (pool, index) = pool_and_index(slice.block);
        match self.pools[pool].get_mut(index) {
            Some(block) if block.resident > 0 => block.resident += 1,
            _ => self.add_first(slice.block, leases),
        }
    }

    #[cold]
    fn add_first(&mut self, block: BlockId, leases: &Leases) {
        let (pool, index) = pool_and_index(block);
        let lease = leases.find(block).expect("a slice travels with its lease").clone();
        let table = &mut self.pools[pool];
        if index >= table.len() {
            // The first of this pool; or the pool's number was given to a larger one.
            table.resize_with(lease.blocks_of_pool().max(index + 1), Block::default);
        }
        table[index].lease = Some(lease);
        table[index].resident = 1;
        table[index].given_to = 0;
        self.used += 1;
    }

    /// Begins a batch of what leaves.
    pub fn begin_batch(&mut self) {
        self.batch = self.batch.checked_add(1).unwrap_or_else(|| {
            // Come round after 2^32 batches: forget which had which.
            self.pools.iter_mut().flatten().for_each(|block| block.given_to = 0);
            1
        });
    }

    /// Notes that `count` slices of one block leave with a batch, which is given a lease on it once.
    #[inline(always)]
    pub fn leave(&mut self, block: BlockId, count: u32, leases: &mut Leases) {
        let (pool, index) = pool_and_index(block);
        let held = &mut self.pools[pool][index];
        if held.given_to != self.batch {
            held.given_to = self.batch;
            leases.add(held.lease.as_ref().expect("what waits has a lease"));
        }
        self.remove(block, count);
    }

    /// Notes that `count` slices of one block are gone; with the last one goes the lease.
    #[inline(always)]
    pub fn remove(&mut self, block: BlockId, count: u32) {
        let (pool, index) = pool_and_index(block);
        let held = &mut self.pools[pool][index];
        held.resident -= count;
        if held.resident == 0 {
            held.lease = None;
            self.used -= 1;
        }
    }

    /// The bytes of a slice that waits here.
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        let (pool, index) = pool_and_index(slice.block);
        self.pools[pool][index].lease.as_ref().expect("what waits has a lease").bytes(slice)
    }

    /// Blocks kept from their pools by what waits.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Memory of the tables, in bytes.
    pub fn byte_size(&self) -> usize {
        self.pools.iter().map(|table| table.capacity() * size_of::<Block>() + size_of::<Vec<Block>>()).sum()
    }
}

#[inline(always)]
fn pool_and_index(block: BlockId) -> (usize, usize) {
    let number = block.number() as usize;
    (number / BlockId::MAX_BLOCKS, number % BlockId::MAX_BLOCKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_data::Pool;

    #[test]
    fn a_block_is_kept_as_long_as_something_in_it_waits() {
        let pool = Pool::new(2, 64).expect("small");
        let mut writer = pool.take().expect("free");
        let slices = [writer.append(b"one").expect("fits"), writer.append(b"two").expect("fits")];
        let (mut blocks, mut leases, mut out) = (Blocks::new(), Leases::default(), Leases::default());
        leases.add(writer.lease());
        slices.iter().for_each(|slice| blocks.add(*slice, &leases));
        leases.clear();
        drop(writer);
        assert_eq!((pool.free_count(), blocks.used(), blocks.bytes(slices[1])), (1, 1, &b"two"[..]));
        blocks.begin_batch();
        blocks.leave(slices[0].block, 1, &mut out);
        blocks.leave(slices[1].block, 1, &mut out);
        assert_eq!((out.len(), blocks.used(), out.bytes(slices[0])), (1, 0, &b"one"[..]));
        out.clear();
        assert_eq!(pool.free_count(), 2);
    }
}
