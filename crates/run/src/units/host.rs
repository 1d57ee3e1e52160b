//! One unit on a thread: its machine, its connections, and its work.
//!
//! ```text
//!  others ─► Listener ─┐                    ┌─ on_message ─► machine ─ poll ─► outbox ─┐
//!  Connector ─► others ┴─► peers ─ receive ─┘                  ▲ work: data in and out └─ send ─► peers
//! ```
//! A peer that is lost is reported to the machine and, where this side had connected, connected to again; no other is touched. Whoever comes
//! under the name of a unit whose connection stands waits until that one is lost: a newcomer takes nobody's place. With nothing to do the thread sleeps until a peer has something, or for [`Work::rest`].

use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use thalweg_build::unit::{Address, Outbox};
use thalweg_data::{Mark, Message, Received};
use thalweg_readout::RunClock;
use thalweg_transport::peer::{self, Connector, Listener, Peer, PeerError, Sent};
use thalweg_transport::{Bell, ReadySet};

use super::Work;
use crate::pipeline::Signals;
use crate::plan::UnitPlan;

/// The time for which a unit sleeps when something waits that no descriptor reports: space for what is to be sent, a free block.
const HOLD_STEP: Duration = Duration::from_micros(100);
/// The interval at which connections are made and taken, nanoseconds: each attempt is a system call or more.
const MEET_EVERY_NS: u64 = 1_000_000;
/// The time for which the other side of a connection is waited for at the end.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(200);
/// The key of what is no connection, in the set of those that are waited for.
const OTHERS: usize = 0;
/// Messages of one peer that are taken in a row, and bytes of payload from which no further one is: they are passed on and their blocks
/// received into again while they are in the cache.
const IN_A_ROW: usize = 16;
const BYTES_IN_A_ROW: u64 = 256 << 10;
/// How long a newcomer waits for the connection of its name to be lost: longer than it takes to notice a host that is gone
/// (`silence_wait` of the connection).
const NEWCOMER_WAIT_NS: u64 = 12_000_000_000;

/// The listening address of a unit, and the addresses that it connects to.
pub(crate) struct UnitEndpoint {
    listener: Option<Listener>,
    connectors: Vec<(Address, Connector)>,
}

impl UnitEndpoint {
    /// Opens the endpoint of a unit and prepares its ways to others.
    ///
    /// # Errors
    /// When an address cannot be used.
    pub(crate) fn open(
        listen: Option<&str>,
        others: &[(Address, String)],
        settings: &peer::Settings,
    ) -> Result<UnitEndpoint, PeerError> {
        let listener = listen.map(|url| peer::listen(url, settings.clone())).transpose()?;
        let connector =
            |(address, url): &(Address, String)| Ok((*address, Connector::new(url, settings.clone())?));
        Ok(UnitEndpoint {
            listener,
            connectors: others.iter().map(connector).collect::<Result<_, PeerError>>()?,
        })
    }
}

/// A connection that stands.
struct Connection {
    address: Address,
    peer: Box<dyn Peer>,
    /// Its number in the set of those that are waited for.
    key: usize,
    /// It may have something to read: not one that had nothing at its last receive, and of which the set says nothing since.
    is_ready: bool,
}

impl Connection {
    fn new(address: Address, peer: Box<dyn Peer>) -> Connection {
        Connection { address, peer, key: OTHERS, is_ready: true }
    }
}

/// One that came under the name of a unit whose connection stands; at most one of each name.
struct Newcomer {
    connection: Connection,
    since: Mark,
}

/// A unit and all that it needs.
pub(crate) struct UnitHost<W> {
    pub(crate) work: W,
    name: String,
    plan: Arc<UnitPlan>,
    endpoint: UnitEndpoint,
    connections: Vec<Connection>,
    newcomers: Vec<Newcomer>,
    outbox: Outbox,
    message: Message,
    clock: RunClock,
    /// Peers that may have something to read or take something more.
    ready: ReadySet,
    /// The set was asked since the last look at the peers.
    has_asked: bool,
    /// The key of the latest connection.
    last_key: usize,
    /// Rung when something comes that none of their descriptors reports.
    bell: Arc<Bell>,
    waker: Waker,
    /// True if something waits that no descriptor reports.
    holds: bool,
    met: Option<Mark>,
    /// The number of refused connections at which the listener reports them again.
    refused_to_say: u64,
    /// Units that this one should reach and that have not let it in, with the last reason.
    refusals: Vec<(Address, String)>,
}

