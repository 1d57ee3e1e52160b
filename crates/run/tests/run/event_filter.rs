//! An event filter of one's own that hangs: it costs one event, and the run goes on and ends without it.
//!
//! ```text
//!  EventFilterKind + add() ─► [filter] kind ─► a worker hangs with one event ─► undecided, counted; the others select
//! ```

use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_analysis::event_filter::{self, EventFilterKind};
use thalweg_data::{Answers, EventFilter, Events};
use thalweg_monitor::state::EventSelection;
use thalweg_run::RunState;
use thalweg_run::config::Configuration;
use thalweg_run::supervise::{EndWhen, RunCommand, RunHandle, Summary, Watch};

/// Keeps events with even triggers, and never answers for the trigger that it is given.
struct HangsAt(u64);

impl EventFilter for HangsAt {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        for event in answers.due_of(events) {
            if event.trigger == self.0 {
                loop {
                    std::thread::park();
                }
            }
            answers.give(event.trigger % 2 == 0);
        }
    }
}

const HANGS: EventFilterKind = EventFilterKind {
    word: "hangs_at",
    make: |keep, boards| {
        assert_eq!(boards.names.len(), 3, "it is given the boards");
        let trigger = keep.parse().map_err(|_| format!("\"{keep}\" is no trigger number"))?;
        Ok(Box::new(HangsAt(trigger)))
    },
};

/// The same, but it answers after a tenth of a second.
struct LateAt(u64);

impl EventFilter for LateAt {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        for event in answers.due_of(events) {
            if event.trigger == self.0 {
                std::thread::sleep(Duration::from_millis(100));
            }
            answers.give(true);
        }
    }
}

const LATE: EventFilterKind = EventFilterKind {
    word: "late_at",
    make: |keep, _| Ok(Box::new(LateAt(keep.parse().map_err(|_| "no trigger number".to_owned())?))),
};

/// Decides nothing before the test has seen that the trigger is held back.
struct WaitsForBusy;

static HAS_SEEN_BUSY: AtomicBool = AtomicBool::new(false);

impl EventFilter for WaitsForBusy {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        while !HAS_SEEN_BUSY.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        answers.give_each(events.events.iter().map(|_| true));
    }
}

const WAITS: EventFilterKind =
    EventFilterKind { word: "waits_for_busy", make: |_, _| Ok(Box::new(WaitsForBusy)) };

/// Decides nothing before the test has seen that the run is being stopped.
struct WaitsForStop;

static HAS_SEEN_STOP: AtomicBool = AtomicBool::new(false);

impl EventFilter for WaitsForStop {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        while !HAS_SEEN_STOP.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        answers.give_each(events.events.iter().map(|_| true));
    }
}

const WAITS_FOR_STOP: EventFilterKind =
    EventFilterKind { word: "waits_for_stop", make: |_, _| Ok(Box::new(WaitsForStop)) };

pub fn add() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| {
        event_filter::add(HANGS).expect("a new word");
        event_filter::add(LATE).expect("a new word");
        event_filter::add(WAITS).expect("a new word");
        event_filter::add(WAITS_FOR_STOP).expect("a new word");
    });
}

/// Two seconds of triggers: whoever waits for a deadline of one still takes what boards have before these give up.
const TRIGGERS: &str = "rate_hz = 500.0\ntriggers = 1000";

fn configuration(folder: &Path, filter: &str, triggers: &str) -> Result<Configuration, String> {
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 3\n[trigger]\nprogram = \"constant\"\n\
         {triggers}\n[build]\nfull = \"hold\"\n[filter]\n{filter}\n[record]\n\
         directory = {:?}\ntables = [\"events\", \"fragments\"]\n",
        folder.join("runs")
    );
    Configuration::parse(Path::new("filter.toml"), text).map_err(|error| error.to_string())
}

fn run(filter: &str) -> (Summary, tempfile::TempDir) {
    add();
    let folder = tempfile::tempdir().expect("temporary folder");
    let never = AtomicBool::new(false);
    let mut watch = Watch { show: &mut |_| {}, stop: &never, handle: RunHandle::new() };
    let end = EndWhen { hits: None, seconds: Some(60.0), events: None };
    let configuration = configuration(folder.path(), filter, TRIGGERS).expect("valid");
    (thalweg_run::run(&configuration, end, &mut watch).expect("it starts"), folder)
}

#[test]
fn a_worker_that_never_answers_costs_one_event_and_is_named_when_the_run_has_ended() {
    for policy in ["keep", "drop"] {
        let filter = format!(
            "kind = \"hangs_at\"\nkeep = \"100\"\nworkers = 2\ndeadline_ms = 1000\nundecided = \"{policy}\""
        );
        let (summary, _folder) = run(&filter);
        assert_eq!(summary.discrepancies, [""; 0]);
        let owed: Vec<&String> =
            summary.failures.iter().filter(|text| text.contains("never answered for")).collect();
        assert_eq!(owed.len(), 1, "{:?}", summary.failures);
        assert!(owed[0].contains("worker \"record-filter-"), "{owed:?}");
        assert!(owed[0].contains("never answered for the event of trigger 100"), "{owed:?}");
        let events = summary.events.clone().expect("it builds events");
        let selection = events.selection.expect("it has a filter");
        let undecided = selection.undecided_kept + selection.undecided_lost;
        assert_eq!(undecided, 1, "the other worker decides those behind it: {selection:?}");
        assert_eq!(selection.undecided_lost > 0, policy == "drop", "{selection:?}");
        let accepted =
            events.triggers_offered.zip(events.triggers_refused).map(|(all, refused)| all - refused);
        assert_eq!(Some(events.events_built), accepted, "the trigger goes on: {}", summary.loss.text());
        let (rejected, lost) = (selection.rejected, selection.undecided_lost);
        assert_eq!(events.events_recorded + rejected + lost, events.events_built, "{selection:?}");
        assert!(rejected > 0);
        assert_eq!(summary.loss.text().contains("no events lost"), lost == 0, "{}", summary.loss.text());
        let recorded = summary.run_directory.expect("recorded");
        let report = thalweg_record::verify(&recorded).expect("readable");
        assert!(report.problems.iter().all(|text| !text.contains("balance")), "{:?}", report.problems);
        assert_eq!(report.events.events, events.events_recorded);
        assert_eq!(report.events.filter.as_deref(), Some("hangs_at: 100"));
        let marked = report.events.selected.get("undecided").copied().unwrap_or(0);
        assert_eq!(marked, selection.undecided_kept, "{:?}", report.events.selected);
    }
}

