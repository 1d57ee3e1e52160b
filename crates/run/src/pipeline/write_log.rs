//! The log of a builder unit's events on file, between the unit's thread and that of its files. A slow disk holds up no message to the
//! event manager, which would take the unit for dead.
//!
//! ```text
//!  unit's thread    pull ─► events ══ring══► write, flush, sync          EventRecorder
//!                    written(position) ◄── Filed: settled, on hold ◄── WriteLog
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thalweg_data::Mark;
use thalweg_readout::RunClock;

/// Events are on file at this age at the latest, whatever the age of a batch: until then readout units keep them.
const FLUSH_NS: u64 = 100_000_000;

/// The state of a builder unit's files, for its thread and theirs.
#[derive(Debug, Default)]
pub(crate) struct Filed {
    /// Events that were given to them, since the start.
    given: AtomicU64,
    /// The number of these events that no unit need keep any more.
    settled: AtomicU64,
    /// Space is waited for.
    on_hold: AtomicBool,
    /// It is not waited for any longer, and what is not settled stays with the readout units.
    given_up: AtomicBool,
}

impl Filed {
    /// Returns true if the disk is waited for.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.is_given_up() && self.settled.load(Ordering::Acquire) < self.given.load(Ordering::Acquire)
    }

    fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }
}

/// What was given to the files and may not be there yet, as its unit knows it. Only what is there may be forgotten elsewhere: what a
/// file's writer holds dies with the process.
#[derive(Debug)]
pub(crate) struct Given {
    /// The unit's position after each batch, by how many events had been given then.
    positions: VecDeque<(u64, u64)>,
    filed: Arc<Filed>,
}

impl Given {
    /// Counts what is given to the files that report through `filed`.
    pub(crate) fn to(filed: Arc<Filed>) -> Given {
        Given { positions: VecDeque::new(), filed }
    }

    /// Events were given, and the unit is at this position.
    pub(crate) fn give(&mut self, events: u64, position: u64) {
        let given = self.filed.given.fetch_add(events, Ordering::AcqRel) + events;
        self.positions.push_back((given, position));
    }

    /// The unit's position up to which everything is on file, when that is news.
    pub(crate) fn settle(&mut self) -> Option<u64> {
        let settled = self.filed.settled.load(Ordering::Acquire);
        let done = self.positions.partition_point(|(given, _)| *given <= settled);
        self.positions.drain(..done).next_back().map(|(_, position)| position)
    }

    /// Returns true if space is waited for.
    pub(crate) fn is_on_hold(&self) -> bool {
        self.filed.on_hold.load(Ordering::Acquire)
    }

    /// Returns true if the files take nothing more: the unit is to leave what they have not settled to others.
    pub(crate) fn is_given_up(&self) -> bool {
        self.filed.is_given_up()
    }
}

/// When what a writer holds has to be on file.
#[derive(Debug)]
struct Due {
    /// The time at which the first event was written since the files were last asked to be on disk.
    since: Option<Mark>,
    /// The most events that may wait.
    most_waiting: u64,
}

impl Due {
    /// The unit holds `slots` events at most, until they are on file.
    fn new(slots: u32) -> Due {
        // With all of them in a writer's hands, nothing more would come.
        Due { since: None, most_waiting: u64::from(slots / 4).max(1) }
    }

    fn is_due(&self, waiting: u64, now: Mark) -> bool {
        self.since.is_some_and(|since| self.is_urgent(waiting) || now.since_ns(since) >= FLUSH_NS)
    }

    /// Returns true if so many events wait that soon none could come any more: not even `[record] sync` by time is waited for.
    fn is_urgent(&self, waiting: u64) -> bool {
        waiting >= self.most_waiting
    }
}

/// The word of a recorder on what is on file, for a unit that waits for that.
pub(crate) struct WriteLog {
    due: Due,
    taken: Taken,
    filed: Arc<Filed>,
    clock: RunClock,
    /// All units of the run are in this process, so that nobody else can take what these files cannot.
    pub(super) is_alone: bool,
}

/// How many events a recorder got and how many its writer took, batch by batch: a filter may stand between them, and what it leaves out is
/// settled when everything before it is.
#[derive(Debug, Default)]
struct Taken {
    given: u64,
    /// Events given and taken, after each batch that has not settled.
    batches: VecDeque<(u64, u64)>,
    settled: u64,
}

