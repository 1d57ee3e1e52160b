//! One unit on a thread: its machine, its connections, and its work.
//!
//! ```text
//!  others ─► Listener ─┐                    ┌─ on_message ─► machine ─ poll ─► outbox ─┐
//!  Connector ─► others ┴─► peers ─ receive ─┘                  ▲ work: data in and out └─ send ─► peers
//! ```
//! A peer that is lost is told to the machine and, where this side had connected, connected to again; no other is touched.

use std::sync::Arc;
use std::time::Duration;

use thalweg_build::unit::{Address, Outbox};
use thalweg_data::{Mark, Message, Received};
use thalweg_readout::RunClock;
use thalweg_transport::peer::{self, Connector, Listener, Peer, PeerError, Sent};

use super::{UnitPlan, Work};
use crate::pipeline::Signals;

/// How long a unit sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_micros(100);
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
}

impl<W: Work> UnitHost<W> {
    pub(crate) fn new(name: &str, work: W, door: Door, plan: Arc<UnitPlan>, clock: RunClock) -> UnitHost<W> {
        UnitHost {
            work,
            name: name.to_owned(),
            plan,
            door,
            connections: Vec::new(),
            outbox: Outbox::default(),
            message: Message::default(),
            clock,
        }
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
        self.meet(now);
        let mut busy = self.hear(now);
        busy |= self.work.step(now, signals);
        self.work.machine().poll(now, &mut self.outbox);
        busy | self.speak(now)
    }

    /// Sleeps for a moment.
    pub(crate) fn rest(&mut self) {
        std::thread::sleep(IDLE);
    }

    /// Takes new connections, of others and to others.
    fn meet(&mut self, now: Mark) {
        let accepted = self.door.listener.as_mut().map(|listener| listener.accept(Duration::ZERO));
        match accepted {
            Some(Ok(Some(peer))) => match self.plan.address(peer.name()) {
                Some(address) => self.connected(address, peer, now),
                None => tracing::warn!("{}: a unit called \"{}\" is not of this run", self.name, peer.name()),
            },
            Some(Err(error)) => tracing::warn!("{}: {error}", self.name),
            Some(Ok(None)) | None => {}
        }
        for index in 0..self.door.connectors.len() {
            let (address, connector) = &mut self.door.connectors[index];
            let address = *address;
            if self.connections.iter().any(|connection| connection.address == address) {
                continue;
            }
            match connector.poll(Duration::ZERO) {
                Ok(Some(peer)) => self.connected(address, peer, now),
                Ok(None) => {}
                Err(error) => tracing::debug!("{}: {error}", self.name),
            }
        }
    }

    fn connected(&mut self, address: Address, peer: Box<dyn Peer>, now: Mark) {
        tracing::info!("{}: connected with {address} at {}", self.name, peer.place());
        // Whoever comes back has lost the connection before, even if this side has not seen it yet.
        if let Some(index) = self.connections.iter().position(|connection| connection.address == address) {
            self.lost(index, now, "it has connected again");
        }
        self.work.machine().connected(address, now);
        self.connections.push(Connection { address, peer });
    }

    fn lost(&mut self, index: usize, now: Mark, why: &str) {
        let address = self.connections[index].address;
        tracing::warn!("{}: the connection with {address} is lost: {why}", self.name);
        self.gone(index, now);
    }

    fn gone(&mut self, index: usize, now: Mark) {
        let connection = self.connections.swap_remove(index);
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
                    Ok(Received::Idle | Received::Full) => break,
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
        let (mut any, mut index) = (false, 0);
        while index < self.connections.len() {
            let Connection { address, peer } = &mut self.connections[index];
            let mut failure = None;
            while let Some(message) = self.outbox.front(*address) {
                match peer.send(message) {
                    Ok(Sent::Taken) => {
                        any = true;
                        self.outbox.sent(*address);
                    }
                    Ok(Sent::Full) => break,
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
        any
    }
}
