//! A made-up experiment: everything that the page can ask about, and a record of its requests.
//!
//! ```text
//!  Fake ─ impl Experiment ─► Monitor    requests: ["start …", "stop", …]
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::{Value, json};
use thalweg_analysis::channels::{ChannelMap, SourceChannels};
use thalweg_analysis::clocks::ClockState;
use thalweg_analysis::cut::Scope;
use thalweg_analysis::spectrum::{Path, Settings, SpectrumSet};
use thalweg_analysis::view::{Applied, ChangeKind, NewCalibration, NewCut};
use thalweg_data::{
    Counters, Flags, Hit, Ledger, LedgerSnapshot, LossReason, RunState, SourceId, Stage, Unit,
};
use thalweg_monitor::alarm::{Alarm, Level};
use thalweg_monitor::history::{History, Past};
use thalweg_monitor::state::{
    BuildSample, ChannelState, CoincidenceState, Completeness, CutReport, DeadTime, EventState, LiveRun,
    LiveState, SeriesValue, SourceState, TriggerCounts, TriggerState,
};
use thalweg_monitor::{
    Experiment, OperatorMessage, PulseChannel, PulseTrace, RecordedRun, RequestRefused, RunNote, RunRequest,
};

pub struct Fake {
    pub state: Mutex<RunState>,
    pub requests: Mutex<Vec<String>>,
    pub states_made: AtomicU64,
    pub messages: Mutex<Vec<OperatorMessage>>,
    /// Bytes of a comment that makes the state large.
    pub padding: AtomicUsize,
    pub spectra: SpectrumSet,
    pub runs: tempfile::TempDir,
    pub vanished: Mutex<bool>,
}

impl Fake {
    pub fn new() -> Fake {
        let runs = tempfile::tempdir().expect("a directory");
        let run = runs.path().join("run-000017");
        std::fs::create_dir(&run).expect("made");
        std::fs::write(run.join("hits.arrows"), (0..700_000u32).map(|byte| byte as u8).collect::<Vec<_>>())
            .expect("written");
        std::fs::write(run.join("spectra.json"), "{}").expect("written");
        std::os::unix::fs::symlink("/etc/passwd", run.join("link")).expect("linked");
        Fake {
            state: Mutex::new(RunState::Ready),
            requests: Mutex::new(Vec::new()),
            states_made: AtomicU64::new(0),
            messages: Mutex::new(vec![message(1)]),
            padding: AtomicUsize::new(0),
            spectra: spectra(),
            runs,
            vanished: Mutex::new(false),
        }
    }

    pub fn send(&self, number: u64) {
        self.messages.lock().expect("whole").push(message(number));
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("whole").clone()
    }

    fn note(&self, what: String) {
        self.requests.lock().expect("whole").push(what);
    }
}

fn message(number: u64) -> OperatorMessage {
    OperatorMessage {
        number,
        time: "2026-11-21T02:18:04.123Z".into(),
        level: "info".into(),
        text: format!("message {number}\nof two lines"),
        advice: String::new(),
    }
}

fn applied(kind: ChangeKind, name: &str) -> Applied {
    Applied {
        number: 1,
        kind,
        name: name.into(),
        channel: None,
        lines: "[[cut]]\n".into(),
        since_seconds: Some(12.5),
        after_ps: Some(12_400_000_000_000),
        until_seconds: None,
        input: 70,
        kept: 30,
    }
}

/// Two channels, with three hits in the first.
fn spectra() -> SpectrumSet {
    let board = SourceChannels { source: SourceId(0), name: "board0".into(), channels: 0..=1 };
    let map = ChannelMap::new(&[board], &[], &[]).expect("valid");
    let (set, mut fillers) =
        SpectrumSet::new(&Settings::default(), &[], &[], &map, Path::default(), 1).expect("valid");
    let hit = |time_ps| Hit { time_ps, channel: 0, energy: 1600, energy_short: 800, flags: Flags::NONE };
    let (hits, mut words) = ([hit(0), hit(1), hit(2)], Vec::new());
    fillers[0].word_maker().expect("hits are counted").append(&hits, None, &mut words);
    fillers[0].fill(&hits, &words, None, &map);
    set
}

