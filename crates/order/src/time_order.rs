//! Time order: batches of single sources in, batches of all sources in one order out.
//!
//! ```text
//!  source 0 ─ batch ─┐                        ┌─ window ─ merge ─┐
//!  source 1 ─ batch ─┼─ push ─ repair ─ held ─┤                  ├─ pull ─► batch, shares
//!  source 2 ─ batch ─┘        │               └─ late ───────────┘
//!       marks ──► watermarks ─┴─► released: every hit before it is here
//! ```
//! A state machine without a clock. Everything is decided in [`TimeOrder::push`], from the batches alone: the same
//! batches, each followed by [`TimeOrder::pull`] until it gives no more, come out the same to the last bit.
//!
//! The order moves on to the lowest *watermark*: the latest hit of a source less its disorder. A source that has
//! ended, or has brought no hit in time for [`Settings::stall_ms`], is not waited for. A hit before what
//! has been *released* is late. So is everything from a board that restarted its clock, until it has caught up: its
//! hits are counted and kept or dropped like any late ones, and the others do not wait for it. A damaged time far in
//! the future does not make everything behind it late: a step of more than ten seconds moves a watermark only
//! when the source's next batch goes on from there.

use std::collections::VecDeque;

use thalweg_data::hit::{Extra, Hit, Signal, Statistics};
use thalweg_data::{Counters, Hits, LossReason, Mark, Noted, SnapshotNumber, SourceId, Unit};

use crate::error::OrderError;
use crate::held::{Queue, RepairBoth, Stock, batch_bytes, count_extras, extra_rows, flag_late};
use crate::settings::{Full, Late, Settings};
use crate::tree::Merger;
use crate::window::{Cut, Window, first_ps};

/// Hits merged at a time: with the runs they come from and a scratch buffer, half of a second-level cache of 1 MiB.
const WINDOW_HITS: usize = 8192;
/// A batch with less room than this is passed on rather than filled by a window that is hardly worth it.
const SMALLEST_WINDOW: usize = 512;
/// Hits that are ready are passed on after this time at the latest.
const LONGEST_WAIT_NS: u64 = 20_000_000;

/// A source that steps on by more than this is believed when its next batch confirms it.
const LARGEST_STEP_PS: i64 = 10_000_000_000_000;

/// Whether a batch was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It was taken; the caller holds an empty batch to fill again. Its counters may be read with
    /// [`TimeOrder::counters`] before the next [`TimeOrder::pull`].
    Taken,
    /// The memory is used up and the batch was not touched. Pull until nothing is left, then push it again.
    Full,
}

/// How the order treats a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The order waits for it.
    Live,
    /// It has been silent, or was the slowest when memory was used up; the order goes on without it until it sends a hit in time.
    PassedOver,
    /// Nothing follows from it.
    Ended,
}

#[derive(Debug)]
struct SourceState {
    standing: Standing,
    disorder_ps: u64,
    /// The latest time that is believed.
    latest_ps: Option<i64>,
    /// A time beyond a step that is still to be confirmed.
    beyond_step_ps: Option<i64>,
    /// When it last brought a hit in time.
    spoke: Option<Mark>,
    times_passed_over: u64,
    /// Hits in the output batch being filled.
    share: u32,
    counters: Counters,
    held_bytes: u64,
}

impl SourceState {
    fn watermark_ps(&self) -> i64 {
        let reach = i64::try_from(self.disorder_ps).unwrap_or(i64::MAX);
        self.latest_ps.map_or(i64::MIN, |latest| latest.saturating_sub(reach))
    }

    /// Moves `latest_ps` on to the last of some sorted hits, or to the last before a step too large to be believed.
    fn see(&mut self, hits: &[Hit]) {
        let (Some(first), Some(last)) = (hits.first(), hits.last()) else { return };
        let expected_ps = self.beyond_step_ps.take().map(|beyond| beyond.saturating_sub(LARGEST_STEP_PS));
        let confirmed = expected_ps.is_some_and(|expected| first.time_ps >= expected);
        let mut reached = self.latest_ps.filter(|_| !confirmed).unwrap_or(first.time_ps);
        if last.time_ps.saturating_sub(reached) <= LARGEST_STEP_PS {
            reached = reached.max(last.time_ps);
        } else {
            for hit in hits {
                if hit.time_ps.saturating_sub(reached) > LARGEST_STEP_PS {
                    self.beyond_step_ps = Some(hit.time_ps);
                    break;
                }
                reached = reached.max(hit.time_ps);
            }
        }
        self.latest_ps = Some(self.latest_ps.map_or(reached, |latest| latest.max(reached)));
    }

