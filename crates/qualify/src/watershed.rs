//! The watershed: for each separation of events, how many of them a device takes without a loss; depth and drain rate from that.
//!
//! ```text
//!  Search ─► Request ─► emitted, received, judged ─► Outcome ─► Search …  ─► columns
//!                                                └► Trial ────► fit ──────► depth, rate, with intervals
//! ```

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::Pool;
use thalweg_transport::{TransportError, UdpReceiver, UdpReceiverSettings};

use crate::switch::burst::peak_bytes;
use crate::switch::fit::{Fit, FitError, Trial, fit};
use crate::switch::frame::{Frame, PayloadTooLong};
use crate::switch::search::{End, Outcome, Search, Settings};
use crate::testbed::{RECEIVER, Testbed, TestbedError};
use crate::trial::{Beside, Emitter, Judged, Receiver, Way, judge};

/// Where the sources send to.
const PORT: u16 = 50_000;
/// Blocks for what is received, and bytes of each.
const BLOCKS: (usize, usize) = (64, 256 << 10);
/// A scheduler may keep a thread for so long: what comes later than the queue takes to drain, and this, does not come any more.
const LONGEST_STALL: Duration = Duration::from_millis(150);

/// Why there is no map.
#[derive(Debug, thiserror::Error)]
pub enum WatershedError {
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
    Receiver(#[from] TransportError),
    /// No memory for it.
    #[error("memory for what is received: {0}")]
    Memory(String),
    /// It was opened, and has failed.
    #[error("the receiver has failed: {0}")]
    Received(String),
}

/// One trial, as a point of the plane.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Point {
    /// Separation of events, s.
    pub separation_s: f64,
    /// Events.
    pub events: u64,
    /// `lossless`, `lossy` or `invalid`.
    pub outcome: &'static str,
    /// Of an invalid one, why.
    pub why: String,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// Datagrams that the device says it has thrown away, where it can be asked.
    pub dropped: Option<u64>,
    /// Half of the events were later than this, s.
    pub lateness_median_s: f64,
    /// Half of them took longer than this from the first source to the last, s.
    pub skew_median_s: f64,
}

impl Point {
    fn of(judged: &Judged) -> Point {
        let (outcome, why) = match &judged.outcome {
            Outcome::Lossless => ("lossless", String::new()),
            Outcome::Lossy => ("lossy", String::new()),
            Outcome::Invalid(why) => ("invalid", why.clone()),
        };
        Point {
            separation_s: judged.trial.separation_s,
            events: judged.trial.times_s.len() as u64,
            outcome,
            why,
            sent: judged.sent,
            lost: judged.sent.saturating_sub(judged.received),
            dropped: judged.dropped,
            lateness_median_s: judged.lateness_median_s,
            skew_median_s: judged.skew_median_s,
        }
    }
}

/// What is known of a separation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ColumnReport {
    /// Separation of events, s.
    pub separation_s: f64,
    /// The most events without loss; 0 where there is none such.
    pub lossless_events: u64,
    /// The fewest above it with loss; null where none was found.
    pub lossy_events: Option<u64>,
    /// Trials that count, and that do not.
    pub trials: u32,
    /// Those that do not.
    pub invalid: u32,
    /// How its search ended, in words.
    pub end: String,
}

/// A map of a device.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Watershed {
    /// Sources that send together.
    pub sources: u32,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// What a frame takes in the accounting of the device, bytes.
    pub frame_bytes: u32,
    /// Of a testbed: what fits into it, bytes.
    pub true_depth_bytes: u64,
    /// Of a testbed: its rate, bits per second.
    pub true_rate_bits_per_s: f64,
    /// Fitted depth, bytes; null where there is no fit.
    pub fitted_depth_bytes: Option<f64>,
    /// With a confidence of 95 %, from and to, bytes.
    pub fitted_depth_interval: Option<[f64; 2]>,
    /// Fitted drain rate, bits per second.
    pub fitted_rate_bits_per_s: Option<f64>,
    /// With a confidence of 95 %, from and to, bits per second.
    pub fitted_rate_interval: Option<[f64; 2]>,
    /// Everything of the fit.
    pub fit: Option<Fit>,
    /// Why there is no fit, or what is wrong with it; empty where nothing is.
    pub remark: String,
    /// By separation.
    pub columns: Vec<ColumnReport>,
    /// Every trial, in the order in which they were made.
    pub points: Vec<Point>,
    /// How long it took, s.
    pub seconds: f64,
}

/// The device, with sources and receiver opened.
pub struct Mapper<'t> {
    testbed: &'t Testbed,
    way: Way,
    frame: Frame,
    emitter: Emitter,
    receiver: Receiver,
    trial: u32,
}

