//! Receiving datagrams: coalesced, in slots, and while a sender saturates the loopback interface.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::SockRef;
use thalweg_data::measure::{Clock, Comparison, Measurement, compare, median};
use thalweg_data::{Frames, Pool};

use super::bare::Bare;
use super::{BLOCK_BYTES, FOOTPRINT_BLOCKS, Footprint, WAIT, wait_readable};
use thalweg_transport::thread_cpu_time;
use thalweg_transport::udp::MESSAGE_ROOM_BYTES;
use thalweg_transport::{
    Backend, ReceiveBuffer, TransportError, UdpReceiver, UdpReceiverSettings, UdpSender,
};

pub(super) const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const RECEIVE_BUFFER: usize = 64 << 20;
/// Bytes that one turn receives.
const TURN_BYTES: usize = 128 << 20;
/// Datagrams that one turn receives at most: short ones cost their sender the most.
const TURN_DATAGRAMS: usize = 1 << 18;
/// Datagrams of one filling at most. A packet ring passes on a block each millisecond, however little is in it: a sender that takes long
/// fills it with next to nothing.
const FILLING_DATAGRAMS: usize = 1 << 14;
/// The most that the kernel counts for a datagram in addition to its payload.
const AROUND_BYTES: usize = 1024;
/// The largest chunk of an interface's queues, and what it surely holds of a datagram.
const XDP_CHUNK_BYTES: usize = 4096;
const XDP_PAYLOAD_BYTES: usize = 3700;
const SLOTS: usize = 64;
/// The duration of a live turn.
const LIVE_TURN: Duration = Duration::from_millis(200);

/// Receives datagrams of `datagram_bytes` over loopback, `repeats` times: bytes per second of the receiving thread's
/// processor time, against a bare loop.
///
/// # Errors
/// When loopback sockets cannot be opened.
pub fn receive_udp(datagram_bytes: usize, repeats: usize) -> Result<Measurement, TransportError> {
    let mut coalesced = Pair::open(datagram_bytes, Backend::Coalesced)?;
    let mut slots = Pair::open(datagram_bytes, Backend::Slots)?;
    let compared = coalesced.compare(repeats, false);
    let hot = coalesced.compare(repeats, true);
    let in_slots = slots.compare(repeats, false);
    let live = coalesced.live(repeats);
    let ring = ring_row(datagram_bytes, repeats)?;
    // A turn counts as many bytes as were sent: of some that were dropped it would say too much.
    no_drops("a socket", coalesced.drops + slots.drops)?;
    no_drops("the packet ring", ring.as_ref().map_or(0, |ring| ring.drops))?;
    let amount = coalesced.amount as f64;
    let baseline = "a bare recvmsg loop: same socket options, same call, same two blocks in turn";
    let kinds = super::kinds::kinds(datagram_bytes, repeats)?;
    let measured = Measurement::of_rate("receive-udp", "B/s", amount, baseline, compared)
        .with("datagram_bytes", datagram_bytes)
        .with("datagrams_per_s", amount / datagram_bytes as f64 / compared.subject_s)
        .with("call", "recvmsg with UDP_GRO")
        .with("datagrams_per_message", coalesced.receiver.coalescing().0)
        .with("time", "processor time of the receiving thread, draining a filled socket")
        .with("footprint_bytes", FOOTPRINT_BLOCKS * BLOCK_BYTES)
        .with("ratio_to_hot_buffer", hot.speed_ratio)
        .with("recvmmsg_ratio", in_slots.speed_ratio)
        .with("recvmmsg_bytes_per_s", slots.amount as f64 / in_slots.subject_s)
        .with("live_ratio", live.ratio)
        .with("live_bytes_per_cpu_second", live.per_cpu_second)
        .with("live_bytes_per_second", live.per_second)
        .with("receive_buffer", coalesced.receiver.receive_buffer().to_string())
        .with("beside", kinds)
        .repeated(repeats);
    Ok(match ring {
        None => measured.with("ring", "not compared: it needs CAP_NET_RAW"),
        Some(ring) => measured
            .with("ring", "TPACKET_V3, datagrams one by one, against a bare recvmmsg loop; the kernel's copy into the ring is the sender's time")
            .with("ring_ratio", ring.drained.speed_ratio)
            .with("ring_bytes_per_s", ring.amount / ring.drained.subject_s)
            .with("ring_live_ratio", ring.live.ratio)
            .with("ring_live_bytes_per_second", ring.live.per_second),
    })
}

