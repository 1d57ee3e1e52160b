//! TCP streams in and out.
//!
//! ```text
//!  connection ─► TcpReceiver ─► one slice per call, carried bytes first ─► Frames
//!  &[&[u8]]   ─► TcpSender   ─► connection
//! ```

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use thalweg_data::batch::Frames;
use thalweg_data::prefetch::prefetch;
use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::{Counters, LossReason, Pool, Received, Unit};

use crate::system;
use crate::{ReceiveBuffer, TransportError};

/// Keepalive probes of a silent connection: the first one after this time. A pulled cable is found after about 8 s.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(4);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_TRIES: u32 = 4;

/// The keepalive settings of all connections, which find a pulled cable.
pub(crate) fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_TRIES)
}

/// Lets the window alone decide how fast a loopback connection sends. Where the system's congestion control is BBR, each connection is paced
/// by a timer, also within the host: `bench evb` took 1.3 to 1.5 times the processor time, and the rate jumped between two values from one
/// connection to the next. To other hosts the system's choice holds. Where CUBIC is not there, or not allowed, it keeps what it has.
pub fn send_by_window_on_loopback(stream: &TcpStream) {
    if stream.peer_addr().is_ok_and(|other| other.ip().is_loopback()) {
        let _kept = SockRef::from(stream).set_tcp_congestion(b"cubic");
    }
}

/// Address and receive buffer of a [`TcpReceiver`].
#[derive(Clone, Debug)]
pub struct TcpReceiverSettings {
    /// The other end.
    pub address: SocketAddr,
    /// The kernel's receive buffer to ask for, bytes; 0 lets the kernel adapt it to the rate.
    pub receive_buffer_bytes: usize,
    /// How long to wait for the connection.
    pub connect_wait: Duration,
}

/// Receives a stream into blocks of the pool.
pub struct TcpReceiver {
    stream: TcpStream,
    address: SocketAddr,
    buffer: StreamBuffer,
    kernel_buffer: ReceiveBuffer,
    counters: Counters,
    ended: bool,
    /// How often the other end reset the connection instead of closing it.
    resets: u64,
}

