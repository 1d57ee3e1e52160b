//! Receives a stream of bytes, whose units straddle receive calls, into blocks.
//!
//! ```text
//!  block:  |..consumed..|== carried ==|== received now ==|  tail  |
//!                       └────────── one slice ───────────┘
//! ```
//! Each receive call publishes one contiguous slice that begins with the bytes that the framing left over. When a block is used up,
//! left-over bytes are moved to the start of the next block. If there are few of them and nobody reads the block any more, it starts over
//! instead, while its memory is still in the cache. Moved bytes are counted. If all units have one length, a call
//! receives whole units, and hardly any bytes are moved.

use crate::batch::Frames;
use crate::pool::{BlockWriter, Pool};

/// A block starts over if the bytes to be moved are at most this fraction (1/16) of the bytes that it received.
const WORTH_MOVING: usize = 16;

/// The memory for the next receive call.
#[derive(Debug)]
pub enum Room<'a> {
    /// Write here, then call [`StreamBuffer::publish`].
    Tail(&'a mut [u8]),
    /// No block is free: the source's policy applies.
    NoBlock,
    /// The left-over bytes alone fill a block: the framing waits for the rest of a unit that does not fit into a block.
    /// [`StreamBuffer::carry`] of 0 discards them.
    UnitTooLarge,
}

/// The receiving end of a stream source: a pool, the block in use, and the left-over bytes.
#[derive(Debug)]
pub struct StreamBuffer {
    pool: Pool,
    writer: Option<BlockWriter>,
    left_over: usize,
    moved_bytes: u64,
    smallest_tail: usize,
    /// Length of the units, bytes; 0 if it is not known or differs from unit to unit.
    unit_bytes: usize,
}

impl StreamBuffer {
    /// A buffer that takes a new block when fewer than `smallest_tail` bytes remain in the old one.
    pub fn new(pool: Pool, smallest_tail: usize) -> StreamBuffer {
        let smallest_tail = smallest_tail.clamp(1, pool.block_size());
        StreamBuffer { pool, writer: None, left_over: 0, moved_bytes: 0, smallest_tail, unit_bytes: 0 }
    }

