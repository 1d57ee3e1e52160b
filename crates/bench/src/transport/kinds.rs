//! Every kind of receiving datagrams, one by one or in messages, compared in one run.
//!
//! ```text
//!  gro │ recvmmsg │ ring │ xdp:  ours │ bare loop of the same kind        io_uring:  bare loop alone
//!      each drains what was sent before ─► bytes per second of the reading thread's processor, and by how much of the ring's
//! ```
//! The bare loops of ring and queues read the same ring as ours, in turn: they copy each payload into the same two blocks, and look at
//! nothing. What the kernel does before a datagram lies in a ring is the sender's time, as it is with a socket's queue.

use std::time::Duration;

use serde_json::{Value, json};
use thalweg_data::measure::{median, range};

use super::udp::{Pair, bare_socket, failed};
use super::uring::Uring;
use thalweg_transport::thread_cpu_time;
use thalweg_transport::{Backend, TransportError, UdpSender};

/// The rates of one kind, turn by turn, bytes per second.
struct Kind {
    name: &'static str,
    baseline: &'static str,
    measured: MeasuredKind,
    ours: Vec<f64>,
    bare: Vec<f64>,
}

enum MeasuredKind {
    Pair(Box<Pair>),
    Uring(Box<UringTurns>),
    /// Not measured, for this reason.
    Skipped(String),
}

/// Measures all kinds that are allowed here, `repeats` times in turn.
pub(super) fn kinds(datagram_bytes: usize, repeats: usize) -> Result<Vec<Value>, TransportError> {
    let mut kinds = Vec::new();
    for (name, backend, baseline) in [
        ("gro", Backend::Coalesced, "a bare recvmsg loop with UDP_GRO"),
        ("recvmmsg", Backend::Slots, "a bare recvmmsg loop"),
        ("ring", Backend::Ring, "a bare loop over the same TPACKET_V3 ring that copies payloads"),
        ("xdp", Backend::Xdp, "a bare loop over the same AF_XDP ring that copies payloads"),
    ] {
        let measured = match Pair::open(datagram_bytes, backend) {
            Err(refused @ (TransportError::Privilege { .. } | TransportError::InterfaceTaken { .. })) => {
                MeasuredKind::Skipped(refused.to_string())
            }
            pair => MeasuredKind::Pair(Box::new(pair?)),
        };
        kinds.push(Kind { name, baseline, measured, ours: Vec::new(), bare: Vec::new() });
    }
    let (name, baseline) = ("io_uring", "a bare multishot receive: there is no such backend");
    let measured = UringTurns::open(datagram_bytes).map_or_else(
        |why| MeasuredKind::Skipped(why.to_string()),
        |turns| MeasuredKind::Uring(Box::new(turns)),
    );
    kinds.push(Kind { name, baseline, measured, ours: Vec::new(), bare: Vec::new() });
    for turn in 0..=repeats.max(1) {
        // The first turn warms up.
        kinds.iter_mut().for_each(|kind| kind.turn(turn > 0));
    }
    for kind in &kinds {
        kind.check_drops()?;
    }
    let ring = kinds.iter().find(|kind| kind.name == "ring").map(|ring| ring.ours.clone());
    let mut rows: Vec<Value> = Vec::new();
    for kind in &mut kinds {
        rows.push(kind.row(ring.as_deref().unwrap_or_default(), datagram_bytes));
    }
    Ok(rows)
}

impl Kind {
    fn turn(&mut self, counts: bool) {
        let rates = match &mut self.measured {
            MeasuredKind::Skipped(_) => return,
            MeasuredKind::Pair(pair) => {
                let (bare, ours) = (pair.bare_turn(), pair.subject_turn());
                let rate = |time: Duration| pair.amount as f64 / time.as_secs_f64();
                (Some(rate(ours)), rate(bare))
            }
            MeasuredKind::Uring(turns) => (None, turns.turn()),
        };
        if counts {
            self.ours.extend(rates.0);
            self.bare.push(rates.1);
        }
    }

