//! The hub on the network: one thread, one epoll, a socket for each target and each client.
//!
//! ```text
//!  listener, clients, targets ─ ready ─► Router ─► datagrams and replies, as many as the sockets take
//! ```

use std::collections::{HashMap, VecDeque};
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

/// Between two times that the state is shown.
const SHOWN: Duration = Duration::from_millis(250);
/// Between two times that idle targets and stuck clients are looked for.
const SWEPT: Duration = Duration::from_secs(10);
/// A client that takes none of its replies for so long is closed.
const STUCK: Duration = Duration::from_secs(60);
/// Replies of a client that waits for as many as `MANY` are held until so many bytes of them are there, or so much time has passed.
const HELD_BYTES: usize = 16 << 10;
const HELD_FOR: Duration = Duration::from_micros(100);
/// A client that waits for fewer replies than this is not reading a block, and gets each at once.
const MANY: usize = 8;
/// Bytes that are read from a client at once.
const READ_BYTES: usize = 64 << 10;
/// Runs of datagrams that are read from one target before others have their turn.
const MOST_RUNS: usize = 16;
const EVENTS: usize = 256;

/// How a hub is run.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Where clients come; 10203 is the usual port.
    pub listen: SocketAddr,
    /// Who may do what.
    pub rules: Rules,
    /// So long a packet may take, losses included. uHAL waits for a second.
    pub timeout: Duration,
    /// Clients at the same time.
    pub most_clients: usize,
    /// Looks for packets all the time instead of sleeping: faster by a wake-up, for a whole router.
    pub busy_poll: bool,
}

impl HubOptions {
    /// As a hub usually is, at an address.
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

/// A hub that is running. Dropping it ends it at once; [`HubServer::end`] lets it finish first.
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
        // It is not full: nobody writes more than a few times.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl HubServer {
    /// Starts a hub.
    ///
    /// # Errors
    /// When its address cannot be had.
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

    /// Where clients come.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done, as of a quarter of a second ago at most.
    pub fn state(&self) -> HubState {
        self.view().state()
    }

    /// Its state for others, as long as they want it.
    pub fn view(&self) -> HubView {
        HubView(self.shared.clone())
    }

    /// Takes no more requests, and ends when those that it has read are answered, or `within` has passed. What it has done.
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
        // A thread that has panicked has said so.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// The state of a hub, for those who show it; of one that has ended, its last.
#[derive(Clone, Debug)]
pub struct HubView(Arc<Shared>);

impl HubView {
    /// What it has done, as of a quarter of a second ago at most.
    pub fn state(&self) -> HubState {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whose an event is.
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
            Whose::Client(place) => 2 << 32 | place as u64,
            Whose::Target(place) => 3 << 32 | place as u64,
        })
    }

    fn of(data: EventData) -> Whose {
        let place = (data.u64() & u64::from(u32::MAX)) as usize;
        match data.u64() >> 32 {
            2 => Whose::Client(place),
            3 => Whose::Target(place),
            _ if place == 0 => Whose::Wake,
            _ => Whose::Listener,
        }
    }
}

/// A client's socket.
#[derive(Debug)]
struct Connection {
    socket: TcpStream,
    /// What is waited for.
    interest: EventFlags,
    /// When it took something last, or had nothing to take.
    took: Instant,
    /// It sends no more, and is closed when it has its replies.
    is_over: bool,
    /// It takes nothing more for now.
    is_blocked: bool,
    /// Its replies are held until then.
    held_until: Option<Instant>,
}

