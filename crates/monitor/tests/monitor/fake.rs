//! A made-up experiment: everything that the page can ask about, and a record of what it was told.
//!
//! ```text
//!  Fake ─ impl Experiment ─► Monitor        told: ["start …", "stop", …]
//! ```

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::{Value, json};
use thalweg_data::{Books, Flags, Hit, Ledger, LossReason, RunState, SourceId, Stage, Tally, Unit};
use thalweg_monitor::{Command, Experiment, Message, Refused};
use thalweg_order::channels::{ChannelMap, SourceChannels};
use thalweg_order::spectrum::{Path, Settings, SpectrumSet};

pub struct Fake {
    pub state: Mutex<RunState>,
    pub told: Mutex<Vec<String>>,
    pub states_made: AtomicU64,
    pub messages: Mutex<Vec<Message>>,
    /// Bytes of text that make the state large.
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
            told: Mutex::new(Vec::new()),
            states_made: AtomicU64::new(0),
            messages: Mutex::new(vec![message(1)]),
            padding: AtomicUsize::new(0),
            spectra: spectra(),
            runs,
            vanished: Mutex::new(false),
        }
    }

    pub fn tell(&self, number: u64) {
        self.messages.lock().expect("whole").push(message(number));
    }

    pub fn was_told(&self) -> Vec<String> {
        self.told.lock().expect("whole").clone()
    }

    fn note(&self, what: String) {
        self.told.lock().expect("whole").push(what);
    }
}

fn message(number: u64) -> Message {
    Message {
        number,
        time: "2026-11-21T02:18:04.123Z".into(),
        level: "info".into(),
        text: format!("message {number}\nof two lines"),
        advice: String::new(),
    }
}

/// Two channels, with three hits in the first.
fn spectra() -> SpectrumSet {
    let board = SourceChannels { source: SourceId(0), name: "board0".into(), channels: 0..=1 };
    let map = ChannelMap::new(&[board], &[], &[]).expect("valid");
    let (set, mut fillers) =
        SpectrumSet::new(&Settings::default(), &[], &[], &map, Path::default(), 1).expect("valid");
    let hit = |time_ps| Hit { time_ps, channel: 0, energy: 1600, energy_short: 800, flags: Flags::NONE };
    fillers[0].fill(&[hit(0), hit(1), hit(2)], None, &map);
    set
}

pub fn books() -> Books {
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
            let mut tally = Tally::default();
            tally.input(unit, 50);
            tally.output(unit, 45);
            tally.filtered(unit, 2);
            tally.lost(LossReason::Late, unit, 2);
            tally.set_held(unit, 1);
            ledger.open(stage, source, &[unit]).publish(&tally);
        }
    }
    ledger.books()
}

impl Experiment for Fake {
    fn state(&self) -> Value {
        self.states_made.fetch_add(1, Ordering::Relaxed);
        json!({
            "state": self.state.lock().expect("whole").word(),
            "run": { "number": 18, "name": "run-000018", "title": "a title", "comment": "", "started": "2026-11-21T02:18:04Z",
                     "elapsed_seconds": 12.5, "limits": {} },
            "sources": [{
                "name": "board0", "kind": "hits", "links": 0, "hit_rate_hz": 5e6, "fragment_rate_hz": 0.0, "byte_rate_hz": 8e7,
                "lost": 2, "dead_time": { "dead_seconds": 1.0, "live_seconds": 9.0, "fraction": 0.1 }, "ring_fill": 0.25, "pool_fill": 0.5,
                "channels": [{ "channel": 0, "name": "c0", "group": "ring", "rate_hz": 1e5 }, { "channel": 1, "name": "c1", "rate_hz": 2e5 }],
            }],
            "hits_recorded": 1000, "recorded_rate_hz": 5e6, "bytes_recorded": 16000, "byte_rate_hz": 8e7, "lost": 2,
            "disk_free_bytes": 1_000_000_000u64, "disk_left_seconds": 3600.0,
            "cuts": [{ "name": "neutrons", "on": "hit", "in": 100, "kept": 9 }],
            "clocks": [{ "source": "board1", "reference": "board0", "offset_ps": 120.0, "drift_ppb": 0.5, "locked": true }],
            "events": { "event_rate_hz": 1000.0, "events_recorded": 5000,
                        "median_event_bytes": 4000, "median_build_ns": 20000, "p99_build_ns": 90000,
                        "completeness": [{ "name": "fe1", "expected": 1000, "built": 990 }] },
            "busy_time": { "dead_seconds": 0.1, "live_seconds": 12.4, "fraction": 0.01 },
            "trigger": { "offered": 5003, "accepted": 5000, "refused": 3, "dead_time_fraction": 0.0006 },
            "coincidences": { "rate_hz": 40.0 },
            "alarms": [{ "name": "loss", "subject": "", "level": "error", "active": true, "since": "2026-11-21T02:18:04Z",
                         "value": 2.0, "threshold": 0.0, "text": "look" }],
            "series": { "temperature": { "value": 31.5 } },
            "padding": "x".repeat(self.padding.load(Ordering::Relaxed)),
        })
    }

