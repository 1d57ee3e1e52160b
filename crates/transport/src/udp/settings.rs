//! What a receiver of datagrams is asked to be.
//!
//! ```text
//!  UdpReceiverSettings ─ check against the pool ─► UdpReceiver
//! ```

use std::net::{IpAddr, SocketAddr};

use super::MESSAGE_ROOM_BYTES;
use crate::TransportError;

/// How datagrams are read from the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Coalesced where datagrams coalesce, slots where they do not, as measured.
    #[default]
    Auto,
    /// `recvmmsg` into slots; the kernel is not asked to coalesce.
    Slots,
    /// `UDP_GRO` and one `recvmsg` at a time.
    Coalesced,
    /// A ring of packets that the kernel fills without a call per datagram ([`mod@crate::ring`]). Needs `CAP_NET_RAW`.
    Ring,
    /// Frames from the interface's queues, before the kernel's network layers ([`mod@crate::xdp`]). Needs `CAP_NET_ADMIN`, `CAP_NET_RAW` and
    /// `CAP_BPF`, and the address of one interface.
    Xdp,
}

/// What happens when no block is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullPolicy {
    /// Stop reading: the kernel's buffer fills, and behind it the sender of a stream waits.
    #[default]
    Hold,
    /// Read and count what is dropped.
    Drop,
}

/// Whose datagrams are taken; those of others are counted as lost to an unexpected sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The sender's address.
    pub address: IpAddr,
    /// The sender's port; `None` for any.
    pub port: Option<u16>,
}

impl Peer {
    /// Whether a datagram from `sender` is the peer's.
    pub fn is(&self, sender: SocketAddr) -> bool {
        self.address.to_canonical() == sender.ip().to_canonical()
            && self.port.is_none_or(|port| port == sender.port())
    }
}

/// A receiver of datagrams.
#[derive(Clone, Debug)]
pub struct UdpReceiverSettings {
    /// Local address and port; port 0 lets the system choose.
    pub bind: SocketAddr,
    /// The one other end, which the receiver also writes to; the kernel then passes on its datagrams alone.
    pub connect: Option<SocketAddr>,
    /// Whose datagrams are taken; `None` for anyone's.
    pub from: Option<Peer>,
    /// How datagrams are read.
    pub backend: Backend,
    /// What happens when no block is free.
    pub policy: FullPolicy,
    /// The kernel's receive buffer to ask for, bytes; 0 leaves it as it is.
    pub receive_buffer_bytes: usize,
    /// Longest datagram that is taken, bytes; longer ones are counted as too long.
    pub datagram_bytes: usize,
}

impl UdpReceiverSettings {
    /// A receiver of anyone's datagrams of up to `datagram_bytes`, with a receive buffer of 64 MiB if granted.
    pub fn new(bind: SocketAddr, datagram_bytes: usize) -> UdpReceiverSettings {
        UdpReceiverSettings {
            bind,
            connect: None,
            from: None,
            backend: Backend::Auto,
            policy: FullPolicy::Hold,
            receive_buffer_bytes: 64 << 20,
            datagram_bytes,
        }
    }

    /// Bytes that each datagram takes in a block at most.
    pub(super) fn slot_bytes(&self) -> usize {
        self.datagram_bytes.next_multiple_of(64)
    }

    pub(super) fn check(&self, block_size: usize) -> Result<(), TransportError> {
        if !(1..=65_507).contains(&self.datagram_bytes) {
            return Err(TransportError::Settings(format!(
                "`datagram_bytes` is {}; a UDP datagram holds 1 to 65507 bytes",
                self.datagram_bytes
            )));
        }
        let needed = match self.backend {
            Backend::Slots => self.slot_bytes(),
            Backend::Auto | Backend::Coalesced | Backend::Ring | Backend::Xdp => MESSAGE_ROOM_BYTES,
        };
        if block_size < needed {
            return Err(TransportError::Settings(format!(
                "`block_bytes` is {block_size}; this receiver needs at least {needed}"
            )));
        }
        Ok(())
    }
}
