//! `mtu`: what it costs that datagrams do not fit the packets of the network, between two network namespaces.
//!
//! ```text
//!  sender ─ datagrams of 1472, 8972, 65507 B ─► fragments of the MTU ═ veth ═► put together ─► receiver
//!    │                                                 └ 200 Mb/s, offered a tenth more: some are dropped
//!    └─ processor time of both ends, the kernel's work on packets among it
//! ```
//! Loss grows with the fragments of a datagram: it needs all of them. It is measured with drops of a full queue, as in a switch, which come in
//! rows; fragments that were dropped one by one would take more datagrams with them.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use thalweg_data::measure::{Clock, Measurement, median, range};
use thalweg_transport::thread_cpu_time;

use super::link::{FAR, LinkShape, between};
use super::record::processor_seconds;
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

const BENCH: &str = "mtu";
/// The usual MTU, and that of jumbo frames.
const MTUS: [u32; 2] = [1500, 9000];
/// Payload of a datagram that fits a packet of either, and the largest there is.
const DATAGRAM_BYTES: [usize; 3] = [1472, 8972, 65_507];
/// What all others are compared with: one packet of jumbo frames.
const BASELINE: (u32, usize) = (9000, 8972);
/// Bytes of a turn, which the socket of the receiver holds.
const TURN_BYTES: usize = 16 << 20;
const RECEIVE_BUFFER_BYTES: usize = 128 << 20;
/// More than the queue of the link holds: otherwise the sender waits for it, and nothing is dropped.
const SEND_BUFFER_BYTES: usize = 64 << 20;
const IP_HEADER_BYTES: usize = 20;
const UDP_HEADER_BYTES: usize = 8;
/// A link that a sender can overload, whatever its packets cost it, and the load that is offered, payload.
const SLOW_LINK_RATE: f64 = 2e8;
const OVERLOAD: f64 = 1.1;
/// A receiver that has waited this long has got everything.
const SILENCE: Duration = Duration::from_millis(300);
/// Bytes of an order; no datagram that is measured is as short.
const WORDS_BYTES: usize = 24;

fn failed(what: &str) -> impl Fn(std::io::Error) -> String {
    move |cause| format!("{what}: {cause}")
}

/// What a sender is asked for.
#[derive(Clone, Copy)]
struct Order {
    datagrams: u64,
    bytes: u64,
    /// Nanoseconds between two; 0 for none.
    gap_ns: u64,
}

impl Order {
    fn words(self) -> [u8; WORDS_BYTES] {
        let mut words = [0; WORDS_BYTES];
        let all = [self.datagrams, self.bytes, self.gap_ns];
        words.as_chunks_mut().0.iter_mut().zip(all).for_each(|(to, word)| *to = word.to_le_bytes());
        words
    }

    fn read(words: &[u8; WORDS_BYTES]) -> Order {
        let [datagrams, bytes, gap_ns] =
            std::array::from_fn(|index| u64::from_le_bytes(words.as_chunks().0[index]));
        Order { datagrams, bytes, gap_ns }
    }
}

/// What the queue of a link says of the packets that were to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queue {
    sent: u64,
    dropped: u64,
}

impl Queue {
    /// That of the link from where this thread is; `None` where it has none that counts.
    fn of_link() -> Option<Queue> {
        let output = Command::new("tc").args(["-s", "qdisc", "show", "dev", "link0"]).output().ok()?;
        Queue::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Out of ` Sent 1234 bytes 5 pkt (dropped 6, overlimits 7 requeues 0)`.
    fn parse(text: &str) -> Option<Queue> {
        let behind = |word: &str| text.split_once(word).map(|(_, rest)| rest.trim_start());
        let number = |text: &str| text.split(|each: char| !each.is_ascii_digit()).next()?.parse().ok();
        let sent = behind(" bytes ").and_then(number)?;
        Some(Queue { sent, dropped: behind("(dropped ").and_then(number)? })
    }

    fn lost_fraction(self) -> f64 {
        self.dropped as f64 / (self.sent + self.dropped).max(1) as f64
    }
}

/// The sending end, a thread that sends what is asked for. It ends when this is dropped.
struct Sender {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Where a sender is, and what its queue says behind each order.
type Place = (SocketAddr, mpsc::Receiver<Option<Queue>>);

impl Sender {
    fn start(address: Ipv4Addr) -> Result<(Sender, Place), String> {
        let socket = UdpSocket::bind((address, 0)).map_err(failed("the sender's socket"))?;
        setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER_BYTES)
            .map_err(|cause| format!("a send buffer of {SEND_BUFFER_BYTES} B: {cause}"))?;
        socket.set_read_timeout(Some(Duration::from_millis(50))).map_err(failed("a time-out"))?;
        let place = socket.local_addr().map_err(failed("the sender's address"))?;
        let (reports, queues) = mpsc::channel();
        let ends = Arc::<AtomicBool>::default();
        let until = ends.clone();
        let thread = std::thread::spawn(move || {
            let mut words = [0; WORDS_BYTES];
            while !until.load(Ordering::Acquire) {
                if let Ok((WORDS_BYTES, to)) = socket.recv_from(&mut words) {
                    send(&socket, to, Order::read(&words));
                    // Nobody listens once the measurement is over.
                    let _ = reports.send(Queue::of_link());
                }
            }
        });
        Ok((Sender { ends, thread: Some(thread) }, (place, queues)))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // What went wrong there is missing here.
            let _ = thread.join();
        }
    }
}