/// Refuses a figure of turns in which something was dropped.
pub(super) fn no_drops(place: &str, drops: u64) -> Result<(), TransportError> {
    match drops {
        0 => Ok(()),
        _ => Err(TransportError::System {
            place: "bench receive-udp".to_owned(),
            call: "draining a filled socket",
            cause: std::io::Error::other(format!(
                "{place} dropped {drops} datagrams, so there is no figure; raise net.core.rmem_max to {RECEIVE_BUFFER} and run it again"
            )),
        }),
    }
}

/// The results of the packet ring.
struct Ring {
    drained: Comparison,
    amount: f64,
    live: Live,
    drops: u64,
}

/// The packet ring, where it is allowed.
fn ring_row(datagram_bytes: usize, repeats: usize) -> Result<Option<Ring>, TransportError> {
    let mut pair = match Pair::open(datagram_bytes, Backend::Ring) {
        Err(TransportError::Privilege { .. }) => return Ok(None),
        pair => pair?,
    };
    let drained = pair.compare(repeats, false);
    let drops = pair.drops;
    Ok(Some(Ring { drained, amount: pair.amount as f64, live: pair.live(repeats), drops }))
}

/// Subject and baseline with a socket each, and a sender to either.
pub(super) struct Pair {
    datagram: Vec<u8>,
    backend: Backend,
    receiver: UdpReceiver,
    to_receiver: UdpSender,
    socket: UdpSocket,
    to_socket: UdpSender,
    bare: Bare,
    cold: Footprint,
    hot: Footprint,
    /// Bytes per turn, and per filling of the socket's buffer.
    pub(super) amount: usize,
    filling: usize,
    pub(super) drops: u64,
}

struct Live {
    ratio: f64,
    per_cpu_second: f64,
    per_second: f64,
}

impl Pair {
    pub(super) fn open(datagram_bytes: usize, backend: Backend) -> Result<Pair, TransportError> {
        let settings = UdpReceiverSettings {
            backend,
            receive_buffer_bytes: RECEIVE_BUFFER,
            ..UdpReceiverSettings::new(LOOPBACK, datagram_bytes)
        };
        let pool = Pool::new(8, BLOCK_BYTES).map_err(|error| TransportError::Settings(error.to_string()))?;
        let receiver = UdpReceiver::open(settings, pool)?;
        let (socket, granted) = bare_socket(backend).map_err(failed("opening the baseline's socket"))?;
        let address = |local: std::io::Result<SocketAddr>| local.map_err(failed("getsockname"));
        let (to_receiver, to_socket) = (address(receiver.local_address())?, address(socket.local_addr())?);
        let sender = |to| {
            let sender = UdpSender::open(LOOPBACK, to)?;
            Ok(if backend == Backend::Coalesced { sender } else { sender.without_segmentation() })
        };
        let room_bytes = match backend {
            // Whole chunks are taken, of which a long frame needs several.
            Backend::Xdp => {
                let chunks = receiver.receive_buffer().granted_bytes / XDP_CHUNK_BYTES;
                chunks / (datagram_bytes / XDP_PAYLOAD_BYTES + 1) * (datagram_bytes + AROUND_BYTES)
            }
            _ => granted.granted_bytes,
        };
        let (amount, filling) = amounts(room_bytes, datagram_bytes);
        Ok(Pair {
            datagram: (0..datagram_bytes).map(|byte| byte as u8).collect(),
            backend,
            receiver,
            to_receiver: sender(to_receiver)?,
            socket,
            to_socket: sender(to_socket)?,
            bare: Bare::new(SLOTS),
            cold: Footprint::new(FOOTPRINT_BLOCKS, BLOCK_BYTES),
            hot: Footprint::new(1, MESSAGE_ROOM_BYTES),
            amount,
            filling,
            drops: 0,
        })
    }

