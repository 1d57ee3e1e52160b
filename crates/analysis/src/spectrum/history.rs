//! What goes with the spectra: how many hits each channel has had, and what the boards say of their dead time.
//!
//! ```text
//!  hits ───────► by channel: so many
//!  statistics ─► by channel: real time, dead time, triggers, saved
//! ```

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use serde::Serialize;
use thalweg_data::hit::Statistics;

/// One channel's counts.
#[derive(Debug, Default)]
struct Row {
    hits: AtomicU64,
    real_time_ps: AtomicI64,
    dead_time_ps: AtomicI64,
    triggers: AtomicU64,
    saved: AtomicU64,
}

/// What is known of one channel beside its spectra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelCounts {
    /// Hits since the start of the run.
    pub hits: u64,
    /// The board's real time, picoseconds; 0 when it does not report it.
    pub real_time_ps: i64,
    /// The board's dead time, picoseconds.
    pub dead_time_ps: i64,
    /// Triggers that the board has seen.
    pub triggers: u64,
    /// Hits that the board has saved.
    pub saved: u64,
}

/// Counts of all channels, by row of the channel map.
#[derive(Debug)]
pub struct History {
    rows: Box<[Row]>,
}

impl History {
    pub(super) fn new(channels: usize) -> History {
        History { rows: (0..channels).map(|_| Row::default()).collect() }
    }

    /// Returns the number of channels.
    pub fn channels(&self) -> usize {
        self.rows.len()
    }

    /// So many more hits of a channel. Several threads may add.
    #[inline]
    pub(super) fn add_hits(&self, row: usize, hits: u64) {
        self.rows[row].hits.fetch_add(hits, Ordering::Relaxed);
    }

    /// The board's latest word.
    pub(super) fn add(&self, row: usize, statistics: &Statistics) {
        let row = &self.rows[row];
        row.real_time_ps.store(statistics.real_time_ps, Ordering::Relaxed);
        row.dead_time_ps.store(statistics.dead_time_ps, Ordering::Relaxed);
        row.triggers.store(statistics.triggers, Ordering::Relaxed);
        row.saved.store(statistics.saved, Ordering::Relaxed);
    }

    /// One channel's counts.
    pub fn channel(&self, row: usize) -> ChannelCounts {
        self.rows.get(row).map_or_else(ChannelCounts::default, |row| ChannelCounts {
            hits: row.hits.load(Ordering::Relaxed),
            real_time_ps: row.real_time_ps.load(Ordering::Relaxed),
            dead_time_ps: row.dead_time_ps.load(Ordering::Relaxed),
            triggers: row.triggers.load(Ordering::Relaxed),
            saved: row.saved.load(Ordering::Relaxed),
        })
    }
}
