//! A device between its sources and its receiver: everything that measures it goes through here.
//!
//! ```text
//!  sources: here, in a testbed ─┐                           ┌─ receiver: here, in a testbed or at an address of this host
//!           on other hosts ─────┴─► device ═════════════════┘
//!  Schedule ─► sent, received, judged ─► Judged             what the device has thrown away: its queues, or a command
//! ```

pub mod control;
mod flow_control;
mod sources;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use flow_control::{FlowControl, PauseState};
use schemars::JsonSchema;
use serde::Serialize;
use sources::Sources;
pub use sources::{FarError, StartSkew, emit_program};

use crate::device_counters::{CountersCommand, CountersError};
use crate::host::{Counter, LossCounters, PauseReading};
use crate::receipt::{self, ReceiptError, UdpReceiverSettings};
use crate::switch::burst::peak_bytes;
use crate::switch::frame::{Frame, PayloadTooLong};
use crate::switch::search::{Settings as SearchSettings, TrialOutcome};
use crate::testbed::{Testbed, TestbedError, TestbedSettings};
use crate::trial::{
    Beside, Emission, Emitter, Judged, KnownPath, PayloadSizes, Receiver, Reception, Schedule, judge, new_run,
};
use control::Opening;

/// The port that the sources of a testbed send to.
const PORT: u16 = 50_000;
/// The longest time for which a scheduler may keep a thread: a datagram later than this and the draining time of the queue is lost.
const LONGEST_STALL: Duration = Duration::from_millis(150);
/// The rate of an output is measured over this time at least, s.
const RATE_SPAN_S: f64 = 0.5;
/// A generator that overloads an output by less does not overload it surely.
const LEAST_OVERLOAD: f64 = 1.05;
/// Events of a measurement of the rate at most.
const MOST_RATE_EVENTS: u64 = 1 << 21;

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// There is no device.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The payload is too long for a frame.
    #[error(transparent)]
    Payload(#[from] PayloadTooLong),
    /// The sources cannot send, or the receiver cannot count.
    #[error("{0}")]
    Socket(#[from] std::io::Error),
    /// The receiver cannot be opened.
    #[error(transparent)]
    Receiver(#[from] ReceiptError),
    /// Sources on other hosts.
    #[error(transparent)]
    Far(#[from] FarError),
    /// The device cannot be asked.
    #[error(transparent)]
    LossCounters(#[from] CountersError),
    /// The rate of its output cannot be measured.
    #[error(
        "the rate of the output is not known: {events} events back to back of {sources} sources lost nothing, or were sent hardly faster than they came; state the rate, or use more sources"
    )]
    NoOverload {
        /// So many.
        events: u64,
        /// The number of sources.
        sources: u32,
    },
    /// The same, because senders waited.
    #[error("the rate of the output is not known: {0}")]
    Paused(String),
    /// It was asked to stop.
    #[error("stopped before the end")]
    Stopped,
    /// It was opened, and has failed.
    #[error("the receiver has failed: {0}")]
    Received(String),
}

/// A device between hosts.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The receiver's address, one of this host.
    pub receiver: SocketAddr,
    /// The hosts that send, where they are controlled.
    pub controls: Vec<SocketAddr>,
    /// Sources on each of them, which are stacked on its input of the device.
    pub sources_per_host: u16,
    /// UDP payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// The rate of the output that leads to the receiver, bits per second; measured where it is not stated.
    pub rate_bits_per_s: Option<f64>,
    /// The longest time that the buffer may take to drain.
    pub longest_drain: Duration,
    /// The command that reads the device's counts.
    pub counters: Option<CountersCommand>,
}

/// The device between sources and receiver.
enum Device<'t> {
    Testbed(&'t Testbed),
    Unknown(Option<CountersCommand>),
}

/// The origin of the rate of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateSource {
    /// It was given.
    Stated,
    /// Measured as what came per second in an overload.
    Measured,
}

/// Reads the card that has an address.
type ReadPause = fn(IpAddr) -> PauseReading;

