//! The boards behind a link: what they answer, and what became of it, counted.
//!
//! ```text
//!  Trigger ─► board ─► bytes, ends ─► BoardTotals · FragmentRecord, where the receiver asks
//!                        └ thrown away ─► both
//! ```

use std::sync::Arc;

use thalweg_data::FragmentRecord;
use thalweg_frontend::trigger::Trigger;

use super::{BoardTotals, Hosted};

/// What a board gave for one trigger.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub(super) answers: u64,
    pub(super) bytes: u64,
    pub(super) datagrams: u64,
}

/// The boards of one link, in the order of their numbers.
pub(super) struct Answering {
    boards: Vec<Box<dyn Hosted>>,
    totals: Vec<BoardTotals>,
    /// By board; empty where nobody asks.
    records: Vec<Arc<FragmentRecord>>,
}

impl Answering {
    pub(super) fn new(boards: Vec<Box<dyn Hosted>>, records: Vec<Arc<FragmentRecord>>) -> Answering {
        Answering { totals: vec![BoardTotals::default(); boards.len()], boards, records }
    }

    pub(super) fn count(&self) -> usize {
        self.boards.len()
    }

    pub(super) fn totals(&self) -> &[BoardTotals] {
        &self.totals
    }

    /// One board answers, as [`Answer::answer`](thalweg_frontend::trigger::Answer::answer) says.
    pub(super) fn answer(
        &mut self,
        index: usize,
        trigger: Trigger,
        bytes: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Given {
        let board = &mut self.boards[index];
        let (before, datagrams, doubled) = (bytes.len(), ends.len(), board.doubled());
        board.answer(trigger, bytes, ends);
        let given = Given {
            answers: 1 + board.doubled() - doubled,
            bytes: (bytes.len() - before) as u64,
            datagrams: (ends.len() - datagrams) as u64,
        };
        if let Some(record) = self.records.get(index) {
            let number = board.answer_number(trigger);
            (0..given.answers).for_each(|_| record.answer(number, given.bytes > 0));
        }
        let totals = &mut self.totals[index];
        totals.fragments += given.answers;
        totals.bytes += given.bytes;
        given
    }

    /// So many datagrams of a board are to go.
    pub(super) fn sends(&mut self, index: usize, datagrams: u64) {
        self.totals[index].datagrams += datagrams;
    }

    /// The latest of a board's answers are thrown away, with so many bytes that were not given to a socket.
    pub(super) fn discard(&mut self, index: usize, answers: u64, bytes: u64) {
        let totals = &mut self.totals[index];
        totals.discarded_fragments += answers;
        totals.discarded_bytes += bytes;
        if let Some(record) = self.records.get(index) {
            record.discard(answers);
        }
    }

    /// A client has connected.
    pub(super) fn connected(&mut self) {
        self.boards.iter_mut().for_each(|board| board.connected());
    }

    /// Looks at what was set meanwhile; whether a board was reset.
    pub(super) fn attend(&mut self) -> bool {
        let resets = self.boards.iter_mut().map(|board| board.attend());
        resets.filter(|reset| *reset).count() > 0
    }
}
