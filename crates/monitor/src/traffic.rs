//! Counts the work of the server itself, for metrics.
//!
//! ```text
//!  requests, refusals ─► counters ─► /metrics
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the server started.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    answered: [AtomicU64; 4],
    refused_connections: AtomicU64,
}

/// Classes of answers, as metrics name them.
pub(crate) const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

impl Traffic {
    /// Counts an answer of this status.
    pub fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        self.answered[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection for which there was no place.
    pub fn refused_connection(&self) {
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers, by class.
    pub fn answers(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        CLASSES.into_iter().zip(self.answered.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Connections for which there was no place.
    pub fn refused_connections(&self) -> u64 {
        self.refused_connections.load(Ordering::Relaxed)
    }
}
