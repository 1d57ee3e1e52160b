//! Real sockets, peers and the packet ring on loopback.

mod greetings;
mod peers;
mod ring;
mod tcp;
mod udp;
