//! Sources on other hosts: what they are asked for, and what they answer.
//!
//! ```text
//!  coordinator ── open: run, receiver, sources ──► host          one line of JSON each way, over TCP
//!              ◄── opened: its clock ─────────────
//!              ── send: trial, schedule, start ──►   waits for the start, sends
//!              ◄── sent: emission, its clock ─────
//!              ── pause ──►   ◄── paused: what its card counts of PAUSE
//! ```
//! Several hosts start at a time of day that all of them have: their clocks are as good as what holds them, which each answer says. A host
//! sends to the address from which it is controlled, or to one that its operator has named, and nowhere else: it cannot be turned against a
//! third. It has one coordinator at a time, and says so to others.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thalweg_frontend::trigger::{Kind, Program, Settings};

use crate::host::{ClockState, PauseReading};
use crate::trial::{Emission, Emitter, MOST_EVENTS, MOST_SOURCES, PayloadSizes, Schedule, soon};

/// A request is shorter, bytes.
const MOST_REQUEST_BYTES: u64 = 1 << 20;
/// An answer holds three times of each event in text, bytes.
const MOST_ANSWER_BYTES: u64 = 1 << 30;
/// A start lies ahead by so much at most.
const MOST_AHEAD: Duration = Duration::from_secs(5);
const NOT_OPEN: &str = "no sources are open";
/// A trial takes no longer, s.
const MOST_SECONDS: f64 = 3600.0;
/// A trigger program takes no longer.
const MOST_PROGRAM: Duration = Duration::from_hours(24);
/// Random triggers that the minimum gap of a program may leave out, so that its times are computed within seconds.
const MOST_LEFT_OUT: f64 = 1e8;
/// A coordinator makes its first request within this time.
const FIRST_REQUEST: Duration = Duration::from_secs(2);
/// The time in which the end of a coordinator that has left is seen; the next one waits so long.
const LEAVING: Duration = Duration::from_secs(1);
/// Keepalive probes find a coordinator whose host is gone: s until the first, s between, and how many.
const KEEPALIVE: (u32, u32, u32) = (4, 1, 4);

/// A request to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Open sources.
    Open(Opening),
    /// Send.
    Send(Order),
    /// Say what the card that sends counts of PAUSE.
    Pause,
}

/// Sources to open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// The run that all hosts are part of.
    pub run: u64,
    /// The address that they send to.
    pub to: SocketAddr,
    /// The number of the first.
    pub first: u16,
    /// The number of sources.
    pub sources: u16,
    /// The number of all sources of the run, on all hosts; 0 where it is not said.
    #[serde(default)]
    pub all: u16,
    /// Payload of each datagram, bytes.
    pub datagram_bytes: u32,
}

/// An order to send, with the time at which to begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The number of the trial.
    pub trial: u32,
    /// The number of sources that send, from the first on.
    pub sources: u32,
    /// The triggers to send at.
    pub what: What,
    /// The time of day of the start, ns since 1970; null: at once.
    pub start_unix_ns: Option<u64>,
}

/// The times of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The schedule of a trial.
    Schedule(Schedule),
    /// A trigger program, and how many of its triggers to send; every source sends its end after the last.
    Program(Box<Settings>, u64),
}

/// The answer of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Sources are open.
    Opened(ClockState),
    /// They have sent.
    Sent(Box<Emission>, ClockState),
    /// The card through which they send, as it counts PAUSE.
    Paused(PauseReading),
    /// They cannot.
    Refused(String),
}

/// Writes one line.
pub(super) fn say(stream: &mut TcpStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads one line; `None` at the end of the connection. The error for the message of another version is `InvalidData`.
pub(super) fn receive<M: DeserializeOwned>(
    reader: &mut impl BufRead,
    most_bytes: u64,
) -> io::Result<Option<M>> {
    let mut line = Vec::new();
    reader.take(most_bytes).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let read = serde_json::from_slice(&line);
    read.map(Some).map_err(|error: serde_json::Error| {
        // JSON that has something else in it is the message of another version.
        let kind = if error.is_data() { io::ErrorKind::InvalidData } else { io::ErrorKind::Other };
        io::Error::new(kind, format!("not a message of a control connection: {error}"))
    })
}

/// The error of a read that has a timeout, in words: the system calls its end "temporarily unavailable".
pub(super) fn in_words(error: io::Error, within: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("nothing came within {:.0} s", within.as_secs_f64()),
        ),
        _ => error,
    }
}

