//! What is to be done in one dispatch, and what became of it.
//!
//! ```text
//!  read, write, read_block … ─► Job { operation, address, words, what is written, where it lands } ─► Outcome
//! ```
//! A job is one call of the user; on the wire it is as many transactions as it needs.

use crate::wire::{Info, Operation};

/// What a job writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Written<'b> {
    Nothing,
    Word(u32),
    /// Of `ChangeBits`: what to keep, what to set.
    Bits(u32, u32),
    Block(&'b [u32]),
}

/// Where what is read lands.
#[derive(Debug)]
pub(super) enum Landing<'b> {
    Nothing,
    Word(u32),
    Block(&'b mut [u32]),
}

/// What became of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It waits, or is on its way.
    #[default]
    Pending,
    /// It was done, and what it reads has landed.
    Done,
    /// The target says that it was done in part: so many words, and why no more.
    Failed {
        /// Words that were done.
        words: usize,
        /// What ended it.
        info: Info,
    },
    /// It was never sent, or the target says that it did not do it.
    NotDone,
    /// It was sent, and nobody knows whether it was done.
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
    /// Words that were done until now.
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
            // The word as it was.
            Operation::ChangeBits | Operation::Add => Landing::Word(0),
            _ => Landing::Nothing,
        };
        Job { operation, address, words, written, landing, done: 0, outcome: Outcome::Pending }
    }

    /// Where the transaction goes that does its words from `offset` on.
    pub(super) fn address_of(&self, offset: usize) -> u32 {
        match self.operation {
            Operation::Read | Operation::Write => self.address.wrapping_add(offset as u32),
            _ => self.address,
        }
    }

    /// The word that was read; `None` before it has come.
    pub(super) fn word(&self) -> Option<u32> {
        match (self.outcome, &self.landing) {
            (Outcome::Done, Landing::Word(word)) => Some(*word),
            _ => None,
        }
    }
}
