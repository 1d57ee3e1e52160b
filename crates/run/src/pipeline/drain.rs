//! Reads on after a stop: data that had come by then belong to the run.
//!
//! ```text
//!  stop ─► what waits in the system is taken, as long as it takes ─► silence ─► over
//!              ├ boards that go on sending ─► a moment ─► over
//!              └ nothing is taken or written any more ─► given up: what waits is lost, and counted
//! ```
//! A slow disk delays the end and loses nothing. Silence is what receive calls find: each that has waited in vain counts for its wait and
//! no longer, however long the system then ran others, and the reader's own waits for whoever writes count for nothing. What waits is
//! known link by link: what one board goes on sending is not what waits of another.

use std::time::{Duration, Instant};

use thalweg_data::LinkId;

use super::Signals;

/// The silence from which a link is taken to have sent everything.
const SILENCE: Duration = Duration::from_millis(100);
/// The time without anything taken or written after which a drain is given up.
const STALLED: Duration = Duration::from_secs(10);
/// The interval at which a drain that goes on is reported.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// The state of a reader's drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// There is no stop, or something may still come.
    No,
    /// Everything that had come by the stop was taken.
    Yes,
    /// The remaining data cannot be taken.
    GivenUp,
}

/// A reader that is being drained.
pub(super) trait Draining {
    /// Bytes that wait in the system for one of its links.
    fn waiting_bytes(&self, link: LinkId) -> u64;

    /// Describes what the reader waits for when it takes nothing, and where to look. The drain knows without it that a recording waits for
    /// disk space.
    fn held_up_by(&self) -> String;
}

/// The progress of a reader's drain, by a clock that is read from the stop on.
#[derive(Debug)]
pub(crate) struct Drain<C = fn() -> Instant> {
    clock: C,
    /// The least time for which boards that go on sending are still read; beyond it, until what waited at the stop is taken.
    at_least: Duration,
    since: Option<Instant>,
    /// When the reader began to listen, and how long it waits at most.
    listens: Option<(Instant, Duration)>,
    /// The time that it has listened in vain since it last received something.
    silent: Duration,
    /// The time at which something was last taken or written, and how much had been written then.
    moved: Option<(Instant, u64)>,
    reported: Option<Instant>,
    taken_bytes: u64,
    /// The bytes that waited at the stop and are left, by link.
    left_bytes: Vec<u64>,
}

impl Drain {
    /// Returns the drain of a reader of `links` links.
    pub(super) fn new(at_least: Duration, links: usize) -> Drain {
        Drain::by_clock(Instant::now, at_least, links)
    }
}

impl<C: Fn() -> Instant> Drain<C> {
    fn by_clock(clock: C, at_least: Duration, links: usize) -> Drain<C> {
        Drain {
            clock,
            at_least,
            since: None,
            listens: None,
            silent: Duration::ZERO,
            moved: None,
            reported: None,
            taken_bytes: 0,
            left_bytes: vec![0; links],
        }
    }

    /// Something came over a link. Before the stop it costs nothing.
    pub(super) fn received(&mut self, link: LinkId, bytes: impl FnOnce() -> u64) {
        if self.since.is_some() {
            let bytes = bytes();
            self.silent = Duration::ZERO;
            if bytes > 0 {
                self.moved = self.moved.map(|(_, written)| ((self.clock)(), written));
            }
            self.taken_bytes += bytes;
            let left = &mut self.left_bytes[link.index()];
            *left = left.saturating_sub(bytes);
        }
    }