    fn messages_after(&self, number: u64) -> Vec<Message> {
        self.messages
            .lock()
            .expect("whole")
            .iter()
            .filter(|message| message.number > number)
            .cloned()
            .collect()
    }

    fn books(&self) -> Option<Books> {
        Some(books())
    }

    fn spectra(&self) -> Option<SpectrumSet> {
        Some(self.spectra.clone())
    }

    fn source_of(&self, channel: u16) -> Option<String> {
        (channel < 2).then(|| "board0".to_owned())
    }

    fn is_calibrated(&self, channel: u16) -> bool {
        channel == 0
    }

    fn pulse_channels(&self) -> Value {
        json!([{ "channel": 0, "name": "c0", "pulses": 3 }])
    }

    fn pulses(&self, channel: u16, count: usize) -> Result<Value, Refused> {
        match channel {
            0 => Ok(json!([{ "time_ps": 1, "count": count }])),
            _ => Err(Refused::new("no pulses of this channel", "keep waveforms of it")),
        }
    }

    fn filter_pulses(&self, channel: u16, expression: &str) -> Result<(), Refused> {
        self.note(format!("filter {channel} {expression}"));
        Ok(())
    }

    fn runs(&self) -> Result<Vec<Value>, Refused> {
        match *self.vanished.lock().expect("whole") {
            true => Err(Refused::new("the directory of runs is gone", "look for the disk")),
            false => Ok(vec![json!({ "name": "run-000017", "number": 17 })]),
        }
    }

    fn run(&self, name: &str) -> Result<Option<Value>, Refused> {
        self.note(format!("run {name}"));
        Ok(Some(json!({ "name": name })))
    }

    fn runs_directory(&self) -> Option<PathBuf> {
        Some(self.runs.path().to_owned())
    }

    fn comment(&self, run: &str, text: &str) -> Result<(), Refused> {
        self.note(format!("comment {run} {text}"));
        Ok(())
    }

    fn verify(&self, run: &str) -> Result<Value, Refused> {
        self.note(format!("verify {run}"));
        Ok(json!({ "verified": true }))
    }

    fn command(&self, command: Command) -> Result<RunState, Refused> {
        let mut state = self.state.lock().expect("whole");
        let next = match &command {
            Command::Start(_) | Command::Resume => RunState::Running,
            Command::Stop => RunState::Stopping,
            Command::Pause => RunState::Paused,
        };
        if !state.may_become(next) {
            return Err(Refused::new(format!("a run that is {state} does not become {next}"), "wait"));
        }
        *state = next;
        self.note(format!("{command:?}"));
        Ok(next)
    }

    fn configuration(&self) -> Value {
        json!({ "text": "[run]" })
    }

    fn system(&self) -> Value {
        // What goes wrong in the experiment stays there.
        panic!("no system");
    }
}
