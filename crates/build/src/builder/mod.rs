//! All fragments of one trigger, out of what many sources send: pure, without a clock, in memory fixed at the start.
//!
//! ```text
//!  Fragments ─ insert ─► column of its source, row of its trigger ─┐ complete, of age, or in the way
//!                │                                                 └─ choose ─► gather ─► Events
//!                ├─► deferred: too early                                          row by row, column by column
//!                └─► counted: late, doubled, out of the window, of an unknown source, of another run
//! ```
//! Nothing is copied but 32 bytes per fragment; payload stays in the blocks where it was received. Whoever feeds a builder
//! does so until it takes no more, then pulls, and offers the rest again:
//!
//! ```
//! use thalweg_build::{Builder, Settings};
//! use thalweg_data::{Events, Fragments, SourceId};
//!
//! let mut builder = Builder::new(&Settings::default(), 0..2)?;
//! builder.start_run(1);
//! let (batch, mut events, mut taken) = (Fragments::default(), Events::default(), 0);
//! loop {
//!     taken += builder.insert_from(&batch, taken);
//!     while builder.pull(&mut events, 64) {
//!         events.clear(); // after they were written
//!     }
//!     if taken == batch.fragments.len() || !builder.wants(SourceId(0)) {
//!         break; // a stream waits with the rest and is not read meanwhile; of datagrams it is refused
//!     }
//! }
//! # Ok::<(), thalweg_build::BuildError>(())
//! ```

mod blocks;
mod budget;
mod chains;
mod choose;
mod columns;
mod counters;
mod deferred;
mod dumps;
mod gather;
mod insert;
mod review_deferred;
mod rows;
pub mod settings;
mod statistics;
#[cfg(test)]
mod tests;
mod window;

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use thalweg_data::{Closing, Counters, Events, LossReason, Mark, Noted, SourceId, Unit};

pub use budget::Budget;
pub use dumps::Dump;
pub use statistics::Histogram;

use crate::error::BuildError;
use blocks::Blocks;
use chains::Chains;
use choose::Chosen;
use columns::Columns;
use counters::{BuilderCounters, Source, index_of};
use deferred::DeferredFragments;
use dumps::Dumps;
use gather::Cursor;
use rows::Rows;
use settings::{Incomplete, Settings};
use window::{Lead, Stray};

/// Events gathered at a time: their rows' entries are neighbours in every column.
const CHUNK: usize = 16;

/// Where a builder stands in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No run: nothing is taken.
    Idle,
    /// A run, of which no two sources have said where its numbers begin.
    Beginning,
    /// A run.
    Running,
    /// The run is over; what is here leaves.
    Ending,
}

/// Why a run has to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The event that was incomplete.
    pub trigger: u64,
    /// Who had not answered.
    pub missing: Vec<SourceId>,
}

/// Where a builder stands, for the live state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// First trigger that has not left.
    pub base: u64,
    /// Triggers from that one to the latest that anybody has answered.
    pub span: u64,
    /// Of these, triggers with fragments that wait.
    pub open_events: usize,
    /// Fragments that came too early and are deferred.
    pub deferred: usize,
    /// Payload that waits, in bytes.
    pub held_bytes: u64,
    /// Blocks that the payload keeps from their pools.
    pub blocks: usize,
}

/// Builds events by trigger number.
pub struct Builder {
    settings: Settings,
    first_source: SourceId,
    phase: Phase,
    run: u32,
    now: Mark,
    busy: bool,
    stop: Option<Stop>,
    sources: Vec<Source>,
    ended: usize,
    columns: Columns,
    rows: Rows,
    /// Numbers from the base on that are taken as they come in.
    capacity: u64,
    lead: Lead,
    /// Numbers that were not taken, by source.
    strays: Vec<Stray>,
    /// What is deferred can be taken once the base is here.
    pressure: u64,
    blocks: Blocks,
    chains: Chains,
    deferred: DeferredFragments,
    /// A fragment of several slices was not taken because there was no link for them.
    short_of_links: bool,
    /// Something was deferred that is too far ahead of the others, and not yet compared with theirs.
    jumped: bool,
    /// What is deferred is to be looked at again: the room has moved, or there is more of it.
    unsettled: bool,
    /// When the first of what was deferred far away is given up.
    given_up_ns: u64,
    /// Incomplete events before this one leave now: their blocks are needed.
    forced: u64,
    /// The run is being stopped: an incomplete event does not stop it once more.
    stopping: bool,
    /// Complete triggers, where they need not leave in order.
    ready: VecDeque<u64>,
    chosen: Vec<Chosen>,
    cursors: Vec<Cursor>,
    counters: BuilderCounters,
    held_bytes: u64,
    bytes_per_source: u64,
    dumps: Dumps,
    closings: [u64; Closing::ALL.len()],
    event_bytes: Histogram,
    build_ns: Histogram,
}