    /// Something waits and cannot be taken now: that is no silence.
    pub(super) fn held_up(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// Notes that the reader listens from now on, for at most `wait`.
    pub(super) fn listen(&mut self, wait: Duration) {
        self.listens = self.since.map(|_| ((self.clock)(), wait));
    }

    /// The reader has listened, and nothing came.
    pub(super) fn idle(&mut self) {
        if let Some((listens, wait)) = self.listens.take() {
            // Longer than its wait, the reader was held up; the next call finds what came meanwhile.
            self.silent += wait.min((self.clock)() - listens);
        }
    }

    /// Returns whether a stop was asked for and everything that had come is taken.
    pub(super) fn state(&mut self, reader: &impl Draining, signals: &Signals) -> Drained {
        if !signals.stop_requested() {
            return Drained::No;
        }
        let (now, written) = ((self.clock)(), signals.written());
        let since = *self.since.get_or_insert_with(|| {
            let waits =
                |(link, left): (usize, &mut u64)| *left = reader.waiting_bytes(LinkId::from_index(link));
            self.left_bytes.iter_mut().enumerate().for_each(waits);
            now
        });
        let moved = match self.moved {
            Some((moved, before)) if before == written => moved,
            _ => now,
        };
        self.moved = Some((moved, written));
        if self.silent >= SILENCE || now - since >= self.at_least && self.nothing_is_left(reader) {
            return Drained::Yes;
        }
        if now - moved >= STALLED {
            return Drained::GivenUp;
        }
        self.report(now, since, reader, signals);
        Drained::No
    }

    /// Returns true if what waited at the stop was taken. The system counts more for a datagram than its bytes: no more is left than waits.
    fn nothing_is_left(&mut self, reader: &impl Draining) -> bool {
        for (link, left) in self.left_bytes.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
            *left = reader.waiting_bytes(LinkId::from_index(link)).min(*left);
        }
        self.left_bytes.iter().all(|left| *left == 0)
    }

    fn report(&mut self, now: Instant, since: Instant, reader: &impl Draining, signals: &Signals) {
        if now - self.reported.unwrap_or(since) >= REPORT_EVERY {
            self.reported = Some(now);
            tracing::warn!(
                "{}: {} s after the stop, what came before it is still being taken: {} bytes so far, at most {} wait; {}",
                std::thread::current().name().unwrap_or("a reader"),
                (now - since).as_secs(),
                self.taken_bytes,
                self.left_bytes.iter().sum::<u64>(),
                held_up_by(reader, signals)
            );
        }
    }

    /// Describes a drain that was given up, in which `lost_bytes` were thrown away.
    pub(super) fn text(&self, lost_bytes: u64, reader: &impl Draining, signals: &Signals) -> String {
        format!(
            "{}: {lost_bytes} bytes that had come by the stop were not taken, since nothing was read or written for {} s; they are \
             lost as `abandoned`; {}",
            std::thread::current().name().unwrap_or("a reader"),
            STALLED.as_secs(),
            held_up_by(reader, signals)
        )
    }
}

