//! Datagrams straight from an interface's queues, before the kernel's network layers see them (`AF_XDP`).
//!
//! ```text
//!  interface ─ program: UDP, our address and port ─┬─► a socket per queue: chunks of memory ─ parse, check, copy ─► pool blocks ─► Frames
//!                                                  └─ everything else ─► kernel ─► UDP socket ─ what is ours all the same ─┘
//! ```
//! `backend = "xdp"` of a `udp://` source that names the address of one interface. It needs `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`.
//! The program takes plain frames to this address and port only. Everything that it is not sure of goes the ordinary way, to the socket
//! that holds the port and is read as well: fragments, which the kernel puts together, datagrams longer than `datagram_bytes`, IPv4
//! options, IPv6 extension headers, frames with a VLAN tag, what comes from this host or over another interface. An address of a
//! VLAN interface is served there by the generic program, behind the kernel's removal of the tag (so it is with a bridge; a VLAN has not been tried).
//!
//! The program is taken off when the receiver is dropped, and by the kernel when the process ends, however it ends. An interface has
//! one program: a second receiver there is refused. Drivers that can run the program do (native); for others the kernel runs it behind
//! the driver (generic). Frames longer than a chunk come in several chunks (Linux 6.6); older kernels refuse such `datagram_bytes`.
//!
//! Lengths and checksums are checked here, as with the ring ([`mod@crate::ring`]); a checksum that a sender on this host left to its
//! network card is not finished, and accepted. Firewalls do not see these frames. On loopback (and on virtual Ethernet with the generic
//! program), a message that a sender hands over with `UDP_SEGMENT` comes as one datagram when it is not longer than
//! `datagram_bytes`: nothing says where it is to be cut. Senders on another host are not affected.
//! `thalweg bench receive-udp` compares it where it is allowed. Zero-copy, where the card writes into the chunks itself, is used where
//! the driver offers it and has not been measured.

mod program;
mod queues;
mod receiver;

pub(crate) use receiver::XdpReceiver;
