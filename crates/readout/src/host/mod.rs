//! Emulated boards on real sockets: for tests without hardware, for demonstrations, for other programs to connect to.
//!
//! ```text
//!  SelfTriggeredBoard ─ produce(now) ─► loss by seed ─► UDP or TCP socket
//!     ▲ arm, start, stop                 └─ dropped hits, datagrams, bytes: counted exactly
//!     └─ control port (Place::Network), or the caller (Place::Stream)
//! ```
//! One thread per board sends; a board on the network has one more that answers its control port.

mod data;
mod loss;
mod network;
mod threads;
pub mod triggered;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Instant;

use thalweg_data::{Hit, SentRecord};
use thalweg_frontend::emulated_settings::SettingsError;
use thalweg_frontend::format::SelfTriggeredSettings;
use thalweg_frontend::self_triggered::{
    BoardCommand, ControlService, Moment, SelfTriggeredBoard, State, Totals,
};

pub use loss::Dropped;
use threads::{Failures, Threads};

/// The place where an emulated board is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It sends datagrams to this address as soon as it is started, and has no control port.
    Stream {
        /// The receiver.
        to: SocketAddr,
    },
    /// It behaves like a board on the network, with a control port and a data port of its own.
    Network {
        /// Its address; several boards have several addresses.
        address: IpAddr,
        /// Port of the control protocol.
        control_port: u16,
        /// Port of UDP data. TCP data have a port that the system chooses.
        udp_port: u16,
    },
}

/// The sink for truth: called with hits as they are emitted.
pub type TruthSink = Box<dyn FnMut(&[Hit]) -> Result<(), String> + Send>;

/// A board that cannot be hosted.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No board can be like that.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A board on the network needs one.
    #[error("boards of this format have no control port; let them stream to an address")]
    NoControlPort,
    /// The share of lost datagrams is no share.
    #[error("a loss of {0} is not a fraction of the datagrams; give 0 to 1")]
    Loss(f64),
    /// A socket could not be made.
    #[error(
        "emulated board at {place}: {cause}; choose a free loopback address such as 127.0.0.2, and no port in use"
    )]
    Socket {
        /// Address and port.
        place: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// Data cannot be sent there.
    #[error("emulated board: {0}")]
    Transport(#[from] thalweg_transport::TransportError),
    /// The system gave no thread.
    #[error("no thread for an emulated board: {0}; end other programs")]
    Thread(io::Error),
}

/// The totals of what an emulated board has sent, and of what was dropped before it could arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTotals {
    /// What the board handed out, the dropped included.
    pub sent: Totals,
    /// What the loss by seed took away.
    pub dropped: Dropped,
}

/// State that the sending thread, the control thread and the caller share. The lock is taken per chunk of a millisecond,
/// never per hit.
pub(crate) struct Shared {
    board: Mutex<Box<dyn SelfTriggeredBoard>>,
    wants_truth: bool,
    /// What boards have sent that were replaced since, because a client changed their parameters.
    sent_before: Mutex<Totals>,
    clock: Instant,
    ending: AtomicBool,
    dropped: Mutex<Dropped>,
    failures: Failures,
    /// The service of its control port, if it has one.
    control: OnceLock<Arc<dyn ControlService>>,
    /// The boards at the end of its start line.
    followers: Mutex<Vec<Weak<Shared>>>,
}

/// A board that is being emulated. Dropping it ends it.
pub struct HostedBoard {
    shared: Arc<Shared>,
    sent: Option<Arc<SentRecord>>,
    threads: Threads,
}

/// The settings of a hosted board.
pub struct HostSettings {
    /// The board.
    pub board: Box<dyn SelfTriggeredSettings>,
    /// Where it is.
    pub place: Place,
    /// Fraction of the datagrams dropped on their way, by the board's seed.
    pub loss: f64,
    /// Where every emitted hit is written.
    pub truth: Option<TruthSink>,
}

impl HostedBoard {
    /// A board without a control port that sends its datagrams to this address once it is started.
    ///
    /// # Errors
    /// As [`HostedBoard::new`].
    pub fn streaming(
        board: impl SelfTriggeredSettings + 'static,
        to: SocketAddr,
    ) -> Result<HostedBoard, HostError> {
        let board = Box::new(board);
        HostedBoard::new(HostSettings { board, place: Place::Stream { to }, loss: 0.0, truth: None })
    }

