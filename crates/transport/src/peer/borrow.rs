//! Reads blocks of the process at the other end where they lie, and gives them back.
//!
//! ```text
//!  Pool frame + memory ─► BorrowedPool        table of a message ─► slices, leases ─► batches …
//!                                             unread blocks ─► entries of a Return frame
//! ```
//! The other end of [`lend`](super::lend). Numbers in frames come from another process: an impossible one ends the connection.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use thalweg_data::{BorrowedPool, Message, Slice};

use super::frame::{ENTRY_BYTES, FrameError, LONGEST_CONTROL_HEAD};
use super::lend::{IN_STREAM, MOST_POOLS, RETURN_BYTES, words};
use super::wire::Passed;

/// So many blocks are given back together, unless the connection is idle.
const WORTH_RETURNING: usize = 8;
/// For each message, so many blocks on loan are looked at: more than a message brings, in most cases.
const LOOKED_AT_PER_MESSAGE: usize = 8;

/// What a connection has borrowed from its other end.
#[derive(Debug, Default)]
pub(super) struct Borrower {
    pools: Vec<BorrowedPool>,
    in_use: Option<Arc<OwnedFd>>,
    /// Entries of the next [`Return`](super::frame::Kind::Return) frame.
    unread: Vec<u8>,
    /// Slices of the message in the stream, while the table is read.
    in_stream: Vec<Slice>,
    /// The pool whose blocks are looked at next.
    next: usize,
}

