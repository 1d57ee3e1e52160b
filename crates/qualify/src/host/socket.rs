//! Receive buffers: what is asked for, what is granted, and how long a reader may stand still.
//!
//! ```text
//!  asked ─► SO_RCVBUF ─► granted ─► datagrams that it holds ─► ÷ rate = the longest stall
//! ```
//! The kernel charges a buffer with the memory that a datagram takes, not with its payload ([`charge_bytes`]).

use std::net::UdpSocket;
use std::os::fd::AsFd;

use thalweg_transport::ReceiveBuffer;

use super::check::{Check, Severity};
use super::fix::Fix;
use super::needs::{Needs, SocketLoad};
use super::reading::{HostFiles, Unread, bytes};

/// The time for which a reader that has a core of its own may stand still, s.
const STALL_S: f64 = 0.02;
/// The capability that lets a program have larger receive buffers than others.
const CAP_NET_ADMIN: u32 = 12;
/// The unit of `net.ipv4.udp_mem`.
const PAGE_BYTES: u64 = 4096;

/// All checks of sockets.
pub(super) fn checks(files: &HostFiles, needs: &Needs) -> Vec<Check> {
    let mut checks = Vec::new();
    if needs.has_datagrams() {
        let largest = files.number::<u64>("/proc/sys/net/core/rmem_max");
        let may_exceed =
            files.text("/proc/self/status").is_ok_and(|text| has_capability(&text, CAP_NET_ADMIN));
        checks.push(receive_buffer(needs.receive_buffer_bytes, largest, may_exceed));
        checks.push(stall(&needs.socket_loads, granted_bytes));
        checks.push(all_buffers(files, needs));
        checks.push(fragments(needs));
    }
    if needs.streams > 0 {
        checks.push(listen_backlog(files));
    }
    checks
}

fn receive_buffer(asked: u64, largest: Result<u64, Unread>, may_exceed: bool) -> Check {
    let why = "the kernel cuts a larger receive buffer down to this without a word, and bursts are lost";
    let check = Check::of("net.core.rmem_max", Severity::Error, why)
        .wanting(format!("{asked} at least: the {} that are asked for", bytes(asked)));
    match largest {
        Ok(largest) if may_exceed => {
            check.found(format!("{largest}, which does not hold for this program (CAP_NET_ADMIN)"), true)
        }
        Ok(largest) => check
            .found(largest.to_string(), largest >= asked)
            .fixed_by(Fix::Sysctl("net.core.rmem_max", asked.to_string())),
        Err(why) => check.unknown(why),
    }
}

fn has_capability(status: &str, capability: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits >> capability & 1 == 1)
}

/// Returns the bytes that datagrams may take in a socket of this host with this request, as the kernel charges them: twice what was granted
/// (socket(7)).
fn granted_bytes(asked: u64) -> std::io::Result<u64> {
    let socket = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::1]:0"))?;
    let buffer = ReceiveBuffer::ask(socket.as_fd(), usize::try_from(asked).unwrap_or(usize::MAX))?;
    Ok(2 * buffer.granted_bytes as u64)
}

/// Memory that the kernel charges for a datagram of this payload, bytes. Measured on Linux 6.18: 512, 184 and 25 datagrams of 64, 1472
/// and 8972 bytes fill 425 984.
pub fn charge_bytes(payload_bytes: u64) -> u64 {
    const FULL: u64 = 425_984;
    match payload_bytes {
        0..=192 => FULL / 512,
        193..=1472 => FULL / 184,
        _ => (payload_bytes * 2).max(FULL / 25),
    }
}

/// A socket with the memory that it was granted.
struct Granted<'l> {
    load: &'l SocketLoad,
    bytes: u64,
}

