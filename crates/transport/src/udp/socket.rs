//! The receiving end of a UDP source by receive calls: socket, pool, the block in use, and the count of everything.
//!
//! ```text
//!  block:  |datagram|datagram|datagram|…  message  …|      tail ≥ 64 KiB      |     coalesced
//!  block:  |slot: datagram  |slot: datagram |slot:   |slot    |  tail           |     slots
//! ```
//! Every call publishes what it received at once, and the next call writes behind it. A datagram that is not taken (too
//! long, of an unexpected sender) leaves its room to the next one where it can, and a gap where it cannot.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use thalweg_data::batch::Frames;
use thalweg_data::{BlockWriter, Counters, LossReason, Pool, Received, Unit};

use super::MESSAGE_ROOM_BYTES;
use super::choice::{Choice, Way};
use super::datagram_counters::{DatagramCounters, Spilled, Verdict, datagram_count};
use super::intake::{hold, send_empty};
use super::settings::{Backend, FullPolicy, UdpReceiverSettings};
use crate::system::{self, ReceiveTable};
use crate::{HostCounters, ReceiveBuffer, TransportError};

/// A batch is given on when it holds this much: small enough to be in the second-level cache when it is decoded.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// Messages per `recvmmsg`.
const SLOTS: usize = 64;
/// Most `recvmmsg` calls that one batch drops by.
const DROP_CALLS: usize = 16;

/// Receives datagrams into blocks on loan.
pub(super) struct SocketReceiver {
    socket: UdpSocket,
    settings: UdpReceiverSettings,
    place: String,
    pool: Pool,
    writer: Option<BlockWriter>,
    /// Where datagrams go that reached into the next slot.
    spill_writer: Option<BlockWriter>,
    table: ReceiveTable,
    coalescing: bool,
    choice: Choice,
    counts: DatagramCounters,
    buffer: ReceiveBuffer,
    host_before: HostCounters,
}

impl SocketReceiver {
    /// Opens the socket; datagrams are received into blocks of `pool`.
    ///
    /// # Errors
    /// When the address cannot be bound, or the settings do not fit the pool.
    pub fn open(settings: UdpReceiverSettings, pool: Pool) -> Result<SocketReceiver, TransportError> {
        settings.check(pool.block_size())?;
        let bind_error = |cause| TransportError::Bind { address: settings.bind, cause };
        let socket = Socket::new(Domain::for_address(settings.bind), Type::DGRAM, Some(Protocol::UDP))
            .map_err(bind_error)?;
        let place = format!("udp://{}", settings.bind);
        let failed = |call| {
            let place = place.clone();
            move |cause| TransportError::System { place, call, cause }
        };
        // Before binding, so that nothing is lost between the two.
        let buffer = ReceiveBuffer::ask(socket.as_fd(), settings.receive_buffer_bytes)
            .map_err(failed("setsockopt(SO_RCVBUF)"))?;
        system::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
            .map_err(failed("setsockopt(SO_RXQ_OVFL)"))?;
        let coalescing = settings.backend != Backend::Slots
            && system::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        socket.bind(&settings.bind.into()).map_err(bind_error)?;
        if let Some(address) = settings.connect {
            socket.connect(&address.into()).map_err(|cause| TransportError::Connect { address, cause })?;
        }
        socket.set_nonblocking(true).map_err(failed("fcntl(O_NONBLOCK)"))?;
        let socket: UdpSocket = socket.into();
        let place = socket.local_addr().map(|address| format!("udp://{address}")).unwrap_or(place);
        let way = if coalescing { Way::Coalesced } else { Way::Slots };
        let fixed = settings.backend != Backend::Auto || !coalescing;
        let spill_each = if coalescing { MESSAGE_ROOM_BYTES } else { 0 };
        Ok(SocketReceiver {
            socket,
            place,
            pool,
            writer: None,
            spill_writer: None,
            table: ReceiveTable::new(SLOTS, spill_each, !settings.from.is_anyone()),
            coalescing,
            choice: Choice::new(way, fixed),
            counts: DatagramCounters::default(),
            buffer,
            host_before: HostCounters::now(),
            settings,
        })
    }

    /// The address that datagrams are to be sent to.
    ///
    /// # Errors
    /// When the socket does not say.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Fills an empty batch with what is there, waiting at most `wait`. The mark is left to the caller.
    ///
    /// # Errors
    /// When the socket is of no further use.
    pub fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, TransportError> {
        if !self.has_room() {
            return self.receive_without_block(wait);
        }
        if !self.receive_now(frames)? && !wait.is_zero() {
            let ready = system::wait_readable(self.socket.as_fd(), wait)
                .map_err(|cause| self.failed("ppoll", cause))?;
            if ready {
                self.receive_now(frames)?;
            }
        }
        Ok(if frames.slices.is_empty() { Received::Idle } else { Received::Data })
    }

