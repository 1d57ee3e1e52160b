//! Measures the cost of reading many boards, against a bare loop around the same system calls.
//!
//! ```text
//!  105 emulated boards ─ TCP ─► Group: epoll, receive into blocks, split      │ bare: epoll, recv
//!  265 emulated boards ─ UDP ─► Group                                         │ the receiver alone, nothing split
//! ```
//! Subject and baseline have the same boards, sockets of the same kind and as much memory at the other end, and are asked for
//! the same triggers in turn. Time is that of the reading thread's processor, so that neither the boards nor the rest of the
//! machine is measured; `wall_fragments_per_second` says what went through meanwhile, boards included.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::ring::{Producer, ring};
use thalweg_data::{BoardId, Busy, Fragments, Frames, Lease, LinkId, Pool, SourceError, SourceId};
use thalweg_frontend::fragment;
use thalweg_frontend::fragment::wire::HEADER_BYTES;
use thalweg_frontend::trigger::Trigger;
use thalweg_transport::{ReadySet, UdpReceiver, UdpReceiverSettings, thread_cpu_time};

use thalweg_readout::group::{Group, GroupSettings, Inputs, Take};
use thalweg_readout::host::triggered::{Feed, Hosted, HostedBoards, HostedLink, Outlet, TriggeredSettings};
use thalweg_readout::links::{LinkSettings, OpenedLinks, open_links};
use thalweg_readout::{RunClock, Settings, SourceUrl};

/// Bytes that one turn receives, about.
const TURN_BYTES: usize = 128 << 20;
const WAIT: Duration = Duration::from_millis(1);
/// The time that a turn at a given rate takes.
const PACED_TURN: Duration = Duration::from_millis(500);
/// A turn that has not come to its end by then never will.
const LONGEST_TURN: Duration = Duration::from_secs(60);

/// The carrier of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A connection per board.
    Tcp,
    /// All boards to one socket.
    Udp,
}

/// Reads fragments of `fragment_bytes`, header included, of `boards` boards, `repeats` times: fragments per second of the
/// reading thread's processor time, against a bare loop.
///
/// # Errors
/// When sockets cannot be opened, or something does not arrive.
pub fn receive_fragments(
    over: Over,
    boards: u16,
    fragment_bytes: usize,
    repeats: usize,
) -> Result<Measurement, SourceError> {
    measure(&Work::new(over, boards, fragment_bytes), repeats)
}

/// The same over TCP with triggers at a rate, so that a receive call finds as little as it does then: what is compared is the
/// cost of being asked often.
///
/// # Errors
/// As for [`receive_fragments`].
pub fn receive_fragments_at(
    rate_hz: f64,
    boards: u16,
    fragment_bytes: usize,
    repeats: usize,
) -> Result<Measurement, SourceError> {
    let work = Work::new(Over::Tcp, boards, fragment_bytes).at_rate(rate_hz);
    measure(&work, repeats).map(|measured| measured.with("rate_hz", rate_hz))
}

fn measure(work: &Work, repeats: usize) -> Result<Measurement, SourceError> {
    let over = work.over;
    let clock = RunClock::start();
    let mut subject = Subject::open(work, clock)?;
    let mut bare = Bare::open(work, 1, subject.block_bytes)?;
    let (mut failure, mut wall) = (None, Duration::ZERO);
    let mut keep = |result: Result<Duration, SourceError>| {
        result.unwrap_or_else(|error| {
            failure.get_or_insert(error);
            Duration::from_secs(1)
        })
    };
    let keep = std::cell::RefCell::new(&mut keep);
    let compared = compare(
        Clock::Processor,
        repeats,
        || {
            let start = Instant::now();
            let spent = subject.turn(work);
            wall += start.elapsed();
            (keep.borrow_mut())(spent)
        },
        || {
            let spent = bare.turn(work);
            (keep.borrow_mut())(spent)
        },
    );
    if let Some(error) = failure {
        return Err(error);
    }
    let baseline = match over {
        Over::Tcp => "a bare epoll and recv loop over as many connections, as much memory written through",
        Over::Udp => "the receiver alone: the same calls, nothing split",
    };
    let turns = repeats.max(1) + 1;
    Ok(Measurement::of_rate("receive-fragments", "fragments/s", work.fragments() as f64, baseline, compared)
        .with("boards", work.boards)
        .with("fragment_bytes", work.fragment_bytes)
        .with("over", if over == Over::Tcp { "tcp" } else { "udp" })
        .with("time", "processor time of the reading thread, while the boards send")
        .with("wall_fragments_per_second", (turns as u64 * work.fragments()) as f64 / wall.as_secs_f64())
        .with("block_bytes", subject.block_bytes)
        .repeated(repeats))
}