/// Reads an answer, like [`receive`].
pub(super) fn receive_answer(reader: &mut impl BufRead) -> io::Result<Option<Answer>> {
    receive(reader, MOST_ANSWER_BYTES)
}

/// The addresses of a host's sources, and the receiver that they may send to.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Their address, and the port of the first; port 0 takes any.
    pub from: SocketAddr,
    /// The only receiver that they send to; unless it is named, the host that controls them.
    pub receiver: Option<IpAddr>,
}

/// Serves coordinators, one at a time, until the listener fails. Describes each event to `seen`.
///
/// # Errors
/// When no connection can be accepted any more.
pub fn serve(listener: &TcpListener, place: Place, seen: &mut dyn FnMut(String)) -> io::Result<()> {
    let (admit, admitted) = sync_channel(1);
    let serving = Serving::default();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| serving.accept(listener, admit));
        for (stream, peer) in admitted {
            seen(format!("controlled by {peer}"));
            match serve_one(stream, peer, place) {
                Ok(trials) => seen(format!("{peer} has left after {trials} trials")),
                Err(error) => seen(format!("{peer}: {error}")),
            }
            serving.end();
        }
        accepting
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that accepts coordinators panicked")))
    })
}

/// The coordinator that is served now.
#[derive(Default)]
struct Serving {
    peer: Mutex<Option<SocketAddr>>,
    ended: Condvar,
}

impl Serving {
    /// Admits a coordinator where none is served, and turns the others away.
    fn accept(&self, listener: &TcpListener, admit: SyncSender<(TcpStream, SocketAddr)>) -> io::Result<()> {
        loop {
            let (stream, peer) = listener.accept()?;
            let busy_with = self.begin(peer);
            match busy_with {
                Some(other) => turn_away(stream, other),
                // The other end goes only when this one has.
                None => admit.send((stream, peer)).map_err(io::Error::other)?,
            }
        }
    }

    /// Begins with a coordinator; returns the one that is served, if it does not leave.
    fn begin(&self, peer: SocketAddr) -> Option<SocketAddr> {
        let served = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(served, LEAVING, |served| served.is_some());
        let (mut served, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if served.is_none() {
            *served = Some(peer);
            return None;
        }
        *served
    }

    fn end(&self) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.ended.notify_one();
    }
}

/// Says that the sources are in use. A coordinator that is gone, or does not listen, loses nothing by it.
fn turn_away(mut stream: TcpStream, other: SocketAddr) {
    let refused = Answer::Refused(format!(
        "they are busy: {other} controls them; try again when it has ended, or end it"
    ));
    let _said = say(&mut stream, &refused);
    let _shut = stream.shutdown(Shutdown::Write);
    // Bytes that nobody has read when a connection is closed reset it, and the answer may be lost with it.
    let _set = stream.set_read_timeout(Some(LEAVING));
    let _read = stream.read(&mut [0; 4096]);
}