    fn pass_over(&mut self) {
        self.standing = Standing::PassedOver;
        self.times_passed_over += 1;
    }
}

/// Puts the hits of several sources into one order: by time, then source, then sequence.
///
/// ```
/// use thalweg_data::{Hit, Hits, SourceId};
/// use thalweg_order::{Settings, TimeOrder};
///
/// # fn main() -> Result<(), thalweg_order::OrderError> {
/// let mut order = TimeOrder::new(&Settings::default(), 2, 1024);
/// let (mut batch, mut merged, mut times) = (Hits::default(), Hits::default(), Vec::new());
/// for (source, own) in [[10, 30], [20, 40]].into_iter().enumerate() {
///     batch.header.source = SourceId(source as u16);
///     batch.header.end = true;
///     batch.hits.extend(own.map(|time_ps| Hit { time_ps, ..Hit::default() }));
///     order.push(&mut batch)?;
///     while order.pull(&mut merged) {
///         times.extend(merged.hits.iter().map(|hit| hit.time_ps));
///     }
/// }
/// assert_eq!(times, [10, 20, 30, 40]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TimeOrder {
    settings: Settings,
    batch_hits: usize,
    sources: Vec<SourceState>,
    /// By source: the hits that wait.
    held: Vec<Queue>,
    /// By source: late hits that go out with the next batch.
    late: Vec<Queue>,
    stock: Stock,
    repair: RepairBoth,
    window: Window,
    hit_merger: Merger<Hit>,
    extra_merger: Merger<Extra>,
    staged_extras: Vec<Extra>,
    staged_bounds: Vec<usize>,
    statistics: Vec<Statistics>,
    signals: Vec<(SourceId, Signal)>,
    markers: VecDeque<(SourceId, Mark, SnapshotNumber)>,
    /// Every hit before it is here, and may go out.
    released_ps: i64,
    released_at: Mark,
    moved_by: (SourceId, Mark),
    pushed_since: usize,
    due: bool,
    end_given: bool,
    newest: Option<(Mark, SourceId)>,
}

impl TimeOrder {
    /// Time order for the sources numbered from 0 to before `sources`, into batches of at most `batch_hits`.
    pub fn new(settings: &Settings, sources: usize, batch_hits: usize) -> TimeOrder {
        let source = || SourceState {
            standing: Standing::Live,
            disorder_ps: settings.disorder_ps,
            latest_ps: None,
            beyond_step_ps: None,
            spoke: None,
            times_passed_over: 0,
            share: 0,
            counters: Counters::default(),
            held_bytes: 0,
        };
        TimeOrder {
            settings: settings.clone(),
            batch_hits: batch_hits.max(1),
            sources: (0..sources).map(|_| source()).collect(),
            held: (0..sources).map(|_| Queue::default()).collect(),
            late: (0..sources).map(|_| Queue::default()).collect(),
            stock: Stock::default(),
            repair: RepairBoth::default(),
            window: Window::default(),
            hit_merger: Merger::default(),
            extra_merger: Merger::default(),
            staged_extras: Vec::new(),
            staged_bounds: Vec::new(),
            statistics: Vec::new(),
            signals: Vec::new(),
            markers: VecDeque::new(),
            released_ps: i64::MIN,
            released_at: Mark(0),
            moved_by: (SourceId(0), Mark(0)),
            pushed_since: 0,
            due: false,
            end_given: false,
            newest: None,
        }
    }