impl<W: Work> UnitHost<W> {
    /// A unit without connections.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn new(
        name: &str,
        work: W,
        endpoint: UnitEndpoint,
        plan: Arc<UnitPlan>,
        clock: RunClock,
    ) -> Result<UnitHost<W>, PeerError> {
        let failed = |call| {
            let place = name.to_owned();
            move |cause| PeerError::System { place, call, cause }
        };
        let mut ready = ReadySet::new().map_err(failed("epoll_create1"))?;
        if let Some(listener) = &endpoint.listener {
            ready.add(listener, OTHERS).map_err(failed("epoll_ctl"))?;
        }
        let bell = Bell::new().map_err(failed("eventfd"))?;
        ready.add(bell.as_fd(), OTHERS).map_err(failed("epoll_ctl"))?;
        Ok(UnitHost {
            work,
            name: name.to_owned(),
            plan,
            endpoint,
            connections: Vec::new(),
            newcomers: Vec::new(),
            outbox: Outbox::default(),
            message: Message::default(),
            clock,
            ready,
            has_asked: false,
            last_key: OTHERS,
            waker: bell.clone().into(),
            bell,
            holds: false,
            met: None,
            refused_to_say: 1,
            refusals: Vec::new(),
        })
    }

    /// Works until there is nothing left to do.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) -> UnitHost<W> {
        while !self.work.is_over(signals) {
            self.tick(signals);
        }
        self.work.finish(signals);
        // A peer that was let in later was refused by another unit, or before it was started anew.
        for (_, text) in self.refusals.drain(..) {
            signals.note_failure(format!("{}: {text}", self.name));
        }
        for connection in &mut self.connections {
            connection.peer.close(SHUTDOWN_GRACE);
        }
        self
    }

    /// Does the pending work, or sleeps.
    pub(crate) fn tick(&mut self, signals: &Signals) {
        if !self.advance(signals) {
            self.rest();
        }
    }

    /// Does the pending work once; returns whether there was any.
    pub(crate) fn advance(&mut self, signals: &Signals) -> bool {
        let now = self.clock.mark();
        self.holds = false;
        if self.met.is_none_or(|met| now.since_ns(met) >= MEET_EVERY_NS) {
            self.met = Some(now);
            self.meet(now);
            // So often each of them is looked at in any case: it sends and expects heartbeats.
            self.connections.iter_mut().for_each(|connection| connection.is_ready = true);
        }
        if !std::mem::take(&mut self.has_asked) {
            self.ask(Duration::ZERO);
        }
        let mut busy = self.receive(now);
        busy |= self.work.step(now, signals);
        self.work.machine().poll(now, &mut self.outbox);
        busy | self.speak(now)
    }

    /// Sleeps until a peer has something to say or takes more, or something else comes, at most for a moment.
    pub(crate) fn rest(&mut self) {
        if let Some(wait) = self.longest_rest() {
            self.rest_for(wait);
        }
    }

    /// How long it can rest unless something comes; `None` if something has. To be asked just before.
    fn longest_rest(&mut self) -> Option<Duration> {
        let word_ns = self.work.machine().next_word_ns(self.clock.mark());
        self.bell.arm();
        // What waits for space in the outbox is not said sooner by asking for it without end.
        let word = word_ns.map_or(Duration::MAX, |ns| Duration::from_nanos(ns).max(HOLD_STEP));
        let wait = self.work.rest().min(word);
        self.work.register(&self.waker).then_some(wait)
    }

    fn rest_for(&mut self, wait: Duration) {
        // A peer that is held back stays ready, and would be found so again and again.
        if self.holds || !self.ask(wait) {
            std::thread::sleep(wait.min(HOLD_STEP));
        }
    }

    /// Waits until a peer is ready, at most so long, and notes which ones are; returns whether that can be waited for.
    fn ask(&mut self, wait: Duration) -> bool {
        let keys = self.ready.wait(wait);
        for connection in &mut self.connections {
            connection.is_ready |= keys.as_ref().map_or(true, |keys| keys.contains(&connection.key));
        }
        self.has_asked = keys.is_ok();
        self.has_asked
    }

    /// Lets this unit's rest end for the other as well: for two units of one thread.
    ///
    /// # Errors
    /// When the system takes no more.
    #[cfg(feature = "bench")]
    pub(crate) fn wait_for<V>(&mut self, other: &UnitHost<V>) -> std::io::Result<()> {
        self.ready.add(&other.ready, OTHERS)
    }

    /// Rests as long as the other can as well, for which this one [waits](UnitHost::wait_for).
    #[cfg(feature = "bench")]
    pub(crate) fn rest_beside<V: Work>(&mut self, other: &mut UnitHost<V>) {
        if let (Some(own), Some(others)) = (self.longest_rest(), other.longest_rest()) {
            self.holds |= other.holds;
            self.rest_for(own.min(others));
        }
    }

    /// Takes new connections, of others and to others.
    fn meet(&mut self, now: Mark) {
        let accepted = self.endpoint.listener.as_mut().map(|listener| listener.accept(Duration::ZERO));
        match accepted {
            Some(Ok(Some(peer))) => match self.plan.address(peer.name()) {
                Some(address) => self.admit(Connection::new(address, peer), now),
                None => tracing::warn!("{}: a unit called \"{}\" is not of this run", self.name, peer.name()),
            },
            Some(Err(error)) => tracing::warn!("{}: {error}", self.name),
            Some(Ok(None)) | None => {}
        }
        self.note_refused();
        self.refuse_doubles(now);
        for index in 0..self.endpoint.connectors.len() {
            let address = self.endpoint.connectors[index].0;
            if self.is_connected(address) {
                continue;
            }
            match self.endpoint.connectors[index].1.poll(Duration::ZERO) {
                Ok(Some(peer)) => self.connected(Connection::new(address, peer), now),
                Ok(None) => {}
                Err(error) => self.refused_by(address, error.to_string()),
            }
        }
    }

    /// Says who was not let in. Anybody can knock: the run is none the worse for it, and the log gets a line each time their number has
    /// doubled.
    fn note_refused(&mut self) {
        let Some(listener) = &self.endpoint.listener else { return };
        let count = listener.refused();
        if let Some(error) = listener.last_refusal().filter(|_| count >= self.refused_to_say) {
            tracing::warn!("{}: a connection was refused ({count} so far); the last: {error}", self.name);
            self.refused_to_say = count.saturating_mul(2);
        }
    }

    /// Says once that another unit does not talk to this one; it is tried again, for it may be started anew.
    fn refused_by(&mut self, address: Address, text: String) {
        let before = self.refusals.iter().position(|(by, _)| *by == address);
        let before = before.map(|index| self.refusals.swap_remove(index));
        if before.is_none_or(|(_, before)| before != text) {
            tracing::warn!("{}: {text}", self.name);
        }
        self.refusals.push((address, text));
    }

    fn is_connected(&self, address: Address) -> bool {
        self.connections.iter().any(|connection| connection.address == address)
    }

    /// Takes every newcomer: at once, or when the connection of its name is lost.
    fn admit(&mut self, connection: Connection, now: Mark) {
        let address = connection.address;
        if !self.is_connected(address) {
            return self.connected(connection, now);
        }
        let place = connection.peer.place();
        tracing::info!("{}: {address} at {place} waits until the connection of its name is lost", self.name);
        // Of several newcomers the latest is the one that lives.
        self.newcomers.retain(|other| other.connection.address != address);
        self.newcomers.push(Newcomer { connection, since: now });
    }

    /// Refuses newcomers that have waited so long that the connection of their name must be alive.
    fn refuse_doubles(&mut self, now: Mark) {
        let is_double = |newcomer: &Newcomer| now.since_ns(newcomer.since) >= NEWCOMER_WAIT_NS;
        while let Some(index) = self.newcomers.iter().position(is_double) {
            let Connection { address, mut peer, .. } = self.newcomers.swap_remove(index).connection;
            let (name, place) = (&self.name, peer.place());
            tracing::warn!(
                "{name}: {address} is connected and alive, and {place} says to be it, too; is its node started twice?"
            );
            peer.close(Duration::ZERO);
        }
    }

    fn connected(&mut self, mut connection: Connection, now: Mark) {
        self.last_key += 1;
        connection.key = self.last_key;
        let Connection { address, peer, key, .. } = &connection;
        self.refusals.retain(|(by, _)| by != address);
        tracing::info!("{}: connected with {address} at {}", self.name, peer.place());
        self.work.machine().connected(*address, now);
        if let Err(error) = self.ready.add(peer.descriptor(), *key) {
            tracing::warn!("{}: {address} is not waited for but looked at: {error}", self.name);
        }
        self.connections.push(connection);
    }

    fn lost(&mut self, index: usize, now: Mark, why: &str) {
        let address = self.connections[index].address;
        tracing::warn!("{}: the connection with {address} is lost: {why}", self.name);
        self.gone(index, now);
    }

    fn gone(&mut self, index: usize, now: Mark) {
        let connection = self.connections.swap_remove(index);
        // One that was never in it is no matter.
        let _ = self.ready.remove(connection.peer.descriptor());
        let address = connection.address;
        self.work.machine().disconnected(address, now, &mut self.outbox);
        if let Some(index) = self.newcomers.iter().position(|newcomer| newcomer.connection.address == address)
        {
            let newcomer = self.newcomers.swap_remove(index);
            self.connected(newcomer.connection, now);
        }
    }

    /// Hands messages to the machine; whether there were any.
    fn receive(&mut self, now: Mark) -> bool {
        let (mut any, mut index) = (false, 0);
        'peers: while index < self.connections.len() {
            let mut bytes = 0;
            for _ in 0..IN_A_ROW {
                let Connection { address, peer, is_ready, .. } = &mut self.connections[index];
                if !*is_ready || bytes >= BYTES_IN_A_ROW {
                    break;
                }
                match peer.receive(&mut self.message, Duration::ZERO) {
                    Ok(Received::Data) => {
                        any = true;
                        bytes += self.message.payload_bytes();
                        self.work.machine().on_message(*address, &self.message, now);
                        self.message.clear();
                    }
                    Ok(Received::Idle) => {
                        *is_ready = false;
                        break;
                    }
                    Ok(Received::Full) => {
                        self.holds = true;
                        break;
                    }
                    Ok(Received::End) => {
                        tracing::info!("{}: {address} has closed its connection", self.name);
                        self.gone(index, now);
                        continue 'peers;
                    }
                    Err(error) => {
                        self.lost(index, now, &error.to_string());
                        continue 'peers;
                    }
                }
            }
            index += 1;
        }
        any
    }

    /// Sends what waits, as far as the others take it; whether anything went.
    fn speak(&mut self, now: Mark) -> bool {
        let (mut any, mut index, mut waits) = (false, 0, false);
        while index < self.connections.len() {
            let Connection { address, peer, .. } = &mut self.connections[index];
            let mut failure = None;
            while let Some(message) = self.outbox.front(*address) {
                match peer.send(message) {
                    Ok(Sent::Taken) => {
                        any = true;
                        self.outbox.sent(*address);
                    }
                    Ok(Sent::Full) => {
                        // For TCP and shared memory the descriptor reports it.
                        waits |= peer.place().starts_with("inproc:");
                        break;
                    }
                    Err(error) => {
                        failure = Some(error.to_string());
                        break;
                    }
                }
            }
            let failure = failure.or_else(|| peer.flush(Duration::ZERO).err().map(|error| error.to_string()));
            match failure {
                Some(why) => self.lost(index, now, &why),
                None => index += 1,
            }
        }
        self.holds |= waits;
        any
    }
}
