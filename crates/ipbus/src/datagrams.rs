//! Runs of datagrams: several datagrams of one size are sent or received with one system call.
//!
//! ```text
//!  packets ─► Outgoing: of one size, the last may be shorter ─ one message, UDP_SEGMENT ─► datagrams
//!  datagrams ─ one message, UDP_GRO ─► Incoming ─► split into packets
//! ```
//! Most of a datagram's cost is its path through the kernel and the wake-up of the receiving thread; a run pays for both once.
//! On the network, the datagrams of a run are ordinary ones (udp(7), `UDP_SEGMENT` and `UDP_GRO`).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::sockopt::UdpGroSegment;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage};
use nix::sys::socket::{recvmsg, sendmsg, setsockopt};

/// Most datagrams in one message: the smallest limit of any kernel that supports runs.
const MOST_DATAGRAMS: usize = 64;
/// Most bytes in one message: 65535 minus the IPv4 and UDP headers.
const MOST_BYTES: usize = 65_507;
/// Size of a buffer for the longest message, of one datagram or of a run.
pub(crate) const BUFFER_BYTES: usize = 65_536;

/// Lets the kernel deliver received datagrams in runs; a kernel without this feature delivers one at a time.
pub(crate) fn coalesce(socket: &UdpSocket) {
    let _ = setsockopt(socket, UdpGroSegment, &true);
}

/// Collects datagrams to be sent in a run.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// Bytes of each datagram except the last, which may be shorter.
    size: usize,
    count: usize,
    /// The last datagram is shorter, so the run cannot grow.
    is_closed: bool,
}

impl Outgoing {
    /// How many datagrams wait to be sent.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Discards the waiting datagrams.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.is_closed) = (0, false);
    }

    /// Adds a datagram to the run, which [`Outgoing::send`] sends. If it does not fit the run, the run is sent first. The datagram is
    /// copied, because a run is contiguous in memory.
    ///
    /// # Errors
    /// When the run before it cannot be sent; its datagrams are lost then.
    pub(crate) fn add(
        &mut self,
        packet: &[u8],
        socket: &UdpSocket,
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        let fits = !self.is_closed
            && self.count < MOST_DATAGRAMS
            && packet.len() <= self.size
            && self.bytes.len() + packet.len() <= MOST_BYTES;
        let sent = if fits { Ok(()) } else { self.send(socket, to) };
        if self.count == 0 {
            self.size = packet.len();
        }
        self.is_closed = packet.len() < self.size;
        self.bytes.extend_from_slice(packet);
        self.count += 1;
        sent
    }

    /// Sends the run.
    ///
    /// # Errors
    /// When it cannot be sent; its datagrams are lost then.
    pub(crate) fn send(&mut self, socket: &UdpSocket, to: Option<SocketAddr>) -> io::Result<()> {
        let sent = match self.send_run(socket, to) {
            // The kernel reports a closed port that an earlier datagram reached, once, instead of sending these.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => self.send_run(socket, to),
            sent => sent,
        };
        self.clear();
        sent
    }

    fn send_run(&self, socket: &UdpSocket, to: Option<SocketAddr>) -> io::Result<()> {
        if self.count > 1 {
            match self.send_together(socket, to) {
                // The kernel does not split this run: it exceeds the MTU, or the interface has no checksum offload.
                Err(
                    Errno::EINVAL | Errno::EIO | Errno::EMSGSIZE | Errno::ENOPROTOOPT | Errno::EOPNOTSUPP,
                ) => {}
                sent => return Ok(sent?),
            }
        }
        self.bytes.chunks(self.size.max(1)).try_for_each(|packet| {
            match to {
                Some(to) => socket.send_to(packet, to),
                None => socket.send(packet),
            }
            .map(drop)
        })
    }

    fn send_together(&self, socket: &UdpSocket, to: Option<SocketAddr>) -> Result<(), Errno> {
        let (run, size) = ([IoSlice::new(&self.bytes)], self.size as u16);
        let to = to.map(SockaddrStorage::from);
        let cut = [ControlMessage::UdpGsoSegments(&size)];
        sendmsg(socket.as_raw_fd(), &run, &cut, MsgFlags::empty(), to.as_ref()).map(drop)
    }
}

/// A received run of datagrams.
#[derive(Debug)]
pub(crate) struct Incoming {
    buffer: Vec<u8>,
    control: Vec<u8>,
    /// Bytes of the run that were not taken yet.
    left: std::ops::Range<usize>,
    /// Datagrams that were not taken yet; one may be empty.
    datagrams: usize,
    /// Bytes of each datagram except the last, which may be shorter.
    size: usize,
}

impl Default for Incoming {
    fn default() -> Incoming {
        let (buffer, control) = (vec![0; BUFFER_BYTES], nix::cmsg_space!(i32));
        Incoming { buffer, control, left: 0..0, datagrams: 0, size: 0 }
    }
}

