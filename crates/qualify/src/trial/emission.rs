//! Sends events at their times: of every source a datagram, one behind the other, as fast as they go.
//!
//! ```text
//!  t₀ + time of the event ─► wait without sleeping ─► K × send ─► when it began, how late, how long it took
//! ```
//! A thread that sleeps wakes 50 µs late; so the last of each wait is spent looking at the clock.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::payload::{LEAST_BYTES, Label};

/// Longer waits sleep until so long before their end.
const AWAKE: Duration = Duration::from_micros(500);

/// How often the end of a source is said, and how long it is waited between.
const ENDS: u32 = 5;
const BETWEEN_ENDS: Duration = Duration::from_millis(20);
/// Bytes of the shortest datagram.
pub const LEAST_PAYLOAD_BYTES: usize = LEAST_BYTES;

/// How a burst was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Emission {
    /// When each event began, s from the first.
    pub times_s: Vec<f64>,
    /// How much later than it should have, s.
    pub lateness_s: Vec<f64>,
    /// From the first source's datagram of each event to the last one's, s.
    pub skew_s: Vec<f64>,
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

/// The value below which this part of all lies; 0 without any.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (part * values.len() as f64) as usize;
    sorted.get(place.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Sources with a socket each.
#[derive(Debug)]
pub struct Emitter {
    run: u64,
    sockets: Vec<UdpSocket>,
    payload: Vec<u8>,
}

impl Emitter {
    /// A socket for each address, to one receiver. To be called where they are to send from.
    ///
    /// # Errors
    /// When an address is not this host's, the receiver cannot be reached, or the payload has no room for a label.
    pub fn open(
        run: u64,
        addresses: &[SocketAddr],
        to: SocketAddr,
        payload_bytes: usize,
    ) -> io::Result<Emitter> {
        if payload_bytes < LEAST_BYTES {
            let why = format!(
                "a datagram of a trial has {LEAST_BYTES} bytes at least, and {payload_bytes} are asked for"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let socket = |address: &SocketAddr| {
            let socket = UdpSocket::bind(address)?;
            socket.connect(to)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let sockets = addresses.iter().map(socket).collect::<io::Result<Vec<_>>>()?;
        Ok(Emitter { run, sockets, payload: vec![0; payload_bytes] })
    }

    /// How many sources there are.
    pub fn sources(&self) -> u32 {
        self.sockets.len() as u32
    }

    /// Sends so many events, evenly.
    pub fn emit(&mut self, trial: u32, events: u64, separation_s: f64) -> Emission {
        self.emit_at(trial, (0..events).map(|event| Duration::from_secs_f64(event as f64 * separation_s)))
    }

    /// Sends events at these times from the start, ascending. What is remembered of each takes 24 bytes.
    pub fn emit_at(&mut self, trial: u32, times: impl Iterator<Item = Duration>) -> Emission {
        let mut emission = Emission::default();
        let start = Instant::now() + AWAKE;
        let mut first = None;
        for (event, time) in times.enumerate() {
            let due = start + time;
            let began = wait_until(due);
            self.send(trial, event as u32, &mut emission);
            let first = *first.get_or_insert(began);
            emission.times_s.push((began - first).as_secs_f64());
            emission.lateness_s.push((began - due).as_secs_f64());
            emission.skew_s.push(began.elapsed().as_secs_f64());
        }
        emission
    }

    /// Sends so many events with the sources one behind the other, evenly within the separation. Each datagram has a time of its own.
    pub fn emit_spread(&mut self, trial: u32, events: u64, separation_s: f64) -> Emission {
        let (sources, mut emission) = (self.sockets.len() as u64, Emission::default());
        let start = Instant::now() + AWAKE;
        let mut first = None;
        for number in 0..events * sources {
            let due = start + Duration::from_secs_f64(number as f64 * separation_s / sources as f64);
            let began = wait_until(due);
            self.send_one(trial, (number / sources) as u32, (number % sources) as usize, &mut emission);
            let first = *first.get_or_insert(began);
            emission.times_s.push((began - first).as_secs_f64());
            emission.lateness_s.push((began - due).as_secs_f64());
        }
        emission
    }

    /// Says the end of every source, several times, since each may be lost.
    pub fn end(&mut self, trial: u32, events: u64) {
        for _ in 0..ENDS {
            for (source, socket) in self.sockets.iter().enumerate() {
                let label = Label { run: self.run, trial, event: 0, source: source as u16 };
                label.write_end(events, &mut self.payload);
                // One that is not taken is one that is lost.
                let _sent = socket.send(&self.payload);
            }
            std::thread::sleep(BETWEEN_ENDS);
        }
    }

    fn send(&mut self, trial: u32, event: u32, emission: &mut Emission) {
        (0..self.sockets.len()).for_each(|source| self.send_one(trial, event, source, emission));
    }

    fn send_one(&mut self, trial: u32, event: u32, source: usize, emission: &mut Emission) {
        Label { run: self.run, trial, event, source: source as u16 }.write(&mut self.payload);
        match self.sockets[source].send(&self.payload) {
            Ok(bytes) if bytes == self.payload.len() => emission.sent += 1,
            _ => emission.failed += 1,
        }
    }
}

/// Waits, and says when it was over.
fn wait_until(due: Instant) -> Instant {
    loop {
        let now = Instant::now();
        let Some(left) = due.checked_duration_since(now).filter(|left| !left.is_zero()) else { return now };
        match left.checked_sub(AWAKE).filter(|rest| *rest > AWAKE) {
            Some(rest) => std::thread::sleep(rest),
            None => std::hint::spin_loop(),
        }
    }
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
        let mut emitter = Emitter::open(9, &addresses, to, 100).expect("opened");
        let emission = emitter.emit(4, 5, 1e-4);
        assert_eq!((emission.sent, emission.failed, emission.times_s.len()), (15, 0, 5));
        assert!(emission.times_s.windows(2).all(|pair| pair[0] < pair[1]) && emission.times_s[0] == 0.0);
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
        assert!(emitter.emit(5, 4, 1e-4).failed > 0, "nobody is there any more, and the kernel says so");
        assert!(Emitter::open(9, &addresses, to, LEAST_BYTES - 1).is_err());
    }
}
