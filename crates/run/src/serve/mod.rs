//! Serves the state of a run to the page, and the page's requests to the run.
//!
//! ```text
//!  RunHandle ─ LiveState, Observed ─► page state, spectra ─► monitor ─► browsers
//!  runs directory ─► list of runs ─────────────────────────►    │
//!  Subject: one run, or run control ◄─ start, stop, pause ────────┘
//! ```
//! Nothing here touches the data path: states are pointers to what the supervisor has put together anyway, spectra are read where they
//! are filled.

mod applied;
mod copies;
mod flow;
mod in_use;
mod live;
mod machine;
mod messages;
mod old_runs;
mod recorded;
mod seen_alarms;
mod unattended;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_analysis::pulse::Pulse;
use thalweg_analysis::spectrum::SpectrumSet;
use thalweg_analysis::view::{Applied, NewCalibration, NewCut};
use thalweg_data::{Flags, LedgerSnapshot, RunState};
use thalweg_monitor::alarm::Alarm;
use thalweg_monitor::history::{History, Past};
use thalweg_monitor::state::{CopyState, LiveState, SeriesValue};
use thalweg_monitor::{
    Experiment, MonitorError, OperatorMessage, PulseChannel, PulseTrace, RecordedRun, RequestRefused,
    RunNote, RunRequest, StartRun,
};
use thalweg_qualify::host::{HostFiles, LossCounters};
use thalweg_record::RunDirectory;

pub use messages::MessageLog;
pub use thalweg_monitor::Monitor;
pub use unattended::UnattendedOperation;

use self::in_use::InUse;
use self::recorded::KnownLines;
use self::seen_alarms::SeenAlarms;
use crate::config::Configuration;
use crate::run_control::{NewRun, RunControl};
use crate::supervise::{self, CommandError, EndWhen, RunHandle};

/// How long who commands a run waits for the state that follows, at most: its supervisor looks for commands each 20 ms.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500);

/// The subject that is served.
pub enum Subject {
    /// One run, which begins and ends by itself.
    Run(RunHandle),
    /// Runs of one configuration, one after another.
    RunControl(Arc<RunControl>),
}

/// An experiment as the page sees it.
pub struct Served {
    subject: Subject,
    in_use: Mutex<Arc<InUse>>,
    messages: MessageLog,
    alarms: Mutex<Vec<Alarm>>,
    seen: Mutex<SeenAlarms>,
    /// Runs that are over, as they were read last.
    lines: Mutex<KnownLines>,
    /// Of each destination of `[ship]`, as it was sampled last.
    copies: Mutex<Vec<CopyState>>,
    began: Instant,
    /// The rates since then, noted by unattended operation.
    history: Mutex<History>,
    /// The host's loss counters when the run of this number started.
    host: Mutex<(u64, LossCounters)>,
}

impl Served {
    /// Serves runs of this configuration.
    pub fn new(subject: Subject, configuration: Configuration, messages: MessageLog) -> Served {
        Served {
            subject,
            in_use: Mutex::new(Arc::new(InUse::of(configuration))),
            messages,
            alarms: Mutex::default(),
            seen: Mutex::default(),
            lines: Mutex::default(),
            copies: Mutex::default(),
            began: Instant::now(),
            history: Mutex::default(),
            host: Mutex::new((0, LossCounters::read(&HostFiles::of_host()))),
        }
    }

    /// Serves the page, as `[monitor]` says, until the result is dropped. `None` where it says that there is no page.
    ///
    /// # Errors
    /// When the address is taken, or the settings are invalid.
    pub fn start(self: &Arc<Served>) -> Result<Option<Monitor>, MonitorError> {
        let in_use = self.in_use();
        let settings = in_use.configuration.monitor.as_ref().filter(|settings| settings.enabled);
        settings.map(|settings| Monitor::start(settings, self.clone())).transpose()
    }

    /// Returns the configuration with which runs are taken now.
    fn in_use(&self) -> Arc<InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the directory of the runs.
    fn directory(&self) -> PathBuf {
        self.in_use().configuration.record.directory.clone()
    }

    /// Takes the next run with what the file says now.
    fn read_again(&self, run_control: &RunControl) -> Result<(), RequestRefused> {
        if !run_control.is_idle() {
            return Ok(());
        }
        if let Some(new) = self.in_use().read_again()? {
            run_control.configure(new.configuration.clone().with_old_runs_removed());
            *self.in_use.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        }
        Ok(())
    }

