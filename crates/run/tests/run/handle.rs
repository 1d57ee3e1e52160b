//! A run held by its handle: looked at, paused, resumed, and ended by command, from another thread.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use thalweg_data::{Stage, Unit};
use thalweg_run::RunState;
use thalweg_run::config::Configuration;
use thalweg_run::run_control::{NewRun, RunControl};
use thalweg_run::supervise::{EndWhen, LiveState, RunCommand, RunHandle, Summary, Watch};

const LIMIT: Duration = Duration::from_secs(120);

/// A run of emulated boards on a thread of its own.
struct Run {
    handle: RunHandle,
    thread: std::thread::JoinHandle<Summary>,
    _folder: tempfile::TempDir,
}

fn start(sections: &str) -> Run {
    let folder = tempfile::tempdir().expect("temporary folder");
    let record = folder.path().join("runs");
    let text = format!("[run]\ntitle = \"held\"\n{sections}\n[record]\ndirectory = {record:?}\n");
    let configuration = Configuration::parse(Path::new("held.toml"), text).expect("valid");
    let handle = RunHandle::new();
    let held = handle.clone();
    let thread = std::thread::spawn(move || {
        let never = AtomicBool::new(false);
        let mut watch = Watch { show: &mut |_| {}, stop: &never, handle: held };
        let end = EndWhen { seconds: Some(LIMIT.as_secs_f64()), ..EndWhen::default() };
        thalweg_run::run(&configuration, end, &mut watch).expect("it starts")
    });
    Run { handle, thread, _folder: folder }
}

impl Run {
    /// The first state of which `wanted` holds.
    fn until(&self, what: &str, mut wanted: impl FnMut(&LiveState) -> bool) -> std::sync::Arc<LiveState> {
        let (from, mut seen) = (Instant::now(), 0);
        while from.elapsed() < LIMIT {
            if let Some(state) = self.handle.newer_than(seen, Duration::from_secs(1)) {
                seen = state.sequence;
                if wanted(&state) {
                    return state;
                }
            }
        }
        panic!("never {what}: {:#?}", self.handle.state())
    }

    fn command(&self, command: RunCommand) {
        self.handle.command(&command).expect("makes sense now");
    }

    fn end(self) -> Summary {
        let summary = self.thread.join().expect("no panic");
        assert!(summary.is_good(), "{:#?}", summary.failures);
        summary
    }
}

const BOARDS: &str = "[[source]]\nname = \"boards\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 3\n\
                      [trigger]\nprogram = \"constant\"\nrate_hz = 1000.0\n";

fn built(state: &LiveState) -> u64 {
    state.events.as_ref().map_or(0, |events| events.events_built)
}

/// Triggers that were refused, and that were accepted.
fn trigger(state: &LiveState) -> (u64, u64) {
    state.trigger.as_ref().map_or((0, 0), |trigger| (trigger.refused, trigger.accepted))
}

#[test]
fn a_triggered_run_is_paused_by_busy_and_goes_on() {
    let run = start(BOARDS);
    // A stage that waits for a processor asks for BUSY, too.
    let state = run.until("building", |state| built(state) > 100 && !state.busy);
    assert_eq!((state.state, state.title.as_str(), state.run.number), (RunState::Running, "held", 1));
    assert!(state.end.seconds.is_some() && state.paused_by.is_none());
    run.command(RunCommand::Pause);
    let paused = run.until("paused", |state| state.state == RunState::Paused);
    assert!(paused.busy && paused.paused_by.is_some());
    // The trigger knows of it, and what it had accepted by then is built.
    let after = |state: &LiveState, more: u64| trigger(state).0 >= trigger(&paused).0 + more;
    let settled = run.until("settled", |state| after(state, 20) && built(state) == trigger(state).1);
    let later = run.until("later", |state| after(state, 320));
    let still = built(&settled);
    assert_eq!(built(&later), still, "nothing is built while the trigger is held back");
    run.command(RunCommand::Resume);
    let on = run.until("going on", |state| state.state == RunState::Running && built(state) > still + 100);
    let trigger = on.trigger.expect("an emulated trigger reports");
    assert!(trigger.refused > 300 && trigger.accepted > 0, "{trigger:?}");
    assert_eq!(trigger.dead_time_fraction, Some(trigger.refused as f64 / trigger.offered as f64));
    let busy = on.busy_time.expect("the trigger knows how long it waited");
    // Three hundred triggers at 1 kHz, or less time where emulated triggers come late and then all at once: that between two looks of it.
    let held_seconds = later.elapsed_seconds - settled.elapsed_seconds;
    assert!(busy.dead_seconds >= held_seconds && busy.live_seconds > 0.0, "{busy:?} {held_seconds}");
    run.command(RunCommand::Stop);
    let events = run.end().events.expect("it builds events");
    assert!(events.triggers_refused.is_some_and(|refused| refused > 300), "{events:#?}");
    assert_eq!(events.events_partial, 0, "{events:#?}");
    assert!(events.dead_time_fraction.is_some_and(|fraction| fraction > 0.0), "{events:#?}");
    assert!(events.busy_time.is_some_and(|busy| busy.dead_seconds >= held_seconds), "{events:#?}");
}

