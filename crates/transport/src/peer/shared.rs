//! The wire through memory that two processes of a host share.
//!
//! ```text
//!  slices ─ copied once ─► ring in shared memory ─ copied once ─► space in a block
//!             wake-up, hang-up, descriptors of memory to read: a local socket
//! ```
//! The listening end makes the memory and passes it through a local socket, whose name exists as long as the listener. A byte on
//! that socket wakes a sleeping end; a hang-up of the socket shows that the other process has ended in any way. Positions in shared
//! memory come from another process: an impossible one ends the connection, and affects nothing else.
//!
//! What goes through a ring is copied out of it, and the bytes counted, because a pool cannot own that memory. Payloads in blocks that
//! the other process can map do not go through it: they are [lent](super::lend).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use socket2::SockRef;
use thalweg_data::memory::sealed_bytes;

use super::lend::MOST_POOLS;
use super::wire::{Passed, Wire};
use crate::system::shared_memory::{
    SharedRing, create, effective_user, other_user, receive_with_descriptors, send_with_descriptors,
};
use crate::system::{self, is_nothing};

/// A write publishes its bytes in steps of this many, so that the reader copies while the writer goes on.
const PUBLISH_BYTES: usize = 256 << 10;
/// Bytes that are sent with the memory: letters, version of its layout, capacity of a ring.
const PREAMBLE_BYTES: usize = 16;
/// Descriptors that may wait for the frames that announce them; a process that passes more breaks the rules.
const MOST_PASSED: usize = MOST_POOLS;
const PREAMBLE: [u8; 8] = *b"thwgshm\x02";

/// A pair of rings and the socket beside it.
pub(super) struct SharedWire {
    socket: UnixStream,
    incoming: SharedRing,
    outgoing: SharedRing,
    /// This end's own positions; those in shared memory are only copies for the other end.
    written: u64,
    read: u64,
    hung_up: bool,
    /// Descriptors that came with wake-ups, at most [`MOST_PASSED`].
    passed: VecDeque<Passed>,
    copied_bytes: u64,
}

/// The address of a name. It is abstract, so that it ends with its process, and contains the user's ID, so that runs of two users
/// have no common name.
fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("thalweg/{}/{name}", effective_user()))
}