    fn handle(&self) -> RunHandle {
        match &self.subject {
            Subject::Run(run) => run.clone(),
            Subject::RunControl(run_control) => run_control.run(),
        }
    }

    /// Returns the host's loss counters at the start of a run. A run that is served alone was there when this was made; the start of each
    /// run of run control is noticed within one sampling interval of the alarms.
    fn host_at_start(&self, run: u64) -> MutexGuard<'_, (u64, LossCounters)> {
        let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        // A run that is about to start has no number yet.
        let is_new = run > 0 && std::mem::replace(&mut host.0, run) != run;
        if is_new && matches!(self.subject, Subject::RunControl(_)) {
            host.1 = LossCounters::read(&HostFiles::of_host());
        }
        host
    }

    /// The alarms as they stand, to be shown with the state.
    fn set_alarms(&self, mut alarms: Vec<Alarm>) {
        let mut shown = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).mark(&mut alarms);
        *shown = alarms;
    }

    /// Shows these copies with the state.
    fn set_copies(&self, copies: Vec<CopyState>) {
        *self.copies.lock().unwrap_or_else(PoisonError::into_inner) = copies;
    }

    fn start_run(&self, new: StartRun) -> Result<RunState, RequestRefused> {
        let Subject::RunControl(run_control) = &self.subject else {
            return Err(RequestRefused::new(
                "this program takes one run and ends with it",
                "`thalweg serve FILE` takes one run after another",
            ));
        };
        self.read_again(run_control)?;
        let words = |text: String| (!text.is_empty()).then_some(text);
        let end = EndWhen { seconds: new.seconds, hits: new.hits, events: new.events };
        let own = self.in_use().configuration.run.end();
        let end = if end == EndWhen::default() { own } else { end };
        let is_endless = end.seconds.is_none() && end.hits.or(end.events).is_some();
        if new.record == Some(false) && is_endless {
            return Err(RequestRefused::new(
                "a run ends at so many hits or events when these are recorded, and this one keeps none",
                "limit it by seconds",
            ));
        }
        let new = NewRun { title: words(new.title), comment: words(new.comment), end, record: new.record };
        let run = run_control.start(&new).map_err(|error| refused(&error))?;
        Ok(run.state().state)
    }

    /// Notes a state for later requests.
    fn note(&self, state: &LiveState) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.note(self.began.elapsed().as_secs_f64(), state);
    }

    /// Returns what is known although nothing runs: the disk as it is now, which nothing fills, when the next run starts by itself, before the
    /// first run the sources of the configuration, and no value of slow control, since nobody reads it.
    fn between_runs(&self, state: &LiveState) -> LiveState {
        let in_use = self.in_use();
        let left = RunDirectory::bytes_left_for(&in_use.configuration.record.directory);
        let is_before = state.run.number == 0;
        let next_run_in = match &self.subject {
            Subject::RunControl(run_control) => run_control.next_run_in(),
            Subject::Run(_) => None,
        };
        LiveState {
            next_run_seconds: next_run_in.map(|wait| wait.as_secs_f64()),
            sources: if is_before { &in_use.sources } else { &state.sources }.clone(),
            disk_free_bytes: left.unwrap_or(state.disk_free_bytes),
            disk_left_seconds: None,
            series: without_values(&state.series),
            ..state.clone()
        }
    }

    fn ask(&self, command: &supervise::RunCommand) -> Result<RunState, RequestRefused> {
        let run = self.handle();
        let before = run.state().state;
        match &self.subject {
            Subject::Run(_) => run.command(command),
            Subject::RunControl(run_control) => run_control.command(command),
        }
        .map_err(|error| refused(&error))?;
        // The supervisor carries it out soon: who asked is answered with the state that follows.
        Ok(run.moved_from(before, ANSWERED_WITHIN))
    }
}

fn without_values(series: &BTreeMap<String, SeriesValue>) -> BTreeMap<String, SeriesValue> {
    let unread = |value: &SeriesValue| SeriesValue { value: None, ..value.clone() };
    series.iter().map(|(name, value)| (name.clone(), unread(value))).collect()
}

fn refused(error: &CommandError) -> RequestRefused {
    RequestRefused::new(format!("`{}`: the run is {}", error.command, error.state), error.advice)
}

