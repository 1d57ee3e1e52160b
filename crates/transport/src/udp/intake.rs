//! Shared by the receivers that copy datagrams out of the kernel's memory (ring, AF_XDP): the port, and the block that is written.
//!
//! ```text
//!  open_port ─► socket that holds the port        hold ─► waits for a block
//!  Intake: pool ─► block with space for the largest message ─► writer
//! ```

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use thalweg_data::{BlockWriter, Pool};

use super::settings::{ExpectedSenders, SenderAddress, UdpReceiverSettings};
use super::{MESSAGE_ROOM_BYTES, datagram_counters::DatagramCounters};
use crate::TransportError;
use crate::system;

/// How long a receiver without a block sleeps before it asks the pool again.
const HOLD_STEP: Duration = Duration::from_micros(50);

/// The block that the next message is written to.
pub(crate) struct Intake {
    pool: Pool,
    writer: Option<BlockWriter>,
}

impl Intake {
    pub(crate) fn new(pool: Pool) -> Intake {
        Intake { pool, writer: None }
    }

    /// Takes a block from the pool if the current one has no space for the largest message; `false` if none is free.
    pub(crate) fn has_room(&mut self) -> bool {
        let has = |writer: &Option<BlockWriter>| {
            writer.as_ref().is_some_and(|writer| writer.remaining() >= MESSAGE_ROOM_BYTES)
        };
        if !has(&self.writer) {
            self.writer = self.pool.take().or(self.writer.take());
        }
        if !has(&self.writer) {
            self.writer = None;
            self.writer = self.pool.take();
        }
        has(&self.writer)
    }

    /// The current block; it has space for the largest message if [`has_room`](Intake::has_room) has returned true.
    pub(crate) fn writer(&mut self) -> Option<&mut BlockWriter> {
        self.writer.as_mut()
    }
}

/// Waits at most `wait` until `has_room` returns true.
pub(crate) fn hold(wait: Duration, mut has_room: impl FnMut() -> bool) {
    let deadline = Instant::now() + wait;
    while !has_room() && Instant::now() < deadline {
        std::thread::sleep(HOLD_STEP.min(wait));
    }
}

/// Sends an empty datagram, so that the other end knows where to send to. A refusal (ICMP "port unreachable") is counted.
pub(crate) fn send_empty(
    socket: &UdpSocket,
    counts: &mut DatagramCounters,
    place: &str,
) -> Result<(), TransportError> {
    match socket.send(&[]) {
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => counts.refused += 1,
        Err(cause) if !system::is_nothing(&cause) => {
            return Err(TransportError::System { place: place.to_owned(), call: "send", cause });
        }
        _ => {}
    }
    Ok(())
}

/// Opens the socket that holds the port, so that the kernel does not answer "port unreachable"; `prepare` configures it before
/// it is bound. If it is connected, `settings` accept only the other end's datagrams afterwards, as the kernel would.
pub(crate) fn open_port(
    settings: &mut UdpReceiverSettings,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> Result<(UdpSocket, SocketAddr), TransportError> {
    let address = settings.bind;
    let bind_error = |cause| TransportError::Bind { address, cause };
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP));
    let socket = socket.map_err(bind_error)?;
    prepare(&socket).map_err(bind_error)?;
    socket.bind(&address.into()).map_err(bind_error)?;
    if let Some(address) = settings.connect {
        socket.connect(&address.into()).map_err(|cause| TransportError::Connect { address, cause })?;
        if settings.from.is_anyone() {
            settings.from =
                ExpectedSenders::of([SenderAddress { address: address.ip(), port: Some(address.port()) }]);
        }
    }
    socket.set_nonblocking(true).map_err(bind_error)?;
    let socket: UdpSocket = socket.into();
    let local = socket.local_addr().map_err(bind_error)?;
    Ok((socket, local))
}
