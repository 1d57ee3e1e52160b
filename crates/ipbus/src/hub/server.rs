//! The hub's sockets: one thread, one epoll instance, a socket for each target and each client.
//!
//! ```text
//!  listener, clients, targets ─ ready ─► Router ─► datagrams and replies, as many as the sockets accept
//! ```

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::counts::HubState;
use super::router::Router;
use super::rules::Rules;
use crate::datagrams::{Incoming, Outgoing, coalesce};
use crate::device::ServeError;

/// Interval between two updates of the published state.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two searches for idle targets and stuck clients.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How long a client may accept none of its replies before it is closed.
const STUCK: Duration = Duration::from_secs(60);
/// Replies to a client that waits for at least `MANY` are collected up to this many bytes, and for at most this time.
const HELD_BYTES: usize = 16 << 10;
const HELD_FOR: Duration = Duration::from_micros(100);
/// A client that waits for fewer replies than this is not reading a block, and gets each reply at once.
const MANY: usize = 8;
/// Most bytes in one read from a client.
const READ_BYTES: usize = 64 << 10;
/// Most runs of datagrams that are received from one target before the others are served.
const MOST_RUNS: usize = 16;
const EVENTS: usize = 256;

/// Options of a hub.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The address to listen on; 10203 is the usual port.
    pub listen: SocketAddr,
    /// The access rules.
    pub rules: Rules,
    /// How long a packet may take, repeats included. uHAL waits for one second.
    pub timeout: Duration,
    /// Most clients at the same time.
    pub most_clients: usize,
    /// Spins for packets instead of sleeping: saves a wake-up, but takes a whole core.
    pub busy_poll: bool,
}

impl HubOptions {
    /// The default options, for an address to listen on.
    pub fn at(listen: SocketAddr) -> HubOptions {
        HubOptions {
            listen,
            rules: Rules::default(),
            timeout: Duration::from_millis(500),
            most_clients: 1024,
            busy_poll: false,
        }
    }
}

const RUNS: u8 = 0;
const ENDS: u8 = 1;
const STOPS: u8 = 2;

/// A running hub. Dropping it stops it at once; [`HubServer::end`] lets it answer outstanding requests first.
#[derive(Debug)]
pub struct HubServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stage: AtomicU8,
    wake: OwnedFd,
    state: Mutex<HubState>,
}