    /// States how far back inside one source a hit may lie, instead of [`Settings::disorder_ps`].
    ///
    /// # Panics
    /// When the source was not announced.
    pub fn set_disorder_ps(&mut self, source: SourceId, disorder_ps: u64) {
        self.sources[source.index()].disorder_ps = disorder_ps;
    }

    /// Takes in one batch of one source, in the order of the marks, then of the sources. The batch comes back
    /// empty, with a buffer of the same kind to be filled again.
    ///
    /// # Errors
    /// When the caller has broken the order of the marks, or names a source that is unknown or has ended. The batch
    /// is not touched.
    pub fn push(&mut self, batch: &mut Hits) -> Result<Pushed, OrderError> {
        let header = batch.header;
        self.check(header.source, header.mark)?;
        let fits = self.fits(batch);
        if !fits && self.make_room() {
            return Ok(Pushed::Full);
        }
        self.newest = Some((header.mark, header.source));
        self.pushed_since += batch.hits.len();
        self.statistics.append(&mut batch.statistics);
        self.signals.append(&mut batch.signals);
        let source = &mut self.sources[header.source.index()];
        source.spoke.get_or_insert(header.mark);
        source.counters.input(Unit::Hits, batch.hits.len() as u64);
        if !batch.hits.is_empty() {
            self.take_in(batch, fits);
        }
        batch.clear();
        if header.end {
            self.sources[header.source.index()].standing = Standing::Ended;
        }
        self.pass_over_silent(header.mark);
        self.release(header.source, header.mark, header.end);
        self.count_held(header.source.index());
        if let Some(number) = header.snapshot {
            self.markers.push_back((header.source, header.mark, number));
        }
        Ok(Pushed::Taken)
    }

    fn check(&self, source_id: SourceId, mark: Mark) -> Result<(), OrderError> {
        let Some(source) = self.sources.get(source_id.index()) else {
            return Err(OrderError::UnknownSource { source_id, sources: self.sources.len() });
        };
        if let Some((before, before_source)) = self.newest.filter(|newest| *newest > (mark, source_id)) {
            return Err(OrderError::MarkWentBack { source_id, mark, before_source, before });
        }
        if source.standing == Standing::Ended {
            return Err(OrderError::AfterEnd { source_id });
        }
        Ok(())
    }

    fn fits(&self, batch: &Hits) -> bool {
        batch.hits.is_empty() || self.held_bytes() + batch_bytes(batch) <= self.settings.memory_bytes
    }

    /// The memory is used up: whether there is something to pull first, perhaps because sources were passed over
    /// just now. When not, what is held cannot be the reason, or the policy is to drop.
    fn make_room(&mut self) -> bool {
        if self.due && self.has_ready() {
            return true;
        }
        if self.settings.full == Full::Drop {
            return false;
        }
        loop {
            self.released_ps = self.released_ps.max(self.frontier_ps());
            self.due = true;
            if self.has_ready() {
                return true;
            }
            let live = self.sources.iter_mut().filter(|source| source.standing == Standing::Live);
            match live.min_by_key(|source| source.watermark_ps()) {
                Some(slowest) => slowest.pass_over(),
                None => return false,
            }
        }
    }

    fn has_ready(&self) -> bool {
        let ready = |queue| first_ps(queue).is_some_and(|first| first < self.released_ps);
        self.held.iter().any(ready) || self.late.iter().any(|queue| first_ps(queue).is_some())
    }

    /// Sorts a batch that is not empty, and splits off what is late.
    fn take_in(&mut self, batch: &mut Hits, fits: bool) {
        let (id, mark) = (batch.header.source, batch.header.mark);
        debug_assert_eq!(count_extras(&batch.hits), batch.extras.len(), "every extra belongs to a hit");
        self.repair.repair(batch);
        let source = &mut self.sources[id.index()];
        let late = batch.hits.partition_point(|hit| hit.time_ps < self.released_ps);
        if late < batch.hits.len() {
            source.spoke = Some(mark);
            source.standing = Standing::Live;
            source.see(&batch.hits[late..]);
        }
        if !fits {
            source.counters.lost(LossReason::OverBudget, Unit::Hits, batch.hits.len() as u64);
            return;
        }
        let late_extras = if late > 0 { count_extras(&batch.hits[..late]) } else { 0 };
        match self.settings.late {
            Late::Drop => source.counters.lost(LossReason::Late, Unit::Hits, late as u64),
            Late::Keep => {
                source.counters.noted(Noted::Late, Unit::Hits, late as u64);
                flag_late(&mut batch.hits[..late]);
                let rows = extra_rows(batch, late_extras);
                self.late[id.index()].push_copy(&batch.hits[..late], rows, self.batch_hits, &mut self.stock);
            }
        }
        self.held[id.index()].push(batch, (late, late_extras), &mut self.repair, &mut self.stock);
    }

