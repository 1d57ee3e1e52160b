//! A capture, sent again: the datagrams of a pcap or pcapng file with the gaps that they had, or with those gaps scaled.
//!
//! ```text
//!  capture ─► datagrams to a port, or all ─► (time − first time) ÷ speed ─► wait ─► send ─► Replayed
//! ```
//! The file is read on the way, in constant memory. What cannot be sent as it was is not sent, and counted.

use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::SourceError;
use thalweg_readout::pcap::{CapturedPayload, each_payload};

use crate::generator::Spread;
use crate::trial::{soon, wait_until};

/// The number of datagrams of which lateness is kept, the first ones: 8 bytes each.
const MOST_LATENESS: usize = 4 << 20;

/// The settings for sending a capture.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Only datagrams that went to this port.
    pub port: Option<u16>,
    /// Gaps are divided by this; infinite: as fast as they go.
    pub speed: f64,
}

/// The outcome of sending a capture.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Replayed {
    /// Datagrams that the kernel has taken.
    pub sent: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// Datagrams that it has not.
    pub failed: u64,
    /// Datagrams that the capture holds only in part; they were not sent.
    pub incomplete: u64,
    /// Datagrams without a time, which were sent with the one before them.
    pub without_time: u64,
    /// Datagrams that came before the one in front of them; they were sent with it.
    pub backwards: u64,
    /// Datagrams to other ports, segments of streams, and packets that are neither; they were not sent.
    pub others: u64,
    /// Packets that cannot be read.
    pub unread: u64,
    /// Bytes of the file in which there is no packet.
    pub damaged_bytes: u64,
    /// The time from the first datagram to the last in the capture, divided by the speed, s.
    pub asked_s: f64,
    /// The same as it was sent, s.
    pub took_s: f64,
    /// The lateness of datagrams; null without any.
    pub lateness: Option<Spread>,
    /// Why this is not what was asked for; empty where it is.
    pub remark: String,
}

/// Sends a capture to `to` from a socket of its own, until it ends or `stop` is set. `place` is its name in messages.
///
/// # Errors
/// When it is no capture, or there is no socket.
pub fn replay(
    place: String,
    input: Box<dyn Read + Send>,
    socket: &UdpSocket,
    settings: Settings,
    stop: &AtomicBool,
) -> Result<Replayed, SourceError> {
    let (mut replayed, mut lateness_s) = (Replayed::default(), Vec::new());
    let start = soon();
    let (mut first_ns, mut due_s) = (None, 0.0_f64);
    let mut send = |captured: CapturedPayload<'_>| {
        if captured.segment.is_some() || settings.port.is_some_and(|port| captured.to.port() != port) {
            replayed.others += 1;
            return !stop.load(Ordering::Relaxed);
        }
        if captured.missing_bytes > 0 {
            replayed.incomplete += 1;
            return true;
        }
        match captured.time_ns {
            None => replayed.without_time += 1,
            Some(time_ns) => {
                let since_ns = time_ns as f64 - *first_ns.get_or_insert(time_ns) as f64;
                let at_s = since_ns * 1e-9 / settings.speed;
                replayed.backwards += u64::from(at_s < due_s);
                due_s = due_s.max(at_s);
            }
        }
        let due = start + Duration::from_secs_f64(due_s);
        let Some(began) = wait_until(due, stop) else { return false };
        let late_s = (began - due).as_secs_f64();
        if lateness_s.len() < MOST_LATENESS {
            lateness_s.push(late_s);
        }
        match socket.send(captured.payload) {
            Ok(bytes) if bytes == captured.payload.len() => {
                replayed.sent += 1;
                replayed.bytes += bytes as u64;
            }
            _ => replayed.failed += 1,
        }
        (replayed.asked_s, replayed.took_s) = (due_s, due_s + late_s);
        !stop.load(Ordering::Relaxed)
    };
    let counts = each_payload(place, input, &mut send)?;
    replayed.others += counts.others;
    replayed.unread = counts.unread;
    replayed.damaged_bytes = counts.damaged_bytes;
    replayed.lateness = (!lateness_s.is_empty()).then(|| Spread::of(&lateness_s));
    replayed.remark = replayed.fault(settings.speed);
    Ok(replayed)
}

impl Replayed {
    fn fault(&self, speed: f64) -> String {
        let late_s = self.took_s - self.asked_s;
        if self.sent + self.failed == 0 {
            return "no datagram in it was sent: is it a capture of UDP, to that port?".to_owned();
        }
        if self.failed > 0 {
            return format!(
                "{} datagrams were not taken by the kernel: is the way up, and somebody there?",
                self.failed
            );
        }
        if speed.is_finite() && late_s > 0.02 * self.asked_s + 1e-3 {
            return format!(
                "it was sent in {:.3} s instead of {:.3} s: scale it down",
                self.took_s, self.asked_s
            );
        }
        match self.incomplete {
            0 => String::new(),
            cut => {
                format!("{cut} datagrams were captured in part and not sent; capture with a snap length of 0")
            }
        }
    }
}

/// A socket that sends to `to`, from `from`.
///
/// # Errors
/// When the address is not this host's, or the receiver cannot be reached.
pub fn socket(from: SocketAddr, to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use thalweg_readout::pcap::CaptureWriter;

    use super::*;

    #[test]
    fn a_capture_is_sent_with_its_gaps_and_what_cannot_be_sent_is_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = receiver.local_addr().expect("bound");
        let sender = socket(SocketAddr::from(([127, 0, 0, 1], 0)), to).expect("opened");
        let bytes =
            capture(&[(0, 7000, b"first"), (4_000_000, 7000, b"second"), (5_000_000, 7001, b"other")]);
        let settings = Settings { port: Some(7000), speed: 2.0 };
        let input = Box::new(io::Cursor::new(bytes.clone()));
        let replayed =
            replay("a capture".to_owned(), input, &sender, settings, &AtomicBool::new(false)).expect("sent");
        assert_eq!(
            (replayed.sent, replayed.bytes, replayed.others, replayed.failed),
            (2, 11, 1, 0),
            "{replayed:?}"
        );
        assert!(
            (replayed.asked_s - 2e-3).abs() < 1e-9 && replayed.took_s >= replayed.asked_s,
            "{replayed:?}"
        );
        let mut payload = [0; 16];
        for wanted in [&b"first"[..], b"second"] {
            let length = receiver.recv(&mut payload).expect("it was sent");
            assert_eq!(&payload[..length], wanted);
        }
        let none = Settings { port: Some(9), ..settings };
        let input = Box::new(io::Cursor::new(bytes));
        let nothing =
            replay("a capture".to_owned(), input, &sender, none, &AtomicBool::new(false)).expect("read");
        assert!(nothing.remark.contains("no datagram") && nothing.others == 3, "{nothing:?}");
        let input = Box::new(io::Cursor::new(b"not a capture".to_vec()));
        assert!(replay("a text".to_owned(), input, &sender, none, &AtomicBool::new(false)).is_err());
    }

    /// A capture of datagrams to these ports at these times, ns.
    fn capture(datagrams: &[(u64, u16, &[u8])]) -> Vec<u8> {
        let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
        for (time_ns, port, payload) in datagrams {
            let address = |last, port| SocketAddr::from(([10, 0, 0, last], port));
            writer.datagram(*time_ns, address(1, 5), address(2, *port), payload).expect("memory");
        }
        writer.finish().expect("memory")
    }
}