    /// The memory for the next receive call.
    pub fn room(&mut self) -> Room<'_> {
        if self.left_over == self.pool.block_size() {
            return Room::UnitTooLarge;
        }
        self.start_over();
        let enough = self.writer.as_ref().is_some_and(|writer| {
            // If the left-over bytes would nearly fill a new block, they stay where they are as long as there is any tail.
            let fresh = self.pool.block_size() - self.left_over;
            match self.whole_units(writer.remaining()) {
                // Receiving a few bytes costs less than moving many.
                Some(bytes) => bytes >= self.smallest_tail.min(fresh) || bytes > 0 && bytes < self.left_over,
                None => writer.remaining() >= self.smallest_tail.min(fresh),
            }
        });
        if !enough && !self.next_block() {
            return Room::NoBlock;
        }
        let whole = self.writer.as_ref().and_then(|writer| self.whole_units(writer.remaining()));
        match &mut self.writer {
            Some(writer) => {
                let tail = writer.tail();
                let length = whole.unwrap_or(tail.len());
                Room::Tail(&mut tail[..length])
            }
            None => Room::NoBlock,
        }
    }

    /// Makes the next room at least `bytes` bytes long, or as long as a block can be.
    pub fn expect_bytes(&mut self, bytes: usize) {
        self.smallest_tail = bytes.clamp(1, self.pool.block_size());
    }

    /// Sets the length of the units (0: several lengths). The right length saves moving bytes, and a wrong one does no harm.
    pub fn expect_units(&mut self, bytes: usize) {
        self.unit_bytes = bytes;
    }

    /// How many of `free` bytes to receive so that they end with a whole unit; `None` if the length of units is not known.
    fn whole_units(&self, free: usize) -> Option<usize> {
        let known = self.unit_bytes > self.left_over && self.unit_bytes <= self.pool.block_size();
        let whole = || (self.left_over + free) / self.unit_bytes * self.unit_bytes;
        known.then(|| whole().saturating_sub(self.left_over))
    }

    /// Starts the block over if few bytes are left over compared with the bytes received.
    fn start_over(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let (published, left_over) = (writer.published(), self.left_over);
        let worth = published >= self.smallest_tail && left_over <= published / WORTH_MOVING;
        if !worth || !writer.start_over() {
            return;
        }
        if left_over > 0 {
            writer.tail().copy_within(published - left_over..published, 0);
            writer.publish(left_over);
            self.moved_bytes += left_over as u64;
        }
    }

    fn next_block(&mut self) -> bool {
        let Some(mut next) = self.pool.take() else { return false };
        if let (Some(writer), true) = (&self.writer, self.left_over > 0) {
            let whole = crate::Slice {
                block: writer.lease().block(),
                offset: (writer.published() - self.left_over) as u32,
                length: self.left_over as u32,
                tag: 0,
            };
            next.append(writer.lease().bytes(whole)).expect("what is left over is shorter than a block");
            self.moved_bytes += self.left_over as u64;
        }
        self.writer = Some(next);
        true
    }

    /// Publishes `received` bytes at the start of the last [`StreamBuffer::room`], and appends one slice to `frames`, which begins with
    /// the left-over bytes.
    pub fn publish(&mut self, received: usize, frames: &mut Frames) {
        let writer = self.writer.as_mut().expect("room() is called before publish()");
        let fresh = writer.publish(received);
        let slice = crate::Slice {
            offset: fresh.offset - self.left_over as u32,
            length: fresh.length + self.left_over as u32,
            ..fresh
        };
        frames.slices.push(slice);
        frames.leases.add(writer.lease());
        frames.carried = self.left_over as u32;
        self.left_over = 0;
    }

    /// Keeps the last `bytes` bytes of the slice just published for the next one.
    pub fn carry(&mut self, bytes: usize) {
        debug_assert!(self.writer.as_ref().is_some_and(|writer| bytes <= writer.published()) || bytes == 0);
        self.left_over = bytes;
    }

    /// Appends the left-over bytes to `frames` once more, when the stream has ended after them.
    pub fn give_carried(&mut self, frames: &mut Frames) {
        if self.left_over > 0 {
            self.publish(0, frames);
        }
    }

    /// Number of bytes kept for the next slice.
    pub fn left_over(&self) -> usize {
        self.left_over
    }

    /// Number of bytes moved within a block or to the next one, since the start.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds 0, 1, 2, … in chunks and reads units of seven bytes.
    #[test]
    fn units_that_straddle_calls_and_blocks_come_out_whole() {
        let mut buffer = StreamBuffer::new(Pool::new(3, 64).expect("small"), 16);
        let (mut next_in, mut next_out, mut frames) = (0u8, 0u8, Frames::default());
        for _ in 0..100 {
            let Room::Tail(tail) = buffer.room() else { panic!("a block is free") };
            let length = tail.len().min(13);
            tail[..length].iter_mut().for_each(|byte| {
                *byte = next_in;
                next_in = next_in.wrapping_add(1);
            });
            buffer.publish(length, &mut frames);
            let bytes = frames.bytes(frames.slices[0]);
            for unit in bytes.chunks_exact(7) {
                unit.iter().for_each(|byte| {
                    assert_eq!(*byte, next_out);
                    next_out = next_out.wrapping_add(1);
                });
            }
            buffer.carry(bytes.len() % 7);
            frames.clear();
        }
        assert!(buffer.moved_bytes() > 0);
    }

    /// Receives at most `most` bytes `calls` times; returns how many bytes were received and how many were moved.
    fn feed(buffer: &mut StreamBuffer, unit: usize, most: usize, calls: usize) -> (usize, u64) {
        // The leases are kept, as those of fragments that wait for others.
        let (mut kept, mut received) = (crate::pool::Leases::default(), 0);
        for call in 0..calls {
            if call % 8 == 0 {
                kept.clear();
            }
            let Room::Tail(tail) = buffer.room() else { panic!("a block is free") };
            assert!(!tail.is_empty());
            let length = tail.len().min(most);
            let mut frames = Frames::default();
            buffer.publish(length, &mut frames);
            received += length;
            kept.add_all(&frames.leases);
            buffer.carry(frames.slices[0].length as usize % unit);
        }
        (received, buffer.moved_bytes())
    }

    #[test]
    fn units_of_one_length_are_not_moved() {
        for unit in [16, 24, 40, 64, 100] {
            for most in [5, 30, 64, 500] {
                let mut buffer = StreamBuffer::new(Pool::new(12, 256).expect("small"), 32);
                buffer.expect_units(unit);
                let (received, moved) = feed(&mut buffer, unit, most, 400);
                assert!(4 * moved <= received as u64, "{unit} {most}: {moved} of {received}");
                assert!(most < 500 || moved == 0, "{unit}: whole blocks");
            }
        }
    }

    #[test]
    fn a_wrong_unit_length_does_not_stop_the_stream() {
        for wrong in [1, 3, 64, 300, usize::MAX] {
            let mut buffer = StreamBuffer::new(Pool::new(12, 256).expect("small"), 32);
            buffer.expect_units(wrong);
            assert!(feed(&mut buffer, 50, 256, 200).0 > 200);
        }
    }

    #[test]
    fn a_unit_larger_than_a_block_is_reported_as_too_large() {
        let mut buffer = StreamBuffer::new(Pool::new(2, 64).expect("small"), 16);
        let mut frames = Frames::default();
        let Room::Tail(tail) = buffer.room() else { panic!("a block is free") };
        let length = tail.len();
        buffer.publish(length, &mut frames);
        buffer.carry(length);
        assert!(matches!(buffer.room(), Room::UnitTooLarge));
        buffer.carry(0);
        assert!(matches!(buffer.room(), Room::Tail(_)));
    }

    #[test]
    fn without_a_free_block_there_is_no_room() {
        let pool = Pool::new(1, 64).expect("small");
        let taken = pool.take();
        let mut buffer = StreamBuffer::new(pool, 16);
        assert!(matches!(buffer.room(), Room::NoBlock));
        drop(taken);
        assert!(matches!(buffer.room(), Room::Tail(_)));
    }
}
