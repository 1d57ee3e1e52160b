//! Jobs: the operations of one dispatch, and their outcomes.
//!
//! ```text
//!  read, write, read_block … ─► Job { operation, address, words, written, landing } ─► Outcome
//! ```
//! A job is one call of the user; on the wire it is one or more transactions.

use crate::wire::{Info, Operation};

/// What a job writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Written<'b> {
    Nothing,
    Word(u32),
    /// For `ChangeBits`: the bits to keep, the bits to set.
    Bits(u32, u32),
    Block(&'b [u32]),
}

/// Where the words go that a job reads.
#[derive(Debug)]
pub(super) enum Landing<'b> {
    Nothing,
    Word(u32),
    Block(&'b mut [u32]),
}

/// The outcome of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It waits to be sent, or is in flight.
    #[default]
    Pending,
    /// It was done, and the words that it reads are there.
    Done,
    /// The target reported an error; part of the job may have been done.
    Failed {
        /// Words that were done.
        words: usize,
        /// The error that the target reported.
        info: Info,
    },
    /// It was not done: it was never sent, it only reads, or the target skipped it.
    NotDone,
    /// It was sent, and it is unknown whether it was done.
    MayHaveHappened,
}

/// One call of the user.
#[derive(Debug)]
pub(super) struct Job<'b> {
    pub(super) operation: Operation,
    pub(super) address: u32,
    pub(super) words: usize,
    pub(super) written: Written<'b>,
    pub(super) landing: Landing<'b>,
    /// Words that were done so far.
    pub(super) done: usize,
    pub(super) outcome: Outcome,
}

impl<'b> Job<'b> {
    pub(super) fn reading(operation: Operation, address: u32, landing: Landing<'b>) -> Job<'b> {
        let words = match &landing {
            Landing::Nothing => 0,
            Landing::Word(_) => 1,
            Landing::Block(block) => block.len(),
        };
        Job {
            operation,
            address,
            words,
            written: Written::Nothing,
            landing,
            done: 0,
            outcome: Outcome::Pending,
        }
    }

    pub(super) fn writing(operation: Operation, address: u32, written: Written<'b>) -> Job<'b> {
        let words = match written {
            Written::Block(block) => block.len(),
            Written::Nothing => 0,
            Written::Word(_) | Written::Bits(..) => 1,
        };
        let landing = match operation {
            // The old word.
            Operation::ChangeBits | Operation::Add => Landing::Word(0),
            _ => Landing::Nothing,
        };
        Job { operation, address, words, written, landing, done: 0, outcome: Outcome::Pending }
    }

    /// The address of the transaction that starts at this offset, in words, of the job.
    pub(super) fn address_of(&self, offset: usize) -> u32 {
        match self.operation {
            Operation::Read | Operation::Write => self.address.wrapping_add(offset as u32),
            _ => self.address,
        }
    }

    /// The word that was read; `None` until the job is done.
    pub(super) fn word(&self) -> Option<u32> {
        match (self.outcome, &self.landing) {
            (Outcome::Done, Landing::Word(word)) => Some(*word),
            _ => None,
        }
    }
}