impl Taken {
    /// A batch of so many events was given, and the writer has now taken so many of all.
    fn add(&mut self, events: u64, taken: u64) {
        self.given += events;
        self.batches.push_back((self.given, taken));
    }

    /// The events given up to the last batch whose events have settled, when so many of those have that the writer took.
    fn settle(&mut self, settled: u64) -> u64 {
        let done = self.batches.partition_point(|(_, taken)| *taken <= settled);
        if let Some((given, _)) = self.batches.drain(..done).next_back() {
            self.settled = given;
        }
        self.settled
    }
}

impl WriteLog {
    /// Makes the log of a unit that holds at most `slots` events, and the state of its files. `is_alone`: all units are in this process.
    pub(crate) fn new(slots: u32, clock: RunClock, is_alone: bool) -> (WriteLog, Arc<Filed>) {
        let filed = Arc::<Filed>::default();
        let (due, taken) = (Due::new(slots), Taken::default());
        (WriteLog { due, taken, filed: filed.clone(), clock, is_alone }, filed)
    }

    /// Returns the time: files are written also while no batch comes.
    pub(super) fn now(&self) -> Mark {
        self.clock.mark()
    }

    /// Notes that a batch of so many events was written, of all of which the writer has taken so many, and that these have not yet been
    /// asked to be on file.
    pub(super) fn wrote(&mut self, events: u64, taken: u64) {
        self.taken.add(events, taken);
        let now = self.now();
        self.due.since.get_or_insert(now);
    }

    /// Returns what must be done for events to be on file in time while `waiting` of them wait.
    pub(super) fn ask(&mut self, waiting: u64) -> Option<Ask> {
        if !self.due.is_due(waiting, self.now()) {
            return None;
        }
        self.due.since = None;
        Some(if self.due.is_urgent(waiting) { Ask::Force } else { Ask::Flush })
    }

    /// Notes how many of the events that the writer took no unit need keep any more.
    pub(super) fn settled(&mut self, events: u64) {
        self.filed.settled.store(self.taken.settle(events), Ordering::Release);
    }

    /// What is not settled will not be.
    pub(super) fn give_up(&self) {
        self.filed.given_up.store(true, Ordering::Release);
    }

    /// Sets whether space is waited for.
    pub(super) fn hold(&self, on_hold: bool) {
        self.filed.on_hold.store(on_hold, Ordering::Release);
    }
}

/// The request to a recorder concerning the events that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Write them.
    Flush,
    /// Write them and force them to the disk.
    Force,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_file_is_said_to_be() {
        let filed = Arc::<Filed>::default();
        let mut given = Given::to(filed.clone());
        let settle = |given: &mut Given, events| {
            filed.settled.store(events, Ordering::Release);
            (given.settle(), filed.is_waited_for())
        };
        given.give(10, 0);
        given.give(60, 1);
        assert_eq!((settle(&mut given, 9), settle(&mut given, 69)), ((None, true), (Some(0), true)));
        given.give(100, 3);
        assert_eq!((settle(&mut given, 170), settle(&mut given, 170)), ((Some(3), false), (None, false)));
    }

    #[test]
    fn what_a_filter_leaves_out_settles_behind_what_was_kept_before_it() {
        let mut taken = Taken::default();
        taken.add(10, 4);
        taken.add(5, 4);
        taken.add(7, 9);
        assert_eq!(taken.settle(3), 0, "one of the first batch is not on file");
        assert_eq!(taken.settle(8), 15, "nothing of the second was kept");
        assert_eq!((taken.settle(9), taken.batches.len()), (22, 0));
        taken.add(3, 9);
        assert_eq!(taken.settle(9), 25, "nothing waits before it");
    }

    #[test]
    fn events_get_to_the_disk_in_time() {
        let mut due = Due::new(400);
        assert!(!due.is_due(0, Mark(u64::MAX)), "nothing was written");
        due.since = Some(Mark(5));
        assert_eq!((due.is_due(70, Mark(7)), due.is_due(70, Mark(5 + FLUSH_NS))), (false, true));
        assert!(due.is_due(101, Mark(9)), "101 of 400 slots wait");
    }
}
