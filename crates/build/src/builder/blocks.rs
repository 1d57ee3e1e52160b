//! The blocks that waiting fragments lie in: one lease each, and a plain count of how many fragments need it.
//!
//! ```text
//!  pool ─► its table ─► block { lease, fragments here, batch that has its lease }
//! ```
//! Fragments of many triggers share a block. Per fragment there is a count that no other thread sees; the lease goes with the last of
//! them, and is cloned only for a batch that leaves something behind. A pool's table is made when the first of its blocks is seen, as long as the pool has
//! blocks: found by number, no hash.

use thalweg_data::{BlockId, Lease, Leases, Slice};

/// What is known of one block.
#[derive(Default)]
struct Block {
    lease: Option<Lease>,
    /// Slices in this block that wait here.
    resident: u32,
    /// Something of this block leaves with the batch that is being made.
    is_leaving: bool,
}

/// All blocks that something waiting lies in.
pub(super) struct Blocks {
    pools: Vec<Vec<Block>>,
    /// Blocks of the batch that is being made.
    leaving: Vec<BlockId>,
    /// Blocks with something in them.
    used: usize,
}

impl Blocks {
    pub fn new() -> Blocks {
        Blocks { pools: (0..BlockId::MAX_POOLS).map(|_| Vec::new()).collect(), leaving: Vec::new(), used: 0 }
    }

    /// Notes that `count` slices of the block of `slice` wait here, and takes a lease on it if they are the first.
    #[inline(always)]
    pub fn add(&mut self, slice: Slice, count: u32, leases: &Leases) {
        let (pool, index) = pool_and_index(slice.block);
        match self.pools[pool].get_mut(index) {
            Some(block) if block.lease.is_some() => block.resident += count,
            _ => self.add_first(slice.block, count, leases),
        }
    }

    #[cold]
    fn add_first(&mut self, block: BlockId, count: u32, leases: &Leases) {
        let (pool, index) = pool_and_index(block);
        let lease = leases.find(block).expect("a slice travels with its lease").clone();
        let table = &mut self.pools[pool];
        if index >= table.len() {
            // The first of this pool; or the pool's number was given to a larger one.
            table.resize_with(lease.blocks_of_pool().max(index + 1), Block::default);
        }
        table[index].lease = Some(lease);
        table[index].resident = count;
        self.used += 1;
    }

    /// Notes that `count` slices of one block leave with the batch that is being made.
    #[inline(always)]
    pub fn leave(&mut self, block: BlockId, count: u32) {
        let (pool, index) = pool_and_index(block);
        let held = &mut self.pools[pool][index];
        held.resident -= count;
        if !held.is_leaving {
            held.is_leaving = true;
            self.leaving.push(block);
        }
    }

    /// Ends the batch: it is given a lease on each block that something of it lies in, ours where nothing else waits there.
    pub fn end_batch(&mut self, leases: &mut Leases) {
        let Blocks { pools, leaving, used } = self;
        leases.give(leaving.drain(..).map(|block| {
            let (pool, index) = pool_and_index(block);
            let held = &mut pools[pool][index];
            held.is_leaving = false;
            *used -= usize::from(held.resident == 0);
            let kept = (held.resident > 0).then(|| held.lease.clone()).flatten();
            std::mem::replace(&mut held.lease, kept).expect("what waits has a lease")
        }));
    }

    /// Notes that `count` slices of one block are gone; with the last one goes the lease.
    #[inline(always)]
    pub fn remove(&mut self, block: BlockId, count: u32) {
        let (pool, index) = pool_and_index(block);
        let held = &mut self.pools[pool][index];
        held.resident -= count;
        if held.resident == 0 && !held.is_leaving {
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
        slices.iter().for_each(|slice| blocks.add(*slice, 1, &leases));
        leases.clear();
        drop(writer);
        assert_eq!((pool.free_count(), blocks.used(), blocks.bytes(slices[1])), (1, 1, &b"two"[..]));
        blocks.leave(slices[0].block, 1);
        blocks.end_batch(&mut out);
        assert_eq!((out.len(), blocks.used(), out.bytes(slices[0])), (1, 1, &b"one"[..]));
        out.clear();
        assert_eq!(pool.free_count(), 1, "the other waits");
        blocks.leave(slices[1].block, 1);
        blocks.end_batch(&mut out);
        assert_eq!((out.len(), blocks.used(), out.bytes(slices[1])), (1, 0, &b"two"[..]));
        out.clear();
        assert_eq!(pool.free_count(), 2);
    }
}
