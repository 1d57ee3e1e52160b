//! How fast the files of a run grow: by whole batches, so over no less time than batches take.
//!
//! ```text
//!  bytes of all files at each snapshot ─► the last seconds, two batches at least ─► bytes per second
//! ```

use std::collections::VecDeque;

use super::rates::WINDOW_SECONDS;

/// It is known within this time, however long batches may wait, s.
const KNOWN_WITHIN_SECONDS: f64 = 60.0;

/// The bytes of the files at the moments of the last seconds.
#[derive(Debug, Default)]
pub(super) struct FileGrowth {
    /// How long two batches may take: over less, they may not be there although data are recorded.
    least_seconds: f64,
    /// Seconds since the start of the run, and bytes.
    moments: VecDeque<(f64, u64)>,
}

impl FileGrowth {
    /// Of files to which a batch comes after `batch_age_seconds` at the latest.
    pub(super) fn new(batch_age_seconds: f64) -> FileGrowth {
        let least_seconds = (2.0 * batch_age_seconds).min(KNOWN_WITHIN_SECONDS);
        FileGrowth { least_seconds, ..FileGrowth::default() }
    }

    /// Begins anew behind a pause.
    pub(super) fn clear(&mut self) {
        self.moments.clear();
    }

    pub(super) fn take(&mut self, elapsed_seconds: f64, bytes: u64) {
        self.moments.push_back((elapsed_seconds, bytes));
        let oldest = elapsed_seconds - self.least_seconds.max(WINDOW_SECONDS);
        while self.moments.len() > 2 && self.moments[1].0 <= oldest {
            self.moments.pop_front();
        }
    }

    /// Bytes per second; `None` where that is not known yet.
    pub(super) fn bytes_hz(&self) -> Option<f64> {
        let ((then, before), (now, bytes)) = (*self.moments.front()?, *self.moments.back()?);
        let seconds = now - then;
        let is_known = seconds > 0.0 && seconds >= self.least_seconds;
        is_known.then(|| bytes.saturating_sub(before) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots come sooner than batches at the start and behind a pause.
    #[test]
    fn what_is_recorded_per_second_is_unknown_until_two_batches_may_have_come() {
        let mut files = FileGrowth::new(1.0);
        let mut take = |seconds: f64, bytes: u64| {
            files.take(seconds, bytes);
            files.bytes_hz()
        };
        let first = [(0.25, 0), (0.5, 0), (1.0, 0), (1.5, 1000)].map(|(seconds, bytes)| take(seconds, bytes));
        assert_eq!(first, [None; 4], "not 0: the first batch is on its way");
        assert_eq!(take(2.25, 2000), Some(1000.0));
        assert_eq!(take(3.25, 2000), Some(2000.0 / 2.75));
        assert_eq!(take(4.25, 2000), Some(1000.0 / 2.75));
        assert_eq!([take(5.25, 2000), take(6.25, 2000), take(7.25, 2000)][2], Some(0.0), "nothing comes");
    }

    #[test]
    fn slow_batches_take_a_longer_time_and_begin_anew_behind_a_pause() {
        let mut files = FileGrowth::new(10.0);
        (0..=40).for_each(|second| files.take(f64::from(second), 5000 * (second as u64 / 10)));
        assert_eq!(files.bytes_hz(), Some(500.0));
        files.clear();
        assert_eq!(files.bytes_hz(), None);
        files.take(50.0, 0);
        files.take(69.0, 0);
        assert_eq!(files.bytes_hz(), None);
        files.take(70.0, 0);
        assert_eq!(files.bytes_hz(), Some(0.0));
    }
}
