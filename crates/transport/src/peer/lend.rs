//! Lends blocks of received bytes to the process at the other end, which reads them where they lie.
//!
//! ```text
//!  Message ─ slices of shared pools ─► table: pool, block, offset, length     the block stays leased here
//!            other slices ───────────► stream, copied                          until the other end gives it back
//! ```
//! A pool is announced before the first loan from it: the [`Pool`](Kind::Pool) frame says its shape, and its memory is passed beside the
//! stream. A block is lent slice by slice, and each is counted; the other end gives a block back with the number of slices that it
//! has received of it, so that a block that is lent again meanwhile stays on loan.
//!
//! Copied are slices for which that costs less, and all that would take more of a pool than its share: a receiver that is behind
//! must not hold every block that data can be received into.
//!
//! When the connection is lost, the other process may still read what it was lent. It has a pipe that it closes with the last lease; until
//! then a thread keeps the blocks.

use std::io::{self, PipeReader};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::time::Duration;

use thalweg_data::{Lease, Leases, Message, Pool, Slice};

use super::frame::{ENTRY_BYTES, FrameError, Kind, MOST_ENTRIES};
use super::queue::SendQueue;
use super::wire::Wire;
use crate::system::{self, is_nothing};

/// Shorter slices are copied, bytes: the entry of the table and the count of the loan cost more.
const SHORTEST_LOAN: u32 = 256;
/// The most pools of which one connection lends, so that the numbers of pools (4096 of a process) and descriptors suffice for many
/// connections. What is in further pools is copied.
pub(super) const MOST_POOLS: usize = 128;
/// Longest table after which another slice is lent, bytes: there is room for what is in the stream before and behind it.
const LONGEST_TABLE: usize = (MOST_ENTRIES as usize - 3) * ENTRY_BYTES;
/// The pool of an entry that stands for bytes in the stream.
pub(super) const IN_STREAM: u32 = u32::MAX;
/// Bytes of an entry of a [`Return`](Kind::Return) frame: pool, block, slices.
pub(super) const RETURN_BYTES: usize = 12;

/// How long the thread that keeps blocks sleeps at a time.
const KEEPER_WAIT: Duration = Duration::from_secs(3600);

/// What a connection has lent to its other end.
#[derive(Debug)]
pub(super) struct Lender {
    /// One block in so many may be on loan.
    one_in: usize,
    pools: Vec<LentPool>,
    /// Position in `pools` + 1 by the number of the pool in this process; 0 for one of which nothing is lent.
    position: Vec<u16>,
    in_use: Option<PipeReader>,
}

#[derive(Debug)]
struct LentPool {
    /// Keeps its number from being reused.
    _pool: Pool,
    blocks: Box<[Loan]>,
    on_loan: usize,
    most_on_loan: usize,
}

/// A block that is on loan while there is a lease.
#[derive(Debug, Default)]
struct Loan {
    lease: Option<Lease>,
    slices: u32,
}

impl Lender {
    /// A lender of one block in `one_in` of each pool at most.
    pub(super) fn new(one_in: u32) -> Lender {
        Lender { one_in: one_in as usize, pools: Vec::new(), position: Vec::new(), in_use: None }
    }