impl Shared {
    fn go_to(&self, stage: u8) {
        self.stage.store(stage, Ordering::Release);
        // The counter of the eventfd cannot overflow: there are only a few writes.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl HubServer {
    /// Starts a hub.
    ///
    /// # Errors
    /// When its address cannot be listened on.
    pub fn start(options: HubOptions) -> Result<HubServer, ServeError> {
        let failed = |cause| ServeError { place: options.listen, cause };
        let listener = TcpListener::bind(options.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed(error.into()))?;
        let state = Mutex::new(HubState::default());
        let shared = Arc::new(Shared { stage: AtomicU8::new(RUNS), wake, state });
        let serving = Serving::new(listener, &options, shared.clone()).map_err(failed)?;
        let thread = std::thread::Builder::new().name("ipbus hub".to_owned()).spawn(move || serving.run());
        Ok(HubServer { address, shared, thread: Some(thread.map_err(failed)?) })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its state, at most a quarter of a second old.
    pub fn state(&self) -> HubState {
        self.view().state()
    }

    /// A handle to its state, which stays valid after the hub has ended.
    pub fn view(&self) -> HubView {
        HubView(self.shared.clone())
    }

    /// Reads no more requests, and ends when those already read are answered, or `within` has passed. Returns the last state.
    pub fn end(mut self, within: Duration) -> HubState {
        self.shared.go_to(ENDS);
        let end = Instant::now() + within;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.stop();
        self.state()
    }

    fn stop(&mut self) {
        self.shared.go_to(STOPS);
        // The panic of a thread was already reported.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// A handle to the state of a hub; after the hub has ended, to its last state.
#[derive(Clone, Debug)]
pub struct HubView(Arc<Shared>);

impl HubView {
    /// Its state, at most a quarter of a second old.
    pub fn state(&self) -> HubState {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Wake,
    Listener,
    Client(usize),
    Target(usize),
}

impl Whose {
    fn data(self) -> EventData {
        EventData::new_u64(match self {
            Whose::Wake => 0,
            Whose::Listener => 1,
            Whose::Client(slot) => 2 << 32 | slot as u64,
            Whose::Target(slot) => 3 << 32 | slot as u64,
        })
    }

    fn of(data: EventData) -> Whose {
        let slot = (data.u64() & u64::from(u32::MAX)) as usize;
        match data.u64() >> 32 {
            2 => Whose::Client(slot),
            3 => Whose::Target(slot),
            _ if slot == 0 => Whose::Wake,
            _ => Whose::Listener,
        }
    }
}

/// A client's socket.
#[derive(Debug)]
struct Connection {
    socket: TcpStream,
    /// The events that epoll reports.
    interest: EventFlags,
    /// When it last accepted bytes, or had none to accept.
    took: Instant,
    /// The client sends no more; the connection is closed after the last reply.
    is_over: bool,
    /// The socket's send buffer is full.
    is_blocked: bool,
    /// When its collected replies are sent.
    held_until: Option<Instant>,
}

/// The state of the hub's thread.
struct Serving {
    epoll: OwnedFd,
    listener: Option<TcpListener>,
    /// Is closed for a moment when no other descriptor is left, to turn a client away: epoll would report it without end.
    spare: Option<File>,
    router: Router,
    connections: HashMap<usize, Connection>,
    sockets: HashMap<usize, UdpSocket>,
    shared: Arc<Shared>,
    most_clients: usize,
    busy_poll: bool,
    buffer: Vec<u8>,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Whether packets to a target are sent in runs. With only one active target, hub and target would wait for each other in turn.
    sends_runs: bool,
    /// Targets that may have packets to send.
    due: Vec<usize>,
    /// Clients to serve, because of an event or a reply.
    touched: Vec<usize>,
    /// Clients whose replies are collected, and until when; the oldest first.
    held: VecDeque<(usize, Instant)>,
    shown: Instant,
    swept: Instant,
    has_changed: bool,
}

impl Serving {
    fn new(listener: TcpListener, options: &HubOptions, shared: Arc<Shared>) -> io::Result<Serving> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &shared.wake, Whose::Wake.data(), EventFlags::IN)?;
        epoll::add(&epoll, &listener, Whose::Listener.data(), EventFlags::IN)?;
        let now = Instant::now();
        Ok(Serving {
            epoll,
            listener: Some(listener),
            spare: spare_descriptor(),
            router: Router::new(options.rules.clone(), options.timeout),
            connections: HashMap::new(),
            sockets: HashMap::new(),
            shared,
            most_clients: options.most_clients,
            busy_poll: options.busy_poll,
            buffer: vec![0; READ_BYTES],
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            sends_runs: false,
            due: Vec::new(),
            touched: Vec::new(),
            held: VecDeque::new(),
            shown: now,
            swept: now,
            has_changed: true,
        })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let stage = self.shared.stage.load(Ordering::Acquire);
            if stage != RUNS {
                // From here on, no client is accepted and nothing more is read.
                self.listener = None;
            }
            if stage == STOPS || stage == ENDS && self.router.is_served() {
                break;
            }
            let timeout = self.timeout();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    // This happens only with an invalid descriptor.
                    debug_assert!(false, "{error}");
                    break;
                }
            }
            let now = Instant::now();
            self.has_changed |= !events.is_empty();
            let is_target = |event: &epoll::Event| matches!(Whose::of(event.data), Whose::Target(_));
            self.sends_runs = events.iter().filter(|event| is_target(event)).nth(1).is_some();
            for event in events.drain(..) {
                self.on_event(Whose::of(event.data), event.flags, now);
            }
            if self.router.deadline().is_some_and(|deadline| deadline <= now) {
                self.router.expire(now, &mut self.due, &mut self.touched);
                self.has_changed = true;
            }
            self.release(now);
            self.settle(now);
            self.publish(now);
        }
        let ended: Vec<usize> = self.connections.keys().copied().collect();
        ended.into_iter().for_each(|slot| self.router.close(slot));
        *self.shared.state.lock().unwrap_or_else(PoisonError::into_inner) = self.router.state(true);
    }

