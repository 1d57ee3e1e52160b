//! Takes run after run of a configuration: a server starts, watches, commands and ends runs with it.
//!
//! ```text
//!  start(title, comment, end) ─► a thread: run ─► summary ─┐ until somebody starts the next one
//!         ▲ refused while there is one                     ▼
//!  run() ─► RunHandle: state, commands             last() ─► how it ended
//!  start_at(time) ─► start_if_due() ─► the next run, unless somebody has asked for a stop
//! ```

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::RunState;

use crate::config::Configuration;
use crate::supervise::{CommandError, EndWhen, RunCommand, RunHandle, Summary, Watch};

/// Between two looks at whether a run has ended.
const CHECK_EVERY: Duration = Duration::from_millis(5);
/// What to do while a run ends, which others want to follow.
const STILL_ENDING: &str = "wait until it has ended, and start again";

/// What is said of a run before it is started. As JSON: `{"title": "with source", "comment": "…", "seconds": 600}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NewRun {
    /// Its title; without it, that of the configuration.
    pub title: Option<String>,
    /// Words about it, kept with the recording.
    pub comment: Option<String>,
    /// When it ends by itself; without any, as the configuration says.
    #[serde(flatten)]
    pub end: EndWhen,
    /// `false`: its data are not kept; `run.json`, the ledger, losses and spectra are. Otherwise as the configuration says.
    pub record: Option<bool>,
}

/// The end of a run: its summary, or the reason why there is none.
pub type Ended = Result<Summary, String>;

#[derive(Default)]
struct Standing {
    run: RunHandle,
    thread: Option<JoinHandle<Ended>>,
    last: Option<Arc<Ended>>,
    /// True if a stop was asked for since the present run, or the last one, was started.
    was_asked_to_stop: bool,
    /// When the next run starts by itself.
    start_at: Option<Instant>,
}

/// Runs of one configuration, one at a time. Shared by reference between threads; dropping it ends the run in good order.
pub struct RunControl {
    configuration: Mutex<Configuration>,
    standing: Mutex<Standing>,
}

impl RunControl {
    /// Run control that is ready to start runs. Nothing is opened yet.
    pub fn new(configuration: Configuration) -> RunControl {
        RunControl { configuration: Mutex::new(served(configuration)), standing: Mutex::default() }
    }

    /// Takes the runs from the next one on with another configuration.
    pub fn configure(&self, configuration: Configuration) {
        *locked(&self.configuration) = served(configuration);
    }

    /// The run that is there, or was there last; before the first, one whose state is `configured`.
    pub fn run(&self) -> RunHandle {
        self.settled().run.clone()
    }

    /// Returns how the last run ended, once it has.
    pub fn last(&self) -> Option<Arc<Ended>> {
        self.settled().last.clone()
    }

    /// Returns true if the last run is put away, so that the next can be started. This is a moment later than its state says that it is
    /// over.
    pub fn is_idle(&self) -> bool {
        self.settled().thread.is_none()
    }

    /// Has the next run started at this time by [`start_if_due`](RunControl::start_if_due). Nothing follows a run that somebody has
    /// asked to stop, however it ended; a stop asked for until then takes the time back. Returns true if there is such a time.
    pub(crate) fn start_at(&self, time: Option<Instant>) -> bool {
        let mut standing = self.settled();
        standing.start_at = time.filter(|_| standing.thread.is_none() && !standing.was_asked_to_stop);
        standing.start_at.is_some()
    }

    /// How long it is until the next run starts by itself; `None` if none is to.
    pub(crate) fn next_run_in(&self) -> Option<Duration> {
        Some(self.settled().start_at?.saturating_duration_since(Instant::now()))
    }

    /// Returns true if the time is there at which the next run is to start by itself.
    pub(crate) fn is_due(&self) -> bool {
        self.settled().is_due()
    }

    /// Starts the next run if it is due; `None` if it is not, or no longer.
    pub(crate) fn start_if_due(&self) -> Option<Result<RunHandle, CommandError>> {
        let mut standing = self.settled();
        standing.is_due().then(|| {
            standing.start_at = None;
            self.start_next(&mut standing, &NewRun::default())
        })
    }

