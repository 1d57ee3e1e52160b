//! Counts a generator's datagrams by source at the receiver.
//!
//! ```text
//!  UdpReceiver ─► Census ─► Receipt: by source; what the socket and the host have thrown away meanwhile
//! ```

use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::{Frames, Pool, PoolError, SourceError};
use thalweg_readout::pcap::each_payload;
pub use thalweg_transport::UdpReceiverSettings;
use thalweg_transport::{TransportError, UdpReceiver};

use crate::device_counters::{CountersCommand, CountersError};
use crate::host::{Counter, HostFiles, LossCounters};
use crate::trial::{Census, SourceCensus};

/// A look at whether to end.
const WAIT: Duration = Duration::from_millis(50);
/// The time within which everything that is on its way arrives after every source has sent its end.
const SILENCE: Duration = Duration::from_millis(500);
/// Blocks for what is received, and bytes of each.
const BLOCKS: (usize, usize) = (64, 256 << 10);

/// Why nothing can be received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// There is no memory for the receipt.
    #[error("memory for what is received: {0}")]
    Memory(#[from] PoolError),
    /// The socket.
    #[error(transparent)]
    Receiver(#[from] TransportError),
    /// The device cannot be asked.
    #[error(transparent)]
    LossCounters(#[from] CountersError),
    /// Its address.
    #[error("the socket does not know its address: {0}")]
    Address(#[from] std::io::Error),
}

/// The data that were received.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Receipt {
    /// The counts by source, up to the last source that is known to be there.
    pub sources: Vec<SourceCensus>,
    /// True if every source has reported how many events it sent.
    pub ended: bool,
    /// Events that came, of all sources.
    pub received: u64,
    /// Events that did not; without the ends, a lower bound.
    pub missing: u64,
    /// Datagrams of other runs or programs.
    pub others: u64,
    /// Datagrams that the receiving socket has thrown away; null of a capture, which knows of none.
    pub socket_drops: Option<u64>,
    /// The host's losses meanwhile, of all programs.
    pub host_counters: Vec<Counter>,
    /// The losses that each hop on the path reports.
    pub hops: Vec<HopLoss>,
    /// Whether what the hops count is what is missing, in words.
    pub slot: String,
}

/// The loss that a hop reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HopLoss {
    /// The hop, in the order of the path.
    pub hop: &'static str,
    /// Frames or datagrams; null where it was not, or could not be asked.
    pub dropped: Option<u64>,
    /// True if it counts only what was sent here; otherwise it counts everything that passes it.
    pub is_own: bool,
}

/// The hops from a switch to the socket.
fn hops(device: Option<&[Counter]>, host: &[Counter], socket_drops: u64) -> Vec<HopLoss> {
    let sum = |counters: &[Counter], is_of: &dyn Fn(&str) -> bool| {
        counters.iter().filter(|counter| is_of(&counter.name)).map(|counter| counter.total).sum::<u64>()
    };
    let hop = |hop, dropped, is_own| HopLoss { hop, dropped, is_own };
    vec![
        hop("device", device.map(|counters| sum(counters, &|_| true)), false),
        hop("network card", Some(sum(host, &|name| !name.starts_with("host_"))), false),
        hop("kernel, before the socket", Some(sum(host, &|name| name == "host_softnet_dropped")), false),
        hop("receiving socket", Some(socket_drops), true),
    ]
}

/// Describes whether the hops count exactly what is missing. They count all programs, so that a larger count is no contradiction.
fn slot(missing: u64, is_bound: bool, hops: &[HopLoss]) -> String {
    let counted: u64 = hops.iter().filter_map(|hop| hop.dropped).sum();
    let bound = if is_bound { "at least " } else { "" };
    let unasked: Vec<&str> = hops.iter().filter(|hop| hop.dropped.is_none()).map(|hop| hop.hop).collect();
    let not_asked =
        if unasked.is_empty() { String::new() } else { format!("; not asked: {}", unasked.join(", ")) };
    match (missing, counted) {
        (0, _) if !is_bound => "nothing is missing".to_owned(),
        (missing, counted) if counted >= missing => {
            format!("{bound}{missing} missing, and the hops have thrown away {counted}{not_asked}")
        }
        (missing, counted) => format!(
            "{bound}{missing} missing, and the hops say {counted}: they were lost where nobody counts, or a counter is wrong{not_asked}"
        ),
    }
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

/// Counts until every source that was seen has said its end and nothing more comes, or for `most`, or until `stop` is set. `device` is
/// asked before and after.
///
/// # Errors
/// When the socket fails, or the device cannot be asked.
pub fn receive_from(
    mut receiver: UdpReceiver,
    most: Duration,
    device: Option<&CountersCommand>,
    stop: &AtomicBool,
) -> Result<Receipt, ReceiptError> {
    let of_device = || device.map(CountersCommand::read).transpose();
    let device_before = of_device()?;
    let before = LossCounters::read(&HostFiles::of_host());
    let (mut census, mut frames) = (Census::default(), Frames::default());
    let began = Instant::now();
    let mut ended: Option<Instant> = None;
    while !stop.load(Ordering::Acquire)
        && began.elapsed() < most
        && ended.is_none_or(|since| since.elapsed() < SILENCE)
    {
        frames.clear();
        receiver.receive(&mut frames, WAIT)?;
        frames.slices.iter().for_each(|slice| census.take(frames.bytes(*slice)));
        if census.is_ended() && (ended.is_none() || !frames.slices.is_empty()) {
            ended = Some(Instant::now());
        }
    }
    let host_counters = LossCounters::read(&HostFiles::of_host()).since(&before);
    let device = of_device()?.zip(device_before).map(|(now, before)| now.since(&before));
    Ok(Receipt::of(&census, hops(device.as_deref(), &host_counters, receiver.socket_drops()), host_counters))
}

/// Counts what is in a capture, taken at a mirror port or next to a receiver whose counts it is then compared with. The host's losses
/// meanwhile are unknown.
///
/// # Errors
/// When it is no capture, or cannot be read.
pub fn receive_capture(place: String, input: Box<dyn Read + Send>) -> Result<Receipt, SourceError> {
    let mut census = Census::default();
    let counts = each_payload(place, input, &mut |captured| {
        match captured.segment {
            None => census.take(captured.payload),
            Some(_) => census.others += 1,
        }
        true
    })?;
    census.others += counts.others + counts.unread;
    Ok(Receipt::of(&census, Vec::new(), Vec::new()))
}

impl Receipt {
    fn of(census: &Census, hops: Vec<HopLoss>, host_counters: Vec<Counter>) -> Receipt {
        let sources = census.sources();
        let missing = sources.iter().map(|source| source.missing).sum();
        let ended = !sources.is_empty() && sources.iter().all(|source| source.sent.is_some());
        Receipt {
            ended,
            received: sources.iter().map(|source| source.received).sum(),
            missing,
            others: census.others,
            socket_drops: hops.last().and_then(|hop| hop.dropped),
            slot: if hops.is_empty() { String::new() } else { slot(missing, !ended, &hops) },
            host_counters,
            hops,
            sources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Emitter, PayloadSizes, soon};

    #[test]
    fn a_source_that_is_lost_as_a_whole_is_missing_and_not_waited_for() {
        let (receiver, to) = open(UdpReceiverSettings::new(([127, 0, 0, 1], 0).into(), 100)).expect("a port");
        // Of four sources, those two.
        for first in [0, 2] {
            let from = [([127, 0, 0, 1], 0).into()];
            let mut emitter = Emitter::open(9, &from, to, PayloadSizes::constant(100)).expect("opened");
            emitter = emitter.numbered_from(first, 4);
            emitter.emit_and_end(0, 1, [Duration::ZERO; 10].into_iter(), soon());
        }
        let receipt = receive_from(receiver, Duration::MAX, None, &AtomicBool::new(false)).expect("received");
        assert_eq!((receipt.received, receipt.missing, receipt.ended), (20, 20, false), "{receipt:?}");
        assert!(receipt.slot.starts_with("at least 20 missing"), "{}", receipt.slot);
    }

    #[test]
    fn losses_are_held_against_what_each_hop_counts_and_what_was_not_asked_is_said() {
        let counter = |name: &str, total| Counter { name: name.to_owned(), total };
        let host = [
            counter("eth0 rx_missed_errors", 3),
            counter("host_softnet_dropped", 2),
            counter("host_udp_receive_buffer_errors", 9),
        ];
        let known = hops(Some(&[counter("port 3 discards", 10)]), &host, 1);
        assert_eq!(
            known.iter().map(|hop| hop.dropped).collect::<Vec<_>>(),
            [Some(10), Some(3), Some(2), Some(1)]
        );
        assert_eq!(slot(16, false, &known), "16 missing, and the hops have thrown away 16");
        assert!(slot(17, false, &known).contains("lost where nobody counts"));
        let unasked = hops(None, &host, 1);
        assert_eq!(
            slot(5, true, &unasked),
            "at least 5 missing, and the hops have thrown away 6; not asked: device"
        );
        assert_eq!(slot(0, false, &unasked), "nothing is missing");
    }
}
