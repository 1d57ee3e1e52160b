//! IPbus 2.0: the registers of boards over UDP, TCP and a hub.
//!
//! A target is a bus of 32-bit words, each at an address of its own. A client sends a packet of transactions, the target does them in their
//! order and answers with one packet. The crate stands alone: it knows nothing of hits, runs or recordings.
//!
//! - [`wire`]: packets, transactions, status, chunks of a hub: checked views and their emission.
//! - [`uri`]: where a target is.
//! - [`client`]: jobs into packets, values and outcomes out of replies.
//! - `datagrams`: those of one size, in runs.
//! - `sequence`: packets on their way to one target: what is lost is found and got back.
//! - [`table`]: address tables and connection files of the original.
//! - [`board`]: a target with its table: registers by name.
//! - [`hub`]: clients that share targets.
//! - [`scan`]: which addresses have a target.
//! - [`conformance`]: whether firmware does what it has to.
//! - [`device`]: what firmware does: sequence, replies that are kept, registers that behave.
//! - [`faults`]: a bad network, for emulated boards.
//!
//! ```
//! use thalweg_ipbus::client::Client;
//! use thalweg_ipbus::device::{Buffers, Device, DeviceServer, Registers};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::new(Registers::new(), Buffers::default());
//! let server = DeviceServer::new(device, Some("127.0.0.1:0".parse()?), None)?;
//! let place = server.udp_address().ok_or("no socket")?;
//!
//! let mut client = Client::open(&format!("ipbusudp-2.0://{place}"))?;
//! let mut block = [0; 1000];
//! let mut queue = client.queue();
//! queue.write(0x10, 7);
//! let before = queue.add_to(0x10, 5);
//! queue.read_block(0x10, &mut block);
//! let done = queue.dispatch()?;
//! assert_eq!((done.word(before), block[0]), (7, 12));
//! # Ok(())
//! # }
//! ```

pub mod board;
pub mod client;
pub mod conformance;
mod datagrams;
pub mod device;
pub mod faults;
pub mod hub;
pub mod scan;
mod sequence;
pub mod table;
pub mod uri;
pub mod wire;
