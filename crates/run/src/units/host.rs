//! One unit on a thread: its machine, its connections, and its work.
//!
//! ```text
//!  others ─► Listener ─┐                    ┌─ on_message ─► machine ─ poll ─► outbox ─┐
//!  Connector ─► others ┴─► peers ─ receive ─┘                  ▲ work: data in and out └─ send ─► peers
//! ```
//! A peer that is lost is told to the machine and, where this side had connected, connected to again; no other is touched. With nothing to
//! do the thread sleeps until a peer has something, or for [`Work::rest`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use thalweg_build::unit::{Address, Outbox};
use thalweg_data::{Mark, Message, Received};
use thalweg_readout::RunClock;
use thalweg_transport::ReadySet;
use thalweg_transport::peer::{self, Connector, Listener, Peer, PeerError, Sent};

use super::{UnitPlan, Work};
use crate::pipeline::Signals;

/// How long a unit sleeps when something waits of which no descriptor tells: room for what is to be sent, a free block.
const HOLD_STEP: Duration = Duration::from_micros(100);
/// How often connections are made and taken, nanoseconds: each look is a system call or more.
const MEET_EVERY_NS: u64 = 1_000_000;
/// How long the other side of a connection is waited for at the end.
const GOOD_BYE: Duration = Duration::from_millis(200);
/// Messages of one peer that are taken in a row.
const IN_A_ROW: usize = 16;

/// Where a unit is reached, and whom it reaches.
pub(crate) struct Door {
    listener: Option<Listener>,
    connectors: Vec<(Address, Connector)>,
}

impl Door {
    /// Opens the door of a unit and prepares its ways to others.
    ///
    /// # Errors
    /// When an address cannot be used.
    pub(crate) fn open(
        listen: Option<&str>,
        others: &[(Address, String)],
        settings: &peer::Settings,
    ) -> Result<Door, PeerError> {
        let listener = listen.map(|url| peer::listen(url, settings.clone())).transpose()?;
        let connector =
            |(address, url): &(Address, String)| Ok((*address, Connector::new(url, settings.clone())?));
        Ok(Door { listener, connectors: others.iter().map(connector).collect::<Result<_, PeerError>>()? })
    }
}

/// A connection that stands.
struct Connection {
    address: Address,
    peer: Box<dyn Peer>,
}

/// A unit and all that it needs.
pub(crate) struct UnitHost<W> {
    pub(crate) work: W,
    name: String,
    plan: Arc<UnitPlan>,
    door: Door,
    connections: Vec<Connection>,
    outbox: Outbox,
    message: Message,
    clock: RunClock,
    /// Peers that may have something to read or take something more.
    ready: ReadySet,
    /// Whether something waits of which no descriptor tells.
    holds: bool,
    met: Option<Mark>,
    /// Connections that the listener had refused when it was last asked.
    refused: u64,
    /// Why the last connection to another unit was refused.
    refusal: String,
}

