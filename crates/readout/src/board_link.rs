//! A board's data over all its connections, and the keeper that watches the board and opens it again.
//!
//! ```text
//!  BoardKeeper (DeviceControl) ─ keep-alive ─► gone ─► opened, armed and started again ─┐
//!        └──────────── BoardLink: gone? closing? the next connection ◄────────────┘
//!  BoardSource (Source) ◄──┘   gone: a loss at once, of unknown extent; then the next connection's data
//! ```
//! The keeper may wait seconds for a reply and has a thread of its own; the source looks at two flags per receive call.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_data::{
    BoardStatus, ControlError, Counters, DeviceControl, Frames, LossReason, Received, Source, SourceError,
    Unit,
};
use thalweg_frontend::format::{BoardControl, BoardFacts, DataPlace};

use crate::clock::RunClock;
use crate::control::BoardPlace;
use crate::settings::Settings;

/// Between two attempts to open a board that is gone.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// The time that one attempt waits for the control connection.
const CONNECT_WAIT: Duration = Duration::from_secs(1);

/// What the source and the keeper of one board share.
#[derive(Default)]
pub(crate) struct BoardLink {
    /// The board does not answer, or its data connection has ended.
    gone: AtomicBool,
    /// The run stops the board: what ends now is no loss.
    closing: AtomicBool,
    /// A connection that takes the place of the one before waits in `next`.
    is_back: AtomicBool,
    /// `None` for datagrams, which go on coming to the same socket.
    next: Mutex<Option<Box<dyn Source>>>,
}

impl BoardLink {
    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn next(&self) -> MutexGuard<'_, Option<Box<dyn Source>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, next: Option<Box<dyn Source>>) {
        let mut waiting = self.next();
        *waiting = next;
        self.gone.store(false, Ordering::Release);
        self.is_back.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Box<dyn Source>> {
        self.next().take()
    }

    /// The connection that the source reads has ended. That of one whose successor waits says nothing about the board.
    fn has_ended(&self) {
        let _next = self.next();
        if !self.is_back.load(Ordering::Relaxed) {
            self.gone.store(true, Ordering::Release);
        }
    }
}

/// The data of one board.
pub(crate) struct BoardSource {
    live: Box<dyn Source>,
    link: Arc<BoardLink>,
    clock: RunClock,
    /// Whether a stream that has ended is waited for.
    reopens: bool,
    /// The loss of the present outage is counted.
    gone: bool,
    connections: u32,
    /// Of connections that are over, and of outages.
    past: Counters,
    /// The same with the present connection, once there has been an outage.
    sum: Option<Box<Counters>>,
}

impl BoardSource {
    pub(crate) fn new(
        live: Box<dyn Source>,
        link: Arc<BoardLink>,
        clock: RunClock,
        reopens: bool,
    ) -> BoardSource {
        BoardSource {
            live,
            link,
            clock,
            reopens,
            gone: false,
            connections: 0,
            past: Counters::default(),
            sum: None,
        }
    }

    /// What the board measures from now on is lost, and nobody can say how much that is.
    fn lose(&mut self) {
        let unit = if self.live.is_stream() { Unit::Bytes } else { Unit::Datagrams };
        self.past.input(unit, 1);
        self.past.lost(LossReason::BoardGone, unit, 1);
        self.gone = true;
    }

    #[cold]
    fn come_back(&mut self) {
        if !self.gone {
            // Gone and back between two receive calls.
            self.lose();
        }
        if let Some(next) = self.link.take() {
            self.past.add_all(self.live.counters());
            self.live = next;
        }
        self.gone = false;
        self.connections += 1;
    }

    fn add_up(&mut self) {
        let sum = self.sum.get_or_insert_default();
        sum.as_mut().clone_from(&self.past);
        sum.add_all(self.live.counters());
    }
}