    fn is_ending(&self) -> bool {
        self.listener.is_none()
    }

    fn timeout(&self) -> Option<Timespec> {
        let now = Instant::now();
        let shown = self.has_changed.then_some(self.shown + PUBLISH_INTERVAL);
        let held = self.held.front().map(|(_, until)| *until);
        let until = [self.router.deadline(), shown, held, Some(self.swept + SWEEP_INTERVAL)]
            .into_iter()
            .flatten()
            .min();
        let left = until.map(|until| until.saturating_duration_since(now)).unwrap_or(SWEEP_INTERVAL);
        Timespec::try_from(if self.busy_poll { Duration::ZERO } else { left }).ok()
    }

    fn on_event(&mut self, whose: Whose, flags: EventFlags, now: Instant) {
        match whose {
            Whose::Wake => {
                let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
            }
            Whose::Listener => self.accept(now),
            Whose::Client(slot) => {
                let is_there = match flags.contains(EventFlags::IN) {
                    true => self.read(slot),
                    // The connection is closed in both directions.
                    false => !flags.intersects(EventFlags::HUP | EventFlags::ERR),
                };
                if !is_there {
                    return self.close(slot);
                }
                self.touched.push(slot);
            }
            Whose::Target(slot) => self.receive(slot, now),
        }
    }

    fn accept(&mut self, now: Instant) {
        // One connection per wake-up, so that other events are served in between.
        let Some(listener) = &self.listener else { return };
        let (socket, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(cause) if is_passing(&cause) => return,
            Err(_) => {
                self.spare = None;
                match listener.accept() {
                    Ok(_) => self.router.turned_away += 1,
                    // Somebody else was given it. Whoever closes one must get to run.
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
                self.spare = spare_descriptor();
                return;
            }
        };
        if self.connections.len() >= self.most_clients {
            self.router.turned_away += 1;
            return;
        }
        let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
        if prepared.is_err() {
            return;
        }
        let slot = self.router.open(peer);
        let interest = EventFlags::IN;
        match epoll::add(&self.epoll, &socket, Whose::Client(slot).data(), interest) {
            Ok(()) => drop(self.connections.insert(
                slot,
                Connection {
                    socket,
                    interest,
                    took: now,
                    is_over: false,
                    is_blocked: false,
                    held_until: None,
                },
            )),
            Err(_) => self.router.close(slot),
        }
    }

    /// Reads from a client. Returns whether it is still connected.
    fn read(&mut self, slot: usize) -> bool {
        let (Some(connection), Some(side)) = (self.connections.get_mut(&slot), self.router.client(slot))
        else {
            return true;
        };
        match connection.socket.read(&mut self.buffer) {
            Ok(0) => {
                connection.is_over = true;
                true
            }
            Ok(count) => {
                side.receive(&self.buffer[..count]);
                true
            }
            Err(cause) => is_passing(&cause),
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(connection) = self.connections.remove(&slot) {
            let _ = epoll::delete(&self.epoll, &connection.socket);
            self.router.close(slot);
        }
    }

    fn receive(&mut self, slot: usize, now: Instant) {
        for _ in 0..MOST_RUNS {
            let Some(socket) = self.sockets.get(&slot) else { return };
            match self.incoming.receive(socket) {
                Ok(_) => {}
                // A closed port that an earlier packet reached counts as a lost packet.
                Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
            while let Some(packet) = self.incoming.take() {
                self.router.receive(slot, packet, now, &mut self.touched);
            }
        }
        self.due.push(slot);
    }

    /// Sends packets to targets and replies to clients, and takes further requests, until nothing is left to do.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(slot) = self.touched.pop() {
                self.serve(slot, now);
            } else if let Some(slot) = self.due.pop() {
                self.transmit(slot, now);
            } else {
                return;
            }
        }
    }

    /// Marks clients for service whose replies were collected for long enough.
    fn release(&mut self, now: Instant) {
        while let Some((slot, _)) = self.held.front().copied().filter(|(_, until)| *until <= now) {
            self.held.pop_front();
            self.touched.push(slot);
        }
    }

