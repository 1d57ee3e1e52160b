//! Real sockets, peers and the packet ring on loopback.

mod peers;
mod ring;
mod tcp;
mod udp;