impl Source for BoardSource {
    fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError> {
        if self.link.is_back.load(Ordering::Relaxed) && self.link.is_back.swap(false, Ordering::AcqRel) {
            self.come_back();
        }
        let received = self.live.receive(frames, wait);
        let closing = self.link.closing.load(Ordering::Relaxed);
        let mut received = match received {
            Err(error) if self.reopens && !closing => {
                if !self.gone {
                    tracing::warn!("{error}; the board counts as gone until it is opened again");
                }
                Received::End
            }
            received => received?,
        };
        if received == Received::End && !closing {
            self.link.has_ended();
        }
        if !self.gone && !closing && self.link.gone.load(Ordering::Relaxed) {
            self.lose();
        }
        if received == Received::End && self.reopens && !closing {
            std::thread::sleep(wait);
            frames.header.mark = self.clock.mark();
            received = Received::Idle;
        }
        if self.gone || self.connections > 0 {
            self.add_up();
        }
        Ok(received)
    }

    fn carry(&mut self, bytes: usize) {
        self.live.carry(bytes);
    }

    fn give_carried(&mut self, frames: &mut Frames) {
        self.live.give_carried(frames);
    }

    fn abandon(&mut self) -> Result<(), SourceError> {
        let result = self.live.abandon();
        if self.sum.is_some() {
            self.add_up();
        }
        result
    }

    fn counters(&self) -> &Counters {
        self.sum.as_deref().unwrap_or_else(|| self.live.counters())
    }

    fn waiting_bytes(&self) -> u64 {
        self.live.waiting_bytes()
    }

    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        self.live.drop_counters()
    }

    fn unreadable(&self) -> Option<String> {
        self.live.unreadable()
    }

    fn description(&self) -> String {
        self.live.description()
    }

    fn is_stream(&self) -> bool {
        self.live.is_stream()
    }

    fn connections(&self) -> u32 {
        self.connections
    }
}

/// Opens the stream that a board names.
pub(crate) type OpenStream =
    Box<dyn FnMut(Option<DataPlace>) -> Result<Box<dyn Source>, ControlError> + Send>;

/// The way in which the data connection of a board is opened again.
pub(crate) enum Reopen {
    /// A new stream, to the port that the board names.
    Stream(OpenStream),
    /// The same socket, from which the board has to receive again.
    Datagrams(UdpSocket),
}

/// Drives a board and watches it.
pub(crate) struct BoardKeeper {
    /// `None` while it is gone.
    board: Option<Box<dyn BoardControl>>,
    place: BoardPlace,
    /// What it was when the run began.
    facts: BoardFacts,
    parameters: Vec<(String, String)>,
    arm_timeout: Option<Duration>,
    link: Arc<BoardLink>,
    /// `None` where the configuration does not want it.
    reopen: Option<Reopen>,
    retry_at: Instant,
    /// It was said why what is found in its place is left alone.
    is_left_alone: bool,
    /// Its clock was not locked when it was looked at last.
    is_unlocked: bool,
    acquisition: Acquisition,
    /// Somebody has disarmed it: another program may run it since.
    is_disarmed: bool,
}

/// What we know of the acquisition of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acquisition {
    /// Not started by us, or stopped since.
    NotOurs,
    /// Started by us; a board may report some time later that it runs.
    Started,
    /// Started by us, and seen to run.
    Running,
    /// It has ended of itself.
    Ended,
}

impl BoardKeeper {
    pub(crate) fn new(
        (place, mut board): (BoardPlace, Box<dyn BoardControl>),
        settings: &Settings,
        link: Arc<BoardLink>,
        reopen: Option<Reopen>,
    ) -> BoardKeeper {
        let arm_timeout = settings.arm_timeout();
        arm_timeout.into_iter().for_each(|timeout| board.set_arm_timeout(timeout));
        BoardKeeper {
            place,
            facts: board.known_facts(),
            board: Some(board),
            parameters: settings.parameters.clone(),
            arm_timeout,
            link,
            reopen,
            retry_at: Instant::now(),
            is_left_alone: false,
            is_unlocked: false,
            acquisition: Acquisition::NotOurs,
            is_disarmed: false,
        }
    }

    fn board(&mut self) -> Result<&mut Box<dyn BoardControl>, ControlError> {
        self.board.as_mut().ok_or_else(|| ControlError {
            board: self.place.to_string(),
            message: "the board went away in the run and is not back; see its power, its cable and its error lights"
                .to_owned(),
        })
    }

    fn is_lost(&mut self, message: String) -> String {
        self.link.gone.store(true, Ordering::Release);
        if let Some(mut board) = self.board.take() {
            board.abandon();
        }
        self.retry_at = Instant::now() + RETRY_EVERY;
        let then = match self.reopen {
            Some(_) => "it is opened, armed and started again when it answers",
            None => "it stays away in this run (`reconnect = false`)",
        };
        format!("{}: the board is gone, and what it measures is lost: {message}; {then}", self.place)
    }

