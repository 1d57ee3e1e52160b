//! The boards behind one connection: the source of each, the blocks that it sent, and those that are missing.
//!
//! ```text
//!  number in the header ─► index ─► source      block counter ─► next expected ─► gap
//! ```
//! A gap in the board's counter is a loss in the board, since TCP loses nothing. If the counter goes backwards or jumps
//! far, it was restarted: counting starts again, without a loss.

use std::sync::Arc;

use thalweg_data::{BoardId, Counters, Fragment, FragmentRecord, LossReason, SourceId, Unit};

use super::super::settings::{Profile, Settings};
use super::super::wire::Block;
use super::super::wire::recbe::Recbe;
use super::super::wire::str_tdc;

/// Most blocks in a gap; a larger step is a restart of the counter.
const LARGEST_GAP: u32 = 4096;

#[derive(Clone, Debug, Default)]
struct Board {
    /// Blocks since the last publication.
    found: u64,
    missing: u64,
    expected: Option<u32>,
}

/// All boards of a connection.
#[derive(Debug)]
pub(super) struct Boards {
    first_source: SourceId,
    first_number: BoardId,
    /// Blocks are distinguished by the number in their header.
    named: bool,
    /// The bits of the block counter; 0 if it is not used.
    number_mask: u32,
    boards: Vec<Board>,
    /// One set per board; empty for a single board, whose fragments are counted by the link.
    counters: Vec<Counters>,
    wire_counters: Vec<Counters>,
    restarts: u64,
    /// The records of the boards; empty if they have none.
    asked: Vec<Arc<FragmentRecord>>,
}

impl Boards {
    pub fn new(first_source: SourceId, settings: &Settings) -> Boards {
        let boards = usize::from(settings.boards);
        let counted = settings.counts_frames();
        let bits = match settings.profile {
            _ if !counted => 0,
            Profile::StrTdc => str_tdc::FRAME_NUMBER_BITS,
            _ => Recbe::SENT_NUMBER_BITS,
        };
        Boards {
            first_source,
            first_number: BoardId(settings.first_board),
            named: settings.names_in_header(),
            number_mask: (1 << bits) - 1,
            boards: vec![Board::default(); boards],
            counters: vec![Counters::default(); if boards == 1 { 0 } else { boards }],
            wire_counters: vec![Counters::default(); if counted { boards } else { 0 }],
            restarts: 0,
            asked: Vec::new(),
        }
    }

    /// Sets the records of the boards' answers.
    pub fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        self.asked = records;
    }

    /// Numbers of the first and the last board in their headers.
    pub fn numbers(&self) -> (BoardId, BoardId) {
        (self.first_number, self.first_number.plus(self.boards.len().saturating_sub(1) as u16))
    }

    /// The index of the board with this number, if it is configured.
    #[inline]
    pub fn index(&self, number: BoardId) -> Option<usize> {
        if !self.named {
            return Some(0);
        }
        let index = usize::from(number.offset_from(self.first_number));
        (index < self.boards.len()).then_some(index)
    }

    /// Counts a block of a board, with the board's counter; returns the board's source.
    #[inline]
    pub fn take(&mut self, index: usize, sent_number: u32) -> SourceId {
        let board = &mut self.boards[index];
        board.found += 1;
        if self.number_mask != 0 {
            if board.expected != Some(sent_number) {
                self.restarts += board.step_to(sent_number, self.number_mask);
            }
            board.expected = Some(sent_number.wrapping_add(1) & self.number_mask);
        }
        self.first_source.plus(index as u16)
    }

    /// Discounts the last block, which was damaged: the board sent a block at that position, but not this one.
    pub fn take_back(&mut self, index: usize) {
        let board = &mut self.boards[index];
        board.found -= 1;
        board.missing += 1;
    }

    /// Counts the found fragments, and enters them in the records of the boards; `link` contains the counters of the
    /// connection.
    pub fn publish(&mut self, found: &[Fragment], link: &mut Counters) {
        if !self.asked.is_empty() {
            for fragment in found {
                let index = usize::from(fragment.source.offset_from(self.first_source));
                self.asked[index].find(fragment.trigger);
            }
        }
        for (index, board) in self.boards.iter_mut().enumerate() {
            let (found, missing) = (std::mem::take(&mut board.found), std::mem::take(&mut board.missing));
            if found + missing == 0 {
                continue;
            }
            let counters = self.counters.get_mut(index).unwrap_or(&mut *link);
            counters.input(Unit::Fragments, found);
            counters.output(Unit::Fragments, found);
            if let Some(wire) = self.wire_counters.get_mut(index) {
                wire.input(Unit::Frames, found + missing);
                wire.output(Unit::Frames, found);
                wire.lost(LossReason::FrameGap, Unit::Frames, missing);
            }
        }
    }

    /// A new connection: its block counters do not continue the old ones.
    pub fn begin_epoch(&mut self) {
        self.boards.iter_mut().for_each(|board| board.expected = None);
    }

    pub fn counters(&self) -> &[Counters] {
        &self.counters
    }

    pub fn wire_counters(&self) -> &[Counters] {
        &self.wire_counters
    }

    /// How often a board's counter did not continue, other than by a gap.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
}

impl Board {
    /// Handles an unexpected number: a gap, or a restart (then 1 is returned).
    #[cold]
    fn step_to(&mut self, number: u32, mask: u32) -> u64 {
        let Some(expected) = self.expected else { return 0 };
        let gap = number.wrapping_sub(expected) & mask;
        if gap > LARGEST_GAP {
            return 1;
        }
        self.missing += u64::from(gap);
        0
    }
}
