//! Sends events at their times: of every source a datagram, one behind the other, as fast as they go.
//!
//! ```text
//!  t₀ + time of the event ─► wait without sleeping ─► K × send ─► when it began, how late, how long it took
//! ```
//! A thread that sleeps wakes 50 µs late; so the last of each wait is spent looking at the clock.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
use serde::{Deserialize, Serialize};
use thalweg_data::measure;

use super::payload::{End, LEAST_BYTES, Label};
use super::schedule::{Pattern, Schedule};

/// Longer waits sleep until so long before their end.
const AWAKE: Duration = Duration::from_micros(500);
/// Between two looks at whether nothing more is to be sent.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// How often the end of a source is said, and how long it is waited between.
const ENDS: u32 = 5;
const BETWEEN_ENDS: Duration = Duration::from_millis(20);
/// Bytes of the shortest datagram.
pub const LEAST_PAYLOAD_BYTES: usize = LEAST_BYTES;
/// The payload of the longest UDP datagram over IPv4, bytes.
const MOST_PAYLOAD_BYTES: u32 = 65_507;

/// How a trial was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Emission {
    /// When each event began, s from when the first was due; of sources in turn, none.
    pub times_s: Vec<f64>,
    /// How much later than it should have, s; of sources in turn, none.
    pub lateness_s: Vec<f64>,
    /// From the first source's datagram of each event to the last one's, s.
    pub skew_s: Vec<f64>,
    /// From when the first datagram was due to when the last was sent, s.
    pub took_s: f64,
    /// From when the first datagram was due to when the last was, s.
    pub due_s: f64,
    /// How late the latest one was, s.
    pub latest_s: f64,
    /// Datagrams that the kernel has taken.
    pub sent: u64,
    /// Datagrams that it has not.
    pub failed: u64,
}

impl Emission {
    /// The median of how late events were, s; 0 without any.
    pub fn lateness_median_s(&self) -> f64 {
        quantile(&self.lateness_s, 0.5)
    }

    /// The median of how long events took, s; 0 without any.
    pub fn skew_median_s(&self) -> f64 {
        quantile(&self.skew_s, 0.5)
    }
}

/// The value below which this fraction of all lies (0.99: p99); 0 without any.
pub fn quantile(values: &[f64], fraction: f64) -> f64 {
    if values.is_empty() { 0.0 } else { measure::quantile(&mut values.to_vec(), fraction) }
}

/// How long payloads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadSizes {
    /// The shortest, bytes.
    pub least: u32,
    /// The longest, bytes; those between are equally frequent.
    pub most: u32,
    /// The same seed gives every datagram of a source and event the same length.
    pub seed: u64,
}

impl PayloadSizes {
    /// All of one length.
    pub fn constant(bytes: u32) -> PayloadSizes {
        PayloadSizes { least: bytes, most: bytes, seed: 0 }
    }

    fn of(self, event: u32, source: u16) -> usize {
        let span = u64::from(self.most.saturating_sub(self.least)) + 1;
        if span == 1 {
            return self.least as usize;
        }
        // The finaliser of SplitMix64 (Steele, Lea, Flood 2014): neighbours have nothing to do with each other.
        let mut mixed =
            self.seed ^ (u64::from(event) << 16 | u64::from(source)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.least as usize + ((mixed ^ (mixed >> 31)) % span) as usize
    }
}

/// Sources with a socket each.
#[derive(Debug)]
pub struct Emitter {
    run: u64,
    /// The number of the first source.
    first: u16,
    /// How many sources there are, those of others among them.
    all: u16,
    sockets: Vec<UdpSocket>,
    /// Every so many of them sends: 1 for all.
    stride: usize,
    payload: Vec<u8>,
    sizes: PayloadSizes,
    /// Set when the rest of a trial is not to be sent.
    stop: Arc<AtomicBool>,
}

impl Emitter {
    /// A socket for each address, to one receiver. To be called where they are to send from.
    ///
    /// # Errors
    /// When an address is not this host's, the receiver cannot be reached, or the payload has no space for a label or fits into no datagram.
    pub fn open(
        run: u64,
        addresses: &[SocketAddr],
        to: SocketAddr,
        sizes: PayloadSizes,
    ) -> io::Result<Emitter> {
        let ways: Vec<(SocketAddr, SocketAddr)> = addresses.iter().map(|from| (*from, to)).collect();
        Emitter::open_each(run, &ways, sizes)
    }