    fn check_drops(&self) -> Result<(), TransportError> {
        let drops = match &self.measured {
            MeasuredKind::Skipped(_) => 0,
            MeasuredKind::Pair(pair) => pair.drops,
            MeasuredKind::Uring(turns) => turns.missing,
        };
        super::udp::no_drops(self.name, drops)
    }

    /// Medians; ratios are medians of the turns' own. What is slower than the ring says so.
    fn row(&mut self, ring: &[f64], datagram_bytes: usize) -> Value {
        if let MeasuredKind::Skipped(why) = &self.measured {
            return json!({ "what": self.name, "skipped": why });
        }
        let of = |above: &[f64], below: &[f64]| {
            let mut ratios: Vec<f64> = above.iter().zip(below).map(|(above, below)| above / below).collect();
            (!ratios.is_empty()).then(|| (median(&mut ratios), range(&ratios)))
        };
        let is_ours = !self.ours.is_empty();
        let shown = if is_ours { &self.ours } else { &self.bare };
        let to_ring = if self.name == "ring" { None } else { of(shown, ring) };
        let ratio = of(&self.ours, &self.bare);
        let remark = match to_ring {
            Some((ratio, _)) if ratio < 1.0 => format!("slower than the ring: {ratio:.2} of it"),
            Some((ratio, _)) => format!("{ratio:.2} of the ring"),
            None => String::new(),
        };
        let value = median(&mut shown.clone());
        json!({
            "what": self.name,
            "is_ours": is_ours,
            "value": value,
            "unit": "B/s",
            "datagrams_per_s": value / datagram_bytes as f64,
            "ratio": ratio.map(|(ratio, _)| ratio),
            "ratio_range": ratio.map(|(_, range)| range),
            "baseline": self.baseline,
            "baseline_value": median(&mut self.bare.clone()),
            "ratio_to_ring": to_ring.map(|(ratio, _)| ratio),
            "remark": remark,
        })
    }
}

/// The baseline without a receiver of ours to compare.
struct UringTurns {
    uring: Uring,
    sender: UdpSender,
    datagram: Vec<u8>,
    amount: usize,
    filling: usize,
    missing: u64,
}

impl UringTurns {
    fn open(datagram_bytes: usize) -> Result<UringTurns, TransportError> {
        let (socket, granted) =
            bare_socket(Backend::Slots).map_err(failed("opening the baseline's socket"))?;
        let to = socket.local_addr().map_err(failed("getsockname"))?;
        let sender = UdpSender::open(super::udp::LOOPBACK, to)?.without_segmentation();
        let uring =
            Uring::open(socket, datagram_bytes.next_multiple_of(64)).map_err(failed("io_uring_setup"))?;
        let (amount, filling) = super::udp::amounts(granted.granted_bytes, datagram_bytes);
        let datagram = (0..datagram_bytes).map(|byte| byte as u8).collect();
        Ok(UringTurns { uring, sender, datagram, amount, filling, missing: 0 })
    }

    /// Bytes per second of processor time.
    fn turn(&mut self) -> f64 {
        let mut spent = Duration::ZERO;
        for _ in 0..self.amount / self.filling {
            Pair::fill(&mut self.sender, &self.datagram, self.filling);
            let (start, mut bytes, mut idle) = (thread_cpu_time(), 0, 0);
            // A request that has ended is made again with the next call.
            while bytes < self.filling && idle < 3 {
                let received = self.uring.receive().unwrap_or(0);
                bytes += received;
                idle = if received == 0 { idle + 1 } else { 0 };
            }
            spent += thread_cpu_time() - start;
            self.missing += (self.filling.saturating_sub(bytes) / self.datagram.len()) as u64;
        }
        self.amount as f64 / spent.as_secs_f64()
    }
}