    fn compare(&mut self, repeats: usize, hot: bool) -> Comparison {
        let this = std::cell::RefCell::new(self);
        compare(
            Clock::Processor,
            repeats,
            || this.borrow_mut().subject_turn(),
            || this.borrow_mut().baseline_turn(hot),
        )
    }

    pub(super) fn fill(sender: &mut UdpSender, datagram: &[u8], bytes: usize) {
        // A few messages, each as full as can be.
        let batch = vec![datagram; (65_507 / datagram.len()).clamp(1, 64) * 4];
        let mut left = bytes / datagram.len();
        while left > 0 {
            // On loopback a datagram has arrived, or was dropped, when the call returns.
            left -= sender.send(&batch[..left.min(batch.len())], Duration::from_secs(1)).unwrap_or(left);
        }
    }

    pub(super) fn subject_turn(&mut self) -> Duration {
        let (mut spent, mut frames) = (Duration::ZERO, Frames::default());
        let before = self.receiver.socket_drops();
        for _ in 0..self.amount / self.filling {
            Pair::fill(&mut self.to_receiver, &self.datagram, self.filling);
            let (start, mut bytes, mut idle) = (thread_cpu_time(), 0, 0);
            while bytes < self.filling {
                frames.clear();
                let received = self.receiver.receive(&mut frames, WAIT);
                bytes += frames.byte_count() as usize;
                // What was dropped never comes; a ring's last block comes a few milliseconds later.
                idle += usize::from(!matches!(received, Ok(thalweg_data::Received::Data)));
                if idle > if self.is_tapped() { 20 } else { 0 } {
                    break;
                }
            }
            spent += thread_cpu_time() - start;
        }
        self.drops += self.receiver.socket_drops() - before;
        spent
    }

    fn is_tapped(&self) -> bool {
        matches!(self.backend, Backend::Ring | Backend::Xdp)
    }

    /// A turn of the bare loop of this kind: of a ring or of queues over the receiver's own, else over the socket beside it.
    pub(super) fn bare_turn(&mut self) -> Duration {
        if !self.is_tapped() {
            return self.baseline_turn(false);
        }
        let (mut spent, before) = (Duration::ZERO, self.receiver.socket_drops());
        for _ in 0..self.amount / self.filling {
            Pair::fill(&mut self.to_receiver, &self.datagram, self.filling);
            let (start, mut bytes, mut idle) = (thread_cpu_time(), 0, 0);
            while bytes < self.filling && idle <= 20 {
                match self.receiver.copy_next(self.cold.tail(MESSAGE_ROOM_BYTES)) {
                    Some(copied) => {
                        self.cold.advance(copied);
                        bytes += self.datagram.len();
                    }
                    None => {
                        idle += 1;
                        let _ready = wait_readable(self.receiver.as_fd(), WAIT);
                    }
                }
            }
            spent += thread_cpu_time() - start;
        }
        self.drops += self.receiver.socket_drops() - before;
        spent
    }

    fn baseline_turn(&mut self, hot: bool) -> Duration {
        let mut spent = Duration::ZERO;
        for _ in 0..self.amount / self.filling {
            Pair::fill(&mut self.to_socket, &self.datagram, self.filling);
            let (start, mut bytes) = (thread_cpu_time(), 0);
            while bytes < self.filling {
                match self.bare_receive(hot) {
                    0 => break,
                    received => bytes += received,
                }
            }
            spent += thread_cpu_time() - start;
            self.drops += (self.filling.saturating_sub(bytes) / self.datagram.len()) as u64;
        }
        spent
    }

    /// One call of the baseline; 0 when nothing was there.
    fn bare_receive(&mut self, hot: bool) -> usize {
        let memory = if hot { &mut self.hot } else { &mut self.cold };
        if self.backend == Backend::Coalesced {
            let received = self.bare.one(&self.socket, memory.tail(MESSAGE_ROOM_BYTES)).unwrap_or(0);
            if !hot {
                memory.advance(received);
            }
            return received;
        }
        let slot = self.datagram.len().next_multiple_of(64);
        let least = slot * (BLOCK_BYTES / slot).min(SLOTS).div_ceil(4);
        let tail = memory.tail(least.min(memory.block_bytes));
        let count = (tail.len() / slot).min(SLOTS);
        let (messages, bytes) = self.bare.many(&self.socket, tail, slot, count).unwrap_or((0, 0));
        memory.advance(messages * slot);
        bytes
    }

