//! One process of `bench evb`: a readout unit that generates fragments in memory, or a builder unit that throws events away. Over
//! connections of its own it is also a bare sender or receiver of messages of the same size.
//!
//! ```text
//!  "node …" ─► connections      "units 10000" ─► generate ─► ReadoutUnit ═ Part ═► BuilderUnit ─► nothing      (EvM: with builder 0)
//!                               "peers 500" ──► send in turn ════ message ════► receive
//!                               "lent 500"      the same, of memory that the receiver can read
//! ```

use std::io::{self, BufRead, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use thalweg_build::unit::{
    Address, BuilderUnit, EventManager, Identity, Machine, ReadoutUnit, Settings, UnitLayout,
};
use thalweg_data::{
    Closing, Event, Events, Fragment, Leases, Mark, Memory, Message, Pool, Received, Slice, SourceId, UnitId,
};
use thalweg_readout::RunClock;
use thalweg_transport::peer::{self, Listener, Peer, Sent};
use thalweg_transport::{ReadySet, process_cpu_time};

use crate::config::{UnitKind, UnitSettings};
use crate::pipeline::Signals;
use crate::plan::capacity::EVENTS_PER_BATCH;
use crate::plan::{Readout, UnitPlan};
use crate::units::{KnownManager, ManagerWork, UnitEndpoint, UnitHost, Work};

const RUN: u32 = 1;
/// Blocks of what builder units receive.
const BLOCK_BYTES: usize = 256 << 10;
/// Memory of a builder unit.
const BUILDER_BYTES: usize = 128 << 20;
/// Events that a builder unit takes at a time over TCP: so few that their memory is received into again while a cache still has it, and that
/// one readout unit is not far ahead of another.
const RECEIVED_BYTES: usize = 4 << 20;
/// The same through shared memory, where nothing is received into: enough to wake each other seldom.
const LENT_BYTES: usize = 8 << 20;
/// Payloads that a readout unit sends one after the other, each in a block of its own: twice what builder units take at a time, so that
/// a block on loan has come back when it is used again, as the blocks of boards have.
const PAYLOADS: usize = 2 * LENT_BYTES / (512 << 10);
/// Memory of a unit that receives words only.
const WORDS_BYTES: usize = 4 << 20;
/// The time that a mesh may take to come about.
const MESH_WAIT: Duration = Duration::from_secs(30);
/// The time for which a node of the baseline sleeps when it can do nothing.
const WAIT: Duration = Duration::from_millis(1);
/// Far longer than a bench: no unit is declared dead while the baseline has its turn.
const NEVER_MS: u64 = 3_600_000;
/// Fields of a part and of each of its events with one fragment, bytes.
const PART_HEAD: usize = 68;
const EVENT_HEAD: usize = 46;

/// The role of a node, which it receives first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// A readout unit, or else a builder unit.
    pub reads: bool,
    /// Its number among those of its kind.
    pub number: UnitId,
    /// The number of readout units.
    pub readouts: u16,
    /// Bytes per fragment, one of each readout unit per event.
    pub fragment_bytes: usize,
    /// Events per range, and so per message.
    pub range_events: u32,
    /// The address at which the manager listens.
    pub manager: String,
    /// The addresses at which each builder unit and its receiver of the baseline listen.
    pub builders: Vec<(String, String)>,
}

impl Role {
    /// Formats the role as one line.
    pub fn line(&self) -> String {
        let Role { number, readouts, fragment_bytes, range_events, manager, .. } = self;
        let reads = u8::from(self.reads);
        let builders: Vec<String> =
            self.builders.iter().map(|(unit, bare)| format!("{unit} {bare}")).collect();
        let builders = builders.join(" ");
        format!("node {reads} {} {readouts} {fragment_bytes} {range_events} {manager} {builders}", number.0)
    }

