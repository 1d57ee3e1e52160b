//! Tracks the open slices of one source, and when each leaves.
//!
//! ```text
//!        left │ open: as many as its times may be out of order │
//!  ───────────┼────────────────────────────────────────────────┼──► slice
//!           next                                   the one of the latest time
//! ```

use std::collections::VecDeque;

use thalweg_data::{Counters, Fragment, Fragments, Leases, LossReason, Mark, Slice, SourceId, Unit};

use super::{MOST_AT_ONCE, Settings, SliceError};

/// A slice that is still being filled.
#[derive(Default)]
pub(super) struct Open {
    /// Its bytes, in the order in which they came.
    slices: Vec<Slice>,
    leases: Leases,
    bytes: u64,
    /// Hits, or fragments, in it.
    entries: u64,
}

impl Open {
    /// Adds bytes; right behind the last ones they are one slice with them.
    pub fn add(&mut self, slice: Slice, entries: u64) {
        self.entries += entries;
        self.bytes += u64::from(slice.length);
        match self.slices.last_mut() {
            Some(last) if last.block == slice.block && last.end() == slice.offset as usize => {
                last.length += slice.length;
            }
            _ => self.slices.push(slice.tagged(0)),
        }
    }

    pub fn leases(&mut self) -> &mut Leases {
        &mut self.leases
    }

    /// Notes one more entry, whose bytes were added slice by slice.
    pub fn count_one(&mut self) {
        self.entries += 1;
    }

    /// Whether with so much more it is still a fragment that can be named.
    pub fn has_capacity(&self, bytes: u64, slices: usize) -> bool {
        self.slices.len() + slices <= usize::from(u16::MAX) && self.bytes + bytes <= u64::from(u32::MAX)
    }
}

/// Where something belongs.
pub(super) enum Place {
    /// In the open slice at this index.
    Open(usize),
    /// Nowhere, for this reason.
    Lost(LossReason),
    /// Slices have to leave first, and the batch for them is full.
    Full,
}

/// What is known of the clock of a source, for when it is silent.
#[derive(Clone, Copy)]
struct Clock {
    /// The latest time of the source, and when something of it arrived last.
    latest_ps: i64,
    arrived: Mark,
    /// How far the time of what came last lies ahead of its arrival, wherever it belonged, and since when that has stayed near.
    ahead_ps: i64,
    steady_since: Mark,
}

impl Clock {
    /// Notes a time and its arrival. Returns whether times have lain near each other, seen from their arrival, for as long as a silence.
    fn is_steady(&mut self, time_ps: i64, mark: Mark, silence_ns: u64) -> bool {
        let arrival_ps = i64::try_from(mark.0).unwrap_or(i64::MAX).saturating_mul(1000);
        let ahead_ps = time_ps.saturating_sub(arrival_ps);
        if ahead_ps.abs_diff(self.ahead_ps) > silence_ns.saturating_mul(1000) {
            self.steady_since = mark;
        }
        self.ahead_ps = ahead_ps;
        mark.since_ns(self.steady_since) >= silence_ns
    }
}

/// The slices of one source: what is open, when each leaves, and what became of what was cut.
pub struct Timeline {
    settings: Settings,
    source: SourceId,
    /// The first slice that has not left.
    next: u64,
    latest_ps: i64,
    clock: Option<Clock>,
    open: VecDeque<Open>,
    pub(super) counters: Counters,
    /// The unit of what is cut: hits or fragments.
    unit: Unit,
}

impl Timeline {
    /// Most slices that are open at once.
    pub(super) const MOST_OPEN: u64 = 64;

    pub(super) fn new(source: SourceId, settings: &Settings, unit: Unit) -> Result<Timeline, SliceError> {
        settings.check()?;
        let open = settings.disorder_ps / settings.slice_ps + 2;
        Ok(Timeline {
            settings: settings.clone(),
            source,
            next: 0,
            latest_ps: i64::MIN,
            clock: None,
            open: (0..open).map(|_| Open::default()).collect(),
            counters: Counters::default(),
            unit,
        })
    }

    /// Returns the number of slices open at once; the first is the next to leave.
    pub(super) fn open_slices(&self) -> usize {
        self.open.len()
    }

    /// The number of the slice that is at this index.
    pub(super) fn number(&self, index: usize) -> u64 {
        self.next + index as u64
    }

    pub(super) fn open(&mut self, index: usize) -> &mut Open {
        &mut self.open[index]
    }

    /// The slice of a time: negative before the run.
    pub(super) fn slice_of(&self, time_ps: i64) -> i64 {
        time_ps.div_euclid(self.settings.slice_ps as i64)
    }

    /// Finds where something of this time belongs. Slices that it proves to be over leave.
    pub(super) fn place(&mut self, time_ps: i64, mark: Mark, out: &mut Fragments) -> Place {
        let number = self.slice_of(time_ps);
        if number < self.next as i64 {
            self.note_arrival(time_ps, mark, false);
            return Place::Lost(if number < 0 { LossReason::OutOfWindow } else { LossReason::Late });
        }
        if time_ps > self.latest_ps {
            let latest_ns = mark.0.saturating_add(self.settings.ahead_ms.saturating_mul(1_000_000));
            if self.settings.ahead_ms > 0 && time_ps as u64 / 1000 > latest_ns {
                self.note_arrival(time_ps, mark, false);
                return Place::Lost(LossReason::OutOfWindow);
            }
            if !self.leave_before(time_ps, out) {
                return Place::Full;
            }
        }
        self.note_arrival(time_ps, mark, true);
        Place::Open((number as u64 - self.next) as usize)
    }

