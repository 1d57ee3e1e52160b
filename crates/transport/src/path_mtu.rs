//! Finds by sending whether a datagram of a given length reaches a host unfragmented.
//!
//! ```text
//!  short datagram ─► answer? ─► long one, unfragmented ─┬─ port unreachable, or any answer ─► it arrived whole
//!                                                       ├─ too long for our interface or a router ─► it did not arrive
//!                                                       └─ silence, though the short one was answered ─► a switch dropped it
//! ```
//! The destination port is closed: the host itself answers with an ICMP message and needs no program for that.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::system::set_option;

/// A port that no program listens on: the first one of traceroute.
const CLOSED_PORT: u16 = 33_434;
/// Payload that passes everywhere: every network forwards datagrams of 68 bytes unfragmented (RFC 791).
const SHORT_BYTES: usize = 40;
/// How often a datagram is sent before silence counts.
const ATTEMPTS: usize = 3;

/// The fate of a datagram of a given length.
#[derive(Debug)]
pub enum PathAnswer {
    /// It arrived whole.
    Arrived,
    /// It is longer than the MTU of our own interface or of a router on the path.
    TooLong,
    /// It was not answered, although a short one was.
    Swallowed,
    /// The host does not answer at all, or the path cannot be tried.
    Unknown(io::Error),
}

/// Sends unfragmented datagrams with `payload_bytes` to a host, and waits `wait` for the answer to each.
pub fn probe_path(to: IpAddr, payload_bytes: usize, wait: Duration) -> PathAnswer {
    match is_answered(to, SHORT_BYTES, wait) {
        Ok(true) => {}
        Ok(false) => {
            return PathAnswer::Unknown(io::Error::new(
                ErrorKind::TimedOut,
                "the host does not answer even a short datagram",
            ));
        }
        Err(error) => return PathAnswer::Unknown(error),
    }
    match is_answered(to, payload_bytes, wait) {
        Ok(true) => PathAnswer::Arrived,
        Ok(false) => PathAnswer::Swallowed,
        Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => PathAnswer::TooLong,
        Err(error) => PathAnswer::Unknown(error),
    }
}

fn is_answered(to: IpAddr, payload_bytes: usize, wait: Duration) -> io::Result<bool> {
    let (any, level, option, probe): (IpAddr, _, _, _) = match to {
        IpAddr::V4(_) => {
            (Ipv4Addr::UNSPECIFIED.into(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
        }
        IpAddr::V6(_) => (
            Ipv6Addr::UNSPECIFIED.into(),
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    set_option(socket.as_fd(), level, option, probe)?;
    socket.set_read_timeout(Some(wait))?;
    socket.connect((to, CLOSED_PORT))?;
    let mut answer = [0; 64];
    for _ in 0..ATTEMPTS {
        match socket.send(&vec![0; payload_bytes]).and_then(|_| socket.recv(&mut answer)) {
            Ok(_) => return Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::ConnectionRefused => return Ok(true),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_passes_datagrams_up_to_its_mtu() {
        let to = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let wait = Duration::from_secs(5);
        assert!(matches!(probe_path(to, 8972, wait), PathAnswer::Arrived));
        // 65 507 bytes are the most that UDP can carry, and fit an MTU of 65 536 with their headers.
        assert!(matches!(probe_path(to, 65_507, wait), PathAnswer::Arrived));
        assert!(matches!(probe_path(to, 65_508, wait), PathAnswer::TooLong));
    }
}