impl Granted<'_> {
    fn datagrams(&self) -> u64 {
        self.bytes / charge_bytes(self.load.payload_bytes)
    }

    /// How long its reader may stand still; `None` where nothing says the rate.
    fn stall_s(&self) -> Option<f64> {
        let rate = self.load.bytes_per_s.filter(|rate| *rate > 0.0)?;
        Some(self.datagrams() as f64 * self.load.payload_bytes as f64 / rate)
    }

    fn words(&self) -> String {
        let whose = match self.load.source.as_str() {
            "" => String::new(),
            name => format!(" of source \"{name}\""),
        };
        let payload_bytes = self.load.payload_bytes;
        format!("{} datagrams of {payload_bytes} bytes in {}{whose}", self.datagrams(), bytes(self.bytes))
    }
}

/// `granted` is the memory that a socket has that asks for so many bytes. The check is that of the socket whose reader may stand still for the
/// shortest time.
fn stall(loads: &[SocketLoad], granted: impl Fn(u64) -> std::io::Result<u64>) -> Check {
    let why = "how long the thread that reads may stand still before datagrams are lost, by the memory of its socket";
    let wanted = format!("{:.0} ms at least with a core of its own, 100 ms on a shared host", STALL_S * 1e3);
    let check = Check::of("stall of a reader", Severity::Warning, why).wanting(&wanted);
    let of_load = |load| Ok(Granted { load, bytes: granted(load.receive_buffer_bytes)? });
    let sockets = match loads.iter().map(of_load).collect::<std::io::Result<Vec<_>>>() {
        Ok(sockets) => sockets,
        Err(why) => return check.unknown(why),
    };
    let known = sockets.iter().filter_map(|socket| Some((socket, socket.stall_s()?)));
    let Some((socket, stall_s)) = known.min_by(|(_, one), (_, other)| one.total_cmp(other)) else {
        let smallest = sockets.iter().min_by_key(|socket| socket.bytes).map(Granted::words);
        return check.noted(format!(
            "{}, for example; the configuration does not say their rate, give --bytes-per-second",
            smallest.unwrap_or_default()
        ));
    };
    let rate = socket.load.bytes_per_s.unwrap_or_default();
    let value = format!("{:.1} ms at {:.1} MB/s: {}", stall_s * 1e3, rate * 1e-6, socket.words());
    let check = check.found(value, stall_s >= STALL_S);
    let payload_bytes = socket.load.payload_bytes;
    let charged = (rate / payload_bytes as f64 * STALL_S).ceil() as u64 * charge_bytes(payload_bytes);
    // The kernel grants twice what is asked for.
    let enough = charged.div_ceil(2).next_power_of_two();
    if enough > socket.load.receive_buffer_bytes {
        return check.wanting(format!("{wanted}: receive_buffer_bytes = {enough} of the source"));
    }
    check.fixed_by(Fix::Sysctl("net.core.rmem_max", socket.load.receive_buffer_bytes.to_string()))
}

fn all_buffers(files: &HostFiles, needs: &Needs) -> Check {
    let why =
        "what all UDP sockets of the host may hold together: beyond it, datagrams are lost as MemErrors";
    let wanted = 2 * needs.receive_buffers_bytes;
    let check = Check::of("net.ipv4.udp_mem", Severity::Warning, why).wanting(format!(
        "a third value of {} pages at least: {}",
        wanted.div_ceil(PAGE_BYTES),
        bytes(wanted)
    ));
    match files.numbers("/proc/sys/net/ipv4/udp_mem").as_deref() {
        Ok(&[low, pressure, most]) => {
            let pages = wanted.div_ceil(PAGE_BYTES);
            let fix = format!("{low} {pressure} {}", pages.max(pressure));
            check
                .found(format!("{low} {pressure} {most}"), most >= pages)
                .fixed_by(Fix::Sysctl("net.ipv4.udp_mem", fix))
        }
        Ok(other) => check.unknown(format_args!("it has {} values", other.len())),
        Err(why) => check.unknown(why),
    }
}

fn fragments(needs: &Needs) -> Check {
    let why = "a datagram longer than the MTU travels in IP fragments: one lost is all lost, and receiving costs twice as much";
    let check = Check::of("datagrams and MTU", Severity::Information, why);
    let frame = needs.datagram_bytes + 28;
    check.wanting("an MTU of the datagrams' bytes + 28 on the whole way").noted(format!(
        "datagrams of up to {} bytes are taken: they need an MTU of {frame}",
        needs.datagram_bytes
    ))
}

