//! The state of a run at one moment: what the terminal shows, what a page draws, what a server sends.
//!
//! ```text
//!  ledger, gauges, roster, disk ─ supervisor, each 50 ms ─► LiveState ─► terminal · JSON · page
//! ```
//! One type for runs of hits, of events, and of both. Units are in the names: `_hz` per second, `_ns`, `_bytes`, `_seconds`;
//! a `fill`, `share` or `fraction` is 0 to 1. Rates are over the whole snapshots of the last seconds and 0 when the run takes no data;
//! counts are those since the start.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use thalweg_data::ledger::{Entries, Loss, LossTotal};
use thalweg_data::{Books, Pool, RunState, SourceId, Stage, Unit};

use super::EndWhen;
use super::build::BuildLook;
use super::dead_time::{DeadTime, TriggerCounts, TriggerState, busy_time};
use super::rates::{Counts, Look, RateWindow, Rates, expected_and_built};
use super::refused::RefusedUnit;
use crate::observed::Observed;
use crate::roster::{Entry, Roster};

/// Fill levels and the kernel's counters of one source: written by its reader, read by anyone.
#[derive(Debug, Default)]
pub struct Gauges {
    ring_fill: AtomicU64,
    pool: Option<Pool>,
    witnesses: Mutex<Vec<(&'static str, u64)>>,
}

/// The gauges of every source or link that has some, by its number.
pub(crate) type GaugesOf = BTreeMap<u16, Arc<Gauges>>;

impl Gauges {
    /// Gauges of a source that receives into `pool`.
    pub(crate) fn new(pool: Option<Pool>) -> Gauges {
        Gauges { pool, ..Gauges::default() }
    }

