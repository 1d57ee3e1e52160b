//! How long a datagram may be on the whole way to somebody, found by sending it.
//!
//! ```text
//!  short one ─► answer? ─► long one, not to be cut ─┬─ port unreachable, or any answer ─► it arrived whole
//!                                                   ├─ too long for our card, or a router's word ─► it did not
//!                                                   └─ silence, where the short one was answered ─► a switch threw it away
//! ```
//! The port asked is one that nobody listens on: the host answers that with an ICMP message, and needs no program for it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::system::set_option;

/// Where nobody listens: the first port of traceroute.
const CLOSED_PORT: u16 = 33_434;
/// Payload that passes everywhere: a datagram of 68 bytes may not be cut (RFC 791).
const SHORT_BYTES: usize = 40;
/// How often each is sent before silence counts.
const ATTEMPTS: usize = 3;

/// What became of a datagram of a given length.
#[derive(Debug)]
pub enum PathAnswer {
    /// It arrived whole.
    Arrived,
    /// It is longer than our own card, or a router on the way, lets through.
    TooLong,
    /// A short one is answered and this one is not.
    Swallowed,
    /// Nobody answers at all, or the way cannot be tried.
    Unknown(io::Error),
}

/// Sends datagrams with `payload_bytes` to a host, none of which may be cut, and waits `wait` for the answer to each.
pub fn probe_path(to: IpAddr, payload_bytes: usize, wait: Duration) -> PathAnswer {
    match is_answered(to, SHORT_BYTES, wait) {
        Ok(true) => {}
        Ok(false) => {
            return PathAnswer::Unknown(io::Error::new(
                ErrorKind::TimedOut,
                "nobody answers, not even to a short datagram",
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
    fn the_loopback_passes_long_datagrams_and_none_that_is_longer_than_it() {
        let to = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let wait = Duration::from_secs(5);
        assert!(matches!(probe_path(to, 8972, wait), PathAnswer::Arrived));
        // 65 507 bytes are what UDP can say, and fit an MTU of 65 536 with their headers.
        assert!(matches!(probe_path(to, 65_507, wait), PathAnswer::Arrived));
        assert!(matches!(probe_path(to, 65_508, wait), PathAnswer::TooLong));
    }
}
