//! The receiving end of a UDP source, whichever way it reads.
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

/// Receives datagrams into blocks on loan.
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
pub struct UdpReceiver(Way);

enum Way {
    Socket(Box<SocketReceiver>),
    Ring(Box<RingReceiver>),
    Xdp(Box<XdpReceiver>),
}

/// Asks whichever receiver it is.
macro_rules! ask {
    ($self:ident, $receiver:ident => $answer:expr) => {
        match &$self.0 {
            Way::Socket($receiver) => $answer,
            Way::Ring($receiver) => $answer,
            Way::Xdp($receiver) => $answer,
        }
    };
}

impl UdpReceiver {
    /// Opens the socket; datagrams are received into blocks of `pool`.
    ///
    /// # Errors
    /// When the address cannot be bound, the settings do not fit the pool, or the privilege for a ring or a program is missing.
    pub fn open(settings: UdpReceiverSettings, pool: Pool) -> Result<UdpReceiver, TransportError> {
        settings.check(pool.block_size())?;
        Ok(UdpReceiver(match settings.backend {
            Backend::Ring => Way::Ring(Box::new(RingReceiver::open(settings, pool)?)),
            Backend::Xdp => Way::Xdp(Box::new(XdpReceiver::open(settings, pool)?)),
            _ => Way::Socket(Box::new(SocketReceiver::open(settings, pool)?)),
        }))
    }

    /// The address that datagrams are to be sent to.
    ///
    /// # Errors
    /// When the socket does not say.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        ask!(self, receiver => receiver.local_address())
    }

    /// Fills an empty batch with what is there, waiting at most `wait`. The mark is left to the caller.
    ///
    /// # Errors
    /// When the socket is of no further use.
    pub fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, TransportError> {
        match &mut self.0 {
            Way::Socket(receiver) => receiver.receive(frames, wait),
            Way::Ring(receiver) => receiver.receive(frames, wait),
            Way::Xdp(receiver) => receiver.receive(frames, wait),
        }
    }

    /// Throws away what waits to be received, and counts it as abandoned: nobody will take it.
    ///
    /// # Errors
    /// When the socket is of no further use.
    pub fn abandon(&mut self) -> Result<(), TransportError> {
        match &mut self.0 {
            Way::Socket(receiver) => receiver.abandon(),
            Way::Ring(receiver) => receiver.abandon(),
            Way::Xdp(receiver) => receiver.abandon(),
        }
    }

    /// Sends an empty datagram to the connected other end: how some boards learn whom to stream to.
    ///
    /// # Errors
    /// When the socket is of no further use.
    pub fn send_empty(&mut self) -> Result<(), TransportError> {
        match &mut self.0 {
            Way::Socket(receiver) => receiver.send_empty(),
            Way::Ring(receiver) => receiver.send_empty(),
            Way::Xdp(receiver) => receiver.send_empty(),
        }
    }

    /// A handle to the socket that the other end knows, to send it empty datagrams again from another thread.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn sending_socket(&self) -> io::Result<UdpSocket> {
        match &self.0 {
            Way::Socket(receiver) => receiver.as_fd().try_clone_to_owned().map(UdpSocket::from),
            Way::Ring(receiver) => receiver.sending_socket(),
            Way::Xdp(receiver) => receiver.sending_socket(),
        }
    }

    /// Copies the payload of the next frame of a ring or of queues without a look at it: what benches compare with. Returns the bytes that
    /// were written, `None` when nothing waits or there is neither.
    #[cfg(feature = "bench")]
    pub fn copy_next(&mut self, memory: &mut [u8]) -> Option<usize> {
        match &mut self.0 {
            Way::Socket(_) => None,
            Way::Ring(receiver) => receiver.copy_next(memory),
            Way::Xdp(receiver) => receiver.copy_next(memory),
        }
    }

    /// Datagrams and bytes in, out, lost.
    pub fn counters(&self) -> &Counters {
        ask!(self, receiver => receiver.counters())
    }

    /// Datagrams (or coalesced messages) that the kernel dropped for want of room: at this socket, as reported with the ones that
    /// came; or at this ring, or these queues.
    pub fn socket_drops(&self) -> u64 {
        ask!(self, receiver => receiver.socket_drops())
    }

    /// Bytes that had to be copied in user space: of a ring or of queues, all.
    pub fn moved_bytes(&self) -> u64 {
        ask!(self, receiver => receiver.moved_bytes())
    }

    /// The receive buffer asked for and granted; of a ring or of queues, their size.
    pub fn receive_buffer(&self) -> ReceiveBuffer {
        ask!(self, receiver => receiver.receive_buffer())
    }

    /// Datagrams per message, as last measured; and how often the way of reading was changed. Of a ring or of queues (0, 0).
    pub fn coalescing(&self) -> (f64, u64) {
        match &self.0 {
            Way::Socket(receiver) => receiver.coalescing(),
            Way::Ring(_) | Way::Xdp(_) => (0.0, 0),
        }
    }

    /// Whether messages are read one by one (coalesced) just now, rather than in slots.
    pub fn reads_coalesced(&self) -> bool {
        matches!(&self.0, Way::Socket(receiver) if receiver.reads_coalesced())
    }

    /// Bytes that wait to be received, memory around them included.
    pub fn waiting_bytes(&self) -> u64 {
        ask!(self, receiver => receiver.waiting_bytes())
    }

    /// Counters of the kernel that place losses: those of this socket or ring, then those of the host since the start.
    pub fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        ask!(self, receiver => receiver.drop_counters())
    }

    /// One line on the way of reading and the receive buffer.
    pub fn description(&self) -> String {
        ask!(self, receiver => receiver.description())
    }
}

impl AsFd for UdpReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        ask!(self, receiver => receiver.as_fd())
    }
}
