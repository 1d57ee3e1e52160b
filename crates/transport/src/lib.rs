//! Moves bytes between hosts and the pool's blocks: the only crate of the data path with sockets.
//!
//! ```text
//!  network ─► UdpReceiver ─► blocks of the pool, one slice per datagram     receive
//!          ─► TcpReceiver ─► blocks of the pool, one slice per call
//!
//!  many receivers ─► ReadySet ─► those that have something to read       one thread, many boards
//!  rings, other threads ─► Bell ─► ReadySet
//!
//!  datagrams ─► UdpSender ─► network                                       send (emulated boards, benches)
//!  bytes     ─► TcpSender ─► network        paced by a Pacer
//!
//!  JSON ─► HttpClient ─► http:// · https://                               beside the data path: BUSY, alarms
//!
//!  messages  ⇄ Peer ⇄ tcp:// · shm:// · inproc://                          between the units of one system
//! ```
//! The kernel writes received bytes once, into memory that is lent to the readers. Each receiver counts what came in, what
//! it passed on and what it lost, in datagrams and bytes. `unsafe` is only in `system` and `open_files`, around system
//! calls and the memory that they map.
//!
//! - [`udp`]: datagrams in and out, by the receive call that fits the traffic.
//! - [`ring`]: datagrams from the kernel's packet ring.
//! - [`xdp`]: datagrams straight from an interface's queues.
//! - `tcp`: streams in and out: [`TcpReceiver`], [`TcpSender`].
//! - [`peer`]: messages between units, by URL.
//! - [`http`]: one request over HTTP or HTTPS, for BUSY and alarms.
//! - [`tls`]: what a client trusts, and what a server shows.
//! - `ready`: which of many sockets have something to read: [`ReadySet`].
//! - `bell`: a descriptor that one thread rings and another waits on: [`Bell`].
//! - `pace`: how much may be sent now: [`Pacer`].
//! - `receive_buffer`: the size of the kernel's receive buffer, requested and read back: [`ReceiveBuffer`].
//! - `path_mtu`: how long a datagram may be on the whole path: [`probe_path`].
//! - `open_files`: how many sockets a process may have: [`raise_open_files`].
//! - [`placement`]: the cores and the priority of a thread and of the threads that it starts.
//! - `thread_times`: CPU time of each thread of this process: [`thread_times()`].
//! - `host_counters`: the host's own counters of losses: [`HostCounters`].
//! - `control_message`: what the kernel reports beside a datagram.
//! - `system`: the system calls, each behind a safe function.
//! - `error`: the errors of this crate: [`TransportError`].

#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "thalweg-transport uses recvmmsg, UDP_GRO and SO_RXQ_OVFL, which are Linux's; build it on Linux"
);

mod bell;
mod control_message;
mod error;
mod host_counters;
pub mod http;
mod open_files;
mod pace;
mod path_mtu;
pub mod peer;
pub mod placement;
mod ready;
mod receive_buffer;
pub mod ring;
mod system;
mod tcp;
mod thread_times;
pub mod tls;
pub mod udp;
pub mod xdp;

pub use bell::Bell;
pub use error::TransportError;
pub use host_counters::HostCounters;
pub use open_files::raise_open_files;
pub use pace::Pacer;
pub use path_mtu::{PathAnswer, probe_path};
pub use ready::ReadySet;
pub use receive_buffer::ReceiveBuffer;
pub use system::{process_cpu_time, thread_cpu_time};
pub use tcp::{TcpReceiver, TcpReceiverSettings, TcpSender, send_by_window_on_loopback};
pub use thread_times::{ThreadTimes, ran_s, thread_times};
pub use udp::{
    Backend, ExpectedSenders, FullPolicy, SenderAddress, UdpReceiver, UdpReceiverSettings, UdpSender,
};