fn pulse(pulse: &Pulse) -> PulseTrace {
    let Pulse { time_ps, energy, energy_short, ns_per_sample, truncated, .. } = *pulse;
    let names = Flags::NAMES.iter().filter(|(flag, _)| pulse.flags.has(*flag)).map(|(_, name)| *name);
    PulseTrace {
        time_ps,
        energy,
        energy_short,
        flags: names.collect(),
        ns_per_sample,
        analog: pulse.analog.clone(),
        digital: pulse.digital.clone(),
        digital_kinds: pulse.digital_kinds.clone(),
        truncated,
    }
}

impl Experiment for Served {
    fn state(&self) -> LiveState {
        let run = self.handle();
        let state = run.state();
        drop(self.host_at_start(state.run.number));
        let is_under_way = state.state.takes_data() || state.state == RunState::Stopping;
        let state = if is_under_way { state } else { Arc::new(self.between_runs(&state)) };
        LiveState {
            alarms: self.alarms.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            messages: self.messages.after(0),
            copies: self.copies.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ..live::served(&state, run.observed(), &self.in_use().configuration)
        }
    }

    fn past(&self, seconds: f64) -> Past {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.past(self.began.elapsed().as_secs_f64(), seconds)
    }

    fn messages_after(&self, number: u64) -> Vec<OperatorMessage> {
        self.messages.after(number)
    }

    fn snapshot(&self) -> Option<LedgerSnapshot> {
        self.handle().snapshot()
    }

    fn spectra(&self) -> Option<SpectrumSet> {
        self.handle().observed().map(|observed| observed.spectra.clone())
    }

    fn source_of(&self, channel: u16) -> Option<String> {
        let run = self.handle();
        let source = run.observed()?.channels.get(channel)?.source;
        let in_use = self.in_use();
        let (source, _) = in_use.configuration.hit_sources().nth(source.index())?;
        Some(source.head.name.clone())
    }

    fn calibrate(&self, new: &NewCalibration) -> Result<Applied, RequestRefused> {
        applied::change(&self.handle(), &self.directory(), "applied", |view| view.calibrate(new))
    }

    fn cut(&self, new: &NewCut) -> Result<Applied, RequestRefused> {
        applied::change(&self.handle(), &self.directory(), "applied", |view| view.cut(new))
    }

    fn revert(&self, number: u32) -> Result<Applied, RequestRefused> {
        applied::change(&self.handle(), &self.directory(), "reverted", |view| view.revert(number))
    }

    fn pulse_channels(&self) -> Vec<PulseChannel> {
        let run = self.handle();
        let Some(observed) = run.observed() else { return Vec::new() };
        let channel = |channel: u16| {
            let name = observed.channels.get(channel).map(|known| known.name.clone());
            PulseChannel { channel, name, source: self.source_of(channel) }
        };
        observed.pulses.channels().into_iter().map(channel).collect()
    }

    fn pulses(&self, channel: u16, count: usize) -> Result<Vec<PulseTrace>, RequestRefused> {
        let run = self.handle();
        let none = || {
            RequestRefused::new(
                format!("channel {channel} has no pulses"),
                "boards send waveforms only on request",
            )
        };
        let observed = run.observed().ok_or_else(none)?;
        let latest = observed.pulses.latest(channel, count);
        let pulses =
            latest.map_err(|error| RequestRefused::new(error.to_string(), "ask again in a moment"))?;
        Ok(pulses.iter().map(pulse).collect())
    }

    fn filter_pulses(&self, channel: u16, expression: &str) -> Result<(), RequestRefused> {
        let run = self.handle();
        let missing = || RequestRefused::new("there is no run with hits", "start one first");
        let observed = run.observed().ok_or_else(missing)?;
        let expression = Some(expression).filter(|text| !text.trim().is_empty());
        let set = observed.pulses.set_filter(channel, expression);
        set.map_err(|error| RequestRefused::new(error.to_string(), "write an expression as in [[cut]]"))
    }

    fn runs(&self) -> Result<Vec<RecordedRun>, RequestRefused> {
        let run = self.handle();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        recorded::list(&self.directory(), &run.state(), run.observed(), &mut lines)
    }

    fn run(&self, name: &str) -> Result<Option<RecordedRun>, RequestRefused> {
        let run = self.handle();
        recorded::one(&self.directory(), name, &run.state(), run.observed())
    }

    fn runs_directory(&self) -> Option<PathBuf> {
        Some(self.directory())
    }

    fn is_name_of_run(&self, name: &str) -> bool {
        RunDirectory::is_name(name)
    }

    fn comment(&self, run: &str, text: &str) -> Result<(), RequestRefused> {
        let state = self.handle().state();
        recorded::comment(&self.directory(), run, text, &state)
    }

