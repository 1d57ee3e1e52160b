//! Sources on sockets: a receiver, the run's clock, and the policy for a full pool.
//!
//! ```text
//!  UdpReceiver, TcpReceiver ─ receive, mark ─► Frames          Full ─► busy, if so configured
//! ```

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use thalweg_data::{Busy, Counters, Frames, Received, Source, SourceError};
use thalweg_transport::{TcpReceiver, TransportError, UdpReceiver};

use crate::clock::RunClock;

/// Raises the run's BUSY while a source finds no block, once.
#[derive(Debug)]
pub(crate) struct BusyLine {
    busy: Option<Arc<Busy>>,
    clock: RunClock,
    raised: bool,
}

impl BusyLine {
    /// A line that raises `busy`, or nothing.
    pub(crate) fn new(busy: Option<Arc<Busy>>, clock: RunClock) -> BusyLine {
        BusyLine { busy, clock, raised: false }
    }

    pub(crate) fn follow(&mut self, received: Received) {
        let Some(busy) = &self.busy else { return };
        match (received, self.raised) {
            (Received::Full, false) => busy.raise(self.clock.mark()),
            (Received::Full, true) | (_, false) => return,
            (_, true) => busy.lower(self.clock.mark()),
        }
        self.raised = !self.raised;
    }
}

impl Drop for BusyLine {
    fn drop(&mut self) {
        self.follow(Received::End);
    }
}

pub(crate) fn source_error(place: impl ToString, error: &TransportError) -> SourceError {
    SourceError { place: place.to_string(), message: error.to_string() }
}

/// Datagrams from a socket.
pub struct UdpSource {
    receiver: UdpReceiver,
    clock: RunClock,
    busy: BusyLine,
    place: String,
}

impl UdpSource {
    /// Over an open receiver; `place` names it in errors.
    pub fn new(receiver: UdpReceiver, clock: RunClock, busy: Option<Arc<Busy>>, place: &str) -> UdpSource {
        UdpSource { receiver, clock, busy: BusyLine::new(busy, clock), place: place.to_owned() }
    }

    /// The receiver, as for its address.
    pub fn receiver(&mut self) -> &mut UdpReceiver {
        &mut self.receiver
    }
}

impl Source for UdpSource {
    fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError> {
        let received =
            self.receiver.receive(frames, wait).map_err(|error| source_error(&self.place, &error))?;
        self.busy.follow(received);
        frames.header.mark = self.clock.mark();
        Ok(received)
    }

    fn carry(&mut self, _bytes: usize) {}

    fn counters(&self) -> &Counters {
        self.receiver.counters()
    }

    fn waiting_bytes(&self) -> u64 {
        self.receiver.waiting_bytes()
    }

    fn abandon(&mut self) -> Result<(), SourceError> {
        self.receiver.abandon().map_err(|error| source_error(&self.place, &error))
    }

    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        self.receiver.drop_counters()
    }

    fn description(&self) -> String {
        self.receiver.description()
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }
}

/// A stream from a socket.
pub struct TcpSource {
    receiver: TcpReceiver,
    clock: RunClock,
    busy: BusyLine,
    place: String,
}

impl TcpSource {
    /// Over an open receiver; `place` names it in errors.
    pub fn new(receiver: TcpReceiver, clock: RunClock, busy: Option<Arc<Busy>>, place: &str) -> TcpSource {
        TcpSource { receiver, clock, busy: BusyLine::new(busy, clock), place: place.to_owned() }
    }
}

impl Source for TcpSource {
    fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError> {
        let received =
            self.receiver.receive(frames, wait).map_err(|error| source_error(&self.place, &error))?;
        self.busy.follow(received);
        frames.header.mark = self.clock.mark();
        Ok(received)
    }

    fn carry(&mut self, bytes: usize) {
        self.receiver.carry(bytes);
    }

    fn give_carried(&mut self, frames: &mut Frames) {
        self.receiver.give_carried(frames);
    }

    fn counters(&self) -> &Counters {
        self.receiver.counters()
    }

    fn waiting_bytes(&self) -> u64 {
        self.receiver.waiting_bytes()
    }

    fn abandon(&mut self) -> Result<(), SourceError> {
        self.receiver.abandon().map_err(|error| source_error(&self.place, &error))
    }

    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        self.receiver.drop_counters()
    }

    fn description(&self) -> String {
        self.receiver.description()
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }

    fn expect_units(&mut self, bytes: usize) {
        self.receiver.expect_units(bytes);
    }

    fn prefetch(&self) {
        self.receiver.prefetch();
    }
}
