//! The socket of a client: sends packets, waits, and receives packets.
//!
//! ```text
//!  Link ─ Datagrams: one packet each, several in a run
//!       └ Stream: packets after a length, or in chunks of a hub; an incomplete one waits in the buffer
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::datagrams::{Incoming, Outgoing, coalesce};
use crate::uri::{Transport, Uri};
use crate::wire::{HubCode, HubReplies, HubRequest, LENGTH_BYTES, Target, WireError, frame_bytes};

/// A longer packet, one that writes a block, is sent at once, so that the next is packed while it is on the wire.
const SHORT_BYTES: usize = 256;
/// Most bytes around a packet in a stream: lengths and headers of a hub.
const AROUND_BYTES: usize = 64;
/// Bytes requested in one read of a stream.
const READ_BYTES: usize = 64 << 10;

/// What [`Link::receive`] gives.
pub(super) enum Received<'l> {
    /// A packet.
    Packet(&'l [u8]),
    /// An error code of the hub in place of a reply.
    Refused(HubCode),
    /// Invalid data in a stream.
    Broken(WireError),
    /// Nothing was received in time.
    Nothing,
}

/// How long to wait for a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// When the wait ends; `None` waits without a limit.
    pub(super) until: Option<Instant>,
    /// The thread polls and yields until then, and sleeps afterwards.
    pub(super) spins_until: Option<Instant>,
}

impl Wait {
    /// Does not wait.
    #[cfg(feature = "tokio")]
    pub(super) fn none() -> Wait {
        Wait { until: Some(Instant::now()), spins_until: None }
    }
}

/// The connection to a target.
pub(super) enum Link {
    Datagrams { socket: UdpSocket, outgoing: Outgoing, incoming: Incoming },
    Stream(Stream),
}

/// A TCP connection.
pub(super) struct Stream {
    socket: TcpStream,
    /// The target, when the stream leads to a hub.
    target: Option<Target>,
    most_bytes: usize,
    received: Vec<u8>,
    /// Bytes of `received` that were delivered.
    taken: usize,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that were written.
    gone: usize,
}

impl Link {
    pub(super) fn open(uri: &Uri) -> io::Result<Link> {
        let target = match uri.transport {
            Transport::Udp => {
                let any = SocketAddr::from(([0, 0, 0, 0], 0));
                let socket = UdpSocket::bind(any)?;
                socket.connect(uri.place)?;
                socket.set_nonblocking(true)?;
                coalesce(&socket);
                let (outgoing, incoming) = (Outgoing::default(), Incoming::default());
                return Ok(Link::Datagrams { socket, outgoing, incoming });
            }
            Transport::Tcp => None,
            Transport::Hub(target) => Some(target),
        };
        let socket = TcpStream::connect_timeout(&uri.place, uri.timeout)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let most_bytes = uri.limits.reply_bytes + AROUND_BYTES;
        let (received, outgoing) = (Vec::new(), Vec::new());
        Ok(Link::Stream(Stream { socket, target, most_bytes, received, taken: 0, outgoing, gone: 0 }))
    }

    /// Sends a packet. A short datagram waits until a run has `run` packets, or until [`Link::receive`] finds nothing; over a stream,
    /// every packet waits for the latter.
    pub(super) fn send(&mut self, packet: &[u8], run: usize) -> io::Result<()> {
        match self {
            Link::Datagrams { socket, outgoing, .. } => {
                as_lost(outgoing.add(packet, socket, None))?;
                let waits = packet.len() <= SHORT_BYTES && outgoing.count() < run;
                if waits { Ok(()) } else { as_lost(outgoing.send(socket, None)) }
            }
            Link::Stream(stream) => stream.append(packet),
        }
    }

    /// Discards datagrams that wait to be sent, because their replies are not needed any more.
    pub(super) fn forget(&mut self) {
        if let Link::Datagrams { outgoing, .. } = self {
            outgoing.clear();
        }
    }

    /// Sends what waits, and receives the next packet.
    pub(super) fn receive(&mut self, wait: Wait) -> io::Result<Received<'_>> {
        match self {
            Link::Datagrams { socket, outgoing, incoming } => {
                if !incoming.has_more() {
                    as_lost(outgoing.send(socket, None))?;
                }
                while !incoming.has_more() {
                    match incoming.receive(socket) {
                        Ok(_) => {}
                        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                            if !wait_ready(socket, PollFlags::IN, wait)? {
                                return Ok(Received::Nothing);
                            }
                        }
                        // The port is closed; it may be open at the next try.
                        Err(cause) if is_passing(&cause) => {}
                        Err(cause) => return Err(cause),
                    }
                }
                Ok(incoming.take().map_or(Received::Nothing, |packet| Received::Packet(packet)))
            }
            Link::Stream(stream) => stream.receive(wait),
        }
    }
}