    fn label(&self, run: &str, added: &[String], removed: &[String]) -> Result<(), RequestRefused> {
        recorded::label(&self.directory(), run, added, removed)
    }

    fn add_note(&self, run: &str, text: &str) -> Result<(), RequestRefused> {
        recorded::add_note(&self.directory(), run, text)?;
        self.messages.note(text);
        Ok(())
    }

    fn notes_for_next(&self) -> Result<Vec<RunNote>, RequestRefused> {
        recorded::notes_for_next(&self.directory())
    }

    fn add_note_for_next(&self, text: &str) -> Result<(), RequestRefused> {
        recorded::add_note_for_next(&self.directory(), text)?;
        self.messages.note(text);
        Ok(())
    }

    fn verify(&self, run: &str) -> Result<Value, RequestRefused> {
        recorded::verify(&self.directory(), run, &self.handle().state())
    }

    fn command(&self, command: RunRequest) -> Result<RunState, RequestRefused> {
        match command {
            RunRequest::Start(new) => self.start_run(new),
            RunRequest::Stop => self.ask(&supervise::RunCommand::Stop),
            RunRequest::Pause => self.ask(&supervise::RunCommand::Pause),
            RunRequest::Resume => self.ask(&supervise::RunCommand::Resume),
        }
    }

    fn acknowledge(&self, alarm: &str, subject: &str) -> Result<(), RequestRefused> {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.see(alarm, subject, &mut alarms)
    }

    fn configuration(&self) -> Value {
        self.in_use().as_json()
    }

    fn system(&self) -> Value {
        let state = self.handle().state();
        let in_use = self.in_use();
        machine::sample(&state, &in_use.plan, &in_use.configuration, &self.host_at_start(state.run.number).1)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thalweg_monitor::state::LiveRun;

    use super::*;

    fn served(subject: Subject) -> Served {
        let text = "[[source]]\nname = \"board\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 1\n";
        let configuration = Configuration::parse(Path::new("served.toml"), text.to_owned()).expect("valid");
        Served::new(subject, configuration, MessageLog::default())
    }

    #[test]
    fn the_disk_is_read_again_between_runs() {
        let run = RunHandle::new();
        let served = served(Subject::Run(run.clone()));
        let disk = |state| {
            run.publish(LiveState {
                state,
                run: LiveRun { number: 3, ..LiveRun::default() },
                disk_free_bytes: 1,
                disk_left_seconds: Some(2.0),
                ..LiveState::default()
            });
            let state = served.state();
            (state.disk_free_bytes, state.disk_left_seconds)
        };
        for state in [RunState::Running, RunState::Paused, RunState::Stopping] {
            assert_eq!(disk(state), (1, Some(2.0)), "{state} has what the run says");
        }
        for state in [RunState::Configured, RunState::Stopped, RunState::Failed] {
            let (free_bytes, left_seconds) = disk(state);
            assert!(free_bytes > 1 && left_seconds.is_none(), "{state}: {free_bytes} {left_seconds:?}");
        }
    }

    #[test]
    fn values_of_slow_control_are_unknown_where_nobody_reads_them() {
        let run = RunHandle::new();
        let served = served(Subject::Run(run.clone()));
        let value = |state| {
            let temperature = SeriesValue { value: Some(25.0), unit: "degC".to_owned() };
            let series = BTreeMap::from([("temperature".to_owned(), temperature)]);
            run.publish(LiveState { state, series, ..LiveState::default() });
            served.state().series["temperature"].clone()
        };
        assert_eq!(value(RunState::Paused).value, Some(25.0));
        let unread = SeriesValue { value: None, unit: "degC".to_owned() };
        assert_eq!([RunState::Stopped, RunState::Failed].map(value), [unread.clone(), unread]);
    }

    #[test]
    fn a_run_is_not_charged_with_what_the_host_lost_before_it() {
        let is_read = |served: &Served, run| {
            let mut host = served.host_at_start(run);
            !std::mem::take(&mut host.1).all().is_empty()
        };
        let alone = served(Subject::Run(RunHandle::new()));
        assert_eq!(
            [0, 1, 1].map(|run| is_read(&alone, run)),
            [true, false, false],
            "it was there at the start"
        );
        let configuration = alone.in_use().configuration.clone();
        let many = served(Subject::RunControl(Arc::new(RunControl::new(configuration))));
        let found = [0, 1, 1, 0, 2].map(|run| is_read(&many, run));
        assert_eq!(found, [true, true, false, false, true], "at the start of the program, and of each run");
    }
}
