//! Finds the interface that has an address.
//!
//! ```text
//!  address ─► getifaddrs ─► name, index, hardware address       name ─► SIOCETHTOOL ─► queues that receive
//! ```

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};

const SIOCETHTOOL: u32 = 0x8946;
const GET_CHANNELS: u32 = 0x3C;
/// Bytes of an interface's name, including the terminating zero.
const NAME_BYTES: usize = 16;

/// An interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    /// Ethernet address; 0 for loopback.
    pub(crate) hardware: [u8; 6],
}

impl Interface {
    /// The interface that has this address, if there is one.
    pub(crate) fn of(address: IpAddr) -> io::Result<Option<Interface>> {
        let all: Vec<InterfaceAddress> = getifaddrs()?.collect();
        let is_it = |interface: &&InterfaceAddress| {
            let Some(own) = &interface.address else { return false };
            match address {
                IpAddr::V4(address) => own.as_sockaddr_in().is_some_and(|own| own.ip() == address),
                IpAddr::V6(address) => own.as_sockaddr_in6().is_some_and(|own| own.ip() == address),
            }
        };
        let Some(found) = all.iter().find(is_it) else { return Ok(None) };
        // An address may have a label: the interface's name, a colon and more.
        let name = found.interface_name.split(':').next().unwrap_or_default();
        let link = |interface: &InterfaceAddress| {
            let link = interface.address.as_ref()?.as_link_addr()?;
            let is_it = interface.interface_name == name;
            is_it.then(|| (link.ifindex() as u32, link.addr().unwrap_or_default()))
        };
        let link = all.iter().find_map(link);
        Ok(link.map(|(index, hardware)| Interface { name: name.to_owned(), index, hardware }))
    }

    /// How many receive queues the interface has; 1 if the driver does not report it.
    pub(crate) fn receive_queues(&self, socket: &UdpSocket) -> u32 {
        /// `struct ethtool_channels`.
        #[repr(C)]
        #[derive(Default)]
        struct Channels {
            command: u32,
            most: [u32; 4],
            receive: u32,
            transmit: u32,
            other: u32,
            combined: u32,
        }
        /// The part of `struct ifreq` that the request reads, padded to its length.
        #[repr(C)]
        struct Request {
            name: [u8; NAME_BYTES],
            data: *mut Channels,
            rest: [u64; 2],
        }
        let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
        let mut request = Request { name: [0; NAME_BYTES], data: &raw mut channels, rest: [0; 2] };
        for (to, from) in request.name[..NAME_BYTES - 1].iter_mut().zip(self.name.as_bytes()) {
            *to = *from;
        }
        // SAFETY: the request is at least as long as `struct ifreq`, holds a name that ends with 0 and a pointer to the channels, which
        // live on this stack frame and are laid out as the kernel writes them.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        if result == 0 { (channels.receive + channels.combined).max(1) } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address_and_one_queue() {
        let found = Interface::of("127.0.0.1".parse().expect("an address")).expect("a list");
        let lo = found.expect("loopback");
        assert!(lo.name.starts_with("lo") && lo.index > 0 && lo.hardware == [0; 6], "{lo:?}");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert_eq!(lo.receive_queues(&socket), 1);
        assert_eq!(Interface::of("192.0.2.1".parse().expect("an address")).expect("a list"), None);
    }
}
