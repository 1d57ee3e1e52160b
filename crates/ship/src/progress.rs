//! How far shipping is, for people and programs.
//!
//! ```text
//!  states, bytes here ─► per destination: files, bytes, proved, backlog, rate, what holds it      free bytes over time ─► time to full
//! ```

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::ledger::ShipLedger;

/// Free bytes are compared over this time.
const OVER: Duration = Duration::from_secs(120);
/// Less says nothing yet.
const AT_LEAST: Duration = Duration::from_secs(5);

/// Where a destination stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteStage {
    /// Files go there.
    #[default]
    Shipping,
    /// Everything that is here is proved there.
    UpToDate,
    /// Nothing is on its way, and something could not be shipped: `problems` has the reasons.
    Incomplete,
    /// What is left is of files that are still written, and only complete files go there.
    WaitingForFiles,
    /// It cannot be reached, or has no space; tried again.
    Held,
    /// Outside the time windows.
    Waiting,
    /// It was held for too long, and is not tried again.
    GivenUp,
}

/// How far shipping to one destination is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RouteProgress {
    /// The destination.
    pub to: String,
    /// Where it stands.
    pub stage: RouteStage,
    /// What holds it, in words.
    pub held: Option<String>,
    /// Files of the runs, those that are still written included.
    pub files: u64,
    /// Files that are complete there, every byte proved.
    pub files_finished: u64,
    /// Bytes of the files here.
    pub bytes: u64,
    /// Bytes of these that are proved there. A file that goes there as a whole counts once it was read back.
    pub bytes_proved: u64,
    /// Bytes that are not.
    pub backlog_bytes: u64,
    /// Of the backlog, bytes of files that are still written.
    pub open_bytes: u64,
    /// The stage `ship` of the ledger, over all runs.
    pub ledger: ShipLedger,
    /// Whether it balances; null while rows of a large backlog are still being counted, or an older version has counted none.
    pub ledger_balances: Option<bool>,
    /// Runs that are complete there.
    pub runs_finished: u64,
    /// Bytes per second that were proved, over the last check.
    pub rate_bytes_per_s: f64,
    /// Files that cannot be shipped as they are, in words.
    pub problems: Vec<String>,
}

/// How far all of it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// Whether every file of every run is complete at every destination.
    pub is_complete: bool,
    /// Runs.
    pub runs: u64,
    /// Of these, those that are still being taken, or whose writer was killed.
    pub runs_open: u64,
    /// Each destination.
    pub destinations: Vec<RouteProgress>,
    /// Free bytes of the disk that the runs are on.
    pub disk_free_bytes: Option<u64>,
    /// Seconds until it is full, as fast as it has filled of late; none while it does not.
    pub disk_full_in_s: Option<f64>,
}

/// Free bytes of a disk over time.
#[derive(Debug, Default)]
pub struct FreeBytes {
    samples: VecDeque<(Instant, u64)>,
}

impl FreeBytes {
    /// Takes a sample of the disk of a path.
    pub fn sample(&mut self, path: &Path, now: Instant) -> Option<u64> {
        let disk = rustix::fs::statvfs(path).ok()?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        self.add(now, free);
        Some(free)
    }

    fn add(&mut self, now: Instant, free: u64) {
        self.samples.push_back((now, free));
        while self.samples.front().is_some_and(|(at, _)| now.duration_since(*at) > OVER) {
            self.samples.pop_front();
        }
    }

    /// Seconds until there are none, when they become fewer.
    pub fn full_in_s(&self) -> Option<f64> {
        let ((first, before), (last, now)) = (self.samples.front()?, self.samples.back()?);
        let passed = last.duration_since(*first);
        let used = before.checked_sub(*now).filter(|used| *used > 0 && passed >= AT_LEAST)?;
        Some(*now as f64 * passed.as_secs_f64() / used as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_a_full_disk_follows_from_how_it_fills() {
        let (mut free, start) = (FreeBytes::default(), Instant::now());
        free.add(start, 1000);
        assert_eq!(free.full_in_s(), None);
        free.add(start + Duration::from_secs(10), 900);
        assert_eq!(free.full_in_s(), Some(90.0));
        free.add(start + Duration::from_secs(20), 1100);
        assert_eq!(free.full_in_s(), None, "it empties");
    }
}
