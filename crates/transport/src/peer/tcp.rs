//! Frames over a connection of TCP.
//!
//! ```text
//!  pieces ─► writev ═══ recv ─► room in a block
//! ```
//! The descriptor is a set of its own around the socket, so that it is ready for room, too, while something waits to be
//! written; the socket itself would say nothing of it to whoever waits for bytes.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::wire::Wire;
use crate::system::{self, epoll};
use crate::tcp::keepalive;

/// A connection.
pub(super) struct TcpWire {
    stream: TcpStream,
    set: OwnedFd,
}

impl TcpWire {
    /// A wire over a connection that was opened either way.
    pub(super) fn over(stream: TcpStream) -> io::Result<TcpWire> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
        let set = epoll::create()?;
        epoll::add(&set, stream.as_fd(), 0)?;
        Ok(TcpWire { stream, set })
    }
}

impl Wire for TcpWire {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(pieces)
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.stream.read(room)
    }

    fn wait(&mut self, for_room: bool, wait: Duration) -> io::Result<()> {
        system::wait_either(self.stream.as_fd(), for_room, wait).map(drop)
    }

    fn want_room(&mut self, wanted: bool) -> io::Result<()> {
        epoll::set_interest(&self.set, self.stream.as_fd(), 0, wanted)
    }

    fn finish(&mut self) {
        // A connection that is gone already needs no end.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// A connection that is being opened, without waiting for it.
pub(super) struct Opening(Socket);

impl Opening {
    /// Begins to connect.
    pub(super) fn start(address: SocketAddr, receive_buffer_bytes: usize) -> io::Result<Opening> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // Before connecting: the window scale is agreed upon then.
        crate::ReceiveBuffer::ask(socket.as_fd(), receive_buffer_bytes)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Err(cause) if cause.raw_os_error() != Some(libc::EINPROGRESS) => Err(cause),
            _ => Ok(Opening(socket)),
        }
    }

    /// Waits at most `wait` for it; whether it is open.
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
