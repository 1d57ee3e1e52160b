//! Sockets under a client: packets out and in, and the wait between.
//!
//! ```text
//!  Link ─ Datagrams: one packet each, some in a run
//!       └ Stream: behind a length, or in chunks of a hub; what is not whole waits
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::datagrams::{Incoming, Outgoing, coalesce};
use crate::uri::{Transport, Uri};
use crate::wire::{HubCode, HubReplies, HubRequest, LENGTH_BYTES, Target, WireError, frame_bytes};

/// A longer packet, one that writes a block, is sent at once: while it is on the wire the next is made.
const SHORT_BYTES: usize = 256;
/// Bytes that a stream's reply may have beyond the packet's own: lengths and headers of a hub.
const AROUND_BYTES: usize = 64;
/// Bytes asked for in one read of a stream.
const READ_BYTES: usize = 64 << 10;

/// What a link gives.
pub(super) enum Came<'l> {
    /// A packet.
    Packet(&'l [u8]),
    /// The hub has none, and says why.
    Refused(HubCode),
    /// What cannot be.
    Broken(WireError),
    /// Nothing within the time.
    Nothing,
}

/// How something is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Until then; without an end where there is none.
    pub(super) until: Option<Instant>,
    /// Until then it is looked for all the time, and every other thread let through; behind it the thread sleeps.
    pub(super) looks_until: Option<Instant>,
}

impl Patience {
    /// Takes what there is.
    #[cfg(feature = "tokio")]
    pub(super) fn none() -> Patience {
        Patience { until: Some(Instant::now()), looks_until: None }
    }
}

/// The way to a target.
pub(super) enum Link {
    Datagrams { socket: UdpSocket, outgoing: Outgoing, incoming: Incoming },
    Stream(Stream),
}

/// A TCP connection.
pub(super) struct Stream {
    socket: TcpStream,
    /// Of a hub, which target.
    target: Option<Target>,
    most_bytes: usize,
    received: Vec<u8>,
    /// How much of it was given away.
    taken: usize,
    outgoing: Vec<u8>,
    /// How much of that has gone.
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

    /// Sends a packet. A short one waits for those behind it until there are `run` of them, one over a stream in any case, and goes with them at
    /// the next [`Link::receive`] that finds nothing.
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

    /// Nobody waits for the answers to what waits to be sent: of datagrams, it is not.
    pub(super) fn forget(&mut self) {
        if let Link::Datagrams { outgoing, .. } = self {
            outgoing.clear();
        }
    }

    /// What comes next.
    pub(super) fn receive(&mut self, patience: Patience) -> io::Result<Came<'_>> {
        match self {
            Link::Datagrams { socket, outgoing, incoming } => {
                if !incoming.has_more() {
                    as_lost(outgoing.send(socket, None))?;
                }
                while !incoming.has_more() {
                    match incoming.receive(socket) {
                        Ok(_) => {}
                        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                            if !wait(socket, PollFlags::IN, patience)? {
                                return Ok(Came::Nothing);
                            }
                        }
                        // The port is closed now; it may be open by the time of the next try.
                        Err(cause) if is_passing(&cause) => {}
                        Err(cause) => return Err(cause),
                    }
                }
                Ok(incoming.take().map_or(Came::Nothing, |packet| Came::Packet(packet)))
            }
            Link::Stream(stream) => stream.receive(patience),
        }
    }
}

#[cfg(feature = "tokio")]
impl Link {
    /// Whether the socket has taken all that was sent.
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

/// Of datagrams: no room, or what an earlier one met. They are lost, as any datagram may be.
fn as_lost(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(cause) if is_passing(&cause) => Ok(()),
        sent => sent,
    }
}

/// Of datagrams: what passes by itself.
fn is_passing(cause: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(cause.kind(), WouldBlock | Interrupted | ConnectionRefused) || cause.raw_os_error() == Some(105)
}

/// Waits until the socket can be used; whether it can.
fn wait(socket: &impl std::os::fd::AsFd, flags: PollFlags, patience: Patience) -> io::Result<bool> {
    let now = Instant::now();
    let left = patience.until.map(|until| until.saturating_duration_since(now));
    if left == Some(Duration::ZERO) {
        return Ok(false);
    }
    if patience.looks_until.is_some_and(|until| now < until) {
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

    /// Writes what the socket takes; whether that is everything.
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

    /// The next whole frame in what was received: where it begins and ends.
    fn frame(&self) -> Result<Option<std::ops::Range<usize>>, WireError> {
        let Some(length) = self.received[self.taken..].first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let start = self.taken + LENGTH_BYTES;
        let end = start + frame_bytes(*length, self.most_bytes)?;
        Ok((end <= self.received.len()).then_some(start..end))
    }

    fn receive(&mut self, patience: Patience) -> io::Result<Came<'_>> {
        loop {
            match self.frame() {
                Err(error) => return Ok(Came::Broken(error)),
                Ok(Some(frame)) => {
                    self.taken = frame.end;
                    return Ok(self.packet_of(frame));
                }
                Ok(None) => {}
            }
            let flushed = self.flush()?;
            if !self.read()? {
                let out = if flushed { PollFlags::empty() } else { PollFlags::OUT };
                if !wait(&self.socket, PollFlags::IN | out, patience)? {
                    return Ok(Came::Nothing);
                }
            }
        }
    }

    fn packet_of(&self, frame: std::ops::Range<usize>) -> Came<'_> {
        let frame = &self.received[frame];
        let Some(target) = self.target else { return Came::Packet(frame) };
        // One packet was in each chunk, and so is one reply.
        match HubReplies::of(frame).next() {
            Some(Ok(reply)) if reply.target != target => {
                let reason = "its reply is of another target";
                Came::Broken(WireError::Chunk { bytes: frame.len(), reason })
            }
            Some(Ok(reply)) if reply.code == HubCode::Fine => Came::Packet(reply.packet),
            Some(Ok(reply)) => Came::Refused(reply.code),
            Some(Err(error)) => Came::Broken(error),
            None => Came::Broken(WireError::Chunk { bytes: 0, reason: "it has no reply" }),
        }
    }

    /// Reads what there is; whether there was something.
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
            Ok(0) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other side has closed the connection"))
            }
            Ok(_) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(cause) => Err(cause),
        }
    }
}
