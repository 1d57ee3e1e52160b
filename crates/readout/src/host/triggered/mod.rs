//! Emulated triggered boards on real sockets, any number in one process, triggered together.
//!
//! ```text
//!  Feed: program · as fast as taken · a real board's triggers
//!    │ offered
//!    ▼          BUSY: a stage asks for it, or a board's FIFO is full
//!  Supervisor ◄──────────────────────────────────────────────┐
//!    │ accepted, numbered                                    │
//!    ▼                                                       │
//!  each board answers ─► its link's FIFO, bounded ─► TCP connection, or datagrams (as few calls as possible)
//! ```
//! One thread does it all: several triggers are answered in one write where the thread is behind. A TCP board keeps what its client
//! does not take in its FIFO; when that is full, or some hundred triggers wait for the thread, the boards are BUSY and triggers are refused,
//! which is counted. A board without a client throws its answers away, which is counted, too, and holds nobody up. Boards with registers
//! have one more thread, for all.

mod answering;
mod datagrams;
mod engine;
mod feed;
mod numbers;
mod registers;
mod stream;
mod timing;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use thalweg_data::{Busy, Counters, FragmentRecord, LinkId, LossReason, Unit};

use super::threads::{Failures, Threads};
use super::{HostError, lock};
pub use feed::Feed;
pub use numbers::AcceptedNumbers;
pub use registers::HostedRegisters;
pub use thalweg_frontend::trigger::Hosted;
pub use timing::{Spread, Times};

/// Where the data of one link go.
#[derive(Debug)]
pub enum Outlet {
    /// The boards listen here and take one client at a time.
    Listener(TcpListener),
    /// They are connected already, and when that ends they are silent.
    Stream(TcpStream),
    /// They send datagrams there.
    Datagrams(SocketAddr),
}

impl Outlet {
    /// Listens at an address, as boards on the network do; port 0 lets the system choose.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn listen(place: SocketAddr) -> Result<Outlet, HostError> {
        TcpListener::bind(place).map(Outlet::Listener).map_err(|cause| HostError::Socket { place, cause })
    }

    /// The address at which it listens.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Outlet::Listener(listener) => listener.local_addr().ok(),
            Outlet::Stream(_) | Outlet::Datagrams(_) => None,
        }
    }
}

/// One link: a socket and the boards behind it, in the order of their numbers.
pub struct HostedLink {
    /// Where the data go.
    pub outlet: Outlet,
    /// Who answers.
    pub boards: Vec<Box<dyn Hosted>>,
    /// Its register port, where there is one.
    pub registers: Option<HostedRegisters>,
    /// What the boards write down for whoever receives from them, in their order; empty where nobody asks.
    pub records: Vec<Arc<FragmentRecord>>,
}

impl HostedLink {
    /// A link without registers.
    pub fn new(outlet: Outlet, boards: Vec<Box<dyn Hosted>>) -> HostedLink {
        HostedLink { outlet, boards, registers: None, records: Vec::new() }
    }
}

/// What to host.
pub struct TriggeredSettings {
    /// The links with their boards.
    pub links: Vec<HostedLink>,
    /// Where triggers come from.
    pub feed: Feed,
    /// Number of the first trigger that is accepted.
    pub first_number: u64,
    /// How long the boards read out an accepted trigger of a program, nanoseconds: others that come meanwhile are refused.
    pub readout_ns: u64,
    /// Raised by whoever cannot take more: triggers are refused meanwhile.
    pub busy: Option<Arc<Busy>>,
    /// Started triggers begin when this is set, and their time counts from then; without it, at the start.
    pub may_begin: Option<Arc<AtomicBool>>,
    /// Where the numbers of accepted triggers are noted.
    pub accepted: Option<Arc<AcceptedNumbers>>,
    /// Bytes that a link keeps while its client takes nothing; at least one answer is always kept.
    pub fifo_bytes: usize,
    /// The kernel's send buffer of a TCP link, bytes: it is filled before the FIFO is. 0 lets it adapt itself.
    pub send_buffer_bytes: usize,
    /// Waits for a trigger of a program that is near by looking at the clock all the time: exact to a microsecond, and up to a
    /// whole core. Otherwise by sleeping: some 60 µs late.
    pub spin: bool,
}

impl TriggeredSettings {
    /// These links and this feed, with a FIFO of 256 KiB and a send buffer of as much per link.
    pub fn new(links: Vec<HostedLink>, feed: Feed) -> TriggeredSettings {
        TriggeredSettings {
            links,
            feed,
            first_number: 0,
            readout_ns: 0,
            busy: None,
            may_begin: None,
            accepted: None,
            fifo_bytes: 256 << 10,
            send_buffer_bytes: 256 << 10,
            spin: false,
        }
    }
}

/// What one board has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoardTotals {
    /// Answers that it gave, those that it gave twice among them, and those that it says it gave.
    pub fragments: u64,
    /// Bytes of all its answers.
    pub bytes: u64,
    /// Datagrams of the answers that were not thrown away; 0 of a stream.
    pub datagrams: u64,
    /// Answers of which not everything was given to a socket, because there was no client or it went away.
    pub discarded_fragments: u64,
    /// Their bytes that were not.
    pub discarded_bytes: u64,
}