    /// Announces the pools of a message that can be lent and are not known to the other end. What cannot be announced now is copied.
    pub(super) fn announce(
        &mut self,
        message: &Message,
        wire: &mut impl Wire,
        queue: &mut SendQueue,
    ) -> io::Result<()> {
        for lease in message.leases.iter().filter(|lease| lease.is_lendable()) {
            if self.position_of(lease.block().pool()).is_none() && self.pools.len() < MOST_POOLS {
                match self.add(lease.pool(), wire, queue) {
                    Err(cause) if is_nothing(&cause) => return Ok(()),
                    added => added?,
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, pool: Pool, wire: &mut impl Wire, queue: &mut SendQueue) -> io::Result<()> {
        let Some(memory) = pool.lendable_memory() else { return Ok(()) };
        // The pipe goes with the first pool.
        match &self.in_use {
            Some(_) => wire.pass(&[memory.as_fd()])?,
            None => {
                // Without a descriptor left, payloads are copied.
                let Ok((closed, in_use)) = io::pipe() else { return Ok(()) };
                wire.pass(&[memory.as_fd(), in_use.as_fd()])?;
                self.in_use = Some(closed);
            }
        }
        let (blocks, block_size) = (pool.block_count(), pool.block_size());
        let mut head = [0; 12];
        head[..4].copy_from_slice(&(blocks as u32).to_le_bytes());
        head[4..].copy_from_slice(&(block_size as u64).to_le_bytes());
        queue.push_control(Kind::Pool, &head);
        let number = pool.number() as usize;
        self.position.resize(self.position.len().max(number + 1), 0);
        self.position[number] = self.pools.len() as u16 + 1;
        self.pools.push(LentPool {
            _pool: pool,
            blocks: (0..blocks).map(|_| Loan::default()).collect(),
            on_loan: 0,
            most_on_loan: blocks / self.one_in,
        });
        Ok(())
    }

    fn position_of(&self, pool: u32) -> Option<usize> {
        usize::from(*self.position.get(pool as usize)?).checked_sub(1)
    }

    /// Lends what can be lent of a message: takes these slices out of it, and writes the table that says where each slice is. Without any
    /// loan the table stays empty. Returns the bytes that are lent.
    pub(super) fn lend(&mut self, message: &mut Message, table: &mut Vec<u8>) -> u64 {
        let Message { slices, leases, .. } = message;
        let (mut lent_bytes, mut in_stream) = (0, 0);
        slices.retain(|slice| match self.loan(*slice, leases, table.len()) {
            Some(pool) => {
                enter_in_stream(&mut in_stream, table);
                for word in [pool, slice.block.index(), slice.offset, slice.length] {
                    table.extend_from_slice(&word.to_le_bytes());
                }
                lent_bytes += u64::from(slice.length);
                false
            }
            None => {
                in_stream += u64::from(slice.length);
                true
            }
        });
        if lent_bytes > 0 {
            enter_in_stream(&mut in_stream, table);
        }
        lent_bytes
    }

    /// Puts a slice on loan; returns its pool in the order of their announcement. `None` if it is to be copied.
    #[inline]
    fn loan(&mut self, slice: Slice, leases: &Leases, table_bytes: usize) -> Option<u32> {
        if slice.length < SHORTEST_LOAN || table_bytes > LONGEST_TABLE {
            return None;
        }
        let position = self.position_of(slice.block.pool())?;
        let LentPool { blocks, on_loan, most_on_loan, .. } = &mut self.pools[position];
        let loan = &mut blocks[slice.block.index() as usize];
        if loan.lease.is_none() {
            if *on_loan == *most_on_loan {
                return None;
            }
            loan.lease = Some(leases.find(slice.block)?.clone());
            *on_loan += 1;
        }
        // More than can be counted is copied.
        loan.slices = loan.slices.checked_add(1)?;
        Some(position as u32)
    }

    /// Takes back what a [`Return`](Kind::Return) frame says.
    pub(super) fn take_back(&mut self, head: &[u8]) -> Result<(), FrameError> {
        let (entries, []) = head.as_chunks::<RETURN_BYTES>() else {
            return Err(FrameError::Loan("an entry that gives a block back is incomplete"));
        };
        for entry in entries {
            let [pool, index, slices] = words(entry);
            let pool = self.pools.get_mut(pool as usize);
            let pool = pool.ok_or(FrameError::Loan("a block is given back of a pool that was not lent"))?;
            let loan = pool.blocks.get_mut(index as usize).filter(|loan| loan.slices >= slices);
            let loan = loan.ok_or(FrameError::Loan("more of a block is given back than was lent"))?;
            loan.slices -= slices;
            if loan.slices == 0 && loan.lease.take().is_some() {
                pool.on_loan -= 1;
            }
        }
        Ok(())
    }
}

impl Drop for Lender {
    /// What is on loan stays leased until the other process no longer reads any of it.
    fn drop(&mut self) {
        let pools = std::mem::take(&mut self.pools);
        let Some(in_use) = self.in_use.take() else { return };
        let loans = pools.into_iter().flat_map(|pool| pool.blocks).filter_map(|loan| loan.lease);
        let loans: Vec<Lease> = loans.collect();
        // Nobody writes into the pipe: it is readable once it is closed.
        let is_closed =
            || system::wait_readable(in_use.as_fd(), Duration::ZERO).is_ok_and(|is_closed| is_closed);
        if loans.is_empty() || is_closed() {
            return;
        }
        // When no thread can be started, they are kept for ever: to write into a block that is still read would be worse.
        let loans = ManuallyDrop::new(loans);
        let keeper = std::thread::Builder::new().name("lent blocks".to_owned());
        let _never_used_again = keeper.spawn(move || {
            while !system::wait_readable(in_use.as_fd(), KEEPER_WAIT).is_ok_and(|is_closed| is_closed) {}
            drop(ManuallyDrop::into_inner(loans));
        });
    }
}

/// Writes the entry for bytes in the stream, if there are any.
fn enter_in_stream(bytes: &mut u64, table: &mut Vec<u8>) {
    if *bytes > 0 {
        table.extend_from_slice(&IN_STREAM.to_le_bytes());
        table.extend_from_slice(&[0; 4]);
        table.extend_from_slice(&std::mem::take(bytes).to_le_bytes());
    }
}

/// The little-endian words of an entry.
#[inline]
pub(super) fn words<const BYTES: usize, const WORDS: usize>(entry: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == 4 * WORDS) };
    std::array::from_fn(|word| {
        let at = 4 * word;
        u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
    })
}

const _: () = assert!(ENTRY_BYTES == 16 && MOST_POOLS < u16::MAX as usize);