    /// Both sides while a sender on another core sends all the time.
    fn live(&mut self, repeats: usize) -> Live {
        let (mut ratios, mut per_cpu, mut per_wall) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..=repeats.max(1) {
            let baseline = self.live_turn(false);
            let subject = self.live_turn(true);
            if turn > 0 {
                ratios.push(subject.0 / baseline.0);
                per_cpu.push(subject.0);
                per_wall.push(subject.1);
            }
        }
        Live {
            ratio: median(&mut ratios),
            per_cpu_second: median(&mut per_cpu),
            per_second: median(&mut per_wall),
        }
    }

    /// Bytes per second of processor time, and per second.
    fn live_turn(&mut self, subject: bool) -> (f64, f64) {
        let stop = AtomicBool::new(false);
        let datagram = self.datagram.clone();
        // Queues do not say where a message of several datagrams is to be cut.
        let one_by_one = self.backend == Backend::Xdp;
        let to = if subject { self.to_receiver.peer() } else { self.to_socket.peer() };
        let rates = std::thread::scope(|scope| {
            scope.spawn(|| {
                let Ok(mut sender) = UdpSender::open(LOOPBACK, to) else { return };
                if one_by_one {
                    sender = sender.without_segmentation();
                }
                while !stop.load(Ordering::Relaxed) {
                    Pair::fill(&mut sender, &datagram, 1 << 20);
                }
            });
            let (wall, cpu, mut bytes) = (Instant::now(), thread_cpu_time(), 0);
            let mut frames = Frames::default();
            while wall.elapsed() < LIVE_TURN {
                if subject {
                    frames.clear();
                    let _ = self.receiver.receive(&mut frames, WAIT);
                    bytes += frames.byte_count() as usize;
                } else {
                    match self.bare_receive(false) {
                        0 => drop(wait_readable(self.socket.as_fd(), WAIT)),
                        received => bytes += received,
                    }
                }
            }
            let (cpu, wall) = (thread_cpu_time() - cpu, wall.elapsed());
            stop.store(true, Ordering::Relaxed);
            (bytes as f64 / cpu.as_secs_f64(), bytes as f64 / wall.as_secs_f64())
        });
        self.empty();
        rates
    }

    /// Takes out what a live turn has left in the sockets.
    fn empty(&mut self) {
        let mut frames = Frames::default();
        while matches!(self.receiver.receive(&mut frames, WAIT), Ok(thalweg_data::Received::Data)) {
            frames.clear();
        }
        while self.bare_receive(false) > 0 {}
    }
}

/// Bytes of a turn, and of each filling of a buffer that counts so many bytes.
pub(super) fn amounts(room_bytes: usize, datagram_bytes: usize) -> (usize, usize) {
    // The kernel counts about 2.3 times the payload of datagrams of 1 kB, and several times that of short ones; all must fit.
    let datagrams =
        (room_bytes / 4).min(16 << 20).min(room_bytes / (datagram_bytes + AROUND_BYTES) * datagram_bytes)
            / datagram_bytes;
    let filling = datagrams.clamp(1, FILLING_DATAGRAMS) * datagram_bytes;
    (TURN_BYTES.min(TURN_DATAGRAMS * datagram_bytes).div_ceil(filling) * filling, filling)
}

/// A socket with the options that the receiver sets.
pub(super) fn bare_socket(backend: Backend) -> std::io::Result<(UdpSocket, ReceiveBuffer)> {
    let socket = UdpSocket::bind(LOOPBACK)?;
    let granted = ReceiveBuffer::ask(socket.as_fd(), RECEIVE_BUFFER)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    if backend == Backend::Coalesced {
        setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
    }
    SockRef::from(&socket).set_nonblocking(true)?;
    Ok((socket, granted))
}

pub(super) fn failed(call: &'static str) -> impl Fn(std::io::Error) -> TransportError {
    move |cause| TransportError::System { place: "udp://127.0.0.1".to_owned(), call, cause }
}
