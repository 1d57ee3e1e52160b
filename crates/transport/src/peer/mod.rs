//! Messages between units, by URL: within a process, between processes of a host, between hosts.
//!
//! ```text
//!  Message ─ send ─► Peer ═ inproc://name    pointers are handed over
//!                         ═ shm://name       read where they lie, if their pool is shared; else copied in and out
//!                         ═ tcp://host:port  written from the blocks, received into blocks
//!                    Peer ─ receive ─► Message
//! ```
//! All three have one trait, [`Peer`]. A unit [`listen`]s at a URL, others [`connect`] to it; each connection is a peer of its
//! own. An error on a connection returns its blocks to their pool and affects no other connection. A lost connection is not
//! repaired: the messages on their way are lost, and the unit above must handle that. [`Connector`] makes a new connection, with
//! back-off.
//!
//! The head of a message is copied; its payload is copied only over `shm`, and only what cannot be lent (which is counted): short
//! slices, and those of pools that other processes cannot read. Over `shm` and `tcp` the bytes of a payload arrive in order, but
//! divided into other slices than the sender's; the head says how the payload is divided.
//!
//! `tcp` and `shm` differ only in the wire: they share the framing ([`frame`]), the hello, the queue and the assembly into
//! blocks. **Another transport**, such as libfabric, can be added at one of two levels. A transport of byte streams implements
//! the wire: a gathering write, a read, a descriptor. A transport of whole messages between registered memory implements
//! [`Peer`] itself: `send` posts head and slices (each pool is registered once as a region), keeps the message until its
//! completion, and returns `Full` when the send queue is full; `receive` keeps blocks posted, polls completions and hands over
//! the block's slices; `descriptor` is that of the completion queue's wait object. Its hello is that of [`hello`], and
//! [`Listener::accept`] returns its connections.
//!
//! With a [`SharedKey`], both ends prove that they have it before either says who it is; without one, units listen and connect
//! only on loopback and within this host. A connection takes a block of the pool only after its hello has been received.
//!
//! Zero-copy sending (`MSG_ZEROCOPY`) is not used. It was measured over loopback: every completion reports that the kernel has
//! copied after all (`SO_EE_CODE_ZEROCOPY_COPIED`), and the completions cost extra: 1.1 against 1.7 GB/s at 16 KiB per write, 3.55
//! against 3.58 at 1 MiB. It has not been measured on a network card.

mod assembly;
mod back_off;
mod borrow;
#[cfg(any(test, feature = "harness"))]
pub mod check;
mod connector;
mod error;
pub mod frame;
mod handshake;
pub mod hello;
mod inproc;
mod key;
mod lend;
mod listener;
mod queue;
mod refusal;
mod settings;
mod shared;
mod stream;
mod tcp;
mod wire;

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use thalweg_data::{Message, Received};

pub use back_off::BackOff;
pub use connector::Connector;
pub use error::{KeyProblem, PeerError};
pub use hello::RunIdentity;
pub use key::{NONCE_BYTES, Nonce, Role, SHORTEST_KEY, SharedKey, fresh_nonce};
pub use listener::Listener;
pub use settings::{Endpoint, Settings};

/// The result of [`Peer::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The peer has taken the message, and the caller's message is empty.
    Taken,
    /// The send queue is full; the caller keeps the message and tries again.
    Full,
}

/// Counters of one connection since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that have left this process (over `inproc`: been handed over).
    pub sent_messages: u64,
    /// Bytes of the sent messages, heads and payloads.
    pub sent_bytes: u64,
    /// Messages that were received.
    pub received_messages: u64,
    /// Bytes of the received messages, heads and payloads.
    pub received_bytes: u64,
    /// Bytes of sent and received messages that were copied in user space.
    pub copied_bytes: u64,
    /// Messages that were taken, and had not left this process when the connection was lost.
    pub lost_messages: u64,
}

/// A connection to another unit, which sends and receives messages. Used by one thread.
///
/// A peer has no thread of its own: `send`, `receive` and `flush` write the queued messages. So call `receive` regularly, even
/// if the other end never sends anything.
pub trait Peer: Send {
    /// Queues a message; it arrives whole, in order and once. A short message may wait for others until the next `receive` or
    /// `flush`.
    ///
    /// # Errors
    /// When the connection can no longer be used, or ([`PeerError::TooLong`]) the message is longer than the other end accepts.
    fn send(&mut self, message: &mut Message) -> Result<Sent, PeerError>;

    /// Replaces `message` by the next one, waiting at most `wait` for it. [`Received::Full`]: no block is free to receive into.
    /// [`Received::End`]: the other end has closed the connection in order.
    ///
    /// # Errors
    /// When the connection can no longer be used.
    fn receive(&mut self, message: &mut Message, wait: Duration) -> Result<Received, PeerError>;

    /// Writes the queued messages, for at most `wait`; returns whether all of them have left this process.
    ///
    /// # Errors
    /// When the connection can no longer be used.
    fn flush(&mut self, wait: Duration) -> Result<bool, PeerError>;

    /// Writes the queued messages and a goodbye, and waits at most `wait` until the other end has received them; returns whether it
    /// has. The connection is closed in any case. To the other end, a peer that is dropped without `close` looks like one whose
    /// process died.
    fn close(&mut self, wait: Duration) -> bool;

    /// For a [`ReadySet`](crate::ReadySet): readable when there is something to do. A message may already have been received
    /// behind another one, so call `receive` until it is idle before waiting here.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Name of the unit at the other end.
    fn name(&self) -> &str;

    /// URL of the other end.
    fn place(&self) -> &str;

    /// Counters of the connection.
    fn counts(&self) -> Counts;
}

/// Opens a unit's endpoint at a URL; `tcp` with port 0 lets the system choose a port, which [`Listener::url`] returns.
///
/// # Errors
/// When the URL or the settings are invalid, or another unit listens there.
pub fn listen(url: &str, settings: Settings) -> Result<Listener, PeerError> {
    Listener::open(Endpoint::parse(url)?, settings)
}

/// Connects to a unit, trying for `connect_wait` of the settings, since it may not have started yet.
///
/// # Errors
/// When it is not reached in that time, has no common version, or refuses.
pub fn connect(url: &str, settings: Settings) -> Result<Box<dyn Peer>, PeerError> {
    let wait = settings.connect_wait;
    let mut connector = Connector::new(url, settings)?;
    let until = Instant::now() + wait;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if let Some(peer) = connector.poll(left)? {
            return Ok(peer);
        }
        if Instant::now() >= until {
            let problem = connector.problem().unwrap_or("no answer").to_owned();
            return Err(PeerError::NotReached { place: connector.place(), wait, problem });
        }
    }
}
