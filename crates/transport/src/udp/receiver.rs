//! The receiving end of a UDP source, for every backend.
//!
//! ```text
//!  UdpReceiverSettings ─ backend ─► receive calls │ packet ring │ interface queues ─► Frames
//! ```

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use thalweg_data::batch::Frames;
use thalweg_data::{Counters, Pool, Received};

use super::settings::{Backend, UdpReceiverSettings};
use super::socket::SocketReceiver;
use crate::ring::RingReceiver;
use crate::xdp::XdpReceiver;
use crate::{ReceiveBuffer, TransportError};

/// Receives datagrams into blocks of the pool.
///
/// ```
/// use std::time::Duration;
/// use thalweg_data::{Frames, Pool};
/// use thalweg_transport::{UdpReceiver, UdpReceiverSettings, UdpSender};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = UdpReceiverSettings::new("127.0.0.1:0".parse()?, 1500);
/// let mut receiver = UdpReceiver::open(settings, Pool::new(4, 512 << 10)?)?;
/// let mut sender = UdpSender::open("127.0.0.1:0".parse()?, receiver.local_address()?)?;
/// sender.send(&[b"one", b"two"], Duration::from_secs(1))?;
///
/// let mut frames = Frames::default();
/// while frames.slices.len() < 2 {
///     receiver.receive(&mut frames, Duration::from_millis(20))?;
/// }
/// assert_eq!(frames.bytes(frames.slices[1]), b"two");
/// # Ok(())
/// # }
/// ```
pub struct UdpReceiver(AnyReceiver);

enum AnyReceiver {
    Socket(Box<SocketReceiver>),
    Ring(Box<RingReceiver>),
    Xdp(Box<XdpReceiver>),
}

/// Evaluates an expression with the receiver of the backend in use.
macro_rules! ask {
    ($self:ident, $receiver:ident => $answer:expr) => {
        match &$self.0 {
            AnyReceiver::Socket($receiver) => $answer,
            AnyReceiver::Ring($receiver) => $answer,
            AnyReceiver::Xdp($receiver) => $answer,
        }
    };
}

impl UdpReceiver {
    /// Opens the socket; datagrams are received into blocks of `pool`.
    ///
    /// # Errors
    /// When the address cannot be bound, the settings do not fit the pool, or the process lacks the privilege for the backend.
    pub fn open(settings: UdpReceiverSettings, pool: Pool) -> Result<UdpReceiver, TransportError> {
        settings.check(pool.block_size())?;
        Ok(UdpReceiver(match settings.backend {
            Backend::Ring => AnyReceiver::Ring(Box::new(RingReceiver::open(settings, pool)?)),
            Backend::Xdp => AnyReceiver::Xdp(Box::new(XdpReceiver::open(settings, pool)?)),
            _ => AnyReceiver::Socket(Box::new(SocketReceiver::open(settings, pool)?)),
        }))
    }

    /// The local address, which senders send to.
    ///
    /// # Errors
    /// When the system cannot report it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        ask!(self, receiver => receiver.local_address())
    }

    /// Fills an empty batch with the datagrams that have arrived, waiting at most `wait`; the caller sets the batch's mark.
    ///
    /// # Errors
    /// When the socket can no longer be used.
    pub fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, TransportError> {
        match &mut self.0 {
            AnyReceiver::Socket(receiver) => receiver.receive(frames, wait),
            AnyReceiver::Ring(receiver) => receiver.receive(frames, wait),
            AnyReceiver::Xdp(receiver) => receiver.receive(frames, wait),
        }
    }

    /// Discards the datagrams that wait to be received, and counts them as abandoned; for a run that gives up.
    ///
    /// # Errors
    /// When the socket can no longer be used.
    pub fn abandon(&mut self) -> Result<(), TransportError> {
        match &mut self.0 {
            AnyReceiver::Socket(receiver) => receiver.abandon(),
            AnyReceiver::Ring(receiver) => receiver.abandon(),
            AnyReceiver::Xdp(receiver) => receiver.abandon(),
        }
    }

    /// Sends an empty datagram to the connected other end; some boards stream to the address that it comes from.
    ///
    /// # Errors
    /// When the socket can no longer be used.
    pub fn send_empty(&mut self) -> Result<(), TransportError> {
        match &mut self.0 {
            AnyReceiver::Socket(receiver) => receiver.send_empty(),
            AnyReceiver::Ring(receiver) => receiver.send_empty(),
            AnyReceiver::Xdp(receiver) => receiver.send_empty(),
        }
    }

    /// A handle to the socket, so that another thread can send empty datagrams from the same address.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn sending_socket(&self) -> io::Result<UdpSocket> {
        match &self.0 {
            AnyReceiver::Socket(receiver) => receiver.as_fd().try_clone_to_owned().map(UdpSocket::from),
            AnyReceiver::Ring(receiver) => receiver.sending_socket(),
            AnyReceiver::Xdp(receiver) => receiver.sending_socket(),
        }
    }

    /// Copies the payload of the next frame of a ring or of queues without checking it, as a baseline for benches. Returns the
    /// bytes that it wrote; `None` when nothing waits, or for other backends.
    #[cfg(feature = "bench")]
    pub fn copy_next(&mut self, memory: &mut [u8]) -> Option<usize> {
        match &mut self.0 {
            AnyReceiver::Socket(_) => None,
            AnyReceiver::Ring(receiver) => receiver.copy_next(memory),
            AnyReceiver::Xdp(receiver) => receiver.copy_next(memory),
        }
    }

    /// Datagrams and bytes in, out, lost.
    pub fn counters(&self) -> &Counters {
        ask!(self, receiver => receiver.counters())
    }

    /// Datagrams (or coalesced messages) that the kernel dropped because a buffer was full: this socket's, as reported with
    /// later datagrams, or that of the ring or the queues.
    pub fn socket_drops(&self) -> u64 {
        ask!(self, receiver => receiver.socket_drops())
    }

    /// Bytes that were copied in user space; with a ring or with queues, all bytes.
    pub fn moved_bytes(&self) -> u64 {
        ask!(self, receiver => receiver.moved_bytes())
    }

    /// The receive buffer asked for and granted; with a ring or with queues, their size.
    pub fn receive_buffer(&self) -> ReceiveBuffer {
        ask!(self, receiver => receiver.receive_buffer())
    }

    /// Datagrams per message, as last measured, and how often the read mode has changed; (0, 0) with a ring or with queues.
    pub fn coalescing(&self) -> (f64, u64) {
        match &self.0 {
            AnyReceiver::Socket(receiver) => receiver.coalescing(),
            AnyReceiver::Ring(_) | AnyReceiver::Xdp(_) => (0.0, 0),
        }
    }

    /// Whether messages are now read one by one (coalesced) rather than in slots.
    pub fn reads_coalesced(&self) -> bool {
        matches!(&self.0, AnyReceiver::Socket(receiver) if receiver.reads_coalesced())
    }

    /// Bytes that wait to be received, including the kernel's overhead per datagram.
    pub fn waiting_bytes(&self) -> u64 {
        ask!(self, receiver => receiver.waiting_bytes())
    }

    /// The kernel's counters that show where datagrams were lost: those of this socket or ring, then those of the host since
    /// the receiver was opened.
    pub fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        ask!(self, receiver => receiver.drop_counters())
    }

    /// One line about the backend and the receive buffer.
    pub fn description(&self) -> String {
        ask!(self, receiver => receiver.description())
    }
}

impl AsFd for UdpReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        ask!(self, receiver => receiver.as_fd())
    }
}
