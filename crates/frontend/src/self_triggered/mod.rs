//! What an emulated self-triggered board is to its host, whatever family it is of.
//!
//! ```text
//!  host ─ arm, start, stop ─► SelfTriggeredBoard ─ produce(now) ─► Outgoing: datagrams or packets
//!    ▲                             └─► truth, Totals, SentRecord
//!    └─ BoardCommand ◄─ ControlSession ◄─ bytes of a client, where the family's boards have a control port
//! ```
//! The host owns sockets and time. It passes commands on, calls [`SelfTriggeredBoard::produce`] with its `now`, and sends what it gets. The
//! same settings, commands and times give the same bytes.

mod acquisition;
mod control;
mod numbered_board;
mod outgoing;

use std::sync::Arc;

use thalweg_data::{Hit, SentRecord};

pub use acquisition::{Acquisition, BoardError, LONGEST_RUN_NS, State};
pub use control::{BoardCommand, ControlService, ControlSession, Perform};
pub(crate) use numbered_board::NumberedBoard;
pub use outgoing::{Outgoing, Run};

/// What a board has sent since it was made or reset; the other side of the receiver's snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Hits in what was sent; of a scope event one per channel.
    pub hits: u64,
    /// Aggregates of hits or statistics, where the format has some.
    pub aggregates: u64,
    /// Scope events.
    pub scope_events: u64,
    /// Statistics records, which are not hits.
    pub statistics_records: u64,
    /// Start and stop events.
    pub special_events: u64,
    /// Datagrams (UDP) or packets (TCP), those without data included.
    pub datagrams: u64,
    /// Datagrams or packets without data: idle and clear markers.
    pub empty_datagrams: u64,
    /// Bytes handed out, footers and packet headers included.
    pub bytes: u64,
    /// Hits that a clear or reset threw away before they were sent.
    pub hits_cleared: u64,
    /// Hits that were not taken because the board was inhibited; not among `hits`.
    pub hits_inhibited: u64,
}

impl Totals {
    /// What this board has sent, and the one that it has replaced.
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            hits: self.hits + other.hits,
            aggregates: self.aggregates + other.aggregates,
            scope_events: self.scope_events + other.scope_events,
            statistics_records: self.statistics_records + other.statistics_records,
            special_events: self.special_events + other.special_events,
            datagrams: self.datagrams + other.datagrams,
            empty_datagrams: self.empty_datagrams + other.empty_datagrams,
            bytes: self.bytes + other.bytes,
            hits_cleared: self.hits_cleared + other.hits_cleared,
            hits_inhibited: self.hits_inhibited + other.hits_inhibited,
        }
    }
}

/// An emulated self-triggered board, without a socket or a clock.
pub trait SelfTriggeredBoard: Send {
    /// What it is doing.
    fn state(&self) -> State;

    /// Returns the totals of what the board has sent so far.
    fn totals(&self) -> Totals;

    /// Makes the board ready to start; voids what it held.
    ///
    /// # Errors
    /// While it runs.
    fn arm(&mut self) -> Result<(), BoardError>;

    /// Starts the acquisition: board time 0 is `now_ns` of the host.
    ///
    /// # Errors
    /// When the board is not armed, or runs already.
    fn start(&mut self, now_ns: u64) -> Result<(), BoardError>;

    /// Stops the acquisition at `now_ns`; what was measured until then is still sent. Without effect when nothing runs.
    fn stop(&mut self, now_ns: u64);

    /// Closes or opens the veto input: while it is closed, pulses are not taken, and are counted. What was taken before is sent.
    fn inhibit(&mut self, inhibited: bool);

    /// Appends to `out` what is due until `now_ns` (any monotonic clock of the host; `u64::MAX` for as fast as it
    /// goes, without idle markers), and says whether more is due than fitted: then send, clear, and call again.
    fn produce(&mut self, now_ns: u64, out: &mut Outgoing) -> bool;

    /// Writes down from now on what the board sends, so that its receiver can ask what it has missed.
    fn keep_record(&mut self, record: Arc<SentRecord>);

    /// Keeps what a perfect reader would record, from now on; take it regularly, it grows.
    fn record_truth(&mut self, wanted: bool);

    /// Moves the truth of what was sent since the last call to the end of `into`: with the board's own channel numbers, in the order in
    /// which it was sent.
    fn take_truth(&mut self, into: &mut Vec<Hit>);

    /// A client has opened the data connection. As the commands that follow, for boards with a control port.
    fn connected(&mut self) {}

    /// Voids what the board holds; a run goes on.
    fn clear(&mut self) {}

    /// Ends a run at once, voids what the board holds, makes it idle.
    fn reset(&mut self) {}

    /// Makes the board idle; a run ends at `now_ns` with what was measured until then.
    fn disarm(&mut self, now_ns: u64) {
        self.stop(now_ns);
    }
}