    /// As [`open`](Emitter::open), each source from an address and to a receiver of its own.
    ///
    /// # Errors
    /// As there.
    pub fn open_each(
        run: u64,
        ways: &[(SocketAddr, SocketAddr)],
        sizes: PayloadSizes,
    ) -> io::Result<Emitter> {
        if (sizes.least as usize) < LEAST_BYTES {
            let why = format!(
                "a datagram of a trial has {LEAST_BYTES} bytes at least, and {} are asked for",
                sizes.least
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if sizes.most > MOST_PAYLOAD_BYTES {
            let why = format!(
                "a UDP datagram has {MOST_PAYLOAD_BYTES} bytes at most, and {} are asked for",
                sizes.most
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let socket = |(from, to): &(SocketAddr, SocketAddr)| {
            let socket = UdpSocket::bind(from)?;
            socket.connect(to)?;
            socket.set_nonblocking(true)?;
            report_queue_drops(&socket, from)?;
            Ok(socket)
        };
        // The same bytes in every run, behind the label.
        let payload = (0..sizes.most).map(|byte| byte as u8).collect();
        let sockets = ways.iter().map(socket).collect::<io::Result<Vec<_>>>()?;
        let all = sockets.len() as u16;
        Ok(Emitter { run, first: 0, all, sockets, stride: 1, payload, sizes, stop: Arc::default() })
    }

    /// The same, with the number of its first source: others are elsewhere, `all` with these, or as many as are known here.
    pub fn numbered_from(self, first: u16, all: u16) -> Emitter {
        let all = all.max(first.saturating_add(self.sockets.len() as u16));
        Emitter { first, all, ..self }
    }

    /// The same, which sends nothing more of a trial once `stop` is set.
    pub fn until(self, stop: Arc<AtomicBool>) -> Emitter {
        Emitter { stop, ..self }
    }

    /// The address of this host from which the first source sends.
    ///
    /// # Errors
    /// When its socket does not know it.
    pub fn address(&self) -> io::Result<IpAddr> {
        let first = self.sockets.first().ok_or(io::ErrorKind::NotConnected)?;
        first.local_addr().map(|address| address.ip())
    }

    /// Lets every so many of the sources send, from the first on: with 2, those of the first of two receivers that they send to in turn.
    pub fn use_every(&mut self, stride: u16) {
        self.stride = usize::from(stride.max(1));
    }

    /// How many sources there are, whether they are let send or not.
    pub fn sources(&self) -> u32 {
        self.sockets.len() as u32
    }

    /// Sends a trial from the first `sources` of those that are let send, from `start` on.
    pub fn emit(&mut self, trial: u32, sources: u32, schedule: &Schedule, start: Instant) -> Emission {
        let sources = sources.min(self.sockets.len().div_ceil(self.stride) as u32);
        match schedule.pattern {
            Pattern::Together => {
                self.emit_at(trial, sources, schedule.times_s().map(Duration::from_secs_f64), start)
            }
            Pattern::InTurn => self.emit_in_turn(trial, sources, schedule, start),
        }
    }

    /// Sends events at these times from `start`, ascending. What is remembered of each takes 24 bytes.
    pub fn emit_at(
        &mut self,
        trial: u32,
        sources: u32,
        times: impl Iterator<Item = Duration>,
        start: Instant,
    ) -> Emission {
        let mut emission = Emission::default();
        for (event, time) in times.enumerate() {
            let due = start + time;
            let Some(began) = self.wait_until(due) else { break };
            emission.due_s = time.as_secs_f64();
            (0..sources as usize).for_each(|source| self.send(trial, event as u32, source, &mut emission));
            emission.times_s.push((began - start).as_secs_f64());
            emission.lateness_s.push((began - due).as_secs_f64());
            emission.skew_s.push(began.elapsed().as_secs_f64());
        }
        emission.took_s = start.elapsed().as_secs_f64();
        emission.latest_s = quantile(&emission.lateness_s, 1.0);
        emission
    }

    /// The same from all sources that `sources` counts, and the end of every source behind it: what was not sent is not claimed.
    pub fn emit_and_end(
        &mut self,
        trial: u32,
        sources: u32,
        times: impl Iterator<Item = Duration>,
        start: Instant,
    ) -> Emission {
        let emission = self.emit_at(trial, sources, times, start);
        self.end(trial, emission.times_s.len() as u64);
        emission
    }

    /// Each datagram has a time of its own, evenly within the separation of events.
    fn emit_in_turn(&mut self, trial: u32, sources: u32, schedule: &Schedule, start: Instant) -> Emission {
        let (mut emission, step_s) =
            (Emission::default(), schedule.separation_s() / f64::from(sources.max(1)));
        'trial: for (event, time_s) in schedule.times_s().enumerate() {
            for source in 0..sources {
                let due_s = time_s + f64::from(source) * step_s;
                let due = start + Duration::from_secs_f64(due_s);
                let Some(began) = self.wait_until(due) else { break 'trial };
                emission.due_s = due_s;
                self.send(trial, event as u32, source as usize, &mut emission);
                emission.latest_s = emission.latest_s.max((began - due).as_secs_f64());
            }
        }
        emission.took_s = start.elapsed().as_secs_f64();
        emission
    }

    /// Says the end of every source, several times, since each may be lost.
    pub fn end(&mut self, trial: u32, events: u64) {
        for _ in 0..ENDS {
            for (source, socket) in self.sockets.iter().enumerate() {
                let label = Label { run: self.run, trial, event: 0, source: self.first + source as u16 };
                label.write_end(End { sent: events, sources: self.all }, &mut self.payload);
                // One that is not taken is one that is lost.
                let _sent = socket.send(&self.payload);
            }
            std::thread::sleep(BETWEEN_ENDS);
        }
    }

    fn wait_until(&self, due: Instant) -> Option<Instant> {
        wait_until(due, &self.stop)
    }

    fn send(&mut self, trial: u32, event: u32, source: usize, emission: &mut Emission) {
        let source = source * self.stride;
        let number = self.first + source as u16;
        Label { run: self.run, trial, event, source: number }.write(&mut self.payload);
        let payload = &self.payload[..self.sizes.of(event, number).min(self.payload.len())];
        match self.sockets[source].send(payload) {
            Ok(bytes) if bytes == payload.len() => emission.sent += 1,
            _ => emission.failed += 1,
        }
    }
}

/// Lets a datagram that the queue of this host's card throws away fail its call; without, the kernel takes it and says nothing (ip(7)).
fn report_queue_drops(socket: &UdpSocket, address: &SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => setsockopt(socket, Ipv4RecvErr, &true)?,
        SocketAddr::V6(_) => setsockopt(socket, Ipv6RecvErr, &true)?,
    }
    Ok(())
}

/// When a trial may start at the earliest: its first event is waited for as all others are.
pub fn soon() -> Instant {
    Instant::now() + AWAKE
}

/// Waits, and says when it was over; `None` once `stop` is set.
pub fn wait_until(due: Instant, stop: &AtomicBool) -> Option<Instant> {
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let Some(left) = due.checked_duration_since(now).filter(|left| !left.is_zero()) else {
            return Some(now);
        };
        match left.checked_sub(AWAKE).filter(|rest| *rest > AWAKE) {
            Some(rest) => std::thread::sleep(rest.min(LONGEST_SLEEP)),
            None => std::hint::spin_loop(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_sends_one_datagram_of_each_event_and_what_was_not_sent_is_said() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = receiver.local_addr().expect("bound");
        let addresses: Vec<SocketAddr> =
            (1..=3).map(|last| SocketAddr::from(([127, 0, 0, last], 0))).collect();
        let mut emitter = Emitter::open(9, &addresses, to, PayloadSizes::constant(100)).expect("opened");
        let emission = emitter.emit(4, 3, &Schedule::burst(5, 1e-4), soon());
        assert_eq!((emission.sent, emission.failed, emission.times_s.len()), (15, 0, 5));
        assert!(emission.times_s.windows(2).all(|pair| pair[0] < pair[1]) && emission.times_s[0] >= 0.0);
        assert!(emission.lateness_s.iter().chain(&emission.skew_s).all(|late| *late >= 0.0));
        let mut seen = Vec::new();
        let mut payload = [0; 200];
        for _ in 0..15 {
            let (bytes, from) = receiver.recv_from(&mut payload).expect("it was sent");
            let label = Label::read(&payload[..bytes]).expect("a label");
            assert_eq!((label.run, label.trial, bytes), (9, 4, 100));
            assert_eq!(from.ip(), addresses[usize::from(label.source)].ip());
            seen.push((label.event, label.source));
        }
        seen.sort_unstable();
        assert_eq!(
            seen,
            (0..5).flat_map(|event| (0..3).map(move |source| (event, source))).collect::<Vec<_>>()
        );
        drop(receiver);
        let nobody = emitter.emit(5, 2, &Schedule::burst(4, 1e-4), soon());
        assert!(
            nobody.failed > 0 && nobody.failed + nobody.sent == 8,
            "nobody is there any more, and the kernel says so"
        );
        for bytes in [LEAST_BYTES as u32 - 1, MOST_PAYLOAD_BYTES + 1] {
            assert!(
                Emitter::open(9, &addresses, to, PayloadSizes::constant(bytes)).is_err(),
                "{bytes} bytes"
            );
        }
    }

    #[test]
    fn a_trial_that_is_stopped_does_not_wait_for_its_next_event() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = receiver.local_addr().expect("bound");
        let address = [SocketAddr::from(([127, 0, 0, 1], 0))];
        let stop = Arc::new(AtomicBool::new(false));
        let emitter = Emitter::open(9, &address, to, PayloadSizes::constant(100)).expect("opened");
        let mut emitter = emitter.until(stop.clone());
        let stopping = std::thread::spawn(move || {
            receiver.recv_from(&mut [0; 200]).expect("the first event");
            stop.store(true, Ordering::Relaxed);
        });
        let day = Duration::from_secs(86_400);
        let emission = emitter.emit_at(1, 1, [Duration::ZERO, day].into_iter(), soon());
        stopping.join().expect("it has received");
        assert_eq!((emission.sent, emission.times_s.len(), emission.due_s), (1, 1, 0.0));
    }

    #[test]
    fn lengths_of_payloads_are_spread_evenly_and_the_same_for_a_seed() {
        let sizes = PayloadSizes { least: 100, most: 1099, seed: 7 };
        let all: Vec<usize> = (0..2000).map(|event| sizes.of(event, 3)).collect();
        assert_eq!(all, (0..2000).map(|event| sizes.of(event, 3)).collect::<Vec<_>>());
        let below = all.iter().filter(|bytes| **bytes < 600).count();
        assert!(
            all.iter().all(|bytes| (100..1100).contains(bytes)) && (850..1150).contains(&below),
            "{below}"
        );
        assert_eq!(PayloadSizes::constant(60).of(9, 9), 60);
    }
}
