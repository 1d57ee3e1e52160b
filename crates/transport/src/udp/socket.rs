//! Receives a UDP source with receive calls (`recvmsg`, `recvmmsg`) directly into blocks of the pool.
//!
//! ```text
//!  block:  |datagram|datagram|datagram|…  message  …|      tail ≥ 64 KiB      |     coalesced
//!  block:  |slot: datagram  |slot: datagram |slot:   |slot    |  tail           |     slots
//! ```
//! Every call publishes what it received at once, and the next call writes behind it. The bytes of a datagram that is not
//! accepted (too long, unexpected sender) are overwritten by the next one where possible; in slots they leave a gap.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use thalweg_data::batch::Frames;
use thalweg_data::{BlockWriter, Counters, LossReason, Pool, Received, Unit};

use super::MESSAGE_ROOM_BYTES;
use super::choice::{Choice, ReadMode};
use super::datagram_counters::{DatagramCounters, SpillSpace, Spilled, Verdict, datagram_count};
use super::intake::{hold, send_empty};
use super::settings::{Backend, FullPolicy, UdpReceiverSettings};
use super::slot_size::SlotSize;
use crate::system::{self, ReceiveTable};
use crate::{HostCounters, ReceiveBuffer, TransportError};

/// A batch is passed on when it has this many bytes: few enough to stay in the second-level cache until it is decoded.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// A message counts as at least so many bytes of a batch, so that empty ones, or those that are not passed on, fill it, too.
pub(crate) const LEAST_BYTES: usize = 64;
/// Messages per `recvmmsg`.
const SLOTS: usize = 64;
/// The most `recvmmsg` calls with which one `receive` drops datagrams.
const DROP_CALLS: usize = 16;

