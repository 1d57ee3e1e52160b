//! Datagrams in runs: those of one size cross into the kernel, and out of it, together.
//!
//! ```text
//!  packets ─► Outgoing: of one size, the last may be shorter ─ one message, UDP_SEGMENT ─► datagrams
//!  datagrams ─ one message, UDP_GRO ─► Incoming ─► cut where each of them ends
//! ```
//! Most of what a datagram costs is its way through the kernel, and the waking of the thread that waits for it; a run costs both once.
//! On the network they are datagrams like any others (udp(7), `UDP_SEGMENT` and `UDP_GRO`).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::sockopt::UdpGroSegment;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage};
use nix::sys::socket::{recvmsg, sendmsg, setsockopt};

/// Most datagrams in one message: what every kernel takes that takes more than one.
const MOST_DATAGRAMS: usize = 64;
/// Most bytes in one message: 65535 less the headers of IPv4 and UDP.
const MOST_BYTES: usize = 65_507;
/// Room for the longest message that comes, of one datagram or of a run.
pub(crate) const BUFFER_BYTES: usize = 65_536;

/// Has the kernel give what has come in runs; one that cannot gives one datagram at a time.
pub(crate) fn coalesce(socket: &UdpSocket) {
    let _ = setsockopt(socket, UdpGroSegment, &true);
}

/// Datagrams that leave together.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// Bytes of each but the last.
    size: usize,
    count: usize,
    /// The last is shorter: nothing can come behind it.
    is_closed: bool,
}

impl Outgoing {
    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What waits is not sent.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.is_closed) = (0, false);
    }

    /// A datagram waits for the next [`Outgoing::send`], with those before it or, where they cannot leave together, behind them. It is
    /// copied: a run lies in one piece.
    ///
    /// # Errors
    /// When those before it cannot be sent; they are lost then, as any datagram may be.
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

    /// Sends everything that waits.
    ///
    /// # Errors
    /// When it cannot be sent; it is lost then, as any datagram may be.
    pub(crate) fn send(&mut self, socket: &UdpSocket, to: Option<SocketAddr>) -> io::Result<()> {
        let sent = match self.send_run(socket, to) {
            // What an earlier datagram has met, a closed port, keeps these from being sent, and is said once.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => self.send_run(socket, to),
            sent => sent,
        };
        self.clear();
        sent
    }

    fn send_run(&self, socket: &UdpSocket, to: Option<SocketAddr>) -> io::Result<()> {
        if self.count > 1 {
            match self.send_together(socket, to) {
                // Longer than the interface takes, or one that cannot compute their checksums: the kernel cuts no such run.
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

/// Datagrams that have come together.
#[derive(Debug)]
pub(crate) struct Incoming {
    buffer: Vec<u8>,
    control: Vec<u8>,
    /// What has come and was not taken: bytes, and datagrams, of which one may be empty.
    left: std::ops::Range<usize>,
    datagrams: usize,
    /// Bytes of each but the last.
    size: usize,
}

impl Default for Incoming {
    fn default() -> Incoming {
        let (buffer, control) = (vec![0; BUFFER_BYTES], nix::cmsg_space!(i32));
        Incoming { buffer, control, left: 0..0, datagrams: 0, size: 0 }
    }
}

impl Incoming {
    /// Receives as many as have come in a run, and says from whom; what was not taken before is gone.
    ///
    /// # Errors
    /// What the socket says.
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
            .ok_or_else(|| io::Error::other("a datagram of no address"))
    }

    /// Whether some of them were not taken.
    pub(crate) fn has_more(&self) -> bool {
        self.datagrams > 0
    }

    /// The next of them.
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

    /// Datagrams of these lengths, each filled with its number, as they come out.
    fn sent(lengths: &[usize], (from, to): (&UdpSocket, &UdpSocket)) -> Vec<Vec<u8>> {
        let (mut outgoing, mut incoming, mut came) = (Outgoing::default(), Incoming::default(), Vec::new());
        // Some at a time: the kernel has no room for all of them.
        for (turn, lengths) in lengths.chunks(40).enumerate() {
            for (number, length) in lengths.iter().enumerate() {
                let packet = vec![(turn * 40 + number) as u8; *length];
                outgoing.add(&packet, from, None).expect("there is room");
            }
            outgoing.send(from, None).expect("there is room");
            while came.len() < turn * 40 + lengths.len() {
                let sender = incoming.receive(to).expect("more is on its way");
                assert_eq!(sender, from.local_addr().expect("bound"));
                came.extend(std::iter::from_fn(|| incoming.take().map(|packet| packet.to_vec())));
            }
        }
        came
    }

    proptest! {
        #[test]
        fn datagrams_arrive_one_by_one_as_they_left(
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
    fn datagrams_of_one_size_come_in_a_run() {
        let (from, to) = pair();
        coalesce(&to);
        let mut outgoing = Outgoing::default();
        for _ in 0..16 {
            outgoing.add(&[7; 1400], &from, None).expect("there is room");
        }
        outgoing.send(&from, None).expect("there is room");
        let mut incoming = Incoming::default();
        incoming.receive(&to).expect("they are there");
        let run = std::iter::from_fn(|| incoming.take().map(|packet| packet.len()));
        assert_eq!(run.collect::<Vec<_>>(), [1400; 16]);
    }

    #[test]
    fn an_empty_datagram_is_one() {
        let (from, to) = pair();
        from.send(&[]).expect("there is room");
        let mut incoming = Incoming::default();
        incoming.receive(&to).expect("it is there");
        assert_eq!(incoming.take(), Some(&mut [][..]));
        assert!(incoming.take().is_none() && !incoming.has_more());
    }

    #[test]
    fn what_an_earlier_datagram_has_met_does_not_keep_a_run_from_leaving() {
        let (from, to) = pair();
        let place = to.local_addr().expect("bound");
        drop(to);
        from.send(&[1]).expect("nobody knows yet");
        let to = UdpSocket::bind(place).expect("it was free just now");
        let mut outgoing = Outgoing::default();
        (0..3).for_each(|_| outgoing.add(&[2; 8], &from, None).expect("it waits"));
        outgoing.send(&from, None).expect("the second try");
        let mut incoming = Incoming::default();
        incoming.receive(&to).expect("they are there");
        assert_eq!(incoming.take(), Some(&mut [2; 8][..]));
    }
}