    /// Makes the board, its sockets and its threads. Nothing is sent before a start.
    ///
    /// # Errors
    /// When the board or its sockets cannot be made.
    pub fn new(settings: HostSettings) -> Result<HostedBoard, HostError> {
        if !(0.0..=1.0).contains(&settings.loss) {
            return Err(HostError::Loss(settings.loss));
        }
        let loss = loss::Loss::new(settings.loss, &*settings.board);
        let wants_truth = settings.truth.is_some();
        let mut board = settings.board.board()?;
        board.record_truth(wants_truth);
        // A board on the network may be set anew by whoever takes its data: that one follows it by its own means.
        let sent = matches!(settings.place, Place::Stream { .. }).then(|| {
            let record = Arc::new(SentRecord::new(settings.board.most_frames_hz()));
            board.keep_record(record.clone());
            record
        });
        let shared = Arc::new(Shared {
            board: Mutex::new(board),
            wants_truth,
            sent_before: Mutex::new(Totals::default()),
            clock: Instant::now(),
            ending: AtomicBool::new(false),
            dropped: Mutex::new(Dropped::default()),
            failures: Failures::default(),
            control: OnceLock::new(),
            followers: Mutex::default(),
        });
        let threads = data::spawn(&shared, settings.place, loss, (settings.truth, &*settings.board))?;
        Ok(HostedBoard { shared, sent, threads })
    }

    /// Arms and starts the board.
    pub fn start(&self) {
        let now = self.shared.now_ns();
        let mut board = self.shared.board();
        if let Err(error) = board.arm().and_then(|()| board.start(now)) {
            self.shared.fail(error.to_string());
        }
    }

    /// Connects the start lines of boards: when a client starts one, those start that are armed and set to start by a signal.
    pub fn connect_starts(boards: &[HostedBoard]) {
        for (number, board) in boards.iter().enumerate() {
            let others = boards.iter().enumerate().filter(|(other, _)| *other != number);
            *lock(&board.shared.followers) = others.map(|(_, other)| Arc::downgrade(&other.shared)).collect();
        }
    }

    /// Stops the board; what it measured until now is still sent.
    pub fn stop(&self) {
        let now = self.shared.now_ns();
        self.shared.board().stop(now);
    }

    /// Closes or opens the board's veto: in between no hits are taken, and those are counted.
    pub fn inhibit(&self, inhibited: bool) {
        self.shared.board().inhibit(inhibited);
    }

    /// Whether everything measured has been sent.
    pub fn is_silent(&self) -> bool {
        self.shared.board().state() != State::Running
    }

    /// Whether it was too slow, and ended before everything was sent that was due at its stop.
    pub fn is_cut_short(&self) -> bool {
        self.shared.board().is_cut_short()
    }

    /// Returns the totals of what was sent and what was dropped so far.
    pub fn totals(&self) -> HostTotals {
        let board = self.shared.board();
        let sent = lock(&self.shared.sent_before).plus(board.totals());
        HostTotals { sent, dropped: *lock(&self.shared.dropped) }
    }

    /// What it writes down of what it sends; `None` of a board on the network.
    pub fn sent_record(&self) -> Option<&Arc<SentRecord>> {
        self.sent.as_ref()
    }

    /// Returns the failures on the way out.
    pub fn failures(&self) -> Vec<String> {
        self.shared.failures.list()
    }

    /// Ends the threads, after what is due has been sent.
    pub fn end(&mut self) {
        self.stop();
        self.shared.ending.store(true, Ordering::Release);
        self.threads.join(&self.shared.failures);
    }
}

impl Drop for HostedBoard {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    pub(crate) fn board(&self) -> MutexGuard<'_, Box<dyn SelfTriggeredBoard>> {
        lock(&self.board)
    }

    /// Does what a client asks. A board is armed with the parameters that clients have set since.
    pub(crate) fn perform(&self, command: &BoardCommand) -> Result<(), String> {
        let now_ns = self.now_ns();
        let mut board = self.board();
        if let BoardCommand::Arm(Some(wanted)) = command
            && board.state() != State::Running
        {
            let mut next = wanted.board().map_err(|error| error.to_string())?;
            next.record_truth(self.wants_truth);
            let mut before = lock(&self.sent_before);
            *before = before.plus(board.totals());
            *board = next;
        }
        command.perform(&mut **board, now_ns).map_err(|error| error.to_string())?;
        drop(board);
        if let BoardCommand::Start = command {
            lock(&self.followers)
                .iter()
                .filter_map(Weak::upgrade)
                .for_each(|follower| follower.signal_start());
        }
        Ok(())
    }

    /// The start signal of another board comes.
    fn signal_start(&self) {
        let mut board = self.board();
        if board.state() == State::Armed
            && self.control.get().is_some_and(|control| control.starts_by_signal())
        {
            let now_ns = self.now_ns();
            board.start(now_ns).unwrap_or_else(|error| self.fail(error.to_string()));
        }
    }

    /// The board now, for its control port.
    pub(crate) fn moment(&self) -> Moment {
        Moment { now_ns: self.now_ns(), state: self.board().state() }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    pub(crate) fn fail(&self, message: String) {
        self.failures.add(message);
    }

    pub(crate) fn add_dropped(&self, more: Dropped) {
        lock(&self.dropped).add(more);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