impl Builder {
    /// A builder for these sources, numbered one after another. All its memory is allocated here; see [`Budget`].
    ///
    /// # Errors
    /// When the settings cannot be, or there is no source.
    pub fn new(settings: &Settings, sources: Range<u16>) -> Result<Builder, BuildError> {
        settings.check()?;
        let count = sources.len();
        if !(1..=Settings::MOST_SOURCES).contains(&count) {
            return Err(BuildError::Sources { sources: count, most: Settings::MOST_SOURCES });
        }
        let bits = settings.trigger_bits;
        let source =
            Source { largest: settings::largest_number(bits), shift: (64 - bits) as u8, ..Source::default() };
        Ok(Builder {
            settings: settings.clone(),
            first_source: SourceId(sources.start),
            phase: Phase::Idle,
            run: 0,
            now: Mark(0),
            busy: false,
            stop: None,
            sources: vec![source; count],
            ended: 0,
            columns: Columns::new(count, settings.depth),
            rows: Rows::new(settings.depth),
            capacity: 0,
            lead: Lead::default(),
            strays: vec![Stray::default(); count],
            pressure: 0,
            short_of_links: false,
            blocks: Blocks::new(),
            chains: Chains::new(settings.chained_slices_of(count)),
            deferred: DeferredFragments::new(count, settings.depth),
            jumped: false,
            unsettled: false,
            given_up_ns: u64::MAX,
            forced: 0,
            stopping: false,
            ready: VecDeque::with_capacity(settings.depth),
            chosen: Vec::with_capacity(CHUNK),
            cursors: Vec::with_capacity(CHUNK),
            counters: BuilderCounters::new(count),
            held_bytes: 0,
            bytes_per_source: settings.bytes_per_source(count),
            dumps: Dumps::new(),
            closings: [0; Closing::ALL.len()],
            event_bytes: Histogram::default(),
            build_ns: Histogram::default(),
        })
    }

    /// States that one source's trigger numbers have another width than the rest: a SiTCP board of 16 bits among others.
    ///
    /// # Errors
    /// When the window is too deep for that width.
    pub fn set_trigger_bits(&mut self, source: SourceId, bits: u32) -> Result<(), BuildError> {
        settings::check_bits(self.settings.depth, bits)?;
        if let Some(source) = self.sources.get_mut(index_of(source, self.first_source)) {
            (source.largest, source.shift) = (settings::largest_number(bits), (64 - bits) as u8);
        }
        Ok(())
    }

    /// Begins a run: trigger numbers, counts and marks begin anew. What still waits of the run before is let go, so pull
    /// first; it is in that run's counters as held.
    pub fn start_run(&mut self, run: u32) {
        self.blocks = Blocks::new();
        self.chains.clear();
        self.deferred.clear();
        self.columns.clear();
        self.counters.clear();
        self.dumps.clear();
        self.closings.fill(0);
        self.event_bytes.clear();
        self.build_ns.clear();
        self.ready.clear();
        for source in &mut self.sources {
            let Source { largest, shift, .. } = *source;
            *source = Source { largest, shift, ..Source::default() };
        }
        (self.run, self.now, self.busy, self.stop) = (run, Mark(0), false, None);
        (self.jumped, self.unsettled, self.short_of_links, self.given_up_ns) =
            (false, false, false, u64::MAX);
        (self.ended, self.held_bytes, self.lead, self.pressure) = (0, 0, Lead::default(), 0);
        self.rows.start(0);
        (self.capacity, self.forced, self.stopping) = (0, 0, false);
        self.phase = Phase::Beginning;
        if let Some(first) = self.settings.first_trigger {
            self.begin_at(first);
        }
    }

    fn begin_at(&mut self, base: u64) {
        self.rows.start(base);
        self.phase = Phase::Running;
        self.update_room();
    }

    /// The run that was started last.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Reports that so many fragments of a source have come and were refused before they came here, as damaged: they are no gaps in its
    /// sequence.
    pub fn note_refused(&mut self, source: SourceId, fragments: u64) {
        let index = index_of(source, self.first_source);
        if index < self.sources.len() {
            self.update_counters(index);
            self.counters.refuse(index, fragments);
        }
    }

    /// Reports that so many fragments of a source lie where its recording cannot be read.
    pub fn note_unreadable(&mut self, source: SourceId, fragments: u64) {
        let index = index_of(source, self.first_source);
        if index < self.sources.len() {
            // What is missing up to here was not lost by the recording.
            self.update_counters(index);
            self.counters.note_unreadable(index, fragments);
        }
    }

    /// Reports the time: events come of age.
    pub fn advance(&mut self, mark: Mark) {
        self.now = self.now.max(mark);
    }

