//! Receives datagrams from the kernel's packet ring: no system call per datagram, and none per batch while packets wait.
//!
//! ```text
//!  interface ─ filter: our port, incoming ─► ring of blocks shared with the kernel ─ parse, check, copy ─► pool blocks ─► Frames
//!                                            (a UDP socket holds the port; its filter drops everything)
//! ```
//! `backend = "ring"` of a `udp://` source. It needs `CAP_NET_RAW`, and is a trade-off: it bypasses the kernel's UDP layer, but copies
//! every payload in user space, because the ring's blocks belong to the kernel and go back to it in order. It counts the copied
//! bytes (`receive_moved_bytes`) and the ring's own drops (`ring_drops`). `thalweg bench receive-udp` compares it with the others,
//! if the process has the privilege.
//!
//! This module checks what the UDP layer would have checked: lengths, checksums, destination address and sender. It does not
//! reassemble: fragmented datagrams are counted as `fragment_missing`. It skips no IPv6 extension headers. The kernel removes
//! VLAN tags before. An IPv6 address receives only IPv6 datagrams. The ring holds only incoming packets, so that on loopback
//! each comes once.

mod datagram;
mod filter;
mod receiver;

pub(crate) use receiver::{RingReceiver, judge};