fn serve_one(mut stream: TcpStream, peer: SocketAddr, place: Place) -> io::Result<u64> {
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    stream.set_read_timeout(Some(FIRST_REQUEST))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut emitter, mut trials) = (None, 0);
    let mut request = || receive::<Request>(&mut reader, MOST_REQUEST_BYTES);
    while let Some(request) = request().map_err(|error| in_words(error, FIRST_REQUEST))? {
        let answer = match request {
            Request::Open(opening) => match open(&opening, peer, place) {
                Ok(opened) => {
                    emitter = Some(opened);
                    Answer::Opened(ClockState::read())
                }
                Err(why) => Answer::Refused(why),
            },
            Request::Send(order) => {
                trials += 1;
                let sent =
                    emitter.as_mut().ok_or(NOT_OPEN.to_owned()).and_then(|emitter| send(emitter, &order));
                sent.map_or_else(Answer::Refused, |emission| {
                    Answer::Sent(Box::new(emission), ClockState::read())
                })
            }
            Request::Pause => match emitter.as_ref().map(Emitter::address) {
                Some(Ok(address)) => Answer::Paused(PauseReading::at(address)),
                Some(Err(error)) => {
                    Answer::Refused(format!("the sources do not know their address: {error}"))
                }
                None => Answer::Refused(NOT_OPEN.to_owned()),
            },
        };
        say(&mut stream, &answer)?;
        // Between two trials a coordinator thinks as long as it likes.
        stream.set_read_timeout(None)?;
    }
    Ok(trials)
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let (idle_s, interval_s, tries) = KEEPALIVE;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &idle_s)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &interval_s)?;
    setsockopt(stream, sockopt::TcpKeepCount, &tries)?;
    Ok(())
}

fn open(opening: &Opening, peer: SocketAddr, place: Place) -> Result<Emitter, String> {
    let Opening { run, to, first, sources, all, datagram_bytes } = opening;
    let (from, receiver) = (place.from, place.receiver.unwrap_or(peer.ip()));
    if to.ip() != receiver {
        return Err(format!(
            "sources send to {receiver} only, and {to} was asked for; start them with --to {} to allow it",
            to.ip()
        ));
    }
    if !(1..=MOST_SOURCES).contains(sources)
        || u32::from(*first) + u32::from(*sources) > u32::from(MOST_SOURCES)
    {
        return Err(format!("{sources} sources from {first} on; there are {MOST_SOURCES} at most"));
    }
    let addresses = source_addresses(from, *sources)?;
    let opened = Emitter::open(*run, &addresses, *to, PayloadSizes::constant(*datagram_bytes));
    opened
        .map(|emitter| emitter.numbered_from(*first, *all))
        .map_err(|error| format!("sources at {from}: {error}"))
}

/// Returns the address of each source: a port for each, from that of the first on; port 0 takes any.
///
/// # Errors
/// When there are not as many ports, in words.
pub fn source_addresses(first: SocketAddr, sources: u16) -> Result<Vec<SocketAddr>, String> {
    let last = u16::MAX - sources.saturating_sub(1);
    if first.port() > last {
        return Err(format!("{first}: {sources} sources need as many ports; the first is {last} at most"));
    }
    let port = |source: u16| if first.port() == 0 { 0 } else { first.port() + source };
    Ok((0..sources).map(|source| SocketAddr::new(first.ip(), port(source))).collect())
}

fn send(emitter: &mut Emitter, order: &Order) -> Result<Emission, String> {
    let start = order.start_unix_ns.map_or(Ok(soon()), start_at)?;
    match &order.what {
        What::Schedule(schedule) => {
            check(schedule)?;
            Ok(emitter.emit(order.trial, order.sources, schedule, start))
        }
        What::Program(settings, most) => {
            let triggers = times_within(settings, *most, MOST_PROGRAM)?;
            Ok(emitter.emit_and_end(order.trial, order.sources, triggers.into_iter(), start))
        }
    }
}

/// Returns the times of the first `most` triggers of a program, from the first on.
///
/// # Errors
/// When its settings are invalid, or leave out too many triggers, in words.
pub fn program_times(settings: &Settings, most: u64) -> Result<Vec<Duration>, String> {
    times_within(settings, most, Duration::MAX)
}

/// Does the same with a program that takes no longer than `within`.
fn times_within(settings: &Settings, most: u64, within: Duration) -> Result<Vec<Duration>, String> {
    let program = Program::new(settings).map_err(|error| error.to_string())?;
    let most = most.min(u64::from(MOST_EVENTS));
    check_left_out(settings, most)?;
    let mut first_ns = None;
    let times = program.take(most as usize).map(|trigger| {
        let since = Duration::from_nanos(trigger.time_ns - *first_ns.get_or_insert(trigger.time_ns));
        if since <= within {
            return Ok(since);
        }
        Err(format!(
            "a trigger comes {:.0} s behind the first; a trigger program takes {} s at most",
            since.as_secs_f64(),
            within.as_secs()
        ))
    });
    times.collect()
}

