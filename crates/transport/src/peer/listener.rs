//! A unit's endpoint: accepts connections, which become peers after the handshake.
//!
//! ```text
//!  accept ─► handshake (at most MOST_GREETING at once, each for hello_wait) ─► Peer
//!                 └─ silent, garbage, another version ─► refused, counted; the endpoint stays open
//! ```

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::PeerError;
use super::inproc::UnitEndpoint;
use super::key::Role;
use super::settings::{Endpoint, Settings};
use super::shared;
use super::stream::{Greeting, StreamPeer};
use super::tcp::TcpWire;
use super::{Peer, inproc};
use crate::system::is_nothing;
use crate::{ReadySet, TransportError};

/// The most connections in the handshake; one more, and the oldest of them is refused.
const MOST_GREETING: usize = 64;
/// How long no connection is accepted after one for which the system had no descriptor or memory.
const SHORTAGE_REST: Duration = Duration::from_millis(100);
/// Key of the endpoint itself in the set.
const ENDPOINT: usize = usize::MAX;

enum Kind {
    Tcp(TcpListener),
    Shm(UnixListener),
    Inproc(Arc<UnitEndpoint>),
}

impl Kind {
    /// Readable when a connection waits.
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Kind::Tcp(listener) => listener.as_fd(),
            Kind::Shm(listener) => listener.as_fd(),
            Kind::Inproc(endpoint) => endpoint.descriptor(),
        }
    }
}

/// Accepts connections at a URL.
pub struct Listener {
    kind: Kind,
    endpoint: Endpoint,
    settings: Settings,
    set: ReadySet,
    greeting: Vec<Box<dyn Greeting>>,
    /// During a shortage: it is not in the set, which would report the waiting connection without end, and accepts none before this moment.
    rests_until: Option<Instant>,
    refused: u64,
    last_refusal: Option<PeerError>,
}

impl Listener {
    pub(super) fn open(endpoint: Endpoint, settings: Settings) -> Result<Listener, PeerError> {
        settings.check()?;
        let place = endpoint.to_string();
        let failed = |call| move |cause| PeerError::System { place: place.clone(), call, cause };
        let mut set = ReadySet::new().map_err(failed.clone()("epoll_create1"))?;
        let (kind, endpoint) = match endpoint {
            Endpoint::Tcp(host, port) => {
                let address = Endpoint::resolve(&host, port, &settings)?;
                let listener = TcpListener::bind(address)
                    .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                    .map_err(|cause| TransportError::Bind { address, cause })?;
                let port = listener.local_addr().map_or(port, |address| address.port());
                (Kind::Tcp(listener), Endpoint::Tcp(host, port))
            }
            Endpoint::Shm(name) => {
                let listener = shared::listen(&name).map_err(|cause| match cause.kind() {
                    io::ErrorKind::AddrInUse => PeerError::Taken { place: format!("shm://{name}") },
                    _ => PeerError::System { place: format!("shm://{name}"), call: "bind", cause },
                })?;
                (Kind::Shm(listener), Endpoint::Shm(name))
            }
            Endpoint::Inproc(name) => {
                (Kind::Inproc(UnitEndpoint::open(&name, settings.clone())?), Endpoint::Inproc(name))
            }
        };
        set.add(kind.descriptor(), ENDPOINT).map_err(failed("epoll_ctl"))?;
        Ok(Listener {
            kind,
            endpoint,
            settings,
            set,
            greeting: Vec::new(),
            rests_until: None,
            refused: 0,
            last_refusal: None,
        })
    }

