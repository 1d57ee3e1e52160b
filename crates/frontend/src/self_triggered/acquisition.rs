//! The state of an emulated board from arming to the end of its run.
//!
//! ```text
//!  idle ─ arm ─► armed ─ start ─► running ─ stop, or duration over ─► armed ─ disarm ─► idle
//! ```
//! It keeps the host's time and the duration of the run; the board itself determines what is measured.

/// Limit of a run, since board time beyond 104 days cannot be expressed in picoseconds.
pub const LONGEST_RUN_NS: u64 = 9_000_000_000_000_000;

/// How long a board that is behind its time goes on sending after a stop.
pub const CATCH_UP_NS: u64 = 1_000_000_000;

/// The state of the board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Waits to be armed.
    #[default]
    Idle,
    /// Waits for the start.
    Armed,
    /// Takes data.
    Running,
}

impl State {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Armed => "armed",
            State::Running => "running",
        }
    }
}

/// A command that does not fit the board's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the board is {} and cannot take `{command}`; {advice}", state.word())]
pub struct BoardError {
    /// The state of the board at that time.
    pub state: State,
    /// The command that was refused.
    pub command: &'static str,
    /// What to do.
    pub advice: &'static str,
}

/// State and times of a board's run, in nanoseconds of the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acquisition {
    state: State,
    started_ns: u64,
    end_ns: u64,
    stopped_ns: Option<u64>,
    /// The board is idle when the run is over, not armed.
    is_disarmed: bool,
    is_cut_short: bool,
}

impl Acquisition {
    /// The state of the board.
    pub fn state(&self) -> State {
        self.state
    }

    /// Makes the board ready to start.
    ///
    /// # Errors
    /// While it runs.
    pub fn arm(&mut self) -> Result<(), BoardError> {
        if self.state == State::Running {
            return Err(self.refusal("arm", "stop it first"));
        }
        self.state = State::Armed;
        Ok(())
    }

    /// Starts a run at `now_ns`, which ends by itself after `duration_s`, if given.
    ///
    /// # Errors
    /// When the board is not armed, or is running.
    pub fn start(&mut self, now_ns: u64, duration_s: Option<f64>) -> Result<(), BoardError> {
        match self.state {
            State::Idle => return Err(self.refusal("start", "arm it first")),
            State::Running => return Err(self.refusal("start", "stop it first")),
            State::Armed => self.state = State::Running,
        }
        let longest_ns = duration_s.map_or(LONGEST_RUN_NS, |seconds| (seconds * 1e9) as u64);
        self.started_ns = now_ns;
        self.end_ns = now_ns.saturating_add(longest_ns.min(LONGEST_RUN_NS));
        (self.stopped_ns, self.is_disarmed, self.is_cut_short) = (None, false, false);
        Ok(())
    }

    /// Ends the run at `now_ns`, or at its own end if that is earlier; data measured until then are still sent, for [`CATCH_UP_NS`].
    /// A host that is too slow for the board would go on for many times as long as the run has lasted.
    pub fn stop(&mut self, now_ns: u64) {
        self.end_ns = self.end_ns.min(now_ns.max(self.started_ns));
        self.stopped_ns.get_or_insert(now_ns);
    }

    /// Disarms the board: at once, or when the run that ends at `now_ns` has sent what it measured. Where nobody has taken that in time, the
    /// next call does not wait for it any more.
    pub fn disarm(&mut self, now_ns: u64) {
        match self.state {
            State::Running if !self.is_given_up(now_ns) => {
                self.stop(now_ns);
                self.is_disarmed = true;
            }
            _ => self.reset(),
        }
    }

    /// Ends the run and disarms the board at once.
    pub fn reset(&mut self) {
        self.state = State::Idle;
    }

    /// The host's time up to which the run has data at `now_ns`: its start, when it has been stopped for so long that nothing more is sent.
    pub fn until_ns(&self, now_ns: u64) -> u64 {
        if self.is_given_up(now_ns) { self.started_ns } else { now_ns.min(self.end_ns) }
    }

    fn is_given_up(&self, now_ns: u64) -> bool {
        self.stopped_ns.is_some_and(|stopped_ns| now_ns > stopped_ns.saturating_add(CATCH_UP_NS))
    }

    /// Returns how long the run has lasted at `now_ns`.
    pub fn elapsed_ns(&self, now_ns: u64) -> u64 {
        self.until_ns(now_ns).saturating_sub(self.started_ns).min(LONGEST_RUN_NS)
    }

    /// Returns whether the run has been ended.
    pub fn is_stopped(&self) -> bool {
        self.stopped_ns.is_some()
    }

    /// Returns whether the run ended before everything was sent that was due at its stop.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Leaves the run if it is over at `now_ns`; returns whether it is.
    pub fn leave(&mut self, now_ns: u64) -> bool {
        let is_over = now_ns >= self.end_ns;
        if is_over {
            self.state = if self.is_disarmed { State::Idle } else { State::Armed };
            // A board without a pace is stopped at its start: it ends wherever it is.
            self.is_cut_short = self.is_given_up(now_ns) && self.end_ns > self.started_ns;
        }
        is_over
    }

    fn refusal(&self, command: &'static str, advice: &'static str) -> BoardError {
        BoardError { state: self.state, command, advice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn started(at_ms: u64) -> Acquisition {
        let mut acquisition = Acquisition::default();
        acquisition.arm().and_then(|()| acquisition.start(at_ms * MS, None)).expect("idle");
        acquisition
    }

    #[test]
    fn what_is_due_at_the_stop_is_sent_for_a_while() {
        let mut acquisition = started(100);
        assert_eq!(acquisition.elapsed_ns(300 * MS), 200 * MS);
        acquisition.stop(400 * MS);
        assert_eq!(acquisition.elapsed_ns(1400 * MS), 300 * MS, "the board is behind, and catches up");
        assert_eq!(acquisition.elapsed_ns(1401 * MS), 0, "whatever it has sent by then is all");
        assert!(acquisition.leave(1401 * MS) && acquisition.is_cut_short());
        acquisition.start(1500 * MS, None).expect("armed");
        acquisition.stop(1600 * MS);
        assert!(acquisition.leave(1700 * MS) && !acquisition.is_cut_short());
    }

    #[test]
    fn a_running_board_that_is_disarmed_is_idle_when_it_has_sent_what_it_measured() {
        let mut acquisition = started(0);
        acquisition.disarm(100 * MS);
        assert_eq!(acquisition.state(), State::Running, "it still sends");
        assert!(acquisition.leave(101 * MS));
        assert_eq!(acquisition.state(), State::Idle);
        acquisition = started(0);
        [100, 1100].into_iter().for_each(|at_ms| acquisition.disarm(at_ms * MS));
        assert_eq!(acquisition.state(), State::Running, "somebody may still take it");
        acquisition.disarm(1101 * MS);
        assert_eq!(acquisition.state(), State::Idle, "nobody has");
    }

    #[test]
    fn a_second_stop_gives_no_more_time() {
        let mut acquisition = started(0);
        acquisition.stop(100 * MS);
        acquisition.stop(900 * MS);
        assert_eq!(acquisition.elapsed_ns(1000 * MS), 100 * MS);
        assert_eq!(acquisition.elapsed_ns(1101 * MS), 0);
    }
}
