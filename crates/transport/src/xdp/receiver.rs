//! The receiving end of a UDP source on AF_XDP.
//!
//! ```text
//!  Queues ─► parse ─► ours? whole? checksum? ─► copied into the pool's block ─► split ─► Frames
//!  socket ─► datagrams that the program left to the kernel ─────────────────────┘
//! ```

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use thalweg_data::batch::Frames;
use thalweg_data::{Counters, LossReason, Pool, Received};

use super::queues::{ETHERNET_BYTES, Frame, Queues};
use crate::ring::judge;
use crate::system::packet_ring::{Checksum, Packet};
use crate::system::{self, epoll};
use crate::udp::datagram_counters::{DatagramCounters, Verdict, datagram_count};
use crate::udp::intake::{Intake, hold, open_port, send_empty};
use crate::udp::socket::{BATCH_BYTES, LEAST_BYTES};
use crate::udp::{FullPolicy, MESSAGE_ROOM_BYTES, UdpReceiverSettings};
use crate::{HostCounters, ReceiveBuffer, TransportError};

/// The most datagrams that one batch takes from the socket.
const SOCKET_DATAGRAMS: usize = 64;
/// The most frames that one `receive` drops.
const DROP_FRAMES: usize = 1024;
/// The receive buffer of the socket, which gets the datagrams that the program leaves to the kernel.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Receives datagrams from an interface's queues, and from the socket that holds their port.
pub(crate) struct XdpReceiver {
    queues: Queues,
    /// An epoll set of queues and socket, to wait for both.
    ready: OwnedFd,
    socket: UdpSocket,
    local: SocketAddr,
    settings: UdpReceiverSettings,
    place: String,
    intake: Intake,
    /// Memory for a frame of several chunks that is discarded.
    spare: Box<[u8]>,
    counts: DatagramCounters,
    /// Datagrams to another address or port, or from another sender than the connected one.
    passed_over: u64,
    /// Datagrams received from the socket.
    by_socket: u64,
    host_before: HostCounters,
}

impl XdpReceiver {
    /// Opens the socket that holds the port, then the queues and the program.
    pub(crate) fn open(mut settings: UdpReceiverSettings, pool: Pool) -> Result<XdpReceiver, TransportError> {
        let (socket, local) = open_port(&mut settings, |socket| {
            ReceiveBuffer::ask(socket.as_fd(), SOCKET_BUFFER_BYTES)?;
            system::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
        })?;
        let place = format!("udp://{local}");
        let queues = Queues::open(&settings, local, &socket)?;
        let ready = epoll::create().and_then(|ready| {
            queues.descriptors().chain([socket.as_fd()]).try_for_each(|each| epoll::add(&ready, each, 0))?;
            Ok(ready)
        });
        let ready =
            ready.map_err(|cause| TransportError::System { place: place.clone(), call: "epoll", cause })?;
        Ok(XdpReceiver {
            queues,
            ready,
            socket,
            local,
            settings,
            place,
            intake: Intake::new(pool),
            spare: vec![0; MESSAGE_ROOM_BYTES].into(),
            counts: DatagramCounters::default(),
            passed_over: 0,
            by_socket: 0,
            host_before: HostCounters::now(),
        })
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    pub(crate) fn receive(
        &mut self,
        frames: &mut Frames,
        wait: Duration,
    ) -> Result<Received, TransportError> {
        if !self.intake.has_room() {
            return self.receive_without_block(wait);
        }
        if !self.receive_now(frames)? && !wait.is_zero() && self.wait(wait)? {
            self.receive_now(frames)?;
        }
        Ok(if frames.slices.is_empty() { Received::Idle } else { Received::Data })
    }

    /// Copies the bytes behind the Ethernet, IPv4 and UDP headers of the next frame; if it has several chunks, with the IPv4 and
    /// UDP headers.
    #[cfg(feature = "bench")]
    pub(crate) fn copy_next(&mut self, memory: &mut [u8]) -> Option<usize> {
        let payload = match self.queues.next(memory)? {
            Frame::Whole(frame) => frame.get(ETHERNET_BYTES + 28..).unwrap_or_default(),
            Frame::Gathered(length) | Frame::Lost(length) => return Some(length),
        };
        memory.get_mut(..payload.len())?.copy_from_slice(payload);
        Some(payload.len())
    }

    pub(crate) fn send_empty(&mut self) -> Result<(), TransportError> {
        send_empty(&self.socket, &mut self.counts, &self.place)
    }

    pub(crate) fn sending_socket(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counts.counters
    }

    /// Bytes in chunks that have not been read yet, and of the socket's receive buffer that are in use.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.queues.waiting_bytes() + self.socket_memory(0)
    }

