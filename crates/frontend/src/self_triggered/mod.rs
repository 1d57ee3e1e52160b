//! The interface of an emulated self-triggered board to its host, for all families.
//!
//! ```text
//!  host ─ arm, start, stop ─► SelfTriggeredBoard ─ produce(now) ─► Outgoing: datagrams or packets
//!    ▲                             └─► truth, Totals, SentRecord
//!    └─ BoardCommand ◄─ ControlSession ◄─ bytes of a client, if the family has a control port
//! ```
//! The host owns sockets and time. It passes commands on, calls [`SelfTriggeredBoard::produce`] with its `now`, and
//! sends the result. The same settings, commands and times give the same bytes.

mod acquisition;
mod control;
mod numbered_board;
mod outgoing;

use std::sync::Arc;

use thalweg_data::{Hit, SentRecord};

pub use acquisition::{Acquisition, BoardError, CATCH_UP_NS, LONGEST_RUN_NS, State};
pub use control::{BoardCommand, ControlService, ControlSession, Moment, Perform};
pub(crate) use numbered_board::NumberedBoard;
pub use outgoing::{Outgoing, Run};

/// Counts of what a board has sent since it was created or reset, to compare with the receiver's snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Hits that were sent; a scope event has one per channel.
    pub hits: u64,
    /// Aggregates of hits or statistics, if the format has them.
    pub aggregates: u64,
    /// Scope events.
    pub scope_events: u64,
    /// Statistics records, which are not hits.
    pub statistics_records: u64,
    /// Start and stop events.
    pub special_events: u64,
    /// Datagrams (UDP) or packets (TCP), including those without data.
    pub datagrams: u64,
    /// Datagrams or packets without data: idle and clear markers.
    pub empty_datagrams: u64,
    /// Bytes, including footers and packet headers.
    pub bytes: u64,
    /// Hits that a clear or reset discarded before they were sent.
    pub hits_cleared: u64,
    /// Hits that were not taken because the board was inhibited; not included in `hits`.
    pub hits_inhibited: u64,
}

impl Totals {
    /// Sum of this board and the one that it has replaced.
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
    /// The state of the board.
    fn state(&self) -> State;

    /// Returns the totals of what the board has sent so far.
    fn totals(&self) -> Totals;

    /// Makes the board ready to start, and discards pending data.
    ///
    /// # Errors
    /// While the board is running.
    fn arm(&mut self) -> Result<(), BoardError>;

    /// Starts the acquisition: `now_ns` of the host is board time 0.
    ///
    /// # Errors
    /// When the board is not armed, or is running.
    fn start(&mut self, now_ns: u64) -> Result<(), BoardError>;

    /// Stops the acquisition at `now_ns`; data measured until then are still sent, for [`CATCH_UP_NS`]. Without a
    /// run, this has no effect.
    fn stop(&mut self, now_ns: u64);

    /// Whether the last run ended before everything was sent that was due at its stop.
    fn is_cut_short(&self) -> bool;

    /// Closes or opens the veto input: while it is closed, pulses are counted but not taken. Hits taken before are
    /// sent.
    fn inhibit(&mut self, inhibited: bool);

    /// Appends to `out` the data that are due until `now_ns` (any monotonic clock of the host; `u64::MAX` for as fast
    /// as possible, without idle markers). Returns whether more is due than fitted: then send, clear, and call again.
    fn produce(&mut self, now_ns: u64, out: &mut Outgoing) -> bool;

    /// Keeps a record of the sent data from now on, so that the receiver can find out what it has missed.
    fn keep_record(&mut self, record: Arc<SentRecord>);

    /// Keeps the hits that a perfect reader would record from now on; take them regularly, since they accumulate.
    fn record_truth(&mut self, wanted: bool);

    /// Appends the truth of the data sent since the last call to `into`: with the board's own channel numbers, in the
    /// order of sending.
    fn take_truth(&mut self, into: &mut Vec<Hit>);

    /// A client has opened the data connection. This and the next commands are for boards with a control port.
    fn connected(&mut self) {}

    /// Discards pending data; a run continues.
    fn clear(&mut self) {}

    /// Ends a run at once, discards pending data, and makes the board idle.
    fn reset(&mut self) {}

    /// Makes the board idle; a run ends at `now_ns` with the data measured until then.
    fn disarm(&mut self, now_ns: u64) {
        self.stop(now_ns);
    }
}