    fn pass_over_silent(&mut self, now: Mark) {
        let patience_ns = self.settings.stall_ms.saturating_mul(1_000_000);
        for source in self.sources.iter_mut().filter(|source| source.standing == Standing::Live) {
            let spoke = *source.spoke.get_or_insert(now);
            if now.since_ns(spoke) > patience_ns {
                source.pass_over();
            }
        }
    }

    /// The time before which every hit is here: the lowest watermark; when no source is waited for, the end of what has
    /// been seen; when all have ended, the end of time.
    fn frontier_ps(&self) -> i64 {
        let live = self.sources.iter().filter(|source| source.standing == Standing::Live);
        live.map(SourceState::watermark_ps).min().unwrap_or_else(|| {
            if self.all_ended() {
                return i64::MAX;
            }
            let latest = self.sources.iter().filter_map(|source| source.latest_ps).max();
            latest.map_or(i64::MIN, |latest| latest.saturating_add(1))
        })
    }

    fn all_ended(&self) -> bool {
        self.sources.iter().all(|source| source.standing == Standing::Ended)
    }

    /// Lets the order move on when that is worth a batch, or has waited long enough.
    fn release(&mut self, source: SourceId, mark: Mark, at_once: bool) {
        let worthwhile = self.pushed_since >= self.batch_hits / 2;
        if worthwhile || at_once || mark.since_ns(self.released_at) >= LONGEST_WAIT_NS {
            self.released_ps = self.released_ps.max(self.frontier_ps());
            self.released_at = mark;
            self.moved_by = (source, mark);
            self.pushed_since = 0;
            self.due = true;
        }
    }

    /// Fills `out` with what comes next in the order. Returns whether there is something to pass on; call until
    /// there is not, after every push.
    ///
    /// A batch with `header.snapshot` holds nothing else: what its source's hits went through before it and after it is on
    /// either side. One with `header.end` is the last. Hits flagged [`LATE`](thalweg_data::Flags::LATE) are out of
    /// order; all others are in order within the batch and from batch to batch.
    pub fn pull(&mut self, out: &mut Hits) -> bool {
        out.clear();
        if let Some((source, mark, number)) = self.markers.pop_front() {
            (out.header.source, out.header.mark, out.header.snapshot) = (source, mark, Some(number));
            return true;
        }
        if !self.due {
            return false;
        }
        (out.header.source, out.header.mark) = self.moved_by;
        out.statistics.append(&mut self.statistics);
        out.signals.append(&mut self.signals);
        out.hits.reserve(self.batch_hits);
        self.emit_late(out);
        self.emit_windows(out);
        self.settle(out);
        if !out.is_empty() {
            return true;
        }
        self.due = false;
        let ended = self.all_ended();
        out.header.end = ended && !std::mem::replace(&mut self.end_given, ended);
        out.header.end
    }

    fn emit_late(&mut self, out: &mut Hits) {
        for (queue, source) in self.late.iter_mut().zip(&mut self.sources) {
            for index in 0..queue.runs().len() {
                let room = self.batch_hits - out.hits.len();
                source.share += queue.move_out(index, room, out);
            }
            queue.drop_empty(&mut self.stock);
        }
    }

    fn emit_windows(&mut self, out: &mut Hits) {
        while out.hits.is_empty() || out.hits.len() + SMALLEST_WINDOW <= self.batch_hits {
            let room = self.batch_hits - out.hits.len();
            match self.window.cut(&self.held, self.released_ps, room.min(WINDOW_HITS)) {
                Cut::Nothing => break,
                Cut::Merge => self.emit_merge(out),
                Cut::Ties(time_ps) => self.emit_ties(time_ps, room, out),
            }
            for queue in &mut self.held {
                queue.drop_empty(&mut self.stock);
            }
        }
    }