    /// Reads such a line.
    pub fn parse(line: &str) -> Option<Role> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["node", reads, number, readouts, fragment_bytes, range_events, manager, builders @ ..] =
            words.as_slice()
        else {
            return None;
        };
        Some(Role {
            reads: *reads == "1",
            number: UnitId(number.parse().ok()?),
            readouts: readouts.parse().ok()?,
            fragment_bytes: fragment_bytes.parse().ok()?,
            range_events: range_events.parse().ok()?,
            manager: (*manager).to_owned(),
            builders: builders
                .as_chunks()
                .0
                .iter()
                .map(|[unit, bare]| ((*unit).into(), (*bare).into()))
                .collect(),
        })
    }

    /// Whether the nodes are reached through memory that they share.
    fn is_by_shared_memory(&self) -> bool {
        self.manager.starts_with("shm:")
    }

    fn settings(&self) -> Settings {
        let event_bytes = self.fragment_bytes * usize::from(self.readouts);
        let window = if self.is_by_shared_memory() { LENT_BYTES } else { RECEIVED_BYTES };
        let slots = (window / event_bytes).clamp(4 * self.range_events as usize, 8192) as u32;
        Settings {
            range_events: self.range_events,
            slots,
            part_bytes: 16 << 20,
            keep_events: 2 * u64::from(slots) * self.builders.len() as u64,
            keep_bytes: 1 << 40,
            builder_bytes: 1 << 40,
            age_ms: 0,
            lag_ms: NEVER_MS,
            dead_ms: NEVER_MS,
            ..Settings::default()
        }
    }

    fn plan(&self) -> UnitPlan {
        let unit = |name: String, kind, url: Option<&String>| UnitSettings {
            name,
            kind,
            sources: Vec::new(),
            listen: url.cloned(),
            node: None,
            memory_bytes: BUILDER_BYTES as u64,
        };
        let readout = |number| Readout {
            settings: unit(format!("ru-{number}"), UnitKind::Readout, None),
            sources: Vec::new(),
        };
        let builders = self.builders.iter().enumerate();
        UnitPlan {
            readouts: (0..self.readouts).map(readout).collect(),
            builders: builders
                .map(|(number, (url, _))| unit(format!("bu-{number}"), UnitKind::Builder, Some(url)))
                .collect(),
            manager: unit("evm".to_owned(), UnitKind::Manager, Some(&self.manager)),
            layout: UnitLayout {
                readouts: (0..self.readouts).map(|number| number..number + 1).collect(),
                builders: self.builders.len() as u16,
            },
        }
    }
}

/// Runs a node until its input ends.
///
/// # Errors
/// When a connection cannot be made or breaks, or the starter says what no starter says.
pub fn run(input: impl BufRead + Send + 'static, mut output: impl Write) -> io::Result<()> {
    let (say, lines) = sync_channel(8);
    std::thread::spawn(move || {
        // Ends with the input, or with the node.
        let _ = input.lines().map_while(Result::ok).try_for_each(|line| say.send(line));
    });
    let first = lines.recv().map_err(io::Error::other)?;
    let role = Role::parse(&first).ok_or_else(|| io::Error::other(format!("no role: `{first}`")))?;
    let mut node = Node::open(role, lines)?;
    writeln!(output, "ready")?;
    output.flush()?;
    while let Ok(line) = node.lines.recv() {
        let start = (Instant::now(), process_cpu_time());
        node.obey(&line)?;
        let (wall, processor) = (start.0.elapsed(), process_cpu_time() - start.1);
        writeln!(output, "done {} {}", wall.as_nanos(), processor.as_nanos())?;
        output.flush()?;
    }
    Ok(())
}

struct Node {
    role: Role,
    units: Units,
    bare: Vec<Box<dyn Peer>>,
    payloads: Arc<Payloads>,
    /// The same in memory that cannot be lent.
    private: Payloads,
    signals: Arc<Signals>,
    lines: Receiver<String>,
}

/// The unit of a process.
enum Units {
    Readout(Box<UnitHost<Generate>>),
    Builder(Box<UnitHost<Discard>>, Option<Box<UnitHost<ManagerWork>>>),
}

fn peers(name: &str, bytes: usize) -> io::Result<peer::Settings> {
    let pool = Pool::new(bytes / BLOCK_BYTES, BLOCK_BYTES).map_err(io::Error::other)?;
    Ok(peer::Settings {
        connect_wait: MESH_WAIT,
        hello_wait: MESH_WAIT,
        // A turn of one kind leaves the connections of the other alone for its time.
        silence_wait: Duration::ZERO,
        // What is sent lies in memory of its own, which nobody receives into.
        lends_one_in: 1,
        ..peer::Settings::new(name, pool)
    })
}