#[test]
fn a_run_ends_although_its_only_worker_hangs_with_the_first_event() {
    let (summary, _folder) = run("kind = \"hangs_at\"\nkeep = \"1\"\ndeadline_ms = 50\nundecided = \"drop\"");
    assert_eq!(summary.discrepancies, [""; 0]);
    let events = summary.events.expect("it builds events");
    let selection = events.selection.expect("it has a filter");
    assert_eq!(selection.undecided_lost + selection.rejected + events.events_recorded, events.events_built);
    assert!(selection.undecided_lost > events.events_built / 2, "nobody decides: {selection:?}");
    let loss = summary.losses.iter().find(|loss| loss.reason.word() == "undecided").expect("listed");
    assert!(loss.advice.contains("raise `[filter] deadline_ms`"), "{}", loss.advice);
}

#[test]
fn a_kind_says_what_it_cannot_read() {
    add();
    let folder = tempfile::tempdir().expect("temporary folder");
    let configuration = configuration(folder.path(), "kind = \"hangs_at\"\nkeep = \"never\"", TRIGGERS)
        .expect("a filter is made with the plan");
    let error = thalweg_run::plan::Plan::of(&configuration).expect_err("refused").to_string();
    assert!(error.contains("[filter]: `keep`: \"never\" is no trigger number"), "{error}");
}

/// A run with a filter that waits, which ends when it is stopped.
fn until_stopped(kind: &str) -> (RunHandle, std::thread::JoinHandle<Summary>, tempfile::TempDir) {
    add();
    let folder = tempfile::tempdir().expect("temporary folder");
    let filter = format!("kind = \"{kind}\"\nkeep = \"\"\ndeadline_ms = 600_000\nundecided = \"drop\"");
    let configuration = configuration(folder.path(), &filter, "rate_hz = 2000.0").expect("valid");
    let handle = RunHandle::new();
    let watched = handle.clone();
    let run = std::thread::spawn(move || {
        let never = AtomicBool::new(false);
        let mut watch = Watch { show: &mut |_| {}, stop: &never, handle: watched };
        let end = EndWhen { hits: None, seconds: Some(600.0), events: None };
        thalweg_run::run(&configuration, end, &mut watch).expect("it starts")
    });
    (handle, run, folder)
}

/// Whoever looks at a run that empties its queues sees how that goes on.
#[test]
fn the_state_of_a_run_that_is_being_stopped_is_that_of_now() {
    let (handle, run, _folder) = until_stopped("waits_for_stop");
    let (mut seen, mut stopping) = (0, Vec::new());
    for _ in 0..120 {
        let Some(state) = handle.newer_than(seen, Duration::from_secs(1)) else { continue };
        seen = state.sequence;
        if state.state == RunState::Stopping {
            stopping.push(state.elapsed_seconds);
        } else if state.events.as_ref().is_some_and(|events| events.events_built > 0) {
            let _asked = handle.command(&RunCommand::Stop);
        }
        if stopping.len() == 3 {
            break;
        }
    }
    HAS_SEEN_STOP.store(true, Ordering::Release);
    let summary = run.join().expect("no panic");
    assert!(summary.is_good(), "{:?} {:?}", summary.discrepancies, summary.failures);
    assert_eq!(stopping, [summary.elapsed_seconds; 3], "data were taken until the stop");
}

#[test]
fn a_filter_that_is_too_slow_holds_the_trigger_back_and_loses_nothing() {
    let (handle, run, _folder) = until_stopped("waits_for_busy");
    let mut seen = 0;
    while !run.is_finished() {
        let Some(state) = handle.newer_than(seen, Duration::from_secs(1)) else { continue };
        seen = state.sequence;
        let refused = state.trigger.as_ref().map_or(0, |trigger| trigger.refused);
        let is_busy = state.events.as_ref().is_some_and(|events| events.sample.busy);
        if is_busy && refused > 0 {
            HAS_SEEN_BUSY.store(true, Ordering::Release);
        }
        let recorded = state.events.as_ref().map_or(0, |events| events.events_recorded);
        if recorded > 0 && !is_busy {
            let _ended = handle.command(&RunCommand::Stop);
        }
    }
    let summary = run.join().expect("no panic");
    assert!(summary.is_good(), "{:?} {:?}", summary.discrepancies, summary.failures);
    let events = summary.events.expect("it builds events");
    assert!(events.triggers_refused.is_some_and(|refused| refused > 0), "{events:#?}");
    assert_eq!(events.events_recorded, events.events_built);
    assert_eq!(events.selection, Some(EventSelection::default()), "nothing is rejected or undecided");
}
