//! A board that sends its hits in numbered datagrams.
//!
//! ```text
//!  hits of a run, bytes of a datagram ─► NumberedBoard ─ produce(now) ─► datagrams, full or 5 ms old
//! ```
//! A family provides the measured hits and their encoding; state, veto, truth and counts are here.

use std::iter::Peekable;
use std::sync::Arc;

use thalweg_data::{Hit, SentRecord};

use super::{Acquisition, BoardError, Outgoing, SelfTriggeredBoard, State, Totals};
use crate::unit_decode::BoardHit;

/// Age of its first hit at which an incomplete datagram is sent.
const FLUSH_PS: u64 = 5_000_000_000;

/// The hits of one run, in time order.
type RunHits = Box<dyn Iterator<Item = BoardHit> + Send>;
/// Appends the datagram with this number and these hits.
type Emit = Box<dyn Fn(u64, &[BoardHit], &mut Vec<u8>) + Send>;

/// A board that sends the hits of a given source.
pub(crate) struct NumberedBoard {
    /// Length of a count of its clock in picoseconds.
    tick_ps: u64,
    hits_per_datagram: usize,
    /// Creates the hits of a new run.
    run: Box<dyn Fn() -> RunHits + Send>,
    emit: Emit,
    acquisition: Acquisition,
    inhibited: bool,
    /// Hits that are not due yet.
    coming: Peekable<RunHits>,
    /// Hits of the datagram that is being filled.
    waiting: Vec<BoardHit>,
    number: u64,
    totals: Totals,
    truth: Option<Vec<Hit>>,
    record: Option<Arc<SentRecord>>,
}

impl NumberedBoard {
    /// Creates the board, idle. `run` gives the hits of a run in time order; `emit` appends the datagram of a number,
    /// which starts at 0 when the board is armed.
    pub fn new<H>(
        tick_ps: u64,
        hits_per_datagram: usize,
        run: impl Fn() -> H + Send + 'static,
        emit: impl Fn(u64, &[BoardHit], &mut Vec<u8>) + Send + 'static,
    ) -> NumberedBoard
    where
        H: Iterator<Item = BoardHit> + Send + 'static,
    {
        NumberedBoard {
            tick_ps,
            hits_per_datagram,
            run: Box::new(move || Box::new(run())),
            emit: Box::new(emit),
            acquisition: Acquisition::default(),
            inhibited: false,
            coming: (Box::new(std::iter::empty()) as RunHits).peekable(),
            waiting: Vec::new(),
            number: 0,
            totals: Totals::default(),
            truth: None,
            record: None,
        }
    }

    fn send(&mut self, out: &mut Outgoing) {
        if self.waiting.is_empty() {
            return;
        }
        self.totals.hits += self.waiting.len() as u64;
        if let Some(record) = &self.record {
            record.end_frame(self.totals.hits);
            record.send_datagram(self.number);
        }
        let start = out.bytes.len();
        (self.emit)(self.number, &self.waiting, &mut out.bytes);
        self.totals.bytes += out.end_datagram(start);
        self.totals.datagrams += 1;
        self.number += 1;
        if let Some(truth) = &mut self.truth {
            let tick_ps = self.tick_ps;
            truth.extend(self.waiting.iter().map(|hit| hit.at((hit.ticks * tick_ps) as i64)));
        }
        self.waiting.clear();
    }

    /// Appends due hits; returns whether more is due than fitted.
    fn hits_until(&mut self, until_ps: u64, out: &mut Outgoing) -> bool {
        let until_ticks = until_ps / self.tick_ps;
        while !out.is_full() {
            let Some(hit) = self.coming.next_if(|hit| hit.ticks <= until_ticks) else { return false };
            match self.inhibited {
                true => self.totals.hits_inhibited += 1,
                false => self.waiting.push(hit),
            }
            if self.waiting.len() >= self.hits_per_datagram {
                self.send(out);
            }
        }
        true
    }
}

impl SelfTriggeredBoard for NumberedBoard {
    fn state(&self) -> State {
        self.acquisition.state()
    }

    fn totals(&self) -> Totals {
        self.totals
    }

    fn arm(&mut self) -> Result<(), BoardError> {
        self.acquisition.arm()?;
        self.waiting.clear();
        self.number = 0;
        // Numbers restart, so the record of earlier ones no longer applies.
        if let Some(record) = self.record.as_ref().filter(|record| record.frames() > 0) {
            record.give_up();
        }
        Ok(())
    }