    /// The next connection that has completed the handshake, waiting at most `wait` for one.
    ///
    /// # Errors
    /// When the endpoint itself can no longer be used; a bad connection is counted instead ([`Listener::refused`]).
    pub fn accept(&mut self, wait: Duration) -> Result<Option<Box<dyn Peer>>, PeerError> {
        let until = Instant::now() + wait;
        loop {
            if let Kind::Inproc(endpoint) = &self.kind {
                if let Some(peer) = endpoint.accept() {
                    return Ok(Some(Box::new(peer)));
                }
            } else {
                self.accept_waiting();
                if let Some(peer) = self.greet() {
                    return Ok(Some(peer));
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // Short steps, so that `greet` finds silent connections whose time is over.
            let step = left.min(Duration::from_millis(20));
            self.set.wait(step).map_err(|cause| PeerError::System {
                place: self.endpoint.to_string(),
                call: "epoll_pwait2",
                cause,
            })?;
        }
    }

    /// The URL to connect to, with the chosen port.
    pub fn url(&self) -> String {
        self.endpoint.to_string()
    }

    /// How many connections did not become peers: silent ones, other programs, units without the key or of another version or run.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Why the last of them was refused.
    pub fn last_refusal(&self) -> Option<&PeerError> {
        self.last_refusal.as_ref()
    }

    fn refuse(&mut self, why: PeerError) {
        self.refused += 1;
        self.last_refusal = Some(why);
    }

    /// Accepts the waiting connections.
    fn accept_waiting(&mut self) {
        if self.is_resting() {
            return;
        }
        // Bounded, so that a flood of connections does not delay those in the handshake.
        for _ in 0..MOST_GREETING {
            let (settings, place) = (self.settings.clone(), self.endpoint.to_string());
            let accepted = match &self.kind {
                Kind::Tcp(listener) => listener.accept().and_then(|(stream, address)| {
                    crate::ReceiveBuffer::ask(stream.as_fd(), settings.receive_buffer_bytes)?;
                    let wire = TcpWire::over(stream)?;
                    let place = format!("tcp://{address}");
                    StreamPeer::new(wire, place, settings, Role::Listening, true)
                        .map(boxed)
                        .map_err(io::Error::other)
                }),
                Kind::Shm(listener) => listener.accept().and_then(|(socket, _)| {
                    let wire = shared::accepted(socket, settings.ring_bytes)?;
                    StreamPeer::new(wire, place, settings, Role::Listening, false)
                        .map(boxed)
                        .map_err(io::Error::other)
                }),
                Kind::Inproc(_) => return,
            };
            match accepted {
                Ok(peer) => self.add_greeting(peer),
                Err(cause) if is_nothing(&cause) => return,
                Err(cause) => {
                    if is_shortage(&cause) && self.set.remove(self.kind.descriptor()).is_ok() {
                        self.rests_until = Some(Instant::now() + SHORTAGE_REST);
                    }
                    let place = self.endpoint.to_string();
                    self.refuse(PeerError::System { place, call: "accept", cause });
                    return;
                }
            }
        }
    }

    /// Whether it rests because of a shortage; afterwards it is waited for again.
    fn is_resting(&mut self) -> bool {
        let Some(until) = self.rests_until else { return false };
        let now = Instant::now();
        if now >= until {
            let added = self.set.add(self.kind.descriptor(), ENDPOINT);
            self.rests_until = added.is_err().then(|| now + SHORTAGE_REST);
        }
        self.rests_until.is_some()
    }

    fn add_greeting(&mut self, peer: Box<dyn Greeting>) {
        if self.greeting.len() >= MOST_GREETING {
            let oldest = self.greeting.remove(0);
            let words = format!("{MOST_GREETING} newer connections are in the handshake");
            self.refuse(PeerError::Refused { place: oldest.place().to_owned(), words });
        }
        // If adding fails, its hello is only received a little later.
        let _ = self.set.add(peer.descriptor(), self.greeting.len());
        self.greeting.push(peer);
    }

    /// Continues all handshakes; returns the first connection that has completed its own.
    fn greet(&mut self) -> Option<Box<dyn Peer>> {
        let mut index = 0;
        while index < self.greeting.len() {
            match self.greeting[index].greet() {
                Ok(false) => index += 1,
                Ok(true) => {
                    let peer = self.greeting.remove(index);
                    let _ = self.set.remove(peer.descriptor());
                    return Some(peer);
                }
                Err(error) => {
                    let gone = self.greeting.remove(index);
                    let _ = self.set.remove(gone.descriptor());
                    self.refuse(error);
                }
            }
        }
        None
    }
}

/// Whether a connection waits for which the system has no descriptor or memory: they are given back some time.
fn is_shortage(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

fn boxed(peer: impl Greeting + 'static) -> Box<dyn Greeting> {
    Box::new(peer)
}

/// Readable when a connection waits, or has sent something in its handshake.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Inproc(endpoint) = &self.kind {
            inproc::UnitEndpoint::close(endpoint);
        }
    }
}