    /// Writes a client's replies, and takes its requests.
    fn serve(&mut self, slot: usize, now: Instant) {
        if !self.write(slot, now) {
            return self.close(slot);
        }
        loop {
            match self.router.take_chunk(slot, now, &mut self.due) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    self.router.broken += 1;
                    return self.close(slot);
                }
            }
        }
        // Requests that were refused at once have their replies already.
        if !self.write(slot, now) {
            return self.close(slot);
        }
        let is_ending = self.is_ending();
        let (Some(connection), Some(side)) = (self.connections.get_mut(&slot), self.router.client(slot))
        else {
            return;
        };
        if connection.is_over && side.replies.is_empty() {
            return self.close(slot);
        }
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, side.replies.accepts_more() && !is_ending && !connection.is_over);
        interest.set(EventFlags::OUT, connection.is_blocked);
        if interest != connection.interest {
            connection.interest = interest;
            if epoll::modify(&self.epoll, &connection.socket, Whose::Client(slot).data(), interest).is_err() {
                self.close(slot);
            }
        }
    }

    /// Writes replies to a client, or collects more of them. Returns whether the client is still connected.
    fn write(&mut self, slot: usize, now: Instant) -> bool {
        let (Some(connection), Some(side)) = (self.connections.get_mut(&slot), self.router.client(slot))
        else {
            return true;
        };
        let may_wait = side.replies.owed() >= MANY && (1..HELD_BYTES).contains(&side.replies.unsent().len());
        match connection.held_until {
            Some(until) if may_wait && now < until => return true,
            None if may_wait && !connection.is_blocked => {
                connection.held_until = Some(now + HELD_FOR);
                self.held.push_back((slot, now + HELD_FOR));
                return true;
            }
            _ => connection.held_until = None,
        }
        connection.is_blocked = false;
        while !side.replies.unsent().is_empty() {
            match connection.socket.write(side.replies.unsent()) {
                Ok(0) => return false,
                Ok(count) => {
                    side.replies.mark_sent(count);
                    connection.took = now;
                }
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    connection.is_blocked = true;
                    return true;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        connection.took = now;
        true
    }

    fn transmit(&mut self, slot: usize, now: Instant) {
        if !self.sockets.contains_key(&slot)
            && let Ok(socket) = self.open(slot)
        {
            self.sockets.insert(slot, socket);
        }
        // A packet that cannot be sent counts as lost. Without a socket, as without a route to the target, all do; the next repetition
        // tries again to open one.
        let socket = self.sockets.get(&slot);
        while let Some(packet) = self.router.transmit(slot, now, &mut self.touched) {
            let Some(socket) = socket else { continue };
            let _ = self.outgoing.add(packet, socket, None);
            if !self.sends_runs {
                let _ = self.outgoing.send(socket, None);
            }
        }
        if let Some(socket) = socket {
            let _ = self.outgoing.send(socket, None);
        }
    }

    fn open(&mut self, slot: usize) -> io::Result<UdpSocket> {
        let target = self.router.target(slot).ok_or(io::ErrorKind::NotFound)?.target;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((target.address, target.port))?;
        socket.set_nonblocking(true)?;
        coalesce(&socket);
        epoll::add(&self.epoll, socket.as_fd(), Whose::Target(slot).data(), EventFlags::IN)?;
        Ok(socket)
    }

    /// Publishes the state, and closes idle targets and stuck clients, each at its interval.
    fn publish(&mut self, now: Instant) {
        if self.has_changed && now >= self.shown + PUBLISH_INTERVAL {
            *self.shared.state.lock().unwrap_or_else(PoisonError::into_inner) =
                self.router.state(self.is_ending());
            (self.shown, self.has_changed) = (now, false);
        }
        if now >= self.swept + SWEEP_INTERVAL {
            self.swept = now;
            for slot in self.router.sweep(now) {
                self.sockets.remove(&slot);
            }
            let stuck = |connection: &Connection| {
                connection.interest.contains(EventFlags::OUT) && now >= connection.took + STUCK
            };
            let stuck: Vec<usize> =
                self.connections.iter().filter(|(_, one)| stuck(one)).map(|(slot, _)| *slot).collect();
            stuck.into_iter().for_each(|slot| self.close(slot));
        }
    }
}

fn spare_descriptor() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Whether an error is transient.
fn is_passing(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
