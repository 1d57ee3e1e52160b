//! Datagrams from the kernel's packet ring: no system call per datagram, and none per batch while there is work.
//!
//! ```text
//!  interface ─ filter: our port, incoming ─► ring of blocks shared with the kernel ─ parse, check, copy ─► pool blocks ─► Frames
//!                                            (a UDP socket holds the port, and takes nothing)
//! ```
//! `backend = "ring"` of a `udp://` source. It needs `CAP_NET_RAW`, and it is a trade: the kernel's UDP layer is passed by, but
//! every payload is copied in user space out of the ring, whose blocks belong to the kernel and go back to it in order. The copied
//! bytes are counted (`receive_moved_bytes`), the ring's own drops are a counter beside (`ring_drops`) as a socket's are.
//! `thalweg bench receive-udp` compares it where it is allowed.
//!
//! What the kernel's UDP layer did is done here: lengths and checksums are checked, the destination address, the sender.
//! What it alone can do is not: datagrams that were fragmented on the way are counted as `fragment_missing`, and IPv6 extension
//! headers other than a fragment's are not followed. VLAN tags are taken off by the kernel before. An IPv6 address takes IPv6
//! datagrams alone. Packets are seen on their way in only, so that on loopback each comes once.

mod datagram;
mod filter;
mod receiver;

pub(crate) use receiver::{RingReceiver, judge};
