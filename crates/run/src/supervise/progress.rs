//! What can be said of a run while it goes on.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};
use thalweg_data::{Books, Pool, RunState, SourceId, Stage, Unit};

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

/// One source's line.
#[derive(Clone, Debug, Serialize)]
pub struct SourceProgress {
    /// Its name.
    pub name: String,
    /// Hits decoded per second, of late.
    pub hit_rate_hz: f64,
    /// Bytes received per second, of late.
    pub byte_rate_hz: f64,
    /// Lost so far, in the finest unit that is known: hits, else frames, else datagrams.
    pub lost: u64,
    /// Fullest ring behind the receiver, 0 to 1.
    pub ring_fill: f64,
    /// Blocks on loan, 0 to 1.
    pub pool_fill: f64,
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
    /// Hits decoded and bytes received, by source.
    sources: Vec<(u64, u64)>,
}

/// Rates over the looks of the last seconds.
#[derive(Default)]
pub(crate) struct Rates {
    looks: VecDeque<Look>,
    free_at_start: Option<u64>,
}

impl Rates {
    pub(crate) fn progress(
        &mut self,
        books: &Books,
        gauges: &[std::sync::Arc<Gauges>],
        state: RunState,
        elapsed_seconds: f64,
        recorded: u64,
        disk_free_bytes: u64,
    ) -> Progress {
        let counts = |index: usize| {
            let source = SourceId(index as u16);
            let total = |stage, unit| {
                books.account(stage, source).map_or(0, |account| account.tally.total_output(unit))
            };
            (total(Stage::Decode, Unit::Hits), total(Stage::Receive, Unit::Bytes))
        };
        let now = Look { elapsed_seconds, recorded, sources: (0..books.sources.len()).map(counts).collect() };
        let before = self.before(&now);
        let seconds = (elapsed_seconds - before.elapsed_seconds).max(1e-3);
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let line = |(index, name): (usize, &String)| SourceProgress {
            name: name.clone(),
            hit_rate_hz: per_second(now.sources[index].0, before.sources[index].0),
            byte_rate_hz: per_second(now.sources[index].1, before.sources[index].1),
            lost: lost_of(books, SourceId(index as u16)),
            ring_fill: gauges.get(index).map_or(0.0, |gauges| gauges.ring_fill()),
            pool_fill: gauges.get(index).map_or(0.0, |gauges| gauges.pool_fill()),
        };
        let sources: Vec<SourceProgress> = books.sources.iter().enumerate().map(line).collect();
        let used = self.free_at_start.get_or_insert(disk_free_bytes).saturating_sub(disk_free_bytes);
        let disk_left_seconds = (used > 0).then(|| disk_free_bytes as f64 * elapsed_seconds / used as f64);
        let recorded_rate_hz = per_second(recorded, before.recorded);
        let lost = sources.iter().map(|source| source.lost).sum();
        Progress {
            state,
            elapsed_seconds,
            sources,
            recorded_rate_hz,
            hits_recorded: recorded,
            lost,
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
        let start = || Look { elapsed_seconds: 0.0, recorded: 0, sources: vec![(0, 0); now.sources.len()] };
        let before = self.looks.front().cloned().unwrap_or_else(start);
        self.looks.push_back(now.clone());
        before
    }
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
    [Unit::Hits, Unit::Frames, Unit::Datagrams].into_iter().map(of).find(|lost| *lost > 0).unwrap_or(0)
}