/// Opens the endpoint of a name.
pub(super) fn listen(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&address(name)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Checks that both ends belong to the same user, so that the memory is as private as the process. (Any user can take an abstract
/// name, even one that contains the ID of another user.)
fn check_user(socket: &UnixStream) -> io::Result<()> {
    let (theirs, ours) = (other_user(socket)?, effective_user());
    if theirs == ours {
        return Ok(());
    }
    let words = format!(
        "it runs as user {theirs}, this unit as user {ours}; shared memory works only between processes of one user"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
}

/// The listening end of a connection just accepted.
pub(super) fn accepted(socket: UnixStream, ring_bytes: usize) -> io::Result<SharedWire> {
    check_user(&socket)?;
    let memory = create(SharedRing::pair_bytes(ring_bytes))?;
    let [outgoing, incoming] = SharedRing::pair(&memory, ring_bytes)?;
    let mut preamble = [0; PREAMBLE_BYTES];
    preamble[..8].copy_from_slice(&PREAMBLE);
    preamble[8..].copy_from_slice(&(ring_bytes as u64).to_le_bytes());
    if send_with_descriptors(&socket, &preamble, &[memory.as_fd()])? != PREAMBLE_BYTES {
        return Err(io::ErrorKind::WriteZero.into());
    }
    SharedWire::over(socket, incoming, outgoing)
}

/// The connecting end, until it has received the memory.
pub(super) struct Opening(UnixStream);

impl Opening {
    /// Starts to connect.
    pub(super) fn start(name: &str) -> io::Result<Opening> {
        let socket = UnixStream::connect_addr(&address(name)?)?;
        check_user(&socket)?;
        Ok(Opening(socket))
    }

    /// Waits at most `wait` for the memory.
    pub(super) fn wire(&self, wait: Duration) -> io::Result<Option<SharedWire>> {
        if !system::wait_readable(self.0.as_fd(), wait)? {
            return Ok(None);
        }
        let mut preamble = [0; PREAMBLE_BYTES];
        let (length, [memory]) = match receive_with_descriptors(&self.0, &mut preamble) {
            Err(cause) if is_nothing(&cause) => return Ok(None),
            received => received?,
        };
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let wrong = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words.to_owned());
        let (letters, capacity) = preamble.split_at(8);
        if length != PREAMBLE_BYTES || letters != PREAMBLE {
            return Err(wrong("another version, or another program, listens under this name"));
        }
        let capacity = u64::from_le_bytes(*capacity.first_chunk().expect("8 bytes"));
        let capacity = usize::try_from(capacity)
            .ok()
            .filter(|capacity| capacity.is_power_of_two() && (4096..=1 << 30).contains(capacity))
            .ok_or_else(|| wrong("it offers a ring of an invalid size"))?;
        let memory = File::from(memory.ok_or_else(|| wrong("it passed no memory"))?);
        if sealed_bytes(&memory)? != Some(SharedRing::pair_bytes(capacity) as u64) {
            return Err(wrong("it passed memory that is not sealed, or has another size"));
        }
        let [incoming, outgoing] = SharedRing::pair(&memory, capacity)?;
        SharedWire::over(self.0.try_clone()?, incoming, outgoing).map(Some)
    }
}

impl SharedWire {
    fn over(socket: UnixStream, incoming: SharedRing, outgoing: SharedRing) -> io::Result<SharedWire> {
        socket.set_nonblocking(true)?;
        Ok(SharedWire {
            socket,
            incoming,
            outgoing,
            written: 0,
            read: 0,
            hung_up: false,
            passed: VecDeque::new(),
            copied_bytes: 0,
        })
    }

    /// Wakes the other end with a byte. If the socket is full, bytes that wait there wake it.
    fn wake(&mut self) -> io::Result<()> {
        match self.socket.write(&[1]) {
            Err(cause) if !is_nothing(&cause) => Err(cause),
            _ => Ok(()),
        }
    }

    /// Reads wake-ups from the socket with the descriptors that came with them, and notices a hang-up. Returns whether there were any.
    fn read_wakes(&mut self) -> io::Result<bool> {
        let mut wakes = [0; 64];
        match receive_with_descriptors(&self.socket, &mut wakes) {
            Ok((0, _)) => self.hung_up = true,
            Ok((_, [None, _])) => return Ok(true),
            Ok((_, passed)) if self.passed.len() < MOST_PASSED => {
                self.passed.push_back(passed);
                return Ok(true);
            }
            Ok(_) => return Err(SharedWire::corrupt("it passed descriptors that it did not announce")),
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => self.hung_up = true,
            Err(cause) if !is_nothing(&cause) => return Err(cause),
            Err(_) => {}
        }
        Ok(false)
    }

    /// Whether wake-ups wait, without reading them: `None` when there are none, 0 after a hang-up.
    fn has_wakes(&self) -> io::Result<Option<usize>> {
        match SockRef::from(&self.socket).peek(&mut [MaybeUninit::uninit(); 1]) {
            Err(cause) if is_nothing(&cause) => Ok(None),
            found => found.map(Some),
        }
    }

    fn corrupt(cause: &str) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("the other process broke the rules: {cause}"))
    }

    /// Bytes that can be read.
    fn readable(&self) -> io::Result<usize> {
        let there = self.incoming.written().load(Ordering::Acquire).wrapping_sub(self.read);
        usize::try_from(there)
            .ok()
            .filter(|there| *there <= self.incoming.capacity())
            .ok_or_else(|| SharedWire::corrupt("it wrote more than the ring holds"))
    }

    /// Bytes that can be written.
    fn writable(&self) -> io::Result<usize> {
        let waiting = self.written.wrapping_sub(self.outgoing.read().load(Ordering::Acquire));
        usize::try_from(waiting)
            .ok()
            .and_then(|waiting| self.outgoing.capacity().checked_sub(waiting))
            .ok_or_else(|| SharedWire::corrupt("it read more than was written"))
    }

    /// Publishes the bytes up to position `written` to the reader, and wakes it if it sleeps.
    fn publish(&mut self, written: u64) -> io::Result<()> {
        self.written = written;
        self.outgoing.written().store(written, Ordering::Release);
        // Pairs with the fence of the reader: either it sees the bytes, or this end sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.outgoing.reader_sleeps().swap(0, Ordering::Relaxed) == 1 {
            self.wake()?;
        }
        Ok(())
    }

    /// Bytes that can be written; if there are none, asks to be woken and returns `WouldBlock`.
    fn find_space(&mut self) -> io::Result<usize> {
        let space = self.writable()?;
        if space > 0 {
            return Ok(space);
        }
        // Peeks only, so that a wake-up for the reader of this end is not lost.
        if self.hung_up || self.has_wakes()? == Some(0) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.outgoing.writer_sleeps().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        match self.writable()? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            space => Ok(space),
        }
    }

    /// Bytes that can be read; if there are none, asks to be woken and returns `WouldBlock`, or 0 after a hang-up.
    fn find_bytes(&mut self) -> io::Result<usize> {
        let there = self.readable()?;
        if there > 0 {
            return Ok(there);
        }
        self.read_wakes()?;
        self.incoming.reader_sleeps().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        match self.readable()? {
            0 if self.hung_up => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            there => Ok(there),
        }
    }
}

