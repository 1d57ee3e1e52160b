//! The sources of a rig: in this process, or on other hosts that are asked over a control connection.
//!
//! ```text
//!  Sources::Here ─► Emitter
//!  Sources::Far ──► host 1, host 2, … ─► each its Emission ─► one: the latest of each event
//! ```

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_frontend::trigger::Settings;

use super::control::{Answer, Opening, Order, Request, What, in_words, receive_answer, say};
use crate::host::{ClockState, PauseReading};
use crate::trial::{Emission, Emitter, Schedule, soon};

/// The time within which a host answers its opening, and answers a trial after its end.
const PATIENCE: Duration = Duration::from_secs(10);
/// The start of a trial that several hosts wait for lies ahead by so much.
const AHEAD: Duration = Duration::from_millis(100);

/// Why the sources elsewhere do nothing.
#[derive(Debug, thiserror::Error)]
pub enum FarError {
    /// The connection.
    #[error("the sources at {host}: {cause}; is `thalweg qualify emit --control` running there?")]
    Connection {
        /// The host.
        host: SocketAddr,
        /// The error of the system.
        cause: io::Error,
    },
    /// Its answer is that of another version.
    #[error("the answer of the sources at {host} is {cause}; use the same version of thalweg there")]
    Version {
        /// The host.
        host: SocketAddr,
        /// What is different.
        cause: io::Error,
    },
    /// It ended.
    #[error("the sources at {0} have closed the control connection")]
    Ended(SocketAddr),
    /// They refuse.
    #[error("the sources at {host} refuse: {why}")]
    Refused {
        /// The host.
        host: SocketAddr,
        /// Why.
        why: String,
    },
    /// It did not say of each event how late it was and how long it took.
    #[error(
        "the sources at {0} say {1:?} times, latenesses and skews of the events that they sent; use the same version of thalweg there"
    )]
    Lists(SocketAddr, [usize; 3]),
    /// Hosts sent different numbers of events.
    #[error("hosts have sent different numbers of events: {0:?}")]
    Events(Vec<usize>),
}

/// One host.
#[derive(Debug)]
pub(super) struct Host {
    address: SocketAddr,
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    sources: u32,
    clock: ClockState,
}