/// The trigger of boards elsewhere reports nothing: how long it was held back is what this process knows of BUSY, whoever raised it.
#[test]
fn a_pause_is_dead_time_where_the_trigger_does_not_report() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free.expect("loopback");
    let boards = format!("[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"udp://{address}\"\n");
    let run = start(&boards);
    let dead_seconds = |state: &LiveState| state.busy_time.map_or(0.0, |time| time.dead_seconds);
    run.until("running", |state| state.state == RunState::Running && state.busy_time.is_some());
    run.command(RunCommand::Pause);
    let paused = run.until("paused", |state| state.state == RunState::Paused);
    let later = run.until("later", |state| state.elapsed_seconds > paused.elapsed_seconds + 0.3);
    let busy = later.events.as_ref().is_some_and(|events| events.sample.busy);
    assert!(busy && dead_seconds(&later) > dead_seconds(&paused) + 0.2, "{:?}", later.busy_time);
    run.command(RunCommand::Resume);
    run.until("going on", |state| state.state == RunState::Running);
    run.command(RunCommand::Stop);
    let events = run.end().events.expect("it builds events");
    let busy = events.busy_time.expect("BUSY is raised here");
    assert!(busy.dead_seconds >= dead_seconds(&later) && busy.live_seconds > 0.0, "{busy:?}");
}

#[test]
fn a_counted_end_can_be_asked_for_while_the_run_goes_on() {
    let run = start(BOARDS);
    run.until("building", |state| built(state) > 10);
    run.command(RunCommand::EndWhen(EndWhen { events: Some(500), ..EndWhen::default() }));
    let last = run.until("over", |state| state.state == RunState::Stopped);
    assert!(last.events.as_ref().is_some_and(|events| events.events_recorded >= 500));
    assert!(run.handle.command(&RunCommand::Stop).is_err(), "it is over");
    assert!(run.end().elapsed_seconds < LIMIT.as_secs_f64() / 2.0);
}

#[test]
fn the_state_has_everything_that_a_page_draws() {
    let run = start(BOARDS);
    let state = run.until("recording", |state| {
        let events = state.events.as_ref();
        let has_rates = state.rate_window_seconds > 0.0;
        has_rates
            && events.is_some_and(|events| events.events_recorded > 300 && !events.sample.build_ns.is_empty())
    });
    let json = serde_json::to_value(&*state).expect("plain data");
    let source = &json["sources"][0];
    let counted = (&source["name"], &source["links"], &source["boards"]);
    assert_eq!(counted, (&"boards".into(), &3.into(), &3.into()));
    assert!(source["pool_bytes"].as_u64() > Some(0), "{json:#}");
    assert!(source["byte_rate_hz"].as_f64() > Some(0.0), "{json:#}");
    let events = &json["events"];
    assert_eq!(events["completeness"].as_array().map(Vec::len), Some(3), "{events:#}");
    assert!(events["event_bytes"][0][1].as_u64() > Some(0) && events["event_rate_hz"].as_f64() > Some(0.0));
    let lines = json["ledger"].as_array().expect("a list");
    let line = |source: &str, stage: &str| {
        let found = lines.iter().find(|line| line["source"] == source && line["stage"] == stage);
        found.unwrap_or_else(|| panic!("{source} at {stage} in {lines:#?}")).clone()
    };
    assert!(line("boards", "build")["out"].as_u64() >= Some(900));
    assert!(line("events", "record")["out"].is_u64());
    assert!(json["disk_free_bytes"].as_u64() > Some(0) && json["refused"].as_array().is_some());
    assert!(
        run.handle.snapshot().is_some_and(|snapshot| snapshot.sources.len() == 4),
        "three boards and the events"
    );
    run.command(RunCommand::Stop);
    run.end();
}