/// Random triggers within the minimum gap are computed and left out; of other programs none lie within it, or all are listed.
fn check_left_out(settings: &Settings, most: u64) -> Result<(), String> {
    let mean_ns = 1e9 / settings.rate_hz + settings.dead_time_ns as f64;
    let each = settings.minimum_gap_ns as f64 / mean_ns;
    let left_out = (each * most as f64).min(settings.seconds.unwrap_or(f64::INFINITY) * 1e9 / mean_ns);
    if settings.program != Kind::Poisson || left_out <= MOST_LEFT_OUT {
        return Ok(());
    }
    Err(format!(
        "a minimum gap of {} ns leaves out {left_out:.0} of the random triggers at {} per second, and {MOST_LEFT_OUT} may be: lower \
         `minimum_gap_ns` or `rate_hz`",
        settings.minimum_gap_ns, settings.rate_hz
    ))
}

fn check(schedule: &Schedule) -> Result<(), String> {
    let (events, seconds) = (schedule.events(), schedule.end_s());
    let is_known = schedule.spans.iter().all(|span| {
        span.separation_s >= 0.0 && span.start_s >= 0.0 && (span.start_s + span.separation_s).is_finite()
    });
    match is_known && events <= u64::from(MOST_EVENTS) && seconds <= MOST_SECONDS {
        true => Ok(()),
        false => Err(format!(
            "{events} events in {seconds:.1} s; a trial has {MOST_EVENTS} events in {MOST_SECONDS} s at most, none of them before its start"
        )),
    }
}

