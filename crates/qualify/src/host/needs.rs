//! The needs of a run that its configuration states.
//!
//! ```text
//!  configuration ─► Needs ─► what is wanted of buffers, cards, disk
//!  none ──────────► Needs::default(): what any receiver of 10 Gb/s wants
//! ```

use std::net::IpAddr;
use std::path::PathBuf;

/// The receive buffer requested for datagrams where nothing else is said, bytes.
pub const RECEIVE_BUFFER_BYTES: u64 = 64 << 20;

/// The needs of a run.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Sockets for datagrams.
    pub datagram_sockets: u64,
    /// The largest receive buffer that one of them asks for, bytes.
    pub receive_buffer_bytes: u64,
    /// All of them together, bytes.
    pub receive_buffers_bytes: u64,
    /// The longest datagram that is taken, bytes of payload.
    pub datagram_bytes: u64,
    /// What the sockets have to take, one of each source.
    pub socket_loads: Vec<SocketLoad>,
    /// Connections to boards: streams.
    pub streams: u64,
    /// Addresses of boards and of sockets: which network cards are looked at. Empty: all that are up.
    pub addresses: Vec<IpAddr>,
    /// Of those, the addresses of boards, to which the route is probed.
    pub boards: Vec<IpAddr>,
    /// The directory of the recording.
    pub directory: Option<PathBuf>,
    /// The time that the disk lasts, seconds, where a run that writes to it knows.
    pub disk_left_s: Option<f64>,
    /// Memory that the run takes, bytes, where it is known.
    pub memory_bytes: Option<u64>,
    /// Memory in large pages that must be there, bytes.
    pub huge_page_bytes: u64,
}

/// What one socket for datagrams has to take.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketLoad {
    /// The source that it belongs to; empty where no configuration names one.
    pub source: String,
    /// The receive buffer that it asks for, bytes.
    pub receive_buffer_bytes: u64,
    /// Payload per second, bytes; `None` where nothing says it.
    pub bytes_per_s: Option<f64>,
    /// Payload of a datagram, bytes.
    pub payload_bytes: u64,
}

impl Default for SocketLoad {
    fn default() -> SocketLoad {
        SocketLoad {
            source: String::new(),
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            bytes_per_s: None,
            payload_bytes: 1024,
        }
    }
}

impl Default for Needs {
    fn default() -> Needs {
        Needs {
            datagram_sockets: 1,
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            receive_buffers_bytes: RECEIVE_BUFFER_BYTES,
            datagram_bytes: 8972,
            socket_loads: vec![SocketLoad::default()],
            streams: 0,
            addresses: Vec::new(),
            boards: Vec::new(),
            directory: None,
            disk_left_s: None,
            memory_bytes: None,
            huge_page_bytes: 0,
        }
    }
}

impl Needs {
    /// Returns true if datagrams are received at all.
    pub(super) fn has_datagrams(&self) -> bool {
        self.datagram_sockets > 0
    }
}