    /// Starts the next run. Returns at once; whether its sources can be opened is seen in its state.
    ///
    /// # Errors
    /// While there is a run.
    pub fn start(&self, new: &NewRun) -> Result<RunHandle, CommandError> {
        self.start_next(&mut self.settled(), new)
    }

    fn start_next(&self, standing: &mut Standing, new: &NewRun) -> Result<RunHandle, CommandError> {
        let refused = |state, advice| Err(CommandError { command: "start", state, advice });
        if standing.thread.is_some() {
            let state = standing.run.state().state;
            let is_ending = matches!(state, RunState::Stopping | RunState::Stopped | RunState::Failed);
            return refused(state, if is_ending { STILL_ENDING } else { "`stop` it first" });
        }
        let mut configuration = locked(&self.configuration).clone();
        let run = &mut configuration.run;
        run.title = new.title.clone().unwrap_or(std::mem::take(&mut run.title));
        run.comment = new.comment.clone().unwrap_or(std::mem::take(&mut run.comment));
        if new.record == Some(false) {
            configuration.record.tables.clear();
        }
        let end = if new.end == EndWhen::default() { run.end() } else { new.end };
        run.set_end(end);
        let handle = standing.run.successor();
        let held = handle.clone();
        let work = move || {
            let never = AtomicBool::new(false);
            let mut watch = Watch { show: &mut |_| {}, stop: &never, handle: held };
            crate::assemble::run(&configuration, end, &mut watch).map_err(|error| {
                tracing::error!("the run could not be started or ended: {error}");
                watch.handle.failed(&error.to_string());
                error.to_string()
            })
        };
        match std::thread::Builder::new().name("run".to_owned()).spawn(work) {
            Ok(thread) => standing.thread = Some(thread),
            Err(_) => {
                return refused(RunState::Configured, "the system has no thread left; end other programs");
            }
        }
        standing.run = handle.clone();
        standing.was_asked_to_stop = false;
        standing.start_at = None;
        Ok(handle)
    }

    /// Asks the present run for something. `Stop` also takes back the start of the next run, where one is to start by itself.
    ///
    /// # Errors
    /// When there is none, or it is where that makes no sense.
    pub fn command(&self, command: &RunCommand) -> Result<(), CommandError> {
        let mut standing = self.settled();
        let is_stop = *command == RunCommand::Stop;
        // Also where the run has just ended by itself: whoever asks for a stop does not want another run.
        standing.was_asked_to_stop |= is_stop;
        if standing.thread.is_some() {
            return standing.run.command(command);
        }
        if is_stop && standing.start_at.take().is_some() {
            tracing::info!("the next run does not start by itself: `stop` was asked for");
            return Ok(());
        }
        let (command, state) = (command.word(), standing.run.state().state);
        Err(CommandError { command, state, advice: "start a run first" })
    }

    /// Waits for the end of the present run, if there is one.
    pub fn wait(&self) -> Option<Arc<Ended>> {
        loop {
            let standing = self.settled();
            if standing.thread.is_none() {
                return standing.last.clone();
            }
            drop(standing);
            std::thread::sleep(CHECK_EVERY);
        }
    }

    /// Returns the state after a run that has ended was put away.
    fn settled(&self) -> MutexGuard<'_, Standing> {
        let mut standing = locked(&self.standing);
        standing.settle(false);
        standing
    }
}

fn served(mut configuration: Configuration) -> Configuration {
    configuration.is_served = true;
    configuration
}

impl Standing {
    fn is_due(&self) -> bool {
        self.thread.is_none() && self.start_at.is_some_and(|time| time <= Instant::now())
    }

    fn settle(&mut self, wait: bool) {
        if let Some(thread) = self.thread.take_if(|thread| wait || thread.is_finished()) {
            let ended =
                thread.join().unwrap_or_else(|_| Err("the run's thread panicked: a defect".to_owned()));
            self.last = Some(Arc::new(ended));
        }
    }
}

impl Drop for RunControl {
    fn drop(&mut self) {
        let standing = self.standing.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A run that has ended, or is ending, accepts no command.
        let _over = standing.run.command(&RunCommand::Stop);
        standing.settle(true);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