    /// Sends an empty datagram to the connected other end: how some boards learn whom to stream to.
    ///
    /// # Errors
    /// When the socket is of no further use.
    pub fn send_empty(&mut self) -> Result<(), TransportError> {
        send_empty(&self.socket, &mut self.counts, &self.place)
    }

    /// Datagrams and bytes in, out, lost.
    pub fn counters(&self) -> &Counters {
        &self.counts.counters
    }

    /// Datagrams (or coalesced messages) that the kernel dropped at this socket, as reported with the ones that came.
    pub fn socket_drops(&self) -> u64 {
        self.counts.socket_drops
    }

    /// Bytes that had to be copied in user space.
    pub fn moved_bytes(&self) -> u64 {
        self.counts.moved_bytes
    }

    /// The receive buffer asked for and granted.
    pub fn receive_buffer(&self) -> ReceiveBuffer {
        self.buffer
    }

    /// Datagrams per message, as last measured; and how often the way of reading was changed.
    pub fn coalescing(&self) -> (f64, u64) {
        (self.choice.datagrams_per_message(), self.choice.switches())
    }

    /// Whether messages are read one by one (coalesced) just now, rather than in slots.
    pub fn reads_coalesced(&self) -> bool {
        self.choice.way() == Way::Coalesced
    }

    /// Memory of the receive buffer that is taken: at least the bytes that wait there.
    pub fn waiting_bytes(&self) -> u64 {
        const RECEIVE_MEMORY: usize = 0;
        self.memory_words()[RECEIVE_MEMORY]
    }

    fn memory_words(&self) -> [u64; 9] {
        let words = system::option_words::<9>(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO);
        words.unwrap_or_default().map(u64::from)
    }