    /// Notes that the source is not silent, although what has come may not have been taken. Behind a time that was ahead, or a clock that
    /// was set back, the slices so stand still until the source has come there; if they moved on as in silence, it never would. Late or
    /// damaged times that do not go on for as long as a silence say nothing of the clock, and do not end a silence: it would begin anew at
    /// the latest time before it.
    fn note_arrival(&mut self, time_ps: i64, mark: Mark, is_taken: bool) {
        let silence_ns = self.silence_ns();
        let Some(clock) = &mut self.clock else {
            let first = Clock { latest_ps: time_ps, arrived: mark, ahead_ps: 0, steady_since: mark };
            self.clock = is_taken.then_some(first);
            return;
        };
        if clock.arrived == mark || clock.is_steady(time_ps, mark, silence_ns) || is_taken {
            clock.latest_ps = clock.latest_ps.max(time_ps.min(self.latest_ps));
            clock.arrived = mark;
        }
    }

    fn silence_ns(&self) -> u64 {
        self.settings.silence_ms.saturating_mul(1_000_000)
    }

    /// Reports that nothing before `time_ps` will come any more, such as from a board's heartbeat: slices before it leave, empty
    /// or not. Returns whether all of them could; if not, `out` is full, and is to be built and cleared.
    pub fn pass(&mut self, time_ps: i64, mark: Mark, out: &mut Fragments) -> bool {
        (out.header.source, out.header.mark) = (self.source, mark);
        let all = self.leave_before(time_ps, out);
        self.count_held();
        all
    }

    /// Reports the time: a source that has been silent for longer than `silence_ms` is taken to have had nothing to say
    /// until so long ago by its own clock, which runs on. Returns as [`Timeline::pass`] does.
    pub fn advance(&mut self, mark: Mark, out: &mut Fragments) -> bool {
        let silence_ns = self.silence_ns();
        let Some(clock) = self.clock.filter(|_| silence_ns > 0) else { return true };
        match mark.since_ns(clock.arrived).checked_sub(silence_ns).and_then(|ns| i64::try_from(ns).ok()) {
            None | Some(0) => true,
            Some(silent_ns) => {
                self.pass(clock.latest_ps.saturating_add(silent_ns.saturating_mul(1000)), mark, out)
            }
        }
    }

    /// Slices that end before this time, as far as times may be out of order, leave.
    fn leave_before(&mut self, time_ps: i64, out: &mut Fragments) -> bool {
        let over = self.slice_of(time_ps.saturating_sub(self.settings.disorder_ps as i64)).max(0) as u64;
        while self.next < over {
            if out.fragments.len() >= MOST_AT_ONCE {
                return false;
            }
            self.leave(out);
        }
        self.latest_ps = self.latest_ps.max(time_ps);
        true
    }

    /// Whether something of this time proves no slice to be over.
    pub(super) fn moves_nothing(&self, time_ps: i64) -> bool {
        time_ps <= self.latest_ps
    }

    /// Reports that nothing more will come: every slice leaves up to that of the latest time. Returns as [`Timeline::pass`] does.
    pub fn finish(&mut self, mark: Mark, out: &mut Fragments) -> bool {
        (out.header.source, out.header.mark) = (self.source, mark);
        let mut all = true;
        while all && (self.next as i64) <= self.slice_of(self.latest_ps) {
            all = out.fragments.len() < MOST_AT_ONCE;
            if all {
                self.leave(out);
            }
        }
        self.count_held();
        all
    }

    /// Counts what was not cut, because there was no space for it or nobody to take it.
    pub fn lose(&mut self, reason: LossReason, count: u64) {
        self.counters.input(self.unit, count);
        self.counters.lost(reason, self.unit, count);
    }

    /// What is cut: came in, left in slices, lost, held.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn leave(&mut self, out: &mut Fragments) {
        let Some(mut open) = self.open.pop_front() else { return };
        let slices = open.slices.len();
        let first = out.slices.len();
        out.slices.extend(open.slices.iter().map(|slice| slice.tagged(Slice::CONTINUES)));
        if let Some(last) = out.slices[first..].last_mut() {
            last.tag = 0;
        }
        out.leases.add_all(&open.leases);
        out.fragments.push(Fragment {
            trigger: self.next,
            // Saturates after 106 days.
            ticks: self.next.saturating_mul(self.settings.slice_ps),
            bytes: open.bytes as u32,
            source: self.source,
            slices: slices as u16,
        });
        self.counters.output(self.unit, open.entries);
        open.slices.clear();
        open.leases.clear();
        (open.bytes, open.entries) = (0, 0);
        self.open.push_back(open);
        self.next += 1;
    }

    /// Brings what is held up to date, from the open slices.
    pub(super) fn count_held(&mut self) {
        self.counters.set_held(self.unit, self.open.iter().map(|open| open.entries).sum());
    }

    /// Slices that have left: one fragment each.
    pub fn slices_left(&self) -> u64 {
        self.next
    }
}