#[test]
fn run_control_starts_one_run_after_another() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let record = folder.path().join("runs");
    let text = format!("[run]\ntitle = \"plain\"\n{BOARDS}[record]\ndirectory = {record:?}\n");
    let run_control =
        RunControl::new(Configuration::parse(Path::new("run_control.toml"), text).expect("valid"));
    assert_eq!(run_control.run().state().state, RunState::Configured);
    assert!(run_control.command(&RunCommand::Stop).is_err(), "there is no run yet");
    let new: NewRun =
        serde_json::from_str(r#"{"comment": "with source", "events": 200}"#).expect("plain JSON");
    let first = run_control.start(&new).expect("none before");
    assert!(run_control.start(&new).is_err(), "one at a time");
    let directory = match run_control.wait().as_deref() {
        Some(Ok(summary)) => summary.run_directory.clone().expect("recorded"),
        other => panic!("{other:?}"),
    };
    let run = std::fs::read_to_string(directory.join("run.json")).expect("there");
    assert!(run.contains("\"comment\": \"with source\"") && run.contains("\"title\": \"plain\""), "{run}");
    let last = first.state();
    assert_eq!(last.state, RunState::Stopped);
    let second =
        run_control.start(&NewRun { title: Some("again".to_owned()), ..new }).expect("the first is over");
    let state = second.newer_than(last.sequence, LIMIT).expect("states go on");
    assert!(
        state.sequence > last.sequence && state.title == "again" && state.run.number == last.run.number + 1
    );
    run_control.command(&RunCommand::Stop).expect("it runs");
    assert!(run_control.wait().is_some_and(|ended| ended.as_ref().as_ref().is_ok_and(Summary::is_good)));
}

#[test]
fn a_run_that_cannot_start_is_seen_to_have_failed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let record = folder.path().join("runs");
    let text = format!(
        "[[source]]\nname = \"b\"\nformat = \"fragment\"\nurl = \"tcp://127.0.9.9:1\"\n\
         [record]\ndirectory = {record:?}\n"
    );
    let configuration = Configuration::parse(Path::new("held.toml"), text).expect("valid");
    let handle = RunHandle::new();
    let never = AtomicBool::new(false);
    let mut watch = Watch { show: &mut |_| {}, stop: &never, handle: handle.clone() };
    assert!(thalweg_run::run(&configuration, EndWhen::default(), &mut watch).is_err());
    let state = handle.state();
    assert_eq!(state.state, RunState::Failed);
    assert!(state.failures[0].contains("127.0.9.9"), "{:?}", state.failures);
}

#[test]
fn the_last_state_of_a_run_has_what_failed_while_it_was_written() {
    let run = start(BOARDS);
    let state = run.until("building", |state| built(state) > 10);
    // Where the directory of the run is gone, its run.json cannot be written.
    std::fs::remove_dir_all(&state.run.directory).expect("removed");
    std::fs::write(&state.run.directory, "").expect("written");
    run.command(RunCommand::Stop);
    let last = run.until("over", |state| state.state == RunState::Failed);
    let summary = run.thread.join().expect("no panic");
    assert!(last.failures.iter().any(|failure| failure.contains("run.json")), "{:?}", last.failures);
    assert_eq!(last.failures, summary.failures);
}

/// A rate at which what is on file grows by a batch every two seconds.
const HITS: &str = "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
                    [source.emulate]\nchannels = 16\nrate_hz = 2000\n";

#[test]
fn rates_do_not_beat_with_the_batches_of_the_recorder_and_end_with_the_run() {
    let run = start(HITS);
    // Rates that beat differ by a fifth, one window this way and the next that way: three in a row that agree are never seen then. On a
    // busy machine threads make up for what they have missed for a while, and rates differ, too.
    let (mut last, mut agree) = (None, 0);
    run.until("three windows in a row agree", |state| {
        let decoded = state.sources[0].hit_rate_hz.unwrap_or(0.0);
        if state.rate_window_seconds >= 2.4 && state.ordered_rate_hz != last {
            last = state.ordered_rate_hz;
            let is_near = |rate: Option<f64>| {
                rate.is_some_and(|rate| decoded > 0.0 && (rate / decoded - 1.0).abs() < 0.1)
            };
            let is_alike = is_near(state.ordered_rate_hz) && is_near(state.recorded_rate_hz);
            agree = if is_alike { agree + 1 } else { 0 };
        }
        agree == 3
    });
    run.command(RunCommand::Stop);
    let last = run.until("over", |state| state.state == RunState::Stopped);
    let ended = [last.sources[0].hit_rate_hz, last.ordered_rate_hz, last.recorded_rate_hz];
    assert_eq!((ended, last.rate_window_seconds), ([Some(0.0); 3], 0.0), "nothing more comes");
    run.end();
}