/// What the thread has.
struct Serving {
    epoll: OwnedFd,
    listener: Option<TcpListener>,
    router: Router,
    connections: HashMap<usize, Connection>,
    sockets: HashMap<usize, UdpSocket>,
    shared: Arc<Shared>,
    most_clients: usize,
    busy_poll: bool,
    buffer: Vec<u8>,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Packets for a target leave in a run. Where only one target is at work, it would wait for the run and the hub for its answers, in turn.
    sends_runs: bool,
    /// Targets that may have something to send.
    due: Vec<usize>,
    /// Clients that something has changed for.
    touched: Vec<usize>,
    /// Clients whose replies are held, and until when; the oldest first.
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
                // Nobody comes any more, and nothing more is read: the sockets of clients say so when they are closed.
                self.listener = None;
            }
            if stage == STOPS || stage == ENDS && self.router.is_served() {
                break;
            }
            let timeout = self.timeout();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    // Only a descriptor that is none does this.
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
            self.show(now);
        }
        let ended: Vec<usize> = self.connections.keys().copied().collect();
        ended.into_iter().for_each(|place| self.router.close(place));
        *self.shared.state.lock().unwrap_or_else(PoisonError::into_inner) = self.router.state(true);
    }

    fn is_ending(&self) -> bool {
        self.listener.is_none()
    }

    fn timeout(&self) -> Option<Timespec> {
        let now = Instant::now();
        let shown = self.has_changed.then_some(self.shown + SHOWN);
        let held = self.held.front().map(|(_, until)| *until);
        let until =
            [self.router.deadline(), shown, held, Some(self.swept + SWEPT)].into_iter().flatten().min();
        let left = until.map(|until| until.saturating_duration_since(now)).unwrap_or(SWEPT);
        Timespec::try_from(if self.busy_poll { Duration::ZERO } else { left }).ok()
    }

    fn on_event(&mut self, whose: Whose, flags: EventFlags, now: Instant) {
        match whose {
            Whose::Wake => {
                let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
            }
            Whose::Listener => self.accept(now),
            Whose::Client(place) => {
                let is_there = match flags.contains(EventFlags::IN) {
                    true => self.read(place),
                    // It can neither be read from nor written to.
                    false => !flags.intersects(EventFlags::HUP | EventFlags::ERR),
                };
                if !is_there {
                    return self.close(place);
                }
                self.touched.push(place);
            }
            Whose::Target(place) => self.receive(place, now),
        }
    }

    fn accept(&mut self, now: Instant) {
        // Every other connection waits for the next turn: what has come is served first.
        let Some(Ok((socket, peer))) = self.listener.as_ref().map(TcpListener::accept) else { return };
        if self.connections.len() >= self.most_clients {
            self.router.turned_away += 1;
            return;
        }
        let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
        if prepared.is_err() {
            return;
        }
        let place = self.router.open(peer);
        let interest = EventFlags::IN;
        match epoll::add(&self.epoll, &socket, Whose::Client(place).data(), interest) {
            Ok(()) => drop(self.connections.insert(
                place,
                Connection {
                    socket,
                    interest,
                    took: now,
                    is_over: false,
                    is_blocked: false,
                    held_until: None,
                },
            )),
            Err(_) => self.router.close(place),
        }
    }

    /// Reads from a client; whether it is still there.
    fn read(&mut self, place: usize) -> bool {
        let (Some(connection), Some(side)) = (self.connections.get_mut(&place), self.router.client(place))
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

    fn close(&mut self, place: usize) {
        if let Some(connection) = self.connections.remove(&place) {
            let _ = epoll::delete(&self.epoll, &connection.socket);
            self.router.close(place);
        }
    }

    fn receive(&mut self, place: usize, now: Instant) {
        for _ in 0..MOST_RUNS {
            let Some(socket) = self.sockets.get(&place) else { return };
            match self.incoming.receive(socket) {
                Ok(_) => {}
                // What an earlier packet met, a closed port for one, is a loss like any other.
                Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
            while let Some(packet) = self.incoming.take() {
                self.router.receive(place, packet, now, &mut self.touched);
            }
        }
        self.due.push(place);
    }

    /// Goes on until nobody has anything more to do: packets for targets, replies for clients, what these have asked meanwhile.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(place) = self.touched.pop() {
                self.serve(place, now);
            } else if let Some(place) = self.due.pop() {
                self.transmit(place, now);
            } else {
                return;
            }
        }
    }

    /// Replies that have been held for long enough go.
    fn release(&mut self, now: Instant) {
        while let Some((place, _)) = self.held.front().copied().filter(|(_, until)| *until <= now) {
            self.held.pop_front();
            self.touched.push(place);
        }
    }

    /// Writes a client's replies, and takes what it asks.
    fn serve(&mut self, place: usize, now: Instant) {
        if !self.write(place, now) {
            return self.close(place);
        }
        loop {
            match self.router.take_chunk(place, now, &mut self.due) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    self.router.broken += 1;
                    return self.close(place);
                }
            }
        }
        // Refusals need no target.
        if !self.write(place, now) {
            return self.close(place);
        }
        let is_ending = self.is_ending();
        let (Some(connection), Some(side)) = (self.connections.get_mut(&place), self.router.client(place))
        else {
            return;
        };
        if connection.is_over && side.replies.is_empty() {
            return self.close(place);
        }
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, side.replies.has_room() && !is_ending && !connection.is_over);
        interest.set(EventFlags::OUT, connection.is_blocked);
        if interest != connection.interest {
            connection.interest = interest;
            if epoll::modify(&self.epoll, &connection.socket, Whose::Client(place).data(), interest).is_err()
            {
                self.close(place);
            }
        }
    }

    /// Writes what a client takes, or waits for more replies of a block; whether the client is still there.
    fn write(&mut self, place: usize, now: Instant) -> bool {
        let (Some(connection), Some(side)) = (self.connections.get_mut(&place), self.router.client(place))
        else {
            return true;
        };
        let may_wait = side.replies.owed() >= MANY && (1..HELD_BYTES).contains(&side.replies.unsent().len());
        match connection.held_until {
            Some(until) if may_wait && now < until => return true,
            None if may_wait && !connection.is_blocked => {
                connection.held_until = Some(now + HELD_FOR);
                self.held.push_back((place, now + HELD_FOR));
                return true;
            }
            _ => connection.held_until = None,
        }
        connection.is_blocked = false;
        while !side.replies.unsent().is_empty() {
            match connection.socket.write(side.replies.unsent()) {
                Ok(0) => return false,
                Ok(count) => {
                    side.replies.has_gone(count);
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

    fn transmit(&mut self, place: usize, now: Instant) {
        if !self.sockets.contains_key(&place) {
            match self.open(place) {
                Ok(socket) => drop(self.sockets.insert(place, socket)),
                // No socket: its packets are lost, until time has passed and they are refused.
                Err(_) => return,
            }
        }
        let Some(socket) = self.sockets.get(&place) else { return };
        // What cannot be sent is a loss like any other.
        while let Some(packet) = self.router.transmit(place, now) {
            let _ = self.outgoing.add(packet, socket, None);
            if !self.sends_runs {
                let _ = self.outgoing.send(socket, None);
            }
        }
        let _ = self.outgoing.send(socket, None);
    }

    fn open(&mut self, place: usize) -> io::Result<UdpSocket> {
        let target = self.router.target(place).ok_or(io::ErrorKind::NotFound)?.target;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((target.address, target.port))?;
        socket.set_nonblocking(true)?;
        coalesce(&socket);
        epoll::add(&self.epoll, socket.as_fd(), Whose::Target(place).data(), EventFlags::IN)?;
        Ok(socket)
    }

    /// What others see, and what has to be done now and then.
    fn show(&mut self, now: Instant) {
        if self.has_changed && now >= self.shown + SHOWN {
            *self.shared.state.lock().unwrap_or_else(PoisonError::into_inner) =
                self.router.state(self.is_ending());
            (self.shown, self.has_changed) = (now, false);
        }
        if now >= self.swept + SWEPT {
            self.swept = now;
            for place in self.router.sweep(now) {
                self.sockets.remove(&place);
            }
            let stuck = |connection: &Connection| {
                connection.interest.contains(EventFlags::OUT) && now >= connection.took + STUCK
            };
            let stuck: Vec<usize> =
                self.connections.iter().filter(|(_, one)| stuck(one)).map(|(place, _)| *place).collect();
            stuck.into_iter().for_each(|place| self.close(place));
        }
    }
}

/// What passes by itself.
fn is_passing(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
