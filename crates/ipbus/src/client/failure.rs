//! Why a dispatch failed.

use std::time::Duration;

use crate::wire::{HubCode, Info, Operation, WireError};

/// Why a dispatch failed. [`DispatchError`](super::DispatchError) also has the outcome of each job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The target reported an error for a transaction.
    #[error("{operation:?} of {words} word(s) at {address:#010x}: {info} (after {done} word(s))")]
    Refused {
        /// Index of the job.
        job: usize,
        /// The job's operation.
        operation: Operation,
        /// First address of the failed transaction.
        address: u32,
        /// Words of the transaction.
        words: usize,
        /// Words that were done.
        done: usize,
        /// The error that the target reported.
        info: Info,
    },
    /// The target did not answer within the timeout.
    #[error(
        "no answer within {0:?}; check that the target is connected and powered, and that the port is right"
    )]
    NoAnswer(Duration),
    /// The target was reset; the packets in flight are lost.
    #[error(
        "the target was reset: it expects an earlier packet than {sent}, the last one sent; the next dispatch asks for its status again"
    )]
    Restarted {
        /// The last packet id that was sent.
        sent: u16,
    },
    /// Another client or a hub numbers packets on this target.
    #[error(
        "another client or a hub numbers packets on this target, too ({seen}); let one hub serve all clients, or set `reliable=off` in this URI"
    )]
    Conflict {
        /// The evidence.
        seen: String,
    },
    /// The stream has invalid data; the connection is closed.
    #[error("invalid answer: {0}")]
    Broken(WireError),
    /// A reply in a stream that does not match its request; the connection is closed.
    #[error("a reply that does not match the request: {0}")]
    Mismatch(String),
    /// The connection or the socket failed.
    #[error("{0}")]
    Link(String),
    /// The hub sent an error code in place of a reply.
    #[error("the hub reports: {0}")]
    Hub(HubCode),
}

impl Failure {
    /// Whether the target itself reported the failure, so that the connection is still usable.
    pub fn is_of_target(&self) -> bool {
        matches!(self, Failure::Refused { .. })
    }
}
