//! The other end of a generator: what came of each source, until all of them have said their end.
//!
//! ```text
//!  UdpReceiver ─► Census ─► Receipt: by source; what the socket and the host have thrown away meanwhile
//! ```

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::{Frames, Pool, PoolError};
pub use thalweg_transport::UdpReceiverSettings;
use thalweg_transport::{TransportError, UdpReceiver};

use crate::host::{Counter, Counters, HostFiles};
use crate::trial::{Census, SourceCensus};

/// A look at whether to end.
const WAIT: Duration = Duration::from_millis(50);
/// What is on its way when every source has said its end comes within this time.
const SILENCE: Duration = Duration::from_millis(500);
/// Blocks for what is received, and bytes of each.
const BLOCKS: (usize, usize) = (64, 256 << 10);

/// Why nothing can be received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// No memory for it.
    #[error("memory for what is received: {0}")]
    Memory(#[from] PoolError),
    /// The socket.
    #[error(transparent)]
    Receiver(#[from] TransportError),
    /// Its address.
    #[error("the socket does not know its address: {0}")]
    Address(#[from] std::io::Error),
}

/// What was received.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Receipt {
    /// By source, those that were seen.
    pub sources: Vec<SourceCensus>,
    /// Whether every source that was seen has said how many events it sent.
    pub ended: bool,
    /// Events that came, of all sources.
    pub received: u64,
    /// Events that did not; without the ends, at least so many.
    pub missing: u64,
    /// Datagrams of other runs or programs.
    pub others: u64,
    /// Datagrams that the receiving socket has thrown away.
    pub socket_drops: u64,
    /// What the host has thrown away meanwhile, of all programs.
    pub host_counters: Vec<Counter>,
}

/// Opens the receiving socket, and says where it is.
///
/// # Errors
/// When the address is taken or not this host's, or there is no memory.
pub fn open(settings: UdpReceiverSettings) -> Result<(UdpReceiver, SocketAddr), ReceiptError> {
    let receiver = UdpReceiver::open(settings, Pool::new(BLOCKS.0, BLOCKS.1)?)?;
    let address = receiver.local_address()?;
    Ok((receiver, address))
}

/// Counts until every source that was seen has said its end and nothing more comes, or for `most`.
///
/// # Errors
/// When the socket fails.
pub fn receive_from(mut receiver: UdpReceiver, most: Duration) -> Result<Receipt, ReceiptError> {
    let before = Counters::read(&HostFiles::of_host());
    let (mut census, mut frames) = (Census::default(), Frames::default());
    let began = Instant::now();
    let mut ended: Option<Instant> = None;
    while began.elapsed() < most && ended.is_none_or(|since| since.elapsed() < SILENCE) {
        frames.clear();
        receiver.receive(&mut frames, WAIT)?;
        frames.slices.iter().for_each(|slice| census.take(frames.bytes(*slice)));
        if census.is_ended() && (ended.is_none() || !frames.slices.is_empty()) {
            ended = Some(Instant::now());
        }
    }
    let sources = census.sources();
    Ok(Receipt {
        ended: census.is_ended(),
        received: sources.iter().map(|source| source.received).sum(),
        missing: sources.iter().map(|source| source.missing).sum(),
        others: census.others,
        socket_drops: receiver.socket_drops(),
        host_counters: Counters::read(&HostFiles::of_host()).since(&before),
        sources,
    })
}
