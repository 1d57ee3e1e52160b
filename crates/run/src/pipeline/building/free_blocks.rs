//! Frees blocks for what waits: events leave early because their blocks are needed.
//!
//! ```text
//!  nothing can be read ─► the recorder writes what it keeps ─► open slices of time leave ─► the oldest event leaves ─► read on
//!    ├ in a replay: every link waits for a block, and no time passes
//!    └ at a stop: something waits, and those who could be read have said everything
//! ```
//! In mid-run nothing leaves early: boards wait until the oldest event is complete or of age. After a stop no event waits for an age any
//! more, and what has come by then is to be read.

use thalweg_data::{LinkId, Mark};

use super::super::Signals;
use super::super::drain::Drain;
use super::super::readout::Readout;
use super::{Building, DRAIN};

/// The silence after a stop, nanoseconds, from which a link is taken to have sent everything.
const SILENCE_NS: u64 = 100_000_000;

impl Readout<Building> {
    /// Nothing more can be read until blocks come back, and no time passes meanwhile that would bring them. `false` when nobody goes on.
    #[cold]
    pub(super) fn free_blocks_in_replay(&mut self, mark: Mark, signals: &Signals) -> bool {
        if let Some(goes_on) = self.write_all(mark, signals) {
            return goes_on;
        }
        self.work.wrote_all = false;
        if self.work.feed.open_slices_leave(mark) || self.work.feed.builder.free_blocks() {
            return true;
        }
        signals.fail(
            "the replay cannot go on: no block is free, and none will come back; raise `memory_bytes` of the sources in \
             the `configuration` of a copy of the run's `run.json`"
                .to_owned(),
        );
        false
    }

    /// What has come by the stop is read: where it waits for space, open events leave, the oldest first. `false` when nobody goes on.
    #[cold]
    pub(super) fn free_blocks_at_stop(
        &mut self,
        mark: Mark,
        took_nothing: bool,
        drain: &mut Drain,
        signals: &Signals,
    ) -> bool {
        if self.work.last_received.is_empty() {
            self.work.last_received.resize(self.work.feed.links.len(), mark);
        }
        let is_held_up: Vec<bool> = self.inputs.links().map(|link| self.is_held_up(link)).collect();
        if !is_held_up.contains(&true) {
            self.work.held_up_since = None;
            return true;
        }
        drain.held_up();
        let since = *self.work.held_up_since.get_or_insert(mark);
        // A recording that waits for the disk holds the blocks whatever leaves.
        if !took_nothing || signals.is_paused() || self.an_answer_may_come(mark, since, &is_held_up) {
            return true;
        }
        if let Some(goes_on) = self.write_all(mark, signals) {
            return goes_on;
        }
        // With nothing left that could leave, others hold the blocks: the drain waits for them, and says so in the end.
        let (links, last_received) = (&self.work.feed.links, &self.work.last_received);
        let silent = links
            .iter()
            .zip(&is_held_up)
            .zip(last_received)
            .filter(|((_, is_held_up), last)| !**is_held_up && mark.since_ns(**last) >= SILENCE_NS);
        let silent: Vec<_> =
            silent.flat_map(|((link, _), _)| link.boards.iter().map(|board| board.source)).collect();
        let any = self.work.feed.open_slices_leave(mark)
            || self.work.feed.builder.free_blocks_at_stop(|source| silent.contains(&source));
        self.work.wrote_all = !any;
        true
    }

    /// Nothing is read any more: what the builder has not taken frees space for itself as events leave. What still does not fit stays.
    pub(super) fn take_pending(&mut self, mark: Mark, signals: &Signals) {
        let mut before = None;
        while self.pull(mark, signals) {
            self.hold_and_resume();
            let (feed, standing) = (&self.work.feed, self.work.feed.builder.standing());
            let pending: usize =
                feed.pending.iter().map(|pending| pending.batch.fragments.len() - pending.taken).sum();
            let now = Some((pending, standing.open_events, standing.deferred, standing.base));
            if pending == 0 || now == before || feed.builder.stop().is_some() {
                break;
            }
            before = now;
            self.work.feed.builder.free_blocks_at_stop(|_| true);
        }
    }

    /// Whether something of a link waits, and cannot be taken without space.
    fn is_held_up(&self, link: LinkId) -> bool {
        let is_not_read = self.work.feed.held.contains(&link) || self.inputs.is_held(link);
        let is_pending = !self.work.feed.pending[link.index()].is_empty();
        is_pending || is_not_read && self.inputs.waiting_bytes(link) > 0
    }

    /// Whether the oldest event waits for a board that can be read and has not been silent for long. It is not waited for without end:
    /// a board that goes on sending may never answer.
    fn an_answer_may_come(&self, mark: Mark, since: Mark, is_held_up: &[bool]) -> bool {
        let builder = &self.work.feed.builder;
        let mut links = self.work.feed.links.iter().zip(is_held_up).zip(&self.work.last_received);
        let may_come = links.any(|((link, is_held_up), last)| {
            let has_spoken = !is_held_up && mark.since_ns(*last) < SILENCE_NS;
            has_spoken && link.boards.iter().any(|board| builder.awaits(board.source))
        });
        may_come && mark.since_ns(since) < DRAIN.as_nanos() as u64
    }

    /// Has whoever takes the events write all of them, and let go of their blocks. `None` once that is done; otherwise whether it goes on.
    fn write_all(&mut self, mark: Mark, signals: &Signals) -> Option<bool> {
        if !self.work.outlet.is_at_rest() {
            return Some(true);
        }
        if self.work.wrote_all {
            return None;
        }
        self.work.wrote_all = true;
        let busy = &mut self.work.busy;
        Some(self.work.outlet.write_all(mark, &mut || busy.set(true, mark), signals))
    }
}
