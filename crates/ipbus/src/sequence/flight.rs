//! One packet on its way.

use std::time::Instant;

/// What it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// To be sent.
    Request,
    /// Its reply once more.
    Reply,
}

/// A packet on its way, with what its sender keeps for its reply.
#[derive(Debug)]
pub(crate) struct Flight<T> {
    pub(crate) id: u16,
    pub(crate) bytes: Vec<u8>,
    /// It changes nothing.
    pub(crate) is_safe: bool,
    pub(crate) kept: T,
    pub(crate) first_sent: Instant,
    pub(super) need: Need,
    pub(super) sent: Instant,
    pub(super) is_repeated: bool,
}

impl<T> Flight<T> {
    pub(super) fn new(now: Instant, id: u16, bytes: Vec<u8>, is_safe: bool, kept: T) -> Flight<T> {
        Flight {
            id,
            bytes,
            is_safe,
            kept,
            first_sent: now,
            need: Need::Nothing,
            sent: now,
            is_repeated: false,
        }
    }
}