/// What all boards and their trigger have done.
#[derive(Clone, Debug, Default)]
pub struct TriggeredTotals {
    /// Events offered, accepted, and refused while BUSY: the counters of the stage `trigger`.
    pub trigger: Counters,
    /// Of the refused ones, those that the boards had no space or no time for; the others came while a stage asked for BUSY.
    pub refused_by_boards: u64,
    /// Time spent BUSY, nanoseconds.
    pub busy_ns: u64,
    /// For how long triggers could come, from the start to the stop or the end of the program, nanoseconds.
    pub real_ns: u64,
    /// How often BUSY was raised.
    pub busy_raised: u64,
    /// Each board, link by link.
    pub boards: Vec<BoardTotals>,
    /// Of a program: from the time of a trigger until its last answer was given to a socket, or to a full one's FIFO.
    pub lateness: Times,
    /// From the first answer to a trigger until the last, over all boards.
    pub skew: Times,
}

impl TriggeredTotals {
    /// Triggers that came.
    pub fn offered(&self) -> u64 {
        self.trigger.total_input(Unit::Events)
    }

    /// Triggers that every board answered.
    pub fn accepted(&self) -> u64 {
        self.trigger.total_output(Unit::Events)
    }

    /// Triggers that came while BUSY.
    pub fn refused(&self) -> u64 {
        self.trigger.total_lost(LossReason::Busy, Unit::Events)
    }
}

/// What the engine's thread and the caller share. The lock is taken some hundred times per second.
struct Shared {
    started: Mutex<Option<Instant>>,
    stopping: AtomicBool,
    ending: AtomicBool,
    silent: AtomicBool,
    dead: Vec<AtomicBool>,
    totals: Mutex<TriggeredTotals>,
    failures: Failures,
    /// TCP links that have no client now.
    unattended: AtomicUsize,
}

impl Shared {
    fn fail(&self, message: String) {
        self.failures.add(message);
    }
}

/// Triggered boards that are being emulated. Dropping them ends them.
pub struct HostedBoards {
    shared: Arc<Shared>,
    threads: Threads,
}

impl HostedBoards {
    /// Makes sockets and thread. Clients may connect; nothing is sent before the start.
    ///
    /// # Errors
    /// When a socket cannot be made.
    pub fn new(mut settings: TriggeredSettings) -> Result<HostedBoards, HostError> {
        let is_stream = |link: &&HostedLink| !matches!(link.outlet, Outlet::Datagrams(_));
        let streams = settings.links.iter().filter(is_stream).count();
        let shared = Arc::new(Shared {
            started: Mutex::new(None),
            stopping: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            dead: settings.links.iter().map(|_| AtomicBool::new(false)).collect(),
            totals: Mutex::new(TriggeredTotals::default()),
            failures: Failures::default(),
            unattended: AtomicUsize::new(streams),
        });
        let registers: Vec<_> = settings.links.iter_mut().filter_map(|link| link.registers.take()).collect();
        let engine = engine::Engine::new(settings, shared.clone())?;
        let mut boards = HostedBoards { shared: shared.clone(), threads: Threads::default() };
        if !registers.is_empty() {
            let server = registers::Server::new(registers)?;
            let (ending, failing) = (shared.clone(), shared.clone());
            boards.threads.spawn("board registers", move || {
                if let Err(cause) = server.run(&|| ending.ending.load(Ordering::Acquire)) {
                    failing.fail(format!("the registers of emulated boards: {cause}"));
                }
            })?;
        }
        boards.threads.spawn("triggered boards", move || engine.run())?;
        Ok(boards)
    }

    /// Starts the triggers; their time counts from now. Once per run.
    pub fn start(&self) {
        self.start_at(Instant::now());
    }

    /// Starts the triggers with a time that counts from `start`, as the run's clock does.
    pub fn start_at(&self, start: Instant) {
        lock(&self.shared.started).get_or_insert(start);
    }

    /// Stops the triggers; what boards have answered is still sent.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
    }

    /// Whether the triggers have come to their end and everything has been sent.
    pub fn is_silent(&self) -> bool {
        self.shared.silent.load(Ordering::Acquire)
    }

    /// How many links of boards that send a stream have no client now.
    pub fn links_without_client(&self) -> usize {
        self.shared.unattended.load(Ordering::Acquire)
    }

    /// Switches the boards of a link off (their connection is closed, and new ones at once, too) or on again.
    pub fn set_power(&self, link: LinkId, on: bool) {
        if let Some(dead) = self.shared.dead.get(link.index()) {
            dead.store(!on, Ordering::Release);
        }
    }

    /// What was triggered and sent until a moment ago; exact once silent or ended.
    pub fn totals(&self) -> TriggeredTotals {
        lock(&self.shared.totals).clone()
    }

    /// What went wrong on the way out.
    pub fn failures(&self) -> Vec<String> {
        self.shared.failures.list()
    }

    /// Ends the thread; what is in the FIFOs is sent if the clients take it within two seconds.
    pub fn end(&mut self) {
        self.stop();
        self.shared.ending.store(true, Ordering::Release);
        self.threads.join(&self.shared.failures);
    }
}

impl Drop for HostedBoards {
    fn drop(&mut self) {
        self.end();
    }
}