/// The work of one turn.
pub struct Work {
    over: Over,
    boards: u16,
    fragment_bytes: usize,
    triggers: u64,
    /// Triggers that are answered before they are read: of datagrams what the kernel's buffer holds.
    at_once: u64,
    /// Triggers per second; without it as fast as they are read.
    rate_hz: Option<f64>,
    /// Fraction of the payload's bytes that are random; the rest is 0.
    random_fraction: f64,
    /// The bytes that each board can keep, with as much in the kernel's send buffer; without them what emulated boards have.
    held_bytes: Option<usize>,
}

impl Work {
    /// About 128 MiB of fragments of `fragment_bytes`, header included, of `boards` boards, and at least eight triggers.
    pub fn new(over: Over, boards: u16, fragment_bytes: usize) -> Work {
        let each = usize::from(boards.max(1)) * fragment_bytes;
        let triggers = (TURN_BYTES / each).max(8) as u64;
        let at_once = match over {
            Over::Tcp => triggers,
            // The kernel counts some 2.3 times the bytes of datagrams of 1 kB.
            Over::Udp => ((8 << 20) / (3 * each)).max(1) as u64,
        };
        Work {
            over,
            boards,
            fragment_bytes,
            triggers,
            at_once,
            rate_hz: None,
            random_fraction: 1.0,
            held_bytes: None,
        }
    }

    /// The same boards triggered at a rate, for half a second per turn.
    pub fn at_rate(self, rate_hz: f64) -> Work {
        let triggers = (rate_hz * PACED_TURN.as_secs_f64()).max(1.0) as u64;
        Work { triggers, rate_hz: Some(rate_hz), ..self }
    }

    /// Sets the fraction of the payload that is random; the rest is 0, and can be compressed.
    pub fn with_random_fraction(self, random_fraction: f64) -> Work {
        Work { random_fraction, ..self }
    }

    /// Lets each board keep this much, with as much in the kernel: how far one may be ahead of another.
    pub fn holding(self, held_bytes: Option<usize>) -> Work {
        Work { held_bytes, ..self }
    }

    /// How many boards send.
    pub fn boards(&self) -> u16 {
        self.boards
    }

    /// Bytes of each fragment, header included.
    pub fn fragment_bytes(&self) -> usize {
        self.fragment_bytes
    }

    /// Fragments of one turn.
    pub fn fragments(&self) -> u64 {
        self.triggers * u64::from(self.boards)
    }

    /// Bytes of one turn, headers of fragments included.
    pub fn bytes(&self) -> usize {
        self.fragments() as usize * self.fragment_bytes
    }

    /// The boards and the links that read them, with memory as a run has it; nothing flows yet.
    ///
    /// # Errors
    /// When sockets cannot be opened, or memory is short.
    pub fn open_links(&self, clock: RunClock, busy: &Arc<Busy>) -> Result<OpenedLinks, SourceError> {
        let boards = fragment::Settings {
            boards: self.boards,
            longest_fragment_bytes: Some(self.fragment_bytes as u32),
            ..Default::default()
        };
        let emulated = self.board();
        let endpoint = Settings::new(SourceUrl::default());
        let settings = LinkSettings {
            endpoint: &endpoint,
            boards: &boards,
            emulated: Some(&emulated),
            first_source: SourceId(0),
        };
        open_links(&settings, clock, busy)
    }

    fn board(&self) -> fragment::emulate::Settings {
        let bytes = self.fragment_bytes;
        fragment::emulate::Settings {
            payload_bytes: bytes.saturating_sub(HEADER_BYTES) as u32,
            stream: self.over == Over::Tcp,
            random_share: self.random_fraction,
            datagram_bytes: (bytes as u32).clamp(1024, 65_507),
            ..Default::default()
        }
    }
}

