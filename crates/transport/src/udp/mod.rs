//! Datagrams in and out.
//!
//! ```text
//!  socket  ─► coalesced: one recvmsg, split by the segment size ─┐
//!          ─► slots: one recvmmsg, a slot per datagram           ─┼─► slices of a block ─► Frames
//!  packets ─► ring: no call per datagram (`crate::ring`)         ─┤
//!  frames  ─► xdp: before the network layers (`crate::xdp`)      ─┘
//! ```
//! `choice` chooses between coalesced reads and slots by the measured number of datagrams per message, `slot_size` how long slots are.

mod choice;
pub(crate) mod datagram_counters;
pub(crate) mod intake;
mod receiver;
mod sender;
mod settings;
mod slot_size;
pub(crate) mod socket;

pub use receiver::UdpReceiver;
pub use sender::{UdpSender, bind_shared};
pub use settings::{Backend, ExpectedSenders, FullPolicy, SenderAddress, UdpReceiverSettings};

/// Bytes that a block must have free for the next message: at least the largest payload, coalesced or not.
pub const MESSAGE_ROOM_BYTES: usize = 1 << 16;
