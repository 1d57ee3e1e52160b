//! One packet in flight.

use std::time::Instant;

/// What has to be sent for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// The request again.
    Request,
    /// A resend packet, which asks for its reply again.
    Reply,
}

/// A packet in flight, with what its sender keeps until the reply.
#[derive(Debug)]
pub(crate) struct Flight<T> {
    pub(crate) id: u16,
    pub(crate) bytes: Vec<u8>,
    /// It only reads, and so may be repeated.
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