/// Waits until three quarters of the system's ports suffice for so many connections more: those of closed ones are kept for a minute, and
/// thousands are opened and closed here. What cannot be read is not waited for.
fn wait_for_ports(connections: usize) {
    const LONGEST_WAIT: Duration = Duration::from_secs(90);
    let number = |word: Option<&str>| word?.parse::<usize>().ok();
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut range = range.split_whitespace();
    let (Some(first), Some(last)) = (number(range.next()), number(range.next())) else { return };
    let kept = || {
        let sockets = std::fs::read_to_string("/proc/net/sockstat").ok()?;
        number(sockets.split_once(" tw ")?.1.split_whitespace().next())
    };
    // Of each board one that listens and one that connects.
    let are_too_many = |kept: usize| kept + 2 * connections > (last - first) / 4 * 3;
    let start = Instant::now();
    while kept().is_some_and(are_too_many) && start.elapsed() < LONGEST_WAIT {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn failed(message: impl ToString) -> SourceError {
    SourceError { place: "receive-fragments".to_owned(), message: message.to_string() }
}

/// Boards that answer the requested number of triggers.
struct Sender {
    hosted: HostedBoards,
    triggers: Producer<Trigger>,
    sent: u64,
}

impl Sender {
    fn new(links: Vec<HostedLink>, work: &Work) -> Result<Sender, SourceError> {
        let (triggers, followed) = ring(work.triggers as usize + 1);
        let mut settings = TriggeredSettings::new(links, Feed::Follow(followed));
        if let Some(bytes) = work.held_bytes {
            (settings.fifo_bytes, settings.send_buffer_bytes) = (bytes, bytes);
        }
        let hosted = HostedBoards::new(settings).map_err(failed)?;
        hosted.start();
        Ok(Sender { hosted, triggers, sent: 0 })
    }

    /// Makes the boards answer `count` triggers.
    fn ask(&mut self, count: u64) -> Result<(), SourceError> {
        for _ in 0..count {
            let trigger = Trigger { number: self.sent, time_ns: self.sent };
            self.triggers.push(trigger).map_err(|_| failed("the boards have ended"))?;
            self.sent += 1;
        }
        Ok(())
    }

    /// Waits until everything asked for has been sent.
    fn wait(&self) -> Result<(), SourceError> {
        let start = Instant::now();
        while self.hosted.totals().accepted() < self.sent {
            if start.elapsed() > LONGEST_TURN {
                return Err(failed(self.hosted.failures().join("; ")));
            }
            std::thread::sleep(WAIT);
        }
        Ok(())
    }
}

/// Runs one turn: asks for triggers and lets `read` fetch what came, until `fragments` are there.
fn turn(
    work: &Work,
    sender: &mut Sender,
    mut read: impl FnMut() -> Result<u64, SourceError>,
) -> Result<Duration, SourceError> {
    if let Some(rate_hz) = work.rate_hz {
        return paced_turn(work, rate_hz, sender, &mut read);
    }
    let (begun, mut spent, mut asked) = (Instant::now(), Duration::ZERO, 0);
    let mut seen = 0;
    while asked < work.triggers {
        let now = work.at_once.min(work.triggers - asked);
        sender.ask(now)?;
        asked += now;
        if work.over == Over::Udp {
            sender.wait()?;
        }
        let start = thread_cpu_time();
        while seen < asked * u64::from(work.boards) {
            seen += read()?;
            if begun.elapsed() > LONGEST_TURN {
                return Err(failed(format!(
                    "{seen} of {} fragments have arrived; a larger receive buffer may help",
                    asked * u64::from(work.boards)
                )));
            }
        }
        spent += thread_cpu_time() - start;
    }
    Ok(spent)
}

/// One turn at a rate: the triggers are asked for between two reads, which costs both sides the same.
fn paced_turn(
    work: &Work,
    rate_hz: f64,
    sender: &mut Sender,
    read: &mut dyn FnMut() -> Result<u64, SourceError>,
) -> Result<Duration, SourceError> {
    let (begun, start) = (Instant::now(), thread_cpu_time());
    let (mut asked, mut seen) = (0, 0);
    while seen < work.fragments() {
        let elapsed = begun.elapsed();
        let due = ((elapsed.as_secs_f64() * rate_hz) as u64).min(work.triggers);
        sender.ask(due - asked)?;
        asked = due;
        seen += read()?;
        if elapsed > LONGEST_TURN {
            return Err(failed(format!("{seen} of {} fragments have arrived", work.fragments())));
        }
    }
    Ok(thread_cpu_time() - start)
}

/// Boards, and the group that reads them.
pub struct Subject {
    sender: Sender,
    group: Group<Fragments>,
    block_bytes: usize,
}

impl Subject {
    /// Opens the links of `work`.
    ///
    /// # Errors
    /// When sockets cannot be opened, or memory is short.
    pub fn open(work: &Work, clock: RunClock) -> Result<Subject, SourceError> {
        wait_for_ports(usize::from(work.boards));
        let opened = work.open_links(clock, &Arc::new(Busy::default()))?;
        let group = Group::new(opened.links, GroupSettings::default(), clock)?;
        let sender = Sender::new(opened.hosted, work)?;
        Ok(Subject { sender, group, block_bytes: opened.plan.block_bytes })
    }

    /// Bytes of one block of a link.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Receives and splits the fragments of one turn, and lets them go; the processor time that it took.
    ///
    /// # Errors
    /// When something does not arrive.
    pub fn turn(&mut self, work: &Work) -> Result<Duration, SourceError> {
        let mut receiving = Receiving::default();
        self.turn_with(work, &mut |group| {
            group.turn(WAIT, &mut receiving)?;
            Ok(std::mem::take(&mut receiving.seen))
        })
    }

    /// The same, but each block is kept until all links have come as far as what it contains, as it has to be by whoever combines them.
    ///
    /// # Errors
    /// When something does not arrive.
    pub fn turn_keeping(&mut self, work: &Work) -> Result<Duration, SourceError> {
        let links = self.group.count();
        let mut keeping = Keeping::new(links);
        self.turn_with(work, &mut |group| {
            group.turn(WAIT, &mut keeping)?;
            keeping.let_go();
            Ok(std::mem::take(&mut keeping.receiving.seen))
        })
    }

    /// The same with more done to the fragments: `read` takes a turn of the group and says how many fragments are done with.
    ///
    /// # Errors
    /// When something does not arrive, or `read` says so.
    pub fn turn_with(
        &mut self,
        work: &Work,
        read: &mut dyn FnMut(&mut Group<Fragments>) -> Result<u64, SourceError>,
    ) -> Result<Duration, SourceError> {
        let group = &mut self.group;
        turn(work, &mut self.sender, || read(group))
    }
}

/// Boards, and nothing but the calls that read them.
pub struct Bare {
    sender: Sender,
    read: Box<dyn FnMut() -> Result<u64, SourceError>>,
    /// Bytes that do not make a whole fragment yet.
    rest: u64,
}

/// Memory of one connection, written through block by block from start to end, as a link's blocks are.
struct Connection {
    stream: TcpStream,
    memory: Vec<u8>,
    block_bytes: usize,
    /// The block that is being written, and how far.
    block: usize,
    used: usize,
}

impl Connection {
    fn read(&mut self) -> std::io::Result<usize> {
        if self.block_bytes - self.used < self.block_bytes / 8 {
            self.used = 0;
            self.block = (self.block + 1) % (self.memory.len() / self.block_bytes);
        }
        let block = &mut self.memory[self.block * self.block_bytes..][..self.block_bytes];
        let received = self.stream.read(&mut block[self.used..])?;
        self.used += received;
        Ok(received)
    }
}

impl Bare {
    /// Opens sockets for the boards of `work`, as many as its links are, each with memory of so many blocks, which is written
    /// in turn. The datagrams' receiver has a pool as it is.
    ///
    /// # Errors
    /// When sockets cannot be opened.
    pub fn open(work: &Work, blocks: usize, block_bytes: usize) -> Result<Bare, SourceError> {
        match work.over {
            Over::Tcp => Bare::streams(work, blocks, block_bytes),
            Over::Udp => Bare::datagrams(work, block_bytes),
        }
    }

    fn streams(work: &Work, blocks: usize, block_bytes: usize) -> Result<Bare, SourceError> {
        wait_for_ports(usize::from(work.boards));
        let mut ready = ReadySet::new().map_err(failed)?;
        let (mut connections, mut links) = (Vec::new(), Vec::new());
        let boards = fragment::emulate::boards(BoardId(0), work.boards, &work.board()).map_err(failed)?;
        for (key, board) in boards.into_iter().enumerate() {
            let local = SocketAddr::from(([127, 0, 0, 1], 0));
            let outlet = Outlet::listen(local).map_err(failed)?;
            let address = outlet.local_address().ok_or_else(|| failed("no address"))?;
            let stream = TcpStream::connect(address).map_err(failed)?;
            stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
            ready.add(&stream, key).map_err(failed)?;
            // Touched, as a pool's blocks are.
            let memory = vec![1; blocks.max(1) * block_bytes];
            connections.push(Connection { stream, memory, block_bytes, block: 0, used: 0 });
            links.push(HostedLink::new(outlet, vec![Box::new(board) as Box<dyn Hosted>]));
        }
        let read = move || {
            let mut bytes = 0;
            for &key in ready.wait(WAIT).map_err(failed)? {
                bytes += connections[key].read().unwrap_or(0) as u64;
            }
            Ok(bytes)
        };
        Ok(Bare { sender: Sender::new(links, work)?, read: Box::new(read), rest: 0 })
    }

    fn datagrams(work: &Work, block_bytes: usize) -> Result<Bare, SourceError> {
        let pool = Pool::new(128, block_bytes).map_err(failed)?;
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut receiver = UdpReceiver::open(UdpReceiverSettings::new(local, 9216), pool).map_err(failed)?;
        let to = receiver.local_address().map_err(failed)?;
        let mut ready = ReadySet::new().map_err(failed)?;
        ready.add(&receiver, 0).map_err(failed)?;
        let boards = fragment::emulate::boards(BoardId(0), work.boards, &work.board()).map_err(failed)?;
        let boards = boards.into_iter().map(|board| Box::new(board) as Box<dyn Hosted>).collect();
        let mut frames = Frames::default();
        let read = move || {
            let mut bytes = 0;
            if !ready.wait(WAIT).map_err(failed)?.is_empty() {
                receiver.receive(&mut frames, Duration::ZERO).map_err(failed)?;
                bytes = frames.byte_count();
                frames.clear();
            }
            Ok(bytes)
        };
        let links = vec![HostedLink::new(Outlet::Datagrams(to), boards)];
        Ok(Bare { sender: Sender::new(links, work)?, read: Box::new(read), rest: 0 })
    }

    /// Reads the bytes of one turn; the processor time that it took.
    ///
    /// # Errors
    /// When something does not arrive.
    pub fn turn(&mut self, work: &Work) -> Result<Duration, SourceError> {
        let (read, rest) = (&mut self.read, &mut self.rest);
        turn(work, &mut self.sender, || {
            *rest += read()?;
            let whole = *rest / work.fragment_bytes as u64;
            *rest %= work.fragment_bytes as u64;
            Ok(whole)
        })
    }
}

/// Counts fragments and lets them go.
#[derive(Default)]
struct Receiving {
    batch: Fragments,
    seen: u64,
}

impl Take<Fragments> for Receiving {
    fn batch(&mut self, _link: LinkId) -> &mut Fragments {
        &mut self.batch
    }

    fn take(&mut self, _link: LinkId, _received: &Frames) {
        self.seen += self.batch.fragments.len() as u64;
        self.batch.clear();
    }
}

/// Counts fragments, and lets go of their blocks once all links have come as far.
struct Keeping {
    receiving: Receiving,
    /// Behind the last trigger of each link.
    came_to: Vec<u64>,
    /// The lowest of these, and how many links have come no further.
    all_came_to: u64,
    lagging: usize,
    /// The blocks of each link, and behind the last trigger in them.
    kept: Vec<VecDeque<(u64, Lease)>>,
}

impl Keeping {
    fn new(links: usize) -> Keeping {
        Keeping {
            receiving: Receiving::default(),
            came_to: vec![0; links],
            all_came_to: 0,
            lagging: links,
            kept: (0..links).map(|_| VecDeque::new()).collect(),
        }
    }

    fn let_go(&mut self) {
        if self.lagging > 0 {
            return;
        }
        self.all_came_to = self.came_to.iter().min().copied().unwrap_or(0);
        self.lagging = self.came_to.iter().filter(|came_to| **came_to == self.all_came_to).count();
        for kept in &mut self.kept {
            while kept.front().is_some_and(|(until, _)| *until <= self.all_came_to) {
                kept.pop_front();
            }
        }
    }
}

impl Take<Fragments> for Keeping {
    fn batch(&mut self, link: LinkId) -> &mut Fragments {
        self.receiving.batch(link)
    }

    fn take(&mut self, link: LinkId, received: &Frames) {
        let batch = &self.receiving.batch;
        let (kept, came_to) = (&mut self.kept[link.index()], &mut self.came_to[link.index()]);
        let until = batch.fragments.last().map_or(*came_to, |fragment| fragment.trigger + 1);
        self.lagging -= usize::from(*came_to == self.all_came_to && until > *came_to);
        *came_to = until;
        for lease in batch.leases.iter() {
            match kept.back_mut().filter(|(_, newest)| newest.block() == lease.block()) {
                Some((in_it, _)) => *in_it = until,
                None => kept.push_back((until, lease.clone())),
            }
        }
        self.receiving.take(link, received);
    }
}
