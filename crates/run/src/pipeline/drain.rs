//! Listening on after a stop: what had come by then belongs to the run.
//!
//! ```text
//!  stop ─► what waits in the system is taken ─► silence ─► over
//!              └ boards that go on sending ─► a moment ─► over
//! ```

use std::time::{Duration, Instant};

use super::Signals;

/// Who stays silent this long has said everything.
const SILENCE: Duration = Duration::from_millis(100);
/// Whoever holds up what waits there longer than this will not take it any more.
const LONGEST: Duration = Duration::from_secs(10);

/// How far a reader is with it.
#[derive(Debug)]
pub(super) struct Drain {
    /// Boards that go on sending are listened to so long, or until what waited at the stop is taken.
    at_least: Duration,
    since: Option<Instant>,
    heard: Option<Instant>,
    /// Of what waited at the stop.
    left_bytes: u64,
}

impl Drain {
    pub(super) fn new(at_least: Duration) -> Drain {
        Drain { at_least, since: None, heard: None, left_bytes: 0 }
    }

    /// Something came, or is held up here. Before the stop it costs nothing.
    pub(super) fn heard(&mut self, bytes: impl FnOnce() -> u64) {
        if self.since.is_some() {
            self.heard = Some(Instant::now());
            self.left_bytes = self.left_bytes.saturating_sub(bytes());
        }
    }

    /// Whether a stop was asked for and everything that had come is taken. `waiting_bytes` is what waits in the system.
    pub(super) fn is_over(&mut self, waiting_bytes: impl FnOnce() -> u64, signals: &Signals) -> bool {
        if !signals.stop_requested() {
            return false;
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert_with(|| {
            self.left_bytes = waiting_bytes();
            now
        });
        let (lasted, silent) = (now - since, now - self.heard.unwrap_or(since));
        silent >= SILENCE || lasted >= LONGEST || lasted >= self.at_least && self.left_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_before_the_stop_and_silence_ends_it_after() {
        let (mut drain, signals) = (Drain::new(Duration::ZERO), Signals::default());
        assert!(!drain.is_over(|| 0, &signals));
        signals.request_stop();
        assert!(!drain.is_over(|| 1000, &signals), "something waits");
        std::thread::sleep(SILENCE);
        assert!(drain.is_over(|| 1000, &signals), "and nobody can take it");
    }

    #[test]
    fn a_board_that_goes_on_is_left_when_what_waited_is_taken() {
        let (mut drain, signals) = (Drain::new(Duration::ZERO), Signals::default());
        signals.request_stop();
        assert!(!drain.is_over(|| 1000, &signals));
        for _ in 0..4 {
            std::thread::sleep(SILENCE / 2);
            drain.heard(|| 200);
            assert!(!drain.is_over(|| 1_000_000, &signals), "asked once");
        }
        drain.heard(|| 200);
        assert!(drain.is_over(|| 1_000_000, &signals));
    }
}
