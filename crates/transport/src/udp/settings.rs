//! Settings of a UDP receiver.
//!
//! ```text
//!  UdpReceiverSettings ─ check against the pool ─► UdpReceiver
//! ```

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::MESSAGE_ROOM_BYTES;
use crate::TransportError;

/// How datagrams are read from the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Coalesced reads while the kernel coalesces datagrams, else slots, as measured.
    #[default]
    Auto,
    /// `recvmmsg` into slots, without `UDP_GRO`.
    Slots,
    /// `UDP_GRO`, and one `recvmsg` per message.
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
    /// Stop reading: the kernel's buffer fills, and a stream's sender has to wait.
    #[default]
    Hold,
    /// Read, discard, and count as lost.
    Drop,
}

/// Address of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderAddress {
    /// The sender's address.
    pub address: IpAddr,
    /// The sender's port; `None` for any.
    pub port: Option<u16>,
}

/// The senders whose datagrams are accepted, by default all; datagrams of others are counted as lost to an unexpected sender.
///
/// The receiver tags each datagram's slice with the position of its sender in the list. So the address distinguishes boards
/// that do not write their number into their packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedSenders {
    /// Canonical address, port, and position in the list; sorted for binary search.
    sorted: Vec<(IpAddr, Option<u16>, u32)>,
}

impl ExpectedSenders {
    /// The senders of a list; its order numbers them.
    pub fn of(peers: impl IntoIterator<Item = SenderAddress>) -> ExpectedSenders {
        let positions = peers.into_iter().zip(0..);
        let mut sorted: Vec<_> =
            positions.map(|(peer, at)| (peer.address.to_canonical(), peer.port, at)).collect();
        sorted.sort_unstable();
        ExpectedSenders { sorted }
    }

    /// Whether datagrams of all senders are accepted, so that their addresses need not be known.
    pub fn is_anyone(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The position of a datagram's sender in the list: 0 if all are accepted, `None` for an unexpected sender.
    #[inline]
    pub fn position(&self, sender: Option<SocketAddr>) -> Option<u32> {
        if self.is_anyone() {
            return Some(0);
        }
        let (address, port) = sender.map(|sender| (sender.ip().to_canonical(), sender.port()))?;
        let first = self.sorted.partition_point(|(own, ..)| *own < address);
        let same = self.sorted[first..].iter().take_while(|(own, ..)| *own == address);
        same.into_iter().find(|(_, own, _)| own.is_none_or(|own| own == port)).map(|(.., at)| *at)
    }
}

impl fmt::Display for ExpectedSenders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sorted.as_slice() {
            [] => f.write_str("anyone"),
            [(address, ..)] => write!(f, "{address}"),
            [(first, ..), .., (last, ..)] => write!(f, "{} senders, {first} to {last}", self.sorted.len()),
        }
    }
}

/// Addresses, backend and buffers of a [`UdpReceiver`](crate::UdpReceiver).
#[derive(Clone, Debug)]
pub struct UdpReceiverSettings {
    /// Local address and port; port 0 lets the system choose.
    pub bind: SocketAddr,
    /// The only other end, which the receiver also sends to; the kernel then passes on only its datagrams.
    pub connect: Option<SocketAddr>,
    /// The senders whose datagrams are accepted.
    pub from: ExpectedSenders,
    /// How datagrams are read.
    pub backend: Backend,
    /// What happens when no block is free.
    pub policy: FullPolicy,
    /// The kernel's receive buffer to ask for, bytes; 0 leaves it as it is.
    pub receive_buffer_bytes: usize,
    /// Longest datagram that is accepted, bytes; longer ones are counted as too long.
    pub datagram_bytes: usize,
}

impl UdpReceiverSettings {
    /// Settings for datagrams of up to `datagram_bytes` from all senders, with a receive buffer of 64 MiB if granted.
    pub fn new(bind: SocketAddr, datagram_bytes: usize) -> UdpReceiverSettings {
        UdpReceiverSettings {
            bind,
            connect: None,
            from: ExpectedSenders::default(),
            backend: Backend::Auto,
            policy: FullPolicy::Hold,
            receive_buffer_bytes: 64 << 20,
            datagram_bytes,
        }
    }

    /// Bytes that a datagram occupies in a block at most.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, port: Option<u16>) -> SenderAddress {
        SenderAddress { address: address.parse().expect("an address"), port }
    }

    #[test]
    fn senders_are_numbered_by_their_position_in_the_list() {
        let senders = ExpectedSenders::of([
            peer("10.0.0.9", None),
            peer("10.0.0.1", Some(7)),
            peer("10.0.0.1", Some(8)),
            peer("fe80::1", None),
        ]);
        let position = |sender: &str| senders.position(Some(sender.parse().expect("an address")));
        let found = ["10.0.0.9:1", "10.0.0.1:7", "10.0.0.1:8", "[fe80::1]:5", "[::ffff:10.0.0.9]:3"];
        assert_eq!(found.map(position), [Some(0), Some(1), Some(2), Some(3), Some(0)]);
        assert_eq!(["10.0.0.1:9", "10.0.0.2:7"].map(position), [None, None]);
        assert_eq!(senders.position(None), None, "a sender whose address the kernel did not report");
    }

    #[test]
    fn by_default_all_senders_are_expected() {
        assert!(ExpectedSenders::default().is_anyone());
        assert_eq!(ExpectedSenders::default().position(None), Some(0));
    }
}