    /// Reports that every source waits for blocks, and that no time passes meanwhile, as in a replay: with the next pull the
    /// oldest event leaves incomplete, whatever is said of its age. Returns whether anything can leave.
    pub fn free_blocks(&mut self) -> bool {
        if self.phase == Phase::Beginning {
            self.begin_with_what_is_there();
            return self.phase == Phase::Running;
        }
        match self.rows.first_open() {
            Some(trigger) => self.forced = trigger + 1,
            // Fragments far from all others alone: those are given up at their age.
            None if self.given_up_ns < u64::MAX => self.now = self.now.max(Mark(self.given_up_ns)),
            None => return false,
        }
        true
    }

    /// As [`Builder::free_blocks`], of a run that is being stopped while its sources wait for space: what has come by the stop is taken
    /// whatever waits for what will not come. The oldest event leaves, and with it those behind it that miss only sources of which
    /// `nothing_follows`. `[build] incomplete = "stop"` lets them leave as they are.
    pub fn free_blocks_at_stop(&mut self, nothing_follows: impl Fn(SourceId) -> bool) -> bool {
        self.stopping = true;
        let any = self.free_blocks();
        if let Some(oldest) = self.rows.first_open() {
            let may_wait = |trigger: u64| {
                let mut missing =
                    (0..self.sources.len()).filter(|source| !self.columns.has(*source, trigger));
                self.rows.get(trigger).is_open()
                    && missing.any(|source| !nothing_follows(self.source_id(source)))
            };
            let behind = (oldest + 1..self.rows.highest).find(|trigger| may_wait(*trigger));
            self.forced = behind.unwrap_or(self.rows.highest);
        }
        any
    }

    /// Whether the oldest event that is open waits for this source; also when there is none, since the source may begin one.
    pub fn awaits(&self, source: SourceId) -> bool {
        let index = index_of(source, self.first_source);
        let is_ours = index < self.sources.len();
        is_ours && (self.rows.open() == 0 || !self.columns.has(index, self.rows.oldest))
    }

    /// Reports that nothing follows from a source, such as a closed connection: it is not waited for. Should it send again,
    /// it takes part again.
    pub fn end(&mut self, source: SourceId) {
        if let Some(counts) = self.sources.get_mut(index_of(source, self.first_source))
            && !counts.ended
        {
            counts.ended = true;
            self.ended += 1;
            self.update_room();
            if self.is_alone()
                && let Some(left) = self.sources.iter().position(|counts| !counts.ended)
            {
                self.follow_alone(left);
            }
        }
    }