/// What one stage has left out on request, of all sources.
fn left_out(summary: &Summary, stage: Stage) -> u64 {
    let hits = summary.ledger.iter().filter(|line| line.stage == stage && line.unit == Unit::Hits);
    hits.map(|line| line.filtered).sum()
}

/// Hits that were passed on by decoding, of all sources.
fn decoded(state: &LiveState) -> u64 {
    let hits =
        state.ledger.iter().flatten().filter(|line| line.stage == Stage::Decode && line.unit == Unit::Hits);
    hits.map(|line| line.output).sum()
}

/// Pauses a run until nothing of before the pause is on its way any more, and lets it go on for a second.
fn pause_for_a_second(run: &Run) -> f64 {
    run.until("recording", |state| state.hits_recorded > 2000);
    run.command(RunCommand::Pause);
    let began = run.until("paused", |state| state.state == RunState::Paused).elapsed_seconds;
    // What is recorded waits for its batch; what is decoded does not.
    let mut still = (began, 0);
    run.until("without hits for a second", |state| {
        if decoded(state) != still.1 {
            still = (state.elapsed_seconds, decoded(state));
        }
        state.elapsed_seconds > still.0 + 1.0
    });
    run.command(RunCommand::Resume);
    let ended = run.until("going on", |state| state.state == RunState::Running).elapsed_seconds;
    run.until("decoding again", |state| decoded(state) > still.1 + 2000);
    run.command(RunCommand::Stop);
    ended - began
}

#[test]
fn a_pause_inhibits_emulated_boards_and_nothing_is_lost_or_made_up_for() {
    const BOARDS: u16 = 2;
    const CHANNELS: u16 = 4;
    const CHANNEL_RATE_HZ: f64 = 5000.0;
    let source = |name: &str, board: u16| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nfirst_channel = {}\n\
             [source.emulate]\nboard = {board}\nboards = {BOARDS}\nchannels = {CHANNELS}\nrate_hz = {CHANNEL_RATE_HZ}\n",
            board * CHANNELS
        )
    };
    let run = start(&format!("{}{}", source("left", 0), source("right", 1)));
    let paused_seconds = pause_for_a_second(&run);
    let summary = run.end();
    assert_eq!((summary.hits_lost, summary.losses.len()), (Some(0), 0), "{:#?}", summary.losses);
    assert!(summary.ledger_closed && summary.hits_sent == Some(summary.hits_recorded));
    let inhibited = left_out(&summary, Stage::Sender) as f64;
    // The boards' own clocks give their rate: the run's may begin behind theirs on a busy machine.
    let rate_hz = f64::from(BOARDS * CHANNELS) * CHANNEL_RATE_HZ;
    assert!(inhibited > 0.7 * rate_hz * paused_seconds, "{inhibited} of {rate_hz} Hz in {paused_seconds} s");
}

#[test]
fn what_a_board_without_control_sends_in_a_pause_is_read_and_left_out() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let to = free.local_addr().expect("bound");
    drop(free);
    let run =
        start(&format!("[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"udp://{to}\"\n"));
    run.until("listening", |state| state.state == RunState::Running);
    let board = thalweg_readout::host::HostSettings {
        board: Box::new(thalweg_frontend::digitizer2::emulate::Settings::default()),
        place: thalweg_readout::host::Place::Stream { to },
        loss: 0.0,
        truth: None,
    };
    let mut board = thalweg_readout::host::HostedBoard::new(board).expect("loopback");
    board.start();
    pause_for_a_second(&run);
    let summary = run.end();
    board.end();
    assert_eq!((summary.hits_lost, summary.losses.len()), (Some(0), 0), "{:#?}", summary.losses);
    let left_out = left_out(&summary, Stage::Decode);
    assert!(summary.ledger_closed && left_out > 1000, "{left_out}");
    let decoded: u64 = summary.sources.iter().map(|source| source.hits).sum();
    assert_eq!(decoded, summary.hits_recorded, "what was left out is not counted as passed on");
}
