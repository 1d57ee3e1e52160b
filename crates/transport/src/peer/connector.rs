//! Connects to a unit, and tries again after a failure or a loss.
//!
//! ```text
//!  poll ─► opening ─► handshake ─► Peer
//!    ▲        └─ failed ─┴─► back-off ──┐
//!    └──────────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

use thalweg_data::checksum;

use super::back_off::BackOff;
use super::error::PeerError;
use super::key::Role;
use super::settings::{Endpoint, Settings};
use super::stream::{Greeting, StreamPeer};
use super::tcp::TcpWire;
use super::{Peer, inproc, shared, tcp};
use crate::TransportError;

/// The longest wait of one step; the clock is checked between steps.
const STEP: Duration = Duration::from_millis(10);

enum State {
    /// Nothing is tried before this moment.
    Resting(Instant),
    OpeningTcp(tcp::Opening, Instant),
    OpeningShm(shared::Opening, Instant),
    Greeting(Box<dyn Greeting>),
}

/// Makes connections to one unit: at the start, and after each loss.
pub struct Connector {
    endpoint: Endpoint,
    settings: Settings,
    back_off: BackOff,
    state: State,
    problem: Option<String>,
}

/// The result of one step.
enum Step {
    Peer(Box<dyn Peer>),
    Next(State),
    /// The state is the same; the step has waited.
    Same,
}

impl Connector {
    /// A connector to the unit at a URL; [`Connector::poll`] makes the connections.
    ///
    /// # Errors
    /// When the URL or the settings are invalid.
    pub fn new(url: &str, settings: Settings) -> Result<Connector, PeerError> {
        settings.check()?;
        let endpoint = Endpoint::parse(url)?;
        let (first, most) = settings.back_off;
        // Name and process differ between units that start together.
        let seed = u64::from(checksum::of(settings.name.as_bytes())) << 32 | u64::from(std::process::id());
        Ok(Connector {
            endpoint,
            back_off: BackOff::new(first, most, seed),
            state: State::Resting(Instant::now()),
            problem: None,
            settings,
        })
    }

    /// Tries for `wait`; returns the peer once it is connected. A later call makes another connection.
    ///
    /// # Errors
    /// When trying again does not help: the other end refuses, or has no common version.
    pub fn poll(&mut self, wait: Duration) -> Result<Option<Box<dyn Peer>>, PeerError> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.step(left.min(STEP)) {
                Ok(Step::Peer(peer)) => {
                    self.back_off.reset();
                    self.state = State::Resting(Instant::now());
                    return Ok(Some(peer));
                }
                Ok(Step::Next(state)) => self.state = state,
                Ok(Step::Same) if left.is_zero() => return Ok(None),
                Ok(Step::Same) => {}
                Err(error) => {
                    self.state = State::Resting(Instant::now() + self.back_off.after_failure());
                    self.problem = Some(error.to_string());
                    if error.is_final() {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Why the last try failed.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The unit's URL.
    pub fn place(&self) -> String {
        self.endpoint.to_string()
    }

    fn step(&mut self, wait: Duration) -> Result<Step, PeerError> {
        let place = self.endpoint.to_string();
        let lost = |cause: std::io::Error| PeerError::Lost { place: place.clone(), cause: cause.to_string() };
        match &mut self.state {
            State::Resting(until) => {
                let rest = until.saturating_duration_since(Instant::now());
                if !rest.is_zero() {
                    std::thread::sleep(rest.min(wait));
                    return Ok(Step::Same);
                }
                self.start()
            }
            State::OpeningTcp(opening, since) => {
                let (open, since) = (opening.is_open(wait), *since);
                let open = open.map_err(|cause| self.refused(cause))?;
                if !open {
                    let given_up = since.elapsed() >= self.settings.connect_wait;
                    return if given_up {
                        Err(self.silent(self.settings.connect_wait))
                    } else {
                        Ok(Step::Same)
                    };
                }
                let State::OpeningTcp(opening, _) =
                    std::mem::replace(&mut self.state, State::Resting(Instant::now()))
                else {
                    return Ok(Step::Same);
                };
                let wire = TcpWire::over(opening.into_stream()).map_err(lost)?;
                let peer = StreamPeer::new(wire, place, self.settings.clone(), Role::Connecting, true)?;
                Ok(Step::Next(State::Greeting(Box::new(peer))))
            }
            State::OpeningShm(opening, since) => match opening.wire(wait).map_err(lost)? {
                Some(wire) => {
                    let peer = StreamPeer::new(wire, place, self.settings.clone(), Role::Connecting, false)?;
                    Ok(Step::Next(State::Greeting(Box::new(peer))))
                }
                None if since.elapsed() >= self.settings.hello_wait => {
                    Err(self.silent(self.settings.hello_wait))
                }
                None => Ok(Step::Same),
            },
            State::Greeting(peer) => {
                if !peer.greet()? {
                    crate::system::wait_readable(peer.descriptor(), wait).map_err(lost)?;
                    return Ok(Step::Same);
                }
                match std::mem::replace(&mut self.state, State::Resting(Instant::now())) {
                    State::Greeting(peer) => Ok(Step::Peer(peer)),
                    _ => Ok(Step::Same),
                }
            }
        }
    }

    /// Starts another try.
    fn start(&self) -> Result<Step, PeerError> {
        let now = Instant::now();
        match &self.endpoint {
            Endpoint::Inproc(name) => Ok(Step::Peer(Box::new(inproc::connect(name, &self.settings)?))),
            Endpoint::Shm(name) => {
                let opening = shared::Opening::start(name).map_err(|cause| match cause.kind() {
                    std::io::ErrorKind::ConnectionRefused => PeerError::Absent { place: self.place() },
                    std::io::ErrorKind::PermissionDenied => {
                        PeerError::Refused { place: self.place(), words: cause.to_string() }
                    }
                    _ => PeerError::System { place: self.place(), call: "connect", cause },
                })?;
                Ok(Step::Next(State::OpeningShm(opening, now)))
            }
            Endpoint::Tcp(host, port) => {
                let address = Endpoint::resolve(host, *port, &self.settings)?;
                let opening = tcp::Opening::start(address, self.settings.receive_buffer_bytes)
                    .map_err(|cause| TransportError::Connect { address, cause })?;
                Ok(Step::Next(State::OpeningTcp(opening, now)))
            }
        }
    }

    fn refused(&self, cause: std::io::Error) -> PeerError {
        match cause.kind() {
            std::io::ErrorKind::ConnectionRefused => PeerError::Absent { place: self.place() },
            _ => PeerError::System { place: self.place(), call: "connect", cause },
        }
    }

    fn silent(&self, wait: Duration) -> PeerError {
        PeerError::Silent { place: self.place(), wait }
    }
}