#[cfg(feature = "tokio")]
impl Link {
    /// Whether the socket has accepted all that was sent.
    pub(super) fn is_flushed(&self) -> bool {
        match self {
            Link::Datagrams { .. } => true,
            Link::Stream(stream) => stream.outgoing.is_empty(),
        }
    }
}

#[cfg(feature = "tokio")]
impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

/// Treats a transient error on sending datagrams as their loss.
fn as_lost(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(cause) if is_passing(&cause) => Ok(()),
        sent => sent,
    }
}

/// Whether an error on datagrams is transient: a full buffer (105 is `ENOBUFS`), a signal, or a closed port that an earlier one reached.
fn is_passing(cause: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(cause.kind(), WouldBlock | Interrupted | ConnectionRefused) || cause.raw_os_error() == Some(105)
}

/// Waits until the socket is ready. Returns `false` when the wait ended first.
fn wait_ready(socket: &impl std::os::fd::AsFd, flags: PollFlags, wait: Wait) -> io::Result<bool> {
    let now = Instant::now();
    let left = wait.until.map(|until| until.saturating_duration_since(now));
    if left == Some(Duration::ZERO) {
        return Ok(false);
    }
    if wait.spins_until.is_some_and(|until| now < until) {
        std::thread::yield_now();
        return Ok(true);
    }
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    let mut waiting = [PollFd::new(socket, flags)];
    match poll(&mut waiting, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

impl Stream {
    fn append(&mut self, packet: &[u8]) -> io::Result<()> {
        match self.target {
            None => {
                self.outgoing.extend((packet.len() as u32).to_be_bytes());
                self.outgoing.extend(packet);
            }
            Some(target) => HubRequest::append(target, &[packet], &mut self.outgoing)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
        }
        Ok(())
    }

    /// Writes as much as the socket accepts. Returns whether that is everything.
    fn flush(&mut self) -> io::Result<bool> {
        while self.gone < self.outgoing.len() {
            match self.socket.write(&self.outgoing[self.gone..]) {
                Ok(count) => self.gone += count,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        self.outgoing.clear();
        self.gone = 0;
        Ok(true)
    }

    /// The range of the next complete frame in `received`.
    fn frame(&self) -> Result<Option<std::ops::Range<usize>>, WireError> {
        let Some(length) = self.received[self.taken..].first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let start = self.taken + LENGTH_BYTES;
        let end = start + frame_bytes(*length, self.most_bytes)?;
        Ok((end <= self.received.len()).then_some(start..end))
    }

    fn receive(&mut self, wait: Wait) -> io::Result<Received<'_>> {
        loop {
            match self.frame() {
                Err(error) => return Ok(Received::Broken(error)),
                Ok(Some(frame)) => {
                    self.taken = frame.end;
                    return Ok(self.packet_of(frame));
                }
                Ok(None) => {}
            }
            let flushed = self.flush()?;
            if !self.read()? {
                let out = if flushed { PollFlags::empty() } else { PollFlags::OUT };
                if !wait_ready(&self.socket, PollFlags::IN | out, wait)? {
                    return Ok(Received::Nothing);
                }
            }
        }
    }

    fn packet_of(&self, frame: std::ops::Range<usize>) -> Received<'_> {
        let frame = &self.received[frame];
        let Some(target) = self.target else { return Received::Packet(frame) };
        // A chunk of this client has one packet, so the answer has one reply.
        match HubReplies::of(frame).next() {
            Some(Ok(reply)) if reply.target != target => {
                let reason = "its reply is from another target";
                Received::Broken(WireError::Chunk { bytes: frame.len(), reason })
            }
            Some(Ok(reply)) if reply.code == HubCode::Fine => Received::Packet(reply.packet),
            Some(Ok(reply)) => Received::Refused(reply.code),
            Some(Err(error)) => Received::Broken(error),
            None => Received::Broken(WireError::Chunk { bytes: 0, reason: "it has no reply" }),
        }
    }

    /// Reads what is available. Returns whether there was anything.
    fn read(&mut self) -> io::Result<bool> {
        if self.taken > 0 {
            self.received.drain(..self.taken);
            self.taken = 0;
        }
        let start = self.received.len();
        self.received.resize(start + READ_BYTES, 0);
        let result = self.socket.read(&mut self.received[start..]);
        self.received.truncate(start + result.as_ref().map_or(0, |count| *count));
        match result {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection")),
            Ok(_) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(cause) => Err(cause),
        }
    }
}
