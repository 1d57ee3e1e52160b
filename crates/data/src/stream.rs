//! A stream of bytes in blocks, whose units straddle receive calls.
//!
//! ```text
//!  block:  |..consumed..|== carried ==|== received now ==|  tail  |
//!                       └────────── one slice ───────────┘
//! ```
//! Each receive call publishes one contiguous slice that begins with what the framing left over. Left-over bytes are moved
//! when a block is used up, to the start of the next one, and when they are few and nobody reads the block any more: it
//! then starts over, and its memory is still in the cache. The moved bytes are counted; where units are of one length, a call
//! receives whole ones, and hardly any are moved.

use crate::batch::Frames;
use crate::pool::{BlockWriter, Pool};

/// A block starts over when what is to be moved is less than that part of what it received.
const WORTH_MOVING: usize = 16;

/// What there is to receive into.
#[derive(Debug)]
pub enum Room<'a> {
    /// Write here, then [`StreamBuffer::publish`].
    Tail(&'a mut [u8]),
    /// No block is free: the source's policy applies.
    NoBlock,
    /// The left-over bytes alone fill a block: the framing waits for a unit that cannot be held.
    /// [`StreamBuffer::carry`] of 0 gives them up.
    UnitTooLarge,
}

/// The receiving end of a stream source: a pool, the block in use, and what is left over.
#[derive(Debug)]
pub struct StreamBuffer {
    pool: Pool,
    writer: Option<BlockWriter>,
    left_over: usize,
    moved_bytes: u64,
    smallest_tail: usize,
    /// Length of the units, 0 where it is not known or differs from unit to unit.
    unit_bytes: usize,
}

impl StreamBuffer {
    /// A buffer that takes a new block when fewer than `smallest_tail` bytes remain in the old one.
    pub fn new(pool: Pool, smallest_tail: usize) -> StreamBuffer {
        let smallest_tail = smallest_tail.clamp(1, pool.block_size());
        StreamBuffer { pool, writer: None, left_over: 0, moved_bytes: 0, smallest_tail, unit_bytes: 0 }
    }

    /// Where the next bytes go.
    pub fn room(&mut self) -> Room<'_> {
        if self.left_over == self.pool.block_size() {
            return Room::UnitTooLarge;
        }
        self.start_over();
        let enough = self.writer.as_ref().is_some_and(|writer| {
            // A left-over so long that a fresh block would hold little more stays where it is while there is any tail.
            let fresh = self.pool.block_size() - self.left_over;
            match self.whole_units(writer.remaining()) {
                // A few bytes more are received sooner than many are moved.
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

    /// Tells that the next call takes so many bytes as a whole, where a block can hold them.
    pub fn expect_bytes(&mut self, bytes: usize) {
        self.smallest_tail = bytes.clamp(1, self.pool.block_size());
    }

    /// Tells that units have this length (0: several lengths). It saves moving when it is right, and does no harm when not.
    pub fn expect_units(&mut self, bytes: usize) {
        self.unit_bytes = bytes;
    }

    /// How many bytes of so many that are free end with a whole unit; `None` where nothing is known of units.
    fn whole_units(&self, free: usize) -> Option<usize> {
        let known = self.unit_bytes > self.left_over && self.unit_bytes <= self.pool.block_size();
        let whole = || (self.left_over + free) / self.unit_bytes * self.unit_bytes;
        known.then(|| whole().saturating_sub(self.left_over))
    }

    /// Begins the block anew if what is left over is little beside what was received since.
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

    /// Publishes `received` bytes of the room just given and appends one slice to `frames`: left-over bytes first.
    pub fn publish(&mut self, received: usize, frames: &mut Frames) {
        let writer = self.writer.as_mut().expect("room was given before");
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

    /// Keeps the last `bytes` of the slice just published for the next one.
    pub fn carry(&mut self, bytes: usize) {
        debug_assert!(self.writer.as_ref().is_some_and(|writer| bytes <= writer.published()) || bytes == 0);
        self.left_over = bytes;
    }

    /// Appends the bytes that were kept back to `frames` once more: the stream has ended behind them.
    pub fn give_carried(&mut self, frames: &mut Frames) {
        if self.left_over > 0 {
            self.publish(0, frames);
        }
    }

    /// Bytes kept back for the next slice.
    pub fn left_over(&self) -> usize {
        self.left_over
    }

    /// Bytes that had to be copied from a used-up block to the next, since the start.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds 0, 1, 2, … in pieces and reads units of seven bytes.
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

    /// Receives `calls` times at most `most` bytes; returns how many were received and how many were moved.
    fn feed(buffer: &mut StreamBuffer, unit: usize, most: usize, calls: usize) -> (usize, u64) {
        // Everything is kept, as by fragments that wait for others.
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
                let mut told = StreamBuffer::new(Pool::new(12, 256).expect("small"), 32);
                told.expect_units(unit);
                let (received, moved) = feed(&mut told, unit, most, 400);
                assert!(4 * moved <= received as u64, "{unit} {most}: {moved} of {received}");
                assert!(most < 500 || moved == 0, "{unit}: whole blocks");
            }
        }
    }

    #[test]
    fn a_wrong_word_on_units_costs_nothing_but_moving() {
        for told in [1, 3, 64, 300, usize::MAX] {
            let mut buffer = StreamBuffer::new(Pool::new(12, 256).expect("small"), 32);
            buffer.expect_units(told);
            assert!(feed(&mut buffer, 50, 256, 200).0 > 200);
        }
    }

    #[test]
    fn a_unit_larger_than_a_block_is_said_to_be_so() {
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
    fn without_a_free_block_the_policy_decides() {
        let pool = Pool::new(1, 64).expect("small");
        let taken = pool.take();
        let mut buffer = StreamBuffer::new(pool, 16);
        assert!(matches!(buffer.room(), Room::NoBlock));
        drop(taken);
        assert!(matches!(buffer.room(), Room::Tail(_)));
    }
}
