//! The receiving end of a UDP source on a packet ring.
//!
//! ```text
//!  PacketRing ─► parse ─► ours? whole? checksum? ─► copied into the pool's block ─► split ─► Frames
//! ```

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use thalweg_data::batch::Frames;
use thalweg_data::{Counters, LossReason, Pool, Received};

use super::datagram::{Datagram, endpoints, parse};
use super::filter::{nothing, program};
use crate::control_message::Notes;
use crate::system::packet_ring::{Checksum, Packet, PacketRing, attach_filter};
use crate::system::{self, Message};
use crate::udp::datagram_counters::{DatagramCounters, Verdict, datagram_count};
use crate::udp::intake::{Intake, hold, open_port, send_empty};
use crate::udp::socket::{BATCH_BYTES, LEAST_BYTES};
use crate::udp::{FullPolicy, UdpReceiverSettings};
use crate::{HostCounters, ReceiveBuffer, TransportError};

/// Bytes per block of the ring; the kernel passes on a block when it is full, or after a millisecond.
const BLOCK_BYTES: usize = 256 << 10;
/// The fewest blocks, so that the kernel fills some while one is read.
const FEWEST_BLOCKS: usize = 8;
/// How long `abandon` waits for the block that the kernel fills: it passes on a partly full block after a millisecond, a busy
/// kernel later.
const LAST_BLOCK: Duration = Duration::from_millis(20);
/// The most packets that one `receive` drops.
const DROP_PACKETS: usize = 1024;

/// Receives datagrams through a packet ring.
pub(crate) struct RingReceiver {
    ring: PacketRing,
    ring_bytes: usize,
    /// Holds the port, so that the kernel does not answer "port unreachable"; its filter drops everything.
    socket: UdpSocket,
    local: SocketAddr,
    settings: UdpReceiverSettings,
    place: String,
    intake: Intake,
    counts: DatagramCounters,
    /// Packets to another address or port, or from another sender than the connected one.
    passed_over: u64,
    drops: Cell<u64>,
    freezes: Cell<u64>,
    host_before: HostCounters,
}

