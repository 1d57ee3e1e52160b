//! Listening on after a stop: what had come by then belongs to the run.
//!
//! ```text
//!  stop ─► what waits in the system is taken, as long as it takes ─► silence ─► over
//!              ├ boards that go on sending ─► a moment ─► over
//!              └ nothing is taken or written any more ─► given up: what waits is lost, and counted
//! ```
//! A slow disk delays the end and loses nothing. Silence is counted while somebody listens, not while the reader waits for whoever
//! writes.

use std::time::{Duration, Instant};

use super::Signals;

/// Who stays silent this long has said everything.
const SILENCE: Duration = Duration::from_millis(100);
/// When nothing was taken and nothing written for so long, nobody will take it any more.
const STALLED: Duration = Duration::from_secs(10);
/// How often a drain that goes on is reported.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Where a reader is with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// There is no stop, or something may still come.
    No,
    /// Everything that had come by the stop was taken.
    Yes,
    /// What waits cannot be taken.
    GivenUp,
}

/// How far a reader is with it.
#[derive(Debug)]
pub(super) struct Drain {
    /// Boards that go on sending are listened to so long, or until what waited at the stop is taken.
    at_least: Duration,
    stalled: Duration,
    since: Option<Instant>,
    /// When the reader began to listen.
    listens: Option<Instant>,
    /// How long it has listened since it heard something.
    silent: Duration,
    /// When something was taken or written last, and how much was written then.
    moved: Option<(Instant, u64)>,
    reported: Option<Instant>,
    taken_bytes: u64,
    /// Of what waited at the stop.
    left_bytes: u64,
}

impl Drain {
    pub(super) fn new(at_least: Duration) -> Drain {
        Drain {
            at_least,
            stalled: STALLED,
            since: None,
            listens: None,
            silent: Duration::ZERO,
            moved: None,
            reported: None,
            taken_bytes: 0,
            left_bytes: 0,
        }
    }

    /// Something came, or is held up here (0 bytes). Before the stop it costs nothing.
    pub(super) fn heard(&mut self, bytes: impl FnOnce() -> u64) {
        if self.since.is_some() {
            let bytes = bytes();
            self.silent = Duration::ZERO;
            if bytes > 0 {
                self.moved = self.moved.map(|(_, written)| (Instant::now(), written));
            }
            self.taken_bytes += bytes;
            self.left_bytes = self.left_bytes.saturating_sub(bytes);
        }
    }

    /// The reader listens from now on.
    pub(super) fn listen(&mut self) {
        self.listens = self.since.map(|_| Instant::now());
    }

    /// The reader has listened, and nothing came.
    pub(super) fn idle(&mut self) {
        self.silent += self.listens.take().map_or(Duration::ZERO, |listens| listens.elapsed());
    }

    /// Whether a stop was asked for and everything that had come is taken. `waiting_bytes` is what waits in the system.
    pub(super) fn state(&mut self, waiting_bytes: impl FnOnce() -> u64, signals: &Signals) -> Drained {
        if !signals.stop_requested() {
            return Drained::No;
        }
        let (now, written) = (Instant::now(), signals.written());
        let since = *self.since.get_or_insert_with(|| {
            self.left_bytes = waiting_bytes();
            now
        });
        let moved = match self.moved {
            Some((moved, before)) if before == written => moved,
            _ => now,
        };
        self.moved = Some((moved, written));
        if self.silent >= SILENCE || now - since >= self.at_least && self.left_bytes == 0 {
            return Drained::Yes;
        }
        if now - moved >= self.stalled {
            return Drained::GivenUp;
        }
        self.report(now, since);
        Drained::No
    }

    fn report(&mut self, now: Instant, since: Instant) {
        if now - self.reported.unwrap_or(since) >= REPORT_EVERY {
            self.reported = Some(now);
            tracing::warn!(
                "{}: {} s after the stop, what came before it is still being taken: {} bytes so far, at most {} wait; \
                 the recording is slow",
                std::thread::current().name().unwrap_or("a reader"),
                (now - since).as_secs(),
                self.taken_bytes,
                self.left_bytes
            );
        }
    }

    /// What to say of a drain that was given up, in which so many bytes were thrown away.
    pub(super) fn words(&self, lost_bytes: u64) -> String {
        format!(
            "{}: {lost_bytes} bytes that had come by the stop were not taken, since nothing was written for {} s; they are lost as \
             `abandoned`: look at the disk that is recorded on",
            std::thread::current().name().unwrap_or("a reader"),
            self.stalled.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_before_the_stop_and_silence_ends_it_after() {
        let (mut drain, signals) = (Drain::new(Duration::ZERO), Signals::default());
        drain.idle();
        assert_eq!(drain.state(|| 0, &signals), Drained::No);
        signals.request_stop();
        assert_eq!(drain.state(|| 1000, &signals), Drained::No, "something waits");
        std::thread::sleep(SILENCE);
        assert_eq!(drain.state(|| 1000, &signals), Drained::No, "and nobody has listened");
        drain.listen();
        std::thread::sleep(SILENCE);
        drain.idle();
        assert_eq!(drain.state(|| 1000, &signals), Drained::Yes, "and does not come");
    }

    #[test]
    fn a_board_that_goes_on_is_left_when_what_waited_is_taken() {
        let (mut drain, signals) = (Drain::new(Duration::ZERO), Signals::default());
        signals.request_stop();
        assert_eq!(drain.state(|| 1000, &signals), Drained::No);
        for _ in 0..4 {
            std::thread::sleep(SILENCE / 2);
            drain.heard(|| 200);
            assert_eq!(drain.state(|| 1_000_000, &signals), Drained::No, "asked once");
        }
        drain.heard(|| 200);
        assert_eq!(drain.state(|| 1_000_000, &signals), Drained::Yes);
    }

    #[test]
    fn draining_goes_on_while_something_is_taken_or_written_and_ends_when_nothing_is() {
        let stalled = Duration::from_millis(200);
        let (mut drain, signals) = (Drain { stalled, ..Drain::new(Duration::ZERO) }, Signals::default());
        signals.request_stop();
        assert_eq!(drain.state(|| 1 << 40, &signals), Drained::No);
        for turn in 0..8 {
            // Held up by whoever writes, for longer than a silence: nobody was listening meanwhile.
            std::thread::sleep(stalled / 2 + SILENCE / 10);
            match turn % 2 {
                0 => signals.note_written(),
                _ => drain.heard(|| 1),
            }
            assert_eq!(drain.state(|| 0, &signals), Drained::No, "turn {turn}");
        }
        drain.heard(|| 0);
        std::thread::sleep(stalled);
        drain.heard(|| 0);
        assert_eq!(drain.state(|| 0, &signals), Drained::GivenUp, "something is held up, and nothing moves");
        assert!(drain.words(7).contains("7 bytes"));
    }
}