fn send(socket: &UdpSocket, to: SocketAddr, order: Order) {
    let datagram = vec![0x5A; order.bytes as usize];
    let start = Instant::now();
    for number in 0..order.datagrams {
        let due = start + Duration::from_nanos(number * order.gap_ns);
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        // A queue that is full drops it: that is counted where it should come.
        let _ = socket.send_to(&datagram, to);
    }
}

/// What came of an order.
struct Came {
    datagrams: u64,
    /// Processor time of both ends, and of the receiving thread, seconds.
    processor_s: f64,
    receiver_s: f64,
    queue: Option<Queue>,
}

/// The receiving end.
struct Receiver {
    socket: UdpSocket,
    buffer: Vec<u8>,
    queues: mpsc::Receiver<Option<Queue>>,
}

impl Receiver {
    fn open((sender, queues): Place) -> Result<Receiver, String> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed("the receiver's socket"))?;
        setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES)
            .map_err(|cause| format!("a receive buffer of {RECEIVE_BUFFER_BYTES} B: {cause}"))?;
        socket.connect(sender).map_err(failed("the way to the sender"))?;
        socket.set_read_timeout(Some(SILENCE)).map_err(failed("a time-out"))?;
        Ok(Receiver { socket, buffer: vec![0; 1 << 16], queues })
    }

    /// Asks for datagrams, and takes what comes.
    fn take(&mut self, order: Order) -> Result<Came, String> {
        let (processor_s, receiver) = (processor_seconds(), thread_cpu_time());
        self.socket.send(&order.words()).map_err(failed("an order"))?;
        let mut datagrams = 0;
        while datagrams < order.datagrams && self.socket.recv(&mut self.buffer).is_ok() {
            datagrams += 1;
        }
        let (processor_s, receiver) = (processor_seconds() - processor_s, thread_cpu_time() - receiver);
        let queue = self.queues.recv().map_err(|_| "the sender has ended".to_owned())?;
        Ok(Came { datagrams, processor_s, receiver_s: receiver.as_secs_f64(), queue })
    }
}

/// One size of datagrams over one MTU.
#[derive(Default)]
struct Point {
    mtu: u32,
    datagram_bytes: usize,
    bytes_per_s: Vec<f64>,
    receiver_ns_per_byte: Vec<f64>,
    /// Fractions of the datagrams, and of the packets, that an overloaded link lost.
    datagrams_lost: Vec<f64>,
    packets_lost: Vec<f64>,
}

impl Point {
    /// IPv4 packets of a datagram: all fragments but the last carry a multiple of 8 bytes.
    fn packets(&self) -> u64 {
        let (bytes, most) = (self.datagram_bytes + UDP_HEADER_BYTES, self.mtu as usize - IP_HEADER_BYTES);
        if bytes <= most { 1 } else { bytes.div_ceil(most / 8 * 8) as u64 }
    }