    pub(crate) fn set_ring_fill(&self, fill: f64) {
        self.ring_fill.store(fill.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn witness(&self, witnesses: Vec<(&'static str, u64)>) {
        *self.witnesses.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = witnesses;
    }

    /// The kernel's counters and the like: they say where a loss happened and are added to nothing.
    pub fn witnesses(&self) -> Vec<(&'static str, u64)> {
        self.witnesses.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn ring_fill(&self) -> f64 {
        f64::from_bits(self.ring_fill.load(Ordering::Relaxed))
    }

    fn pool_fill(&self) -> f64 {
        self.pool.as_ref().map_or(0.0, |pool| 1.0 - pool.free_count() as f64 / pool.block_count() as f64)
    }

    fn pool_bytes(&self) -> u64 {
        self.pool.as_ref().map_or(0, |pool| pool.block_count() as u64 * pool.block_size() as u64)
    }
}

/// The witnesses of several links, those of one name added.
pub(crate) fn add_witnesses<'g>(
    gauges: impl Iterator<Item = &'g Arc<Gauges>>,
) -> BTreeMap<&'static str, u64> {
    let mut sum = BTreeMap::new();
    for (name, count) in gauges.flat_map(|gauges| gauges.witnesses()) {
        *sum.entry(name).or_default() += count;
    }
    sum
}

/// One `[[source]]`: all its links and boards together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SourceState {
    /// Its name.
    pub name: String,
    /// Links of a triggered source; 0 of one that gives hits.
    pub links: usize,
    /// Boards of a triggered source; 0 of one that gives hits.
    pub boards: usize,
    /// Hits decoded since the start.
    pub hits: u64,
    /// Fragments found since the start.
    pub fragments: u64,
    /// Bytes received since the start.
    pub bytes: u64,
    /// Hits decoded per second, as all rates over [`LiveState::rate_window_seconds`].
    pub hit_rate_hz: f64,
    /// Fragments found per second.
    pub fragment_rate_hz: f64,
    /// Bytes received per second.
    pub byte_rate_hz: f64,
    /// Lost since the start, in the finest unit that is known: hits, fragments, else frames, else datagrams.
    pub lost: u64,
    /// Its lost hits or fragments, with how well they are known, and in words.
    pub loss: Option<LossTotal>,
    /// Live and dead time as its boards report them, the mean over its channels; `None` where they do not.
    pub dead_time: Option<DeadTime>,
    /// Fullest ring behind the receiver.
    pub ring_fill: f64,
    /// Blocks on loan: share of its fullest pool.
    pub pool_fill: f64,
    /// Memory of its pools, bytes.
    pub pool_bytes: u64,
    /// The kernel's counters and the like, which place losses and are added to nothing.
    pub witnesses: BTreeMap<&'static str, u64>,
}

/// The events of a run with triggered sources.
#[derive(Clone, Debug, Serialize)]
pub struct EventState {
    /// Events passed on per second.
    pub event_rate_hz: f64,
    /// Events passed on since the start, complete or not.
    pub events_built: u64,
    /// Of these, events to which a source had not answered.
    pub events_partial: u64,
    /// Events recorded since the start.
    pub events_recorded: u64,
    /// Who answered and who did not, in the order of the boards.
    pub completeness: Vec<Completeness>,
    /// The builder's state.
    #[serde(flatten)]
    pub look: BuildLook,
}

/// One board's answers.
#[derive(Clone, Debug, Serialize)]
pub struct Completeness {
    /// The board's name.
    pub name: String,
    /// Events that were closed in [`LiveState::rate_window_seconds`].
    pub expected: u64,
    /// Of these, events to which it had answered.
    pub built: u64,
    /// Events since the start to which it had not answered.
    pub missing: u64,
}

/// Why a run is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PausedBy {
    /// Somebody asked for it.
    Command,
    /// The recording waits for disk space.
    Disk,
}

/// Everything that is said of a run while it goes on, and after its end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveState {
    /// Counts the states of a run: a higher one is newer. 0 before the first.
    pub sequence: u64,
    /// Where the run stands.
    pub state: RunState,
    /// Of a paused run.
    pub paused_by: Option<PausedBy>,
    /// The run's number; 0 before it has one.
    pub run: u64,
    /// Its title.
    pub title: String,
    /// Where it is recorded.
    pub run_directory: String,
    /// Since the first data could come.
    pub elapsed_seconds: f64,
    /// When it ends by itself.
    pub end: EndWhen,
    /// By `[[source]]`, in the order of the configuration.
    pub sources: Vec<SourceState>,
    /// Hits put into time order per second.
    pub ordered_rate_hz: f64,
    /// Hits given to the recording per second, those that wait for their batch among them.
    pub recorded_rate_hz: f64,
    /// The time that all rates are over; 0 where there are none: before the second snapshot, and when no data are taken any more.
    pub rate_window_seconds: f64,
    /// The books at both ends of that time.
    #[serde(skip)]
    pub rate_window: RateWindow,
    /// Hits recorded since the start.
    pub hits_recorded: u64,
    /// Coincidences recorded since the start, of a run with coincidence.
    pub coincidences_recorded: Option<u64>,
    /// Of a run with triggered sources.
    pub events: Option<EventState>,
    /// Whether the trigger is asked to wait now, for whatever reason.
    pub busy: bool,
    /// What the trigger was offered and what it refused, where it reports that.
    pub trigger: Option<TriggerState>,
    /// How long BUSY was raised, and how long it was not, of a run with triggered sources; `None` where nobody here knows.
    pub busy_time: Option<DeadTime>,
    /// Sum of the sources' losses.
    pub lost: u64,
    /// Lost hits, fragments and events, those of them that the run has, with how well they are known, and in words.
    pub loss: Vec<LossTotal>,
    /// Every loss by `[[source]]`, place and reason. Those of each board are in the books.
    pub losses: Vec<Loss>,
    /// The books by `[[source]]`; `events` and units have lines of their own. Counts of stages that follow each other are
    /// of moments up to a tenth of a second apart.
    pub ledger: Vec<Entries>,
    /// The first units that were refused.
    pub refused: Vec<RefusedUnit>,
    /// Snapshots of the books that were checked on the way, and what was wrong with them: nothing.
    pub snapshots: u64,
    /// What did not close in them.
    pub discrepancies: Vec<String>,
    /// What has gone wrong: the run ends by it.
    pub failures: Vec<String>,
    /// Free space where the run is recorded, bytes.
    pub disk_free_bytes: u64,
    /// How long that lasts at the mean rate of the run; `None` while nothing is written.
    pub disk_left_seconds: Option<f64>,
}

impl LiveState {
    /// How often there is a new one while data are taken.
    pub const EVERY: Duration = Duration::from_millis(50);
}

/// What a look is taken at.
pub(crate) struct LookedAt<'l> {
    pub(crate) books: &'l Books,
    pub(crate) roster: &'l Roster,
    pub(crate) gauges: &'l GaugesOf,
    pub(crate) build: Option<BuildLook>,
    pub(crate) trigger: Option<TriggerCounts>,
    pub(crate) observed: Option<&'l Observed>,
    /// What is known already: where the run stands, its name, its end.
    pub(crate) known: LiveState,
}

