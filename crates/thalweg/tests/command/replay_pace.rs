//! Replays that keep to the arrival marks: the same files as of one that is as fast as possible, no sooner than the data came.

use std::net::UdpSocket;
use std::time::Instant;

use serde_json::Value;

use crate::process::{Folder, Running, assert_ledger_balances, free_port, number, run_directory, thalweg};
use crate::retention::get;

/// A board that sends hits for a second, recorded in batches of little time.
fn recorded(folder: &Folder) -> Value {
    let text = format!(
        "[run]\ntitle = \"paced\"\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nchannels = 4\n\
         [source.emulate]\nchannels = 4\nrate_hz = 5000\nwaveform_samples = 0\n\
         [record]\ndirectory = \"{}\"\ntables = [\"hits\", \"raw\"]\nbatch_age_s = 0.02\n",
        folder.at("runs")
    );
    let summary =
        thalweg(&["run", &folder.file("run.toml", &text), "--seconds", "1", "--json"]).done().json();
    assert_ledger_balances(&summary);
    summary
}

/// When the last bytes of a run came, seconds after its start.
fn last_mark_s(run: &str) -> f64 {
    let inspected = thalweg(&["inspect", run, "--json"]).done().json();
    let marks =
        inspected["raw"].as_array().into_iter().flatten().filter_map(|raw| raw["last_mark_ns"].as_u64());
    marks.max().unwrap_or_else(|| panic!("raw bytes in {inspected:#}")) as f64 / 1e9
}

#[test]
fn a_paced_replay_gives_the_same_files_and_gives_nothing_before_it_is_due() {
    let folder = Folder::new();
    let run = run_directory(&recorded(&folder));
    let hits = |run: &str| std::fs::read(format!("{run}/hits.arrows")).expect("recorded");
    for (pace, speed) in [(&["--real-time"][..], 1.0), (&["--speed", "3.5"], 3.5)] {
        // The command's own time begins a little after its threads, and so after the clock that they keep to.
        let start = Instant::now();
        let again = thalweg(&[&["replay", &run, "--json"], pace].concat()).done().json();
        let elapsed_s = start.elapsed().as_secs_f64();
        assert_ledger_balances(&again);
        assert!(hits(&run) == hits(&run_directory(&again)), "{pace:?}");
        let least_s = last_mark_s(&run) / speed;
        assert!(least_s > 0.2 && elapsed_s >= least_s, "{pace:?}: {elapsed_s} s, {least_s} s at least");
    }
}

#[test]
fn a_slow_replay_is_watched_on_a_page_and_stopped_in_good_order() {
    let folder = Folder::new();
    let first = recorded(&folder);
    let address = format!("127.0.0.1:{}", free_port());
    // The time from the run's start to its first hit passes as slowly, and on a busy machine it is long.
    let pace = ["--speed", "0.1", "--listen", &address, "--states", "0.1", "--json"];
    let running = Running::start(&[&["replay", &run_directory(&first)], &pace[..]].concat());
    running.wait_for_state("hits", |state| number(state, "hits_recorded") > 0);
    assert_eq!(get(&address, "/api/state")["title"], "replay of paced");
    running.signal("INT");
    let summary = running.wait().done().json();
    assert_ledger_balances(&summary);
    assert_eq!(summary["state"], "stopped", "{summary:#}");
    assert!(number(&summary, "hits_recorded") < number(&first, "hits_recorded"), "{summary:#}");
    thalweg(&["verify", &run_directory(&summary)]).done();
}

#[test]
fn a_speed_that_is_none_is_refused_with_what_to_write() {
    for speed in ["0", "-1", "NaN", "inf", "1e999", "fast"] {
        let ended = thalweg(&["replay", "runs/000001", "--speed", speed]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.error.contains("write a number above 0, such as 10 or 0.1"), "{}", ended.error);
    }
    let ended = thalweg(&["replay", "runs/000001", "--speed", "2", "--real-time"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.error.contains("cannot be used with"), "{}", ended.error);
}

/// The rows of the events of a run and of their fragments, with every time. Where their batches end on file depends on when the ledger was
/// asked for a snapshot.
fn rows_of_events(folder: &Folder, run: &str) -> [String; 2] {
    ["events", "fragments"].map(|table| {
        let out = folder.at("rows.csv");
        thalweg(&["export", run, "--to", "csv", "--table", table, "--out", &out]).done();
        let rows = std::fs::read_to_string(&out).expect("exported");
        std::fs::remove_file(&out).expect("there");
        rows
    })
}

#[test]
fn a_replay_of_triggered_boards_builds_the_same_events_at_any_pace_and_sends_no_busy() {
    let folder = Folder::new();
    let trigger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    trigger.set_nonblocking(true).expect("a socket");
    let text = format!(
        "[[source]]\nname = \"lab\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 4\n\
         [trigger]\nrate_hz = 500.0\ntriggers = 200\n[busy]\nudp = \"{}\"\n[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\", \"raw\"]\nbatch_age_s = 0.01\n",
        trigger.local_addr().expect("bound"),
        folder.at("runs")
    );
    let first = thalweg(&["run", &folder.file("run.toml", &text), "--seconds", "60", "--json"]).done().json();
    let run = run_directory(&first);
    let datagrams = || std::iter::from_fn(|| trigger.recv(&mut [0; 64]).ok()).count();
    assert!(datagrams() > 0, "the run sends BUSY");
    let replay = |pace: &[&str]| {
        let summary = thalweg(&[&["replay", &run, "--json"], pace].concat()).done().json();
        assert_ledger_balances(&summary);
        rows_of_events(&folder, &run_directory(&summary))
    };
    let (fast, paced) = (replay(&[]), replay(&["--speed", "2"]));
    assert!(fast == paced && fast == rows_of_events(&folder, &run), "events and fragments");
    let slow = Running::start(&["replay", &run, "--json", "--speed", "0.1", "--states", "0.1"]);
    let stopped =
        slow.stop_when("events", |state| number(&state["events"], "events_recorded") > 0).done().json();
    assert_ledger_balances(&stopped);
    assert_eq!(datagrams(), 0, "the trigger may be taking data for another run");
}
