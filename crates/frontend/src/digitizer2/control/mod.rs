//! The control protocol of x27xx boards, both sides, without a socket.
//!
//! ```text
//!  client: Opening, Request ─► framed JSON ─► server: Session ─► Tree, Action ─► the board
//!          Reply           ◄─ framed JSON ◄─                    flag, values
//!  Board: the client over a channel of the host
//! ```
//! There is one reply per request, in order, over a TCP connection to port [`CONTROL_PORT`]. Data have other ports:
//! that of the TCP data connection is a value of the tree, UDP data use [`UDP_DATA_PORT`].

mod board;
pub mod client;
mod faults;
mod initial_values;
mod listing;
pub mod message;
pub mod server;
mod service;
mod status;
pub mod tree;

pub use board::Board;
pub use client::{BoardInfo, Client, ClientError, Opening};
pub use faults::Faults;
pub use listing::{nodes_of, parameters_of};
pub use message::{Assembler, Flag, MessageError, Reply, Request, Verb};
pub use server::{Action, Server, Session};
pub use service::Service;
pub use status::Status;
pub use tree::{NodeType, Tree, TreeError};

/// TCP port on which a board answers requests.
pub const CONTROL_PORT: u16 = 0xCAE0;
/// UDP port from which a board streams.
pub const UDP_DATA_PORT: u16 = 0xCAE4;
/// The register that is not "0" when the board knows where to send datagrams.
pub const UDP_READY_REGISTER: &str = "0x8014";

/// The start source that is a command; the others are signals.
const SOFTWARE_START: &str = "SWcmd";

/// Whether a board with these start sources, joined by `|`, starts by command.
fn starts_by_software(sources: &str) -> bool {
    sources.split('|').any(|source| source.trim().eq_ignore_ascii_case(SOFTWARE_START))
}

#[cfg(test)]
mod board_tests;
#[cfg(test)]
mod tests;