    /// Costs and losses of one repeat.
    fn measure(&mut self) -> Result<(), String> {
        let (bytes, mtu) = (self.datagram_bytes as u64, Some(self.mtu));
        let order = Order { datagrams: TURN_BYTES as u64 / bytes, bytes, gap_ns: 0 };
        let open = LinkShape { mtu, rate_bits_per_s: None };
        let came = between(open, || Sender::start(FAR), |place| Receiver::open(place)?.take(order))??;
        if came.datagrams < order.datagrams {
            return Err(format!("{} of {} datagrams came without a limit", came.datagrams, order.datagrams));
        }
        self.bytes_per_s.push((order.datagrams * bytes) as f64 / came.processor_s);
        self.receiver_ns_per_byte.push(1e9 * came.receiver_s / (order.datagrams * bytes) as f64);
        let gap_ns = (8e9 * self.datagram_bytes as f64 / (OVERLOAD * SLOW_LINK_RATE)) as u64;
        let order = Order { gap_ns, ..order };
        let shaped = LinkShape { mtu, rate_bits_per_s: Some(SLOW_LINK_RATE) };
        let came = between(shaped, || Sender::start(FAR), |place| Receiver::open(place)?.take(order))??;
        let queue = came.queue.ok_or("`tc -s qdisc` does not say what the link has dropped")?;
        self.datagrams_lost.push(1.0 - came.datagrams as f64 / order.datagrams as f64);
        self.packets_lost.push(queue.lost_fraction());
        Ok(())
    }

    fn figure(mut self, baseline: &[f64]) -> Measurement {
        let ratios: Vec<f64> =
            self.bytes_per_s.iter().zip(baseline).map(|(own, other)| own / other).collect();
        Measurement {
            bench: BENCH.to_owned(),
            unit: "B/s".to_owned(),
            baseline: "datagrams of 8972 B, each a packet of jumbo frames".to_owned(),
            baseline_value: median(&mut baseline.to_vec()),
            ratio_range: Some(range(&ratios)),
            ratio: median(&mut ratios.clone()),
            clock: Clock::Processor,
            cores: 2,
            repeats: ratios.len(),
            value: median(&mut self.bytes_per_s),
            ..Measurement::default()
        }
        .with("line", format!("MTU {}", self.mtu))
        .with("datagram_bytes", self.datagram_bytes)
        .with("packets_per_datagram", self.packets())
        .with("receiver_ns_per_byte", median(&mut self.receiver_ns_per_byte))
        .with("packets_lost_at_overload", median(&mut self.packets_lost))
        .with("datagrams_lost_at_overload", median(&mut self.datagrams_lost))
    }
}

/// Every size of datagrams over either MTU.
pub(super) fn mtu(conditions: &Conditions) -> Result<Measured, BenchError> {
    let fail = |message: String| BenchError::Room { bench: BENCH, message };
    let sizes =
        |mtu: u32| DATAGRAM_BYTES.map(|datagram_bytes| Point { mtu, datagram_bytes, ..Point::default() });
    let mut points: Vec<Point> = MTUS.into_iter().flat_map(sizes).collect();
    for _ in 0..conditions.repeats.max(1) {
        points.iter_mut().try_for_each(Point::measure).map_err(fail)?;
    }
    let is_baseline = |point: &&Point| (point.mtu, point.datagram_bytes) == BASELINE;
    let baseline = points.iter().find(is_baseline).map(|point| point.bytes_per_s.clone()).unwrap_or_default();
    let sweep = Sweep {
        bench: BENCH,
        title: "Datagrams of one and of many packets, both ends on this host".to_owned(),
        along: "datagram_bytes",
        x_title: "payload of a datagram, bytes",
        lines: Some("line"),
        points: points.into_iter().map(|point| point.figure(&baseline)).collect(),
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_a_link_is_read() {
        let text = "qdisc tbf 8001: root refcnt 2 rate 1Gbit burst 64Kb lat 1.5ms\n Sent 123456 bytes 789 pkt (dropped 21, overlimits 3 requeues 0)\n";
        assert_eq!(Queue::parse(text), Some(Queue { sent: 789, dropped: 21 }));
        assert_eq!(Queue::parse("qdisc noqueue 0: root refcnt 2"), None);
    }

    #[test]
    fn a_datagram_has_so_many_packets() {
        let packets = |mtu, datagram_bytes| Point { mtu, datagram_bytes, ..Point::default() }.packets();
        assert_eq!([packets(1500, 1472), packets(1500, 1473), packets(9000, 8972)], [1, 2, 1]);
        assert_eq!([packets(1500, 65_507), packets(9000, 65_507)], [45, 8]);
        let order = Order { datagrams: 3, bytes: 65_507, gap_ns: 9 };
        let read = Order::read(&order.words());
        assert_eq!((read.datagrams, read.bytes, read.gap_ns), (3, 65_507, 9));
    }
}