/// The device, with sources and receiver opened.
pub struct Rig<'t> {
    device: Device<'t>,
    path: KnownPath,
    rate_source: RateSource,
    frame: Frame,
    frame_bytes: u32,
    sources: Sources,
    /// Sources that send to each output that is in use.
    active: u32,
    outputs: u16,
    receiver: Receiver,
    /// The receiver's address, where its card is one that may pause, and what reads that card.
    card: Option<(IpAddr, ReadPause)>,
    /// The counts of PAUSE that cards reported last, each with the card's place.
    pauses: Vec<(String, PauseReading)>,
    trial: u32,
    /// The longest time in which the buffer drains.
    longest_drain: Duration,
    stop: Arc<AtomicBool>,
}

impl<'t> Rig<'t> {
    /// Opens sources and receiver at a testbed; the first of its outputs is in use. No trial begins once `stop` is set, and one that is sent is not sent to its end.
    ///
    /// # Errors
    /// When they cannot be.
    pub fn at_testbed(
        testbed: &'t Testbed,
        datagram_bytes: u32,
        stop: &Arc<AtomicBool>,
    ) -> Result<Rig<'t>, RigError> {
        let settings = testbed.settings();
        let frame = Frame::new(datagram_bytes)?;
        let (run, bytes) = (new_run(), datagram_bytes as usize);
        let socket = |to: Ipv4Addr| {
            let settings = UdpReceiverSettings::new(SocketAddr::from((to, PORT)), bytes);
            testbed.at_receiver(|| receipt::open(settings))?.map(|(socket, _)| socket).map_err(RigError::from)
        };
        let sockets = testbed.receivers().into_iter().map(socket).collect::<Result<Vec<_>, _>>()?;
        let way_of = |source: u16| {
            let from = SocketAddr::new(testbed.source(source), PORT + 1 + source);
            (from, SocketAddr::from((testbed.receiver_of(source), PORT)))
        };
        let ways: Vec<_> = (0..settings.sources).map(way_of).collect();
        let mut emitter = testbed
            .at_sources(|| Emitter::open_each(run, &ways, PayloadSizes::constant(datagram_bytes)))??
            .until(stop.clone());
        emitter.use_every(settings.outputs);
        let drain_s = 8.0 * settings.whole_depth_bytes() as f64 / settings.rate_bits_per_s;
        Rig {
            device: Device::Testbed(testbed),
            path: known_path(
                frame.qdisc_bytes(),
                u32::from(settings.stacking),
                Duration::from_secs_f64(drain_s),
            ),
            rate_source: RateSource::Stated,
            frame,
            frame_bytes: frame.qdisc_bytes(),
            active: u32::from(settings.sources_per_output()),
            outputs: 1,
            sources: Sources::Here(emitter),
            receiver: Receiver::start(run, sockets)?,
            card: None,
            pauses: Vec::new(),
            trial: 0,
            longest_drain: Duration::from_secs_f64(drain_s),
            stop: stop.clone(),
        }
        // A blind device is measured like one with nothing stated.
        .with_rate(settings.blind.is_none().then_some(settings.rate_bits_per_s))
    }

    /// Opens the receiver here, and sources on other hosts.
    ///
    /// # Errors
    /// When they cannot be, or the rate is not stated and cannot be measured.
    pub fn between(hosts: &Hosts, stop: &Arc<AtomicBool>) -> Result<Rig<'static>, RigError> {
        let frame = Frame::new(hosts.datagram_bytes)?;
        let run = new_run();
        let settings = UdpReceiverSettings::new(hosts.receiver, hosts.datagram_bytes as usize);
        let (receiver, to) = receipt::open(settings)?;
        let Hosts { sources_per_host: sources, datagram_bytes, .. } = *hosts;
        let sources =
            Sources::on(&hosts.controls, &Opening { run, to, first: 0, sources, all: 0, datagram_bytes })?;
        let mut rig = Rig {
            device: Device::Unknown(hosts.counters.clone()),
            path: known_path(frame.wire_bytes(), u32::from(hosts.sources_per_host), hosts.longest_drain),
            rate_source: RateSource::Stated,
            frame,
            frame_bytes: frame.wire_bytes(),
            active: sources.count(),
            outputs: 1,
            sources,
            receiver: Receiver::start(run, vec![receiver])?,
            card: Some((hosts.receiver.ip(), PauseReading::at)),
            pauses: Vec::new(),
            trial: 0,
            longest_drain: hosts.longest_drain,
            stop: stop.clone(),
        };
        // Before the rate is measured: a pause spoils that, too.
        rig.pauses = rig.read_pauses()?;
        rig.with_rate(hosts.rate_bits_per_s)
    }

    /// Returns the effect of PAUSE since the device was opened, or since the last call.
    ///
    /// # Errors
    /// When a host does not answer. A card that cannot be read is no error: that is unknown then, and says why.
    pub fn flow_control(&mut self) -> Result<FlowControl, RigError> {
        let before = std::mem::take(&mut self.pauses);
        self.pauses = self.read_pauses()?;
        Ok(FlowControl::between(&before, &self.pauses))
    }

    fn read_pauses(&mut self) -> Result<Vec<(String, PauseReading)>, RigError> {
        let own = self.card.map(|(address, read)| ("the receiver".to_owned(), read(address)));
        Ok(own.into_iter().chain(self.sources.pauses()?).collect())
    }

    fn with_rate(mut self, rate_bits_per_s: Option<f64>) -> Result<Rig<'t>, RigError> {
        match rate_bits_per_s {
            Some(rate) => self.path.rate_bytes_per_s = rate / 8.0,
            None => {
                let measured = self.measure_rate();
                // A switch that makes senders wait is never overloaded.
                if let (Err(RigError::NoOverload { .. }), Some(why)) =
                    (&measured, self.flow_control()?.fault())
                {
                    return Err(RigError::Paused(why));
                }
                self.path.rate_bytes_per_s = measured?;
                self.rate_source = RateSource::Measured;
            }
        }
        Ok(self)
    }

    /// Returns the settings of a testbed.
    pub fn testbed(&self) -> Option<TestbedSettings> {
        match self.device {
            Device::Testbed(testbed) => Some(testbed.settings()),
            Device::Unknown(_) => None,
        }
    }

    /// Returns the frame that every source sends.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// Returns the bytes of a frame in the device's accounting: as Linux queues count for a testbed, on the wire otherwise.
    pub fn frame_bytes(&self) -> u32 {
        self.frame_bytes
    }

    /// Outputs that can be congested.
    pub fn outputs(&self) -> u16 {
        self.testbed().map_or(1, |settings| settings.outputs)
    }

    /// Lets sources send to the first `outputs` outputs, to each output as many as there are.
    pub fn use_outputs(&mut self, outputs: u16) {
        self.outputs = outputs.clamp(1, self.outputs());
        self.sources.use_every(self.outputs() / self.outputs);
        self.active = self.sources();
        // A burst that fits into an output alone may not fit when another output is in use.
        self.path.lossless_bytes = 0.0;
    }

    /// Returns the number of sources of each output.
    pub fn sources(&self) -> u32 {
        self.sources.count() / u32::from(self.outputs())
    }

    /// Returns the number of sources on one input of the device.
    pub fn sources_per_input(&self) -> u32 {
        self.path.sources_per_input
    }

    /// Returns how many of them send.
    pub fn active_sources(&self) -> u32 {
        self.active
    }

    /// Lets the first `sources` of the sources send.
    pub fn use_sources(&mut self, sources: u32) {
        self.active = sources.clamp(1, self.sources());
        // Fewer inputs hold less, where each has a queue.
        self.path.lossless_bytes = 0.0;
    }

    /// Returns what is known of the hosts' clocks.
    pub fn start_skew(&self) -> StartSkew {
        self.sources.start_skew()
    }

    /// Returns the bytes that an event brings to each output in use, in the device's accounting.
    pub fn event_bytes(&self) -> f64 {
        f64::from(self.active) * self.path.frame_bytes
    }

    /// The rate of each output, bytes per second in the device's accounting.
    pub fn rate_bytes_per_s(&self) -> f64 {
        self.path.rate_bytes_per_s
    }

    /// Returns the origin of that rate.
    pub fn rate_source(&self) -> RateSource {
        self.rate_source
    }

    /// Returns the settings of a search in so many columns, with the sources that send now.
    pub(crate) fn search_settings(&self, columns: usize) -> SearchSettings {
        SearchSettings {
            longest_drain_s: self.longest_drain.as_secs_f64(),
            ..SearchSettings::spread(columns, self.event_bytes() / self.rate_bytes_per_s())
        }
    }

    /// Makes one trial.
    ///
    /// # Errors
    /// When the device, a source or the receiver is gone.
    pub fn send(&mut self, schedule: &Schedule) -> Result<Judged, RigError> {
        let Sent { emission, reception, beside } = self.sent(schedule)?;
        let judged = judge(schedule, self.path, self.active, &emission, &reception, beside);
        if judged.outcome == TrialOutcome::Lossless {
            let reached = peak_bytes(&judged.trial.times_s, self.event_bytes(), self.path.rate_bytes_per_s);
            self.path.lossless_bytes = self.path.lossless_bytes.max(reached);
        }
        Ok(judged)
    }

    fn sent(&mut self, schedule: &Schedule) -> Result<Sent, RigError> {
        if self.stop.load(Ordering::Acquire) {
            return Err(RigError::Stopped);
        }
        self.trial += 1;
        let before = (self.dropped()?, self.receiver.socket_drops());
        let second = schedule.spans.first().map_or(0, |span| span.events);
        self.receiver.begin(self.trial, second);
        let emission = self.sources.emit(self.trial, self.active * u32::from(self.outputs), schedule)?;
        if self.stop.load(Ordering::Acquire) {
            return Err(RigError::Stopped);
        }
        let received = self.receiver.finish(emission.sent, schedule.events(), self.path.silence);
        let reception = received.map_err(RigError::Received)?;
        let beside = Beside {
            dropped: self.dropped()?.zip(before.0).map(|(now, before)| thrown_away(&now.since(&before))),
            socket_drops: self.receiver.socket_drops().saturating_sub(before.1),
        };
        Ok(Sent { emission, reception, beside })
    }

    /// Returns what the device has thrown away since it was made, where it can be asked.
    fn dropped(&self) -> Result<Option<LossCounters>, RigError> {
        match &self.device {
            Device::Testbed(testbed) => Ok(Some(testbed.counters()?)),
            Device::Unknown(Some(command)) => Ok(Some(command.read()?)),
            Device::Unknown(None) => Ok(None),
        }
    }

    /// The rate of the output, bytes per second: what comes while it is overloaded, from the first datagram to the last.
    fn measure_rate(&mut self) -> Result<f64, RigError> {
        let mut events = 64;
        while events <= MOST_RATE_EVENTS {
            let Sent { emission, reception, .. } = self.sent(&Schedule::burst(events, 0.0))?;
            let is_lossy = reception.received < emission.sent && reception.span_s > 0.0;
            let rate = |frames: u64, seconds: f64| frames as f64 * self.path.frame_bytes / seconds;
            if is_lossy && reception.span_s >= RATE_SPAN_S {
                let came = rate(reception.received, reception.span_s);
                if rate(emission.sent, emission.took_s) < LEAST_OVERLOAD * came {
                    return Err(RigError::NoOverload { events, sources: self.active });
                }
                return Ok(came);
            }
            events *= 2;
        }
        Err(RigError::NoOverload { events, sources: self.active })
    }
}