    /// Reports that the run is over: with the next pulls everything leaves. What comes from here on is of the wrong run.
    pub fn end_run(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Beginning) {
            if self.phase == Phase::Beginning {
                self.begin_with_what_is_there();
            }
            self.phase = Phase::Ending;
            self.update_room();
        }
    }

    /// Reports, once everything has left that will, which numbers the trigger had where that is known: those that no board has answered
    /// are noted, also before the first and behind the last that any has.
    pub fn end_numbers(&mut self, accepted: Option<RangeInclusive<u64>>) {
        let shift = self.sources.iter().map(|source| u32::from(source.shift)).max().unwrap_or(0);
        self.rows.end(accepted, shift);
    }

    /// Appends events that are complete, or incomplete and no longer waited for, to `events`, at most `most_events`. Returns
    /// whether there were any. The batch's mark becomes the builder's time.
    pub fn pull(&mut self, events: &mut Events, most_events: usize) -> bool {
        let before = events.events.len();
        events.header.mark = self.now;
        loop {
            self.settle();
            let left = most_events - (events.events.len() - before);
            if left == 0 || !self.choose(left.min(CHUNK)) {
                break;
            }
            self.gather(events);
        }
        self.blocks.end_batch(&mut events.leases);
        self.update_busy();
        events.events.len() > before
    }

    fn update_counters(&mut self, source: usize) {
        let deferred = (self.deferred.length(source) as u64, self.deferred.bytes(source));
        self.counters.update(source, &mut self.sources[source], deferred);
    }

    /// Counts a fragment that has been counted as come in as lost.
    fn lose_fragment(&mut self, reason: LossReason, source: usize, bytes: u64) {
        // A late one fills a gap, which has to be known.
        self.update_counters(source);
        self.counters.lost(source, reason, 1, bytes);
    }

    fn update_busy(&mut self) {
        let (span, depth) = (self.rows.highest - self.rows.base, self.settings.depth as u64);
        let above = |quarters: u64| {
            span > depth / 4 * quarters || self.held_bytes > self.settings.memory_bytes / 4 * quarters
        };
        self.busy = if self.busy { above(2) } else { above(3) };
    }

    /// Whether no second source can agree to anything: there is none, or nothing follows from any other.
    fn is_alone(&self) -> bool {
        self.sources.len() - self.ended <= 1
    }

    /// Behind the last number that is taken, once the base is near enough.
    fn limit(&self) -> u64 {
        self.lead.limit(self.rows.base, self.settings.depth as u64, self.is_alone())
    }

    /// Numbers from the base on that have a row and may be taken.
    fn window_capacity(&self) -> u64 {
        let depth = self.settings.depth as u64;
        match self.phase {
            Phase::Ending => depth,
            _ => (self.limit() - self.rows.base).min(depth),
        }
    }

    fn update_room(&mut self) {
        self.unsettled = true;
        self.capacity = if self.phase == Phase::Running { self.window_capacity() } else { 0 };
    }

    /// Whether a source should be read. No, while its fragments come too early, or too many of its bytes wait for others; a
    /// source whose answer the oldest event waits for is read even so. A link to several boards is held while it wants none.
    pub fn wants(&self, source: SourceId) -> bool {
        let index = index_of(source, self.first_source);
        let Some(counts) = self.sources.get(index) else { return true };
        // One that is alone has nobody to wait for.
        if self.deferred.is_half_full(index) && !self.is_alone() && !self.has_jumped(index) {
            return false;
        }
        let below = counts.held_bytes + self.deferred.bytes(index) < self.bytes_per_source;
        below || self.rows.open() > 0 && !self.columns.has(index, self.rows.oldest)
    }

    /// Whether the trigger should hold back: three quarters of the window or of the memory are in use, and not yet half free
    /// again.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Why the run has to stop, where incomplete events are not to be.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Whether nothing waits here.
    pub fn is_empty(&self) -> bool {
        self.rows.open() == 0 && self.deferred.total() == 0
    }

    /// Fragments and bytes of one source: came in, left in events, lost, held.
    ///
    /// # Panics
    /// When the source is not one of this builder's.
    pub fn counters(&mut self, source: SourceId) -> &Counters {
        let index = index_of(source, self.first_source);
        self.update_counters(index);
        &self.counters.of(index).build
    }

    /// Fragments of one source by the trigger numbers of the others: expected, built, missing. Fragments of events that were
    /// dropped on request are in [`Builder::counters`] alone.
    ///
    /// # Panics
    /// When the source is not one of this builder's.
    pub fn wire_counters(&mut self, source: SourceId) -> &Counters {
        let index = index_of(source, self.first_source);
        self.update_counters(index);
        &self.counters.of(index).wire
    }

    /// Events: left, dropped because they were incomplete, held.
    pub fn events_counters(&mut self) -> &Counters {
        self.counters.events.input(Unit::Events, self.rows.take_opened());
        self.counters.note(Noted::Unseen, self.rows.take_unseen());
        self.counters.note(Noted::Numbers, self.rows.take_numbers());
        self.counters.events.set_held(Unit::Events, self.rows.open() as u64);
        &self.counters.events
    }

    /// Fragments of sources that this builder does not have.
    pub fn unknown_source_counters(&self) -> &Counters {
        &self.counters.unknown
    }

    /// Triggers with fragments that wait.
    pub fn open_events(&self) -> usize {
        self.rows.open()
    }

    /// Payload that waits, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Where it stands.
    pub fn standing(&self) -> Standing {
        Standing {
            base: self.rows.base,
            span: self.rows.highest - self.rows.base,
            open_events: self.rows.open(),
            deferred: self.deferred.total(),
            held_bytes: self.held_bytes,
            blocks: self.blocks.used(),
        }
    }

    /// The sources of this builder.
    pub fn sources(&self) -> Range<u16> {
        self.first_source.0..self.first_source.0 + self.sources.len() as u16
    }

    /// The first few fragments that could not be used.
    pub fn dumps(&self) -> &[Dump] {
        self.dumps.kept()
    }

    /// How many events have left for this reason: complete, or incomplete and why they were not waited for.
    pub fn closed(&self, closing: Closing) -> u64 {
        self.closings[closing as usize]
    }

    /// How large events are, bytes.
    pub fn event_bytes(&self) -> &Histogram {
        &self.event_bytes
    }

    /// How long events take from their first fragment until they leave, nanoseconds.
    pub fn build_ns(&self) -> &Histogram {
        &self.build_ns
    }

    /// Memory that the tables of blocks have come to, in bytes: one entry per block of every pool that was seen.
    pub fn block_table_bytes(&self) -> usize {
        self.blocks.byte_size()
    }

    fn source_id(&self, index: usize) -> SourceId {
        self.first_source.plus(index as u16)
    }

    fn is_wait(&self) -> bool {
        self.settings.incomplete == Incomplete::Wait
    }
}
