//! Why a dispatch ended before its end.

use std::time::Duration;

use crate::wire::{HubCode, Info, Operation, WireError};

/// Why not everything of a dispatch was done. What became of each job is reported beside it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The target has not done a transaction to its end.
    #[error("{operation:?} of {words} word(s) at {address:#010x}: {info} (after {done} word(s))")]
    Refused {
        /// Which job.
        job: usize,
        /// What it was to do.
        operation: Operation,
        /// Where the transaction that failed begins.
        address: u32,
        /// Its words.
        words: usize,
        /// Words of it that were done.
        done: usize,
        /// What the target says.
        info: Info,
    },
    /// Nothing was heard.
    #[error("no answer within {0:?}; is the target there, has it power, is the port right?")]
    NoAnswer(Duration),
    /// The target expects a number as after a reset: what was on its way is gone.
    #[error(
        "the target was reset: it expects packet 1, and {sent} was the last that was sent; it is asked anew at the next dispatch"
    )]
    Restarted {
        /// The last number that was sent.
        sent: u16,
    },
    /// Somebody else moves the numbers of this target.
    #[error(
        "another client or a hub numbers packets on this target, too ({seen}); let one hub serve all clients, or set `reliable=off` in this URI"
    )]
    Conflict {
        /// What showed it.
        seen: String,
    },
    /// The stream holds what cannot be: it is of no further use.
    #[error("the answer is none: {0}")]
    Broken(WireError),
    /// A reply that does not fit to what was asked, where replies come in their order.
    #[error("a reply that does not belong to the packet that was sent: {0}")]
    Mismatch(String),
    /// The connection or the socket is of no further use.
    #[error("{0}")]
    Link(String),
    /// The hub has no reply.
    #[error("the hub says: {0}")]
    Hub(HubCode),
}

impl Failure {
    /// Whether the connection can be used on: the target answered, and said no.
    pub fn is_of_target(&self) -> bool {
        matches!(self, Failure::Refused { .. })
    }
}
