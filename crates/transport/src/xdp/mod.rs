//! Receives datagrams from an interface's queues, before the kernel's network layers (`AF_XDP`).
//!
//! ```text
//!  interface ─ program: UDP, our address and port ─┬─► a socket per queue: chunks of memory ─ parse, check, copy ─► pool blocks ─► Frames
//!                                                  └─ everything else ─► kernel ─► UDP socket: our other datagrams ─┘
//! ```
//! `backend = "xdp"` of a `udp://` source that names the address of one interface. It needs `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`.
//! The program takes only plain frames to this address and port. The kernel handles all others, and the receiver reads our datagrams
//! among them from the socket that holds the port: fragments, which the kernel reassembles, datagrams longer than `datagram_bytes`,
//! IPv4 options, IPv6 extension headers, frames with a VLAN tag, datagrams from this host or over another interface. With the address
//! of a VLAN interface, the generic program runs on that interface, after the kernel has removed the tag (tried with a bridge, not
//! with a VLAN).
//!
//! Dropping the receiver removes the program; when the process ends in any way, the kernel removes it. An interface has one program,
//! so a second receiver there is refused. The driver runs the program if it can (native); otherwise the kernel runs it behind the
//! driver (generic). Frames longer than a chunk come in several chunks (Linux 6.6); on older kernels, such `datagram_bytes` is refused.
//!
//! This module checks lengths and checksums, as the ring does ([`mod@crate::ring`]). It accepts an unfinished checksum, which a sender
//! on this host leaves to its network card. Firewalls do not see these frames. On loopback (and on virtual Ethernet with the generic
//! program), a message that is sent with `UDP_SEGMENT` arrives as one datagram if it is not longer than `datagram_bytes`, because the
//! frame does not carry the segment size. Senders on another host are not affected. `thalweg bench receive-udp` compares this backend
//! with the others, if the process has the privileges. If the driver offers zero-copy (the card writes into the chunks itself), it is
//! used; it has not been measured.

mod program;
mod queues;
mod receiver;

pub(crate) use receiver::XdpReceiver;