/// The time of day as the clock that waits has it.
fn start_at(unix_ns: u64) -> Result<Instant, String> {
    let (now, day) = (Instant::now(), SystemTime::now());
    let since = day.duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = Duration::from_nanos(unix_ns);
    match start.checked_sub(since) {
        Some(ahead) if ahead <= MOST_AHEAD => Ok(now + ahead),
        Some(ahead) => Err(format!(
            "the start lies {:.3} s ahead on this host's clock, more than {} s: hold the clocks of all hosts (chrony, PTP)",
            ahead.as_secs_f64(),
            MOST_AHEAD.as_secs()
        )),
        None => Err(format!(
            "the start was {:.3} s ago on this host's clock: hold the clocks of all hosts (chrony, PTP)",
            since.saturating_sub(start).as_secs_f64()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Span;

    #[test]
    fn sources_send_to_nobody_but_to_whom_they_are_controlled_by() {
        let peer = SocketAddr::from(([127, 0, 0, 1], 4000));
        let place = Place { from: SocketAddr::from(([127, 0, 0, 1], 0)), receiver: None };
        let opening = |to: [u8; 4], sources| Opening {
            run: 1,
            to: SocketAddr::from((to, 5000)),
            first: 0,
            sources,
            all: 0,
            datagram_bytes: 100,
        };
        let refused = |opening: Opening, word: &str| {
            let why = open(&opening, peer, place).expect_err(word);
            assert!(why.contains(word), "{why}");
        };
        refused(opening([127, 0, 0, 2], 2), "send to 127.0.0.1 only, and 127.0.0.2:5000");
        let named = Place { receiver: Some([127, 0, 0, 2].into()), ..place };
        assert!(open(&opening([127, 0, 0, 2], 2), peer, named).is_ok());
        refused(opening([127, 0, 0, 1], 0), "0 sources");
        assert!(open(&opening([127, 0, 0, 1], 2), peer, place).is_ok());
        assert!(source_addresses(SocketAddr::from(([127, 0, 0, 1], 65_535)), 2).is_err());
    }

    #[test]
    fn a_start_that_clocks_disagree_on_and_an_endless_trial_are_refused() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
        assert!(start_at(now + 1_000_000_000).is_ok());
        assert!(start_at(now - 1_000_000_000).expect_err("past").contains("ago on this host's clock"));
        assert!(start_at(now + 60_000_000_000).expect_err("far").contains("ahead on this host's clock"));
        assert!(check(&Schedule::burst(100, 1e-3)).is_ok());
        for schedule in [
            Schedule::burst(10, f64::NAN),
            Schedule::burst(u64::from(MOST_EVENTS) + 1, 0.0),
            Schedule::burst(1000, 1e3),
        ] {
            assert!(check(&schedule).is_err(), "{schedule:?}");
        }
        let span = |start_s, events| Span { start_s, events, separation_s: 0.0 };
        for spans in [[span(0.0, 1 << 63), span(0.0, (1 << 63) + 2)], [span(1e18, 1), span(0.0, 1)]] {
            let schedule = Schedule { spans: spans.into(), ..Schedule::burst(1, 0.0) };
            assert!(check(&schedule).is_err(), "{schedule:?}");
        }
    }

    #[test]
    fn a_trigger_program_of_days_and_a_datagram_that_nothing_carries_are_refused() {
        let (here, to) = (SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1], 5000)));
        let place = Place { from: here, receiver: None };
        let opening = |datagram_bytes| Opening { run: 1, to, first: 0, sources: 1, all: 1, datagram_bytes };
        let why = open(&opening(u32::MAX), here, place).expect_err("4 GiB");
        assert!(why.contains("65507 bytes at most, and 4294967295"), "{why}");
        let mut emitter = open(&opening(100), here, place).expect("opened");
        let days = Settings { rate_hz: 1e-6, ..Settings::default() };
        let what = What::Program(Box::new(days), 2);
        let order = Order { trial: 0, sources: 1, what, start_unix_ns: None };
        let why = send(&mut emitter, &order).expect_err("two triggers in eleven days");
        assert!(why.contains("a trigger program takes 86400 s at most"), "{why}");
        // Ten thousand million random triggers come within each gap.
        let spins = Settings {
            program: Kind::Poisson,
            rate_hz: 1e9,
            minimum_gap_ns: 10_000_000_000,
            ..Settings::default()
        };
        let why = program_times(&spins, 4_000_000).expect_err("more than are worth computing");
        assert!(why.contains("minimum_gap_ns"), "{why}");
    }

    #[test]
    fn a_coordinator_beside_another_reads_who_has_the_sources_and_has_them_when_it_has_left() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = TcpListener::bind(here).expect("a port");
        let control = listener.local_addr().expect("bound");
        // It ends with the test.
        std::thread::spawn(move || serve(&listener, Place { from: here, receiver: None }, &mut |_| {}));
        let opening = Opening { run: 1, to: control, first: 0, sources: 1, all: 1, datagram_bytes: 100 };
        let ask = |stream: &mut TcpStream| {
            say(stream, &Request::Open(opening.clone())).expect("sent");
            receive_answer(&mut BufReader::new(stream.try_clone().expect("open")))
                .expect("a line")
                .expect("an answer")
        };
        let mut first = TcpStream::connect(control).expect("it listens");
        assert!(matches!(ask(&mut first), Answer::Opened(_)));
        let mut second = TcpStream::connect(control).expect("it listens");
        let Answer::Refused(why) = ask(&mut second) else { panic!("two coordinators") };
        let address = first.local_addr().expect("bound");
        assert!(why.contains(&format!("busy: {address} controls them")), "{why}");
        drop(first);
        // Who asks before the end of the one before is seen reads that it is busy, and tries again.
        let until = Instant::now() + Duration::from_secs(60);
        let tries = |is_served: &dyn Fn(TcpStream) -> bool| {
            while !is_served(TcpStream::connect(control).expect("it listens")) {
                assert!(Instant::now() < until, "the one before has left");
            }
        };
        tries(&|mut third| matches!(ask(&mut third), Answer::Opened(_)));
        // One that says nothing keeps nobody out for longer than it has for its first request.
        tries(&|mut silent| silent.read(&mut [0]).is_ok_and(|bytes| bytes == 0));
    }
}
