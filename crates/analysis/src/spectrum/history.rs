//! What goes with the spectra: how many hits each channel has had, and what its board and the ledger say of its live time and its losses.
//!
//! ```text
//!  hits ───────────────► by channel: so many ─────────────┐
//!  a board's records ──► by channel: BoardCounters ───────┼─► Normalised
//!  the ledger ─────────► by source: losses ───────────────┘
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_data::{SourceId, Statistics};

use crate::channels::ChannelMap;
use crate::normalise::{BoardCounters, Normalised, SourceLoss};

/// Counts of all channels, by row of the channel map.
#[derive(Debug)]
pub struct History {
    hits: Box<[AtomicU64]>,
    /// Locked a few times a second: when boards report, and by readers.
    boards: Mutex<Box<[BoardCounters]>>,
    /// Each channel's source.
    sources: Box<[SourceId]>,
    /// By source, as far as they are known.
    losses: Mutex<Vec<SourceLoss>>,
}

impl History {
    pub(super) fn new(map: &ChannelMap) -> History {
        let channels = map.channels();
        History {
            hits: channels.iter().map(|_| AtomicU64::new(0)).collect(),
            boards: Mutex::new(channels.iter().map(|_| BoardCounters::default()).collect()),
            sources: channels.iter().map(|channel| channel.source).collect(),
            losses: Mutex::default(),
        }
    }

    /// Returns the number of channels.
    pub fn channels(&self) -> usize {
        self.hits.len()
    }

    /// So many more hits of a channel. Several threads may add.
    #[inline]
    pub(super) fn add_hits(&self, row: usize, hits: u64) {
        self.hits[row].fetch_add(hits, Ordering::Relaxed);
    }

    /// A board reports its counters. Returns the time of the hits behind which [`History::pass`] is to be called, picoseconds.
    pub(super) fn report<'s>(&self, records: impl Iterator<Item = (usize, &'s Statistics)>) -> i64 {
        let mut boards = self.boards();
        for (row, record) in records {
            boards[row].arrive(*record);
        }
        first_due(&boards)
    }

    /// All hits before this time are counted. Returns the time of the hits behind which it is to be called again, picoseconds.
    pub(super) fn pass(&self, until_ps: i64) -> i64 {
        let mut boards = self.boards();
        for (row, board) in boards.iter_mut().enumerate() {
            while board.due_ps().is_some_and(|due| due <= until_ps) {
                board.pass(self.hits(row));
            }
        }
        first_due(&boards)
    }

    /// Hits of a channel since the start of the run.
    pub fn hits(&self, row: usize) -> u64 {
        self.hits.get(row).map_or(0, |hits| hits.load(Ordering::Relaxed))
    }

    /// What the ledger says now of the losses of each source of hits, by its number.
    pub fn set_losses(&self, losses: Vec<SourceLoss>) {
        *self.losses.lock().unwrap_or_else(PoisonError::into_inner) = losses;
    }

    /// Live time and losses of each channel.
    pub fn normalised(&self) -> Vec<Normalised> {
        self.normalised_where(|_| true)
    }

    /// Those of the channels of one source, by its number.
    pub fn normalised_of(&self, source: SourceId) -> Vec<Normalised> {
        self.normalised_where(|row| self.sources[row] == source)
    }

    fn normalised_where(&self, is_asked: impl Fn(usize) -> bool) -> Vec<Normalised> {
        let boards = self.boards();
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = boards.iter().enumerate().filter(|(row, _)| is_asked(*row));
        let of_row = |(row, board): (usize, &BoardCounters)| {
            let loss = losses.get(self.sources[row].index()).unwrap_or(&SourceLoss::UNKNOWN);
            Normalised::of(self.hits(row), board, loss)
        };
        asked.map(of_row).collect()
    }

    fn boards(&self) -> MutexGuard<'_, Box<[BoardCounters]>> {
        self.boards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first_due(boards: &[BoardCounters]) -> i64 {
    boards.iter().filter_map(BoardCounters::due_ps).min().unwrap_or(i64::MAX)
}