impl Node {
    fn open(role: Role, lines: Receiver<String>) -> io::Result<Node> {
        let (plan, settings, clock) = (Arc::new(role.plan()), role.settings(), RunClock::start());
        settings.check().map_err(io::Error::other)?;
        let identity = Identity { number: role.number, run: RUN, incarnation: 1 };
        let open = |listen, others: &[(Address, String)], settings| {
            UnitEndpoint::open(listen, others, settings).map_err(io::Error::other)
        };
        let to_manager = (Address::Manager, role.manager.clone());
        let payloads = |is_shared| Payloads::new(&role, is_shared);
        let (payloads, private) = (Arc::new(payloads(role.is_by_shared_memory())?), payloads(false)?);
        let (units, bare);
        if role.reads {
            let unit = ReadoutUnit::new(identity, role.builders.len() as u16, &settings);
            let builders = role.builders.iter().enumerate();
            let mut others: Vec<(Address, String)> = builders
                .map(|(number, (url, _))| (Address::Builder(UnitId::from_index(number)), url.clone()))
                .collect();
            others.push(to_manager);
            let name = format!("ru-{}", role.number.0);
            let endpoint = open(None, &others, &peers(&name, WORDS_BYTES)?)?;
            let work =
                Generate { unit, payloads: payloads.clone(), next: 0, until: 0, batch: Events::default() };
            units = Units::Readout(Box::new(host_of(&name, work, endpoint, plan, clock)?));
            let to = |(_, url): &(String, String)| {
                peer::connect(url, peers(&name, WORDS_BYTES)?).map_err(io::Error::other)
            };
            bare = role.builders.iter().map(to).collect::<io::Result<_>>()?;
        } else {
            let name = format!("bu-{}", role.number.0);
            let (unit_url, bare_url) = role.builders[role.number.index()].clone();
            let memory = peers(&name, BUILDER_BYTES)?;
            let endpoint = open(Some(unit_url.as_str()), &[to_manager], &memory)?;
            let unit = BuilderUnit::new(identity, &plan.layout, &settings, clock.mark());
            let work = Discard { unit, batch: Events::default() };
            let mut host = host_of(&name, work, endpoint, plan.clone(), clock)?;
            let manager = match role.number.0 {
                0 => {
                    let endpoint = open(Some(role.manager.as_str()), &[], &peers("evm", WORDS_BYTES)?)?;
                    let unit = EventManager::new(RUN, 1, &plan.layout, &settings, clock.mark());
                    let work = ManagerWork { unit, known: KnownManager::new(Arc::default()) };
                    let manager = host_of("evm", work, endpoint, plan, clock)?;
                    host.wait_for(&manager)?;
                    Some(Box::new(manager))
                }
                _ => None,
            };
            units = Units::Builder(Box::new(host), manager);
            let listener = peer::listen(&bare_url, memory).map_err(io::Error::other)?;
            bare = accepted(listener, role.readouts)?;
        }
        Ok(Node { role, units, bare, payloads, private, signals: Arc::default(), lines })
    }

    fn obey(&mut self, line: &str) -> io::Result<()> {
        let wrong = || io::Error::other(format!("no order: `{line}`"));
        let (what, count) = line.split_once(' ').ok_or_else(wrong)?;
        let count = u64::from_str(count).map_err(|_| wrong())?;
        match (what, self.role.reads) {
            ("units", _) => self.turn_of_units(count),
            ("peers", true) => Node::send(&mut self.bare, &self.private, self.role.number, count),
            ("lent", true) => Node::send(&mut self.bare, &self.payloads, self.role.number, count),
            ("peers" | "lent", false) => self.receive(count),
            _ => Err(wrong()),
        }
    }

    /// Runs a readout unit until `count` more events are written, or a builder unit until the starter sends something.
    fn turn_of_units(&mut self, count: u64) -> io::Result<()> {
        let Node { units, signals, lines, .. } = self;
        match units {
            Units::Readout(host) => {
                host.work.until += count;
                while host.work.next < host.work.until || !host.work.unit.is_idle() {
                    host.tick(signals);
                }
                Ok(())
            }
            Units::Builder(host, manager) => loop {
                let mut busy = host.advance(signals);
                busy |= manager.as_mut().is_some_and(|manager| manager.advance(signals));
                if !busy {
                    match lines.try_recv() {
                        Ok(_) => return Ok(()),
                        Err(TryRecvError::Empty) => match manager {
                            Some(manager) => host.rest_beside(manager),
                            None => host.rest(),
                        },
                        Err(TryRecvError::Disconnected) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    }
                }
            },
        }
    }

    /// The baseline's sender: messages of the size of a part, strictly in turn.
    fn send(peers: &mut [Box<dyn Peer>], payloads: &Payloads, own: UnitId, count: u64) -> io::Result<()> {
        let mut message = Message::default();
        let receivers = peers.len();
        for number in 0..count as usize {
            // The nodes begin with different peers.
            let peer = &mut peers[(own.index() + number) % receivers];
            payloads.fill(number, &mut message);
            while peer.send(&mut message).map_err(io::Error::other)? == Sent::Full {
                // Takes back what was lent, too.
                peer.receive(&mut Message::default(), WAIT).map_err(io::Error::other)?;
            }
        }
        for peer in peers {
            while !peer.flush(WAIT).map_err(io::Error::other)? {}
        }
        Ok(())
    }

