//! Time order: takes batches of single sources, and returns batches of all sources in one order.
//!
//! ```text
//!  source 0 ─ batch ─┐                        ┌─ window ─ merge ─┐
//!  source 1 ─ batch ─┼─ push ─ repair ─ held ─┤                  ├─ pull ─► batch, shares
//!  source 2 ─ batch ─┘        │               └─ late ───────────┘
//!       marks ──► watermarks ─┴─► released: all earlier hits have arrived
//! ```
//! This is a state machine without a clock. [`TimeOrder::push`] decides everything, from the batches alone: the same
//! batches, each followed by [`TimeOrder::pull`] until it returns `false`, give the same output to the last bit.
//!
//! The order advances to the lowest *watermark*: the time of the latest hit of a source minus its disorder. It does not
//! wait for a source that has ended, or that has sent no hit in time for [`Settings::stall_ms`]. For a source that came
//! back so, but later than the others, it stays behind the newest hit by twice its *lag*, as long as the source is silent
//! again: else a source with rare hits would never be in time. The lag shrinks with each return that needs less, and
//! when the memory does not hold so much. A hit before the *released* time is late. So are all hits of a board that has
//! restarted its clock, until it has caught up: they are counted and kept or dropped like other late hits, and the other
//! sources do not wait for that board. A damaged time far in the future does not make all following hits late: a step of
//! more than ten seconds moves a watermark only if the next batch of the source confirms it.

use std::collections::VecDeque;

use thalweg_data::hit::{Extra, Hit, Signal, Statistics};
use thalweg_data::{Counters, Hits, Leases, LossReason, Mark, Noted, SnapshotNumber, SourceId, Unit};

use crate::error::OrderError;
use crate::held::{FreeRuns, Queue, RepairBoth, batch_bytes, count_extras, extra_rows, flag_late};
use crate::settings::{Full, Late, Settings};
use crate::tree::Merger;
use crate::window::{NextWindow, Window, first_ps};

/// Most hits of one merge: with their runs and a scratch buffer, they use half of a second-level cache of 1 MiB.
const WINDOW_HITS: usize = 8192;
/// An output batch with less free capacity than this is passed on: a smaller window is not worth its cost.
const SMALLEST_WINDOW: usize = 512;
/// The order advances after this time at the latest.
const LONGEST_WAIT_NS: u64 = 20_000_000;

/// A step of a source's time by more than this must be confirmed by its next batch.
const LARGEST_STEP_PS: i64 = 10_000_000_000_000;
/// A source's lag is smaller by this fraction after each silence that needed less.
const LAG_DECAY: i64 = 8;

fn ps_of(ns: u64) -> i64 {
    i64::try_from(ns.saturating_mul(1000)).unwrap_or(i64::MAX)
}

/// Whether time order has taken a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// The batch was taken and is now empty. [`TimeOrder::counters`] includes it, before the next [`TimeOrder::pull`].
    Taken,
    /// The memory is used up and the batch is unchanged. Pull until nothing is left, then push it again.
    Full,
}

/// Whether the order waits for a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The order waits for the source.
    Live,
    /// The source was silent for too long, or was the slowest when memory was used up; the order does not wait for it
    /// until it sends a hit in time.
    PassedOver,
    /// The source has sent its last batch.
    Ended,
}

#[derive(Debug)]
struct SourceState {
    standing: Standing,
    disorder_ps: u64,
    /// The latest time, without unconfirmed steps.
    latest_ps: Option<i64>,
    /// The time after a step that is not confirmed yet.
    beyond_step_ps: Option<i64>,
    /// The mark of its last batch with a hit in time.
    last_in_time: Option<Mark>,
    times_passed_over: u64,
    /// How far its hits were behind the newest, at most, when they came although the order did not wait for it.
    lag_ps: i64,
    /// The same since it was passed over for the last time.
    newest_lag_ps: i64,
    /// Number of its hits in the output batch that is being filled.
    output_hits: u32,
    counters: Counters,
    held_bytes: u64,
}

impl SourceState {
    fn watermark_ps(&self) -> i64 {
        let reach = i64::try_from(self.disorder_ps).unwrap_or(i64::MAX);
        self.latest_ps.map_or(i64::MIN, |latest| latest.saturating_sub(reach))
    }

    /// Advances `latest_ps` to the last of some sorted hits, or to the last one before an unconfirmed step.
    fn advance_latest(&mut self, hits: &[Hit]) {
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
        // One slow return must not delay the order for the rest of the run.
        self.lag_ps = self.newest_lag_ps.max(self.lag_ps - self.lag_ps / LAG_DECAY);
        self.newest_lag_ps = 0;
    }
}