impl TcpReceiver {
    /// Connects to the other end.
    ///
    /// # Errors
    /// When it does not answer in time, or refuses.
    pub fn connect(settings: &TcpReceiverSettings, pool: Pool) -> Result<TcpReceiver, TransportError> {
        let (address, wait) = (settings.address, settings.connect_wait);
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                TransportError::ConnectTimeout { address, wait }
            }
            _ => TransportError::Connect { address, cause },
        };
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
        socket.set_tcp_keepalive(&keepalive()).map_err(failed)?;
        // Before connecting, because the handshake fixes the window scale.
        let kernel_buffer =
            ReceiveBuffer::ask(socket.as_fd(), settings.receive_buffer_bytes).map_err(failed)?;
        socket.connect_timeout(&address.into(), wait).map_err(failed)?;
        TcpReceiver::with(socket.into(), kernel_buffer, pool)
            .map_err(|cause| TransportError::Connect { address, cause })
    }

    /// A receiver over a connection that a board opened to us. `receive_buffer_bytes` as in the settings.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn over(
        stream: TcpStream,
        receive_buffer_bytes: usize,
        pool: Pool,
    ) -> Result<TcpReceiver, TransportError> {
        let failed = |cause| TransportError::System { place: "tcp://".to_owned(), call: "accept", cause };
        socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive()).map_err(failed)?;
        let kernel_buffer = ReceiveBuffer::ask(stream.as_fd(), receive_buffer_bytes).map_err(failed)?;
        TcpReceiver::with(stream, kernel_buffer, pool).map_err(failed)
    }

    fn with(stream: TcpStream, kernel_buffer: ReceiveBuffer, pool: Pool) -> io::Result<TcpReceiver> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let address = stream.peer_addr()?;
        let smallest_tail = (pool.block_size() / 8).max(1);
        let buffer = StreamBuffer::new(pool, smallest_tail);
        Ok(TcpReceiver {
            stream,
            address,
            buffer,
            kernel_buffer,
            counters: Counters::default(),
            ended: false,
            resets: 0,
        })
    }

    /// Fills an empty batch with the bytes that have arrived, waiting at most `wait`; the caller sets the batch's mark. While
    /// the pool is full, the receiver does not read, which stops the sender. A call costs one `recv` if bytes are there, or if
    /// `wait` is 0.
    ///
    /// # Errors
    /// When the socket can no longer be used, such as when its keepalive finds no other end; the calls after it see the end. An end of
    /// the stream, clean or not, is [`Received::End`].
    pub fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, TransportError> {
        if self.ended {
            return Ok(Received::End);
        }
        if !self.find_room(wait) {
            return Ok(Received::Full);
        }
        let Room::Tail(tail) = self.buffer.room() else { return Ok(Received::Full) };
        let mut result = self.stream.read(tail);
        if let Err(cause) = &result
            && system::is_nothing(cause)
            && !wait.is_zero()
        {
            match system::wait_readable(self.stream.as_fd(), wait) {
                Ok(true) => result = self.stream.read(tail),
                Ok(false) => return Ok(Received::Idle),
                Err(cause) => return Err(self.ended_by("ppoll", cause)),
            }
        }
        match result {
            Ok(0) => {
                self.ended = true;
                Ok(Received::End)
            }
            Ok(length) => {
                self.buffer.publish(length, frames);
                for (unit, count) in [(Unit::Datagrams, 1), (Unit::Bytes, length as u64)] {
                    self.counters.input(unit, count);
                    self.counters.output(unit, count);
                }
                Ok(Received::Data)
            }
            Err(cause) if system::is_nothing(&cause) => Ok(Received::Idle),
            Err(cause)
                if matches!(cause.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) =>
            {
                self.resets += 1;
                self.ended = true;
                Ok(Received::End)
            }
            Err(cause) => Err(self.ended_by("recv", cause)),
        }
    }

    /// Waits at most `wait` for a block to write to; `false` when none came free.
    fn find_room(&mut self, wait: Duration) -> bool {
        let mut deadline = None;
        loop {
            match self.buffer.room() {
                Room::Tail(_) => return true,
                // The framing waits for a unit longer than a block, which never fits. Dropping the carried bytes lets the framing
                // synchronise again.
                Room::UnitTooLarge => self.drop_carried(),
                Room::NoBlock if *deadline.get_or_insert_with(|| Instant::now() + wait) <= Instant::now() => {
                    return false;
                }
                Room::NoBlock => std::thread::sleep(Duration::from_micros(50).min(wait)),
            }
        }
    }

    fn drop_carried(&mut self) {
        // The bytes were counted as passed on when they arrived, so the framing counts their loss: it sees that the next
        // slice does not begin with the bytes that it asked to carry.
        self.buffer.carry(0);
    }

    /// Takes back the last `bytes` of the batch just received; the next batch begins with them.
    pub fn carry(&mut self, bytes: usize) {
        self.buffer.carry(bytes);
    }

    /// Appends the carried bytes to `frames` once more.
    pub fn give_carried(&mut self, frames: &mut Frames) {
        self.buffer.give_carried(frames);
    }

    /// Sets the length of units (0: several lengths), so that a call ends with a whole unit where possible.
    pub fn expect_units(&mut self, bytes: usize) {
        self.buffer.expect_units(bytes);
    }

    /// Prefetches the memory that the next [`TcpReceiver::receive`] needs into the cache.
    pub fn prefetch(&self) {
        prefetch(&self.buffer);
        prefetch(&self.ended);
        prefetch(&self.stream);
    }

    /// Bytes in and out; a call that received bytes counts as one datagram.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes that wait in the socket.
    pub fn waiting_bytes(&self) -> u64 {
        system::readable_bytes(self.stream.as_fd())
    }

    /// Discards the bytes that wait in the socket, and counts them as [`LossReason::Abandoned`]; for a run that gives up.
    ///
    /// # Errors
    /// When the socket can no longer be used.
    pub fn abandon(&mut self) -> Result<(), TransportError> {
        const CHUNK_BYTES: usize = 64 << 10;
        let (mut waiting, mut chunk) = (self.waiting_bytes(), vec![0; CHUNK_BYTES]);
        while waiting > 0 {
            match self.stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => {
                    waiting = waiting.saturating_sub(length as u64);
                    for (unit, count) in [(Unit::Datagrams, 1), (Unit::Bytes, length as u64)] {
                        self.counters.input(unit, count);
                        self.counters.lost(LossReason::Abandoned, unit, count);
                    }
                }
                Err(cause) if system::is_nothing(&cause) => break,
                Err(cause) => return Err(self.failed("recv", cause)),
            }
        }
        Ok(())
    }

    /// Names and values of the counters that are not in the ledger.
    pub fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        vec![("receive_moved_bytes", self.buffer.moved_bytes()), ("connection_resets", self.resets)]
    }

    /// One line about the connection and the receive buffer.
    pub fn description(&self) -> String {
        format!("tcp://{}: {}", self.address, self.kernel_buffer)
    }

    fn ended_by(&mut self, call: &'static str, cause: io::Error) -> TransportError {
        self.ended = true;
        self.failed(call, cause)
    }

    fn failed(&self, call: &'static str, cause: io::Error) -> TransportError {
        TransportError::System { place: format!("tcp://{}", self.address), call, cause }
    }
}

