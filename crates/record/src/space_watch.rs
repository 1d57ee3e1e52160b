//! Whether the disk has less space left than a recording wants to leave.
//!
//! ```text
//!  [record] least_free_bytes ─► SpaceWatch ── bytes left, now and then ──► low ── an eighth more is free ──► not low
//! ```
//! A run that waits at this mark still has space for what its boards have sent by then; one that waits when the disk is full has not.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::settings::Settings;
use crate::system;

/// The system is asked at most this often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Watches the free space of the disk of a recording.
#[derive(Debug)]
pub struct SpaceWatch {
    directory: PathBuf,
    least_free_bytes: u64,
    next: Option<Instant>,
    /// Bytes left when they were found to be too few.
    low: Option<u64>,
}

impl SpaceWatch {
    /// The watch that these settings ask for, if they do.
    pub fn new(settings: &Settings) -> Option<SpaceWatch> {
        let least_free_bytes = settings.least_free_bytes?;
        Some(SpaceWatch { directory: settings.directory.clone(), least_free_bytes, next: None, low: None })
    }

    /// Bytes left on the disk, when they are too few; `None` while there is enough. A disk that does not say has enough: if it is full,
    /// writing says so.
    pub fn low(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now + LOOK_EVERY);
            if let Ok(left) = system::bytes_left(&self.directory) {
                self.low = self.is_too_little(left).then_some(left);
            }
        }
        self.low
    }

    fn is_too_little(&self, left: u64) -> bool {
        let least = match self.low {
            // It goes on at a little more, so that it does not at each block that is freed.
            Some(_) => self.least_free_bytes.saturating_add(self.least_free_bytes / 8),
            None => self.least_free_bytes,
        };
        left < least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_disk_is_so_until_an_eighth_more_is_free() {
        let settings = Settings { least_free_bytes: Some(8_000_000), ..Settings::default() };
        let mut watch = SpaceWatch::new(&settings).expect("asked for");
        assert!(!watch.is_too_little(8_000_000) && watch.is_too_little(7_999_999));
        watch.low = Some(7_999_999);
        assert!(watch.is_too_little(8_999_999) && !watch.is_too_little(9_000_000));
        assert!(SpaceWatch::new(&Settings::default()).is_none());
    }

    #[test]
    fn the_disk_is_asked_now_and_then() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let settings = |bytes| Settings {
            directory: folder.path().to_owned(),
            least_free_bytes: Some(bytes),
            ..Settings::default()
        };
        let now = Instant::now();
        assert_eq!(SpaceWatch::new(&settings(1)).expect("asked for").low(now), None);
        let mut watch = SpaceWatch::new(&settings(u64::MAX)).expect("asked for");
        let left = watch.low(now);
        assert!(left.is_some());
        watch.least_free_bytes = 0;
        assert_eq!(watch.low(now + LOOK_EVERY / 2), left);
        assert_eq!(watch.low(now + LOOK_EVERY), None);
        watch.directory = folder.path().join("gone");
        assert_eq!(watch.low(now + 2 * LOOK_EVERY), None, "a disk that does not say");
    }
}