    fn start(&mut self, now_ns: u64) -> Result<(), BoardError> {
        self.acquisition.start(now_ns, None)?;
        self.coming = (self.run)().peekable();
        Ok(())
    }

    fn stop(&mut self, now_ns: u64) {
        self.acquisition.stop(now_ns);
    }

    fn is_cut_short(&self) -> bool {
        self.acquisition.is_cut_short()
    }

    fn inhibit(&mut self, inhibited: bool) {
        self.inhibited = inhibited;
    }

    fn produce(&mut self, now_ns: u64, out: &mut Outgoing) -> bool {
        if self.state() != State::Running {
            return false;
        }
        let until_ps = self.acquisition.elapsed_ns(now_ns) * 1000;
        if self.hits_until(until_ps, out) {
            return true;
        }
        let first_ps = self.waiting.first().map_or(u64::MAX, |first| first.ticks * self.tick_ps);
        let is_old = first_ps.saturating_add(FLUSH_PS) <= until_ps;
        if self.acquisition.leave(now_ns) || is_old {
            self.send(out);
        }
        false
    }

    fn keep_record(&mut self, record: Arc<SentRecord>) {
        self.record = Some(record);
    }

    fn record_truth(&mut self, wanted: bool) {
        self.truth = wanted.then(Vec::new);
    }

    fn take_truth(&mut self, into: &mut Vec<Hit>) {
        into.extend(self.truth.iter_mut().flat_map(|truth| truth.drain(..)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hit each millisecond; a datagram consists of its number and the number of its hits.
    fn board() -> NumberedBoard {
        let run = || (0..).map(|ms| BoardHit { ticks: 1000 * ms, ..BoardHit::default() });
        let emit = |number: u64, hits: &[BoardHit], to: &mut Vec<u8>| {
            to.extend([number as u8, hits.len() as u8]);
        };
        NumberedBoard::new(1_000_000, 4, run, emit)
    }

    fn sent(board: &mut NumberedBoard, now_ms: u64) -> Vec<Vec<u8>> {
        let mut out = Outgoing::new(1000);
        assert!(!board.produce(now_ms * 1_000_000, &mut out), "all of it fits");
        out.datagrams().map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn hits_are_sent_when_a_datagram_is_full_or_old_or_the_run_ends() {
        let mut board = board();
        board.arm().and_then(|()| board.start(0)).expect("it is idle");
        assert_eq!(sent(&mut board, 2), [[0u8; 2]; 0]);
        assert_eq!(sent(&mut board, 4), [[0, 4]], "four fill a datagram");
        assert_eq!(sent(&mut board, 6), [[0u8; 2]; 0]);
        board.inhibit(true);
        assert_eq!(sent(&mut board, 9), [[1, 3]], "the first is five milliseconds old");
        assert_eq!((board.totals().hits, board.totals().hits_inhibited), (7, 3));
        board.inhibit(false);
        board.stop(11_000_000);
        assert_eq!(sent(&mut board, 20), [[2, 2]], "hits of 10 and 11 ms");
        assert_eq!(board.state(), State::Armed);
        board.arm().and_then(|()| board.start(0)).expect("it was stopped");
        assert_eq!(sent(&mut board, 3), [[0, 4]], "numbers and hits restart");
    }

    #[test]
    fn a_board_that_is_far_behind_ends_a_while_after_its_stop() {
        let mut board = board();
        board.arm().and_then(|()| board.start(0)).expect("it is idle");
        let produce = |board: &mut NumberedBoard, now_ms: u64| {
            let mut out = Outgoing::new(1);
            let more = board.produce(now_ms * 1_000_000, &mut out);
            (more, out.datagrams().count())
        };
        assert_eq!(produce(&mut board, 5000), (true, 1), "one of more than a thousand datagrams");
        board.stop(5000 * 1_000_000);
        assert_eq!(produce(&mut board, 5999), (true, 1), "it catches up");
        assert!(!board.is_cut_short());
        assert_eq!(produce(&mut board, 6001), (false, 0));
        assert_eq!((board.state(), board.totals().hits), (State::Armed, 8));
        assert!(board.is_cut_short());
    }
}