impl Incoming {
    /// Receives a run and returns its sender. Datagrams of the previous run that were not taken are dropped.
    ///
    /// # Errors
    /// The error of the socket.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<SocketAddr> {
        self.datagrams = 0;
        let mut buffers = [IoSliceMut::new(&mut self.buffer)];
        let flags = MsgFlags::empty();
        let message =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut buffers, Some(&mut self.control), flags)?;
        let cut = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::UdpGroSegments(size) => usize::try_from(size).ok(),
            _ => None,
        });
        let (bytes, from) = (message.bytes, message.address);
        self.size = cut.unwrap_or(bytes).max(1);
        self.left = 0..bytes;
        self.datagrams = bytes.div_ceil(self.size).max(1);
        let from_v4 =
            |from: &SockaddrStorage| from.as_sockaddr_in().map(|from| SocketAddrV4::from(*from).into());
        let from_v6 =
            |from: &SockaddrStorage| from.as_sockaddr_in6().map(|from| SocketAddrV6::from(*from).into());
        from.as_ref()
            .and_then(|from| from_v4(from).or_else(|| from_v6(from)))
            .ok_or_else(|| io::Error::other("a datagram without a sender address"))
    }

    /// Whether datagrams are left to take.
    pub(crate) fn has_more(&self) -> bool {
        self.datagrams > 0
    }

    /// The next datagram of the run.
    pub(crate) fn take(&mut self) -> Option<&mut [u8]> {
        self.datagrams = self.datagrams.checked_sub(1)?;
        let end = self.left.end.min(self.left.start + self.size);
        let next = self.left.start..end;
        self.left.start = end;
        Some(&mut self.buffer[next])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        one.connect(other.local_addr().expect("bound")).expect("loopback");
        (one, other)
    }

    /// Sends datagrams of these lengths, each filled with its number, and returns what is received.
    fn sent(lengths: &[usize], (from, to): (&UdpSocket, &UdpSocket)) -> Vec<Vec<u8>> {
        let (mut outgoing, mut incoming, mut received) =
            (Outgoing::default(), Incoming::default(), Vec::new());
        // In portions, because the socket buffer does not hold all of them.
        for (turn, lengths) in lengths.chunks(40).enumerate() {
            for (number, length) in lengths.iter().enumerate() {
                let packet = vec![(turn * 40 + number) as u8; *length];
                outgoing.add(&packet, from, None).expect("the socket buffer has space");
            }
            outgoing.send(from, None).expect("the socket buffer has space");
            while received.len() < turn * 40 + lengths.len() {
                let sender = incoming.receive(to).expect("more datagrams follow");
                assert_eq!(sender, from.local_addr().expect("bound"));
                received.extend(std::iter::from_fn(|| incoming.take().map(|packet| packet.to_vec())));
            }
        }
        received
    }

    proptest! {
        #[test]
        fn datagrams_are_received_as_they_were_sent(
            lengths in prop::collection::vec(prop_oneof![Just(1400_usize), Just(12), 1..2000_usize], 1..120),
            coalesced: bool,
        ) {
            let (from, to) = pair();
            if coalesced {
                coalesce(&to);
            }
            let expected: Vec<_> = lengths.iter().enumerate().map(|(number, length)| vec![number as u8; *length]).collect();
            prop_assert_eq!(sent(&lengths, (&from, &to)), expected);
        }
    }

    #[test]
    fn datagrams_of_one_size_are_received_in_a_run() {
        let (from, to) = pair();
        coalesce(&to);
        let mut outgoing = Outgoing::default();
        for _ in 0..16 {
            outgoing.add(&[7; 1400], &from, None).expect("the socket buffer has space");
        }
        outgoing.send(&from, None).expect("the socket buffer has space");
        let mut incoming = Incoming::default();
        incoming.receive(&to).expect("a run");
        let run = std::iter::from_fn(|| incoming.take().map(|packet| packet.len()));
        assert_eq!(run.collect::<Vec<_>>(), [1400; 16]);
    }

    #[test]
    fn an_empty_datagram_is_received() {
        let (from, to) = pair();
        from.send(&[]).expect("the socket buffer has space");
        let mut incoming = Incoming::default();
        incoming.receive(&to).expect("a datagram");
        assert_eq!(incoming.take(), Some(&mut [][..]));
        assert!(incoming.take().is_none() && !incoming.has_more());
    }

    #[test]
    fn a_run_is_sent_although_an_earlier_datagram_met_a_closed_port() {
        let (from, to) = pair();
        let address = to.local_addr().expect("bound");
        drop(to);
        from.send(&[1]).expect("the closed port is not reported yet");
        let to = UdpSocket::bind(address).expect("the port is free");
        let mut outgoing = Outgoing::default();
        (0..3).for_each(|_| outgoing.add(&[2; 8], &from, None).expect("queued"));
        outgoing.send(&from, None).expect("the second try");
        let mut incoming = Incoming::default();
        incoming.receive(&to).expect("a run");
        assert_eq!(incoming.take(), Some(&mut [2; 8][..]));
    }
}
