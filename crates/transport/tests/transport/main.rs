//! Real sockets, peers and the packet ring on loopback; queues of an interface between network namespaces.

mod greetings;
mod http;
mod lending;
mod peers;
mod ring;
mod tcp;
mod udp;
mod xdp;
