//! Finds blocks that start with a header: header → length → body.
//!
//! ```text
//!  | header length body | header length body | header le…   ─► two fragments, the rest is carried
//! ```
//! Bodies are not read: only a few bytes at the start of a block are, and the block is passed on by reference.
//!
//! If a header is impossible, it is damaged, or the length before it is. If trusted headers are inside the block before
//! it, the length of that block was wrong: the block is taken back, unless it was passed on with an earlier batch.

use thalweg_data::{Fragment, Fragments, LossReason, Unit};

use super::super::wire::{Block, Head};
use super::{Found, State};
use crate::framing::{Chunk, StreamCounts, first_of_chain_to_end};

/// Number of headers in a row that end a search.
const CONFIRMATIONS: usize = 2;

/// Why a run of blocks ended.
enum Stop {
    /// A block is not complete yet.
    Short,
    /// An impossible header.
    Impossible,
}

/// What the first bytes are.
enum Look {
    Whole(Head),
    Short,
    Impossible,
}

impl State {
    /// Finds fragments in a chunk of a stream; returns the number of bytes left over.
    pub(super) fn blocks<B: Block>(
        &mut self,
        chunk: &Chunk<'_>,
        fragments: &mut Fragments,
        counts: &mut StreamCounts,
    ) -> usize {
        let mut at = 0;
        loop {
            if self.searching {
                match self.search_blocks::<B>(&chunk.bytes[at..], chunk.last) {
                    Found::Open(skipped) => {
                        counts.lose(LossReason::Resynchronised, skipped);
                        return chunk.bytes.len() - at - skipped;
                    }
                    Found::Edge(skipped) => {
                        counts.lose(LossReason::Resynchronised, skipped);
                        at += skipped;
                        self.searching = false;
                    }
                }
            }
            let (end, stop) = self.run_of_blocks::<B>(chunk, at, fragments, counts);
            if let Stop::Short = stop
                && !(chunk.last && self.swallows_blocks::<B>(&chunk.bytes[end..]))
            {
                return chunk.bytes.len() - end;
            }
            let expected =
                "the header of a block of this profile, no longer than `longest_block_bytes` allows";
            self.damaged(chunk, end, expected, counts);
            counts.lose(LossReason::Resynchronised, 1);
            at = end + 1;
        }
    }

    /// Passes on the blocks from `start` on; returns where and why they end.
    fn run_of_blocks<B: Block>(
        &mut self,
        chunk: &Chunk<'_>,
        start: usize,
        fragments: &mut Fragments,
        counts: &mut StreamCounts,
    ) -> (usize, Stop) {
        let (mut at, mut passed_bytes, mut found, mut refused) = (start, 0, 0, 0);
        let mut last = None;
        let stop = loop {
            let head = match self.look::<B>(&chunk.bytes[at..]) {
                Look::Whole(head) => head,
                Look::Short => break Stop::Short,
                Look::Impossible => {
                    if let Some((first, board)) = last
                        && self.has_blocks_inside::<B>(chunk.bytes, first + 1..at)
                    {
                        self.boards.take_back(board);
                        found -= 1;
                        fragments.fragments.pop();
                        fragments.slices.pop();
                        passed_bytes -= at - first;
                        at = first;
                    }
                    break Stop::Impossible;
                }
            };
            if let Some(board) = self.boards.index(head.board) {
                let slice = chunk.slice.part(at, head.total_bytes).expect("the block is whole");
                let source = self.boards.take(board, u32::from(head.sent_number));
                fragments.slices.push(slice.tagged(0));
                fragments.fragments.push(Fragment {
                    trigger: u64::from(head.trigger),
                    ticks: u64::from(head.ticks),
                    bytes: head.total_bytes as u32,
                    source,
                    slices: 1,
                });
                passed_bytes += head.total_bytes;
                last = Some((at, board));
            } else {
                last = None;
                self.unknown_board(chunk, at..at + head.total_bytes, &head);
                counts.refuse_frame(LossReason::UnknownSource, head.total_bytes);
                counts.lose_fragment(LossReason::UnknownSource);
                refused += 1;
            }
            found += 1;
            at += head.total_bytes;
        };
        counts.begin_frames(found);
        counts.counters.output(Unit::Frames, found - refused);
        if passed_bytes > 0 {
            fragments.leases.add_for(chunk.slice, &chunk.received.leases);
            counts.counters.output(Unit::Bytes, passed_bytes as u64);
        }
        (at, stop)
    }

    #[inline]
    fn look<B: Block>(&self, bytes: &[u8]) -> Look {
        let Some(header) = bytes.get(..B::HEADER_BYTES) else { return Look::Short };
        match B::head(header) {
            Ok(head) if head.total_bytes > self.longest => Look::Impossible,
            Ok(head) if head.total_bytes > bytes.len() => Look::Short,
            Ok(head) => Look::Whole(head),
            Err(_) => Look::Impossible,
        }
    }

    /// Whether blocks of known boards follow each other from a position in this range on.
    #[cold]
    fn has_blocks_inside<B: Block>(&self, bytes: &[u8], mut range: std::ops::Range<usize>) -> bool {
        range.any(|at| self.confirm::<B>(&bytes[at..]) == Some(true))
    }

    /// Whether the last block of a stream, which goes beyond the end, contains whole blocks up to the end; then its
    /// length is damaged.
    #[cold]
    fn swallows_blocks<B: Block>(&self, bytes: &[u8]) -> bool {
        bytes.get(1..).is_some_and(|bytes| self.chain_to_end::<B>(bytes).is_some())
    }

    /// Position from which whole blocks of known boards follow each other to the end of the stream.
    fn chain_to_end<B: Block>(&self, bytes: &[u8]) -> Option<usize> {
        let whole = |bytes: &[u8]| match self.look::<B>(bytes) {
            Look::Whole(head) => self.boards.index(head.board).map(|_| head.total_bytes),
            Look::Short | Look::Impossible => None,
        };
        first_of_chain_to_end(bytes, whole, |_| true)
    }

    fn search_blocks<B: Block>(&self, bytes: &[u8], last: bool) -> Found {
        if last && let Some(skipped) = self.chain_to_end::<B>(bytes) {
            return Found::Edge(skipped);
        }
        for skipped in 0..bytes.len() {
            match self.confirm::<B>(&bytes[skipped..]) {
                Some(true) => return Found::Edge(skipped),
                None => return Found::Open(skipped),
                Some(false) => {}
            }
        }
        Found::Open(bytes.len())
    }

    /// Whether blocks of known boards follow each other at the start of `bytes`; `None` if more bytes are needed.
    fn confirm<B: Block>(&self, mut bytes: &[u8]) -> Option<bool> {
        for remaining in (0..CONFIRMATIONS).rev() {
            let header = bytes.get(..B::HEADER_BYTES)?;
            match B::head(header) {
                Ok(head) if head.total_bytes <= self.longest && self.boards.index(head.board).is_some() => {
                    // Only the header of the last block is needed.
                    let next = if remaining == 0 { 0 } else { head.total_bytes };
                    bytes = bytes.get(next..)?;
                }
                _ => return Some(false),
            }
        }
        Some(true)
    }
}