impl Borrower {
    /// Adds a pool that the other end has announced, with what it has passed for it.
    pub(super) fn add(&mut self, head: &[u8], passed: Option<Passed>) -> io::Result<()> {
        let wrong = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words.to_owned());
        let shape = head.split_first_chunk::<4>().and_then(|(blocks, rest)| {
            let block_size = u64::from_le_bytes(*rest.first_chunk()?);
            Some((u32::from_le_bytes(*blocks) as usize, usize::try_from(block_size).ok()?))
        });
        let (blocks, block_size) = shape.ok_or_else(|| wrong("it announced a pool without a size"))?;
        let Some([Some(memory), in_use]) = passed else {
            return Err(wrong(
                "it announced a pool without its memory, or this process has too many files open",
            ));
        };
        if let Some(in_use) = in_use {
            self.in_use.get_or_insert_with(|| Arc::new(in_use));
        }
        let in_use = self.in_use.as_ref().ok_or_else(|| wrong("it announced a pool without a pipe"))?;
        if self.pools.len() >= MOST_POOLS {
            return Err(wrong("it announced too many pools"));
        }
        let pool = BorrowedPool::map(&File::from(memory), blocks, block_size, in_use.clone());
        self.pools.push(pool.map_err(io::Error::other)?);
        Ok(())
    }

    /// Puts the slices of a message in order: those that its table lends, and those that came with the stream.
    pub(super) fn read(&mut self, table: &[u8], message: &mut Message) -> Result<(), FrameError> {
        std::mem::swap(&mut self.in_stream, &mut message.slices);
        let (mut next, mut taken) = (0, 0);
        let (entries, _) = table.as_chunks::<ENTRY_BYTES>();
        for entry in entries {
            let [pool, index, offset, length] = words(entry);
            if pool == IN_STREAM {
                let mut bytes = u64::from(offset) | u64::from(length) << 32;
                while bytes > 0 {
                    let slice = *self
                        .in_stream
                        .get(next)
                        .ok_or(FrameError::Loan("its table has more than the stream"))?;
                    let part = bytes.min(u64::from(slice.length) - taken as u64) as usize;
                    message.slices.extend(slice.part(taken, part));
                    bytes -= part as u64;
                    taken += part;
                    if taken == slice.length as usize {
                        (next, taken) = (next + 1, 0);
                    }
                }
                continue;
            }
            let pool = self.pools.get_mut(pool as usize);
            let pool = pool.ok_or(FrameError::Loan("its pool was not announced"))?;
            let borrowed = pool.borrow(index, offset, length);
            let (slice, lease) = borrowed.map_err(|_| FrameError::Loan("its bytes are not in the pool"))?;
            message.slices.push(slice);
            message.leases.add(lease);
        }
        if next < self.in_stream.len() {
            return Err(FrameError::Loan("its table has less than the stream"));
        }
        self.in_stream.clear();
        Ok(())
    }

    /// Finds blocks that nobody reads any more: some of them after a message, all of them when the connection `is_idle`. Returns the
    /// head of the frame that gives them back, when there are enough for one.
    pub(super) fn find_unread(&mut self, is_idle: bool) -> Option<&mut Vec<u8>> {
        let mut most = if is_idle { usize::MAX } else { LOOKED_AT_PER_MESSAGE };
        for _ in 0..self.pools.len() {
            let room = (LONGEST_CONTROL_HEAD as usize - self.unread.len()) / RETURN_BYTES;
            if most == 0 || room == 0 {
                break;
            }
            self.next = (self.next + 1) % self.pools.len();
            let (number, pool) = (self.next as u32, &mut self.pools[self.next]);
            let looked_at = most.min(pool.on_loan()).min(room);
            pool.take_unread(looked_at, |index, slices| {
                for word in [number, index, slices] {
                    self.unread.extend_from_slice(&word.to_le_bytes());
                }
            });
            most -= looked_at;
        }
        let enough = if is_idle { 1 } else { WORTH_RETURNING };
        (self.unread.len() >= enough * RETURN_BYTES).then_some(&mut self.unread)
    }

    /// Whether there are blocks to be given back.
    pub(super) fn has_loans(&self) -> bool {
        !self.unread.is_empty() || self.pools.iter().any(|pool| pool.on_loan() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Kind, MOST_ENTRIES};
    use super::super::lend::Lender;
    use super::super::queue::SendQueue;
    use super::super::wire::Wire;
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::io::IoSlice;
    use std::os::fd::BorrowedFd;
    use std::time::Duration;
    use thalweg_data::{Leases, Memory, Pool};

    /// A wire of which only the passing of descriptors is used.
    #[derive(Default)]
    struct Passing(VecDeque<Passed>);

    impl Wire for Passing {
        fn write(&mut self, _slices: &[IoSlice<'_>]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn wait(&mut self, _for_write: bool, _wait: Duration) -> io::Result<()> {
            Ok(())
        }

        fn set_write_interest(&mut self, _wanted: bool) -> io::Result<()> {
            Ok(())
        }

        fn finish(&mut self) {}

        fn descriptor(&self) -> BorrowedFd<'_> {
            unreachable!("nobody waits")
        }

        fn pass(&mut self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
            let copies: Vec<OwnedFd> =
                descriptors.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>()?;
            let mut copies = copies.into_iter();
            self.0.push_back([copies.next(), copies.next()]);
            Ok(())
        }
    }

    /// Both ends of a connection without its stream, and pools of 4 blocks of 8 KiB, the last of which cannot be lent.
    struct Ends {
        pools: [Pool; 3],
        lender: Lender,
        borrower: Borrower,
        wire: Passing,
        queue: SendQueue,
    }

    impl Ends {
        fn new(one_in: u32) -> Ends {
            let pool = |is_shared| {
                Pool::of(4, 8192, Memory { is_shared, ..Memory::default() }).expect("memory for a few blocks")
            };
            Ends {
                pools: [true, true, false].map(pool),
                lender: Lender::new(one_in),
                borrower: Borrower::default(),
                wire: Passing::default(),
                queue: SendQueue::new(64, 1 << 20),
            }
        }

        /// Announces the pools of a message to the borrower.
        fn announce(&mut self, message: &Message) {
            self.lender.announce(message, &mut self.wire, &mut self.queue).expect("it is passed");
            while let Some(passed) = self.wire.0.pop_front() {
                let mut head = 4u32.to_le_bytes().to_vec();
                head.extend(8192u64.to_le_bytes());
                self.borrower.add(&head, Some(passed)).expect("as promised");
            }
        }

        fn give_back(&mut self) {
            while let Some(unread) = self.borrower.find_unread(true) {
                self.lender.take_back(unread).expect("it was lent");
                unread.clear();
            }
        }
    }

    /// A message with slices of these lengths, each of a block of one of the pools, and its bytes. Fewer if no block is free.
    fn message(pools: &[Pool; 3], parts: &[(usize, usize)]) -> (Message, Vec<u8>) {
        let (mut message, mut bytes) = (Message::default(), Vec::new());
        let mut writers = pools.each_ref().map(Pool::take);
        for (number, (pool, length)) in parts.iter().enumerate() {
            let Some(writer) = &mut writers[*pool] else { continue };
            let part = vec![number as u8 + 1; *length];
            let Some(slice) = writer.append(&part) else { continue };
            message.slices.push(slice);
            message.leases.add(writer.lease());
            bytes.extend(part);
        }
        (message, bytes)
    }

    fn bytes_of(slices: &[Slice], leases: &Leases) -> Vec<u8> {
        slices.iter().flat_map(|slice| leases.bytes(*slice)).copied().collect()
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_lent_and_its_blocks_come_back(
            one_in in 1u32..5,
            messages in proptest::collection::vec(
                proptest::collection::vec((0usize..3, prop_oneof![1usize..600, 200usize..4000]), 0..8), 1..30),
            kept in 0usize..4,
        ) {
            let mut ends = Ends::new(one_in);
            let mut held = VecDeque::new();
            for parts in messages {
                let (mut sent, bytes) = message(&ends.pools, &parts);
                ends.announce(&sent);
                let (mut table, mut received) = (Vec::new(), Message::default());
                let lent = ends.lender.lend(&mut sent, &mut table);
                prop_assert_eq!(lent as usize + sent.payload_bytes() as usize, bytes.len());
                prop_assert_eq!(lent == 0, table.is_empty());
                // What is not lent arrives with the stream.
                received.slices.clone_from(&sent.slices);
                received.leases.add_all(&sent.leases);
                drop(sent);
                if !table.is_empty() {
                    ends.borrower.read(&table, &mut received).expect("its own table");
                }
                held.push_back((received, bytes));
                if held.len() > kept {
                    held.pop_front();
                    ends.give_back();
                }
                for (message, bytes) in &held {
                    prop_assert_eq!(&bytes_of(&message.slices, &message.leases), bytes);
                }
            }
            held.clear();
            ends.give_back();
            prop_assert!(!ends.borrower.has_loans());
            for pool in &ends.pools {
                prop_assert_eq!(pool.free_count(), 4);
            }
        }

        #[test]
        fn any_table_is_read_or_refused(
            entries in proptest::collection::vec(
                (prop_oneof![0u32..3, Just(IN_STREAM)], 0u32..6, 0u32..9000, prop_oneof![0u32..9000, any::<u32>()]), 0..6),
        ) {
            let mut ends = Ends::new(1);
            let (sent, _) = message(&ends.pools, &[(0, 1000), (1, 1000), (2, 300)]);
            ends.announce(&sent);
            let mut received = Message::default();
            received.slices.push(sent.slices[2]);
            received.leases.add_all(&sent.leases);
            let table: Vec<u8> = entries
                .iter()
                .flat_map(|(pool, index, offset, length)| [*pool, *index, *offset, *length])
                .flat_map(u32::to_le_bytes)
                .collect();
            if ends.borrower.read(&table, &mut received).is_ok() {
                bytes_of(&received.slices, &received.leases);
            }
        }

        #[test]
        fn any_return_is_taken_or_refused(bytes in proptest::collection::vec(0u8..6, 0..60)) {
            let mut ends = Ends::new(1);
            let (mut sent, _) = message(&ends.pools, &[(0, 1000), (1, 1000)]);
            ends.announce(&sent);
            ends.lender.lend(&mut sent, &mut Vec::new());
            let _ = ends.lender.take_back(&bytes);
        }
    }

    #[test]
    fn a_message_of_more_slices_than_a_table_has_entries_is_copied_from_there_on() {
        let mut ends = Ends::new(1);
        let (mut sent, _) = message(&ends.pools, &[(0, 300), (0, 300)]);
        let [first, second] = [sent.slices[0], sent.slices[1]];
        ends.announce(&sent);
        let too_many = MOST_ENTRIES as usize / 2 + 100;
        // Alternating: what is lent, and what is too short for that.
        let short = second.part(0, 100).expect("inside");
        sent.slices = [first, short].repeat(too_many);
        let mut table = Vec::new();
        let lent = ends.lender.lend(&mut sent, &mut table);
        assert!(table.len() <= MOST_ENTRIES as usize * ENTRY_BYTES, "{}", table.len());
        assert!(table.len() > (MOST_ENTRIES as usize - 4) * ENTRY_BYTES, "{}", table.len());
        assert_eq!(lent + sent.payload_bytes(), 400 * too_many as u64);
        let mut received = Message { slices: sent.slices.clone(), ..Message::default() };
        ends.borrower.read(&table, &mut received).expect("its own table");
        assert_eq!(received.payload_bytes(), 400 * too_many as u64);
    }

    #[test]
    fn more_than_was_lent_cannot_be_given_back() {
        let mut ends = Ends::new(1);
        let (mut sent, _) = message(&ends.pools, &[(0, 1000)]);
        let index = sent.slices[0].block.index();
        ends.announce(&sent);
        ends.lender.lend(&mut sent, &mut Vec::new());
        let entry = |pool: u32, index: u32, slices: u32| [pool, index, slices].map(u32::to_le_bytes).concat();
        for (entry, word) in [
            (entry(0, index, 2), "more of a block"),
            (entry(1, 0, 0), "was not lent"),
            (entry(0, 99, 1), "more of a block"),
            (vec![0; 13], "incomplete"),
        ] {
            let problem = ends.lender.take_back(&entry).expect_err("refused").to_string();
            assert!(problem.contains(word), "{problem}");
        }
        ends.lender.take_back(&entry(0, index, 1)).expect("it was lent");
        drop(sent);
        assert_eq!(ends.pools[0].free_count(), 4);
    }

    #[test]
    fn a_pool_is_announced_with_its_shape_and_its_memory() {
        let mut borrower = Borrower::default();
        let memory = || OwnedFd::from(std::fs::File::open("/proc/self/exe").expect("a file"));
        let shape = [&1u32.to_le_bytes()[..], &64u64.to_le_bytes()].concat();
        for (head, passed, word) in [
            (&[1, 2][..], Some([Some(memory()), Some(memory())]), "without a size"),
            (&shape, None, "without its memory"),
            (&shape, Some([Some(memory()), None]), "without a pipe"),
            (&shape, Some([Some(memory()), Some(memory())]), "not sealed"),
        ] {
            let problem = borrower.add(head, passed).expect_err("refused").to_string();
            assert!(problem.contains(word), "{problem}");
        }
        assert_eq!(Kind::Pool as u16, 8);
    }
}