    /// The baseline's receiver.
    fn receive(&mut self, count: u64) -> io::Result<()> {
        let mut set = ReadySet::new()?;
        for (key, peer) in self.bare.iter().enumerate() {
            set.add(peer.descriptor(), key)?;
        }
        let (mut seen, mut message) = (0, Message::default());
        let mut ready: Vec<usize> = (0..self.bare.len()).collect();
        while seen < count {
            for key in ready.drain(..) {
                let peer = &mut self.bare[key];
                while peer.receive(&mut message, Duration::ZERO).map_err(io::Error::other)? == Received::Data
                {
                    seen += 1;
                }
            }
            ready.extend_from_slice(set.wait(if seen < count { WAIT } else { Duration::ZERO })?);
        }
        Ok(())
    }
}

fn host_of<W: Work>(
    name: &str,
    work: W,
    endpoint: UnitEndpoint,
    plan: Arc<UnitPlan>,
    clock: RunClock,
) -> io::Result<UnitHost<W>> {
    UnitHost::new(name, work, endpoint, plan, clock).map_err(io::Error::other)
}

fn accepted(mut listener: Listener, count: u16) -> io::Result<Vec<Box<dyn Peer>>> {
    let mut accept = || {
        let peer = listener.accept(MESH_WAIT).map_err(io::Error::other)?;
        peer.ok_or_else(|| io::ErrorKind::TimedOut.into())
    };
    (0..count).map(|_| accept()).collect()
}

/// Payloads that lie in memory, in fragments.
struct Payloads {
    leases: Leases,
    each: Vec<Slice>,
    fragment_bytes: usize,
    fragments: usize,
    source: SourceId,
}

impl Payloads {
    fn new(role: &Role, is_shared: bool) -> io::Result<Payloads> {
        let (fragment_bytes, fragments) = (role.fragment_bytes, role.range_events as usize);
        let bytes = fragment_bytes * fragments;
        let memory = Memory { is_shared, ..Memory::default() };
        let pool = Pool::of(PAYLOADS, bytes.next_multiple_of(4096), memory).map_err(io::Error::other)?;
        let (mut each, mut leases) = (Vec::new(), Leases::default());
        while let Some(mut writer) = pool.take() {
            writer.tail()[..bytes].fill(7);
            each.push(writer.publish(bytes));
            leases.add(writer.lease());
        }
        Ok(Payloads { leases, each, fragment_bytes, fragments, source: SourceId(role.number.0) })
    }

    /// The payload of the message with this number.
    fn of(&self, number: usize) -> Slice {
        self.each[number % self.each.len()]
    }

    /// Fills a message with a head as long as that of a part.
    fn fill(&self, number: usize, message: &mut Message) {
        let payload = self.of(number);
        message.head.resize(PART_HEAD + self.fragments * EVENT_HEAD, 1);
        message.slices.push(payload);
        message.leases.add_for(payload, &self.leases);
    }

    /// Fills `events` with the events of triggers from `first` on.
    fn events(&self, first: u64, now: Mark, events: &mut Events) {
        let payload = self.of(first as usize / self.fragments);
        for number in 0..self.fragments {
            let trigger = first + number as u64;
            events.slices.extend(payload.part(number * self.fragment_bytes, self.fragment_bytes));
            let bytes = self.fragment_bytes as u32;
            events.fragments.push(Fragment {
                trigger,
                ticks: trigger,
                bytes,
                source: self.source,
                slices: 1,
            });
            events.events.push(Event {
                trigger,
                first_arrival: now,
                closed: now,
                bytes: u64::from(bytes),
                first_fragment: number as u32,
                fragments: 1,
                closing: Closing::Complete,
                ..Event::default()
            });
        }
        events.leases.add_for(payload, &self.leases);
    }
}

/// A readout unit whose boards are memory.
struct Generate {
    unit: ReadoutUnit,
    payloads: Arc<Payloads>,
    next: u64,
    until: u64,
    batch: Events,
}

impl Work for Generate {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, now: Mark, _signals: &Signals) -> bool {
        const BATCHES: usize = 8;
        let mut any = false;
        for _ in 0..BATCHES {
            if self.next >= self.until || !self.unit.takes_input() {
                break;
            }
            self.payloads.events(self.next, now, &mut self.batch);
            any = self.unit.insert(&mut self.batch);
            self.batch.clear();
            self.next += self.payloads.fragments as u64;
        }
        any
    }

    fn is_over(&self, _signals: &Signals) -> bool {
        false
    }

    fn finish(&mut self, _signals: &Signals) {}
}

/// A builder unit whose events go nowhere.
struct Discard {
    unit: BuilderUnit,
    batch: Events,
}

impl Work for Discard {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, now: Mark, _signals: &Signals) -> bool {
        let any = self.unit.pull(&mut self.batch, EVENTS_PER_BATCH, now);
        self.batch.clear();
        self.unit.written(self.unit.position());
        any
    }

    fn is_over(&self, _signals: &Signals) -> bool {
        false
    }

    fn finish(&mut self, _signals: &Signals) {}
}