fn known_path(frame_bytes: u32, sources_per_input: u32, longest_drain: Duration) -> KnownPath {
    KnownPath {
        rate_bytes_per_s: f64::INFINITY,
        frame_bytes: f64::from(frame_bytes),
        sources_per_input,
        lossless_bytes: 0.0,
        silence: longest_drain + LONGEST_STALL,
    }
}

/// All of what was thrown away.
fn thrown_away(counters: &[Counter]) -> u64 {
    counters.iter().map(|counter| counter.total).sum()
}

/// A trial before it is judged.
struct Sent {
    emission: Emission,
    reception: Reception,
    beside: Beside,
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicU64;

    use super::control::{Place, serve};
    use super::*;
    use crate::host::PauseCounts;
    use crate::{incast, soak, throughput, watershed};

    /// Sources and receiver at the loopback, with nothing between; as if the receiver's card counted what `read` says.
    fn rig(read: ReadPause) -> Rig<'static> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = TcpListener::bind(any).expect("a port");
        let control = listener.local_addr().expect("bound");
        // It ends with the test.
        std::thread::spawn(move || serve(&listener, Place { from: any, receiver: None }, &mut |_| {}));
        let hosts = Hosts {
            receiver: any,
            controls: vec![control],
            sources_per_host: 2,
            datagram_bytes: 1024,
            rate_bits_per_s: Some(1e6),
            longest_drain: Duration::ZERO,
            counters: None,
        };
        let mut rig = Rig::between(&hosts, &Arc::default()).expect("the loopback is there");
        rig.card = Some((any.ip(), read));
        rig.flow_control().expect("it is asked");
        rig
    }

    fn reading(frames: u64) -> PauseReading {
        let counter = Counter { name: "PAUSE frames sent".to_owned(), total: frames };
        PauseReading { card: "eth1".to_owned(), counts: PauseCounts::Known(vec![counter]) }
    }

    fn moving(_: IpAddr) -> PauseReading {
        static FRAMES: AtomicU64 = AtomicU64::new(0);
        reading(FRAMES.fetch_add(1, Ordering::Relaxed))
    }

    #[test]
    fn a_device_that_paused_has_no_number_of_ports_and_no_rate_and_the_remark_names_the_card() {
        let mut rig = rig(moving);
        let found = incast::sweep(&mut rig, (2, 1e-3), 1, &mut |_| {}).expect("swept");
        assert_eq!((found.lossless_sources, found.lossy_sources, found.points.len()), (None, None, 2));
        assert!(found.remark.contains("eth1 of the receiver: PAUSE frames sent"), "{}", found.remark);
        let settings = watershed::Settings { columns: 0, ports: Vec::new(), planned_rate_hz: None };
        let map = watershed::map(&mut rig, &settings, &mut |_| {}).expect("mapped");
        assert!(
            map.fit.is_none() && map.remark.contains("senders waited instead of losing"),
            "{}",
            map.remark
        );
        let found = throughput::search(&mut rig, (0.05, 0.05), &mut |_| {}).expect("searched");
        assert_eq!((found.lower_bound_hz, found.upper_bound_hz, found.of_line_rate), (None, None, None));
        assert!(found.held.is_none() && found.remark.contains("turn PAUSE off"), "{}", found.remark);
        let loads = throughput::linearity(&mut rig, &[0.5], 0.05, &mut |_| {}).expect("offered");
        assert!(loads.iter().all(|load| load.outcome == "invalid" && load.why.contains("eth1")), "{loads:?}");
        let found = soak::soak(&mut rig, 0.5, (0.05, 0.05), &mut |_| {}).expect("soaked");
        assert!(found.sent > 0 && !found.passes() && found.flow_control.words.contains("eth1"), "{found:?}");
    }

    #[test]
    fn what_a_number_of_sources_has_filled_is_not_taken_for_the_depth_of_another_number() {
        let mut rig = rig(|_| reading(7));
        rig.path.lossless_bytes = 8e6;
        rig.use_sources(1);
        assert_eq!((rig.active_sources(), rig.path.lossless_bytes), (1, 0.0));
    }

    #[test]
    fn a_card_that_stands_still_takes_no_result_away_and_one_that_cannot_be_read_is_named() {
        let mut rig = rig(|_| reading(7));
        let found = incast::sweep(&mut rig, (2, 1e-3), 1, &mut |_| {}).expect("swept");
        assert!(found.lossless_sources.is_some(), "{}", found.remark);
        // The card of the sources is the loopback, which counts no PAUSE frames.
        assert_eq!(found.flow_control.state, PauseState::Unknown);
        let words = &found.flow_control.words;
        assert!(words.contains("lo of the sources at 127.0.0.1") && !words.contains("eth1"), "{words}");
    }
}