    fn open_again(&mut self) -> Result<Box<dyn BoardControl>, ControlError> {
        let mut board = self.place.open(CONNECT_WAIT)?;
        self.arm_timeout.into_iter().for_each(|timeout| board.set_arm_timeout(timeout));
        if board.known_facts() != self.facts {
            let message = "another board answers than before: it is left alone in this run".to_owned();
            return Err(self.left_alone(self.place.failed(message)));
        }
        if self.is_disarmed {
            board.check_idle().map_err(|taken| self.left_alone(taken))?;
        } else {
            // Should it still be running, as we have started it, it cannot be armed.
            let _idle_already = board.disarm();
        }
        board.prepare(&self.parameters)?;
        let next = match &mut self.reopen {
            Some(Reopen::Stream(open)) => Some(open(board.data())?),
            Some(Reopen::Datagrams(socket)) => {
                let port = socket.local_addr().map_or(0, |local| local.port());
                let send = || match socket.send(&[]) {
                    Err(cause) if cause.kind() != std::io::ErrorKind::ConnectionRefused => {
                        Err(cause.to_string())
                    }
                    _ => Ok(()),
                };
                self.place.introduce(&mut *board, port, send, CONNECT_WAIT)?;
                None
            }
            None => None,
        };
        board.arm()?;
        // One that starts by a signal may also be stopped by it.
        self.acquisition = Acquisition::NotOurs;
        if board.start_signal().is_none() {
            board.start()?;
            self.acquisition = Acquisition::Started;
        }
        (self.is_disarmed, self.is_left_alone) = (false, false);
        self.link.give(next);
        Ok(board)
    }

    /// Says once why a board is not opened again.
    fn left_alone(&mut self, error: ControlError) -> ControlError {
        if !std::mem::replace(&mut self.is_left_alone, true) {
            tracing::error!("{error}");
        }
        error
    }

    /// Looks at what a board that answers reports of itself.
    fn status_news(&mut self) -> Option<String> {
        let status = self.board.as_mut()?.status()?;
        match (self.acquisition, status.is_running) {
            (Acquisition::Started, true) => self.acquisition = Acquisition::Running,
            (Acquisition::NotOurs | Acquisition::Ended, _) | (_, true) => {}
            (_, false) if !status.is_armed => {
                self.is_disarmed = true;
                let message = format!(
                    "it does not run any more, and reports \"{}\"; see whether another program has stopped it",
                    status.text
                );
                return Some(self.is_lost(message));
            }
            (Acquisition::Running, false) => {
                self.acquisition = Acquisition::Ended;
                return Some(format!(
                    "{}: the acquisition of the board has ended, and nothing more comes from it in this run: it reports \"{}\"; see its \
                     settings, and whether another program has stopped it, if that was not intended",
                    self.place, status.text
                ));
            }
            (Acquisition::Started, false) => {}
        }
        self.lock_news(&status)
    }

    /// Reports a change of the lock of its clock.
    fn lock_news(&mut self, status: &BoardStatus) -> Option<String> {
        let was_unlocked = std::mem::replace(&mut self.is_unlocked, !status.is_locked);
        match (was_unlocked, self.is_unlocked) {
            (false, true) => Some(format!(
                "{}: its clock has lost its lock, and its times cannot be compared with those of other boards: it reports \"{}\"; \
                 check the clock cables",
                self.place, status.text
            )),
            (true, false) => {
                Some(format!("{}: its clock is locked again: it reports \"{}\"", self.place, status.text))
            }
            _ => None,
        }
    }
}

impl DeviceControl for BoardKeeper {
    fn get(&mut self, path: &str) -> Result<String, ControlError> {
        self.board()?.get(path)
    }

    fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
        self.board()?.set(path, value)
    }

    fn arm(&mut self) -> Result<(), ControlError> {
        self.board()?.arm()
    }

    fn start_signal(&mut self) -> Option<String> {
        self.board.as_mut()?.start_signal()
    }

    fn status(&mut self) -> Option<BoardStatus> {
        let status = self.board.as_mut()?.status()?;
        self.is_unlocked = !status.is_locked;
        Some(status)
    }

    fn start(&mut self) -> Result<(), ControlError> {
        self.board()?.start()?;
        self.acquisition = Acquisition::Started;
        Ok(())
    }

    fn stop(&mut self) -> Result<(), ControlError> {
        self.acquisition = Acquisition::NotOurs;
        self.link.closing.store(true, Ordering::Release);
        self.board()?.stop()
    }

    fn disarm(&mut self) -> Result<(), ControlError> {
        self.board()?.disarm()
    }

    fn service(&mut self) -> Option<String> {
        if let Some(board) = &mut self.board {
            let gone = self.link.is_gone().then(|| "its data connection has ended".to_owned());
            let gone = gone.or_else(|| board.keep_alive().err().map(|error| error.message));
            return match gone {
                Some(message) => Some(self.is_lost(message)),
                None => self.status_news(),
            };
        }
        if self.reopen.is_none() || Instant::now() < self.retry_at {
            return None;
        }
        match self.open_again() {
            Ok(mut board) => {
                let signal = board.start_signal();
                self.board = Some(board);
                Some(match signal {
                    None => format!(
                        "{}: the board is back, and was armed and started again; its times go on from its new start, as accurately as that was seen here",
                        self.place
                    ),
                    Some(signal) => format!(
                        "{}: the board is back, and armed; it starts by {signal}, which may not come before the next run",
                        self.place
                    ),
                })
            }
            Err(error) => {
                self.link.gone.store(true, Ordering::Release);
                self.retry_at = Instant::now() + RETRY_EVERY;
                tracing::debug!("{error}");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A stream whose receive calls have these results; an error without a result left.
    struct Script {
        left: VecDeque<Received>,
        /// Called in each receive call, as what another thread does meanwhile.
        meanwhile: Box<dyn FnMut() + Send>,
        counters: Counters,
    }

    impl Script {
        fn of<const N: usize>(results: [Received; N]) -> Box<Script> {
            Script::with(results, || {})
        }

        fn with<const N: usize>(
            results: [Received; N],
            meanwhile: impl FnMut() + Send + 'static,
        ) -> Box<Script> {
            let meanwhile = Box::new(meanwhile);
            Box::new(Script { left: results.into(), meanwhile, counters: Counters::default() })
        }
    }

    impl Source for Script {
        fn receive(&mut self, _: &mut Frames, _: Duration) -> Result<Received, SourceError> {
            (self.meanwhile)();
            let failed = || SourceError { place: "board".to_owned(), message: "timed out".to_owned() };
            self.left.pop_front().ok_or_else(failed)
        }

        fn carry(&mut self, _: usize) {}

        fn counters(&self) -> &Counters {
            &self.counters
        }

        fn description(&self) -> String {
            "a script".to_owned()
        }

        fn is_stream(&self) -> bool {
            true
        }
    }

    fn source(live: Box<Script>, link: &Arc<BoardLink>, reopens: bool) -> BoardSource {
        BoardSource::new(live, link.clone(), RunClock::start(), reopens)
    }

    fn receive(source: &mut BoardSource) -> Result<Received, SourceError> {
        source.receive(&mut Frames::default(), Duration::ZERO)
    }

    fn outages(source: &BoardSource) -> u64 {
        source.counters().total_lost(LossReason::BoardGone, Unit::Bytes)
    }

    #[test]
    fn a_board_whose_connection_fails_is_gone_until_the_next_connection() {
        let link = Arc::<BoardLink>::default();
        let mut source = source(Script::of([Received::Data]), &link, true);
        assert_eq!(receive(&mut source).expect("data"), Received::Data);
        for _ in 0..2 {
            assert_eq!(receive(&mut source).expect("an outage"), Received::Idle);
            assert!(link.is_gone());
            assert_eq!(outages(&source), 1);
        }
        link.give(Some(Script::of([Received::Data])));
        assert_eq!(receive(&mut source).expect("the next connection"), Received::Data);
        assert!(!link.is_gone());
        assert_eq!((outages(&source), source.connections()), (1, 1));
    }

    #[test]
    fn a_failed_connection_that_is_not_opened_again_ends_the_source() {
        let link = Arc::<BoardLink>::default();
        receive(&mut source(Script::of([]), &link, false)).expect_err("it stays away");
        link.closing.store(true, Ordering::Release);
        receive(&mut source(Script::of([]), &link, true)).expect_err("the run ends");
    }

    /// What a board reports.
    #[derive(Clone, Copy)]
    enum Reported {
        Idle,
        Armed,
        Running,
    }

    struct Reports(Arc<Mutex<Reported>>);

    impl DeviceControl for Reports {
        fn get(&mut self, _: &str) -> Result<String, ControlError> {
            Ok(String::new())
        }

        fn set(&mut self, _: &str, _: &str) -> Result<(), ControlError> {
            Ok(())
        }

        fn status(&mut self) -> Option<BoardStatus> {
            let (is_armed, is_running, text) = match *self.0.lock().expect("no panic") {
                Reported::Idle => (false, false, "not armed"),
                Reported::Armed => (true, false, "armed"),
                Reported::Running => (true, true, "running"),
            };
            Some(BoardStatus { is_armed, is_running, is_locked: true, text: text.to_owned() })
        }
    }

    impl BoardControl for Reports {}

    /// The keeper of a board, and a way to say what that reports.
    fn keeper(link: &Arc<BoardLink>) -> (BoardKeeper, impl Fn(Reported)) {
        let reported = Arc::new(Mutex::new(Reported::Armed));
        let entry = thalweg_frontend::format::Format::control_of("dig2").expect("a family has it");
        let place = BoardPlace { entry, address: ([127, 0, 0, 1], 1).into() };
        let settings = Settings::new(crate::url::SourceUrl::parse("dig2://127.0.0.1:1").expect("a URL"));
        let board = Box::new(Reports(reported.clone()));
        let keeper = BoardKeeper::new((place, board), &settings, link.clone(), None);
        (keeper, move |report| *reported.lock().expect("no panic") = report)
    }

    #[test]
    fn a_started_board_that_somebody_has_disarmed_is_gone() {
        let link = Arc::<BoardLink>::default();
        let (mut keeper, report) = keeper(&link);
        keeper.start().expect("it is there");
        report(Reported::Running);
        assert_eq!(keeper.service(), None);
        report(Reported::Idle);
        let news = keeper.service().expect("it was disarmed");
        for word in ["the board is gone", "does not run any more", "\"not armed\""] {
            assert!(news.contains(word), "{word} in {news}");
        }
        assert!(link.is_gone());
    }

    #[test]
    fn a_board_whose_acquisition_has_ended_is_not_gone() {
        let link = Arc::<BoardLink>::default();
        let (mut keeper, report) = keeper(&link);
        keeper.start().expect("it is there");
        assert_eq!(keeper.service(), None, "it has not begun yet");
        report(Reported::Running);
        assert_eq!(keeper.service(), None);
        report(Reported::Armed);
        let news = keeper.service().expect("it has ended");
        assert!(news.contains("has ended") && news.contains("\"armed\""), "{news}");
        assert_eq!(keeper.service(), None, "it is said once");
        assert!(!link.is_gone());
        report(Reported::Idle);
        assert_eq!(keeper.service(), None, "nothing more was to come");
        assert!(!link.is_gone());
    }

    #[test]
    fn a_board_that_was_not_started_or_is_stopped_may_stand_still() {
        let link = Arc::<BoardLink>::default();
        let (mut keeper, report) = keeper(&link);
        assert_eq!(keeper.service(), None, "it waits for its signal");
        keeper.start().expect("it is there");
        keeper.stop().expect("it is there");
        report(Reported::Idle);
        assert_eq!(keeper.service(), None, "the run is over");
        assert!(!link.is_gone());
    }

    #[test]
    fn the_end_of_a_connection_whose_successor_waits_does_not_make_the_board_gone() {
        let link = Arc::<BoardLink>::default();
        let keeper = link.clone();
        let reopen = move || keeper.give(Some(Script::of([Received::Data])));
        let mut source = source(Script::with([Received::End], reopen), &link, true);
        assert_eq!(receive(&mut source).expect("an outage"), Received::Idle);
        assert!(!link.is_gone(), "the keeper has just opened it");
        assert_eq!(receive(&mut source).expect("the next connection"), Received::Data);
        assert!(!link.is_gone());
        assert_eq!((outages(&source), source.connections()), (1, 1));
    }
}