impl<W: Work> UnitHost<W> {
    /// A unit without connections.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn new(
        name: &str,
        work: W,
        door: Door,
        plan: Arc<UnitPlan>,
        clock: RunClock,
    ) -> Result<UnitHost<W>, PeerError> {
        let failed = |call| {
            let place = name.to_owned();
            move |cause| PeerError::System { place, call, cause }
        };
        let mut ready = ReadySet::new().map_err(failed("epoll_create1"))?;
        if let Some(listener) = &door.listener {
            ready.add(listener, 0).map_err(failed("epoll_ctl"))?;
        }
        Ok(UnitHost {
            work,
            name: name.to_owned(),
            plan,
            door,
            connections: Vec::new(),
            outbox: Outbox::default(),
            message: Message::default(),
            clock,
            ready,
            holds: false,
            met: None,
            refused: 0,
            refusal: String::new(),
        })
    }

    /// Works until there is nothing left to do.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) -> UnitHost<W> {
        while !self.work.is_over(signals) {
            self.tick(signals);
        }
        self.work.finish(signals);
        for connection in &mut self.connections {
            connection.peer.close(GOOD_BYE);
        }
        self
    }

    /// Does what there is to do, or sleeps.
    pub(crate) fn tick(&mut self, signals: &Signals) {
        if !self.advance(signals) {
            self.rest();
        }
    }

    /// Does what there is to do once; whether there was anything.
    pub(crate) fn advance(&mut self, signals: &Signals) -> bool {
        let now = self.clock.mark();
        self.holds = false;
        if self.met.is_none_or(|met| now.since_ns(met) >= MEET_EVERY_NS) {
            self.met = Some(now);
            self.meet(now, signals);
        }
        let mut busy = self.hear(now);
        busy |= self.work.step(now, signals);
        self.work.machine().poll(now, &mut self.outbox);
        busy | self.speak(now)
    }

    /// Sleeps until a peer has something to say or takes more, at most for a moment.
    pub(crate) fn rest(&mut self) {
        let wait = self.work.rest();
        // A peer that is held back stays ready, and would be found so again and again.
        if self.holds || self.ready.wait(wait).is_err() {
            std::thread::sleep(wait.min(HOLD_STEP));
        }
    }

    /// Lets this unit's rest end for the other as well: for two units of one thread.
    ///
    /// # Errors
    /// When the system takes no more.
    pub(crate) fn rest_with<V>(&mut self, other: &UnitHost<V>) -> io::Result<()> {
        self.ready.add(&other.ready, 0)
    }

    /// Takes new connections, of others and to others.
    fn meet(&mut self, now: Mark, signals: &Signals) {
        let accepted = self.door.listener.as_mut().map(|listener| listener.accept(Duration::ZERO));
        match accepted {
            Some(Ok(Some(peer))) => match self.plan.address(peer.name()) {
                Some(address) => self.connected(address, peer, now),
                None => tracing::warn!("{}: a unit called \"{}\" is not of this run", self.name, peer.name()),
            },
            Some(Err(error)) => tracing::warn!("{}: {error}", self.name),
            Some(Ok(None)) | None => {}
        }
        self.note_refused(signals);
        for index in 0..self.door.connectors.len() {
            let (address, connector) = &mut self.door.connectors[index];
            let address = *address;
            if self.connections.iter().any(|connection| connection.address == address) {
                continue;
            }
            match connector.poll(Duration::ZERO) {
                Ok(Some(peer)) => self.connected(address, peer, now),
                Ok(None) => {}
                Err(error) => self.refused_by(&error, signals),
            }
        }
    }

    /// Says who was not let in: those who are units, but not of ours, in the run's failures as well.
    fn note_refused(&mut self, signals: &Signals) {
        let Some(listener) = &self.door.listener else { return };
        if let Some(error) = listener.last_refusal().filter(|_| listener.refused() != self.refused) {
            let words = error.to_string();
            match error.is_mismatch() {
                // Each try comes from another port.
                true => signals.note_failure(format!(
                    "{}: {}",
                    self.name,
                    words.split_once(": ").map_or("", |(_, words)| words)
                )),
                false => tracing::warn!("{}: a connection was refused: {words}", self.name),
            }
        }
        self.refused = listener.refused();
    }

    /// Says once that another unit does not talk to this one; it is tried again, for it may be started anew.
    fn refused_by(&mut self, error: &PeerError, signals: &Signals) {
        let words = format!("{}: {error}", self.name);
        if words != self.refusal {
            signals.note_failure(words.clone());
            self.refusal = words;
        }
    }

    fn connected(&mut self, address: Address, peer: Box<dyn Peer>, now: Mark) {
        tracing::info!("{}: connected with {address} at {}", self.name, peer.place());
        // Whoever comes back has lost the connection before, even if this side has not seen it yet.
        if let Some(index) = self.connections.iter().position(|connection| connection.address == address) {
            self.lost(index, now, "it has connected again");
        }
        self.work.machine().connected(address, now);
        if let Err(error) = self.ready.add(peer.descriptor(), 0) {
            tracing::warn!("{}: {address} is not waited for but looked at: {error}", self.name);
        }
        self.connections.push(Connection { address, peer });
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
        self.work.machine().disconnected(connection.address, now, &mut self.outbox);
    }

    /// Hands messages to the machine; whether there were any.
    fn hear(&mut self, now: Mark) -> bool {
        let (mut any, mut index) = (false, 0);
        'peers: while index < self.connections.len() {
            for _ in 0..IN_A_ROW {
                let Connection { address, peer } = &mut self.connections[index];
                match peer.receive(&mut self.message, Duration::ZERO) {
                    Ok(Received::Data) => {
                        any = true;
                        self.work.machine().on_message(*address, &self.message, now);
                        self.message.clear();
                    }
                    Ok(Received::Idle) => break,
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
            let Connection { address, peer } = &mut self.connections[index];
            let mut failure = None;
            while let Some(message) = self.outbox.front(*address) {
                match peer.send(message) {
                    Ok(Sent::Taken) => {
                        any = true;
                        self.outbox.sent(*address);
                    }
                    Ok(Sent::Full) => {
                        // Of TCP and shared memory the descriptor tells.
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
