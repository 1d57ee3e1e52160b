//! The wire over a TCP connection.
//!
//! ```text
//!  slices ─► writev ═══ recv ─► space in a block
//! ```
//! The descriptor is that of an epoll set around the socket: while bytes wait to be written, it is also readable when the socket
//! is writable. The socket's own descriptor would not show that to a caller that waits for it to become readable.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::wire::Wire;
use crate::system::{self, epoll};
use crate::tcp::{keepalive, send_by_window_on_loopback};

/// A TCP connection as a wire.
pub(super) struct TcpWire {
    stream: TcpStream,
    set: OwnedFd,
    /// The last read got less than it could take: nothing is left, which the next one says without asking the system.
    is_drained: bool,
}

impl TcpWire {
    /// A wire over a connection that was opened or accepted.
    pub(super) fn over(stream: TcpStream) -> io::Result<TcpWire> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        send_by_window_on_loopback(&stream);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
        let set = epoll::create()?;
        epoll::add(&set, stream.as_fd(), 0)?;
        Ok(TcpWire { stream, set, is_drained: false })
    }
}

impl Wire for TcpWire {
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(slices)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if std::mem::take(&mut self.is_drained) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let received = self.stream.read(buffer)?;
        self.is_drained = (1..buffer.len()).contains(&received);
        Ok(received)
    }

    fn wait(&mut self, for_write: bool, wait: Duration) -> io::Result<()> {
        system::wait_either(self.stream.as_fd(), for_write, wait).map(drop)
    }

    fn set_write_interest(&mut self, wanted: bool) -> io::Result<()> {
        epoll::set_interest(&self.set, self.stream.as_fd(), 0, wanted)
    }

    fn finish(&mut self) {
        // It fails only for a connection that is gone already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// A connection that is being opened in the background.
pub(super) struct Opening(Socket);

impl Opening {
    /// Starts to connect.
    pub(super) fn start(address: SocketAddr, receive_buffer_bytes: usize) -> io::Result<Opening> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // Before connecting, because the handshake fixes the window scale.
        crate::ReceiveBuffer::ask(socket.as_fd(), receive_buffer_bytes)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Err(cause) if cause.raw_os_error() != Some(libc::EINPROGRESS) => Err(cause),
            _ => Ok(Opening(socket)),
        }
    }

    /// Waits at most `wait` for the connection; returns whether it is open.
    pub(super) fn is_open(&self, wait: Duration) -> io::Result<bool> {
        if !system::wait_writable(self.0.as_fd(), wait)? {
            return Ok(false);
        }
        match self.0.take_error()? {
            Some(cause) => Err(cause),
            None => Ok(true),
        }
    }

    /// The open connection.
    pub(super) fn into_stream(self) -> TcpStream {
        self.0.into()
    }
}
