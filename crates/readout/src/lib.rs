//! Endpoint and framing become a source of frames.
//!
//! ```text
//!  Settings { url, … } ─ open ─► Opened { source, control, pool, address }
//!
//!  udp:// emulate:// ─► UdpSource  ┐
//!  tcp://            ─► TcpSource  │
//!  dig2://           ─► Dig2       ├─► Frames with a mark ─► (Faulty) ─► framing
//!  file://           ─► FileSource │
//!  pcap://           ─► PcapSource ┘
//!
//!  host::HostedBoard: an emulated board on real sockets, the other end of all this
//! ```
//! Every source marks its batches with nanoseconds since the run began and returns within the wait it is given, whether
//! anything came or not.

mod board_link;
pub mod busy;
mod busy_input;
pub mod clock;
pub mod device;
pub mod dig2;
mod emulated;
pub mod faults;
pub mod file;
pub mod group;
pub mod host;
mod ipbus_control;
pub mod links;
pub mod live;
mod open;
pub mod pcap;
pub mod register_control;
mod settings;
mod url;
mod url_range;

pub use busy::{BusyError, BusyOutput, BusySettings, SetRegister};
pub use busy_input::{BusyInput, BusyInputCounts};
pub use clock::RunClock;
pub use device::{Applied, DeviceSettings, Switch};
pub use emulated::{answer_sizes, other_ends};
pub use faults::{FaultError, FaultSettings, Faults, Faulty};
pub use group::{Each, Group, GroupSettings, Link, LinkId, News, Take, Turn, each};
pub use ipbus_control::IpbusControl;
pub use links::{Boards, EmulatedBoards, LinkSettings, OpenedLinks, open_links};
pub use open::{Opened, ask_board, open};
pub use register_control::{RegisterControl, RegisterSettings};
pub use settings::{Backend, Policy, Settings};
pub use url::{Endpoint, HostPort, SourceUrl, UrlError};
pub use url_range::MOST_LINKS;