pub fn snapshot() -> LedgerSnapshot {
    let ledger = Ledger::create(None, &["board0".into(), "bo\"ard\\1".into()]).expect("in memory");
    for source in [SourceId(0), SourceId(1)] {
        for (stage, unit) in [
            (Stage::Receive, Unit::Datagrams),
            (Stage::Receive, Unit::Bytes),
            (Stage::Unpack, Unit::Frames),
            (Stage::Order, Unit::Hits),
            (Stage::Build, Unit::Fragments),
            (Stage::Record, Unit::Events),
        ] {
            let mut counters = Counters::default();
            counters.input(unit, 50);
            counters.output(unit, 45);
            counters.filtered(unit, 2);
            counters.lost(LossReason::Late, unit, 2);
            counters.set_held(unit, 1);
            ledger.open(stage, source, &[unit]).publish(&counters);
        }
    }
    let topology = thalweg_data::topology::Topology::of_names(&ledger.snapshot().sources);
    LedgerSnapshot { topology: Some(topology.into()), ..ledger.snapshot() }
}

/// A source of two channels.
fn source() -> SourceState {
    let channel = |channel: u16, group: Option<&str>, rate_hz| ChannelState {
        channel,
        name: format!("c{channel}"),
        group: group.map(str::to_owned),
        rate_hz,
        ..ChannelState::default()
    };
    SourceState {
        name: "board0".into(),
        hit_rate_hz: Some(5e6),
        byte_rate_hz: Some(8e7),
        lost: 2,
        dead_time: DeadTime::of(1.0, 10.0),
        ring_fill: 0.25,
        pool_fill: 0.5,
        channels: vec![channel(0, Some("ring"), Some(1e5)), channel(1, None, Some(2e5))],
        ..SourceState::default()
    }
}

/// A state that has some of everything, and a comment of so many bytes.
fn state(comment_bytes: usize) -> LiveState {
    let sample = BuildSample {
        median_event_bytes: 4000,
        median_build_ns: 20_000,
        p99_build_ns: 90_000,
        ..BuildSample::default()
    };
    let board = Completeness { name: "fe1".into(), expected: 1000, built: 990, missing: 10 };
    let triggers = TriggerCounts { offered: 5003, accepted: 5000, refused: 3, ..TriggerCounts::default() };
    LiveState {
        run: LiveRun {
            number: 18,
            name: Some("run-000018".into()),
            title: "a title".into(),
            comment: "x".repeat(comment_bytes),
            elapsed_seconds: 12.5,
            ..LiveRun::default()
        },
        elapsed_seconds: 12.5,
        sources: vec![source()],
        hits_recorded: 1000,
        recorded_rate_hz: Some(5e6),
        bytes_recorded: 16_000,
        byte_rate_hz: Some(8e7),
        lost: 2,
        disk_free_bytes: 1_000_000_000,
        disk_left_seconds: Some(3600.0),
        cuts: vec![CutReport { name: "neutrons".into(), on: Scope::Hit, input: 100, kept: 9 }],
        clocks: vec![ClockState {
            source: "board1".into(),
            reference: "board0".into(),
            offset_ps: Some(120.0),
            drift_ppb: Some(0.5),
            locked: true,
            ..ClockState::default()
        }],
        events: Some(EventState {
            event_rate_hz: Some(1000.0),
            events_recorded: 5000,
            completeness: vec![board],
            sample,
            ..EventState::default()
        }),
        busy_time: DeadTime::of(0.125, 12.5),
        trigger: Some(TriggerState::of(triggers, Some(TriggerCounts::default()))),
        coincidences: Some(CoincidenceState { rate_hz: Some(40.0), ..CoincidenceState::default() }),
        alarms: vec![Alarm {
            name: "loss".into(),
            subject: String::new(),
            level: Level::Error,
            active: true,
            since: Some("2026-11-21T02:18:04Z".into()),
            value: Some(2.0),
            threshold: 0.0,
            text: "look".into(),
            acknowledged: None,
        }],
        series: BTreeMap::from([(
            "temperature".into(),
            SeriesValue { value: Some(31.5), unit: "degC".into() },
        )]),
        ..LiveState::default()
    }
}

impl Experiment for Fake {
    fn state(&self) -> LiveState {
        self.states_made.fetch_add(1, Ordering::Relaxed);
        LiveState { state: *self.state.lock().expect("whole"), ..state(self.padding.load(Ordering::Relaxed)) }
    }

    fn messages_after(&self, number: u64) -> Vec<OperatorMessage> {
        self.messages
            .lock()
            .expect("whole")
            .iter()
            .filter(|message| message.number > number)
            .cloned()
            .collect()
    }

    fn snapshot(&self) -> Option<LedgerSnapshot> {
        Some(snapshot())
    }

    fn spectra(&self) -> Option<SpectrumSet> {
        Some(self.spectra.clone())
    }

    fn source_of(&self, channel: u16) -> Option<String> {
        (channel < 2).then(|| "board0".to_owned())
    }

    fn calibrate(&self, new: &NewCalibration) -> Result<Applied, RequestRefused> {
        self.note(format!("calibrate {} {:?}", new.channel, new.energy_kev));
        match new.channel {
            0 => Ok(applied(ChangeKind::Calibration, "c0")),
            _ => Err(RequestRefused::new("no source of this run sends that channel", "choose another")),
        }
    }

