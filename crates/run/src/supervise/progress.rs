//! What can be said of a run while it goes on.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};
use thalweg_data::{Books, Pool, RunState, SourceId, Stage, Unit};

use super::build::BuildLook;
use crate::roster::{Entry, Roster};

/// Fill levels and the kernel's counters of one source: written by its reader, read by anyone.
#[derive(Debug, Default)]
pub struct Gauges {
    ring_fill: AtomicU64,
    pool: Option<Pool>,
    witnesses: Mutex<Vec<(&'static str, u64)>>,
}

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
}

/// One `[[source]]`'s line: all its links and boards together.
#[derive(Clone, Debug, Serialize)]
pub struct SourceProgress {
    /// Its name.
    pub name: String,
    /// Links of a triggered source; 0 of one that gives hits.
    pub links: usize,
    /// Hits decoded per second, of late.
    pub hit_rate_hz: f64,
    /// Fragments found per second, of late.
    pub fragment_rate_hz: f64,
    /// Bytes received per second, of late.
    pub byte_rate_hz: f64,
    /// Lost so far, in the finest unit that is known: hits, fragments, else frames, else datagrams.
    pub lost: u64,
    /// Fullest ring behind the receiver, 0 to 1.
    pub ring_fill: f64,
    /// Blocks on loan, 0 to 1.
    pub pool_fill: f64,
}

/// The line of the events.
#[derive(Clone, Debug, Serialize)]
pub struct EventProgress {
    /// Events passed on per second, of late.
    pub event_rate_hz: f64,
    /// Events recorded so far.
    pub events_recorded: u64,
    /// Fragments that were missing so far, by board: the expected, the built. In the order of the boards.
    pub completeness: Vec<Completeness>,
    /// The builder's state.
    #[serde(flatten)]
    pub look: BuildLook,
}

/// One board's fragments, of late.
#[derive(Clone, Debug, Serialize)]
pub struct Completeness {
    /// The board's name.
    pub name: String,
    /// Events that were closed.
    pub expected: u64,
    /// Those to which it had answered.
    pub built: u64,
}

/// The whole run's line, and its sources'.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// Where the run stands.
    #[serde(serialize_with = "word")]
    pub state: RunState,
    /// Since its start.
    pub elapsed_seconds: f64,
    /// By source.
    pub sources: Vec<SourceProgress>,
    /// Hits recorded per second, of late.
    pub recorded_rate_hz: f64,
    /// Hits recorded so far.
    pub hits_recorded: u64,
    /// Of a run with triggered sources.
    pub events: Option<EventProgress>,
    /// Sum of the sources' losses.
    pub lost: u64,
    /// Free space where the run is recorded.
    pub disk_free_bytes: u64,
    /// How long that lasts at the present rate.
    pub disk_left_seconds: Option<f64>,
}

fn word<S: Serializer>(state: &RunState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.word())
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
}

/// What one `[[source]]` has given so far.
#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    fragments: u64,
    bytes: u64,
}

/// What a look is taken at.
pub(crate) struct LookedAt<'l> {
    pub(crate) books: &'l Books,
    pub(crate) roster: &'l Roster,
    /// By source of hits.
    pub(crate) gauges: &'l [std::sync::Arc<Gauges>],
    pub(crate) build: Option<BuildLook>,
    pub(crate) state: RunState,
    pub(crate) elapsed_seconds: f64,
    pub(crate) recorded: u64,
    pub(crate) disk_free_bytes: u64,
}

/// Rates over the looks of the last seconds.
#[derive(Default)]
pub(crate) struct Rates {
    looks: VecDeque<Look>,
    free_at_start: Option<u64>,
}

impl Rates {
    pub(crate) fn progress(&mut self, at: LookedAt<'_>) -> Progress {
        let LookedAt { books, roster, elapsed_seconds, recorded, disk_free_bytes, .. } = at;
        let now = Look {
            elapsed_seconds,
            recorded,
            events: at.build.as_ref().map_or(0, BuildLook::events),
            sources: roster.entries.iter().map(|entry| counts(books, entry)).collect(),
            boards: roster.boards.clone().map(|board| expected_and_built(books, SourceId(board))).collect(),
        };
        let before = self.before(&now);
        let seconds = (elapsed_seconds - before.elapsed_seconds).max(1e-3);
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let line = |(index, entry): (usize, &Entry)| {
            let (now, before) = (now.sources[index], before.sources[index]);
            let gauges = entry.all.iter().filter_map(|source| at.gauges.get(source.index()));
            let fullest =
                |of: fn(&Gauges) -> f64| gauges.clone().map(|gauges| of(gauges)).fold(0.0, f64::max);
            SourceProgress {
                name: entry.name.clone(),
                links: entry.links.len(),
                hit_rate_hz: per_second(now.hits, before.hits),
                fragment_rate_hz: per_second(now.fragments, before.fragments),
                byte_rate_hz: per_second(now.bytes, before.bytes),
                lost: entry.all.iter().map(|source| lost_of(books, *source)).sum(),
                ring_fill: fullest(Gauges::ring_fill),
                pool_fill: fullest(Gauges::pool_fill),
            }
        };
        let sources: Vec<SourceProgress> = roster.entries.iter().enumerate().map(line).collect();
        let used = self.free_at_start.get_or_insert(disk_free_bytes).saturating_sub(disk_free_bytes);
        let disk_left_seconds = (used > 0).then(|| disk_free_bytes as f64 * elapsed_seconds / used as f64);
        let completeness = roster.boards.clone().enumerate().map(|(index, board)| Completeness {
            name: roster.names[usize::from(board)].clone(),
            expected: now.boards[index].0.saturating_sub(before.boards[index].0),
            built: now.boards[index].1.saturating_sub(before.boards[index].1),
        });
        let events = at.build.map(|look| EventProgress {
            event_rate_hz: per_second(now.events, before.events),
            events_recorded: books.total_output(Stage::Record, Unit::Events),
            completeness: completeness.collect(),
            look,
        });
        Progress {
            state: at.state,
            elapsed_seconds,
            lost: sources.iter().map(|source| source.lost).sum(),
            sources,
            recorded_rate_hz: per_second(recorded, before.recorded),
            hits_recorded: recorded,
            events,
            disk_free_bytes,
            disk_left_seconds,
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
        };
        let before = self.looks.front().cloned().unwrap_or_else(start);
        self.looks.push_back(now.clone());
        before
    }
}

fn counts(books: &Books, entry: &Entry) -> Counts {
    let total = |stage, unit| {
        let of =
            |source: &SourceId| books.account(stage, *source).map_or(0, |book| book.tally.total_output(unit));
        entry.all.iter().map(of).sum()
    };
    Counts {
        hits: total(Stage::Decode, Unit::Hits),
        fragments: total(Stage::Unpack, Unit::Fragments),
        bytes: total(Stage::Receive, Unit::Bytes),
    }
}

fn expected_and_built(books: &Books, board: SourceId) -> (u64, u64) {
    books.account(Stage::Wire, board).map_or((0, 0), |book| {
        (book.tally.total_input(Unit::Fragments), book.tally.total_output(Unit::Fragments))
    })
}

fn lost_of(books: &Books, source: SourceId) -> u64 {
    let of = |unit| -> u64 {
        books
            .accounts
            .iter()
            .filter(|account| account.source == source)
            .map(|account| account.tally.total_lost_any(unit))
            .sum()
    };
    [Unit::Hits, Unit::Fragments, Unit::Frames, Unit::Datagrams]
        .into_iter()
        .map(of)
        .find(|lost| *lost > 0)
        .unwrap_or(0)
}