impl<'t> Mapper<'t> {
    /// Opens sources and receiver at a testbed.
    ///
    /// # Errors
    /// When they cannot be.
    pub fn open(testbed: &'t Testbed, datagram_bytes: u32) -> Result<Mapper<'t>, WatershedError> {
        let frame = Frame::new(datagram_bytes)?;
        let settings = testbed.settings();
        let rate_bytes_per_s = settings.rate_bits_per_s / 8.0;
        let drained = Duration::from_secs_f64(testbed.true_depth_bytes() as f64 / rate_bytes_per_s);
        let way = Way {
            rate_bytes_per_s,
            frame_bytes: f64::from(frame.qdisc_bytes()),
            lossless_bytes: 0.0,
            silence: drained + LONGEST_STALL,
        };
        let run = u64::from(std::process::id()) << 32 | u64::from(Instant::now().elapsed().subsec_nanos());
        let to = SocketAddr::from((RECEIVER, PORT));
        let pool =
            Pool::new(BLOCKS.0, BLOCKS.1).map_err(|error| WatershedError::Memory(error.to_string()))?;
        let udp = UdpReceiverSettings::new(to, datagram_bytes as usize);
        let receiver = testbed.at_receiver(|| UdpReceiver::open(udp, pool))??;
        let addresses: Vec<SocketAddr> = (0..settings.sources)
            .map(|source| SocketAddr::new(testbed.source(source), PORT + 1 + source))
            .collect();
        let emitter =
            testbed.at_sources(|| Emitter::open(run, &addresses, to, datagram_bytes as usize))??;
        Ok(Mapper { testbed, way, frame, emitter, receiver: Receiver::start(run, receiver)?, trial: 0 })
    }

    /// Makes one trial.
    fn measure(&mut self, request: crate::switch::search::Request) -> Result<Judged, WatershedError> {
        self.trial += 1;
        let before = (self.testbed.dropped_frames()?, self.receiver.socket_drops());
        self.receiver.begin(self.trial);
        let emission = self.emitter.emit(self.trial, request.events, request.separation_s);
        let reception = self
            .receiver
            .finish(emission.sent, request.events, self.way.silence)
            .map_err(WatershedError::Received)?;
        let beside = Beside {
            dropped: Some(self.testbed.dropped_frames()?.saturating_sub(before.0)),
            socket_drops: self.receiver.socket_drops().saturating_sub(before.1),
        };
        let judged = judge(request, self.way, self.emitter.sources(), &emission, &reception, beside);
        if judged.outcome == Outcome::Lossless {
            let event_bytes = f64::from(self.emitter.sources()) * self.way.frame_bytes;
            let reached = peak_bytes(&judged.trial.times_s, event_bytes, self.way.rate_bytes_per_s);
            self.way.lossless_bytes = self.way.lossless_bytes.max(reached);
        }
        Ok(judged)
    }

    /// Maps so many columns; `seen` is given each point as it is made.
    ///
    /// # Errors
    /// When the device or the receiver is gone.
    pub fn map(&mut self, columns: usize, seen: &mut dyn FnMut(&Point)) -> Result<Watershed, WatershedError> {
        let began = Instant::now();
        let event_bytes = f64::from(self.emitter.sources()) * self.way.frame_bytes;
        let mut search = Search::new(Settings::spread(columns, event_bytes / self.way.rate_bytes_per_s));
        let (mut trials, mut points): (Vec<Trial>, Vec<Point>) = Default::default();
        while let Some(request) = search.next() {
            let judged = self.measure(request)?;
            let point = Point::of(&judged);
            seen(&point);
            points.push(point);
            search.report(judged.outcome);
            trials.push(judged.trial);
        }
        let fitted = fit(&trials);
        Ok(self.report(&search, fitted, points, began.elapsed().as_secs_f64()))
    }

    fn report(
        &self,
        search: &Search,
        fitted: Result<Fit, FitError>,
        points: Vec<Point>,
        seconds: f64,
    ) -> Watershed {
        let columns = search.columns().iter().map(|column| ColumnReport {
            separation_s: column.separation_s,
            lossless_events: column.lossless_events,
            lossy_events: column.lossy_events,
            trials: column.trials,
            invalid: column.invalid,
            end: end_words(column.end.as_ref()),
        });
        let bits = |bytes: f64| 8.0 * bytes;
        let found = fitted.as_ref().ok();
        Watershed {
            sources: self.emitter.sources(),
            datagram_bytes: self.frame.payload_bytes(),
            frame_bytes: self.frame.qdisc_bytes(),
            true_depth_bytes: self.testbed.true_depth_bytes(),
            true_rate_bits_per_s: self.testbed.settings().rate_bits_per_s,
            fitted_depth_bytes: found.map(|fit| fit.depth_bytes),
            fitted_depth_interval: found.map(|fit| fit.depth_interval_bytes),
            fitted_rate_bits_per_s: found.map(|fit| bits(fit.rate_bytes_per_s)),
            fitted_rate_interval: found.map(|fit| fit.rate_interval_bytes_per_s.map(bits)),
            remark: fitted.as_ref().err().map_or(String::new(), ToString::to_string),
            fit: fitted.ok(),
            columns: columns.collect(),
            points,
            seconds,
        }
    }
}

fn end_words(end: Option<&End>) -> String {
    match end {
        Some(End::Bracketed) => "bracketed".to_owned(),
        Some(End::NeverLossy) => "nothing was lost up to the most events".to_owned(),
        Some(End::NeverLossless) => "a single event is lost".to_owned(),
        Some(End::OutOfTrials) => "its trials were used up".to_owned(),
        Some(End::Refused(why)) => format!("refused: {why}"),
        None => "not searched".to_owned(),
    }
}