/// Receives datagrams of one socket into blocks of the pool.
pub(super) struct SocketReceiver {
    socket: UdpSocket,
    settings: UdpReceiverSettings,
    place: String,
    pool: Pool,
    writer: Option<BlockWriter>,
    slot_size: SlotSize,
    /// The block that coalesced datagrams are copied to that neither fit their slot nor the rest of the block.
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
        let mode = if coalescing { ReadMode::Coalesced } else { ReadMode::Slots };
        let fixed = settings.backend != Backend::Auto || !coalescing;
        let spill_each = if coalescing { MESSAGE_ROOM_BYTES } else { settings.slot_bytes() };
        Ok(SocketReceiver {
            socket,
            place,
            pool,
            writer: None,
            slot_size: SlotSize::new(settings.slot_bytes()),
            spill_writer: None,
            table: ReceiveTable::new(SLOTS, spill_each, !settings.from.is_anyone()),
            coalescing,
            choice: Choice::new(mode, fixed),
            counts: DatagramCounters::default(),
            buffer,
            host_before: HostCounters::now(),
            settings,
        })
    }

    /// The local address, which senders send to.
    ///
    /// # Errors
    /// When the system cannot report it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Fills an empty batch with the datagrams that have arrived, waiting at most `wait`; the caller sets the batch's mark.
    ///
    /// # Errors
    /// When the socket can no longer be used.
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

    /// Sends an empty datagram to the connected other end; some boards stream to the address that it comes from.
    ///
    /// # Errors
    /// When the socket can no longer be used.
    pub fn send_empty(&mut self) -> Result<(), TransportError> {
        send_empty(&self.socket, &mut self.counts, &self.place)
    }

    /// Datagrams and bytes in, out, lost.
    pub fn counters(&self) -> &Counters {
        &self.counts.counters
    }

    /// Datagrams (or coalesced messages) that the kernel dropped at this socket, as reported with later datagrams.
    pub fn socket_drops(&self) -> u64 {
        self.counts.socket_drops
    }

    /// Bytes that were copied in user space.
    pub fn moved_bytes(&self) -> u64 {
        self.counts.moved_bytes
    }

    /// The receive buffer asked for and granted.
    pub fn receive_buffer(&self) -> ReceiveBuffer {
        self.buffer
    }

    /// Datagrams per message, as last measured, and how often the read mode has changed.
    pub fn coalescing(&self) -> (f64, u64) {
        (self.choice.datagrams_per_message(), self.choice.switches())
    }

    /// Whether messages are now read one by one (coalesced) rather than in slots.
    pub fn reads_coalesced(&self) -> bool {
        self.choice.mode() == ReadMode::Coalesced
    }

    /// Bytes of the receive buffer that are in use: at least the bytes that wait there.
    pub fn waiting_bytes(&self) -> u64 {
        const RECEIVE_MEMORY: usize = 0;
        self.memory_words()[RECEIVE_MEMORY]
    }

    fn memory_words(&self) -> [u64; 9] {
        let words = system::option_words::<9>(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO);
        words.unwrap_or_default().map(u64::from)
    }

    /// The kernel's counters that show where datagrams were lost: those of this socket, then those of the host since the
    /// receiver was opened.
    pub fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        // SO_RXQ_OVFL reports drops only with a later datagram; SO_MEMINFO also has those at the end.
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

    /// One line about the receive calls and the receive buffer.
    pub fn description(&self) -> String {
        let calls = match (self.settings.backend, self.coalescing) {
            (Backend::Slots, _) => "recvmmsg",
            (Backend::Coalesced, true) => "UDP_GRO, recvmsg",
            (Backend::Auto, true) => "UDP_GRO with recvmsg or recvmmsg, as measured",
            _ => "recvmmsg (this kernel has no UDP_GRO)",
        };
        format!(
            "{}: {calls}, datagrams of up to {} bytes, {}",
            self.place, self.settings.datagram_bytes, self.buffer
        )
    }

    /// Receives without waiting; `false` when nothing was there.
    fn receive_now(&mut self, frames: &mut Frames) -> Result<bool, TransportError> {
        match self.choice.mode() {
            ReadMode::Coalesced => self.receive_coalesced(frames),
            ReadMode::Slots => self.receive_slots(frames),
        }
    }

    /// Takes a block if the current one has no space for the largest message, or for some slots; `false` if none is free.
    fn has_room(&mut self) -> bool {
        let (least, better) = match self.choice.mode() {
            ReadMode::Coalesced => (MESSAGE_ROOM_BYTES, MESSAGE_ROOM_BYTES),
            ReadMode::Slots => {
                let each = self.slot_size.bytes_with_space();
                let per_block = (self.pool.block_size() / each).min(SLOTS);
                // A call that receives a few datagrams costs nearly as much as one that receives all.
                (self.slot_size.most_bytes(), each * (per_block / 4).max(1))
            }
        };
        let remaining = self.writer.as_ref().map_or(0, BlockWriter::remaining);
        if remaining >= better {
            return true;
        }
        // The rest of the old block is given up only if there is a new block, or if it is too small for a message.
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
        while bytes < BATCH_BYTES && self.choice.mode() == ReadMode::Coalesced && self.has_room() {
            let Some(writer) = &mut self.writer else { break };
            let with_sender = !self.settings.from.is_anyone();
            match system::receive_message(self.socket.as_fd(), writer.tail(), with_sender) {
                Ok(mut message) => {
                    any = true;
                    bytes += message.length.max(LEAST_BYTES);
                    self.choice.note(datagram_count(&message));
                    if let Verdict::Take = self.counts.judge(&mut message, &self.settings) {
                        let whole = writer.publish(message.length);
                        self.counts.split(whole, &message, self.settings.datagram_bytes, frames);
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
        let Some(writer) = &mut self.writer else { return Ok(false) };
        let (count, slot) = self.slot_size.slots(writer.remaining());
        let received = match self.table.receive(self.socket.as_fd(), writer.tail(), slot, count.min(SLOTS)) {
            Ok(received) => received,
            Err(cause) => {
                self.pass_over(cause)?;
                return Ok(false);
            }
        };
        let slots = writer.publish(received * slot);
        frames.leases.add(writer.lease());
        for index in 0..received {
            let mut message = self.table.message(index);
            self.choice.note(datagram_count(&message));
            if let Verdict::Lost = self.counts.judge(&mut message, &self.settings) {
                continue;
            }
            self.slot_size.note(message.length);
            let whole = slots.part(index * slot, message.length.min(slot)).expect("every slot was published");
            if message.length <= slot {
                self.counts.split(whole, &message, self.settings.datagram_bytes, frames);
            } else {
                let spilled = Spilled { whole, rest: &self.table.spilled(index)[..message.length - slot] };
                let space = SpillSpace { block: writer, pool: &self.pool, beyond: &mut self.spill_writer };
                self.counts.split_spilled(&message, spilled, space, self.settings.datagram_bytes, frames);
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

    /// Discards the datagrams of one receive call, and counts them as lost; `false` when nothing waits.
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

    /// Discards the datagrams that wait now, and counts them as abandoned.
    pub fn abandon(&mut self) -> Result<(), TransportError> {
        let lost = |counts: &DatagramCounters| counts.counters.total_lost(LossReason::Abandoned, Unit::Bytes);
        // Only as many bytes as wait now, so that the loop ends even if the sender goes on.
        let (waiting, before) = (self.waiting_bytes(), lost(&self.counts));
        while lost(&self.counts) - before < waiting && self.discard(LossReason::Abandoned)? {}
        Ok(())
    }

    /// Distinguishes a call that found nothing, or reported a refused send, from one that failed.
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

/// A receive error after which the receiver goes on.
enum Passed {
    /// Nothing was there.
    Nothing,
    /// The other end's host refused an earlier send; reported once per send.
    Refused,
}