impl AsFd for TcpReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Sends a stream.
#[derive(Debug)]
pub struct TcpSender {
    stream: TcpStream,
    /// Bytes that the kernel has taken since the sender was made.
    sent_bytes: u64,
}

impl TcpSender {
    /// A sender over an accepted or opened connection.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn over(stream: TcpStream) -> io::Result<TcpSender> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(TcpSender { stream, sent_bytes: 0 })
    }

    /// Writes all `chunks` in order; asks `go_on` every 10 ms while the other end takes nothing. Returns whether it sent
    /// everything.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self, chunks: &[&[u8]], mut go_on: impl FnMut() -> bool) -> io::Result<bool> {
        let mut slices: Vec<IoSlice<'_>> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.stream.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.sent_bytes += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(cause) if system::is_nothing(&cause) => {
                    let ready = system::wait_writable(self.stream.as_fd(), Duration::from_millis(10))?;
                    if !ready && !go_on() {
                        return Ok(false);
                    }
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(true)
    }

    /// Bytes that the kernel has taken since the sender was made.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// The connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn a_receiver_whose_socket_fails_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let pool = Pool::new(1, 4096).expect("small");
        let mut receiver = TcpReceiver::over(stream, 0, pool).expect("a connection");
        // No stream arrives at a socket that listens.
        receiver.stream = OwnedFd::from(listener).into();
        let mut receive = || receiver.receive(&mut Frames::default(), Duration::ZERO);
        receive().expect_err("not connected");
        assert_eq!(receive().expect("it has ended"), Received::End);
    }

    #[test]
    fn a_loopback_connection_is_not_paced() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        SockRef::from(&stream).set_tcp_congestion(b"reno").expect("every kernel has it");
        send_by_window_on_loopback(&stream);
        let name = SockRef::from(&stream).tcp_congestion().expect("Linux");
        let name = name.split(|byte| *byte == 0).next().expect("a name");
        // What every program may choose; one with CAP_NET_ADMIN may choose more.
        let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
        let has_cubic = allowed.expect("Linux").split_whitespace().any(|each| each == "cubic");
        assert!(name == b"cubic" || !has_cubic && name == b"reno", "{name:?}");
    }
}