    fn emit_merge(&mut self, out: &mut Hits) {
        let parts = self.window.parts();
        let held = &self.held;
        let hits = |index: usize| {
            let part = &parts[index];
            &held[part.source].runs()[part.run].hits()[..part.length]
        };
        self.hit_merger.merge(parts.len(), hits, &mut out.hits);
        self.staged_extras.clear();
        self.staged_bounds.clear();
        self.staged_bounds.push(0);
        for part in parts {
            let run = self.held[part.source].run_mut(part.run);
            let extras = run.extras_of(part.length);
            run.extra_rows(extras).append_to(&mut self.staged_extras, &mut out.slices, &mut out.leases);
            self.staged_bounds.push(self.staged_extras.len());
            run.advance(part.length, extras);
            self.sources[part.source].share += part.length as u32;
        }
        if !self.staged_extras.is_empty() {
            let (bounds, staged) = (&self.staged_bounds, &self.staged_extras);
            let extras = |index: usize| &staged[bounds[index]..bounds[index + 1]];
            self.extra_merger.merge(parts.len(), extras, &mut out.extras);
        }
    }

    /// Moves out hits of one time, as many as there is room for: source by source, each as they came.
    fn emit_ties(&mut self, time_ps: i64, room: usize, out: &mut Hits) {
        let full = out.hits.len() + room;
        for (queue, source) in self.held.iter_mut().zip(&mut self.sources) {
            for index in 0..queue.runs().len() {
                let ties = queue.runs()[index].hits().partition_point(|hit| hit.time_ps <= time_ps);
                source.share += queue.move_out(index, ties.min(full - out.hits.len()), out);
            }
        }
    }

    /// Enters the shares of the batch, by source, and updates what is held.
    fn settle(&mut self, out: &mut Hits) {
        for index in 0..self.sources.len() {
            let hits = std::mem::take(&mut self.sources[index].share);
            if hits > 0 {
                out.shares.push(thalweg_data::batch::Share { source: SourceId(index as u16), hits });
                self.sources[index].counters.output(Unit::Hits, u64::from(hits));
                self.count_held(index);
            }
        }
    }

    fn count_held(&mut self, index: usize) {
        let (source, queues) = (&mut self.sources[index], [&self.held[index], &self.late[index]]);
        source.counters.set_held(Unit::Hits, queues.iter().map(|queue| queue.count()).sum());
        source.held_bytes = queues.iter().map(|queue| queue.bytes()).sum();
    }

    /// The counters of one source's hits: in = out + lost + held at any time between calls; late hits that were kept, flagged
    /// [`LATE`](thalweg_data::Flags::LATE), are noted. For the counters of a snapshot,
    /// read it after the push that brought the marker and before the next pull.
    ///
    /// # Panics
    /// When the source was not announced.
    pub fn counters(&self, source: SourceId) -> &Counters {
        &self.sources[source.index()].counters
    }

    /// Whether a source is waited for.
    ///
    /// # Panics
    /// When the source was not announced.
    pub fn standing(&self, source: SourceId) -> Standing {
        self.sources[source.index()].standing
    }

    /// How often a source was passed over, since the start.
    ///
    /// # Panics
    /// When the source was not announced.
    pub fn times_passed_over(&self, source: SourceId) -> u64 {
        self.sources[source.index()].times_passed_over
    }

    /// Bytes of the hits that wait, with their extras.
    pub fn held_bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.held_bytes).sum()
    }

    /// The mark of the newest batch taken: the time that has passed, for the stages behind.
    pub fn mark(&self) -> Mark {
        self.newest.map_or(Mark(0), |(mark, _)| mark)
    }

    /// Every hit before this time has been passed on or is ready; a hit that comes in before it is late.
    pub fn released_ps(&self) -> i64 {
        self.released_ps
    }
}