/// Names what holds a reader up, and where to look.
fn held_up_by(reader: &impl Draining, signals: &Signals) -> String {
    match signals.is_paused() {
        true => "the recording waits for space on the disk: free some".to_owned(),
        false => reader.held_up_by(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::Recorded;
    use super::super::readout::TURN_WAIT;
    use super::*;

    /// Links with this number of bytes waiting on each.
    struct Waiting<const N: usize>([u64; N]);

    impl<const N: usize> Draining for Waiting<N> {
        fn waiting_bytes(&self, link: LinkId) -> u64 {
            self.0[link.index()]
        }

        fn held_up_by(&self) -> String {
            "the disk is slow".to_owned()
        }
    }

    /// A clock that stands until it is moved on.
    struct Clock {
        start: Instant,
        passed: Cell<Duration>,
    }

    impl Clock {
        fn new() -> Clock {
            Clock { start: Instant::now(), passed: Cell::default() }
        }

        fn pass(&self, time: Duration) {
            self.passed.set(self.passed.get() + time);
        }

        fn drain(&self, links: usize) -> Drain<impl Fn() -> Instant> {
            Drain::by_clock(|| self.start + self.passed.get(), Duration::ZERO, links)
        }

        /// The reader listens once, and nothing comes.
        fn listen_in_vain(&self, drain: &mut Drain<impl Fn() -> Instant>) {
            drain.listen(TURN_WAIT);
            self.pass(TURN_WAIT);
            drain.idle();
        }
    }

    /// Turns in which nothing comes until that is a silence.
    fn turns_of_silence() -> usize {
        (SILENCE.as_nanos() / TURN_WAIT.as_nanos()) as usize
    }

    #[test]
    fn nothing_ends_before_the_stop_and_silence_ends_it_after() {
        let (clock, signals) = (Clock::new(), Signals::default());
        let mut drain = clock.drain(1);
        clock.listen_in_vain(&mut drain);
        assert_eq!(drain.state(&Waiting([0]), &signals), Drained::No);
        signals.request_stop();
        assert_eq!(drain.state(&Waiting([1000]), &signals), Drained::No, "something waits");
        clock.pass(SILENCE);
        assert_eq!(drain.state(&Waiting([1000]), &signals), Drained::No, "and nobody has listened");
        for turn in 1..=turns_of_silence() {
            assert_eq!(drain.state(&Waiting([1000]), &signals), Drained::No, "turn {turn}");
            clock.listen_in_vain(&mut drain);
        }
        assert_eq!(drain.state(&Waiting([1000]), &signals), Drained::Yes, "and does not come");
    }

    #[test]
    fn a_reader_that_is_stopped_in_a_turn_does_not_take_that_for_silence() {
        let (clock, signals) = (Clock::new(), Signals::default());
        let mut drain = clock.drain(1);
        signals.request_stop();
        assert_eq!(drain.state(&Waiting([1000]), &signals), Drained::No);
        drain.listen(TURN_WAIT);
        // The reader listened and found nothing; then the system ran other threads, and something came meanwhile.
        clock.pass(2 * SILENCE);
        drain.idle();
        assert_eq!(drain.state(&Waiting([1000]), &signals), Drained::No, "listened to once");
        drain.listen(TURN_WAIT);
        drain.received(LinkId(0), || 1000);
        assert_eq!(drain.state(&Waiting([0]), &signals), Drained::Yes, "and taken");
    }

    #[test]
    fn a_board_that_goes_on_is_left_when_what_waited_is_taken() {
        let (clock, signals) = (Clock::new(), Signals::default());
        let mut drain = clock.drain(1);
        signals.request_stop();
        assert_eq!(drain.state(&Waiting([1000]), &signals), Drained::No);
        for _ in 0..4 {
            clock.pass(SILENCE / 2);
            drain.received(LinkId(0), || 200);
            assert_eq!(drain.state(&Waiting([1_000_000]), &signals), Drained::No, "asked once");
        }
        drain.received(LinkId(0), || 200);
        assert_eq!(drain.state(&Waiting([1_000_000]), &signals), Drained::Yes);
    }

    #[test]
    fn draining_goes_on_while_something_is_taken_or_written_and_ends_when_nothing_is() {
        let (clock, signals) = (Clock::new(), Signals::default());
        let mut drain = clock.drain(1);
        signals.request_stop();
        assert_eq!(drain.state(&Waiting([1 << 40]), &signals), Drained::No);
        for turn in 0..8 {
            // A writer held the reader up for longer than a silence: the reader was not listening meanwhile.
            clock.pass(STALLED - SILENCE);
            match turn % 2 {
                0 => signals.note_written(),
                _ => drain.received(LinkId(0), || 1),
            }
            assert_eq!(drain.state(&Waiting([1 << 40]), &signals), Drained::No, "turn {turn}");
        }
        drain.held_up();
        clock.pass(STALLED);
        drain.held_up();
        assert_eq!(
            drain.state(&Waiting([1 << 40]), &signals),
            Drained::GivenUp,
            "something is held up, and nothing moves"
        );
        let text = drain.text(7, &Waiting([0]), &signals);
        assert!(text.contains("7 bytes") && text.ends_with("the disk is slow"), "{text}");
        signals.set_paused(Recorded::Events, Some("the disk is full"));
        let text = drain.text(7, &Waiting([0]), &signals);
        assert!(text.ends_with("waits for space on the disk: free some"), "{text}");
    }

    #[test]
    fn what_one_board_goes_on_sending_is_not_what_waits_of_another() {
        let (clock, signals) = (Clock::new(), Signals::default());
        let mut drain = clock.drain(2);
        signals.request_stop();
        assert_eq!(drain.state(&Waiting([1000, 500]), &signals), Drained::No);
        drain.received(LinkId(0), || 5000);
        assert_eq!(drain.state(&Waiting([700, 500]), &signals), Drained::No, "500 bytes of the second wait");
        // The system had counted more than their bytes.
        drain.received(LinkId(1), || 400);
        assert_eq!(drain.state(&Waiting([700, 0]), &signals), Drained::Yes);
    }
}
