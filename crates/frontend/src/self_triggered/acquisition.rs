//! The state of an emulated board from arming to the end of its run.
//!
//! ```text
//!  idle ─ arm ─► armed ─ start ─► running ─ stop, or duration over ─► armed ─ disarm ─► idle
//! ```
//! It keeps the host's time and the duration of the run; the board itself determines what is measured.

/// Limit of a run, since board time beyond 104 days cannot be expressed in picoseconds.
pub const LONGEST_RUN_NS: u64 = 9_000_000_000_000_000;

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
    is_stopped: bool,
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
        self.is_stopped = false;
        Ok(())
    }

    /// Ends the run at `now_ns`, or at its own end if that is earlier; data measured until then are still sent.
    pub fn stop(&mut self, now_ns: u64) {
        self.end_ns = self.end_ns.min(now_ns.max(self.started_ns));
        self.is_stopped = true;
    }

    /// Ends the run and disarms the board.
    pub fn reset(&mut self) {
        self.state = State::Idle;
    }

    /// The host's time up to which the run has data at `now_ns`.
    pub fn until_ns(&self, now_ns: u64) -> u64 {
        now_ns.min(self.end_ns)
    }

    /// Returns how long the run has lasted at `now_ns`.
    pub fn elapsed_ns(&self, now_ns: u64) -> u64 {
        self.until_ns(now_ns).saturating_sub(self.started_ns).min(LONGEST_RUN_NS)
    }

    /// Returns whether the run has been ended.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Leaves the run if it is over at `now_ns`; returns whether it is.
    pub fn leave(&mut self, now_ns: u64) -> bool {
        let is_over = now_ns >= self.end_ns;
        if is_over {
            self.state = State::Armed;
        }
        is_over
    }

    fn refusal(&self, command: &'static str, advice: &'static str) -> BoardError {
        BoardError { state: self.state, command, advice }
    }
}
