//! One TCP connection that a program can end: reads and writes wait in short steps and look whether they are still wanted.
//!
//! ```text
//!  Frame ⇄ FrameLink ⇄ TLS, or nothing ⇄ TcpStream (keep-alive: a far host that is gone is noticed within two minutes)
//! ```

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use socket2::{SockRef, TcpKeepalive};

use crate::frame::{Frame, Kind};

/// Between two looks whether the program is to end.
const CHECK_EVERY: Duration = Duration::from_millis(200);
/// A greeting takes no longer.
pub(crate) const GREETING: Duration = Duration::from_secs(10);

/// What carries the frames.
trait Channel: Read + Write + Send + fmt::Debug {}

impl<T: Read + Write + Send + fmt::Debug> Channel for T {}

/// A connection.
#[derive(Debug)]
pub(crate) struct FrameLink {
    channel: Box<dyn Channel>,
    stop: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl FrameLink {
    /// A connection without TLS.
    pub(crate) fn plain(stream: TcpStream, stop: Arc<AtomicBool>) -> io::Result<FrameLink> {
        set_up(&stream)?;
        Ok(FrameLink { channel: Box::new(stream), stop, deadline: None })
    }

    /// The connecting end with TLS to a host of this name. The first bytes that go or come show whether the other end is trusted.
    pub(crate) fn client(
        stream: TcpStream,
        stop: Arc<AtomicBool>,
        config: Arc<ClientConfig>,
        host: &str,
    ) -> io::Result<FrameLink> {
        set_up(&stream)?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(FrameLink { channel: Box::new(StreamOwned::new(session, stream)), stop, deadline: None })
    }

    /// The listening end with TLS.
    pub(crate) fn server(
        stream: TcpStream,
        stop: Arc<AtomicBool>,
        config: Arc<ServerConfig>,
    ) -> io::Result<FrameLink> {
        set_up(&stream)?;
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(FrameLink { channel: Box::new(StreamOwned::new(session, stream)), stop, deadline: None })
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

    pub(crate) fn receive(&mut self) -> io::Result<Frame> {
        Frame::read(self)
    }

    /// Whether to wait on after a step in which nothing came or went.
    fn wait_on(&self, error: io::Error) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock => {
                if self.stop.load(Ordering::Acquire) {
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the program ends"));
                }
                match self.deadline {
                    Some(deadline) if Instant::now() > deadline => Err(no_greeting()),
                    _ => Ok(()),
                }
            }
            _ => Err(error),
        }
    }
}

fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(CHECK_EVERY))?;
    stream.set_write_timeout(Some(CHECK_EVERY))?;
    let (idle, interval) = (Duration::from_secs(30), Duration::from_secs(10));
    let keepalive = TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(6);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    // What was sent and is not acknowledged for so long will not be: keep-alive alone does not notice that.
    SockRef::from(stream).set_tcp_user_timeout(Some(Duration::from_secs(90)))
}

fn no_greeting() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no greeting in time")
}

impl Read for FrameLink {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            // Somebody who sends a byte now and then greets no longer than others.
            if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(no_greeting());
            }
            match self.channel.read(into) {
                Err(error) => self.wait_on(error)?,
                read => return read,
            }
        }
    }
}

impl Write for FrameLink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.channel.write(bytes) {
                Err(error) => self.wait_on(error)?,
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        loop {
            match self.channel.flush() {
                Err(error) => self.wait_on(error)?,
                flushed => return flushed,
            }
        }
    }
}
