//! IPbus 2.0: access to the registers of boards over UDP, TCP and a hub.
//!
//! A target is a bus of 32-bit words, each at its own address. A client sends a packet of transactions; the target does them in order and
//! answers with one packet. The crate stands alone: it knows nothing of hits, runs or recordings.
//!
//! - [`wire`]: packets, transactions, status, chunks of a hub: checked views and builders.
//! - [`uri`]: the address of a target and the options of a connection.
//! - [`client`]: queues operations, dispatches them in packets, returns values and outcomes.
//! - `datagrams`: runs of datagrams in one system call.
//! - `sequence`: packets in flight to one target, and recovery of lost ones.
//! - [`table`]: address tables and connection files of the original software.
//! - [`board`]: a target with its table: registers by name.
//! - [`hub`]: lets many clients share targets.
//! - [`scan`]: finds targets in a range of addresses.
//! - [`conformance`]: checks whether firmware follows the protocol.
//! - [`device`]: an emulated device: packet sequence, kept replies, registers with behaviour.
//! - [`faults`]: a bad network, for emulated devices.
//!
//! ```
//! use thalweg_ipbus::client::Client;
//! use thalweg_ipbus::device::{Buffers, Device, DeviceServer, Registers};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::new(Registers::new(), Buffers::default());
//! let server = DeviceServer::new(device, Some("127.0.0.1:0".parse()?), None)?;
//! let address = server.udp_address().ok_or("no socket")?;
//!
//! let mut client = Client::open(&format!("ipbusudp-2.0://{address}"))?;
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
