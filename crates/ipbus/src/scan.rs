//! Finds targets: asks each address for its status.
//!
//! ```text
//!  addresses ─► a status request to each, in portions ─► wait for answers ─► ask the silent ones again ─► Found
//! ```
//! A status request does not affect the packet sequence, so targets that other clients use can be scanned.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use crate::wire::{STATUS_BYTES, Status, status_request};

/// Requests sent before answers are received, so that the socket buffer does not overflow.
const AT_ONCE: usize = 64;
/// How often each address is asked: the first datagram is easily lost while the network resolves the address.
const ROUNDS: usize = 2;

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Targets and their status, by address.
    pub targets: BTreeMap<SocketAddrV4, Status>,
    /// Addresses that answered with something other than an IPbus 2.0 status.
    pub others: BTreeSet<SocketAddrV4>,
    /// Addresses that no request could be sent to, such as broadcast addresses.
    pub unsent: BTreeSet<SocketAddrV4>,
}

/// Scans addresses in two rounds; waits for `wait` after each round.
///
/// # Errors
/// When there is no socket.
pub fn scan(addresses: &[SocketAddrV4], wait: Duration) -> io::Result<Found> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut asked = Asked { socket, all: addresses.iter().copied().collect(), found: Found::default() };
    for _ in 0..ROUNDS {
        for part in addresses.chunks(AT_ONCE) {
            part.iter().for_each(|address| asked.ask(*address));
            asked.receive(Duration::ZERO)?;
        }
        asked.receive(wait)?;
    }
    Ok(asked.found)
}

/// Receives the next datagram; `None` when `wait` passes first. Goes on waiting after signals and ICMP errors.
pub(crate) fn receive_within(
    socket: &UdpSocket,
    bytes: &mut [u8],
    wait: Duration,
) -> io::Result<Option<(usize, SocketAddr)>> {
    let end = Instant::now() + wait;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // The system takes a read timeout of zero as none.
        socket.set_nonblocking(left.is_zero())?;
        if !left.is_zero() {
            socket.set_read_timeout(Some(left))?;
        }
        match socket.recv_from(bytes) {
            Ok(received) => return Ok(Some(received)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(None),
                ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}

struct Asked {
    socket: UdpSocket,
    all: BTreeSet<SocketAddrV4>,
    found: Found,
}

impl Asked {
    fn ask(&mut self, address: SocketAddrV4) {
        if self.found.targets.contains_key(&address) {
            return;
        }
        match self.socket.send_to(&status_request(), address) {
            Ok(_) => _ = self.found.unsent.remove(&address),
            Err(_) => _ = self.found.unsent.insert(address),
        }
    }

    /// Receives answers until `wait` passes or all addresses have answered.
    fn receive(&mut self, wait: Duration) -> io::Result<()> {
        let end = Instant::now() + wait;
        let mut bytes = [0; STATUS_BYTES + 1];
        while self.found.targets.len() < self.all.len() {
            let left = end.saturating_duration_since(Instant::now());
            let Some((count, from)) = receive_within(&self.socket, &mut bytes, left)? else { return Ok(()) };
            let SocketAddr::V4(from) = from else { continue };
            if !self.all.contains(&from) {
                continue;
            }
            match Status::check(&bytes[..count]) {
                Ok(status) => {
                    self.found.others.remove(&from);
                    self.found.targets.insert(from, status);
                }
                Err(_) => _ = self.found.others.insert(from),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Buffers, Device, DeviceServer, Registers};

    #[test]
    fn scan_separates_targets_from_other_services_and_silent_addresses() {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let start = || {
            let device = Device::new(Registers::new(), Buffers { count: 3, bytes: 400 });
            DeviceServer::new(device, Some(any_port), None).expect("a device")
        };
        let devices = [start(), start()];
        let v4 = |address: Option<SocketAddr>| match address {
            Some(SocketAddr::V4(address)) => address,
            other => panic!("{other:?}"),
        };
        let other = UdpSocket::bind(any_port).expect("a socket");
        let other_address = v4(other.local_addr().ok());
        let answering = std::thread::spawn(move || {
            let (_, from) = other.recv_from(&mut [0; 64]).expect("a request");
            other.send_to(b"who is there?", from).expect("sent");
        });
        let closed = v4(UdpSocket::bind(any_port).and_then(|socket| socket.local_addr()).ok());
        let targets = [v4(devices[0].udp_address()), v4(devices[1].udp_address())];
        let found = scan(&[targets[0], closed, other_address, targets[1]], Duration::from_millis(300));
        let found = found.expect("a socket");
        answering.join().expect("it answered");
        let statuses: Vec<_> =
            found.targets.iter().map(|(at, status)| (*at, status.buffers, status.buffer_bytes)).collect();
        let mut expected = targets.map(|at| (at, 3, 400));
        expected.sort_unstable();
        assert_eq!(statuses, expected);
        assert_eq!(found.others, BTreeSet::from([other_address]));
    }
}
