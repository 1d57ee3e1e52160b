//! Endpoint and framing become a source of frames.
//!
//! ```text
//!  Settings { url, … } ─ open ─► Opened { source, control, pool, address }
//!
//!  udp:// emulate:// ─► UdpSource  ┐
//!  tcp://            ─► TcpSource  │
//!  dig2://           ─► BoardSource├─► Frames with a mark ─► (Faulty) ─► framing
//!  file://           ─► FileSource │
//!  pcap://           ─► PcapSource ┘
//!
//!  host::HostedBoard: an emulated board on real sockets, the other end of all this
//! ```
//! Every source marks its batches with nanoseconds since the run began and returns within the wait it is given, whether
//! anything came or not.
//!
//! - `url`: where data come from, in one line: [`SourceUrl`].
//! - `url_range`: many links in one URL.
//! - `settings`: the settings of a source's endpoint: [`Settings`].
//! - `pool_refusal`: what can be done about memory that a source cannot have: [`pool_refusal()`].
//! - `open`: from settings to an open source: [`open()`].
//! - [`live`]: sources on sockets, and the policy for a full pool.
//! - [`clock`]: the clock of arrival marks.
//! - [`control`]: the way to a board's control port, of any family.
//! - `board_link`: the data of a board over all its connections, opened again when they break.
//! - [`file`](mod@file): bytes as they stand in files.
//! - [`pcap`]: captures as a source, and written.
//! - [`faults`]: a bad network in front of any source.
//! - [`links`]: from one setting of triggered boards to their links.
//! - [`group`]: many links on one thread.
//! - [`host`]: emulated boards on real sockets.
//! - `emulated`: the boards at the other end of a source's links.
//! - [`busy`]: BUSY for a real trigger.
//! - `busy_input`: the trigger's end of it: [`BusyInput`].
//! - [`device`]: devices of slow control, of every family.
//! - `ipbus_control`: an IPbus target driven through its registers: [`IpbusControl`].

mod board_link;
pub mod busy;
mod busy_input;
pub mod clock;
pub mod control;
pub mod device;
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
mod pool_refusal;
mod settings;
mod url;
mod url_range;

pub use busy::{BusyError, BusyOutput, BusySettings, SetRegister};
pub use busy_input::{BusyInput, BusyInputCounts};
pub use clock::RunClock;
pub use control::make_idle;
pub use device::{Applied, DeviceSettings, Switch};
pub use emulated::{answer_sizes, other_ends};
pub use faults::{FaultError, FaultSettings, Faults, Faulty};
pub use group::{Each, Group, GroupSettings, Inputs, Link, News, Take, Turn, each};
pub use ipbus_control::IpbusControl;
pub use links::{LinkSettings, OpenedLinks, open_links};
pub use open::{AskedBoard, Opened, ask_board, open, take_board};
pub use pool_refusal::pool_refusal;
pub use settings::{BlockPolicy, DatagramBackend, Settings};
pub use url::{Endpoint, HostPort, SourceUrl, UrlError};
pub use url_range::MOST_LINKS;
