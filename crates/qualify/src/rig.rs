//! A device between its sources and its receiver: everything that measures it goes through here.
//!
//! ```text
//!  Testbed ─► Emitter ═ device ═ Receiver
//!  Request ─► burst:  all sources together ──────────┬► emitted, received, judged ─► Judged
//!  rate ────► steady: one source behind the other ───┘
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use crate::receipt::{self, ReceiptError, UdpReceiverSettings};
use crate::switch::burst::peak_bytes;
use crate::switch::frame::{Frame, PayloadTooLong};
use crate::switch::search::{Outcome, Request};
use crate::testbed::{RECEIVER, Testbed, TestbedError};
use crate::trial::{Beside, Emission, Emitter, Judged, Pattern, Receiver, Reception, Way, judge, new_run};

/// Where the sources send to.
const PORT: u16 = 50_000;
/// Datagrams of one trial at most: the time of each is kept, in 16 bytes.
const MOST_DATAGRAMS: f64 = 5e7;
/// A scheduler may keep a thread for so long: what comes later than the queue takes to drain, and this, does not come any more.
const LONGEST_STALL: Duration = Duration::from_millis(150);

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// No device.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// No frame is that long.
    #[error(transparent)]
    Payload(#[from] PayloadTooLong),
    /// The sources cannot send, or the receiver cannot count.
    #[error("{0}")]
    Socket(#[from] std::io::Error),
    /// The receiver cannot be opened.
    #[error(transparent)]
    Receiver(#[from] ReceiptError),
    /// More datagrams than are remembered.
    #[error(
        "{datagrams:.1e} datagrams in one trial are more than {MOST_DATAGRAMS:.0e}, whose times are remembered: shorter trials, or longer datagrams"
    )]
    TooLong {
        /// So many.
        datagrams: f64,
    },
    /// It was opened, and has failed.
    #[error("the receiver has failed: {0}")]
    Received(String),
}

/// The device, with sources and receiver opened.
pub struct Rig<'t> {
    testbed: &'t Testbed,
    way: Way,
    frame: Frame,
    emitter: Emitter,
    receiver: Receiver,
    trial: u32,
}

impl<'t> Rig<'t> {
    /// The device.
    pub fn testbed(&self) -> &Testbed {
        self.testbed
    }

    /// What every source sends.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// How many sources there are.
    pub fn sources(&self) -> u32 {
        self.emitter.sources()
    }

    /// What an event brings, bytes in the device's accounting.
    pub fn event_bytes(&self) -> f64 {
        f64::from(self.sources()) * self.way.frame_bytes
    }

    /// The rate of the output as it is stated, bytes per second.
    pub fn rate_bytes_per_s(&self) -> f64 {
        self.way.rate_bytes_per_s
    }

    /// Opens sources and receiver at a testbed.
    ///
    /// # Errors
    /// When they cannot be.
    pub fn open(testbed: &'t Testbed, datagram_bytes: u32) -> Result<Rig<'t>, RigError> {
        let frame = Frame::new(datagram_bytes)?;
        let settings = testbed.settings();
        let rate_bytes_per_s = settings.rate_bits_per_s / 8.0;
        let drained = Duration::from_secs_f64(testbed.true_depth_bytes() as f64 / rate_bytes_per_s);
        let way = Way {
            rate_bytes_per_s,
            frame_bytes: f64::from(frame.qdisc_bytes()),
            pattern: Pattern::Burst,
            lossless_bytes: 0.0,
            silence: drained + LONGEST_STALL,
        };
        let run = new_run();
        let to = SocketAddr::from((RECEIVER, PORT));
        let udp = UdpReceiverSettings::new(to, datagram_bytes as usize);
        let (receiver, _) = testbed.at_receiver(|| receipt::open(udp))??;
        let addresses: Vec<SocketAddr> = (0..settings.sources)
            .map(|source| SocketAddr::new(testbed.source(source), PORT + 1 + source))
            .collect();
        let emitter =
            testbed.at_sources(|| Emitter::open(run, &addresses, to, datagram_bytes as usize))??;
        Ok(Rig { testbed, way, frame, emitter, receiver: Receiver::start(run, receiver)?, trial: 0 })
    }

    /// Makes one trial of even events, in which all sources send together.
    ///
    /// # Errors
    /// When the device or the receiver is gone.
    pub fn burst(&mut self, request: Request) -> Result<Judged, RigError> {
        let (events, separation_s) = (request.events, request.separation_s);
        let sent = self.send(events, |emitter, trial| emitter.emit(trial, events, separation_s))?;
        let judged = judge(request, self.way, self.sources(), &sent.emission, &sent.reception, sent.beside);
        if judged.outcome == Outcome::Lossless {
            let reached = peak_bytes(&judged.trial.times_s, self.event_bytes(), self.way.rate_bytes_per_s);
            self.way.lossless_bytes = self.way.lossless_bytes.max(reached);
        }
        Ok(judged)
    }

    /// Makes one trial in which sources send one behind the other, evenly: nothing waits for anything but the rate of the output.
    ///
    /// # Errors
    /// As of a burst.
    pub fn steady(&mut self, rate_hz: f64, seconds: f64) -> Result<Judged, RigError> {
        let events = (rate_hz * seconds).ceil().max(1.0);
        let datagrams = events * f64::from(self.sources());
        if datagrams > MOST_DATAGRAMS {
            return Err(RigError::TooLong { datagrams });
        }
        let events = events as u64;
        let sent = self.send(events, |emitter, trial| emitter.emit_spread(trial, events, 1.0 / rate_hz))?;
        // Each datagram is an event of one source.
        let sources = u64::from(self.sources());
        let separation_s = 1.0 / (rate_hz * sources as f64);
        let request = Request { column: 0, separation_s, events: events * sources };
        let way = Way { pattern: Pattern::Steady, ..self.way };
        Ok(judge(request, way, 1, &sent.emission, &sent.reception, sent.beside))
    }

    fn send(
        &mut self,
        events: u64,
        emit: impl FnOnce(&mut Emitter, u32) -> Emission,
    ) -> Result<Sent, RigError> {
        self.trial += 1;
        let before = (self.testbed.dropped_frames()?, self.receiver.socket_drops());
        self.receiver.begin(self.trial);
        let emission = emit(&mut self.emitter, self.trial);
        let received = self.receiver.finish(emission.sent, events, self.way.silence);
        let reception = received.map_err(RigError::Received)?;
        let beside = Beside {
            dropped: Some(self.testbed.dropped_frames()?.saturating_sub(before.0)),
            socket_drops: self.receiver.socket_drops().saturating_sub(before.1),
        };
        Ok(Sent { emission, reception, beside })
    }
}

/// A trial before it is judged.
struct Sent {
    emission: Emission,
    reception: Reception,
    beside: Beside,
}