fn listen_backlog(files: &HostFiles) -> Check {
    let why = "connections that wait to be accepted: boards that all connect at once";
    super::sysctl::Sysctl {
        key: "net.core.somaxconn",
        bound: super::sysctl::Bound::AtLeast(1024),
        severity: Severity::Information,
        why,
    }
    .check(files)
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckVerdict;
    use super::*;

    #[test]
    fn a_small_receive_buffer_comes_with_the_command_that_helps() {
        let found = receive_buffer(64 << 20, Ok(212_992), false);
        assert_eq!((found.verdict, found.value.as_str()), (CheckVerdict::Bad, "212992"));
        assert_eq!(found.command, "sysctl -w net.core.rmem_max=67108864");
        assert!(found.is_error() && found.kept_by.contains("sysctl.d"));
        assert_eq!(receive_buffer(64 << 20, Ok(212_992), true).verdict, CheckVerdict::Good);
        assert_eq!(receive_buffer(1 << 17, Ok(212_992), false).command, "");
        let unknown = receive_buffer(1, Err(Unread::Missing("/proc/x".into())), false);
        assert_eq!(unknown.verdict, CheckVerdict::Unknown);
        assert!(unknown.value.starts_with("unknown: /proc/x is not there"), "{}", unknown.value);
        assert!(has_capability("Name:\tx\nCapEff:\t0000000000001000\n", CAP_NET_ADMIN));
        assert!(!has_capability("CapEff:\t0000000000000fff\n", CAP_NET_ADMIN));
        assert!(!has_capability("", CAP_NET_ADMIN));
    }

    #[test]
    fn the_stall_is_by_the_memory_that_datagrams_take_and_not_by_their_payload() {
        let load = SocketLoad { bytes_per_s: Some(1.024e9), ..SocketLoad::default() };
        // A million datagrams a second, 58 254 of them in what 64 MiB grant.
        let found = stall(std::slice::from_ref(&load), |_| Ok(128 << 20));
        assert_eq!(found.verdict, CheckVerdict::Good);
        assert!(found.value.starts_with("58.0 ms at 1024.0 MB/s: 57977 datagrams"), "{}", found.value);
        // A buffer that the kernel has cut down is what the file asks for once the limit allows it.
        let short = stall(&[load], |_| Ok(425_984));
        assert!(short.verdict == CheckVerdict::Bad && short.value.starts_with("0.2 ms"), "{}", short.value);
        assert_eq!(short.command, "sysctl -w net.core.rmem_max=67108864");
        let unknown = stall(&[SocketLoad::default()], |_| Ok(1 << 20));
        assert_eq!(unknown.verdict, CheckVerdict::Unknown, "no rate is said");
    }

    #[test]
    fn the_stall_is_that_of_one_socket_and_its_advice_is_the_key_of_its_source() {
        let load = |source: &str, bytes_per_s, payload_bytes| SocketLoad {
            source: source.into(),
            bytes_per_s: Some(bytes_per_s),
            payload_bytes,
            ..SocketLoad::default()
        };
        let (fast, slow) = (load("fast", 640e6, 8972), load("slow", 720.0, 72));
        let unknown = SocketLoad::default();
        for loads in [[&fast, &slow, &unknown], [&unknown, &slow, &fast]] {
            let found = stall(&loads.map(Clone::clone), |asked| Ok(2 * asked));
            let value = "104.8 ms at 640.0 MB/s: 7479 datagrams of 8972 bytes in 128 MiB of source \"fast\"";
            assert_eq!((found.verdict, found.value.as_str()), (CheckVerdict::Good, value));
        }
        let small = SocketLoad { receive_buffer_bytes: 1 << 20, ..fast };
        let found = stall(&[small], |asked| Ok(2 * asked));
        assert!(found.verdict == CheckVerdict::Bad && found.command.is_empty(), "{found:?}");
        assert!(found.wanted.ends_with("receive_buffer_bytes = 16777216 of the source"), "{}", found.wanted);
    }
}