    /// Frames dropped because a queue had no free chunk or its ring was full, and datagrams dropped at the port's socket.
    pub(crate) fn socket_drops(&self) -> u64 {
        let counted = self.queues.statistics();
        counted.dropped + counted.ring_full + self.port_drops()
    }

    pub(crate) fn moved_bytes(&self) -> u64 {
        self.counts.moved_bytes
    }

    pub(crate) fn receive_buffer(&self) -> ReceiveBuffer {
        let bytes = self.queues.memory_bytes();
        ReceiveBuffer { asked_bytes: bytes, granted_bytes: bytes, forced: false }
    }

    pub(crate) fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        let counted = self.queues.statistics();
        let mut drop_counters = vec![
            ("xdp_drops", counted.dropped + counted.ring_full),
            ("xdp_ring_full", counted.ring_full),
            ("xdp_fill_ring_empty", counted.fill_empty),
            ("xdp_invalid_descriptors", counted.invalid),
            ("xdp_passed_over", self.passed_over),
            ("xdp_by_socket", self.by_socket),
            ("socket_drops", self.port_drops()),
            ("socket_refused", self.counts.refused),
            ("receive_moved_bytes", self.counts.moved_bytes),
        ];
        drop_counters.extend(HostCounters::now().since(&self.host_before));
        drop_counters
    }

    pub(crate) fn description(&self) -> String {
        let (queues, longest) = (self.queues.description(), self.settings.datagram_bytes);
        format!("{}: {queues}, datagrams of up to {longest} bytes", self.place)
    }

    /// Drops of the port's socket: the larger of the count reported with a datagram and the count read now.
    fn port_drops(&self) -> u64 {
        const DROPS: usize = 8;
        self.counts.socket_drops.max(self.socket_memory(DROPS))
    }

    fn socket_memory(&self, index: usize) -> u64 {
        let words = system::option_words::<9>(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO);
        words.map_or(0, |words| u64::from(words[index]))
    }

    fn failed(&self, call: &'static str, cause: io::Error) -> TransportError {
        TransportError::System { place: self.place.clone(), call, cause }
    }

    fn wait(&self, wait: Duration) -> Result<bool, TransportError> {
        system::wait_readable(self.ready.as_fd(), wait).map_err(|cause| self.failed("ppoll", cause))
    }

    /// Takes what has arrived, up to a batch; `false` when nothing was there.
    fn receive_now(&mut self, frames: &mut Frames) -> Result<bool, TransportError> {
        let queued = self.receive_queued(frames);
        Ok(self.receive_from_socket(frames)? || queued)
    }

    fn receive_queued(&mut self, frames: &mut Frames) -> bool {
        let (mut any, mut bytes) = (false, 0);
        self.queues.next_queue();
        while bytes < BATCH_BYTES && self.intake.has_room() {
            let Some(writer) = self.intake.writer() else { break };
            let Some(frame) = self.queues.next(writer.tail()) else { break };
            any = true;
            bytes += LEAST_BYTES;
            let mut judge =
                |packet| judge(&mut self.counts, &mut self.passed_over, &self.settings, self.local, &packet);
            let (whole, message) = match frame {
                Frame::Whole(frame) => {
                    let Some((datagram, message)) = judge(packet(frame)) else { continue };
                    writer.tail()[..message.length].copy_from_slice(datagram.payload);
                    (writer.publish(message.length), message)
                }
                Frame::Gathered(length) => {
                    let ip = &writer.tail()[..length];
                    let Some((datagram, message)) = judge(ip_packet(ip)) else { continue };
                    let start = datagram.payload.as_ptr().addr() - ip.as_ptr().addr();
                    let payload = writer.publish(length).part(start, message.length);
                    (payload.expect("the payload lies in its packet"), message)
                }
                Frame::Lost(length) => {
                    lose_frame(&mut self.counts, length);
                    continue;
                }
            };
            bytes += message.length.saturating_sub(LEAST_BYTES);
            self.counts.moved_bytes += message.length as u64;
            self.counts.split(whole, &message, self.settings.datagram_bytes, frames);
            frames.leases.add(writer.lease());
            writer.align(64);
        }
        any
    }

    /// Takes the datagrams that the program has left to the kernel; `false` when none was there.
    fn receive_from_socket(&mut self, frames: &mut Frames) -> Result<bool, TransportError> {
        let mut any = false;
        for _ in 0..SOCKET_DATAGRAMS {
            if !self.intake.has_room() {
                break;
            }
            let Some(writer) = self.intake.writer() else { break };
            match system::receive_message(self.socket.as_fd(), writer.tail(), !self.settings.from.is_anyone())
            {
                Ok(mut message) => {
                    any = true;
                    self.by_socket += 1;
                    if let Verdict::Take = self.counts.judge(&mut message, &self.settings) {
                        let whole = writer.publish(message.length);
                        self.counts.split(whole, &message, self.settings.datagram_bytes, frames);
                        frames.leases.add(writer.lease());
                        writer.align(64);
                    }
                }
                Err(cause) => match self.pass_over(cause)? {
                    true => {}
                    false => break,
                },
            }
        }
        Ok(any)
    }

    /// Distinguishes a failed call from one that found nothing (`false`) or that reported a refused send (`true`).
    fn pass_over(&mut self, cause: io::Error) -> Result<bool, TransportError> {
        match cause.kind() {
            io::ErrorKind::ConnectionRefused => {
                self.counts.refused += 1;
                Ok(true)
            }
            _ if system::is_nothing(&cause) => Ok(false),
            _ => Err(self.failed("recvmsg", cause)),
        }
    }

    fn receive_without_block(&mut self, wait: Duration) -> Result<Received, TransportError> {
        match self.settings.policy {
            FullPolicy::Hold => hold(wait, || self.intake.has_room()),
            FullPolicy::Drop => {
                self.wait(wait)?;
                for _ in 0..DROP_FRAMES {
                    if self.discard(LossReason::NoBlock)?.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(Received::Full)
    }

    /// Discards the next datagram, and counts it as lost; returns its length in bytes, or `None` when nothing waits.
    fn discard(&mut self, reason: LossReason) -> Result<Option<usize>, TransportError> {
        let Some(frame) = self.queues.next(&mut self.spare) else { return self.discard_from_socket(reason) };
        let packet = match frame {
            Frame::Whole(frame) => packet(frame),
            Frame::Gathered(length) => ip_packet(&self.spare[..length]),
            Frame::Lost(length) => {
                lose_frame(&mut self.counts, length);
                return Ok(Some(length));
            }
        };
        let judged = judge(&mut self.counts, &mut self.passed_over, &self.settings, self.local, &packet);
        if let Some((_, message)) = judged {
            self.counts.lose(reason, datagram_count(&message), message.length);
        }
        Ok(Some(packet.bytes.len()))
    }

    fn discard_from_socket(&mut self, reason: LossReason) -> Result<Option<usize>, TransportError> {
        match system::receive_message(self.socket.as_fd(), &mut self.spare, !self.settings.from.is_anyone()) {
            Ok(mut message) => {
                self.by_socket += 1;
                if let Verdict::Take = self.counts.judge(&mut message, &self.settings) {
                    self.counts.lose(reason, datagram_count(&message), message.length);
                }
                Ok(Some(message.length))
            }
            Err(cause) => Ok(self.pass_over(cause)?.then_some(0)),
        }
    }

    /// Discards what waits now, and counts it as abandoned.
    pub(crate) fn abandon(&mut self) -> Result<(), TransportError> {
        // Only as many bytes as wait now, so that the loop ends even if the sender goes on.
        let mut left = self.waiting_bytes();
        while left > 0
            && let Some(bytes) = self.discard(LossReason::Abandoned)?
        {
            left = left.saturating_sub(bytes.max(1) as u64);
        }
        Ok(())
    }
}

/// The IP packet of an Ethernet frame.
fn packet(frame: &[u8]) -> Packet<'_> {
    ip_packet(frame.get(ETHERNET_BYTES..).unwrap_or_default())
}

fn ip_packet(bytes: &[u8]) -> Packet<'_> {
    Packet { bytes, checksum: Checksum::ToComputeOrUnfinished, segment_bytes: None }
}

/// Counts a frame whose chunks could not be joined.
fn lose_frame(counts: &mut DatagramCounters, bytes: usize) {
    counts.lose_arrived(LossReason::CaptureTruncated, bytes);
}

impl AsFd for XdpReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