/// Merges the hits of several sources into one order: by time, then source, then sequence within the source.
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
    /// By source: pending hits.
    held: Vec<Queue>,
    /// By source: late hits for the next output batch.
    late: Vec<Queue>,
    free_runs: FreeRuns,
    repair: RepairBoth,
    window: Window,
    hit_merger: Merger<Hit>,
    extra_merger: Merger<Extra>,
    staged_extras: Vec<Extra>,
    /// Leases of a run while it lets go of others.
    kept_leases: Leases,
    staged_bounds: Vec<usize>,
    statistics: Vec<Statistics>,
    signals: Vec<(SourceId, Signal)>,
    markers: VecDeque<(SourceId, Mark, SnapshotNumber)>,
    /// All hits before this time have arrived and can be passed on.
    released_ps: i64,
    released_at: Mark,
    moved_by: (SourceId, Mark),
    pushed_since: usize,
    due: bool,
    end_passed: bool,
    newest: Option<(Mark, SourceId)>,
    /// The latest time of all sources, without unconfirmed steps, and the mark at which it came.
    newest_hit: Option<(i64, Mark)>,
}

impl TimeOrder {
    /// Creates time order for the sources `0..sources`, with output batches of at most `batch_hits` hits.
    pub fn new(settings: &Settings, sources: usize, batch_hits: usize) -> TimeOrder {
        let source = || SourceState {
            standing: Standing::Live,
            disorder_ps: settings.disorder_ps,
            latest_ps: None,
            beyond_step_ps: None,
            last_in_time: None,
            times_passed_over: 0,
            lag_ps: 0,
            newest_lag_ps: 0,
            output_hits: 0,
            counters: Counters::default(),
            held_bytes: 0,
        };
        TimeOrder {
            settings: settings.clone(),
            batch_hits: batch_hits.max(1),
            sources: (0..sources).map(|_| source()).collect(),
            held: (0..sources).map(|_| Queue::default()).collect(),
            late: (0..sources).map(|_| Queue::default()).collect(),
            free_runs: FreeRuns::default(),
            repair: RepairBoth::default(),
            window: Window::default(),
            hit_merger: Merger::default(),
            extra_merger: Merger::default(),
            staged_extras: Vec::new(),
            kept_leases: Leases::default(),
            staged_bounds: Vec::new(),
            statistics: Vec::new(),
            signals: Vec::new(),
            markers: VecDeque::new(),
            released_ps: i64::MIN,
            released_at: Mark(0),
            moved_by: (SourceId(0), Mark(0)),
            pushed_since: 0,
            due: false,
            end_passed: false,
            newest: None,
            newest_hit: None,
        }
    }

    /// Sets by how many picoseconds a hit of this source may be earlier than its latest, instead of
    /// [`Settings::disorder_ps`].
    ///
    /// # Panics
    /// When the source is unknown.
    pub fn set_disorder_ps(&mut self, source: SourceId, disorder_ps: u64) {
        self.sources[source.index()].disorder_ps = disorder_ps;
    }