impl RingReceiver {
    /// Opens the ring, and the socket that holds its port.
    pub(crate) fn open(
        mut settings: UdpReceiverSettings,
        pool: Pool,
    ) -> Result<RingReceiver, TransportError> {
        // The ring gets the same datagrams. In a full buffer they would be errors of the host, and those of others would not be seen.
        let (socket, local) = open_port(&mut settings, |socket| attach_filter(socket.as_fd(), &nothing()))?;
        let place = format!("udp://{local}");
        let wanted =
            if settings.receive_buffer_bytes == 0 { 16 << 20 } else { settings.receive_buffer_bytes };
        let blocks = wanted.div_ceil(BLOCK_BYTES).clamp(FEWEST_BLOCKS, 4096);
        let protocol = if local.is_ipv6() { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
        let filter = program(local.is_ipv6(), local.port());
        let ring =
            PacketRing::open(protocol, &filter, blocks, BLOCK_BYTES).map_err(|cause| match cause.kind() {
                io::ErrorKind::PermissionDenied => {
                    TransportError::Privilege { place: place.clone(), backend: "ring", rights: "cap_net_raw" }
                }
                _ => TransportError::System { place: place.clone(), call: "a packet ring", cause },
            })?;
        Ok(RingReceiver {
            ring,
            ring_bytes: blocks * BLOCK_BYTES,
            socket,
            local,
            settings,
            place,
            intake: Intake::new(pool),
            counts: DatagramCounters::default(),
            passed_over: 0,
            drops: Cell::new(0),
            freezes: Cell::new(0),
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
        if !self.receive_now(frames) && !wait.is_zero() && self.wait(wait)? {
            self.receive_now(frames);
        }
        Ok(if frames.slices.is_empty() { Received::Idle } else { Received::Data })
    }

    /// Copies the bytes behind the IPv4 and UDP headers of the next packet.
    #[cfg(feature = "bench")]
    pub(crate) fn copy_next(&mut self, memory: &mut [u8]) -> Option<usize> {
        let payload = self.ring.next()?.bytes.get(28..).unwrap_or_default();
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

    /// Bytes in the ring's blocks that have not been read yet.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.ring.waiting_bytes()
    }

    /// Packets of this source that the kernel dropped because the ring was full.
    pub(crate) fn socket_drops(&self) -> u64 {
        let new = self.ring.statistics();
        self.drops.set(self.drops.get() + u64::from(new.drops));
        self.freezes.set(self.freezes.get() + u64::from(new.freezes));
        self.drops.get()
    }

    pub(crate) fn moved_bytes(&self) -> u64 {
        self.counts.moved_bytes
    }

    pub(crate) fn receive_buffer(&self) -> ReceiveBuffer {
        ReceiveBuffer { asked_bytes: self.ring_bytes, granted_bytes: self.ring_bytes, forced: false }
    }

    pub(crate) fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        let mut drop_counters = vec![
            ("ring_drops", self.socket_drops()),
            ("ring_freezes", self.freezes.get()),
            ("ring_passed_over", self.passed_over),
            ("socket_refused", self.counts.refused),
            ("receive_moved_bytes", self.counts.moved_bytes),
        ];
        drop_counters.extend(HostCounters::now().since(&self.host_before));
        drop_counters
    }

    pub(crate) fn description(&self) -> String {
        format!(
            "{}: packet ring (TPACKET_V3) of {}, datagrams of up to {} bytes",
            self.place,
            crate::receive_buffer::Size(self.ring_bytes),
            self.settings.datagram_bytes
        )
    }

    fn wait(&self, wait: Duration) -> Result<bool, TransportError> {
        system::wait_readable(self.ring.as_fd(), wait).map_err(|cause| TransportError::System {
            place: self.place.clone(),
            call: "ppoll",
            cause,
        })
    }

    /// Takes packets from the ring, up to a batch; `false` when the ring was empty.
    fn receive_now(&mut self, frames: &mut Frames) -> bool {
        let (mut any, mut bytes) = (false, 0);
        while bytes < BATCH_BYTES && self.intake.has_room() {
            let Some(writer) = self.intake.writer() else { break };
            let Some(packet) = self.ring.next() else { break };
            any = true;
            bytes += LEAST_BYTES;
            let taken = judge(&mut self.counts, &mut self.passed_over, &self.settings, self.local, &packet);
            let Some((datagram, message)) = taken else { continue };
            let length = datagram.payload.len();
            writer.tail()[..length].copy_from_slice(datagram.payload);
            let whole = writer.publish(length);
            bytes += length.saturating_sub(LEAST_BYTES);
            self.counts.moved_bytes += length as u64;
            self.counts.split(whole, &message, self.settings.datagram_bytes, frames);
            frames.leases.add(writer.lease());
            writer.align(64);
        }
        any
    }

    fn receive_without_block(&mut self, wait: Duration) -> Result<Received, TransportError> {
        match self.settings.policy {
            FullPolicy::Hold => hold(wait, || self.intake.has_room()),
            FullPolicy::Drop => {
                self.wait(wait)?;
                for _ in 0..DROP_PACKETS {
                    if self.discard(LossReason::NoBlock).is_none() {
                        break;
                    }
                }
            }
        }
        Ok(Received::Full)
    }

    /// Discards the next packet, and counts it as lost; returns its length in bytes, or `None` when the ring is empty.
    fn discard(&mut self, reason: LossReason) -> Option<usize> {
        let packet = self.ring.next()?;
        let taken = judge(&mut self.counts, &mut self.passed_over, &self.settings, self.local, &packet);
        if let Some((_, message)) = taken {
            self.counts.lose(reason, datagram_count(&message), message.length);
        }
        Some(packet.bytes.len())
    }

    /// Discards the packets that wait now, and counts them as abandoned.
    pub(crate) fn abandon(&mut self) -> Result<(), TransportError> {
        // The kernel passes on a partly full block only after a millisecond.
        self.wait(LAST_BLOCK)?;
        // At most one ring of bytes, so that the loop ends even if the sender goes on.
        let mut left = self.ring_bytes;
        while left > 0
            && let Some(bytes) = self.discard(LossReason::Abandoned)
        {
            left = left.saturating_sub(bytes.max(1));
        }
        Ok(())
    }
}

/// Checks and counts a packet; returns its datagram if it is accepted.
pub(crate) fn judge<'a>(
    counts: &mut DatagramCounters,
    passed_over: &mut u64,
    settings: &UdpReceiverSettings,
    local: SocketAddr,
    packet: &Packet<'a>,
) -> Option<(Datagram<'a>, Message)> {
    let is_ours = |sender: SocketAddr, destination: SocketAddr| {
        (local.ip().is_unspecified() || destination.ip() == local.ip())
            && destination.port() == local.port()
            && settings.connect.is_none_or(|other| other == sender)
    };
    let datagram = match parse(packet.bytes) {
        Ok(datagram) if is_ours(datagram.sender, datagram.destination) => datagram,
        Ok(_) => {
            *passed_over += 1;
            return None;
        }
        Err(reason) => {
            // What is wrong with a packet of others is no loss of this source.
            match endpoints(packet.bytes) {
                Some((sender, destination)) if !is_ours(sender, destination) => *passed_over += 1,
                Some((sender, _)) if settings.from.position(Some(sender)).is_none() => {
                    counts.lose_arrived(LossReason::UnexpectedSender, packet.bytes.len());
                }
                _ => counts.lose_arrived(reason, packet.bytes.len()),
            }
            return None;
        }
    };
    let is_settled = match packet.checksum {
        Checksum::Settled => true,
        Checksum::ToCompute => datagram.checksum_is_right(),
        Checksum::ToComputeOrUnfinished => datagram.checksum_is_unfinished() || datagram.checksum_is_right(),
    };
    if !is_settled {
        counts.lose_arrived(LossReason::BadHash, datagram.payload.len());
        return None;
    }
    let segment_bytes = packet.segment_bytes.filter(|segment| *segment < datagram.payload.len());
    let notes = Notes { segment_bytes, dropped: None };
    let (length, sender) = (datagram.payload.len(), Some(datagram.sender));
    let mut message = Message { length, notes, sender, sender_position: 0 };
    match counts.judge(&mut message, settings) {
        Verdict::Take => Some((datagram, message)),
        Verdict::Lost => None,
    }
}

impl AsFd for RingReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExpectedSenders, SenderAddress};
    use thalweg_data::Unit;

    /// The first fragment of a datagram from 10.0.0.1:1000.
    fn first_fragment(destination: [u8; 4], port: u16) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 33, 0, 0, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1];
        bytes.extend(destination);
        bytes.extend(1000u16.to_be_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 99, 0, 0, 1, 2, 3, 4, 5]);
        bytes
    }

    #[test]
    fn an_unreadable_packet_of_others_is_passed_over_and_not_lost() {
        let local: SocketAddr = "10.0.0.2:2000".parse().expect("an address");
        let with = |from: &str, connect: Option<&str>| UdpReceiverSettings {
            from: ExpectedSenders::of([SenderAddress {
                address: from.parse().expect("an address"),
                port: None,
            }]),
            connect: connect.map(|other| other.parse().expect("an address")),
            ..UdpReceiverSettings::new(local, 9000)
        };
        let anyone = UdpReceiverSettings::new(local, 9000);
        let (ours, lost) = ([10, 0, 0, 2], Some(LossReason::FragmentMissing));
        for (settings, destination, port, expected) in [
            (&anyone, ours, 2000, lost),
            (&anyone, [10, 0, 0, 3], 2000, None),
            (&anyone, ours, 2001, None),
            (&with("10.0.0.1", None), ours, 2000, lost),
            (&with("10.0.0.9", None), ours, 2000, Some(LossReason::UnexpectedSender)),
            (&with("10.0.0.1", Some("10.0.0.1:1000")), ours, 2000, lost),
            (&with("10.0.0.1", Some("10.0.0.1:1001")), ours, 2000, None),
        ] {
            let bytes = first_fragment(destination, port);
            let packet = Packet { bytes: &bytes, checksum: Checksum::Settled, segment_bytes: None };
            let (mut counts, mut passed_over) = (DatagramCounters::default(), 0);
            assert!(judge(&mut counts, &mut passed_over, settings, local, &packet).is_none());
            let case = format!("{settings:?} to {destination:?}:{port}");
            assert_eq!(passed_over, u64::from(expected.is_none()), "{case}");
            let lost = counts.counters.total_lost_any(Unit::Datagrams);
            assert_eq!(lost, u64::from(expected.is_some()), "{case}");
            assert_eq!(counts.counters.total_input(Unit::Datagrams), lost, "{case}");
            if let Some(reason) = expected {
                assert_eq!(counts.counters.total_lost(reason, Unit::Datagrams), 1, "{case}");
            }
        }
    }
}