    fn cut(&self, new: &NewCut) -> Result<Applied, RequestRefused> {
        self.note(format!("cut {} {}", new.name, new.keep));
        Ok(applied(ChangeKind::Cut, &new.name))
    }

    fn revert(&self, number: u32) -> Result<Applied, RequestRefused> {
        self.note(format!("revert {number}"));
        match number {
            1 => Ok(applied(ChangeKind::Cut, "c")),
            _ => Err(RequestRefused::new(format!("no change {number} is applied to this run"), "look again")),
        }
    }

    fn pulse_channels(&self) -> Vec<PulseChannel> {
        vec![PulseChannel { channel: 0, name: Some("c0".into()), source: None }]
    }

    fn pulses(&self, channel: u16, count: usize) -> Result<Vec<PulseTrace>, RequestRefused> {
        match channel {
            0 => Ok(vec![PulseTrace { time_ps: 1, ..PulseTrace::default() }; count]),
            _ => Err(RequestRefused::new("no pulses of this channel", "keep waveforms of it")),
        }
    }

    fn filter_pulses(&self, channel: u16, expression: &str) -> Result<(), RequestRefused> {
        self.note(format!("filter {channel} {expression}"));
        Ok(())
    }

    fn runs(&self) -> Result<Vec<RecordedRun>, RequestRefused> {
        match *self.vanished.lock().expect("whole") {
            true => Err(RequestRefused::new("the directory of runs is gone", "look for the disk")),
            false => {
                Ok(vec![RecordedRun { name: "run-000017".to_owned(), number: 17, ..RecordedRun::default() }])
            }
        }
    }

    fn run(&self, name: &str) -> Result<Option<RecordedRun>, RequestRefused> {
        self.note(format!("run {name}"));
        Ok(Some(RecordedRun { name: name.to_owned(), ..RecordedRun::default() }))
    }

    fn runs_directory(&self) -> Option<PathBuf> {
        Some(self.runs.path().to_owned())
    }

    fn is_name_of_run(&self, name: &str) -> bool {
        name.starts_with("run-")
    }

    fn label(&self, run: &str, added: &[String], removed: &[String]) -> Result<(), RequestRefused> {
        if added.iter().any(|label| label.contains(' ')) {
            return Err(RequestRefused::new("no label", "write a word"));
        }
        self.note(format!("label {run} {added:?} {removed:?}"));
        Ok(())
    }

    fn comment(&self, run: &str, text: &str) -> Result<(), RequestRefused> {
        self.note(format!("comment {run} {text}"));
        Ok(())
    }

    fn add_note(&self, run: &str, text: &str) -> Result<(), RequestRefused> {
        self.note(format!("note {run} {text}"));
        Ok(())
    }

    fn notes_for_next(&self) -> Result<Vec<RunNote>, RequestRefused> {
        Ok(vec![RunNote { text: "shutter closed".to_owned(), ..RunNote::default() }])
    }

    fn add_note_for_next(&self, text: &str) -> Result<(), RequestRefused> {
        self.note(format!("note for the next run {text}"));
        Ok(())
    }

    fn acknowledge(&self, alarm: &str, subject: &str) -> Result<(), RequestRefused> {
        match alarm {
            "loss" => {
                self.note(format!("acknowledge {alarm} {subject}"));
                Ok(())
            }
            _ => Err(RequestRefused::new(format!("no alarm \"{alarm}\" stands"), "look again")),
        }
    }

    fn verify(&self, run: &str) -> Result<Value, RequestRefused> {
        self.note(format!("verify {run}"));
        Ok(json!({ "verified": true }))
    }

    fn command(&self, command: RunRequest) -> Result<RunState, RequestRefused> {
        let mut state = self.state.lock().expect("whole");
        let next = match &command {
            RunRequest::Start(_) | RunRequest::Resume => RunState::Running,
            RunRequest::Stop => RunState::Stopping,
            RunRequest::Pause => RunState::Paused,
        };
        if !state.may_become(next) {
            return Err(RequestRefused::new(format!("a run that is {state} does not become {next}"), "wait"));
        }
        *state = next;
        self.note(format!("{command:?}"));
        Ok(next)
    }

    fn configuration(&self) -> Value {
        json!({ "text": "[run]" })
    }

    fn past(&self, seconds: f64) -> Past {
        let mut history = History::default();
        (0..5).for_each(|second| history.note(f64::from(second), &self.state()));
        history.past(4.0, seconds)
    }

    fn system(&self) -> Value {
        // What goes wrong in the experiment stays there.
        panic!("no system");
    }
}
