//! The state of a run at one moment: what the terminal shows, what a page draws, what a server sends.
//!
//! ```text
//!  ledger, gauges, roster, disk ─ supervisor, each 50 ms ─► LiveState ─► terminal · JSON · page
//! ```
//! One type for runs of hits, of events, and of both. Units are in the names: `_hz` per second, `_ns`, `_bytes`, `_seconds`;
//! a `fill` or `share` is 0 to 1. Rates are those of the last two and a half seconds, counts those since the start.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use thalweg_data::ledger::{Entries, Loss};
use thalweg_data::{Books, Pool, RunState, SourceId, Stage, Unit};

use super::EndWhen;
use super::build::BuildLook;
use super::dead_time::{DeadTime, TriggerCounts, TriggerState, busy_time};
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
    /// Hits decoded per second.
    pub hit_rate_hz: f64,
    /// Fragments found per second.
    pub fragment_rate_hz: f64,
    /// Bytes received per second.
    pub byte_rate_hz: f64,
    /// Lost since the start, in the finest unit that is known: hits, fragments, else frames, else datagrams.
    pub lost: u64,
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
    /// Events that were closed in the last two and a half seconds.
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
    /// Hits recorded per second.
    pub recorded_rate_hz: f64,
    /// Hits recorded since the start.
    pub hits_recorded: u64,
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

/// Rates are taken over this time: longer than a record batch waits, so that they do not flicker.
const WINDOW_SECONDS: f64 = 2.5;

/// Counts at one look.
#[derive(Clone)]
struct Look {
    elapsed_seconds: f64,
    recorded: u64,
    events: u64,
    /// By `[[source]]`.
    sources: Vec<Counts>,
    /// Expected and built, by board.
    boards: Vec<(u64, u64)>,
    trigger: TriggerCounts,
}

/// What one `[[source]]` has given so far.
#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    fragments: u64,
    bytes: u64,
    /// In the finest unit that is known.
    lost: u64,
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

/// Rates over the looks of the last seconds.
#[derive(Default)]
pub(crate) struct Rates {
    looks: VecDeque<Look>,
    free_at_start: Option<u64>,
}

impl Rates {
    /// Completes what is known with counts and rates.
    pub(crate) fn state(&mut self, at: LookedAt<'_>) -> LiveState {
        let LookedAt { books, roster, gauges, build, trigger, observed, known } = at;
        let by_source = books.grouped(roster.groups());
        let now = Look {
            elapsed_seconds: known.elapsed_seconds,
            recorded: books.total_output(roster.hits_end(), Unit::Hits),
            events: build.as_ref().map_or(0, BuildLook::events),
            sources: (0..roster.entries.len()).map(|index| counts(&by_source, index)).collect(),
            boards: roster.boards.clone().map(|board| expected_and_built(books, SourceId(board))).collect(),
            trigger: trigger.unwrap_or_default(),
        };
        let before = self.before(&now);
        let seconds = (now.elapsed_seconds - before.elapsed_seconds).max(1e-3);
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let entries = roster.entries.iter().enumerate();
        let hits_before =
            |index: usize| roster.entries[..index].iter().filter(|entry| entry.links.is_empty());
        let sources: Vec<SourceState> = entries
            .map(|(index, entry)| SourceState {
                dead_time: observed
                    .filter(|_| entry.links.is_empty())
                    .and_then(|observed| DeadTime::of_boards(observed, hits_before(index).count())),
                hit_rate_hz: per_second(now.sources[index].hits, before.sources[index].hits),
                fragment_rate_hz: per_second(now.sources[index].fragments, before.sources[index].fragments),
                byte_rate_hz: per_second(now.sources[index].bytes, before.sources[index].bytes),
                ..source_state(entry, now.sources[index], gauges)
            })
            .collect();
        let free = known.disk_free_bytes;
        let used = self.free_at_start.get_or_insert(free).saturating_sub(free);
        let busy_time = busy_time(trigger, build.as_ref(), now.elapsed_seconds);
        LiveState {
            trigger: trigger.map(|trigger| TriggerState::of(trigger, before.trigger)),
            busy_time,
            lost: sources.iter().map(|source| source.lost).sum(),
            sources,
            recorded_rate_hz: per_second(now.recorded, before.recorded),
            hits_recorded: now.recorded,
            events: build.map(|look| EventState {
                event_rate_hz: per_second(now.events, before.events),
                events_built: look.events(),
                events_partial: look.partial(),
                events_recorded: books.total_output(Stage::Record, Unit::Events),
                completeness: completeness(roster, &now, &before),
                look,
            }),
            losses: by_source.losses(),
            ledger: by_source.entries(),
            disk_left_seconds: (used > 0).then(|| free as f64 * now.elapsed_seconds / used as f64),
            ..known
        }
    }

    /// Takes a look into the window and gives the oldest one there; at first, the start of the run.
    fn before(&mut self, now: &Look) -> Look {
        let oldest = now.elapsed_seconds - WINDOW_SECONDS;
        while self.looks.len() > 1 && self.looks[1].elapsed_seconds <= oldest {
            self.looks.pop_front();
        }
        let start = || Look {
            elapsed_seconds: 0.0,
            recorded: 0,
            events: 0,
            sources: vec![Counts::default(); now.sources.len()],
            boards: vec![(0, 0); now.boards.len()],
            trigger: TriggerCounts::default(),
        };
        let before = self.looks.front().cloned().unwrap_or_else(start);
        self.looks.push_back(now.clone());
        before
    }
}

fn source_state(entry: &Entry, counts: Counts, gauges: &GaugesOf) -> SourceState {
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
        lost: counts.lost,
        dead_time: None,
        ring_fill: fullest(Gauges::ring_fill),
        pool_fill: fullest(Gauges::pool_fill),
        pool_bytes: own().map(|gauges| gauges.pool_bytes()).sum(),
        witnesses: add_witnesses(own()),
    }
}

fn completeness(roster: &Roster, now: &Look, before: &Look) -> Vec<Completeness> {
    let boards = roster.boards.clone().enumerate().map(|(index, board)| {
        let (now, before) = (now.boards[index], before.boards[index]);
        Completeness {
            name: roster.names[usize::from(board)].clone(),
            expected: now.0.saturating_sub(before.0),
            built: now.1.saturating_sub(before.1),
            missing: now.0.saturating_sub(now.1),
        }
    });
    boards.collect()
}

/// What a `[[source]]` has given, from the books by source.
fn counts(by_source: &Books, index: usize) -> Counts {
    let source = SourceId(index as u16);
    let total =
        |stage, unit| by_source.account(stage, source).map_or(0, |account| account.tally.total_output(unit));
    Counts {
        hits: total(Stage::Decode, Unit::Hits),
        fragments: total(Stage::Unpack, Unit::Fragments),
        bytes: total(Stage::Receive, Unit::Bytes),
        lost: lost_of(by_source, source),
    }
}

fn expected_and_built(books: &Books, board: SourceId) -> (u64, u64) {
    books.account(Stage::Wire, board).map_or((0, 0), |book| {
        (book.tally.total_input(Unit::Fragments), book.tally.total_output(Unit::Fragments))
    })
}

fn lost_of(books: &Books, source: SourceId) -> u64 {
    let units = [Unit::Hits, Unit::Fragments, Unit::Frames, Unit::Datagrams];
    units.into_iter().map(|unit| books.lost_once(source, unit)).find(|lost| *lost > 0).unwrap_or(0)
}
