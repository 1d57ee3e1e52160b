//! Messages between units, by URL: within a process, between processes of a host, between hosts.
//!
//! ```text
//!  Message ─ send ─► Peer ═ inproc://name    pointers are handed over
//!                         ═ shm://name       one copy into shared memory, one out of it
//!                         ═ tcp://host:port  written from the blocks, received into blocks
//!                    Peer ─ receive ─► Message
//! ```
//! One trait, [`Peer`], whatever lies between. A unit [`listen`]s at a URL, others [`connect`] to it; each connection is a
//! peer of its own. An error on one of them returns its blocks to their pool and touches no other. A connection that is lost
//! stays lost: what was on its way is gone, and the unit above has to know it. [`Connector`] makes a new one, with back-off.
//!
//! The head of a message is copied, its payload never, except into and out of shared memory (which is counted). Over `shm` and
//! `tcp` the bytes of a payload arrive in order, but where one slice ends and the next begins is the receiver's matter: the
//! head says how the payload is divided.
//!
//! `tcp` and `shm` share everything but the wire: the framing ([`frame`]), the hello, the queue, the
//! assembly into blocks. **Another transport**, such as libfabric, drops in at one of two places. One that moves a stream of
//! bytes implements the wire: a gathering write, a read, a descriptor. One that moves whole messages between registered
//! memory implements [`Peer`] itself: `send` posts head and slices (a region per pool, registered once, names every slice),
//! keeps the message until its completion, and answers `Full` when the send queue is; `receive` keeps blocks posted, polls
//! completions and hands over the block's slices; `descriptor` is that of the completion queue's wait object. Its hello is the
//! one of [`hello`], and its listener answers [`Listener::accept`].
//!
//! With a [`SharedKey`] both ends prove that they have it before either says who it is; without one, only loopback and this host are
//! listened at and connected to. A connection takes a block of the pool when its hello has been heard, not before.
//!
//! Zero-copy sending (`MSG_ZEROCOPY`) is not used. Over loopback, where it was measured, every completion says that the kernel
//! has copied after all (`SO_EE_CODE_ZEROCOPY_COPIED`), and the completions come on top: 1.1 against 1.7 GB/s at 16 KiB per write,
//! 3.55 against 3.58 at 1 MiB. Whether it pays on a network card is to be measured on one.

mod assembly;
mod back_off;
#[cfg(any(test, feature = "harness"))]
pub mod check;
mod connector;
mod error;
pub mod frame;
mod handshake;
pub mod hello;
mod inproc;
mod key;
mod listener;
mod queue;
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
pub use key::{SHORTEST_KEY, SharedKey};
pub use listener::Listener;
pub use settings::{Endpoint, Settings};

/// What became of a message that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way, and the caller's message is empty.
    Taken,
    /// Too much waits already: the message is the caller's as before, to be held and tried again.
    Full,
}

/// What one connection has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that have left this process (over `inproc`: been handed over).
    pub sent_messages: u64,
    /// Their bytes, heads and payloads.
    pub sent_bytes: u64,
    /// Messages that came.
    pub received_messages: u64,
    /// Their bytes, heads and payloads.
    pub received_bytes: u64,
    /// Bytes copied in user space on their way, in and out.
    pub copied_bytes: u64,
    /// Messages that were taken, and had not left this process when the connection was lost.
    pub lost_messages: u64,
}

/// The other end of a connection: a unit that messages go to and come from. Used by one thread.
///
/// Nothing runs behind a peer's back: what waits to be sent moves on in `send`, `receive` and `flush`. So `receive` is to be
/// called regularly, also on a peer that never says anything.
pub trait Peer: Send {
    /// Takes a message on its way: whole, in order, once. Short ones may wait for more to go with them, until the next
    /// `receive` or `flush`.
    ///
    /// # Errors
    /// When the connection is of no further use, or ([`PeerError::TooLong`]) the message is longer than the other end takes.
    fn send(&mut self, message: &mut Message) -> Result<Sent, PeerError>;

    /// Fills `message` with the next one, waiting at most `wait` for it; it is emptied first. [`Received::Full`]: no block is
    /// free for what comes. [`Received::End`]: the other end has closed the connection in order.
    ///
    /// # Errors
    /// When the connection is of no further use.
    fn receive(&mut self, message: &mut Message, wait: Duration) -> Result<Received, PeerError>;

    /// Moves on what waits to be sent, at most for `wait`; whether all of it has left this process.
    ///
    /// # Errors
    /// When the connection is of no further use.
    fn flush(&mut self, wait: Duration) -> Result<bool, PeerError>;

    /// Sends what waits, says good-bye, and waits at most `wait` for the other end to have heard it; whether it has. The
    /// connection is closed in any case. A peer that is dropped without it looks to the other end as if it had died.
    fn close(&mut self, wait: Duration) -> bool;

    /// For a [`ReadySet`](crate::ReadySet): readable when there is something to do. A message may also have been received
    /// already behind another, so `receive` until it is idle before waiting here.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Name of the unit at the other end.
    fn name(&self) -> &str;

    /// Where the other end is.
    fn place(&self) -> &str;

    /// What was sent and received.
    fn counts(&self) -> Counts;
}

/// Opens a unit's endpoint at a URL; `tcp` with port 0 lets the system choose, which [`Listener::url`] tells.
///
/// # Errors
/// When the URL or the settings cannot work, or another unit listens there.
pub fn listen(url: &str, settings: Settings) -> Result<Listener, PeerError> {
    Listener::open(Endpoint::parse(url)?, settings)
}

/// Connects to a unit, trying for `connect_wait` of the settings: it need not have been started yet.
///
/// # Errors
/// When it is not reached in that time, is of another version, or refuses.
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
