//! BUSY: who asks the trigger to wait, and for how long anybody did.
//!
//! ```text
//!  raise, lower, each with its mark ─► Busy, shared by all ─► the trigger
//!                                        └─► BusyTime: while at least one stage was busy, from begin to end
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Mark;

/// The BUSY flag: counts the stages that ask the trigger to wait, and for how long any of them did. Any thread can raise, lower and read it.
#[derive(Debug, Default)]
pub struct Busy {
    stages: AtomicU32,
    /// Changed together with the count of stages.
    time: Mutex<Stretches>,
}

/// For how long BUSY was raised. Where the threads of several stages raise it at once, that time counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyTime {
    /// Nanoseconds in which it was raised.
    pub raised_ns: u64,
    /// Of so many nanoseconds.
    pub of_ns: u64,
}

impl BusyTime {
    /// The part of the time in which it was raised, 0 to 1; `None` where there was no time yet.
    pub fn fraction(self) -> Option<f64> {
        (self.of_ns > 0).then(|| (self.raised_ns as f64 / self.of_ns as f64).min(1.0))
    }

    /// The time that was added to `before`.
    pub fn since(self, before: BusyTime) -> BusyTime {
        BusyTime {
            raised_ns: self.raised_ns.saturating_sub(before.raised_ns),
            of_ns: self.of_ns.saturating_sub(before.of_ns),
        }
    }
}

/// The times in which BUSY was raised while data were taken.
#[derive(Clone, Copy, Debug, Default)]
struct Stretches {
    begun: Option<Mark>,
    ended: Option<Mark>,
    raised_since: Option<Mark>,
    /// Of the times that are over.
    total_ns: u64,
    /// Of the last change: threads do not look at the time at once, and none of it counts twice.
    latest: Mark,
}

impl Busy {
    /// One more stage is busy, from `mark` on.
    pub fn raise(&self, mark: Mark) {
        let mut time = self.time();
        if self.stages.fetch_add(1, Ordering::AcqRel) == 0 {
            time.raise(mark);
        }
    }

    /// One stage fewer is busy, from `mark` on.
    pub fn lower(&self, mark: Mark) {
        let mut time = self.time();
        let before = self.stages.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "busy is lowered only by a stage that raised it");
        if before == 1 {
            time.lower(mark);
        }
    }

    /// Whether any stage is busy.
    pub fn is_raised(&self) -> bool {
        self.stages.load(Ordering::Acquire) > 0
    }

    /// Data are taken from `mark` on: that counts as BUSY in which it is raised since then.
    pub fn begin(&self, mark: Mark) {
        let mut time = self.time();
        let raised_since = self.is_raised().then_some(mark);
        *time = Stretches { begun: Some(mark), raised_since, latest: mark, ..Stretches::default() };
    }

    /// Data are taken until `mark`: BUSY that stays raised while the rest is written counts no more.
    pub fn end(&self, mark: Mark) {
        let mut time = self.time();
        time.lower(mark);
        time.ended = Some(mark);
    }

    /// For how long it was raised until `now`, of the time in which data were taken.
    pub fn time_until(&self, now: Mark) -> BusyTime {
        self.time().until(now)
    }

    fn time(&self) -> MutexGuard<'_, Stretches> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stretches {
    fn raise(&mut self, mark: Mark) {
        self.latest = self.latest.max(mark);
        if self.ended.is_none() {
            self.raised_since = Some(self.latest);
        }
    }

    fn lower(&mut self, mark: Mark) {
        self.latest = self.latest.max(mark);
        if let Some(since) = self.raised_since.take() {
            self.total_ns += self.latest.since_ns(since);
        }
    }

    fn until(&self, now: Mark) -> BusyTime {
        let Some(begun) = self.begun else { return BusyTime::default() };
        let until = self.ended.unwrap_or(now);
        let open_ns = self.raised_since.map_or(0, |since| until.since_ns(since));
        BusyTime { raised_ns: self.total_ns + open_ns, of_ns: until.since_ns(begun) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_raised_until_every_stage_has_lowered_it() {
        let busy = Busy::default();
        busy.raise(Mark(1));
        busy.raise(Mark(2));
        busy.lower(Mark(3));
        assert!(busy.is_raised());
        busy.lower(Mark(4));
        assert!(!busy.is_raised());
    }

    #[test]
    fn the_time_of_several_stages_counts_once() {
        let busy = Busy::default();
        let raised_ns = |now| busy.time_until(Mark(now)).raised_ns;
        busy.begin(Mark(0));
        busy.raise(Mark(100));
        assert_eq!((raised_ns(100), raised_ns(200)), (0, 100), "time goes on while it is raised");
        busy.raise(Mark(200));
        busy.lower(Mark(300));
        busy.lower(Mark(500));
        assert_eq!((raised_ns(500), raised_ns(800)), (400, 400));
        busy.raise(Mark(450));
        busy.lower(Mark(600));
        assert_eq!(raised_ns(800), 500, "of a thread that looked at the time before the other did");
        assert_eq!(busy.time_until(Mark(1000)).fraction(), Some(0.5));
    }

    #[test]
    fn busy_counts_from_the_begin_to_the_end_of_data_taking() {
        let busy = Busy::default();
        busy.raise(Mark(0));
        assert_eq!(busy.time_until(Mark(100)), BusyTime::default(), "the run is being opened");
        assert_eq!(BusyTime::default().fraction(), None, "not 0: there was no time yet");
        busy.begin(Mark(100));
        assert_eq!(busy.time_until(Mark(300)), BusyTime { raised_ns: 200, of_ns: 200 });
        busy.lower(Mark(400));
        busy.raise(Mark(500));
        busy.end(Mark(600));
        assert!(busy.is_raised(), "it stays raised while the rest is written");
        busy.lower(Mark(700));
        busy.raise(Mark(800));
        assert_eq!(busy.time_until(Mark(900)), BusyTime { raised_ns: 400, of_ns: 500 });
    }
}