impl Host {
    fn open(address: SocketAddr, opening: Opening) -> Result<Host, FarError> {
        let failed = |cause| FarError::Connection { host: address, cause };
        let connected = || {
            let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_nodelay(true)?;
            let reader = BufReader::new(stream.try_clone()?);
            Ok((stream, reader))
        };
        let (stream, reader) = connected().map_err(failed)?;
        let sources = u32::from(opening.sources);
        let mut host = Host { address, stream, reader, sources, clock: ClockState::Unknown };
        host.ask(&Request::Open(opening))?;
        match host.answer(Duration::ZERO)? {
            Answer::Opened(clock) => Ok(Host { clock, ..host }),
            other => Err(host.refused(other)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<(), FarError> {
        say(&mut self.stream, request).map_err(|cause| FarError::Connection { host: self.address, cause })
    }

    fn answer(&mut self, beside: Duration) -> Result<Answer, FarError> {
        let patience = PATIENCE + beside;
        let mut answered = || {
            self.stream.set_read_timeout(Some(patience))?;
            receive_answer(&mut self.reader).map_err(|error| in_words(error, patience))
        };
        let answer = answered().map_err(|cause| match cause.kind() {
            io::ErrorKind::InvalidData => FarError::Version { host: self.address, cause },
            _ => FarError::Connection { host: self.address, cause },
        })?;
        answer.ok_or(FarError::Ended(self.address))
    }

    fn refused(&self, answer: Answer) -> FarError {
        let why = match answer {
            Answer::Refused(why) => why,
            other => format!("it answers with something else: {other:?}"),
        };
        FarError::Refused { host: self.address, why }
    }
}

/// The location of the sources.
#[derive(Debug)]
pub(super) enum Sources {
    Here(Emitter),
    Far(Vec<Host>),
}

/// The accuracy with which hosts start together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartSkew {
    /// All sources are on one host, and start by one clock.
    OneHost,
    /// The clocks of several hosts are disciplined, and differ by at most this many µs, as their kernels report.
    WithinMicroseconds(u64),
    /// The clock of a host is not disciplined, or its kernel cannot be asked.
    Unknown,
}

impl Sources {
    /// Opens sources on each of these hosts; these are all of the run.
    pub(super) fn on(hosts: &[SocketAddr], opening: &Opening) -> Result<Sources, FarError> {
        let first_of =
            |index: usize| opening.first.saturating_add((index as u16).saturating_mul(opening.sources));
        let all = first_of(hosts.len());
        let open = |(index, host): (usize, &SocketAddr)| {
            Host::open(*host, Opening { first: first_of(index), all, ..opening.clone() })
        };
        hosts.iter().enumerate().map(open).collect::<Result<_, _>>().map(Sources::Far)
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Sources::Here(emitter) => emitter.sources(),
            Sources::Far(hosts) => hosts.iter().map(|host| host.sources).sum(),
        }
    }

    /// Lets every so many of the sources send; those on other hosts have one receiver, and all do.
    pub(super) fn use_every(&mut self, stride: u16) {
        if let Sources::Here(emitter) = self {
            emitter.use_every(stride);
        }
    }

    /// Returns what is known of the hosts' clocks, as they were at the last answer of each.
    pub(super) fn start_skew(&self) -> StartSkew {
        match self {
            Sources::Far(hosts) if hosts.len() > 1 => {
                let error = |host: &Host| match host.clock {
                    ClockState::Held { error_us } => Some(error_us),
                    ClockState::Free | ClockState::Unknown => None,
                };
                let errors: Option<Vec<u64>> = hosts.iter().map(error).collect();
                let two_largest = |mut errors: Vec<u64>| {
                    errors.sort_unstable();
                    errors.iter().rev().take(2).sum()
                };
                errors.map(two_largest).map_or(StartSkew::Unknown, StartSkew::WithinMicroseconds)
            }
            _ => StartSkew::OneHost,
        }
    }

    /// Returns the counts of PAUSE of the cards through which they send, each with its host; none for sources in this process.
    pub(super) fn pauses(&mut self) -> Result<Vec<(String, PauseReading)>, FarError> {
        let Sources::Far(hosts) = self else { return Ok(Vec::new()) };
        let asked = hosts.iter_mut().map(|host| {
            host.ask(&Request::Pause)?;
            match host.answer(Duration::ZERO)? {
                Answer::Paused(reading) => Ok((format!("the sources at {}", host.address), reading)),
                other => Err(host.refused(other)),
            }
        });
        asked.collect()
    }

    /// Sends a trial from the first `sources`.
    pub(super) fn emit(
        &mut self,
        trial: u32,
        sources: u32,
        schedule: &Schedule,
    ) -> Result<Emission, FarError> {
        match self {
            Sources::Here(emitter) => Ok(emitter.emit(trial, sources, schedule, soon())),
            Sources::Far(_) => {
                let most = Duration::from_secs_f64(schedule.end_s());
                self.order(trial, sources, &What::Schedule(schedule.clone()), most)
            }
        }
    }

    /// Asks all hosts together, and waits for each.
    fn order(&mut self, trial: u32, sources: u32, what: &What, most: Duration) -> Result<Emission, FarError> {
        let Sources::Far(hosts) = self else { return Ok(Emission::default()) };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_unix_ns = (hosts.len() > 1).then(|| (since + AHEAD).as_nanos() as u64);
        let (mut left, mut asked) = (sources, Vec::new());
        for host in hosts.iter_mut() {
            let own = left.min(host.sources);
            left -= own;
            if own > 0 {
                host.ask(&Request::Send(Order { trial, sources: own, what: what.clone(), start_unix_ns }))?;
                asked.push(host);
            }
        }
        let mut emissions = Vec::new();
        for host in asked {
            // A sender that cannot keep up takes longer than it was asked for.
            match host.answer(AHEAD + 20 * most)? {
                Answer::Sent(emission, clock) => {
                    host.clock = clock;
                    check_lists(host.address, &emission)?;
                    emissions.push(*emission);
                }
                other => return Err(host.refused(other)),
            }
        }
        together(&emissions)
    }
}

/// Sends the events of a trigger program from several hosts together, at most `most` of them, and the end of every source.
///
/// # Errors
/// When a host does not answer, or refuses.
pub fn emit_program(
    hosts: &[SocketAddr],
    opening: &Opening,
    settings: &Settings,
    most: u64,
    seconds: Duration,
) -> Result<(Emission, StartSkew), FarError> {
    let mut sources = Sources::on(hosts, opening)?;
    let what = What::Program(Box::new(settings.clone()), most);
    let emission = sources.order(0, sources.count(), &what, seconds)?;
    Ok((emission, sources.start_skew()))
}

/// What a host says of its events is one of each.
fn check_lists(host: SocketAddr, emission: &Emission) -> Result<(), FarError> {
    let counts = [&emission.times_s, &emission.lateness_s, &emission.skew_s].map(Vec::len);
    if counts.iter().all(|count| *count == counts[0]) { Ok(()) } else { Err(FarError::Lists(host, counts)) }
}

/// The emissions of all hosts as one: an event is as late as it is on the latest of them.
fn together(emissions: &[Emission]) -> Result<Emission, FarError> {
    let events: Vec<usize> = emissions.iter().map(|emission| emission.times_s.len()).collect();
    if events.iter().any(|count| *count != events[0]) {
        return Err(FarError::Events(events));
    }
    let most = |of: fn(&Emission) -> &Vec<f64>, event: usize| {
        emissions.iter().map(|emission| of(emission)[event]).fold(f64::NEG_INFINITY, f64::max)
    };
    let skew_s = |event: usize| {
        let starts = || emissions.iter().map(|emission| emission.times_s[event]);
        let first_s = starts().fold(f64::INFINITY, f64::min);
        let ends = emissions.iter().map(|emission| emission.times_s[event] + emission.skew_s[event]);
        ends.fold(f64::NEG_INFINITY, f64::max) - first_s
    };
    let count = events.first().copied().unwrap_or(0);
    let largest = |of: fn(&Emission) -> f64| emissions.iter().map(of).fold(0.0, f64::max);
    Ok(Emission {
        times_s: (0..count).map(|event| most(|emission| &emission.times_s, event)).collect(),
        lateness_s: (0..count).map(|event| most(|emission| &emission.lateness_s, event)).collect(),
        skew_s: (0..count).map(skew_s).collect(),
        took_s: largest(|emission| emission.took_s),
        due_s: largest(|emission| emission.due_s),
        latest_s: largest(|emission| emission.latest_s),
        sent: emissions.iter().map(|emission| emission.sent).sum(),
        failed: emissions.iter().map(|emission| emission.failed).sum(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_event_of_two_hosts_is_as_late_as_its_latest_and_takes_from_the_first_to_the_last() {
        let of = |start_s: f64| Emission {
            times_s: vec![start_s, start_s + 1e-3],
            lateness_s: vec![start_s, start_s],
            skew_s: vec![1e-5, 1e-5],
            took_s: start_s + 1.1e-3,
            due_s: 1e-3,
            latest_s: start_s,
            sent: 8,
            failed: 1,
        };
        let all = together(&[of(1e-6), of(4e-5)]).expect("the same events");
        assert_eq!((all.times_s[0], all.lateness_s[1], all.sent, all.failed), (4e-5, 4e-5, 16, 2));
        assert!((all.skew_s[0] - 4.9e-5).abs() < 1e-12, "{all:?}");
        let host = SocketAddr::from(([10, 0, 0, 1], 50_001));
        assert!(check_lists(host, &of(0.0)).is_ok());
        let without = Emission { skew_s: Vec::new(), ..of(0.0) };
        let why = check_lists(host, &without).expect_err("no skews").to_string();
        assert!(why.contains("10.0.0.1:50001 say [2, 2, 0] times"), "{why}");
        let short = Emission { times_s: vec![0.0], ..of(0.0) };
        assert!(matches!(together(&[of(0.0), short]), Err(FarError::Events(_))));
    }

    #[test]
    fn the_answer_of_another_version_is_known_from_that_of_another_program() {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = listener.local_addr().expect("bound");
        let answers = |line: &str| {
            let stream = TcpStream::connect(address).expect("it listens");
            let reader = BufReader::new(stream.try_clone().expect("open"));
            let (mut other, _) = listener.accept().expect("connected");
            other.write_all(line.as_bytes()).expect("sent");
            let mut host = Host { address, stream, reader, sources: 1, clock: ClockState::Unknown };
            host.answer(Duration::ZERO).expect_err("not an answer").to_string()
        };
        let why = answers("{\"sent\":[{\"times_s\":[]},\"unknown\"]}\n");
        assert!(why.contains("missing field") && why.contains("same version of thalweg"), "{why}");
        assert!(!why.contains("is `thalweg qualify emit --control` running"), "{why}");
        let why = answers("SSH-2.0-OpenSSH\r\n");
        assert!(why.contains("is `thalweg qualify emit --control` running there?"), "{why}");
    }
}
