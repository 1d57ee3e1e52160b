//! One TCP connection that a program can end: reads and writes wait in short steps and look whether they are still wanted.
//!
//! ```text
//!  Frame ⇄ FrameLink ⇄ TLS, or nothing ⇄ TcpStream (keep-alive: a far host that is gone is noticed within two minutes)
//! ```

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use socket2::{SockRef, TcpKeepalive};

use crate::frame::{Frame, Kind};

/// Between two looks whether the program is to end.
const CHECK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// A greeting takes no longer.
pub(crate) const GREETING: Duration = Duration::from_secs(10);

/// What carries the frames; never waits.
trait Channel: Read + Write + Send + fmt::Debug {}

impl<T: Read + Write + Send + fmt::Debug> Channel for T {}

/// A connection. Its clones are the same connection: one may read while another writes.
#[derive(Clone, Debug)]
pub(crate) struct FrameLink {
    channel: Arc<Mutex<Box<dyn Channel>>>,
    socket: Arc<TcpStream>,
    stop: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl FrameLink {
    /// A connection without TLS.
    pub(crate) fn plain(stream: TcpStream, stop: Arc<AtomicBool>) -> io::Result<FrameLink> {
        let socket = stream.try_clone()?;
        FrameLink::new(Box::new(stream), socket, stop)
    }

    /// The connecting end with TLS to a host of this name. The first bytes that go or come show whether the other end is trusted.
    pub(crate) fn client(
        stream: TcpStream,
        stop: Arc<AtomicBool>,
        config: Arc<ClientConfig>,
        host: &str,
    ) -> io::Result<FrameLink> {
        let socket = stream.try_clone()?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        FrameLink::new(Box::new(StreamOwned::new(session, stream)), socket, stop)
    }

    /// The listening end with TLS.
    pub(crate) fn server(
        stream: TcpStream,
        stop: Arc<AtomicBool>,
        config: Arc<ServerConfig>,
    ) -> io::Result<FrameLink> {
        let socket = stream.try_clone()?;
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        FrameLink::new(Box::new(StreamOwned::new(session, stream)), socket, stop)
    }

    fn new(channel: Box<dyn Channel>, socket: TcpStream, stop: Arc<AtomicBool>) -> io::Result<FrameLink> {
        set_up(&socket)?;
        let (channel, socket) = (Arc::new(Mutex::new(channel)), Arc::new(socket));
        Ok(FrameLink { channel, socket, stop, deadline: None })
    }

    /// Whatever is waited for comes within this time, or fails.
    pub(crate) fn within(&mut self, time: Option<Duration>) {
        self.deadline = time.map(|time| Instant::now() + time);
    }

    pub(crate) fn send(&mut self, kind: Kind, parts: &[&[u8]]) -> io::Result<()> {
        self.write_all(&Frame::header(kind, parts))?;
        parts.iter().try_for_each(|part| self.write_all(part))
    }

    pub(crate) fn send_frame(&mut self, frame: &Frame) -> io::Result<()> {
        self.send(frame.kind, &[&frame.payload])?;
        self.flush()
    }

    /// The next frame, into the memory of `spent`.
    pub(crate) fn receive(&mut self, spent: Vec<u8>) -> io::Result<Frame> {
        Frame::read(self, spent)
    }

    /// Ends the connection, also for who waits for it.
    pub(crate) fn close(&self) {
        // It may be closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Does something with the channel until it need not wait.
    fn perform<T>(
        &self,
        ready: PollFlags,
        mut work: impl FnMut(&mut dyn Channel) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            // Somebody who sends a byte now and then greets no longer than others.
            if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(no_greeting());
            }
            let result = work(&mut **self.channel.lock().unwrap_or_else(PoisonError::into_inner));
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.stop.load(Ordering::Acquire) {
                        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the program ends"));
                    }
                    let _ = poll(&mut [PollFd::new(&*self.socket, ready)], Some(&CHECK_EVERY));
                }
                result => return result,
            }
        }
    }
}

fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    notice_absence(&SockRef::from(stream))
}

/// Has the system notice within two minutes that a far host is gone.
pub(crate) fn notice_absence(socket: &SockRef<'_>) -> io::Result<()> {
    let (idle, interval) = (Duration::from_secs(30), Duration::from_secs(10));
    let keepalive = TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(6);
    socket.set_tcp_keepalive(&keepalive)?;
    // What was sent and is not acknowledged for so long will not be: keep-alive alone does not notice that.
    socket.set_tcp_user_timeout(Some(Duration::from_secs(90)))
}

fn no_greeting() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no greeting in time")
}

impl Read for FrameLink {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.perform(PollFlags::IN, |channel| channel.read(into))
    }
}

impl Write for FrameLink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.perform(PollFlags::OUT, |channel| channel.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.perform(PollFlags::OUT, |channel| channel.flush())
    }
}