impl Rates {
    /// Completes what is known with counts and rates.
    pub(crate) fn state(&mut self, at: LookedAt<'_>) -> LiveState {
        let LookedAt { books, roster, gauges, build, trigger, observed, known } = at;
        let by_source = books.grouped(roster.groups());
        let free = known.disk_free_bytes;
        let used = self.free_at_start.get_or_insert(free).saturating_sub(free);
        // A run that takes no more data has no rates.
        let ended = Rates::default();
        let rates = if known.state.takes_data() { &*self } else { &ended };
        let before = rates.ends().map(|(before, _)| before.trigger).unwrap_or_default();
        let busy_time = busy_time(trigger, build.as_ref(), known.elapsed_seconds);
        let dropped = books.total_lost(Unit::Events, |stage| stage == Stage::Build);
        let unseen = build.as_ref().map_or(0, |look| look.unseen(dropped));
        let report = roster.loss_report(&by_source, unseen);
        let sources: Vec<SourceState> = (0..roster.entries.len())
            .map(|index| {
                let own = rates.of_source(index);
                SourceState {
                    hit_rate_hz: own.hits_hz,
                    fragment_rate_hz: own.fragments_hz,
                    byte_rate_hz: own.bytes_hz,
                    loss: report.of_source(SourceId(index as u16)).cloned(),
                    dead_time: dead_time(observed, roster, index),
                    ..source_state(&roster.entries[index], &by_source, index, gauges)
                }
            })
            .collect();
        LiveState {
            trigger: trigger.map(|trigger| TriggerState::of(trigger, before)),
            busy_time,
            lost: sources.iter().map(|source| source.lost).sum(),
            sources,
            loss: report.totals,
            ordered_rate_hz: rates.ordered_hz(),
            recorded_rate_hz: rates.kept_hz(),
            rate_window_seconds: rates.window().seconds,
            rate_window: rates.window(),
            hits_recorded: books.total_output(roster.hits_end(), Unit::Hits),
            coincidences_recorded: roster.coincidences.map(|_| roster.coincidences_recorded(books)),
            events: build.map(|look| EventState {
                event_rate_hz: rates.events_hz(),
                events_built: look.events(),
                events_partial: look.partial(),
                events_recorded: roster.events_recorded(books),
                completeness: completeness(roster, books, rates),
                // One number for every screen.
                look: BuildLook { busy_share: busy_time.map(|busy| busy.fraction), ..look },
            }),
            losses: roster.grouped_losses(&by_source),
            ledger: by_source.entries(),
            disk_left_seconds: (used > 0).then(|| free as f64 * known.elapsed_seconds / used as f64),
            ..known
        }
    }
}

/// What the boards of a `[[source]]` of hits report.
pub(crate) fn dead_time(observed: Option<&Observed>, roster: &Roster, index: usize) -> Option<DeadTime> {
    let is_of_hits = |entry: &&Entry| entry.links.is_empty();
    let number = roster.entries[..index].iter().filter(is_of_hits).count();
    observed.filter(|_| is_of_hits(&&roster.entries[index])).and_then(|own| DeadTime::of_boards(own, number))
}

fn source_state(entry: &Entry, by_source: &Books, index: usize, gauges: &GaugesOf) -> SourceState {
    let counts = Counts::of(by_source, index);
    let own = || entry.all.iter().filter_map(|source| gauges.get(&source.0));
    let fullest = |of: fn(&Gauges) -> f64| own().map(|gauges| of(gauges)).fold(0.0, f64::max);
    SourceState {
        name: entry.name.clone(),
        links: entry.links.len(),
        boards: entry.links.iter().map(|link| link.boards.len()).sum(),
        hits: counts.hits,
        fragments: counts.fragments,
        bytes: counts.bytes,
        hit_rate_hz: 0.0,
        fragment_rate_hz: 0.0,
        byte_rate_hz: 0.0,
        lost: lost_of(by_source, SourceId(index as u16)),
        loss: None,
        dead_time: None,
        ring_fill: fullest(Gauges::ring_fill),
        pool_fill: fullest(Gauges::pool_fill),
        pool_bytes: own().map(|gauges| gauges.pool_bytes()).sum(),
        witnesses: add_witnesses(own()),
    }
}

fn completeness(roster: &Roster, books: &Books, rates: &Rates) -> Vec<Completeness> {
    let boards = roster.boards.clone().enumerate().map(|(index, board)| {
        let of = |look: &Look| look.boards.get(index).copied().unwrap_or_default();
        let (before, now) = rates.ends().map(|(before, now)| (of(before), of(now))).unwrap_or_default();
        let (expected, built) = expected_and_built(books, SourceId(board));
        Completeness {
            name: roster.names[usize::from(board)].clone(),
            expected: now.0.saturating_sub(before.0),
            built: now.1.saturating_sub(before.1),
            missing: expected.saturating_sub(built),
        }
    });
    boards.collect()
}

fn lost_of(books: &Books, source: SourceId) -> u64 {
    let units = [Unit::Hits, Unit::Fragments, Unit::Frames, Unit::Datagrams];
    units.into_iter().map(|unit| books.lost_once(source, unit)).find(|lost| *lost > 0).unwrap_or(0)
}