    /// Takes one batch of one source, in the order of the marks, then of the sources. The batch comes back empty, with
    /// a buffer of similar size.
    ///
    /// # Errors
    /// When the batch is not in the order of the marks, or its source is unknown or has ended. The batch is
    /// unchanged.
    pub fn push(&mut self, batch: &mut Hits) -> Result<Pushed, OrderError> {
        let header = batch.header;
        self.check(header.source, header.mark)?;
        let fits = self.fits(batch);
        if !fits && self.release_for_memory(header.mark) {
            return Ok(Pushed::Full);
        }
        self.newest = Some((header.mark, header.source));
        self.pushed_since += batch.hits.len();
        self.statistics.append(&mut batch.statistics);
        self.signals.append(&mut batch.signals);
        let source = &mut self.sources[header.source.index()];
        source.last_in_time.get_or_insert(header.mark);
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

    /// Called when the memory is used up: returns whether hits can be pulled to free some, for which it stays less far
    /// behind for silent sources, and may pass over others. If not, nothing is held, or the policy is to drop the batch.
    fn release_for_memory(&mut self, now: Mark) -> bool {
        if self.due && self.has_ready() {
            return true;
        }
        loop {
            self.released_ps = self.released_ps.max(self.frontier_ps(now));
            self.due = true;
            if self.has_ready() {
                return true;
            }
            // Those just passed over are silent, too: else sources that are not slow are passed over in their place.
            if self.frontier_ps(now) < self.watermark_ps() {
                self.halve_lags();
                continue;
            }
            if self.settings.full == Full::Drop {
                return false;
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

    /// Sorts a batch that is not empty, and separates late hits.
    fn take_in(&mut self, batch: &mut Hits, fits: bool) {
        let (id, mark) = (batch.header.source, batch.header.mark);
        debug_assert_eq!(count_extras(&batch.hits), batch.extras.len(), "every extra belongs to a hit");
        self.repair.repair(batch);
        self.measure_lag(id, mark, batch.hits[0].time_ps);
        let source = &mut self.sources[id.index()];
        let late = batch.hits.partition_point(|hit| hit.time_ps < self.released_ps);
        if late < batch.hits.len() {
            source.last_in_time = Some(mark);
            source.standing = Standing::Live;
            source.advance_latest(&batch.hits[late..]);
            let latest_ps = source.latest_ps.unwrap_or(i64::MIN);
            if self.newest_hit.is_none_or(|(newest_ps, _)| latest_ps > newest_ps) {
                self.newest_hit = Some((latest_ps, mark));
            }
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
                self.late[id.index()].push_copy(
                    &batch.hits[..late],
                    rows,
                    self.batch_hits,
                    &mut self.free_runs,
                );
            }
        }
        self.held[id.index()].push(batch, (late, late_extras), &mut self.repair, &mut self.free_runs);
    }

    fn pass_over_silent(&mut self, now: Mark) {
        let stall_ns = self.settings.stall_ms.saturating_mul(1_000_000);
        for source in self.sources.iter_mut().filter(|source| source.standing == Standing::Live) {
            let last_in_time = *source.last_in_time.get_or_insert(now);
            if now.since_ns(last_in_time) > stall_ns {
                source.pass_over();
            }
        }
    }

    /// A source that was passed over sends hits from `first_ps` on. Who is behind for longer than a silent source is waited
    /// for, has restarted its clock.
    fn measure_lag(&mut self, id: SourceId, now: Mark, first_ps: i64) {
        let Some(now_ps) = self.expected_ps(now) else { return };
        let longest_ps = self.stall_ps();
        let (source, lag_ps) = (&mut self.sources[id.index()], now_ps.saturating_sub(first_ps));
        if source.standing == Standing::PassedOver && lag_ps <= longest_ps {
            source.lag_ps = source.lag_ps.max(lag_ps);
            source.newest_lag_ps = source.newest_lag_ps.max(lag_ps);
        }
    }

    /// How far the order stays behind the newest hit for silent sources; 0 if for none.
    fn behind_ps(&self) -> i64 {
        let silent = self.sources.iter().filter(|source| source.standing == Standing::PassedOver);
        let lag_ps = silent.map(|source| source.lag_ps).max().unwrap_or(0);
        lag_ps.saturating_mul(2).min(self.stall_ps())
    }

    /// Stays behind for silent sources half as far, until they come back later than that: the memory does not hold so
    /// much.
    fn halve_lags(&mut self) {
        let silent = self.sources.iter_mut().filter(|source| source.standing == Standing::PassedOver);
        silent.for_each(|source| {
            source.lag_ps /= 2;
            source.newest_lag_ps /= 2;
        });
    }

    fn stall_ps(&self) -> i64 {
        ps_of(self.settings.stall_ms.saturating_mul(1_000_000))
    }

    /// The time of hits that would come now as soon as the newest one did.
    fn expected_ps(&self, now: Mark) -> Option<i64> {
        let (newest_ps, came) = self.newest_hit?;
        Some(newest_ps.saturating_add(ps_of(now.since_ns(came))))
    }

    /// The time before which all hits have arrived, but for what silent sources were seen to need.
    fn frontier_ps(&self, now: Mark) -> i64 {
        match (self.behind_ps(), self.expected_ps(now)) {
            (behind_ps @ 1.., Some(now_ps)) => self.watermark_ps().min(now_ps.saturating_sub(behind_ps)),
            _ => self.watermark_ps(),
        }
    }

    /// The lowest watermark of the live sources; without live sources, the time behind the latest hit; after the end of
    /// all sources, the largest time.
    fn watermark_ps(&self) -> i64 {
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

    /// Advances the order if there is enough for a batch, or if the last advance was long ago.
    fn release(&mut self, source: SourceId, mark: Mark, at_once: bool) {
        let worthwhile = self.pushed_since >= self.batch_hits / 2;
        if worthwhile || at_once || mark.since_ns(self.released_at) >= LONGEST_WAIT_NS {
            self.released_ps = self.released_ps.max(self.frontier_ps(mark));
            self.released_at = mark;
            self.moved_by = (source, mark);
            self.pushed_since = 0;
            self.due = true;
        }
    }

    /// Fills `out` with the next hits of the order. Returns whether `out` is to be passed on. Call it after every push
    /// until it returns `false`.
    ///
    /// A batch with `header.snapshot` is a marker without hits; it divides what was pushed before it from what was pushed
    /// after it. A batch with `header.end` is the last. Hits flagged [`LATE`](thalweg_data::Flags::LATE) are out of
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
        self.count_output(out);
        if !out.is_empty() {
            return true;
        }
        self.due = false;
        for queue in self.held.iter_mut().chain(&mut self.late) {
            queue.let_go(&mut self.kept_leases);
        }
        let ended = self.all_ended();
        out.header.end = ended && !std::mem::replace(&mut self.end_passed, ended);
        out.header.end
    }

    fn emit_late(&mut self, out: &mut Hits) {
        for (queue, source) in self.late.iter_mut().zip(&mut self.sources) {
            for index in 0..queue.runs().len() {
                let free = self.batch_hits - out.hits.len();
                source.output_hits += queue.move_out(index, free, out);
            }
            queue.drop_empty(&mut self.free_runs);
        }
    }

    fn emit_windows(&mut self, out: &mut Hits) {
        while out.hits.is_empty() || out.hits.len() + SMALLEST_WINDOW <= self.batch_hits {
            let free = self.batch_hits - out.hits.len();
            match self.window.choose(&self.held, self.released_ps, free.min(WINDOW_HITS)) {
                NextWindow::Empty => break,
                NextWindow::Merge => self.emit_merge(out),
                NextWindow::Ties(time_ps) => self.emit_ties(time_ps, free, out),
            }
            for queue in &mut self.held {
                queue.drop_empty(&mut self.free_runs);
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
            self.sources[part.source].output_hits += part.length as u32;
        }
        if !self.staged_extras.is_empty() {
            let (bounds, staged) = (&self.staged_bounds, &self.staged_extras);
            let extras = |index: usize| &staged[bounds[index]..bounds[index + 1]];
            self.extra_merger.merge(parts.len(), extras, &mut out.extras);
        }
    }

    /// Moves at most `free` hits of one time to `out`: source by source, each in the order of arrival.
    fn emit_ties(&mut self, time_ps: i64, free: usize, out: &mut Hits) {
        let full = out.hits.len() + free;
        for (queue, source) in self.held.iter_mut().zip(&mut self.sources) {
            for index in 0..queue.runs().len() {
                let ties = queue.runs()[index].hits().partition_point(|hit| hit.time_ps <= time_ps);
                source.output_hits += queue.move_out(index, ties.min(full - out.hits.len()), out);
            }
        }
    }

    /// Counts the hits of the output batch by source, and those that remain here.
    fn count_output(&mut self, out: &mut Hits) {
        for index in 0..self.sources.len() {
            let hits = std::mem::take(&mut self.sources[index].output_hits);
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

    /// Counters of one source's hits. Between calls, in = out + lost + held always holds; late hits that were kept,
    /// flagged [`LATE`](thalweg_data::Flags::LATE), are noted. For a snapshot, read the counters after the push of the
    /// marker and before the next pull.
    ///
    /// # Panics
    /// When the source is unknown.
    pub fn counters(&self, source: SourceId) -> &Counters {
        &self.sources[source.index()].counters
    }

    /// Whether the order waits for a source.
    ///
    /// # Panics
    /// When the source is unknown.
    pub fn standing(&self, source: SourceId) -> Standing {
        self.sources[source.index()].standing
    }

    /// How often a source was passed over since the start.
    ///
    /// # Panics
    /// When the source is unknown.
    pub fn times_passed_over(&self, source: SourceId) -> u64 {
        self.sources[source.index()].times_passed_over
    }

    /// Bytes of the pending hits, with their extras.
    pub fn held_bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.held_bytes).sum()
    }

    /// The mark of the newest batch: the current time for the stages behind.
    pub fn mark(&self) -> Mark {
        self.newest.map_or(Mark(0), |(mark, _)| mark)
    }

    /// All hits before this time have been passed on or can be; an incoming hit before it is late.
    pub fn released_ps(&self) -> i64 {
        self.released_ps
    }
}
