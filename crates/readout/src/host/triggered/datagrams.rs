//! A link of emulated boards over UDP: all boards answer a trigger, and their datagrams go in as few calls as possible.
//!
//! ```text
//!  trigger by trigger: board, board, board … ─► arena ─ 256 KiB ─► UDP_SEGMENT, sendmmsg
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use thalweg_frontend::trigger::Trigger;
use thalweg_transport::{TransportError, UdpSender};

use super::BoardTotals;
use super::answering::Answering;

/// Bytes put together before they are sent: they are still in the cache when they are.
const ARENA_BYTES: usize = 256 << 10;
/// How long one send may wait for space in the kernel.
const SEND_WAIT: Duration = Duration::from_millis(1);

/// A link of boards that send datagrams.
pub(super) struct DatagramLink {
    sender: UdpSender,
    boards: Answering,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Datagrams of the arena that have gone.
    gone: usize,
}

impl DatagramLink {
    pub(super) fn new(to: SocketAddr, boards: Answering) -> Result<DatagramLink, TransportError> {
        let any = match to.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Ok(DatagramLink {
            sender: UdpSender::open(SocketAddr::new(any, 0), to)?,
            boards,
            bytes: Vec::with_capacity(ARENA_BYTES),
            ends: Vec::new(),
            gone: 0,
        })
    }

    pub(super) fn totals(&self) -> &[BoardTotals] {
        self.boards.totals()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.gone == self.ends.len()
    }

    /// All boards answer all triggers; what they say is sent as it comes. Boards without power are silent.
    pub(super) fn answer(&mut self, triggers: &[Trigger], powered: bool) -> Result<(), TransportError> {
        for trigger in triggers {
            for index in 0..self.boards.count() {
                let (bytes, datagrams) = (self.bytes.len(), self.ends.len());
                let given = self.boards.answer(index, *trigger, &mut self.bytes, &mut self.ends);
                if powered {
                    self.boards.sends(index, given.datagrams);
                } else {
                    self.boards.discard(index, given.answers, given.bytes);
                    self.bytes.truncate(bytes);
                    self.ends.truncate(datagrams);
                }
            }
            if self.bytes.len() >= ARENA_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Sends what the kernel has space for. Returns whether everything has gone.
    pub(super) fn flush(&mut self) -> Result<bool, TransportError> {
        if self.ends.is_empty() {
            return Ok(true);
        }
        let mut start = self.gone.checked_sub(1).map_or(0, |last| self.ends[last]);
        let datagrams: Vec<&[u8]> = self.ends[self.gone..]
            .iter()
            .map(|&end| {
                let datagram = &self.bytes[start..end];
                start = end;
                datagram
            })
            .collect();
        self.gone += self.sender.send(&datagrams, SEND_WAIT)?;
        if self.is_drained() {
            self.bytes.clear();
            self.ends.clear();
            self.gone = 0;
        }
        Ok(self.ends.is_empty())
    }
}