    /// Counters of the kernel that place losses: those of this socket, then those of the host since the start.
    pub fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        // The in-band count comes with a later datagram only; this one can be asked for at the end.
        const DROPS: usize = 8;
        let asked = self.memory_words()[DROPS];
        let mut drop_counters = vec![
            ("socket_drops", self.counts.socket_drops.max(asked)),
            ("socket_refused", self.counts.refused),
            ("receive_moved_bytes", self.counts.moved_bytes),
        ];
        drop_counters.extend(HostCounters::now().since(&self.host_before));
        drop_counters
    }

    /// One line on the way of reading and the receive buffer.
    pub fn description(&self) -> String {
        let way = match (self.settings.backend, self.coalescing) {
            (Backend::Slots, _) => "recvmmsg",
            (Backend::Coalesced, true) => "UDP_GRO, recvmsg",
            (Backend::Auto, true) => "UDP_GRO with recvmsg or recvmmsg, as measured",
            _ => "recvmmsg (this kernel has no UDP_GRO)",
        };
        format!(
            "{}: {way}, datagrams of up to {} bytes, {}",
            self.place, self.settings.datagram_bytes, self.buffer
        )
    }

    /// Receives what is there without waiting; `false` when nothing was.
    fn receive_now(&mut self, frames: &mut Frames) -> Result<bool, TransportError> {
        match self.choice.way() {
            Way::Coalesced => self.receive_coalesced(frames),
            Way::Slots => self.receive_slots(frames),
        }
    }

    /// Makes sure that there is a block with room for the largest message, or for a few slots.
    fn has_room(&mut self) -> bool {
        let (least, better) = match self.choice.way() {
            Way::Coalesced => (MESSAGE_ROOM_BYTES, MESSAGE_ROOM_BYTES),
            Way::Slots => {
                let slot = self.settings.slot_bytes();
                let per_block = (self.pool.block_size() / slot).min(SLOTS);
                // A call that can take only a few datagrams costs nearly as much as one that takes all.
                (slot, slot * (per_block / 4).max(1))
            }
        };
        let remaining = self.writer.as_ref().map_or(0, BlockWriter::remaining);
        if remaining >= better {
            return true;
        }
        // What is left of the old block is given up only when there is a new one, or when it is of no use.
        let mut next = self.pool.take();
        if next.is_none() && remaining < least {
            self.writer = None;
            next = self.pool.take();
        }
        match next {
            Some(_) => {
                self.writer = next;
                true
            }
            None => remaining >= least,
        }
    }

    fn receive_coalesced(&mut self, frames: &mut Frames) -> Result<bool, TransportError> {
        let (mut any, mut bytes) = (false, 0);
        while bytes < BATCH_BYTES && self.choice.way() == Way::Coalesced && self.has_room() {
            let Some(writer) = &mut self.writer else { break };
            let with_sender = !self.settings.from.is_anyone();
            match system::receive_message(self.socket.as_fd(), writer.tail(), with_sender) {
                Ok(mut message) => {
                    any = true;
                    bytes += message.length;
                    self.choice.note(datagram_count(&message));
                    if let Verdict::Take = self.counts.judge(&mut message, &self.settings) {
                        let whole = writer.publish(message.length);
                        self.counts.cut(whole, &message, self.settings.datagram_bytes, frames);
                        frames.leases.add(writer.lease());
                        writer.align(64);
                    }
                }
                Err(cause) => match self.pass_over(cause)? {
                    Passed::Nothing => break,
                    Passed::Refused => {}
                },
            }
        }
        Ok(any)
    }

    fn receive_slots(&mut self, frames: &mut Frames) -> Result<bool, TransportError> {
        let slot = self.settings.slot_bytes();
        let Some(writer) = &mut self.writer else { return Ok(false) };
        let count = (writer.remaining() / slot).min(SLOTS);
        let received = match self.table.receive(self.socket.as_fd(), writer.tail(), slot, count) {
            Ok(received) => received,
            Err(cause) => {
                self.pass_over(cause)?;
                return Ok(false);
            }
        };
        let start = writer.published();
        for index in 0..received {
            let mut message = self.table.message(index);
            self.choice.note(datagram_count(&message));
            if let Verdict::Lost = self.counts.judge(&mut message, &self.settings) {
                continue;
            }
            let gap = start + index * slot - writer.published();
            writer.publish(gap);
            let whole = writer.publish(message.length.min(slot));
            frames.leases.add(writer.lease());
            if message.length <= slot {
                self.counts.cut(whole, &message, self.settings.datagram_bytes, frames);
            } else {
                let spilled = Spilled { whole, rest: &self.table.spilled(index)[..message.length - slot] };
                let place = (&self.pool, &mut self.spill_writer);
                self.counts.cut_spilled(&message, spilled, place, self.settings.datagram_bytes, frames);
            }
        }
        writer.align(64);
        Ok(received > 0)
    }

    fn receive_without_block(&mut self, wait: Duration) -> Result<Received, TransportError> {
        match self.settings.policy {
            FullPolicy::Hold => hold(wait, || self.has_room()),
            FullPolicy::Drop => {
                let ready = system::wait_readable(self.socket.as_fd(), wait)
                    .map_err(|cause| self.failed("ppoll", cause))?;
                for _ in 0..if ready { DROP_CALLS } else { 0 } {
                    if !self.discard(LossReason::NoBlock)? {
                        break;
                    }
                }
            }
        }
        Ok(Received::Full)
    }

    /// Throws a call's worth of what waits away, and counts it as lost; `false` when nothing waits.
    fn discard(&mut self, reason: LossReason) -> Result<bool, TransportError> {
        match self.table.receive(self.socket.as_fd(), &mut [], 0, SLOTS) {
            Ok(received) => {
                for index in 0..received {
                    let mut message = self.table.message(index);
                    if let Verdict::Take = self.counts.judge(&mut message, &self.settings) {
                        self.counts.lose(reason, datagram_count(&message), message.length);
                    }
                }
                Ok(received > 0)
            }
            Err(cause) => Ok(matches!(self.pass_over(cause)?, Passed::Refused)),
        }
    }

    /// Throws away what waits now, and counts it as abandoned.
    pub fn abandon(&mut self) -> Result<(), TransportError> {
        let lost = |counts: &DatagramCounters| counts.counters.total_lost(LossReason::Abandoned, Unit::Bytes);
        // Whoever goes on sending is not listened to for ever.
        let (waiting, before) = (self.waiting_bytes(), lost(&self.counts));
        while lost(&self.counts) - before < waiting && self.discard(LossReason::Abandoned)? {}
        Ok(())
    }

    /// Tells a call that found nothing from one that failed.
    fn pass_over(&mut self, cause: io::Error) -> Result<Passed, TransportError> {
        match cause.kind() {
            io::ErrorKind::ConnectionRefused => {
                self.counts.refused += 1;
                Ok(Passed::Refused)
            }
            _ if system::is_nothing(&cause) => Ok(Passed::Nothing),
            _ => Err(self.failed("recvmsg", cause)),
        }
    }

    fn failed(&self, call: &'static str, cause: io::Error) -> TransportError {
        TransportError::System { place: self.place.clone(), call, cause }
    }
}

impl AsFd for SocketReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A receive error that ends nothing.
enum Passed {
    Nothing,
    /// An earlier send was refused by the other end's host; said once per send.
    Refused,
}