impl Wire for SharedWire {
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut space = self.find_space()?;
        let (start, mut at) = (self.written, self.written);
        for slice in slices {
            let mut rest = &slice[..slice.len().min(space)];
            space -= rest.len();
            while !rest.is_empty() {
                let part = rest.len().min(PUBLISH_BYTES);
                self.outgoing.copy_in(at, &rest[..part]);
                at = at.wrapping_add(part as u64);
                rest = &rest[part..];
                if at.wrapping_sub(self.written) >= PUBLISH_BYTES as u64 {
                    self.publish(at)?;
                }
            }
        }
        self.publish(at)?;
        let written = at.wrapping_sub(start);
        self.copied_bytes += written;
        Ok(written as usize)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let there = self.find_bytes()?;
        let length = there.min(buffer.len()).min(PUBLISH_BYTES);
        self.incoming.copy_out(self.read, &mut buffer[..length]);
        self.copied_bytes += length as u64;
        self.read = self.read.wrapping_add(length as u64);
        self.incoming.read().store(self.read, Ordering::Release);
        fence(Ordering::SeqCst);
        // Wakes a sleeping writer only when at least half of the ring is free, not after every read.
        let drained = there - length <= self.incoming.capacity() / 2;
        if drained && self.incoming.writer_sleeps().swap(0, Ordering::Relaxed) == 1 {
            // If it is gone, the bytes that it has written are read first.
            let _ = self.wake();
        }
        Ok(length)
    }

    fn wait(&mut self, for_write: bool, wait: Duration) -> io::Result<()> {
        // The socket wakes for bytes and for space, as `read` and `write` have asked. A caller that waits for space must not read the
        // wake-ups for bytes, so while there are any the socket is readable, and it sleeps instead.
        if for_write && self.has_wakes()?.is_some() {
            std::thread::sleep(wait.min(Duration::from_micros(50)));
            return Ok(());
        }
        system::wait_readable(self.socket.as_fd(), wait).map(drop)
    }

    fn set_write_interest(&mut self, _wanted: bool) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) {
        // Only this direction, so that the other end's last bytes are still read. It fails only if the other end is gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn can_lend(&self) -> bool {
        true
    }

    fn pass(&mut self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send_with_descriptors(&self.socket, &[1], descriptors).map(drop)
    }

    fn take_passed(&mut self) -> io::Result<Option<Passed>> {
        while self.passed.is_empty() && self.read_wakes()? {}
        Ok(self.passed.pop_front())
    }

    fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }
}
